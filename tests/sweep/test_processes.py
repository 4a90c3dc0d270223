"""Worker processes that die, and interrupted sweeps."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hocket.plan import parse_plan
from hocket.sweeps import sweep
from hocket.sweeps.build import build
from hocket.sweeps.processes import in_processes
from hocket.sweeps.task import Answer, Failure, Task

Tables = dict[str, Any]

# Two short runs and then two endless ones, printed as they end. The main module has no guard, because workers
# do not need one.
ENDLESS = """
import json
from hocket import sweep

with open("plan.json") as file:
    plan = json.load(file)
swept = sweep(
    plan,
    {"run.iterations": [1, 2, 10**15, 10**16]},
    workers=2,
    progress=lambda done, total: print(done, flush=True),
)
statuses = [each["status"] for each in swept.manifest["runs"]]
print(json.dumps([swept.interrupted, swept.manifest["status"], statuses]))
"""


class Deadly(Task):
    """A task that ends the process that reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


class Killed(Task):
    """A task during which its process is killed, as when memory runs out."""

    def __reduce__(self) -> tuple[Any, ...]:
        return signal.raise_signal, (signal.SIGKILL,)


@pytest.fixture
def endless(halves: Tables, tmp_path: Path) -> subprocess.Popen[str]:
    """A process during a sweep, with two of four runs done."""
    (tmp_path / "plan.json").write_text(json.dumps(halves), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(3)]
    assert printed == ["0\n", "1\n", "2\n"]
    return process


def children(process: subprocess.Popen[str]) -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in listed.split()]


def has_ended(descriptor: int) -> bool:
    """Whether the process of this descriptor ends within half a minute."""
    return bool(select.select([descriptor], [], [], 30)[0])


def test_a_worker_that_dies_fails_its_task_and_no_other(halves: Tables) -> None:
    plan = parse_plan(halves)
    tasks = [
        Task(plan, "flow", build()),
        Deadly(plan, "flow", build()),
        Killed(plan, "flow", build()),
        Task(plan, "flow", build()),
    ]
    for workers in (1, 2, 8):
        outcomes = dict(in_processes(tasks, workers))
        assert sorted(outcomes) == [0, 1, 2, 3]
        assert isinstance(outcomes[0], Answer)
        assert isinstance(outcomes[3], Answer)
        assert outcomes[1] == Failure("its process ended with exit code 3")
        assert outcomes[2] == Failure("its process was ended by SIGKILL; is there enough memory?")


def test_ctrl_c_returns_finished_runs_which_are_not_repeated(
    endless: subprocess.Popen[str], halves: Tables
) -> None:
    workers = [os.pidfd_open(child) for child in children(endless)]
    assert len(workers) == 2
    endless.send_signal(signal.SIGINT)
    printed, errors = endless.communicate(timeout=60)
    assert (endless.returncode, errors) == (0, "")
    assert json.loads(printed) == [True, "interrupted", ["complete", "complete", "not run", "not run"]]
    assert all(map(has_ended, workers))

    swept = sweep(halves, {"run.iterations": [1, 2]})
    assert [each["cached"] for each in swept.manifest["runs"]] == [True, True]


def test_workers_end_with_their_parent_process(endless: subprocess.Popen[str]) -> None:
    workers = [os.pidfd_open(child) for child in children(endless)]
    assert len(workers) == 2
    endless.kill()
    endless.wait()
    assert all(map(has_ended, workers))
