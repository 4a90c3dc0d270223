"""Output: no run is replaced without `--force`, and a mistyped path creates no directories."""

import json
from pathlib import Path

import pytest
from tests.conftest import Command

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "examples" / "hpcc" / "config.txt"
UP = [{"start": "60 ms", "duration": "40 ms", "rate": "160 Mbps"}]
PLAN = {
    "link": {"capacity": "200 Mbps"},
    "run": {"iterations": 3},
    "jobs": [{"name": name, "period": "100 ms", "up": UP} for name in ("a", "b")],
}
TRACE = {
    "fabric": {"testbed": "cassini"},
    "jobs": [{"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 100}],
}
REFUSED = "contains another run; --force replaces it, --out DIR writes elsewhere"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    for name, tables in {"plan": PLAN, "trace": TRACE}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(tables), encoding="utf-8")


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        (("run", "plan.json"), ("--set", "run.iterations=2"), "plan"),
        (("run", "plan.json"), ("--engine", "packet"), "plan"),
        (("run", "plan.json"), ("--seed", "2"), "plan"),
        (("cluster", "trace.json", "--scheduler", "random"), ("--seed", "2"), "trace-random"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_replacing_another_run_is_refused_and_leaves_it_unchanged(
    hocket: Command, tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...], where: str
) -> None:
    assert hocket(*first).code == 0
    manifest = tmp_path / "hocket-runs" / where / "manifest.json"
    before = manifest.read_bytes()
    refused = hocket(*first, *second)
    assert (refused.code, refused.err) == (2, f"error: hocket-runs/{where}: {REFUSED}\n")
    assert manifest.read_bytes() == before
    assert hocket(*first, *second, "--force").code == 0
    assert manifest.read_bytes() != before


@pytest.mark.parametrize(
    "command",
    [("run", "plan.json"), ("cluster", "trace.json", "--scheduler", "random")],
    ids=lambda command: command[0],
)
def test_the_same_run_again_needs_no_force(hocket: Command, command: tuple[str, ...]) -> None:
    assert hocket(*command).code == 0
    assert hocket(*command).code == 0


def test_a_run_whose_file_has_changed_is_another_one(hocket: Command, tmp_path: Path) -> None:
    fabric = (ROOT / "examples" / "two_racks.toml").read_text(encoding="utf-8")
    assert "vgg16" in fabric
    (tmp_path / "racks.toml").write_text(fabric, encoding="utf-8")
    assert hocket("run", "racks.toml").code == 0
    (tmp_path / "racks.toml").write_text(fabric.replace("vgg16", "vgg17"), encoding="utf-8")
    assert REFUSED in hocket("run", "racks.toml").err


def test_a_damaged_manifest_is_not_taken_for_the_same_run(hocket: Command, tmp_path: Path) -> None:
    assert hocket("run", "plan.json").code == 0
    (tmp_path / "hocket-runs" / "plan" / "manifest.json").write_text("{", encoding="utf-8")
    assert REFUSED in hocket("run", "plan.json").err


def test_a_study_and_a_sweep_are_not_replaced_without_force(hocket: Command) -> None:
    assert hocket("run", STUDY, "--out", "study").code == 0
    assert f"study: {REFUSED}" in hocket("run", STUDY, "--out", "study").err
    sweep = ("sweep", "plan.json", "--set", "run.iterations=2", "--no-cache", "--out", "swept")
    assert hocket(*sweep).code == 0
    assert f"swept: {REFUSED}" in hocket(*sweep).err
    assert hocket(*sweep, "--force").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("compat", "plan.json", "--figure", "nowhere/x.png"),
        ("run", "plan.json", "--out", "nowhere/run"),
        ("cluster", "trace.json", "--scheduler", "random", "--out", "nowhere/runs"),
        ("export", "plan.json", "--out", "nowhere/export"),
        ("init", "two-jobs", "--out", "nowhere/plan.toml"),
        ("profile", ROOT / "experiments/recorded-allreduce/one-phase.csv", "--out", "nowhere/jobs.toml"),
        ("sweep", "plan.json", "--set", "seed=1", "--out", "nowhere/sweep"),
        ("man", "--out", "nowhere/man1"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_directory_is_created_only_in_an_existing_one(
    hocket: Command, tmp_path: Path, arguments: tuple[str | Path, ...]
) -> None:
    refused = hocket(*arguments)
    assert refused.code == 2
    assert "cannot be written: there is no directory nowhere" in refused.err
    assert not (tmp_path / "nowhere").exists()


def test_hocket_runs_is_created_if_missing(hocket: Command, tmp_path: Path) -> None:
    assert hocket("compat", "plan.json", "--figure", "hocket-runs/x.svg").code == 0
    assert (tmp_path / "hocket-runs" / "x.svg").exists()
