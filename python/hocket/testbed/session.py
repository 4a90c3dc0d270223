"""Runs jobs on a testbed, from starting their workers to writing the tables."""

import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from hocket.cluster.interruption import Interruption
from hocket.engines.run import Progress
from hocket.plan import Job, Plan
from hocket.plan.schema import Table
from hocket.profiles import PS_PER_S
from hocket.results import Run, RunWriter, peak_rss_mb
from hocket.testbed import machine, state
from hocket.testbed.counters import Counters, Poller, open_counters, utilisation
from hocket.testbed.layout import Layout, PlacedJob, warnings
from hocket.testbed.processes import (
    Rank,
    WorkersLostError,
    ended,
    listen_until,
    package_alone,
    start_rank,
    torch_version,
)
from hocket.testbed.service import service
from hocket.testbed.tables import PS_PER_NS, PhasesSent, tables
from hocket.testbed.tasks import phase_bytes, task_of

Agents = Literal["none", "dry-run", "shift"]
"""Agents in the jobs: none, one that only measures, or one that follows the slots of a service."""

ENGINE = "live"
"""The value of `engine` in the manifest of a run on the testbed."""

# For PyTorch's TCPStore, by which the workers of a job find each other. All jobs can use one port, since each
# host has its own namespace.
_STORE_PORT = 29_500
# PyTorch takes seconds to load, and few processors may have to load it for all workers at the same time.
_READY_WITHIN_S = 180.0
# All workers get the same start time, which must be in the future when the last one receives it.
_START_AFTER_S = 0.5
# They also get the same last iteration, which none of them may have passed by then.
_STOP_AFTER_S = 0.3
_STOP_AFTER_ITERATIONS = 2
# Hocket: an iteration that takes longer than this many periods plus seconds is waiting for a lost worker.
_LIMIT_PERIODS = 50
_LIMIT_S = 10.0
_PROGRESS_EVERY_S = 0.1


