"""Who decides in a run: the scheduler, and what the suffixes of its name add to its decisions."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hocket.cluster.policies import Policy
from hocket.cluster.trace import Trace
from hocket.engines.network import network_of
from hocket.errors import InputError
from hocket.schedulers import Candidate, Decision, State
from hocket.schedulers.cassini import Cassini, Choice
from hocket.schedulers.checks import checked
from hocket.schedulers.crux import Crux, TrafficDecision
from hocket.schedulers.job_routes import FLOW_PARTS, Routes
from hocket.schedulers.monkeytree import Migrations, MonkeyTree
from hocket.schedulers.monkeytree.uplinks import uplinks_of

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Verdict:
    """What all of them decided together."""

    decision: Decision
    """The scheduler's, of which migrations leave one candidate with other places."""
    chosen: Choice | None
    """CASSINI's choice; None without CASSINI."""
    routed: TrafficDecision | None
    """Crux's paths and priorities; None without Crux."""
    migrations: Migrations | None
    """MonkeyTree's moves of workers; None without any."""

    @property
    def candidate(self) -> Candidate:
        """The placement from now on."""
        return self.decision.candidates[0 if self.chosen is None else self.chosen.candidate]

    @property
    def migrated(self) -> frozenset[str]:
        """The running jobs of which workers migrate."""
        return frozenset() if self.migrations is None else self.migrations.migrated

    def waiting(self, state: State) -> list[str]:
        """The jobs of `state` that have no GPUs after it."""
        return [each.job.name for each in state.jobs if not self.candidate.placement.get(each.job.name)]


@dataclass
class _Times:
    """Wall-clock seconds of each answer."""

    scheduler: list[float] = field(default_factory=list)
    monkeytree: list[float] = field(default_factory=list)
    cassini: list[float] = field(default_factory=list)
    crux: list[float] = field(default_factory=list)


class Deciders:
    """The scheduler of a policy, and those that its suffixes add."""

    def __init__(self, trace: Trace, policy: Policy, routes: Routes) -> None:
        self._policy = policy
        self._times = _Times()
        self.dedicated = bool(getattr(policy.scheduler, "dedicated", False))
        """Whether each job has a cluster of its own."""
        network, topology = trace.network, trace.file.fabric.topology
        # CASSINI and Crux compare the flows on a link with its rate.
        counted = network_of(topology, FLOW_PARTS) if policy.perfect_routing else network
        self._cassini = (
            Cassini(
                trace.cassini,
                counted,
                routes.crossings,
                goodput=trace.goodput,
                jitter=trace.settings.jitter,
                seed=trace.seed,
            )
            if policy.cassini
            else None
        )
        # Without CASSINI only the scheduler's own choice is used.
        self._candidates = trace.cassini.candidates if policy.cassini else 1
        self._crux = Crux(counted, routes, trace.priority_queues, trace.seed) if policy.crux else None
        # Jobs with a cluster of their own share no uplinks.
        self._monkeytree = (
            MonkeyTree(
                trace.monkeytree,
                trace.cluster,
                uplinks_of(trace.cluster, topology),
                balanced=policy.crux or policy.perfect_routing,
            )
            if policy.monkeytree and not self.dedicated
            else None
        )

    @property
    def next_round_ps(self) -> int | None:
        """When MonkeyTree's next round is due, if no decision comes before; None if it needs a decision."""
        return None if self._monkeytree is None else self._monkeytree.next_ps

    def decide(self, state: State, started_ps: Callable[[str], int | None]) -> Verdict:
        """A decision of the scheduler, and what the others make of it.

        `started_ps` returns when the current iteration of a job began, or None if it is in none. Raises
        `InputError` if the scheduler raises an exception, or returns a decision that cannot be applied.
        """
        return self._completed(state, self._scheduled(state), started_ps)

    def keep(
        self, state: State, ask_again_ps: int | None, started_ps: Callable[[str], int | None]
    ) -> Verdict:
        """The placement in force, in which MonkeyTree may now move workers."""
        in_force = Candidate({each.job.name: each.gpus for each in state.jobs})
        return self._completed(state, Decision([in_force], ask_again_ps), started_ps)

    def error(self, state: State, what: str) -> InputError:
        """An error of the scheduler at the time of `state`."""
        return InputError(f"scheduler {self._policy.title!r}: at {state.now_ps / 1e12:,.3f} s: {what}")

    def described(self) -> dict[str, Any]:
        """The number of answers of each, and the seconds that they took, for the manifest."""
        return {
            who: {"decisions": len(times), "total_s": sum(times), "longest_s": max(times, default=0.0)}
            for who, times in vars(self._times).items()
        }

    def _completed(
        self, state: State, decision: Decision, started_ps: Callable[[str], int | None]
    ) -> Verdict:
        migrations = None
        if self._monkeytree is not None:
            planner, own = self._monkeytree, decision.candidates[0]
            migrations = _timed(self._times.monkeytree, lambda: planner.plan(state, own))
        if migrations is not None:
            # The scheduler's other candidates are not equivalent to a placement with moved workers.
            decision = replace(decision, candidates=(migrations.candidate,))
        verdict = Verdict(decision, self._chosen(state, decision, started_ps), None, migrations)
        if self._crux is None:
            return verdict
        crux = self._crux
        routed = _timed(self._times.crux, lambda: crux.decide(state, verdict.candidate))
        return replace(verdict, routed=routed)

    def _scheduled(self, state: State) -> Decision:
        try:
            decision = _timed(
                self._times.scheduler, lambda: self._policy.scheduler.schedule(state, self._candidates)
            )
        # A user's class may raise anything.
        except Exception as error:
            raise self.error(state, f"raised {type(error).__name__}: {error}") from error
        # The checks are not part of the scheduler's time.
        try:
            return checked(decision, state, dedicated=self.dedicated)
        except InputError as error:
            raise self.error(state, str(error)) from None

    def _chosen(
        self, state: State, decision: Decision, started_ps: Callable[[str], int | None]
    ) -> Choice | None:
        cassini = self._cassini
        if cassini is None:
            return None
        try:
            return _timed(self._times.cassini, lambda: cassini.choose(state, decision, started_ps))
        # CASSINI refuses only candidates, and these are the scheduler's.
        except InputError as error:
            raise self.error(state, str(error)) from None


def _timed(times: list[float], answer: Callable[[], _Answer]) -> _Answer:
    """The answer; adds the seconds that it takes to `times`."""
    before = time.perf_counter()
    answered = answer()
    times.append(time.perf_counter() - before)
    return answered
