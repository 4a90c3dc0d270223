"""Builds the tables of a run on a testbed, in the format of both engines, from the logs of its workers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hocket.testbed.processes import Rank

PS_PER_NS = 1_000

ITERATIONS = pl.Schema(
    {
        "job": pl.String,
        "iteration": pl.UInt64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "iteration_s": pl.Float64,
        "communication_s": pl.Float64,
        "compute_s": pl.Float64,
        "delayed_s": pl.Float64,
    }
)
PHASES = pl.Schema(
    {
        "job": pl.String,
        "iteration": pl.UInt64,
        "phase": pl.UInt32,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "bytes": pl.UInt64,
        "mean_rate_bps": pl.Float64,
    }
)
ADJUSTMENTS = pl.Schema(
    {"job": pl.String, "at_s": pl.Float64, "deviation_s": pl.Float64, "delay_s": pl.Float64}
)
JOBS = pl.Schema(
    {
        "job": pl.String,
        "iterations": pl.UInt64,
        "mean_iteration_s": pl.Float64,
        "p50_iteration_s": pl.Float64,
        "p90_iteration_s": pl.Float64,
        "p99_iteration_s": pl.Float64,
        "mean_communication_s": pl.Float64,
        "mean_delayed_s": pl.Float64,
        "time_shift_s": pl.Float64,
        "adjustments": pl.UInt64,
        "policy_acted": pl.UInt64,
    }
)


@dataclass(frozen=True)
class PhasesSent:
    """A job's bytes in each phase of an iteration, and the time-shift with which it started."""

    sizes: tuple[int, ...]
    shift_s: float = 0.0


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file that may end within a line, or not exist."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            # Its worker was killed while writing.
            return
        yield row


def iterations_of(ranks: Sequence[Rank]) -> list[list[dict[str, Any]]]:
    """The rows of all workers of a job, for each iteration that all of them finished."""
    return [list(rows) for rows in zip(*(lines(rank.log) for rank in ranks), strict=False)]


def tables(
    jobs: Mapping[str, PhasesSent], ranks: Sequence[Rank], origin_ns: int, unix_ns: int
) -> dict[str, pl.DataFrame]:
    """The tables `iterations`, `phases`, `adjustments` and `jobs`.

    `jobs` are those that ran, with their phases according to the plan. Times count from `origin_ns` of the
    monotonic clock, which is `unix_ns` of the wall clock. An iteration and its phases begin and end with the
    last worker, for which all others wait.
    """
    iterations: list[dict[str, Any]] = []
    phases: list[dict[str, Any]] = []
    adjustments: list[dict[str, Any]] = []
    for name, sent in jobs.items():
        of_job = [rank for rank in ranks if rank.job == name]
        for rows in iterations_of(of_job):
            iterations.append(_iteration(name, rows, sent.shift_s, origin_ns))
            phases += _phases(name, rows, sent.sizes, origin_ns)
        adjustments += _adjustments(name, of_job, unix_ns)
    made = {
        "iterations": pl.DataFrame(iterations, schema=ITERATIONS),
        "phases": pl.DataFrame(phases, schema=PHASES),
        "adjustments": pl.DataFrame(adjustments, schema=ADJUSTMENTS),
    }
    return {**made, "jobs": _summary(list(jobs), made["iterations"], made["adjustments"])}


def _iteration(job: str, rows: Sequence[Mapping[str, Any]], shift_s: float, origin_ns: int) -> dict[str, Any]:
    due_ns, start_ns = (max(row[key] for row in rows) for key in ("due_ns", "start_ns"))
    end_ns = max(row["end_ns"] for row in rows)
    communication_ns = sum(end - start for start, end in _ups(rows))
    return {
        "job": job,
        "iteration": rows[0]["iteration"],
        "start_s": (start_ns - origin_ns) / 1e9,
        "end_s": (end_ns - origin_ns) / 1e9,
        "iteration_s": (end_ns - start_ns) / 1e9,
        "communication_s": communication_ns / 1e9,
        "compute_s": (end_ns - start_ns - communication_ns) / 1e9,
        # As in the engines, the time-shift counts as a delay of the first iteration.
        "delayed_s": (start_ns - due_ns) / 1e9 + (shift_s if rows[0]["iteration"] == 0 else 0.0),
    }


def _ups(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Start and end of each Up phase: from when the last worker begins it until the last one finishes it."""
    for phases in zip(*(row["up_ns"] for row in rows), strict=True):
        yield max(start for start, _ in phases), max(end for _, end in phases)


def _phases(
    job: str, rows: Sequence[Mapping[str, Any]], sizes: Sequence[int], origin_ns: int
) -> Iterator[dict[str, Any]]:
    for number, ((start_ns, end_ns), size) in enumerate(zip(_ups(rows), sizes, strict=True)):
        yield {
            "job": job,
            "iteration": rows[0]["iteration"],
            "phase": number,
            "start_s": (start_ns - origin_ns) / 1e9,
            "end_s": (end_ns - origin_ns) / 1e9,
            "bytes": size,
            "mean_rate_bps": size * 8e9 / (end_ns - start_ns),
        }


def _adjustments(job: str, ranks: Sequence[Rank], unix_ns: int) -> Iterator[dict[str, Any]]:
    """A row for each iteration that any worker delayed to adjust: workers of a job adjust together."""
    by_iteration: dict[int, dict[str, Any]] = {}
    for rank in ranks:
        for row in lines(rank.agent_log):
            if row["adjusted"]:
                by_iteration.setdefault(row["iteration"], row)
    for _, row in sorted(by_iteration.items()):
        yield {
            "job": job,
            # The agent related its clocks when it started, so its first time may seem to precede the origin.
            "at_s": max(0, row["start_ns"] - unix_ns) / 1e9,
            "deviation_s": None if row["deviation_ns"] is None else row["deviation_ns"] / 1e9,
            "delay_s": row["delay_ns"] / 1e9,
        }


def _summary(jobs: Sequence[str], iterations: pl.DataFrame, adjustments: pl.DataFrame) -> pl.DataFrame:
    """A row for each job, in this order; percentiles are by nearest rank, like those of the engines."""
    took = pl.col("iteration_s")
    quantiles = {
        f"p{percent}_iteration_s": took.quantile(percent / 100, interpolation="equiprobable")
        for percent in (50, 90, 99)
    }
    # The delay before the first iteration is the time-shift, a column of its own.
    waited = pl.col("delayed_s").filter(pl.col("iteration") > 0).mean().fill_null(0.0)
    found = iterations.group_by("job").agg(
        iterations=pl.len(),
        mean_iteration_s=took.mean(),
        **quantiles,
        mean_communication_s=pl.col("communication_s").mean(),
        mean_delayed_s=waited,
        time_shift_s=pl.col("delayed_s").filter(pl.col("iteration") == 0).sum(),
    )
    counted = adjustments.group_by("job").agg(adjustments=pl.len())
    return (
        pl.DataFrame({"job": jobs}, schema={"job": pl.String})
        .join(found, on="job", how="left", maintain_order="left")
        .join(counted, on="job", how="left", maintain_order="left")
        .with_columns(
            pl.col("iterations", "adjustments").fill_null(0),
            # The kernel does not report the decisions of a congestion control.
            policy_acted=pl.lit(None),
        )
        .select(*JOBS)
        .cast(JOBS)
    )
