"""The table of jobs of a cluster run."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from hocket.cluster.schemas import JOBS
from hocket.cluster.summaries import of_iterations
from hocket.cluster.transitions import Member


def jobs_frame(
    members: Iterable[Member],
    by_job: Mapping[str, Mapping[str, Any]],
    adjustments: Mapping[str, int],
    now_ps: int,
) -> pl.DataFrame:
    """A row per job in order of arrival, with the columns of `schemas.JOBS`, from `Summaries.by_job` and the
    number of adjustments of each job.

    Asserts that the iterations of each job processed exactly the samples credited to the job.
    """
    ordered = sorted(members, key=lambda member: member.number)
    rows = [
        _row(member, by_job.get(member.job.name), adjustments.get(member.job.name, 0), now_ps)
        for member in ordered
    ]
    return pl.DataFrame(rows, schema=JOBS)


def _row(member: Member, measured: Mapping[str, Any] | None, adjustments: int, now_ps: int) -> dict[str, Any]:
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
        "adjustments": adjustments,
    }
    return row if measured is None else row | of_iterations(measured)


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
