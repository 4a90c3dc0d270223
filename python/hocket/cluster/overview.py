"""Summarises a cluster run in one row, for comparing several runs of a trace."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from hocket.results import Run

OVERVIEW = pl.Schema(
    {
        "scheduler": pl.String,
        "status": pl.String,
        "jobs": pl.Int64,
        "done": pl.Int64,
        "iterations": pl.Int64,
        "mean_iteration_s": pl.Float64,
        "p99_iteration_s": pl.Float64,
        "slowdown": pl.Float64,
        "p99_slowdown": pl.Float64,
        "mean_ideal_s": pl.Float64,
        "mean_completion_s": pl.Float64,
        "restarts": pl.Int64,
        "marks_per_iteration": pl.Float64,
        "adjustments_per_minute": pl.Float64,
        "simulated_s": pl.Float64,
        "run_s": pl.Float64,
        "mean_factor": pl.Float64,
        "p99_factor": pl.Float64,
    }
)
"""Iterations are those of all jobs together. `mean_ideal_s` is their mean duration on an idle network,
`slowdown` their total duration ÷ that on an idle network, `p99_slowdown` the 99th percentile of the slowdowns
of single iterations. `mean_factor` and `p99_factor` are the speed-ups over the first of several runs."""


def overviews(runs: Iterable[Run]) -> pl.DataFrame:
    """A row per run with the columns `OVERVIEW`; factors are relative to the first run."""
    rows = [_row(run) for run in runs]
    for name in ("mean", "p99"):
        times = [row.get(f"{name}_iteration_s") for row in rows]
        for row, time_s in zip(rows, times, strict=True):
            row[f"{name}_factor"] = times[0] / time_s if times[0] and time_s else None
    return pl.DataFrame(rows, schema=OVERVIEW)


def _row(run: Run) -> dict[str, Any]:
    jobs, manifest = run.tables["jobs"], run.manifest
    return {
        "scheduler": manifest["scheduler"],
        "status": manifest["status"],
        "jobs": manifest["counts"]["jobs"],
        "done": manifest["counts"]["done"],
        "mean_completion_s": jobs["completion_s"].mean(),
        "restarts": jobs["restarts"].sum(),
        "adjustments_per_minute": _per_minute(int(jobs["adjustments"].sum()), manifest["simulated_s"]),
        "simulated_s": manifest["simulated_s"],
        "run_s": manifest["run_s"],
        **_of_iterations(run.tables["iterations"]),
    }


def _of_iterations(iterations: pl.DataFrame) -> dict[str, Any]:
    """Totals and means over all iterations, and the 99th percentile by nearest rank."""
    # A row may stand for several iterations (`merge` in `[cluster]`), so all means are weighted.
    done = int(iterations["count"].sum())
    if done == 0:
        return {"iterations": 0}
    count = pl.col("count")
    sums = iterations.select((pl.col("iteration_s") * count).sum(), (pl.col("ideal_s") * count).sum()).row(0)
    marks = iterations["marks"]
    return {
        "iterations": done,
        "mean_iteration_s": sums[0] / done,
        "p99_iteration_s": _p99(iterations, pl.col("iteration_s")),
        "slowdown": sums[0] / sums[1],
        "p99_slowdown": _p99(iterations, pl.col("iteration_s") / pl.col("ideal_s")),
        "mean_ideal_s": sums[1] / done,
        "marks_per_iteration": float(marks.sum()) / done if marks.null_count() == 0 else None,
    }


def _p99(iterations: pl.DataFrame, value: pl.Expr) -> float:
    """The 99th percentile of `value` over iterations by nearest rank; `iterations` must not be empty."""
    ranked = iterations.select(value.alias("value"), "count").sort("value")
    # In whole numbers, because a product with 0.99 is not exact: rounding would shift the rank.
    reached = 100 * ranked["count"].cum_sum() >= 99 * ranked["count"].sum()
    return float(ranked["value"].filter(reached)[0])


def _per_minute(count: float, seconds: float) -> float | None:
    return 60 * count / seconds if seconds else None
