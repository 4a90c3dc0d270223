"""Runs plans on the flow engine: a checked plan in, tables and a manifest out."""

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import polars as pl

from hocket import _hocket
from hocket.config import Job, Plan, load_plan, parse_plan
from hocket.errors import InputError, located
from hocket.network import Crossings, build_network
from hocket.results import Run, frame
from hocket.workloads import WorkloadProfile

PlanLike = Plan | Mapping[str, object] | str | Path
"""A plan, its tables, or the file that it is in."""

Progress = Callable[[float, int, int | None], object]
"""Called now and then with simulated seconds, iterations done, and iterations in total if known."""


def as_plan(plan: PlanLike) -> Plan:
    """The checked plan. Raises `InputError`, as `load_plan` and `parse_plan` do."""
    match plan:
        case Plan():
            return plan
        case str() | Path():
            return load_plan(plan)
        case _:
            return parse_plan(plan)


def simulate(plan: PlanLike, *, candidate: str | None = None, progress: Progress | None = None) -> Run:
    """Simulates `plan` on the flow engine.

    On a fabric, jobs run where `candidate` puts them, or where their own `placement` does. The same plan
    gives the same tables. Ctrl-C ends the run early: what was finished by then comes back, marked as
    interrupted.

    Raises `InputError` for a bad plan, an unknown candidate, a job with several batch sizes, or a run beyond
    the engine's limits.

    >>> run = simulate({
    ...     "link": {"capacity": "50 Gbps"},
    ...     "run": {"iterations": 10},
    ...     "jobs": [{"name": "a", "period": "180 ms",
    ...               "up": [{"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}]}],
    ... })
    >>> run.tables["jobs"]["mean_iteration_s"].to_list()
    [0.18]
    """
    checked = as_plan(plan)
    with located(plan):
        return _simulated(checked, candidate, progress)


def _simulated(plan: Plan, candidate: str | None, progress: Progress | None) -> Run:
    network = build_network(plan)
    crossings = network.crossings(plan, _placement(plan, candidate))
    jobs = [
        job_spec(job, _only_profile(number, job), crossed)
        for number, (job, crossed) in enumerate(zip(plan.jobs, crossings, strict=True))
    ]
    started = time.perf_counter()
    ran = _hocket.simulate(
        network.fabric,
        jobs,
        {
            "priority_queues": plan.priority_queues,
            "seed": plan.seed,
            "iterations": plan.iterations,
            "until_ps": plan.run.until_ps,
            "record_rates_until_ps": plan.run.record_rates_until_ps,
        },
        _in_seconds(progress),
    )
    run_s = time.perf_counter() - started
    frames = {name: frame(columns) for name, columns in ran["tables"].items()}
    named = dict(
        zip((name for name, _ in network.fabric.links()), (name for name, _ in network.links), strict=True)
    )
    frames["links"] = frames["links"].with_columns(pl.col("link").replace(named))
    return Run(
        frames,
        {
            "hocket_version": version("hocket"),
            "engine": "flow",
            "status": "interrupted" if ran["interrupted"] else "complete",
            "seed": plan.seed,
            "candidate": candidate,
            "simulated_s": ran["ended_ps"] / 1e12,
            "run_s": run_s,
            "peak_rss_mb": peak_rss_mb(),
            "jobs_per_queue": ran["jobs_per_queue"],
            "counts": {**ran["counters"], **_acted(frames)},
            "plan": plan.resolved(),
        },
    )


def job_spec(
    job: Job,
    profile: WorkloadProfile,
    crossings: Crossings,
    *,
    time_shift_ps: int | None = None,
    pad_to_ps: int | None = None,
    readjust: bool | None = None,
) -> "_hocket._JobSpec":
    """`job` as the flow engine takes it; the keyword arguments replace what the plan says."""
    return {
        "name": job.name,
        "profile": plain(profile),
        "crossings": crossings,
        "arrival_ps": job.arrival_ps,
        "iterations": job.iterations,
        "share": (job.share.kind, job.share.weight),
        "priority": job.priority,
        "time_shift_ps": job.time_shift_ps if time_shift_ps is None else time_shift_ps,
        "clock_error_ps": job.clock_error_ps,
        "readjust": job.readjust if readjust is None else readjust,
        "jitter": job.jitter,
        "pad_to_ps": job.pad_to_ps if pad_to_ps is None else pad_to_ps,
    }


def plain(profile: WorkloadProfile) -> tuple[int, list[tuple[int, int, int]]]:
    """A profile as it crosses into `_hocket`."""
    phases = [(phase.start_ps, phase.duration_ps, phase.rate_bps) for phase in profile.phases]
    return profile.period_ps, phases


def peak_rss_mb() -> float:
    """The most memory that this process has had, in megabytes."""
    # Linux counts in kibibytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _only_profile(number: int, job: Job) -> WorkloadProfile:
    profiles = job.profiles()
    if len(profiles) > 1:
        raise InputError(
            f"jobs[{number}].batch_size: a run needs one batch size: got {len(profiles)}; "
            "`hocket compat` chooses among several"
        )
    return profiles[0]


def _placement(plan: Plan, candidate: str | None) -> Mapping[str, Sequence[str]] | None:
    if candidate is None:
        return None
    for each in plan.candidates:
        if each.name == candidate:
            return each.placement
    known = ", ".join(repr(each.name) for each in plan.candidates) or "none"
    raise InputError(f"candidates: there is no candidate {candidate!r}; known: {known}")


def _in_seconds(progress: Progress | None) -> Callable[[int, int, int | None], object]:
    def report(time_ps: int, done: int, total: int | None) -> None:
        if progress is not None:
            progress(time_ps / 1e12, done, total)

    return report


def _acted(frames: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """How often each policy acted, over all jobs."""
    return {
        "iterations": frames["iterations"].height,
        "share_or_priority_decided": int(frames["jobs"]["policy_acted"].sum()),
        "time_shift_adjustments": frames["adjustments"].height,
    }
