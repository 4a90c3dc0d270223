"""Runs plans on either engine: a checked plan in, tables and a manifest out."""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from hocket import _hocket
from hocket.errors import InputError, SelfCheckError, located
from hocket.network import Crossings, Network, build_network
from hocket.packets import Memory, Sent, Sink
from hocket.plan import Engine, Job, Plan, load_plan, parse_plan
from hocket.results import Run, RunWriter, frame, peak_rss_mb
from hocket.schema import Table
from hocket.training.spec import training_spec
from hocket.workloads import WorkloadProfile

PlanLike = Plan | Mapping[str, object] | str | Path
"""A plan, its tables, or the file that it is in."""

Progress = Callable[[float, int, int | None], object]
"""Called now and then with simulated seconds, iterations done, and iterations in total if known."""


_Progress = Callable[[int, int, int | None], object]
_RunInto = Callable[[Sink, _Progress], Run]


def as_plan(plan: PlanLike) -> Plan:
    """The checked plan. Raises `InputError`, as `load_plan` and `parse_plan` do."""
    match plan:
        case Plan():
            return plan
        case str() | Path():
            return load_plan(plan)
        case _:
            return parse_plan(plan)


def simulate(
    plan: PlanLike,
    *,
    candidate: str | None = None,
    engine: Engine | None = None,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulates `plan` on the engine that it names, or on `engine`.

    On a fabric, jobs run where `candidate` puts them, or where their own `placement` does. The same plan
    gives the same tables. With a `directory` the run is written there; tables of the packet engine while it
    goes on, so that they need not fit into memory. Ctrl-C ends the run early: what was finished by then comes
    back, marked as interrupted.

    Raises `InputError` for a bad plan, an unknown candidate, a job with several batch sizes, or a run beyond
    the engine's limits; `SelfCheckError` where a run of the packet engine proves itself wrong: what it
    recorded until then is in the directory, with the status `failed`.

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
    engine = engine or checked.run.engine
    with located(plan):
        run_into = (_by_packets if engine == "packet" else _by_rates)(checked, candidate)
    with RunWriter(directory) if directory is not None else Memory() as sink, located(plan):
        return run_into(sink, _in_seconds(progress))


def ignored(plan: Plan, engine: Engine) -> list[dict[str, str]]:
    """Keys that the plan gives and `engine` does not read, each with the reason."""
    packets = "only the packet engine reads it"
    found: list[dict[str, str]] = []

    def add(table: Table, keys: Sequence[str], where: str, why: str) -> None:
        names = [(name, field.alias or name) for name, field in type(table).model_fields.items()]
        given = (key for name, key in names if name in table.model_fields_set and key in keys)
        found.extend({"key": f"{where}{key}", "why": why} for key in given)

    if engine == "flow":
        add(plan, ("switch",), "", packets)
        if all(job.training is None for job in plan.jobs):
            add(plan, ("host",), "", packets)
        add(plan.run, ("skip_ahead", "record_flows"), "run.", packets)
    else:
        why = "the packet engine takes samples; see sample_every"
        add(plan.run, ("record_rates_until",), "run.", why)
    for number, job in enumerate(plan.jobs):
        where = f"jobs[{number}]."
        if engine == "packet":
            add(
                job,
                ("share",),
                where,
                "only the flow engine reads it; on packets, congestion decides who gets what",
            )
            continue
        add(
            job,
            ("congestion",),
            where,
            "only the packet engine reads it; on the flow engine, share says who gets what",
        )
        add(job, ("window",), where, packets)
        if job.path == "spray":
            add(job, ("path",), where, "the flow engine puts a flow on one way")
    return found


def _by_rates(plan: Plan, candidate: str | None) -> _RunInto:
    if plan.changes:
        raise InputError("changes: only the packet engine has links that change; run the plan on that one")
    network = build_network(plan)
    crossings = network.crossings(plan, placement_of(plan, candidate))
    jobs = _job_specs(plan, crossings, candidate, network)

    def run_into(sink: Sink, progress: _Progress) -> Run:
        started = time.perf_counter()
        ran = _hocket.simulate(network.fabric, jobs, _run_spec(plan), progress)
        run_s = time.perf_counter() - started
        frames = {name: frame(columns) for name, columns in ran["tables"].items()}
        shown = network.display_names()
        for name, table in frames.items():
            named = table.with_columns(pl.col("link").replace(shown)) if "link" in table.columns else table
            sink.append_frame(name, named)
        counts = {
            **ran["counters"],
            "iterations": frames["iterations"].height,
            "share_or_priority_decided": int(frames["jobs"]["policy_acted"].sum()),
            "time_shift_adjustments": frames["adjustments"].height,
        }
        manifest = {
            **_manifest(plan, "flow", candidate, run_s),
            "status": "interrupted" if ran["interrupted"] else "complete",
            "simulated_s": ran["ended_ps"] / 1e12,
            "jobs_per_queue": ran["jobs_per_queue"],
            "counts": counts,
        }
        return sink.finish({**manifest, "plan": plan.resolved()})

    return run_into


def _by_packets(plan: Plan, candidate: str | None) -> _RunInto:
    sent = Sent(plan, placement_of(plan, candidate))
    # The packet engine finds the links by the flows.
    jobs = _job_specs(plan, [[] for _ in plan.jobs], candidate, sent.network)

    def run_into(sink: Sink, progress: _Progress) -> Run:
        started = time.perf_counter()

        def manifest() -> dict[str, Any]:
            run_s = time.perf_counter() - started
            return {**_manifest(plan, "packet", candidate, run_s), "parameters": sent.described()}

        try:
            outcome = sent.simulate(jobs, _run_spec(plan), sink, progress)
        except SelfCheckError as error:
            failed = {"status": "failed", "failure": str(error)}
            sink.finish({**manifest(), **failed, "plan": plan.resolved()})
            raise
        return sink.finish({**manifest(), **outcome, "plan": plan.resolved()})

    return run_into


def _manifest(plan: Plan, engine: Engine, candidate: str | None, run_s: float) -> dict[str, Any]:
    return {
        "hocket_version": version("hocket"),
        "engine": engine,
        "seed": plan.seed,
        "candidate": candidate,
        "run_s": run_s,
        "peak_rss_mb": peak_rss_mb(),
        "ignored": ignored(plan, engine),
    }


def _job_specs(
    plan: Plan, crossings: Sequence[Crossings], candidate: str | None, network: Network
) -> "list[_hocket._JobSpec]":
    placement = placement_of(plan, candidate)
    return [
        job_spec(job, _only_profile(number, job), crossed)
        if job.training is None
        else training_job_spec(plan, number, training_spec(plan, number, placement, network))
        for number, (job, crossed) in enumerate(zip(plan.jobs, crossings, strict=True))
    ]


def _run_spec(plan: Plan) -> "_hocket._RunSpec":
    return {
        "priority_queues": plan.priority_queues,
        "seed": plan.seed,
        "iterations": plan.iterations,
        "until_ps": plan.run.until_ps,
        "record_rates_until_ps": plan.run.record_rates_until_ps,
        "record_operations": plan.run.record_operations,
        "sample_every_ps": plan.run.sample_every_ps,
        "record_flows": plan.run.record_flows,
    }


def job_spec(
    job: Job,
    profile: WorkloadProfile,
    crossings: Crossings,
    *,
    time_shift_ps: int | None = None,
    pad_to_ps: int | None = None,
    readjust: bool | None = None,
) -> "_hocket._JobSpec":
    """A periodic `job` as the engines take it; the keyword arguments replace what the plan says."""
    return {
        **_common_spec(job),
        "profile": plain(profile),
        "first": None if job.first is None else plain(job.first.profile()),
        "crossings": crossings,
        "time_shift_ps": job.time_shift_ps if time_shift_ps is None else time_shift_ps,
        "readjust": job.readjust if readjust is None else readjust,
        "pad_to_ps": job.pad_to_ps if pad_to_ps is None else pad_to_ps,
    }


def training_job_spec(plan: Plan, number: int, training: "_hocket._TrainingSpec") -> "_hocket._JobSpec":
    """Training job `number` of `plan` as the engines take it."""
    job = plan.jobs[number]
    return {**_common_spec(job), "training": training, "iterations": plan.iterations_of(job)}


def _common_spec(job: Job) -> "_hocket._JobSpec":
    return {
        "name": job.name,
        "profile": None,
        "first": None,
        "crossings": [],
        "training": None,
        "arrival_ps": job.arrival_ps,
        "iterations": job.iterations,
        "share": (job.share.kind, job.share.weight),
        "priority": job.priority,
        "time_shift_ps": job.time_shift_ps,
        "clock_error_ps": job.clock_error_ps,
        "readjust": job.readjust,
        "jitter": job.jitter,
        "pad_to_ps": job.pad_to_ps,
    }


def plain(profile: WorkloadProfile) -> tuple[int, list[tuple[int, int, int]]]:
    """A profile as it crosses into `_hocket`."""
    phases = [(phase.start_ps, phase.duration_ps, phase.rate_bps) for phase in profile.phases]
    return profile.period_ps, phases


def _only_profile(number: int, job: Job) -> WorkloadProfile:
    profiles = job.profiles()
    if len(profiles) > 1:
        raise InputError(
            f"jobs[{number}].batch_size: a run needs one batch size: got {len(profiles)}; "
            "`hocket compat` chooses among several"
        )
    return profiles[0]


def placement_of(plan: Plan, candidate: str | None) -> Mapping[str, Sequence[str]] | None:
    """Where the candidate of this name puts the jobs; without one, `None`: where they say themselves.

    Raises `InputError` for a name that the plan does not have.
    """
    if candidate is None:
        return None
    for each in plan.candidates:
        if each.name == candidate:
            return each.placement
    known = ", ".join(repr(each.name) for each in plan.candidates) or "none"
    raise InputError(f"candidates: there is no candidate {candidate!r}; known: {known}")


def _in_seconds(progress: Progress | None) -> _Progress:
    def report(time_ps: int, done: int, total: int | None) -> None:
        if progress is not None:
            progress(time_ps / 1e12, done, total)

    return report
