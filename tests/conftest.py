"""Runs the command line from a test: in this process, which is quick, or in its own, as a user does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import settings
from polars import selectors

from hocket import Run, cli

# No test may depend on the clock: a busy machine is slow, and nothing is wrong with that.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heeded() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt` here and in the processes that tests start.

    What a shell runs in the background ignores it, and so would all that is started from there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: its exit code and output."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its output, as JSON."""
        return json.loads(self.out)


Command = Callable[..., CommandResult]

Tables = dict[str, Any]


def half(name: str, **changes: object) -> Tables:
    """A job that is Up at 40 Gbps for the first half of 180 ms: 450 MB. Two of them can take turns on a link
    of 50 Gbps; sharing it, each sends at 25 Gbps for 144 ms, and an iteration takes 234 ms.
    """
    up = [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]
    return {"name": name, "period": "180 ms", "up": up, **changes}


def shared_link(*jobs: Tables, **changes: object) -> Tables:
    """A plan of `jobs` on one link of 50 Gbps."""
    return {"link": {"capacity": "50 Gbps"}, "jobs": list(jobs), **changes}


@pytest.fixture
def hocket(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Runs `hocket` with these arguments in this process and an empty directory.

    What compiled code prints is captured too, so that a panic shows.
    """

    def run(*arguments: str | Path) -> CommandResult:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["hocket", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return CommandResult(code, *capfd.readouterr())

    return run


@pytest.fixture
def hocket_process(tmp_path: Path) -> Command:
    """Runs `python -m hocket` with these arguments in a process of its own and an empty directory."""

    def run(*arguments: str | Path) -> CommandResult:
        command = [sys.executable, "-m", "hocket", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120, check=False
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    return run


TrainingRun = Callable[..., Run]


@pytest.fixture
def training_run() -> TrainingRun:
    """Runs of a training job as the engines leave them, with times that can be checked by hand."""
    return _training_run


def _training_run(
    *,
    all_reduce_ms: int = 4,
    engine: str = "packet",
    policy: str = "dcqcn",
    algorithm: str = "ring",
    ranks: int = 4,
    iterations: int = 2,
    pauses: int = 7,
    status: str = "complete",
) -> Run:
    """A job `dlrm`: in each iteration every rank computes `forward` for 1 ms and then `backward` for 2 ms,
    while an all-reduce of 100 MB, `gradients`, runs beside `backward` for `all_reduce_ms`.
    """
    ms = 1e-3
    length_ms = 1 + max(2, all_reduce_ms)
    exposed_s = (length_ms - 3) / 1e3
    starts = [number * length_ms * ms for number in range(iterations)]
    algbw_bps = 8 * 100e6 / (all_reduce_ms / 1e3)
    tables = {
        "iterations": pl.DataFrame(
            {
                "job": "dlrm",
                "iteration": list(range(iterations)),
                "start_s": starts,
                "end_s": [start + length_ms * ms for start in starts],
                "iteration_s": length_ms / 1e3,
                "communication_s": exposed_s,
                "compute_s": 3e-3,
                "delayed_s": 0.0,
            }
        ),
        "ranks": pl.DataFrame(
            [
                {
                    "job": "dlrm",
                    "iteration": number,
                    "rank": rank,
                    "host": f"s0:{rank}",
                    "start_s": start,
                    "end_s": start + length_ms * ms,
                    "compute_s": 3e-3,
                    "exposed_s": exposed_s,
                }
                for number, start in enumerate(starts)
                for rank in range(ranks)
            ]
        ),
        "operations": pl.DataFrame(
            [
                {
                    "job": "dlrm",
                    "iteration": 0,
                    "rank": rank,
                    "operation": operation,
                    "name": name,
                    "kind": kind,
                    "start_s": start_ms * ms,
                    "end_s": (start_ms + span_ms) * ms,
                }
                for rank in range(ranks)
                for operation, (name, kind, start_ms, span_ms) in enumerate(
                    [
                        ("forward", "compute", 0, 1),
                        ("backward", "compute", 1, 2),
                        ("gradients", "all-reduce", 1, all_reduce_ms),
                    ]
                )
            ]
        ),
        "collectives": pl.DataFrame(
            {
                "job": "dlrm",
                "iteration": list(range(iterations)),
                "name": "gradients",
                "kind": "all-reduce",
                "algorithm": algorithm,
                "ranks": ranks,
                "group": 0,
                "bytes": 100_000_000,
                "start_s": [start + ms for start in starts],
                "end_s": [start + (1 + all_reduce_ms) * ms for start in starts],
                "time_s": all_reduce_ms / 1e3,
                "algbw_bps": algbw_bps,
                "busbw_bps": algbw_bps * 2 * (ranks - 1) / ranks,
            }
        ),
        "jobs": pl.DataFrame(
            {
                "job": ["dlrm"],
                "iterations": iterations,
                "mean_iteration_s": length_ms / 1e3,
                "p50_iteration_s": length_ms / 1e3,
                "p90_iteration_s": length_ms / 1e3,
                "p99_iteration_s": length_ms / 1e3,
                "mean_communication_s": exposed_s,
                "mean_delayed_s": 0.0,
                "time_shift_s": 0.0,
                "adjustments": 0,
                "policy_acted": 12,
            }
        ),
    }
    plan = {"jobs": [{"name": "dlrm", "congestion": {policy: {}}, "share": "fair"}]}
    manifest = {
        "hocket_version": "0.1.0",
        "engine": engine,
        "seed": 1,
        "candidate": None,
        "status": status,
        "simulated_s": iterations * length_ms / 1e3,
        "run_s": 0.5,
        "peak_rss_mb": 100.0,
        "ignored": [],
        "not_recorded": {},
        "counts": {"events": 1000},
        "plan": plan,
    }
    if engine == "packet":
        tables["flows"] = pl.DataFrame(
            {
                "flow": [0, 1],
                "job": "dlrm",
                "src": ["s0:0", "s0:1"],
                "dst": ["s0:1", "s0:2"],
                "bytes": 25_000_000,
                "start_s": [ms, ms],
                "end_s": [2 * ms, 4 * ms],
                "fct_s": [1e-3, 3e-3],
                "marks": [20, 30],
                "cnps": [4, 5],
                "rate_cuts": [5, 7],
                "retransmissions": 0,
            }
        )
        tables["ports"] = pl.DataFrame(
            {"link": ["a->b", "b->a"], "peak_bytes": [2_000, 64_000], "paused_s": [1e-3, 2e-3]}
        )
        manifest |= {
            "packet_hops": 1_000_000,
            "skip_ahead": None,
            "counts": {"pauses": pauses, "marks": 50, "cnps": 9, "retransmissions": 0, "losses": 0},
            "parameters": {
                "model": {"mtu_bytes": {"value": 4096, "source": "InfiniBand"}},
                "jobs": {"dlrm": {"policy": {"value": policy, "source": "plan"}}},
            },
        }
    # Counted as the engines do.
    return Run(
        {name: table.cast({selectors.integer(): pl.UInt64}) for name, table in tables.items()}, manifest
    )
