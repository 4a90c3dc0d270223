"""Runs a trace of jobs under a scheduler: calls it when a decision is due, and applies its decision."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, overload

from hocket import _hocket
from hocket.cluster.deciders import Deciders, Verdict
from hocket.cluster.interruption import Interruption
from hocket.cluster.marks import marks_for
from hocket.cluster.policies import Policy, check_titles, load_policy
from hocket.cluster.recording import Recording, check_memory, recording_of
from hocket.cluster.tables import BYTES_PER_ITERATION, DecisionRecord, Tables
from hocket.cluster.trace import Trace, TraceLike, as_trace
from hocket.cluster.transitions import Costs, Member, Transitions
from hocket.errors import InputError, SelfCheckError
from hocket.results import Run, RunWriter, peak_rss_mb
from hocket.results.run import MANIFEST
from hocket.results.sink import Memory, Nowhere, Sink
from hocket.schedulers import Scheduler, State
from hocket.schedulers.job_routes import FLOW_PARTS, Routes

Progress = Callable[[float, int, int], object]
"""Called after every step with simulated seconds, jobs done, and jobs in total."""

# The engine's clock counts picoseconds in 64 bits; half of that is 106 days.
_NEVER_PS = 2**63 - 1
# Consecutive decisions that may move jobs, or leave all of them waiting, without any iteration being
# finished. A scheduler that exceeds this would never end the run.
_MAX_IDLE_DECISIONS = 1_000


SchedulerLike = str | Policy | Scheduler
"""A scheduler: a name that `load_policy` accepts, an object with a method `schedule`, or a `Policy` of such
an object, which may add MonkeyTree, CASSINI, Crux, MLTCP or perfect routing."""

_Scheduler = TypeVar("_Scheduler", bound=SchedulerLike)


@overload
def simulate_cluster(
    trace: TraceLike,
    scheduler: SchedulerLike,
    *,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> Run: ...


@overload
def simulate_cluster(
    trace: TraceLike,
    scheduler: list[_Scheduler],
    *,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Run]: ...


def simulate_cluster(
    trace: TraceLike,
    scheduler: SchedulerLike | list[_Scheduler],
    *,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> Run | dict[str, Run]:
    """Simulate the jobs of a trace on the flow engine, placed by a scheduler.

    `trace` is a `Trace`, a path, or its tables. A scheduler is a name that `hocket cluster --scheduler`
    takes, such as "themis+cassini"; an object with `schedule(state, candidates)`; or a
    `hocket.cluster.policies.Policy` of such an object. One scheduler returns its run; a list returns the runs
    by the schedulers' names, in the order of the list.

    The same trace and scheduler give the same tables, which `hocket.cluster.schemas` describes. With a
    `directory` the tables are written there during the run, so that they need not fit into memory; without
    one, they may fill the trace's `table_memory`. The runs of a list go into subdirectories named after the
    schedulers. `progress` is called after every step with
    simulated seconds, jobs done and jobs in total. Ctrl-C ends the run early, and skips the rest of a list:
    everything finished by then is returned, marked as interrupted.

    Raises:
        hocket.errors.InputError: The trace is invalid, a scheduler's name is unknown or given twice, the
            tables of a run without a directory exceed `table_memory`, or a scheduler raises an exception or
            returns a decision that cannot be applied. Tables recorded until
            then are in the directory, with the status `failed`.
        hocket.errors.SelfCheckError: A self-check of the engine failed; the tables are kept likewise.

    >>> run = simulate_cluster({
    ...     "fabric": {"testbed": "cassini"},
    ...     "jobs": [{"model": "VGG16", "name": "a", "batch_size": 1400, "workers": 4, "iterations": 100}],
    ... }, "themis")
    >>> run.tables["jobs"].select("job", "status").rows()
    [('a', 'done')]
    """
    trace = as_trace(trace)
    if not isinstance(scheduler, list):
        return _simulated(trace, _as_policy(scheduler, trace), directory, progress)
    policies = [_as_policy(each, trace) for each in scheduler]
    check_titles(policies)
    runs = {}
    for policy in policies:
        where = None if directory is None else Path(directory) / policy.title
        runs[policy.title] = run = _simulated(trace, policy, where, progress)
        if run.interrupted:
            break
    return runs


def _as_policy(scheduler: SchedulerLike, trace: Trace) -> Policy:
    """The scheduler with its name. Raises `InputError` for an unknown name."""
    match scheduler:
        case str():
            return load_policy(scheduler, trace)
        case Policy():
            return scheduler
        case _ if callable(getattr(scheduler, "schedule", None)):
            return Policy(type(scheduler).__name__, scheduler)
        case _:
            raise InputError(
                f"scheduler: must be a name, or have a method schedule(state, candidates): got {scheduler!r}"
            )


def _simulated(trace: Trace, policy: Policy, directory: str | Path | None, progress: Progress | None) -> Run:
    """One run. An error names the directory of the tables, if any were written."""
    recording = recording_of(trace)
    if directory is None:
        check_memory(trace, recording)
    try:
        with RunWriter(directory) if directory is not None else Memory() as sink:
            return _Simulation(trace, policy, trace.file.until_ps, sink, recording, progress).run()
    except (InputError, SelfCheckError) as error:
        if directory is not None and (Path(directory) / MANIFEST).exists():
            raise type(error)(f"{error}; its tables until then are in {directory}") from error
        raise


def reached(trace: Trace, policy: Policy | str, at_ps: int) -> Transitions:
    """The jobs, GPUs and engine of a run under `policy` at `at_ps`, or at its end if that comes first.

    Raises `InputError` as `simulate_cluster` does.
    """
    if isinstance(policy, str):
        policy = load_policy(policy, trace)
    until_ps = min(at_ps, trace.file.until_ps or at_ps)
    # Whatever the run recorded, its engine is to have all rows from here on.
    recording = replace(recording_of(trace), kind="all", every=1)
    simulation = _Simulation(trace, policy, until_ps, Nowhere(), recording, None)
    while simulation.unfinished():
        simulation.step()
    return simulation.transitions


class _Simulation:
    """One run, from the first arrival to the last departure or to the trace's `until`."""

    def __init__(
        self,
        trace: Trace,
        policy: Policy,
        until_ps: int | None,
        sink: Sink,
        recording: Recording,
        progress: Progress | None,
    ) -> None:
        settings, network = trace.settings, trace.network
        self._trace = trace
        self._title = policy.title
        self._until_ps = until_ps
        self._sink = sink
        self._recording = recording
        self._progress = progress
        names = [job.name for job in trace.jobs]
        routes = Routes(network, trace.cluster, names, spread=policy.perfect_routing)
        flow_parts = FLOW_PARTS if policy.perfect_routing else 1
        self._deciders = Deciders(trace, policy, routes)
        marks = _marks(trace) if _has_equal_flows(policy) else None
        self._engine = _hocket.ClusterRun(
            network.fabric,
            {
                "seed": trace.seed,
                "priority_queues": trace.priority_queues,
                "flow_parts": flow_parts,
                "goodput": trace.goodput,
                "merge": settings.merge,
                "marks": marks,
                "skip_ahead": settings.skip_ahead,
                "record": (recording.kind, recording.every),
                # Rows are passed on when they fill half of the memory, so that an advance has the other half.
                "most_iterations": settings.table_memory_bytes // (2 * BYTES_PER_ITERATION),
            },
        )
        self._tables = Tables(
            sink,
            self._engine,
            trace,
            counts_marks=marks is not None,
            records_iterations=recording.kind != "summary",
        )
        self._models = list(dict.fromkeys(job.model for job in trace.jobs))
        self.transitions = Transitions(
            self._engine,
            trace.cluster,
            Costs(
                settings.start_cost_ps,
                settings.restart_cost_ps,
                trace.monkeytree.migration_ps,
                settings.jitter,
            ),
            routes,
            # NSDI'24 §5.1: every job runs DCQCN with its default parameters.
            share=trace.mltcp.share if policy.mltcp else ("fair", 1.0),
            adjust=trace.cassini.adjust,
            dedicated=self._deciders.dedicated,
            models={model: number for number, model in enumerate(self._models)},
            on_stint_end=self._tables.add_stint,
        )
        self._arrived = 0
        self._ask_again_ps: int | None = None
        self._idle_decisions = 0
        self._work_done = (0, 0)
        self._started = time.perf_counter()

    def run(self) -> Run:
        """The whole run. Recorded tables are kept, however it ends."""
        status = {"status": "complete"}
        try:
            with Interruption() as interruption:
                while self.unfinished():
                    self.step()
                    if interruption.received:
                        status = {"status": "interrupted"}
                        break
        except (InputError, SelfCheckError) as error:
            self._finish({"status": "failed", "failure": str(error)})
            raise
        return self._finish(status)

    def unfinished(self) -> bool:
        """Whether an event is left before the end."""
        if self._until_ps is not None and self._engine.now_ps >= self._until_ps:
            return False
        if self._arrived < len(self._trace.jobs) or self._ask_again_ps is not None:
            return True
        # Waiting jobs alone cause no event: the scheduler is not called again.
        return len(self.transitions.stints()) > 0

    def step(self) -> None:
        """Advance to the next event, and make the decision that it triggers, if any."""
        # Departures and arrivals at one time trigger a single decision.
        departed = self.transitions.ended(self._advanced())
        self._tables.pass_on_if_full(self.transitions.stints())
        arrived = self._arrivals()
        requested = self._ask_again_ps is not None and self._ask_again_ps <= self._engine.now_ps
        planning = (planned_ps := self._planned_ps()) is not None and planned_ps <= self._engine.now_ps
        reason = _reason(arrived, departed, requested=requested, planning=planning)
        if departed or arrived or requested:
            self._ask_again_ps = None
            if self.transitions.active:
                self._decide(reason)
        elif planning:
            self._keep(reason)
        # After the decision, so that no job starts on GPUs that the decision takes from it.
        self.transitions.begin()
        if self._progress is not None:
            done = len(self.transitions.done)
            self._progress(self._engine.now_ps / 1e12, done, len(self._trace.jobs))

    def _advanced(self) -> Sequence[tuple[int, str]]:
        """Advance the engine; return the jobs whose stints ended, as (number, ending).

        It may stop earlier without any, so that rows can be taken.
        """
        try:
            return self._engine.advance(self._next_ps())
        except ValueError as error:
            raise SelfCheckError(str(error)) from None

    def _next_ps(self) -> int:
        """The next time known in advance; the engine stops earlier if a job ends."""
        times = [self._until_ps, self._ask_again_ps, self._planned_ps()]
        if self._arrived < len(self._trace.jobs):
            times.append(self._trace.jobs[self._arrived].arrival_ps)
        return min((each for each in times if each is not None), default=_NEVER_PS)

    def _planned_ps(self) -> int | None:
        """When MonkeyTree's next round is due, if no decision comes before."""
        # Jobs that wait do not move, and their wait must not keep a run from its end.
        return self._deciders.next_round_ps if self.transitions.stints() else None

    def _arrivals(self) -> list[str]:
        """Admit the jobs that arrive now; return their names."""
        first, jobs = self._arrived, self._trace.jobs
        while self._arrived < len(jobs) and jobs[self._arrived].arrival_ps <= self._engine.now_ps:
            self.transitions.arrive(jobs[self._arrived])
            self._arrived += 1
        arrived = [job.name for job in jobs[first : self._arrived]]
        placed = {name: self._trace.placement[name] for name in arrived if name in self._trace.placement}
        # On a cluster of its own, it does not matter which GPUs a job has.
        if placed and not self._deciders.dedicated:
            self.transitions.place(placed)
        return arrived

    def _decide(self, reason: str) -> None:
        """Ask for a decision, and apply it."""
        state = self.transitions.state()
        verdict = self._deciders.decide(state, self.transitions.iteration_start_ps)
        self._apply(state, verdict, reason)

    def _keep(self, reason: str) -> None:
        """Keep the scheduler's decision, in which MonkeyTree may now move workers."""
        state = self.transitions.state()
        verdict = self._deciders.keep(state, self._ask_again_ps, self.transitions.iteration_start_ps)
        self._apply(state, verdict, reason)

    def _apply(self, state: State, verdict: Verdict, reason: str) -> None:
        moved = self.transitions.apply(verdict.candidate, verdict.migrated)
        if verdict.chosen is not None:
            self.transitions.align(verdict.chosen.slots)
        if verdict.routed is not None:
            self.transitions.reroute(verdict.routed.traffic)
        self._ask_again_ps = verdict.decision.ask_again_ps
        waiting = verdict.waiting(state)
        self._check_progress(state, waiting, moved)
        record = DecisionRecord(state.now_ps, reason, len(state.jobs), len(waiting), verdict, moved)
        self._tables.add_decision(record, self.transitions.stints())

    def _check_progress(self, state: State, waiting: Sequence[str], moved: Sequence[str]) -> None:
        """Raise `InputError` for a scheduler that keeps requesting decisions and prevents all progress."""
        work_done = len(self.transitions.done), sum(each.samples_done for each in state.jobs)
        # A scheduler may let jobs wait for those that are still to arrive.
        if work_done != self._work_done or self._arrived < len(self._trace.jobs):
            self._idle_decisions = 0
        elif moved or len(waiting) == len(state.jobs):
            self._idle_decisions += 1
        self._work_done = work_done
        if self._idle_decisions > _MAX_IDLE_DECISIONS:
            what = (
                f"leaves all {len(state.jobs)} jobs waiting, starting with {waiting[0]!r}, although all GPUs "
                "are free"
                if len(waiting) == len(state.jobs)
                else "moves jobs before any of them finishes an iteration"
            )
            raise self._deciders.error(state, f"{what}; this lasted {_MAX_IDLE_DECISIONS:,} decisions")

    def _finish(self, status: Mapping[str, str]) -> Run:
        """The run up to now; jobs keep the iterations that they finished."""
        self.transitions.end()
        members, now_ps = self.transitions.members, self._engine.now_ps
        summaries = self._tables.finish(members, now_ps, self._models)
        manifest = {
            "hocket_version": version("hocket"),
            "engine": "flow",
            "scheduler": self._title,
            "seed": self._trace.seed,
            **status,
            "simulated_s": now_ps / 1e12,
            "run_s": time.perf_counter() - self._started,
            "peak_rss_mb": peak_rss_mb(),
            "decided": self._deciders.described(),
            **self._skipped(members),
            "record": {**self._recording.described(), "percentile_error": summaries.percentile_error},
            "counts": {
                "jobs": len(self._trace.jobs),
                "arrived": len(members),
                "done": len(self.transitions.done),
                **self._tables.rows,
            },
            "plan": self._trace.resolved(),
        }
        return self._sink.finish(manifest)

    def _skipped(self, members: Sequence[Member]) -> dict[str, Any]:
        """What was repeated instead of being simulated, for the manifest."""
        if not self._trace.settings.skip_ahead:
            return {}
        iterations = sum(member.iterations for member in members)
        return {
            "skip_ahead": {"iterations": iterations, "repeated": self._engine.repeated_iterations()},
        }


