"""`hocket profile` on files of several kinds, and on a simulated port with a simulated clock."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hocket.errors import InputError
from hocket.plan import load_plan
from hocket.profiling import watch
from hocket.profiling.watch import CONGESTION_COUNTERS, INFINIBAND_COUNTERS, OpenPort, Port

Command = Callable[..., Any]

RECORDED = Path(__file__).parents[2] / "experiments" / "recorded-allreduce" / "one-phase.csv"
PERIOD_S = 0.25
UP_S = 0.1
BYTES_PER_S = 2.5e9


class Machine(OpenPort):
    """A RoCE port on which a job sends for 100 of every 250 ms, and the clock of its machine."""

    def __init__(self, lifespan_s: float | None = None, gone_after_s: float = float("inf")) -> None:
        super().__init__(Port("mlx5_0:1", {}, lifespan_s))
        self.names = (*INFINIBAND_COUNTERS, *CONGESTION_COUNTERS)
        self.now_ns = 0
        self.gone_after_s = gone_after_s
        self.interrupt_after_s = float("inf")

    def clock(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)
        if self.now_ns > self.interrupt_after_s * 1e9:
            raise KeyboardInterrupt

    def read(self) -> tuple[int, ...]:
        time_s = self.now_ns / 1e9
        if time_s > self.gone_after_s:
            raise InputError("mlx5_0:1: its counters can no longer be read: No such device")
        iteration, phase_s = divmod(time_s, PERIOD_S)
        sent = (iteration * UP_S + min(phase_s, UP_S)) * BYTES_PER_S
        return round(sent / 4), 0, round(time_s * 100), 0, 0


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine], Machine]:
    """A function that makes `hocket profile --watch` read a simulated machine."""

    def put(machine: Machine) -> Machine:
        timed = partial(watch.watch, clock=machine.clock, sleep=machine.sleep)
        monkeypatch.setattr(watch, "open_port", lambda device, **_: machine)
        monkeypatch.setattr(watch, "watch", timed)
        return machine

    return put


def test_a_watched_port_becomes_a_job_and_a_series(
    hocket: Command, plug: Callable[[Machine], Machine], tmp_path: Path
) -> None:
    plug(Machine())
    outcome = hocket(
        "profile",
        "--watch",
        "mlx5_0",
        "--seconds",
        "20",
        "--save",
        "a.csv",
        "--capacity",
        "50 Gbps",
        "--out",
        "a.toml",
    )
    assert outcome.code == 0
    assert "mlx5_0:1: period 250.00 ms" in outcome.out
    assert outcome.err.split("\n")[-3:] == ["readings: a.csv", "jobs: a.toml", ""]
    (job,) = load_plan(tmp_path / "a.toml").jobs
    assert job.name == "mlx5_0:1"
    assert pl.read_csv(tmp_path / "a.csv").height == 2001
    # The saved readings yield the same profile.
    assert "period 250.00 ms" in hocket("profile", tmp_path / "a.csv").out


def test_congestion_is_shown_beside_the_profile(hocket: Command, plug: Callable[[Machine], Machine]) -> None:
    plug(Machine())
    command = ("profile", "--watch", "mlx5_0", "--seconds", "20", "--marks")
    assert "np_cnp_sent" in hocket(*command).out
    plug(Machine())
    assert hocket(*command, "--json").json()["congestion"]["np_cnp_sent"] == 2000


def test_reading_faster_than_the_port_refreshes_is_reported(
    hocket: Command, plug: Callable[[Machine], Machine]
) -> None:
    plug(Machine(lifespan_s=0.01))
    assert hocket("profile", "--watch", "mlx5_0", "--seconds", "20").err.strip() == ""
    plug(Machine(lifespan_s=0.01))
    outcome = hocket("profile", "--watch", "mlx5_0", "--seconds", "20", "--interval", "5 ms")
    assert (
        "mlx5_0:1 refreshes its counters every 10 ms: readings in between repeat the last values"
        in outcome.err
    )


def test_ctrl_c_ends_a_watch_and_exits_with_130_if_a_duration_was_given(
    hocket: Command, plug: Callable[[Machine], Machine]
) -> None:
    for seconds, code in (((), 0), (("--seconds", "60"), 130)):
        plug(Machine()).interrupt_after_s = 20
        outcome = hocket("profile", "--watch", "mlx5_0", *seconds)
        assert outcome.code == code
        assert "period 250.00 ms" in outcome.out
        assert "interrupted: kept 2001 readings" in outcome.err


def test_a_port_that_disappears_is_profiled_from_the_readings_so_far(
    hocket: Command, plug: Callable[[Machine], Machine]
) -> None:
    plug(Machine(gone_after_s=20.0))
    outcome = hocket("profile", "--watch", "mlx5_0", "--seconds", "60")
    assert outcome.code == 0
    assert "No such device: kept 2001 readings" in outcome.err
    assert "period 250.00 ms" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "profile: give files or a port to --watch"),
        ((RECORDED, "--watch", "lo"), "profile: give files or a port to --watch, not both"),
        ((RECORDED, "--seconds", "3"), "--seconds: only with --watch: files already hold their readings"),
        ((RECORDED, "--marks"), "--marks: only with --watch"),
        (
            (RECORDED, "--rate", "1 Gbps"),
            "is a CSV series of byte counters; rate (--rate) is only for a profiler trace",
        ),
        (("--watch", "lo", "--unit", "bytes"), "--unit: only for files: --watch reads the port lo"),
        (("--watch", "nix0"), "nix0: no such device; the devices are "),
        (("--watch", "lo", "--namespace", "hk-none"), "hk-none: no such network namespace"),
        (("--watch", "lo", "--interval", "soon"), "--interval: "),
        (("--watch", "lo", "--interval", "10 us"), "--interval: must be from 1 ms to 60 s: got 10 us"),
        (("--watch", "lo", "--seconds", "0"), "--seconds: must be above 0 and at most 172800: got 0"),
        (("--watch", "lo", "--seconds", "nan"), "--seconds: must be above 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    hocket: Command, arguments: tuple[str | Path, ...], message: str
) -> None:
    outcome = hocket("profile", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert message in outcome.err


def kineto(path: Path, sized: bool) -> Path:
    """A profiler trace of a rank that computes for 60 ms and all-reduces for 40 ms, thirty times."""
    size = {"Collective name": "allreduce", "dtype": "Float", "Group size": 4}
    size |= {"In msg nelems": 1_000_000, "Out msg nelems": 1_000_000}
    events = []
    for step in range(30):
        at = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
        events.append({**at, "name": "gemm", "ts": step * 100_000, "dur": 60_000})
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        reduce = {**at, "tid": 20, "name": name, "ts": step * 100_000 + 60_000, "dur": 40_000}
        events.append({**reduce, "args": size if sized else {}})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_a_trace_shows_collectives_and_exposed_communication(hocket: Command, tmp_path: Path) -> None:
    outcome = hocket("profile", kineto(tmp_path / "rank0.json", sized=True))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("rank0: period 100.00 ms, confidence ")
    # Of 4 MB, each of 4 ranks sends 1.5 times as much, in 40 ms.
    assert lines[1].startswith("6.00 MB per iteration, ")
    assert lines[2:4] == [
        "computes for 60.00 ms per iteration",
        "communicates for 40.00 ms per iteration, of which 40.00 ms are exposed",
    ]
    assert lines[5].split() == ["0.00", "40.00", "1.200"]
    assert lines[7].split() == ["all-reduce", "1", "4.00", "40.00"]


def test_what_a_trace_does_not_contain_is_null_and_makes_no_job(hocket: Command, tmp_path: Path) -> None:
    path = kineto(tmp_path / "rank0.json", sized=False)
    found = hocket("profile", path, "--json").json()
    assert found["job"] is None
    assert found["bytes_per_iteration"] is None
    assert found["exposed_s"] == pytest.approx(0.04)
    assert found["collectives"][0]["message_bytes"] is None
    refused = hocket("profile", path, "--out", "a.toml")
    assert refused.code == 2
    assert "--rate" in refused.err
    written = hocket("profile", path, "--rate", "10 Gbps", "--out", "a.toml")
    assert written.code == 0


def test_a_file_of_jobs_without_a_link_is_reported_as_not_a_plan_yet(hocket: Command, tmp_path: Path) -> None:
    written = hocket("profile", RECORDED, "--out", "a.toml")
    assert "jobs: a.toml\nThis file is not a plan yet: --capacity" in written.err
    assert hocket("compat", "a.toml").code == 2


def test_several_kinds_of_files_become_one_plan(hocket: Command, tmp_path: Path) -> None:
    trace = kineto(tmp_path / "rank0.json", sized=True)
    outcome = hocket("profile", RECORDED, trace, "--capacity", "10 Gbps", "--out", "jobs.toml")
    assert outcome.code == 0
    assert [job.name for job in load_plan(tmp_path / "jobs.toml").jobs] == ["one-phase", "rank0"]