@dataclass
class Session:
    """A run of the jobs of `plan`, which are `placed` on a testbed that is up."""

    layout: Layout
    plan: Plan
    placed: tuple[PlacedJob, ...]
    agents: Agents
    registered: Plan
    """The plan whose profiles are registered with the service."""
    controls: Mapping[str, str]
    """The congestion control of each job, already set on its hosts."""
    python: str
    progress: Progress | None
    _ranks: list[Rank] = field(default_factory=list)

    def run(self, directory: str | Path | None) -> Run:
        """Runs the jobs; writes the run to `directory` if given."""
        # Created first, so that a directory that cannot be written is reported before anything runs.
        writer = None if directory is None else RunWriter(directory)
        before = self._before()
        started_s, busy_s = time.perf_counter(), machine.busy_s()
        made, outcome = self._measure()
        run_s = time.perf_counter() - started_s
        manifest = {
            **before,
            **outcome,
            "run_s": run_s,
            "peak_rss_mb": peak_rss_mb(),
            "counts": {name: made[name].height for name in ("iterations", "phases", "adjustments")},
            "ignored": ignored(self.plan),
            "plan": self.plan.resolved(),
        }
        manifest["machine"]["busy"] = (machine.busy_s() - busy_s) / run_s / before["machine"]["processors"]
        if writer is None:
            return Run(made, manifest)
        with writer:
            for name, table in made.items():
                writer.append_frame(name, table)
            return writer.finish(manifest)

    def _before(self) -> dict[str, Any]:
        return {
            "hocket_version": version("hocket"),
            "engine": ENGINE,
            "seed": self.plan.seed,
            "agents": self.agents,
            "machine": {
                "kernel": platform.release(),
                "processors": os.cpu_count() or 1,
                "load_before": machine.load_average(),
            },
            "python": self.python,
            "torch": torch_version(self.python),
            "congestion_controls": dict(self.controls),
            "warnings": warnings(self.layout),
        }

    def _measure(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tables, and how the run ended."""
        origin_ns = unix_ns = 0
        with ExitStack() as stack:
            interruption = stack.enter_context(Interruption())
            folder = stack.enter_context(state.run_folder(self.layout.name))
            counters = open_counters(self.layout)
            stack.callback(counters.close)
            stack.enter_context(ended(self._ranks))
            try:
                self._start(stack, folder)
                self._wait_ready(interruption)
                origin_ns = time.monotonic_ns() + round(_START_AFTER_S * 1e9)
                unix_ns = time.time_ns() + origin_ns - time.monotonic_ns()
                self._iterate(counters, origin_ns, interruption)
                status = {"status": "interrupted" if interruption.received else "complete"}
            except WorkersLostError as error:
                status = {"status": "failed", "failure": str(error)}
            measured_s = max(0.0, (time.monotonic_ns() - origin_ns) / 1e9) if origin_ns else 0.0
            # Still inside the context: on exit, the folder with the workers' logs is removed.
            made = tables(self._sent(), self._ranks, origin_ns, unix_ns)
            return {**made, "utilisation": utilisation(counters, origin_ns)}, {
                **status,
                "measured_s": measured_s,
            }

    def _sent(self) -> dict[str, PhasesSent]:
        """The phases that each job sends according to the plan."""
        return {
            placed.name: PhasesSent(
                sizes=tuple(
                    phase_bytes(phase.rate_bps, phase.duration_ps) for phase in placed.profile.phases
                ),
                shift_s=self._shift_ps(job) / PS_PER_S,
            )
            for job, placed in zip(self.plan.jobs, self.placed, strict=True)
        }

    def _start(self, stack: ExitStack, folder: Path) -> None:
        package = package_alone(folder)
        serving: Mapping[str, str] = {}
        if self.agents == "shift":
            serving = stack.enter_context(service(self.layout, self.registered, folder))
        elif self.agents == "dry-run":
            serving = {"HOCKET_DRY_RUN": "1"}
        for job, placed in zip(self.plan.jobs, self.placed, strict=True):
            # The address of rank 0 on the control network, which carries no gradients.
            store = f"tcp://{placed.workers[0].control[0].address}:{_STORE_PORT}"
            count = len(placed.workers)
            for number, worker in enumerate(placed.workers):
                task = {
                    **task_of(placed, job, self.plan.seed).to_dict(),
                    "job": job.name,
                    # Gloo's ring sends from each rank to the previous one, the plan's to the next worker.
                    "rank": -number % count,
                    "ranks": count,
                    "store": store,
                    "iterations": self._iterations_of(job),
                    "agent": self.agents != "none",
                }
                environment = {**serving, "HOCKET_JOB": job.name}
                self._ranks.append(start_rank(worker, task, self.python, package, folder, environment))

    def _wait_ready(self, interruption: Interruption) -> None:
        until_s = time.monotonic() + _READY_WITHIN_S

        def is_over() -> bool:
            return (
                interruption.received or all(rank.ready for rank in self._ranks) or time.monotonic() > until_s
            )

        listen_until(self._ranks, is_over, _PROGRESS_EVERY_S, lambda: self._report_progress(0.0))
        for rank in self._ranks:
            if not (rank.ready or interruption.received):
                raise WorkersLostError(f"{rank.title} was not ready within {_READY_WITHIN_S:g} s")

    def _iterate(self, counters: Counters, origin_ns: int, interruption: Interruption) -> None:
        """Starts all workers, and stops them when it is time."""
        if interruption.received:
            return
        starts_ns = {
            job.name: origin_ns + (job.arrival_ps + self._shift_ps(job)) // PS_PER_NS
            for job in self.plan.jobs
        }
        for rank in self._ranks:
            rank.send(f"start {starts_ns[rank.job]}")
        watch, until_ps = _Watch(self.placed, starts_ns), self.plan.run.until_ps
        stopped = False

        def step() -> None:
            nonlocal stopped
            now_s = (time.monotonic_ns() - origin_ns) / 1e9
            self._report_progress(max(0.0, now_s))
            is_late = until_ps is not None and now_s >= until_ps / PS_PER_S
            if (interruption.received or is_late) and not stopped:
                stopped = True
                self._stop()
            watch.check(self._ranks)

        with Poller(counters):
            listen_until(
                self._ranks, lambda: all(rank.has_ended() for rank in self._ranks), _PROGRESS_EVERY_S, step
            )

    def _stop(self) -> None:
        for placed in self.placed:
            ranks = self._ranks_of(placed.name)
            more = _STOP_AFTER_ITERATIONS + math.ceil(_STOP_AFTER_S * PS_PER_S / placed.profile.period_ps)
            last = max(rank.done for rank in ranks) + more
            for rank in ranks:
                rank.send(f"stop {last}")

    def _shift_ps(self, job: Job) -> int:
        """The time-shift of the plan; 0 if a service assigns slots."""
        return 0 if self.agents == "shift" else job.time_shift_ps or 0

    def _iterations_of(self, job: Job) -> int | None:
        """The number of iterations after which `job` ends; None if unlimited."""
        return self.plan.iterations if job.iterations is None else job.iterations

    def _ranks_of(self, job: str) -> Sequence[Rank]:
        return [rank for rank in self._ranks if rank.job == job]

    def _report_progress(self, time_s: float) -> None:
        if self.progress is None:
            return
        done = sum(min(rank.done for rank in self._ranks_of(job.name)) for job in self.plan.jobs)
        limits = [self._iterations_of(job) for job in self.plan.jobs]
        total = None if None in limits else sum(filter(None, limits))
        self.progress(time_s, done, total)


class _Watch:
    """Detects workers that make no progress."""

    def __init__(self, placed: Sequence[PlacedJob], starts_ns: Mapping[str, int]) -> None:
        self._longest_s = {
            job.name: _LIMIT_S + _LIMIT_PERIODS * job.profile.period_ps / PS_PER_S for job in placed
        }
        self._last: dict[int, tuple[int, int]] = {}
        self._starts_ns = starts_ns

    def check(self, ranks: Sequence[Rank]) -> None:
        """Raises `WorkersLostError` for a rank that has taken too long for an iteration."""
        now_ns = time.monotonic_ns()
        for number, rank in enumerate(ranks):
            done, since_ns = self._last.get(number, (-1, now_ns))
            if rank.done != done or rank.has_ended():
                # Time counts from the start of the job, which its arrival may put far ahead.
                self._last[number] = (rank.done, max(now_ns, self._starts_ns[rank.job]))
            elif now_ns - since_ns > self._longest_s[rank.job] * 1e9:
                raise WorkersLostError(
                    f"{rank.title} did not finish iteration {rank.done} "
                    f"within {self._longest_s[rank.job]:g} s"
                )


def ignored(plan: Plan) -> list[dict[str, str]]:
    """Keys of the plan that the testbed ignores, each with the reason."""
    simulated = "only the packet engine reads it"
    found: list[dict[str, str]] = []

    def add(table: Table, keys: Mapping[str, str], where: str) -> None:
        names = {field.alias or name: name for name, field in type(table).model_fields.items()}
        given = (key for key in keys if names[key] in table.model_fields_set)
        found.extend({"key": f"{where}{key}", "why": keys[key]} for key in given)

    add(plan, {"switch": simulated, "host": simulated, "changes": simulated}, "")
    add(
        plan.run,
        {"engine": "the testbed is not an engine", "record_rates_until": "see the table utilisation"},
        "run.",
    )
    for number, job in enumerate(plan.jobs):
        keys = {
            "priority": "links of the testbed have one class of service",
            "congestion": "share determines the TCP congestion control of a job",
            "window": simulated,
            "clock_error": "all workers share the clock of one machine",
            "readjust": "--agents determines the agents in the jobs",
            "pad_to": "--agents determines the agents in the jobs",
            "first": "a job begins with a complete iteration",
        }
        add(job, keys, f"jobs[{number}].")
        if job.path == "spray":
            why = "a TCP connection has one path"
            found.append({"key": f"jobs[{number}].path", "why": why})
    return found
