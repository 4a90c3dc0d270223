"""What the service knows: jobs and their slots. No I/O and no clock: calls are told `now_ns`, and who calls
writes down what has `changed`.
"""

from collections.abc import Iterable
from dataclasses import replace

from hocket.service.contention import Component, HeldSlot, Solution, contention
from hocket.service.job import FRESH_NS, NS_PER_S, Kept, ServedJob, explained
from hocket.service.models import MAX_JOBS, Answer, JobView, Registration, Report, SharedLink, Slot
from hocket.units import format_rate, shown

LEAD_NS = NS_PER_S
"""How far ahead of now new slots begin. Hocket: an agent asks once a second."""

EXPIRE_NS = 600 * NS_PER_S
"""A job that is silent for longer is taken for gone. Hocket: a checkpoint takes minutes to write, and a job
that comes back has a slot within seconds."""

# NSDI'24 §5.7: five percent of the ideal iteration.
_TOLERANCE = 20

_SILENT = "waits for its first report"
_NOT_YET = "its slot is being worked out"


class UnknownJobError(LookupError):
    """A job that is not registered."""


class ConflictError(ValueError):
    """What contradicts what is registered, or does not fit beside it."""


class State:
    """All that the service knows; what is refused changes nothing."""

    def __init__(self, kept: Iterable[Kept], serial: int, now_ns: int, *, expire_ns: int = EXPIRE_NS) -> None:
        """From what was `kept`, with the highest serial given out; its jobs count as heard of at `now_ns`."""
        self._expire_ns = expire_ns
        self._jobs: dict[str, ServedJob] = {}
        # By link, what each of its jobs says of its capacity; they all say the same.
        self._capacities_bps: dict[str, dict[str, int]] = {}
        self._solved: dict[object, Solution] = {}
        self._unsettled = True
        self._changed: set[str] = set()
        self._serial = serial
        for each in kept:
            self._put(ServedJob(each, now_ns, _NOT_YET if each.runs else _SILENT))
        self._changed.clear()

    @property
    def serial(self) -> int:
        """The highest number of a registration or slot that was given out."""
        return self._serial

    @property
    def unsettled(self) -> bool:
        """Whether there may be something to solve."""
        return self._unsettled

    def jobs(self) -> list[ServedJob]:
        """All, by name."""
        return [self._jobs[name] for name in sorted(self._jobs)]

    def view(self, name: str, now_ns: int) -> JobView:
        """Job `name` and how it fares. Raises `UnknownJobError`."""
        return self._find(name).view(now_ns)

    def scores(self) -> dict[str, float]:
        """By link on which running jobs contend."""
        return {link: score for found in self._solved.values() for link, score in found.scores.items()}

    def registered(self, name: str, registration: Registration, now_ns: int) -> Kept:
        """What is to be kept of job `name` if it registers so; what is kept already, if nothing differs.

        Changes nothing. Raises `ConflictError` if a link has another capacity, or there are too many jobs.
        """
        known = self._jobs.get(name)
        if known is not None and known.kept.registration == registration:
            return known.kept
        if known is None and len(self._jobs) >= MAX_JOBS:
            raise ConflictError(
                f"job {shown(name)}: {MAX_JOBS} jobs are registered already, which is the limit"
            )
        for link in registration.links:
            self._check_capacity(name, link)
        return Kept(name, self._serial + 1, now_ns, registration)

    def register(self, kept: Kept, now_ns: int) -> bool:
        """Takes in what `registered` said; whether the job is new."""
        known = self._jobs.get(kept.name)
        if known is not None and known.kept == kept:
            known.alive_ns = now_ns
            return False
        if known is not None:
            self._remove(known)
        self._serial = max(self._serial, kept.serial)
        self._put(ServedJob(kept, now_ns, _SILENT))
        return known is None

    def unregister(self, name: str) -> None:
        """Forgets job `name`. Raises `UnknownJobError`."""
        self._remove(self._find(name))

    def report(self, name: str, report: Report, now_ns: int) -> Answer:
        """Takes in what a rank of job `name` reports; what it is to do. Raises `UnknownJobError`."""
        job = self._find(name)
        job.hear(report, now_ns)
        if job.complete:
            self._all_heard(job, now_ns)
        return Answer(
            received_ns=now_ns,
            sent_ns=now_ns,
            slot=job.kept.slot,
            ideal_ns=job.ideal_ns,
            reason=job.reason,
        )

    def expire(self, now_ns: int) -> None:
        """Leaves out jobs that have been silent for too long."""
        for job in self._jobs.values():
            if job.kept.runs and now_ns - job.alive_ns > self._expire_ns:
                self._keep(job, replace(job.kept, runs=False))
                silent_s = self._expire_ns / NS_PER_S
                self._release(job, f"silent for {silent_s:g} s: left out until its ranks report again")
                job.forget()
                self._unsettled = True

    def unsolved(self, now_ns: int) -> list[Component]:
        """Components of running jobs that `settle` is to bring a solution for; all others stay as is."""
        if not self._unsettled:
            return []
        running = sorted(
            (job for job in self._jobs.values() if job.kept.runs), key=lambda job: job.kept.serial
        )
        found = contention([job.contender for job in running])
        keys = {each.key for each in found.components}
        self._solved = {key: solution for key, solution in self._solved.items() if key in keys}
        for name, why in found.alone.items():
            job = self._jobs[name]
            self._release(job, why)
            job.contend((job.contender.key,), None, now_ns)
        unsolved = [each for each in found.components if each.key not in self._solved]
        self._unsettled = bool(unsolved)
        return unsolved

    def held(self, component: Component) -> dict[str, HeldSlot]:
        """The slots that its jobs have now."""
        jobs = [self._jobs[job.name].kept for job in component.jobs if job.name in self._jobs]
        return {job.name: HeldSlot(job.slot.origin_ns, job.slot.period_ns) for job in jobs if job.slot}

    def settle(self, component: Component, solution: Solution, now_ns: int) -> None:
        """Puts a solution in force, unless the jobs of its component have changed meanwhile."""
        held = self.held(component)
        if not all(self._still_runs(*key) for key in component.key):
            return
        if solution.kept and len(held) < len(component.jobs):
            return
        self._solved[component.key] = solution
        origin_ns = _origin_ns(solution, held, now_ns + LEAD_NS)
        for contender in component.jobs:
            job = self._jobs[contender.name]
            job.why = explained(contender.name, component, solution)
            job.contend(component.key, solution.predicted.get(contender.name), now_ns)
            place = solution.places.get(contender.name)
            if place is None:
                self._release(job, job.why)
            elif not solution.kept:
                self._move(job, origin_ns + place.offset_ns, place.period_ns, now_ns)

    def changed(self) -> dict[str, Kept | None]:
        """What is to be kept of jobs that changed since `written`, by name; none of one that is gone."""
        return {name: self._jobs[name].kept if name in self._jobs else None for name in self._changed}

    def written(self) -> None:
        """All that has changed is kept."""
        self._changed.clear()

    def _find(self, name: str) -> ServedJob:
        if name not in self._jobs:
            raise UnknownJobError(f"job {shown(name)} is not registered")
        return self._jobs[name]

    def _still_runs(self, name: str, serial: int) -> bool:
        job = self._jobs.get(name)
        return job is not None and job.kept.runs and job.kept.serial == serial

    def _check_capacity(self, name: str, link: SharedLink) -> None:
        for other, capacity_bps in self._capacities_bps.get(link.name, {}).items():
            if other != name and capacity_bps != link.capacity_bps:
                raise ConflictError(
                    f"link {shown(link.name)}: job {shown(name)} gives it a capacity of "
                    f"{format_rate(link.capacity_bps)}, and job {shown(other)} {format_rate(capacity_bps)}"
                )

    def _put(self, job: ServedJob) -> None:
        self._jobs[job.kept.name] = job
        for link in job.kept.registration.links:
            self._capacities_bps.setdefault(link.name, {})[job.kept.name] = link.capacity_bps
        self._changed.add(job.kept.name)
        self._unsettled = True

    def _remove(self, job: ServedJob) -> None:
        name = job.kept.name
        del self._jobs[name]
        for link in job.kept.registration.links:
            del self._capacities_bps[link.name][name]
            if not self._capacities_bps[link.name]:
                del self._capacities_bps[link.name]
        self._changed.add(name)
        self._unsettled = True

    def _keep(self, job: ServedJob, kept: Kept) -> None:
        if kept != job.kept:
            job.kept = kept
            self._changed.add(kept.name)

    def _release(self, job: ServedJob, why: str) -> None:
        self._keep(job, replace(job.kept, slot=None))
        job.next_slot = None
        job.why = why

    def _move(self, job: ServedJob, origin_ns: int, period_ns: int, now_ns: int) -> None:
        slot = job.kept.slot
        if slot and slot.period_ns == period_ns and (slot.origin_ns - origin_ns) % period_ns == 0:
            job.next_slot = None
            return
        job.next_slot = (origin_ns, period_ns)
        if job.complete:
            self._all_heard(job, now_ns)

    def _all_heard(self, job: ServedJob, now_ns: int) -> None:
        """What becomes of a job all of whose ranks have reported."""
        if not job.kept.runs:
            self._keep(job, replace(job.kept, runs=True))
            job.why = _NOT_YET
            self._unsettled = True
        slot = job.kept.slot
        if slot is not None and slot.iteration > job.soonest(now_ns) + FRESH_NS // job.ideal_ns:
            # It started again and counts from 0: its slot would begin far too late.
            job.next_slot = job.next_slot or (slot.origin_ns, slot.period_ns)
        if job.next_slot is not None:
            self._give(job, *job.next_slot, now_ns)
            job.next_slot = None

    def _give(self, job: ServedJob, origin_ns: int, period_ns: int, now_ns: int) -> None:
        self._serial += 1
        slot = Slot(
            version=self._serial,
            origin_ns=origin_ns,
            period_ns=period_ns,
            iteration=job.soonest(now_ns),
            tolerance_ns=job.ideal_ns // _TOLERANCE,
        )
        self._keep(job, replace(job.kept, slot=slot))


def _origin_ns(solution: Solution, held: dict[str, HeldSlot], soon_ns: int) -> int:
    """Where the places of a solution count from: such that the job of reference goes on as it does."""
    if solution.reference not in held:
        return soon_ns
    return held[solution.reference].next_ns(soon_ns) - solution.places[solution.reference].offset_ns
