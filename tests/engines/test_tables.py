"""Tables have the columns that the engines declare, even without rows, and the docs list them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest

from hocket import _hocket, simulate
from hocket.plan import Engine
from hocket.results import frame

Schemas = dict[str, pl.Schema]

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
GROUPS: "Sequence[_hocket._TableGroup]" = (
    "events",
    "jobs",
    "training",
    "queues",
    "rates",
    "utilisation",
    "repeats",
)


def schemas(engine: Engine, *groups: "_hocket._TableGroup") -> Schemas:
    tables = _hocket.table_schemas(engine, groups)
    return {name: frame(columns).schema for name, columns in tables.items()}


def run_of(engine: Engine, *, trains: bool, **run: object) -> Schemas:
    """The tables of a run of two jobs over one cable between two switches."""
    links = [{"ends": list(ends), "rate": "50 Gbps"} for ends in (("s1", "t1"), ("s2", "t2"), ("t1", "t2"))]
    period = {"period": "2 ms", "up": [{"start": "1 ms", "duration": "1 ms", "rate": "40 Gbps"}]}
    work: dict[str, Any] = {"training": {"collective": "all-to-all", "bytes": "1 MB"}} if trains else period
    jobs = [{"name": name, "placement": ["s1", "s2"], **work} for name in ("a", "b")]
    jobs[1] |= {"readjust": True, "time_shift": "1 ms"} if not trains else {}
    plan = {"fabric": {"links": links}, "run": {"engine": engine, "iterations": 5, **run}, "jobs": jobs}
    return {name: table.schema for name, table in simulate(plan).tables.items()}


@pytest.mark.parametrize("trains", [False, True])
def test_a_run_has_the_tables_of_its_groups_with_the_declared_columns(trains: bool) -> None:
    training: Sequence[_hocket._TableGroup] = ["training"] if trains else []
    assert run_of("flow", trains=trains) == schemas("flow", "jobs", *training)
    assert run_of("flow", trains=trains, sample_every="1 ms") == schemas(
        "flow", "jobs", "utilisation", *training
    )
    assert run_of("packet", trains=trains) == schemas("packet", "jobs", "events", *training)
    assert run_of("packet", trains=trains, sample_every="100 us", skip_ahead=True) == schemas(
        "packet", "jobs", "events", "queues", "rates", "utilisation", "repeats", *training
    )


def test_no_declared_table_has_a_row() -> None:
    for engine in get_args(Engine):
        for columns in _hocket.table_schemas(engine, GROUPS).values():
            assert frame(columns).is_empty()


def test_an_unknown_engine_or_group_of_tables_is_refused() -> None:
    with pytest.raises(ValueError, match=r'^engine "fluid": must be "flow" or "packet"$'):
        _hocket.table_schemas("fluid", ["jobs"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'^group of tables "sampled": must be "events", .* or "repeats"$'):
        _hocket.table_schemas("packet", ["sampled"])  # type: ignore[list-item]


def documented() -> Iterator[tuple[Engine, list[str], list[str]]]:
    """The engine, tables and columns that each row of the page's lists of tables names."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Tables\n")[1].split("\n## ")[0]
    engine: Engine = "flow"
    for line in section.splitlines():
        if line.startswith("The packet engine has"):
            engine = "packet"
        if line.startswith("| `"):
            _, tables, _, columns, _ = line.split("|")
            # Names in brackets, or after a colon or semicolon, are values, not columns.
            columns = re.split("[:;]", re.sub(r"\([^)]*\)", "", columns))[0]
            yield engine, re.findall("`(.+?)`", tables), re.findall("`(.+?)`", columns)


@pytest.mark.parametrize(("engine", "tables", "columns"), list(documented()))
def test_the_documented_columns_of_a_table_are_the_declared_ones(
    engine: Engine, tables: list[str], columns: list[str]
) -> None:
    declared = schemas(engine, *GROUPS)
    for name in tables:
        # One row may describe tables that differ in a column.
        assert [each for each in columns if each in declared[name]] == declared[name].names()
    assert set(columns) == {column for name in tables for column in declared[name].names()}


def test_every_declared_table_is_documented() -> None:
    listed: dict[str, set[str]] = {"flow": set(), "packet": set()}
    for engine, tables, _ in documented():
        listed[engine] |= set(tables)
    # The packet engine's list leaves out what both engines have.
    assert schemas("flow", "jobs", "training").keys() == listed["flow"]
    assert schemas("packet", *GROUPS).keys() - schemas("flow", "jobs", "training").keys() <= listed["packet"]
    assert listed["packet"] <= schemas("packet", *GROUPS).keys()
