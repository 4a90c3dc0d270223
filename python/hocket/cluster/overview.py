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


_SUMMARISED = (
    "iterations",
    "mean_iteration_s",
    "p99_iteration_s",
    "slowdown",
    "p99_slowdown",
    "mean_ideal_s",
)


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
        **_of_iterations(run.tables["summaries"]),
    }


def _of_iterations(summaries: pl.DataFrame) -> dict[str, Any]:
    """The summary over the iterations of all jobs, from the table `summaries`."""
    # Without iterations there is no row.
    for row in summaries.filter(pl.col("model").is_null()).to_dicts():
        marks = row["marks"]
        return {
            **{name: row[name] for name in _SUMMARISED},
            "marks_per_iteration": None if marks is None else marks / row["iterations"],
        }
    return {"iterations": 0}


def _per_minute(count: float, seconds: float) -> float | None:
    return 60 * count / seconds if seconds else None
