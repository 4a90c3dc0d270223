"""`hocket sweep` as a user runs it: what it prints, what it writes, and how it ends."""

import json
import re
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hocket import Run
from hocket.sweeps import running
from hocket.sweeps.task import Outcome, Task, perform

Command = Callable[..., Any]
Tables = dict[str, Any]


@pytest.fixture
def plan(halves: Tables, tmp_path: Path) -> Path:
    path = tmp_path / "halves.json"
    path.write_text(json.dumps({**halves, "name": "two [halves]"}), encoding="utf-8")
    return path


def test_a_row_for_each_combination_and_job_is_printed(hocket: Command, plan: Path) -> None:
    outcome = hocket(
        "sweep", plan, "--set", "jobs[1].time_shift=,90 ms", "--set", "link.capacity=50 Gbps,80 Gbps"
    )
    assert outcome.code == 0
    assert outcome.err.strip() == (
        "warning: link.capacity: the Up phases of 'a', 'b' keep the rates that the plan gives them, whatever "
        "links and NICs carry"
    )
    lines = outcome.out.splitlines()
    assert lines[0] == "two [halves]"
    assert re.fullmatch(r"4 of 4 runs complete; 0 from the cache, \d+\.\d{3} s", lines[1])
    assert re.split(r"  +", lines[3])[:5] == ["time_shift", "capacity", "job", "iterations", "mean (ms)"]
    assert [re.split(r"  +", line)[:5] for line in lines[4:12]] == [
        ["not given", "50 Gbps", "a", "10", "234.000"],
        ["not given", "50 Gbps", "b", "10", "234.000"],
        ["not given", "80 Gbps", "a", "10", "180.000"],
        ["not given", "80 Gbps", "b", "10", "180.000"],
        ["90 ms", "50 Gbps", "a", "10", "180.000"],
        ["90 ms", "50 Gbps", "b", "10", "180.000"],
        ["90 ms", "80 Gbps", "a", "10", "180.000"],
        ["90 ms", "80 Gbps", "b", "10", "180.000"],
    ]


def test_a_key_with_one_value_is_printed_once(hocket: Command, plan: Path) -> None:
    settings = ("jobs[1].time_shift=0 ms,90 ms", "run.iterations=5")
    lines = hocket("sweep", plan, *(f"--set={each}" for each in settings)).out.splitlines()
    assert lines[1] == "everywhere: run.iterations = 5"
    assert re.split(r"  +", lines[4])[:3] == ["time_shift", "job", "iterations"]
    assert re.split(r"  +", lines[5])[:3] == ["0 ms", "a", "5"]


def test_refused_combinations_are_listed_at_the_end_with_their_reasons(hocket: Command, plan: Path) -> None:
    outcome = hocket("sweep", plan, "--set", "jobs.*.jitter=0,2", "--set", "seed=1,2")
    assert outcome.code == 1
    assert re.match(r"2 of 4 runs complete, 2 refused; ", outcome.out.splitlines()[1])
    assert outcome.err.strip().splitlines() == [
        f"refused: jobs.*.jitter = 2, seed = {seed}: jobs[{job}].jitter: must be at most 1: got 2"
        for seed in (1, 2)
        for job in (0, 1)
    ]
    rows = hocket("sweep", plan, "--set", "jobs.*.jitter=0,2", "--json").json()
    assert [row["status"] for row in rows] == ["complete", "complete", "refused"]
    assert rows[2]["error"].startswith("jobs[0].jitter: must be at most 1: got 2")


def test_seeds_are_printed_as_one_row_with_their_spread(hocket: Command, plan: Path) -> None:
    outcome = hocket("sweep", plan, "--set", "jobs.*.jitter=0,0.05", "--seeds", "3")
    rows = [re.split(r"  +", line.strip()) for line in outcome.out.splitlines()[3:]]
    assert rows[0][:5] == ["jitter", "job", "runs", "iterations", "mean (ms)"]
    assert rows[1][:5] == ["0.0", "a", "3", "10", "234.000 ± 0.000"]
    assert rows[3][:4] == ["0.05", "a", "3", "10"]
    assert re.fullmatch(r"\d+\.\d{3} ± \d+\.\d{3}", rows[3][4])


