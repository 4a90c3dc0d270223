"""One job: what it registered, what its ranks last reported, and its slot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hocket.compat.answer import written_score
from hocket.compat.verdict import Speedup
from hocket.schedulers.cassini.slots import IterationTime
from hocket.service.contention import Component, Contender, Predicted, Solution
from hocket.service.iterations import IterationTimes, LatestTimes
from hocket.service.models import (
    JobView,
    Measured,
    PredictedTimes,
    Registration,
    Report,
    Slot,
    SpeedupView,
    Times,
)
from hocket_agent.state import LEASE_NS

NS_PER_S = 1_000_000_000

SPREAD_NS = 3 * NS_PER_S
"""Within so long all ranks have heard of a slot. Hocket: agents ask once a second and wait a second for the
answer."""

FRESH_NS = 10 * NS_PER_S
"""What a rank has done since its last report is guessed for no longer than this: then it may have stopped."""

_FEWEST = 20
"""Iterations, of which the slowest is the 95th percentile: Hocket compares no fewer."""

_PS_PER_NS = 1_000
# So many names make a sentence; the rest is counted.
_NAMED = 3


@dataclass(frozen=True)
class Heard:
    """The last report of a rank, and when it came."""

    report: Report
    received_ns: int


@dataclass(frozen=True)
class Kept:
    """What of a job outlives the service's process."""

    name: str
    serial: int
    """Of its registration; higher for a later one."""
    registered_ns: int
    registration: Registration
    runs: bool = False
    """Whether all of its ranks have reported, and not all fallen silent since: then it may have a slot."""
    slot: Slot | None = None