def _has_equal_flows(policy: Policy) -> bool:
    """Whether all flows have one path, queue and weight, as those to which the model of marks was fitted."""
    return not (policy.crux or policy.mltcp or policy.perfect_routing)


def _marks(trace: Trace) -> "_hocket._Marks | None":
    """The marking model, or None where marks are not counted.

    Raises `InputError` if the trace explicitly enables marks on links for which no model was fitted.
    """
    if not trace.settings.marks:
        return None
    marks = marks_for(trace.network)
    if marks is None and "marks" in trace.settings.model_fields_set:
        raise InputError(
            "cluster.marks: marks are modelled for links of 50 Gbps only, and not all links have that rate; "
            "leave the key out or set it to false"
        )
    return marks


def _reason(arrived: Sequence[str], departed: Sequence[str], *, requested: bool, planning: bool) -> str:
    """What triggered a decision, as text.

    >>> _reason(["a", "b"], [], requested=True, planning=False)
    'arrival of a, b; its own request'
    """
    parts = [
        f"{what} of {', '.join(jobs)}"
        for what, jobs in (("arrival", arrived), ("departure", departed))
        if jobs
    ]
    own = [
        what
        for what, applies in (("its own request", requested), ("an epoch of MonkeyTree", planning))
        if applies
    ]
    return "; ".join([*parts, *own])
