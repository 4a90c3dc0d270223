"""The tables of cluster runs have the columns that are declared, and the page lists them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hocket import simulate_cluster
from hocket.cluster.schemas import JOBS, LINKS, STREAMED, SUMMARIES
from hocket.cluster.trace import Trace

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
DECLARED = {**STREAMED, "jobs": JOBS, "links": LINKS, "summaries": SUMMARIES}


def documented() -> Iterator[tuple[str, list[str]]]:
    """The name and the columns in each row of the page's list of tables."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Tables\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if match := re.match(r"\| `(\w+)` \|.*\| `([^`]+)`", line):
            yield match[1], match[2].split(", ")


def test_the_page_lists_each_table_with_the_declared_columns() -> None:
    assert dict(documented()) == {name: schema.names() for name, schema in DECLARED.items()}


@pytest.mark.parametrize("scheduler", ["random", "themis+cassini"])
def test_a_run_has_the_declared_tables(make_trace: Callable[..., Trace], scheduler: str) -> None:
    jobs = [{"name": name, "arrival": "0 s", "workers": 2, "iterations": 20} for name in ("a", "b")]
    run = simulate_cluster(make_trace(jobs), scheduler)
    assert {name: table.schema for name, table in run.tables.items()} == DECLARED
