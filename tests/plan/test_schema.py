"""`hocket schema`: what editors know of plans and traces."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from tests.conftest import Command

from hocket.cluster.file import TraceFile
from hocket.cluster.trace import trace_schema
from hocket.plan import Plan, plan_schema
from hocket.plan.json_schema import descriptions_of, tables_below
from hocket.plan.schema import Table
from hocket.starters import NAMES, find_starter

ROOT = Path(__file__).parents[2]
PLAN, TRACE = plan_schema(), trace_schema()
TABLES = list(dict.fromkeys((*tables_below(Plan), *tables_below(TraceFile))))
FILES = [
    *sorted((ROOT / "examples").rglob("*.toml")),
    *sorted((ROOT / "python" / "hocket" / "starters").glob("*.toml")),
]


def schema_for(tables: dict[str, Any]) -> dict[str, Any]:
    is_trace = any(job.get("model") for job in tables.get("jobs", ())) or "jobs" not in tables
    return TRACE if is_trace else PLAN


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_editor_finds_nothing_wrong_with_a_file_that_is_right(path: Path) -> None:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator(schema_for(tables)).validate(tables)


@pytest.mark.parametrize(
    "congestion",
    [
        "dcqcn",
        {"dcqcn": {"preset": "mlx5", "increase_timer": "100 us"}},
        {"dcqcn": {"T": "100 us"}},
        {"dcqcn": {"rp_time_reset": 100}},
        {"timely": {"RATE_AI": "10 Mbps"}},
    ],
    ids=str,
)
def test_an_editor_knows_every_spelling_of_a_congestion_control(congestion: object) -> None:
    jobs = [{"name": "a", "period": "180 ms", "up": [], "congestion": congestion}]
    plan = {"link": {"capacity": "50 Gbps"}, "jobs": jobs}
    Draft202012Validator(PLAN).validate(plan)


@pytest.mark.parametrize(
    "wrong",
    [
        {"link": {"capacity": 50}},
        {"link": {"capcity": "50 Gbps"}},
        {"run": {"engine": "flows"}},
        {"jobs": [{"name": "a", "congestion": "dcqc"}]},
    ],
    ids=str,
)
def test_an_editor_finds_what_a_single_key_has_wrong(wrong: dict[str, Any]) -> None:
    plan = {"link": {"capacity": "50 Gbps"}, "jobs": [{"name": "a"}]}
    validator = Draft202012Validator(PLAN)
    validator.validate(plan)
    assert not validator.is_valid(plan | wrong)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_says_what_it_is(table: type[Table]) -> None:
    assert descriptions_of(table).keys() >= set(table.model_fields)
    for text in descriptions_of(table).values():
        assert text.endswith(".")


@pytest.mark.parametrize("schema", [PLAN, TRACE], ids=["plan", "trace"])
def test_an_editor_shows_a_description_of_every_key(schema: dict[str, Any]) -> None:
    tables = {"": schema, **schema["$defs"]}
    assert [
        f"{table}.{key}"
        for table, definition in tables.items()
        for each in (definition, *definition.get("anyOf", ()))
        for key, value in each.get("properties", {}).items()
        if "description" not in value
    ] == []


def test_defaults_are_written_as_in_a_file() -> None:
    tables = PLAN["$defs"]
    assert tables["Link"]["properties"]["delay"]["default"] == "500 ns"
    assert tables["Collectives"]["properties"]["all_reduce"]["default"] == "ring"
    assert tables["Switch"]["properties"]["marking"]["default"][0]["rate"] == "25 Gbps"
    assert "default" not in tables["Rail"]["properties"]["servers_per_unit"], "it follows from servers"


def test_the_command_prints_the_schema(hocket: Command) -> None:
    assert hocket("schema").json() == PLAN
    assert hocket("schema", "--trace").json() == TRACE


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_names_the_schema_that_the_command_it_mentions_writes(name: str) -> None:
    head = find_starter(name).text.split("\n\n")[0]
    kind = "trace" if name == "cluster" else "plan"
    assert head.endswith(f"\n#:schema {kind}.schema.json")
    command = "hocket schema --trace" if kind == "trace" else "hocket schema"
    assert f"`{command} > {kind}.schema.json`" in head
