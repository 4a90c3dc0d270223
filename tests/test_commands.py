"""What all commands have in common: a table is also JSON, an option name has one meaning, and a command is
imported when it is used.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.conftest import Command

from hocket import cli, extensions
from hocket.console import out

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "experiments" / "recorded-allreduce" / "one-phase.csv"
REFERENCE = ROOT / "tests" / "peer" / "data"

NO_TABLE = {
    *("agent", "serve", "register", "unregister", "man", "schema", "tcp load", "tcp unload", "testbed down"),
}
"""Commands that print sentences or one document, if anything. A new command prints JSON too, or is added
here.
"""

WITHOUT_COLUMNS = {"doctor"}
"""Commands that print JSON, or else sentences and no table."""

PARSED_ELSEWHERE = {"testbed run"}
"""Its JSON needs a testbed that is up: `tests/testbed/test_live.py`."""

UP = [{"start": "60 ms", "duration": "40 ms", "rate": "160 Mbps"}]
PLAN = {
    "link": {"capacity": "200 Mbps"},
    "run": {"iterations": 3},
    "jobs": [{"name": name, "period": "100 ms", "up": UP} for name in ("a", "b")],
}
FABRIC = {
    "fabric": {"testbed": "cassini"},
    "jobs": [{"name": "a", "period": "100 ms", "up": UP, "placement": ["s0", "s1"]}],
}
TRACE = {
    "fabric": {"testbed": "cassini"},
    "jobs": [{"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 100}],
}
TIMES = {"mean_ns": 311_900_000, "p99_ns": 1_234_500_000}
SPEEDUP = {"mean": 1.13, "p99": 0.98, "verdict": "does not help"}
MEASURED = {**TIMES, "iterations": 1_234_567}
JOB = {
    "job": "resnet50-4711",
    "profile": {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]},
    "workers": [],
    "links": [],
    "registered_ns": 0,
    "last_report_ns": None,
    "reason": "score 1.00 with b, c, d and 12 more on tor1->spine2: taking turns helps",
    "heard": 8,
    "ranks": 8,
    "iteration": 1_234_567,
    "ideal_ns": 180_000_000,
    "predicted": {"without_slot": TIMES, "in_slot": TIMES, "speedup": SPEEDUP},
    "measured": {"without_slot": MEASURED, "in_slot": MEASURED, "speedup": SPEEDUP, "against": "measured"},
    "slot": {"version": 1234, "origin_ns": 0, "period_ns": 1, "iteration": 1, "tolerance_ns": 1},
    "not_followed": "dry run",
    "dry_run": True,
    "applied": None,
    "deviation_ns": 1_234_500_000,
    "adjustments": 123,
}
CASES: dict[str, tuple[str | Path, ...]] = {
    "init": (),
    "compat": ("plan.json",),
    "run": ("plan.json",),
    "trace": ("trace.json",),
    "cluster": ("trace.json", "--scheduler", "themis", "--scheduler", "random"),
    "explain": ("hocket-runs/trace-themis",),
    "replay": ("hocket-runs/trace-themis", "--at", "10 s", "--for", "1 s", "--engine", "flow"),
    "profile": (RECORDED,),
    "export": ("plan.json",),
    "jobs": (),
    "doctor": (),
    "fabric": ("fabric.json",),
    "compare": ("one", "two"),
    "sweep": ("plan.json", "--set", "run.iterations=2,3", "--no-cache"),
    "tcp status": (),
    "tcp watch": ("--seconds", "0"),
    "testbed up": ("plan.json", "--dry-run"),
    "testbed status": (),
    "reproduce": ("--list",),
    "validate": ("--reference", REFERENCE, "two2one/pfc"),
}
"""The arguments of a call of each command that prints a table."""

NEEDED = {
    "explain": [("cluster", "trace.json", "--scheduler", "themis")],
    "replay": [("cluster", "trace.json", "--scheduler", "themis")],
    "compare": [("run", "plan.json", "--out", name) for name in ("one", "two")],
}
"""The commands that have to run before it."""

SEVERAL_KINDS = {
    "--out": {"DIR", "FILE"},
    "--set": {"KEY=VALUE", "KEY=V1,V2,…"},
    "--scheduler": {"NAME", "FILE"},
}
"""Options that take more than one kind of value: a result of several files or of one, one value or several in
turn, any scheduler or only the user's own."""


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command by the words that a user types, those of groups too."""
    group = typer.main.get_command(cli.app) if group is None else group
    for name in group.list_commands(None):
        entry = group.get_command(None, name)
        command = entry.command if isinstance(entry, cli.ListedCommand) else entry
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def options_of(command: Any) -> dict[str, Any]:
    return {word: each for each in command.params for word in each.opts if word.startswith("--")}


def test_every_command_that_prints_a_table_has_json() -> None:
    assert {name for name, command in commands() if "--json" not in options_of(command)} == NO_TABLE
    assert {name for name, _ in commands()} == NO_TABLE | PARSED_ELSEWHERE | set(CASES)


def test_a_command_that_prints_json_prints_wide_tables_too() -> None:
    of_tables = {name for name, command in commands() if "--json" in options_of(command)} - WITHOUT_COLUMNS
    assert {name for name, command in commands() if "--wide" in options_of(command)} == of_tables


@pytest.fixture
def prepared(hocket: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the files that a command of `CASES` reads."""

    def prepare(name: str) -> None:
        for file, tables in {"plan": PLAN, "fabric": FABRIC, "trace": TRACE}.items():
            (tmp_path / f"{file}.json").write_text(json.dumps(tables), encoding="utf-8")
        monkeypatch.setattr("hocket.service.client.Client.jobs", lambda _: [JOB])
        monkeypatch.setattr("hocket.tcp.commands._connections", lambda *_: [])
        monkeypatch.setattr("hocket.tcp.control.phase_map", lambda: open("/dev/null"))  # noqa: SIM115
        for needed in NEEDED.get(name, []):
            assert hocket(*needed).code == 0

    return prepare


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize("name", sorted(CASES.keys() - WITHOUT_COLUMNS))
def test_no_table_is_wider_than_the_terminal(
    hocket: Command,
    prepared: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    columns: int,
) -> None:
    prepared(name)
    monkeypatch.setattr(type(out), "room", columns)

    outcome = hocket(*name.split(), *CASES[name])

    assert outcome.code == 0, outcome.err
    # Columns are two spaces apart, the words of a sentence one.
    tables = [line for line in outcome.out.splitlines() if "  " in line.strip()]
    assert max(map(len, tables), default=0) <= columns