def test_a_second_sweep_comes_from_the_cache_and_out_has_the_table(
    hocket: Command, plan: Path, tmp_path: Path
) -> None:
    first = hocket("sweep", plan, "--set", "seed=1..3", "--out", "first")
    second = hocket("sweep", plan, "--set", "seed=1..3", "--out", "second", "--workers", "1")
    assert "0 from the cache" in first.out
    assert "3 of 3 runs complete; 3 from the cache" in second.out
    assert "written to second: manifest.json and sweep.parquet (6)" in second.out
    contents = [(tmp_path / name / "sweep.parquet").read_bytes() for name in ("first", "second")]
    assert contents[0] == contents[1]
    assert Run.read(tmp_path / "first").manifest["axes"] == {"seed": [1, 2, 3]}


def test_an_axis_that_the_engine_does_not_read_is_reported(hocket: Command, plan: Path) -> None:
    outcome = hocket("sweep", plan, "--set", "jobs.*.congestion=dcqcn,hpcc")
    (line,) = (
        line for line in outcome.out.splitlines() if line.startswith("without effect on the flow engine: ")
    )
    assert "jobs[0].congestion, jobs[1].congestion: only the packet engine reads it" in line


def test_the_rows_are_printed_as_json(hocket: Command, plan: Path) -> None:
    rows = hocket("sweep", plan, "--set", "seed=1,2", "--json", "--no-cache").json()
    assert [(row["combination"], row["seed"], row["job"]) for row in rows] == [
        (0, 1, "a"),
        (0, 1, "b"),
        (1, 2, "a"),
        (1, 2, "b"),
    ]


def test_a_failed_run_exits_with_1_and_the_others_are_printed(
    hocket: Command, halves: Tables, tmp_path: Path
) -> None:
    up = [{"start": "0 ms", "duration": "10 us", "rate": "40 Gbps"}]
    changed = {
        **halves,
        "run": {"iterations": 1},
        "jobs": [{"name": "a", "period": "1 ms", "up": up}],
        "changes": [{"at": "1 ms", "link": "link", "rate": "40 Gbps"}],
    }
    (tmp_path / "changed.json").write_text(json.dumps(changed), encoding="utf-8")
    outcome = hocket("sweep", "changed.json", "--set", "run.engine=flow,packet")
    assert outcome.code == 1
    assert "1 of 2 runs complete, 1 failed; 0 from the cache" in outcome.out
    assert (
        "failed: run.engine = flow: changes: the flow engine does not support links that change"
        in outcome.err
    )
    assert re.search(r"^packet +a +1 +1\.00\d", outcome.out, re.MULTILINE)


def test_ctrl_c_exits_with_130_after_printing_finished_runs(
    hocket: Command, plan: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(tasks: Sequence[Task], _workers: int) -> Generator[tuple[int, Outcome]]:
        yield 0, perform(tasks[0])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running, "in_processes", interrupted)
        outcome = hocket("sweep", plan, "--set", "seed=1..3", "--out", "out")
    assert outcome.code == 130
    assert "1 of 3 runs complete, 2 not run; 0 from the cache" in outcome.out
    assert "interrupted; finished runs are cached and need not run again" in outcome.err
    assert Run.read(tmp_path / "out").interrupted
    assert "3 of 3 runs complete; 1 from the cache" in hocket("sweep", plan, "--set", "seed=1..3").out


def test_a_study_is_refused(hocket: Command) -> None:
    outcome = hocket("sweep", Path(__file__).parents[2] / "examples" / "hpcc" / "config.txt")
    assert outcome.code == 2
    assert (
        "config.txt: is a study of an HPCC-style simulator; a sweep varies the keys of plans" in outcome.err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "jobs.*.jitter=2"], "with jobs.*.jitter = 2: jobs[0].jitter: must be at most 1: got 2"),
        (["--set", "jobs.*.jitter"], "'jobs.*.jitter' is not an axis"),
        (["--seeds", "0"], "seeds: a sweep has 1 to 100,000 of them: got 0"),
        (["--no-cache", "--cache", "x"], "--no-cache: contradicts --cache"),
        (["--keep-runs"], "keep_runs: needs a directory"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    hocket: Command, plan: Path, arguments: list[str], message: str
) -> None:
    outcome = hocket("sweep", plan, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
