"""The service's state: jobs and their slots. It has no I/O and no clock: callers pass `now_ns`, and store
what has `changed`.
"""

from collections.abc import Iterable
from dataclasses import replace

from hocket.service.contention import Component, HeldSlot, Solution, contention
from hocket.service.job import FRESH_NS, NS_PER_S, JobRecord, ServedJob, explained
from hocket.service.models import MAX_JOBS, Answer, JobView, Registration, Report, SharedLink, Slot
from hocket.units import format_rate, shown

LEAD_NS = NS_PER_S
"""How far in the future new slots begin. Hocket: an agent asks once a second."""

EXPIRE_NS = 600 * NS_PER_S
"""A job that is silent for longer is left out. Hocket: writing a checkpoint takes minutes, and a job that
returns gets a slot within seconds."""

# NSDI'24 §5.7: five percent, one twentieth, of the ideal iteration.
_TOLERANCE_DIVISOR = 20

_SILENT = "waits for its first report"
_NOT_YET = "its slot is being worked out"


class UnknownJobError(LookupError):
    """A job that is not registered."""


class ConflictError(ValueError):
    """A registration that contradicts others, or exceeds the number of jobs."""


class State:
    """All jobs and solutions. A call that raises changes nothing."""

    def __init__(
        self, records: Iterable[JobRecord], serial: int, now_ns: int, *, expire_ns: int = EXPIRE_NS
    ) -> None:
        """Resumes from stored records and the highest serial assigned; jobs count as alive at `now_ns`."""
        self._expire_ns = expire_ns
        self._jobs: dict[str, ServedJob] = {}
        # By link and job, the registered capacity; all jobs of a link register the same.
        self._capacities_bps: dict[str, dict[str, int]] = {}
        self._solved: dict[object, Solution] = {}
        # Solutions are not stored, so every component is solved after a start.
        self._unsettled = True
        self._changed: set[str] = set()
        self._serial = serial
        for each in records:
            self._put(ServedJob(each, now_ns, _NOT_YET if each.runs else _SILENT))
        # `_put` counts the records as changed, but they come from the store.
        self._changed.clear()

    @property
    def serial(self) -> int:
        """The highest number of a registration or slot that was assigned."""
        return self._serial

    @property
    def unsettled(self) -> bool:
        """Whether components may need solving."""
        return self._unsettled

    def jobs(self) -> list[ServedJob]:
        """All jobs, sorted by name."""
        return [self._jobs[name] for name in sorted(self._jobs)]

    def view(self, name: str, now_ns: int) -> JobView:
        """The state of job `name`. Raises `UnknownJobError`."""
        return self._find(name).view(now_ns)

    def scores(self) -> dict[str, float]:
        """The score of each link on which running jobs contend."""
        return {link: score for found in self._solved.values() for link, score in found.scores.items()}

    def registered(self, name: str, registration: Registration, now_ns: int) -> JobRecord:
        """The record of job `name` under a registration; the existing record if the registration is the same.

        Changes nothing. Raises `ConflictError` if another job registered a different capacity for a link, or
        if there are too many jobs.
        """
        known = self._jobs.get(name)
        if known is not None and known.record.registration == registration:
            return known.record
        if known is None and len(self._jobs) >= MAX_JOBS:
            raise ConflictError(f"job {shown(name)}: the limit of {MAX_JOBS} registered jobs is reached")
        for link in registration.links:
            self._check_capacity(name, link)
        return JobRecord(name, self._serial + 1, now_ns, registration)

    def register(self, record: JobRecord, now_ns: int) -> bool:
        """Applies a record of `registered`; returns whether the job is new."""
        known = self._jobs.get(record.name)
        if known is not None and known.record == record:
            known.alive_ns = now_ns
            return False
        # Its profile or links are others now, so that neither slot nor measurements apply any longer.
        if known is not None:
            self._remove(known)
        self._serial = max(self._serial, record.serial)
        self._put(ServedJob(record, now_ns, _SILENT))
        return known is None

    def unregister(self, name: str) -> None:
        """Unregisters job `name`. Raises `UnknownJobError`."""
        self._remove(self._find(name))

    def report(self, name: str, report: Report, now_ns: int) -> Answer:
        """Takes a rank's report and returns the answer. Raises `UnknownJobError`."""
        job = self._find(name)
        job.add_report(report, now_ns)
        if job.complete:
            self._all_reported(job, now_ns)
        return Answer(
            received_ns=now_ns,
            # `routes` replaces it by the time at which the answer leaves.
            sent_ns=now_ns,
            slot=job.record.slot,
            ideal_ns=job.ideal_ns,
            reason=job.reason,
        )

    def expire(self, now_ns: int) -> None:
        """Leaves out jobs that have been silent too long."""
        for job in self._jobs.values():
            if job.record.runs and now_ns - job.alive_ns > self._expire_ns:
                self._update(job, replace(job.record, runs=False))
                silent_s = self._expire_ns / NS_PER_S
                self._release(job, f"silent for {silent_s:g} s: left out until its ranks report again")
                job.forget()
                self._unsettled = True

    def unsolved(self, now_ns: int) -> list[Component]:
        """The components of running jobs that have no solution yet; `settle` takes their solutions."""
        if not self._unsettled:
            return []
        # By registration: links are numbered in the order of jobs, on which the solution depends.
        running = sorted(
            (job for job in self._jobs.values() if job.record.runs), key=lambda job: job.record.serial
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
        """The slots that jobs of the component have now."""
        # Some may have been unregistered while the component was solved.
        jobs = [self._jobs[job.name].record for job in component.jobs if job.name in self._jobs]
        return {job.name: HeldSlot(job.slot.origin_ns, job.slot.period_ns) for job in jobs if job.slot}

    def settle(self, component: Component, solution: Solution, now_ns: int) -> None:
        """Applies a solution, unless the jobs of its component have changed meanwhile."""
        held = self.held(component)
        if not all(self._still_runs(*key) for key in component.key):
            return
        # Meanwhile a job has lost the slot that this solution keeps; the component is solved again.
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

    def changed(self) -> dict[str, JobRecord | None]:
        """The records that changed since `written`, by name; None for a job that is gone."""
        return {name: self._jobs[name].record if name in self._jobs else None for name in self._changed}

    def written(self) -> None:
        """The caller has stored all changes."""
        self._changed.clear()

    def _find(self, name: str) -> ServedJob:
        if name not in self._jobs:
            raise UnknownJobError(f"job {shown(name)} is not registered")
        return self._jobs[name]

    def _still_runs(self, name: str, serial: int) -> bool:
        job = self._jobs.get(name)
        return job is not None and job.record.runs and job.record.serial == serial

    def _check_capacity(self, name: str, link: SharedLink) -> None:
        for other, capacity_bps in self._capacities_bps.get(link.name, {}).items():
            if other != name and capacity_bps != link.capacity_bps:
                raise ConflictError(
                    f"link {shown(link.name)}: job {shown(name)} states a capacity of "
                    f"{format_rate(link.capacity_bps)}, but job {shown(other)} {format_rate(capacity_bps)}"
                )

    def _put(self, job: ServedJob) -> None:
        self._jobs[job.record.name] = job
        for link in job.record.registration.links:
            self._capacities_bps.setdefault(link.name, {})[job.record.name] = link.capacity_bps
        self._changed.add(job.record.name)
        self._unsettled = True

    def _remove(self, job: ServedJob) -> None:
        name = job.record.name
        del self._jobs[name]
        for link in job.record.registration.links:
            del self._capacities_bps[link.name][name]
            if not self._capacities_bps[link.name]:
                del self._capacities_bps[link.name]
        self._changed.add(name)
        self._unsettled = True

    def _update(self, job: ServedJob, record: JobRecord) -> None:
        if record != job.record:
            job.record = record
            self._changed.add(record.name)

    def _release(self, job: ServedJob, why: str) -> None:
        self._update(job, replace(job.record, slot=None))
        job.next_slot = None
        job.why = why

    def _move(self, job: ServedJob, origin_ns: int, period_ns: int, now_ns: int) -> None:
        slot = job.record.slot
        # The same starts of communication: a new version would only make the ranks align again.
        if slot and slot.period_ns == period_ns and (slot.origin_ns - origin_ns) % period_ns == 0:
            job.next_slot = None
            return
        job.next_slot = (origin_ns, period_ns)
        if job.complete:
            self._all_reported(job, now_ns)

    def _all_reported(self, job: ServedJob, now_ns: int) -> None:
        """Updates a job all of whose ranks have reported."""
        if not job.record.runs:
            self._update(job, replace(job.record, runs=True))
            job.why = _NOT_YET
            self._unsettled = True
        slot = job.record.slot
        if slot is not None and slot.iteration > job.soonest(now_ns) + FRESH_NS // job.ideal_ns:
            # The job has restarted and counts from 0, so its slot would begin far too late.
            job.next_slot = job.next_slot or (slot.origin_ns, slot.period_ns)
        if job.next_slot is not None:
            self._assign(job, *job.next_slot, now_ns)
            job.next_slot = None

    def _assign(self, job: ServedJob, origin_ns: int, period_ns: int, now_ns: int) -> None:
        self._serial += 1
        slot = Slot(
            version=self._serial,
            origin_ns=origin_ns,
            period_ns=period_ns,
            iteration=job.soonest(now_ns),
            tolerance_ns=job.ideal_ns // _TOLERANCE_DIVISOR,
        )
        self._update(job, replace(job.record, slot=slot))


def _origin_ns(solution: Solution, held: dict[str, HeldSlot], soon_ns: int) -> int:
    """The origin of a solution's places, chosen so that the reference job keeps its slot if it has one."""
    if solution.reference not in held:
        return soon_ns
    return held[solution.reference].next_ns(soon_ns) - solution.places[solution.reference].offset_ns