@dataclass
class ServedJob:
    """What is kept of a job, and what its ranks say."""

    kept: Kept
    alive_ns: int
    """When it last gave a sign of life."""
    why: str
    """Why it has a slot, or none, once all of its ranks have reported."""
    ranks: int | None = None
    heard: dict[int, Heard] = field(default_factory=dict)
    """By rank."""
    times: IterationTimes = field(default_factory=IterationTimes)
    contends: tuple[tuple[str, int], ...] = ()
    """The key of the component that it is in, or of itself where it contends with none."""
    contends_since_ns: int = 0
    predicted: Predicted | None = None
    """For that component."""
    without_slot: LatestTimes = field(default_factory=LatestTimes)
    in_slot: LatestTimes = field(default_factory=LatestTimes)
    """Of its first rank, as all ranks wait for each other; both since then."""
    next_slot: tuple[int, int] | None = None
    """Origin and period of a slot that it gets when all of its ranks have reported."""

    @cached_property
    def contender(self) -> Contender:
        """As contention sees it; a job that registers again is another one."""
        kept = self.kept
        links = {link.name: (link.capacity_bps, link.flows) for link in kept.registration.links}
        return Contender(kept.name, kept.serial, kept.registration.workload(), links)

    @property
    def ideal_ns(self) -> int:
        """Its iteration alone."""
        return max(1, self.kept.registration.profile.period_ps // _PS_PER_NS)

    @property
    def complete(self) -> bool:
        """Whether each of its ranks has been heard of."""
        return self.ranks is not None and len(self.heard) == self.ranks

    def hear(self, report: Report, now_ns: int) -> None:
        """Takes in what a rank reports."""
        before = self.heard.get(report.rank)
        restarted = before is not None and report.iteration < before.report.iteration
        if restarted or report.ranks != self.ranks:
            # Its ranks count from 0 again, so what others reported before says nothing any more.
            self.heard.clear()
        elif report.rank == 0 and before is not None and before.received_ns >= self.contends_since_ns:
            self._measure(before.report, report)
        self.ranks = report.ranks
        self.heard[report.rank] = Heard(report, now_ns)
        self.alive_ns = now_ns
        self.times.add(report)

    def contend(
        self, component: tuple[tuple[str, int], ...], predicted: Predicted | None, now_ns: int
    ) -> None:
        """It contends with these jobs from now on; what it took beside others says nothing any more."""
        self.predicted = predicted
        if component != self.contends:
            self.contends, self.contends_since_ns = component, now_ns
            self.without_slot, self.in_slot = LatestTimes(), LatestTimes()

    def _measure(self, before: Report, report: Report) -> None:
        # Where the two differ, some of the iterations between them were in a slot and others were not.
        if before.applied != report.applied:
            return
        if report.applied is None:
            self.without_slot.add(report)
        elif self.kept.slot is not None and report.applied == self.kept.slot.version:
            self.in_slot.add(report)

    def forget(self) -> None:
        """As if no rank had reported."""
        self.heard.clear()
        self.ranks = None

    def soonest(self, now_ns: int) -> int:
        """An iteration that no rank begins before the last one has heard of it."""
        return self._most_done(now_ns) + -(-SPREAD_NS // self.ideal_ns)

    def _most_done(self, now_ns: int) -> int:
        """The most iterations that a rank can have done by now."""
        return max(
            heard.report.iteration + min(now_ns - heard.received_ns, FRESH_NS) // self.ideal_ns + 1
            for heard in self.heard.values()
        )

    @property
    def reason(self) -> str:
        """Why it has a slot, or none: one sentence."""
        if self.heard and not self.complete and (self.next_slot or not self.kept.runs):
            return f"waits for {(self.ranks or 0) - len(self.heard)} of {self.ranks} ranks"
        return self.why

    @property
    def adjustments(self) -> int:
        """The most that a rank counts."""
        return max((heard.report.adjustments for heard in self.heard.values()), default=0)

    @property
    def deviation_ns(self) -> int | None:
        """Of the rank farthest from its slot."""
        seen = (heard.report.deviation_ns for heard in self.heard.values())
        return max((each for each in seen if each is not None), key=abs, default=None)

    def not_followed(self, now_ns: int) -> str | None:
        """Why not all of its ranks follow its slot, as far as that is known; None if they do."""
        slot = self.kept.slot
        if slot is None:
            return None
        if not self.complete:
            missing = "no rank has" if not self.heard else f"{len(self.heard)} of {self.ranks} ranks have"
            return f"{missing} reported since the job or the service started"
        whys = {rank: _not_followed(heard, slot, now_ns) for rank, heard in sorted(self.heard.items())}
        known = {rank: why for rank, why in whys.items() if why is not None}
        if not known:
            return None
        rank, why = next(iter(known.items()))
        return why if self.ranks == 1 else f"{len(known)} of {self.ranks} ranks, such as {rank}: {why}"

    def measured(self) -> Measured:
        """What its iterations took lately, and what slots do to them."""
        without, within = self.without_slot.measured(), self.in_slot.measured()
        enough = without is not None and without.iterations >= _FEWEST
        base = without if enough else _predicted_times(self.predicted.free) if self.predicted else None
        if within is None or within.iterations < _FEWEST or base is None:
            return Measured(without_slot=without, in_slot=within, speedup=None, against=None)
        speedup = Speedup(base.mean_ns / max(1, within.mean_ns), base.p99_ns / max(1, within.p99_ns))
        return Measured(
            without_slot=without,
            in_slot=within,
            speedup=SpeedupView.of(speedup),
            against="measured" if enough else "predicted",
        )

    def view(self, now_ns: int) -> JobView:
        """How it fares."""
        kept, reports = self.kept, [heard.report for heard in self.heard.values()]
        applied = {report.applied for report in reports}
        return JobView(
            job=kept.name,
            profile=kept.registration.profile,
            workers=kept.registration.workers,
            links=kept.registration.links,
            registered_ns=kept.registered_ns,
            ranks=self.ranks,
            heard=len(reports),
            last_report_ns=max((heard.received_ns for heard in self.heard.values()), default=None),
            iteration=max((report.iteration for report in reports), default=None),
            ideal_ns=self.ideal_ns,
            predicted=None if self.predicted is None else _predicted(self.predicted),
            measured=self.measured(),
            deviation_ns=self.deviation_ns,
            adjustments=self.adjustments,
            dry_run=any(report.dry_run for report in reports),
            applied=applied.pop() if self.complete and len(applied) == 1 else None,
            slot=kept.slot,
            not_followed=self.not_followed(now_ns),
            reason=self.reason,
        )


def explained(name: str, component: Component, solution: Solution) -> str:
    """Why the job of this name has a slot, or none: with whom it contends, where, and whether slots help."""
    own = next(place for place, job in enumerate(component.jobs) if job.name == name)
    links = {link: places for link, places in component.links.items() if own in places}
    others = sorted({place for places in links.values() for place in places} - {own})
    with_whom = f"with {_listed([component.jobs[place].name for place in others])} on {_listed(links)}"
    scores = [solution.scores[link] for link in links if link in solution.scores]
    if scores:
        with_whom = f"score {written_score(min(scores))} {with_whom}"
    if solution.why_none is not None:
        return f"{with_whom}: {solution.why_none}"
    speedup = solution.predicted[name].speedup
    return f"{with_whom}: taking turns {speedup.verdict}, predicted {speedup}"


def _not_followed(heard: Heard, slot: Slot, now_ns: int) -> str | None:
    """Why a rank does not follow a slot; None if it does."""
    report, silent_ns = heard.report, now_ns - heard.received_ns
    if silent_ns > LEASE_NS:
        return f"silent for {silent_ns // NS_PER_S} s, and a slot is let go after {LEASE_NS // NS_PER_S} s"
    if report.applied == slot.version:
        return None
    if report.applied is not None:
        return f"still follows slot {report.applied}"
    if report.dry_run:
        return "dry run"
    if report.iteration < slot.iteration:
        return f"the slot begins at iteration {slot.iteration}"
    return report.reason or "its agent gives no reason"


def _predicted(predicted: Predicted) -> PredictedTimes:
    return PredictedTimes(
        without_slot=_predicted_times(predicted.free),
        in_slot=_predicted_times(predicted.slotted),
        speedup=SpeedupView.of(predicted.speedup),
    )


def _predicted_times(paid: IterationTime) -> Times:
    return Times(mean_ns=round(paid.mean_ps / _PS_PER_NS), p99_ns=round(paid.p99_ps / _PS_PER_NS))


def _listed(names: list[str] | Mapping[str, object]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(list(names)[:_NAMED]) + more
