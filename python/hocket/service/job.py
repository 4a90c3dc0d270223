"""One job: its registration, the last reports of its ranks, and its slot."""

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
"""Time until all ranks have received a slot. Hocket: agents ask once a second and wait up to a second for the
answer."""

FRESH_NS = 10 * NS_PER_S
"""A rank's progress since its last report is extrapolated for no longer than this: it may have stopped."""

_MIN_ITERATIONS = 20
"""Hocket: fewer iterations are not compared; of 20, the slowest is the 95th percentile."""

_PS_PER_NS = 1_000
# The number of names that a sentence lists; the others are counted.
_NAMED = 3


@dataclass(frozen=True)
class LastReport:
    """The last report of a rank, and when it arrived."""

    report: Report
    received_ns: int


@dataclass(frozen=True)
class JobRecord:
    """The part of a job's state that outlives the service's process."""

    name: str
    serial: int
    """Number of its registration; later ones are higher."""
    registered_ns: int
    registration: Registration
    runs: bool = False
    """Whether all of its ranks have reported and it has not expired since; only then may it have a slot."""
    slot: Slot | None = None


@dataclass
class ServedJob:
    """A job's record, and the state derived from the reports of its ranks."""

    record: JobRecord
    alive_ns: int
    """When it last registered or reported."""
    why: str
    """Why it has a slot or none, once all of its ranks have reported."""
    ranks: int | None = None
    last_reports: dict[int, LastReport] = field(default_factory=dict)
    """By rank."""
    times: IterationTimes = field(default_factory=IterationTimes)
    contends: tuple[tuple[str, int], ...] = ()
    """The key of its component, or only its own key if it contends with no other job."""
    contends_since_ns: int = 0
    predicted: Predicted | None = None
    """Predicted for that component."""
    without_slot: LatestTimes = field(default_factory=LatestTimes)
    in_slot: LatestTimes = field(default_factory=LatestTimes)
    """Both cover only rank 0, as all ranks wait for each other, and the time since `contends_since_ns`."""
    next_slot: tuple[int, int] | None = None
    """Origin and period of the slot that it gets once all of its ranks have reported."""

    @cached_property
    def contender(self) -> Contender:
        """The job for `contention`; a new registration yields a different contender."""
        record = self.record
        links = {link.name: (link.capacity_bps, link.flows) for link in record.registration.links}
        return Contender(record.name, record.serial, record.registration.workload(), links)

    @property
    def ideal_ns(self) -> int:
        """Its iteration without contention."""
        # Profiles are in picoseconds; a period below a nanosecond must not become a divisor of 0.
        return max(1, self.record.registration.profile.period_ps // _PS_PER_NS)

    @property
    def complete(self) -> bool:
        """Whether each of its ranks has reported."""
        return self.ranks is not None and len(self.last_reports) == self.ranks

    def add_report(self, report: Report, now_ns: int) -> None:
        """Takes a rank's report."""
        before = self.last_reports.get(report.rank)
        restarted = before is not None and report.iteration < before.report.iteration
        if restarted or report.ranks != self.ranks:
            # The job has restarted, and its ranks count from 0 again: reports of the others are obsolete.
            self.last_reports.clear()
        elif report.rank == 0 and before is not None and before.received_ns >= self.contends_since_ns:
            # A report covers the time since the one before, which must lie within the present contention.
            self._measure(before.report, report)
        self.ranks = report.ranks
        self.last_reports[report.rank] = LastReport(report, now_ns)
        self.alive_ns = now_ns
        self.times.add(report)

    def contend(
        self, component: tuple[tuple[str, int], ...], predicted: Predicted | None, now_ns: int
    ) -> None:
        """From now on the job contends with these jobs; measurements among other jobs are discarded."""
        self.predicted = predicted
        if component != self.contends:
            self.contends, self.contends_since_ns = component, now_ns
            self.without_slot, self.in_slot = LatestTimes(), LatestTimes()

    def _measure(self, before: Report, report: Report) -> None:
        # If the slots differ, some of the iterations between the reports were in a slot and others were not.
        if before.applied != report.applied:
            return
        if report.applied is None:
            self.without_slot.add(report)
        # Iterations in an earlier slot may have had another period.
        elif self.record.slot is not None and report.applied == self.record.slot.version:
            self.in_slot.add(report)

    def forget(self) -> None:
        """Forgets all reports."""
        self.last_reports.clear()
        self.ranks = None

    def soonest(self, now_ns: int) -> int:
        """The first iteration that no rank begins before all ranks have received a new slot."""
        return self._most_done(now_ns) + -(-SPREAD_NS // self.ideal_ns)

    def _most_done(self, now_ns: int) -> int:
        """An upper bound on the iterations that any rank has finished by now."""
        # No iteration is shorter than the ideal one; one more was under way when the rank reported.
        return max(
            last.report.iteration + min(now_ns - last.received_ns, FRESH_NS) // self.ideal_ns + 1
            for last in self.last_reports.values()
        )

    @property
    def reason(self) -> str:
        """Why it has a slot or none, in one sentence."""
        if self.last_reports and not self.complete and (self.next_slot or not self.record.runs):
            return f"waits for {(self.ranks or 0) - len(self.last_reports)} of {self.ranks} ranks"
        return self.why

    @property
    def adjustments(self) -> int:
        """The highest count of any rank."""
        return max((last.report.adjustments for last in self.last_reports.values()), default=0)

    @property
    def deviation_ns(self) -> int | None:
        """The deviation of the rank farthest from its slot."""
        seen = (last.report.deviation_ns for last in self.last_reports.values())
        return max((each for each in seen if each is not None), key=abs, default=None)

    def not_followed(self, now_ns: int) -> str | None:
        """Why some of its ranks do not follow its slot; None if all do, or if there is no slot."""
        slot = self.record.slot
        if slot is None:
            return None
        if not self.complete:
            missing = (
                "no rank has"
                if not self.last_reports
                else f"{len(self.last_reports)} of {self.ranks} ranks have"
            )
            return f"{missing} reported since the job or the service started"
        reasons = {
            rank: _not_followed(last, slot, now_ns) for rank, last in sorted(self.last_reports.items())
        }
        known = {rank: why for rank, why in reasons.items() if why is not None}
        if not known:
            return None
        # The lowest such rank, so that the sentence does not depend on the order of reports.
        rank, why = next(iter(known.items()))
        return why if self.ranks == 1 else f"{len(known)} of {self.ranks} ranks, such as {rank}: {why}"

    def measured(self) -> Measured:
        """Its recent iterations without and in slots, and the speed-up."""
        without, within = self.without_slot.measured(), self.in_slot.measured()
        enough = without is not None and without.iterations >= _MIN_ITERATIONS
        base = without if enough else _predicted_times(self.predicted.free) if self.predicted else None
        if within is None or within.iterations < _MIN_ITERATIONS or base is None:
            return Measured(without_slot=without, in_slot=within, speedup=None, against=None)
        speedup = Speedup(base.mean_ns / max(1, within.mean_ns), base.p99_ns / max(1, within.p99_ns))
        return Measured(
            without_slot=without,
            in_slot=within,
            speedup=SpeedupView.of(speedup),
            against="measured" if enough else "predicted",
        )

    def view(self, now_ns: int) -> JobView:
        """The job's state as the API returns it."""
        record, reports = self.record, [last.report for last in self.last_reports.values()]
        applied = {report.applied for report in reports}
        return JobView(
            job=record.name,
            profile=record.registration.profile,
            workers=record.registration.workers,
            links=record.registration.links,
            registered_ns=record.registered_ns,
            ranks=self.ranks,
            heard=len(reports),
            last_report_ns=max((last.received_ns for last in self.last_reports.values()), default=None),
            iteration=max((report.iteration for report in reports), default=None),
            ideal_ns=self.ideal_ns,
            predicted=None if self.predicted is None else _predicted(self.predicted),
            measured=self.measured(),
            deviation_ns=self.deviation_ns,
            adjustments=self.adjustments,
            dry_run=any(report.dry_run for report in reports),
            applied=applied.pop() if self.complete and len(applied) == 1 else None,
            slot=record.slot,
            not_followed=self.not_followed(now_ns),
            reason=self.reason,
        )


def explained(name: str, component: Component, solution: Solution) -> str:
    """Why the job of this name has a slot or none: with which jobs it contends, where, and whether slots
    help.
    """
    index = next(place for place, job in enumerate(component.jobs) if job.name == name)
    links = {link: places for link, places in component.links.items() if index in places}
    others = sorted({place for places in links.values() for place in places} - {index})
    with_whom = f"with {_listed([component.jobs[place].name for place in others])} on {_listed(links)}"
    scores = [solution.scores[link] for link in links if link in solution.scores]
    if scores:
        with_whom = f"score {written_score(min(scores))} {with_whom}"
    if solution.why_none is not None:
        return f"{with_whom}: {solution.why_none}"
    speedup = solution.predicted[name].speedup
    return f"{with_whom}: taking turns {speedup.verdict}, predicted {speedup}"


def _not_followed(last: LastReport, slot: Slot, now_ns: int) -> str | None:
    """Why a rank does not follow a slot; None if it does."""
    report, silent_ns = last.report, now_ns - last.received_ns
    if silent_ns > LEASE_NS:
        silent, lease = silent_ns // NS_PER_S, LEASE_NS // NS_PER_S
        return f"silent for {silent} s; agents stop following a slot after {lease} s"
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


def _predicted_times(iteration: IterationTime) -> Times:
    return Times(mean_ns=round(iteration.mean_ps / _PS_PER_NS), p99_ns=round(iteration.p99_ps / _PS_PER_NS))


def _listed(names: list[str] | Mapping[str, object]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(list(names)[:_NAMED]) + more