@pytest.mark.parametrize("name", CASES)
def test_json_goes_to_stdout_alone(hocket: Command, prepared: Callable[[str], None], name: str) -> None:
    prepared(name)

    outcome = hocket(*name.split(), *CASES[name], "--json")

    assert outcome.code == 0, outcome.err
    # Strict JSON: parsers other than Python's do not accept NaN.
    assert isinstance(json.loads(outcome.out, parse_constant=pytest.fail), list | dict)


def test_an_option_word_takes_the_same_kind_of_value_everywhere() -> None:
    kinds: dict[str, set[str | None]] = defaultdict(set)
    for _, command in commands():
        for word, option in options_of(command).items():
            kind = "flag" if option.is_flag else option.metavar
            kinds[word].add(kind and kind.partition(".")[0])
    assert {word: several for word, several in kinds.items() if len(several) > 1} == SEVERAL_KINDS


def test_every_command_is_listed_under_one_heading() -> None:
    ours = [name for names in cli.GROUPS.values() for name in names]
    assert sorted(ours) == sorted({*cli.COMMANDS, *extensions.DISTRIBUTIONS})


@pytest.mark.parametrize("name", ["", "tcp", "testbed", "compat", "tcp load"])
def test_help_is_never_cut_and_has_a_short_option(hocket: Command, name: str) -> None:
    asked = hocket(*name.split(), "-h")
    assert asked.code == 0
    assert asked.out == hocket(*name.split(), "--help").out
    assert "..." not in asked.out.replace("[ARGS]...", "")
    assert "…" not in asked.out


def test_the_manual_page_has_every_command_and_every_option(hocket: Command) -> None:
    page = hocket("man").out.replace("\\-", "-")
    for name, command in commands():
        assert f"\\fBhocket {name}\\fR" in page
        for word, option in options_of(command).items():
            assert (f"\\fB{word}" in page) or (f", {word}" in page), (name, word, option)


def test_the_manual_page_is_formatted_without_a_warning(hocket: Command, tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    assert hocket("man", "--out", tmp_path).code == 0
    read = ["groff", "-man", "-Tutf8", "-ww", "-k", str(tmp_path / "hocket.1")]
    formatted = subprocess.run(read, capture_output=True, text=True, check=True)
    assert formatted.stderr == ""
    # man overstrikes bold letters.
    assert "hocket testbed up" in re.sub(".\b", "", formatted.stdout)


def test_every_summary_fits_on_a_line_of_the_list(hocket: Command) -> None:
    listed = hocket("--help").out.splitlines()
    for name, (_, summary) in cli.COMMANDS.items():
        assert [line for line in listed if line.split() == [name, *summary.split()]], name


def test_a_command_is_imported_when_it_is_used() -> None:
    script = "import sys, hocket.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(loaded.stdout.split())
    assert "hocket.cli" in modules
    assert not {"hocket.compat", "hocket.plan", "hocket.service"} & modules
    assert not {"fastapi", "matplotlib", "polars", "pydantic", "sqlalchemy"} & modules


def test_a_mistyped_command_gets_the_closest(hocket: Command) -> None:
    outcome = hocket("cmpare")
    assert outcome.code == 2
    assert "No such command 'cmpare'. Did you mean 'compare'" in outcome.err


def test_the_seed_of_a_run_overrides_that_of_its_plan(hocket: Command, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "seed": 2}), encoding="utf-8")
    assert hocket("run", "plan.json", "--json").json()["seed"] == 2
    assert hocket("run", "plan.json", "--seed", "3", "--force", "--json").json()["seed"] == 3
