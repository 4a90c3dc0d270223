"""Runs plans on either engine and returns tables and a manifest."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from hocket import _hocket
from hocket.engines.flow import run_flows
from hocket.engines.network import build_network
from hocket.engines.packet import PacketSetup
from hocket.engines.specs import job_specs, operations_of, placement_of, recorded_iterations, run_spec
from hocket.errors import InputError, SelfCheckError, check_choice, located
from hocket.plan import Engine, Plan, PlanLike, as_plan
from hocket.plan.digest import digest_of
from hocket.plan.schema import Table
from hocket.results import Run, RunWriter, peak_rss_mb
from hocket.results.sink import Memory, Sink

Progress = Callable[[float, int, int | None], object]
"""Progress callback, called from time to time with the simulated seconds, the number of iterations done, and
their total if known.
"""


_Progress = Callable[[int, int, int | None], object]


_RunInto = Callable[[Sink, _Progress], Run]


def simulate(
    plan: PlanLike,
    *,
    candidate: str | None = None,
    engine: Engine | None = None,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulates `plan`; `engine` overrides the plan's engine.

    On a fabric, `candidate` places the jobs; without it, each job's own `placement` does. The same plan
    always gives the same tables. With a `directory`, tables are written there during the run, so they need
    not fit into memory. Ctrl-C ends the run early: the result has what was finished by then and is marked as
    interrupted.

    Raises `InputError` for a bad plan, an unknown engine or candidate, a job with several batch sizes, or a
    run beyond the engine's limits; `SelfCheckError` if a self-check of the packet engine fails: the rows
    recorded by then are in the directory, with the status `failed`.

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
    engine = checked.run.engine if engine is None else engine
    check_choice("engine", engine, get_args(Engine))
    # Prepared before the directory is opened, which removes the run in it: a refused plan costs no results.
    with located(plan), _without_collection():
        run_into = (_by_packets if engine == "packet" else _by_rates)(checked, candidate)
    with RunWriter(directory) if directory is not None else Memory() as sink, located(plan):
        return run_into(sink, _in_seconds(progress))


def ignored(plan: Plan, engine: Engine) -> list[dict[str, str]]:
    """The keys set in the plan that `engine` ignores, each with the reason.

    Raises `InputError` for an unknown engine.
    """
    check_choice("engine", engine, get_args(Engine))
    packets = "only the packet engine reads it"
    found: list[dict[str, str]] = []

    def add(table: Table, keys: Sequence[str], where: str, why: str) -> None:
        names = [(name, field.alias or name) for name, field in type(table).model_fields.items()]
        given = (key for name, key in names if name in table.model_fields_set and key in keys)
        found.extend({"key": f"{where}{key}", "why": why} for key in given)

    if engine == "flow":
        add(plan, ("switch",), "", packets)
        # For training jobs, the flow engine also takes the sizes of packets and acknowledgements from [host].
        if all(job.training is None for job in plan.jobs):
            add(plan, ("host",), "", packets)
        add(plan.run, ("skip_ahead", "record_flows"), "run.", packets)
    else:
        why = "the packet engine records samples instead; set sample_every"
        add(plan.run, ("record_rates_until",), "run.", why)
    for number, job in enumerate(plan.jobs):
        where = f"jobs[{number}]."
        if engine == "packet":
            add(
                job,
                ("share",),
                where,
                "only the flow engine reads it; on the packet engine, congestion decides each job's rate",
            )
            continue
        add(
            job,
            ("congestion",),
            where,
            "only the packet engine reads it; on the flow engine, share decides each job's rate",
        )
        add(job, ("window",), where, packets)
        if job.path == "spray" and job.training is None:
            add(job, ("path",), where, "the flow engine puts each flow of a simple job on one path")
    return found


def _by_rates(plan: Plan, candidate: str | None) -> _RunInto:
    if plan.changes:
        raise InputError(
            'changes: the flow engine does not support links that change; run the plan with engine = "packet"'
        )
    network, placement = build_network(plan), placement_of(plan, candidate)
    jobs = job_specs(plan, network.crossings(plan, placement), placement, network)

    def run_into(sink: Sink, progress: _Progress) -> Run:
        outcome = run_flows(plan, network, jobs, sink, progress)
        manifest = _manifest(plan, "flow", candidate, jobs)
        return sink.finish({**manifest, **outcome, "plan": plan.resolved(placement)})

    return run_into


def _by_packets(plan: Plan, candidate: str | None) -> _RunInto:
    placement = placement_of(plan, candidate)
    setup = PacketSetup(plan, placement)
    # The packet engine derives the links that a job crosses from its flows.
    jobs = job_specs(plan, [[] for _ in plan.jobs], placement, setup.network)

    def run_into(sink: Sink, progress: _Progress) -> Run:
        started = time.perf_counter()

        def manifest() -> dict[str, Any]:
            return {**_manifest(plan, "packet", candidate, jobs), "parameters": setup.described()}

        try:
            outcome = setup.simulate(jobs, run_spec(plan, jobs), sink, progress)
        except SelfCheckError as error:
            # The engine does not report its own time after a failure, so this includes writing tables.
            run_s = time.perf_counter() - started
            failed = {"status": "failed", "failure": str(error), "run_s": run_s}
            sink.finish({**manifest(), **failed, "plan": plan.resolved(placement)})
            raise
        return sink.finish({**manifest(), **outcome, "plan": plan.resolved(placement)})

    return run_into


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspends the collector of cyclic garbage, which would search the input of large runs repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _manifest(
    plan: Plan, engine: Engine, candidate: str | None, jobs: "Sequence[_hocket._JobSpec]"
) -> dict[str, Any]:
    unasked = plan.run.record_operations is None and recorded_iterations(plan, jobs) == 0
    return {
        "hocket_version": version("hocket"),
        "engine": engine,
        "plan_sha256": digest_of(plan),
        "seed": plan.seed,
        "candidate": candidate,
        "peak_rss_mb": peak_rss_mb(),
        "ignored": ignored(plan, engine),
        # By table, the rows of an iteration that are too many to be recorded without being asked for.
        "not_recorded": {"operations": operations_of(jobs)} if unasked else {},
    }


def _in_seconds(progress: Progress | None) -> _Progress:
    def report(time_ps: int, done: int, total: int | None) -> None:
        if progress is not None:
            progress(time_ps / 1e12, done, total)

    return report
