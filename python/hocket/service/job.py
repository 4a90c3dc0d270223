"""One job: what it registered, what its ranks last reported, and its slot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hocket.service.contention import Component, Contender, Solution
from hocket.service.iterations import IterationTimes
from hocket.service.models import JobView, Registration, Report, Slot

NS_PER_S = 1_000_000_000

SPREAD_NS = 3 * NS_PER_S
"""Within so long all ranks have heard of a slot. Hocket: agents ask once a second and wait a second for the
answer."""

FRESH_NS = 10 * NS_PER_S
"""What a rank has done since its last report is guessed for no longer than this: then it may have stopped."""

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
class Job:
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
        self.ranks = report.ranks
        self.heard[report.rank] = Heard(report, now_ns)
        self.alive_ns = now_ns
        self.times.add(report.count, report.total_ns, report.min_ns, report.max_ns)

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

    def view(self) -> JobView:
        """How it fares."""
        kept, reports = self.kept, [heard.report for heard in self.heard.values()]
        count = sum(report.count for report in reports)
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
            mean_ns=sum(report.total_ns for report in reports) // count if count else None,
            ideal_ns=self.ideal_ns,
            deviation_ns=self.deviation_ns,
            adjustments=self.adjustments,
            dry_run=any(report.dry_run for report in reports),
            applied=applied.pop() if self.complete and len(applied) == 1 else None,
            slot=kept.slot,
            reason=self.reason,
        )


def explained(name: str, component: Component, solution: Solution) -> str:
    """Why the job of this name has a slot, or none: with whom it contends, where, and what slots win."""
    own = next(place for place, job in enumerate(component.jobs) if job.name == name)
    links = {link: places for link, places in component.links.items() if own in places}
    others = sorted({place for places in links.values() for place in places} - {own})
    with_whom = f"with {_listed([component.jobs[place].name for place in others])} on {_listed(links)}"
    scores = [solution.scores[link] for link in links if link in solution.scores]
    if scores:
        with_whom = f"score {min(scores):.2f} {with_whom}"
    if solution.why_none is not None:
        return f"{with_whom}: {solution.why_none}"
    return f"{with_whom}: iterations are predicted to be {solution.gain:.2f} times faster in slots"


def _listed(names: list[str] | Mapping[str, object]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(list(names)[:_NAMED]) + more
