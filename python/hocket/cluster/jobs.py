"""The table of jobs of a cluster run."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from hocket.cluster.schemas import JOBS
from hocket.cluster.transitions import Member

_TOTALS = (
    "iterations",
    "iteration_ps",
    "ideal_ps",
    "communication_ps",
    "delayed_ps",
    "samples",
)
_TOTALS_OF_JOBS = pl.Schema({"job": pl.String, **dict.fromkeys(_TOTALS, pl.Int64), "marks": pl.Float64})
_DURATIONS = pl.Schema({"job": pl.String, "mean_ps": pl.Float64, "count": pl.Int64})


class JobTotals:
    """Totals over iterations by job, and the durations for percentiles; all other columns are dropped."""

    def __init__(self) -> None:
        # Empty tables at first, since a run may end before any iteration does.
        self._totals = [pl.DataFrame(schema=_TOTALS_OF_JOBS)]
        self._durations = [pl.DataFrame(schema=_DURATIONS)]
        self._adjusted = [pl.DataFrame(schema={"job": pl.String, "adjustments": pl.Int64})]

    def add(self, iterations: pl.DataFrame, adjustments: pl.DataFrame) -> None:
        """Add rows of the engine: iterations joined with their stints, and adjustments."""
        count = pl.col("count")
        totals = iterations.group_by("job").agg(
            iterations=count.sum(),
            iteration_ps=pl.col("iteration_ps").sum(),
            ideal_ps=(pl.col("ideal_ps") * count).sum(),
            communication_ps=pl.col("communication_ps").sum(),
            delayed_ps=pl.col("delayed_ps").sum(),
            samples=(pl.col("workers") * pl.col("batch_size") * count).sum(),
            marks=_sum_of_known("marks"),
        )
        self._totals.append(totals)
        # Unlike totals, percentiles of parts do not combine, so every duration is kept until the end.
        self._durations.append(iterations.select(*_DURATIONS))
        adjusted = adjustments.group_by("job").agg(adjustments=pl.len().cast(pl.Int64))
        self._adjusted.append(adjusted)

    def by_job(self) -> dict[str, dict[str, Any]]:
        """Totals, adjustments, and percentiles by nearest rank of each job that finished an iteration."""
        totals = (
            pl.concat(self._totals).group_by("job").agg(pl.col(_TOTALS).sum(), marks=_sum_of_known("marks"))
        )
        adjusted = pl.concat(self._adjusted).group_by("job").agg(pl.col("adjustments").sum())
        joined = totals.join(self._percentiles(), on="job").join(adjusted, on="job", how="left")
        return {row["job"]: row for row in joined.with_columns(pl.col("adjustments").fill_null(0)).to_dicts()}

    def _percentiles(self) -> pl.DataFrame:
        """The median and the 99th percentile of each job's iterations."""
        # Ranks are compared in whole numbers, so that no rounding decides.
        count, duration = pl.col("count"), pl.col("mean_ps")
        ranked = (
            pl.concat(self._durations)
            .sort("job", "mean_ps")
            .with_columns(reached=count.cum_sum().over("job"), total=count.sum().over("job"))
        )
        reached = 100 * pl.col("reached")
        return ranked.group_by("job").agg(
            p50_ps=duration.filter(reached >= 50 * pl.col("total")).min(),
            p99_ps=duration.filter(reached >= 99 * pl.col("total")).min(),
        )


def jobs_frame(members: Iterable[Member], measured: JobTotals, now_ps: int) -> pl.DataFrame:
    """A row per job in order of arrival, with the columns of `schemas.JOBS`.

    Asserts that the recorded iterations of each job processed exactly the samples credited to the job.
    """
    by_job = measured.by_job()
    ordered = sorted(members, key=lambda member: member.number)
    return pl.DataFrame(
        [_row(member, by_job.get(member.job.name), now_ps) for member in ordered], schema=JOBS
    )


def _sum_of_known(column: str) -> pl.Expr:
    """The sum of a column, null if all its values are."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def _row(member: Member, measured: Mapping[str, Any] | None, now_ps: int) -> dict[str, Any]:
    job = member.job
    done = 0 if measured is None else measured["samples"]
    assert done == member.samples_done, (
        f"job {job.name!r}: its iterations processed {done} samples, but it is credited with "
        f"{member.samples_done}"
    )
    until_ps = now_ps if member.end_ps is None else member.end_ps
    row = {
        "job": job.name,
        "model": job.model,
        "strategy": job.strategy,
        "batch_size": job.batch_size,
        "workers": job.requested,
        "mean_workers": member.gpu_ps / member.allocated_ps if member.allocated_ps else None,
        "status": _status(member),
        "arrival_s": job.arrival_ps / 1e12,
        "first_start_s": _seconds(member.first_start_ps),
        "end_s": _seconds(member.end_ps),
        "completion_s": None if member.end_ps is None else (member.end_ps - job.arrival_ps) / 1e12,
        "waiting_s": (until_ps - job.arrival_ps - member.allocated_ps) / 1e12,
        "restarts": max(0, member.stints - 1),
        "gpu_hours": member.gpu_ps / 3600e12,
        "rho": None
        if member.end_ps is None
        else (member.end_ps - job.arrival_ps) / _ideal_run_time_ps(member),
        "iterations": 0,
        "adjustments": 0,
    }
    return row if measured is None else row | _of_iterations(measured)


def _of_iterations(measured: Mapping[str, Any]) -> dict[str, Any]:
    count = measured["iterations"]
    return {
        "iterations": count,
        "mean_iteration_s": measured["iteration_ps"] / count / 1e12,
        "p50_iteration_s": measured["p50_ps"] / 1e12,
        "p99_iteration_s": measured["p99_ps"] / 1e12,
        "mean_ideal_s": measured["ideal_ps"] / count / 1e12,
        "slowdown": measured["iteration_ps"] / measured["ideal_ps"],
        "mean_communication_s": measured["communication_ps"] / count / 1e12,
        "mean_delayed_s": measured["delayed_ps"] / count / 1e12,
        "marks": measured["marks"],
        "adjustments": measured["adjustments"],
    }


def _status(member: Member) -> str:
    if member.end_ps is not None:
        return "done"
    return "running" if member.gpus else "waiting"


def _ideal_run_time_ps(member: Member) -> int:
    """The run time of the job on an idle network, on the workers that it was submitted with."""
    job = member.job
    return job.iterations(job.samples, job.requested) * job.profile(job.requested).period_ps


def _seconds(time_ps: int | None) -> float | None:
    return None if time_ps is None else time_ps / 1e12
