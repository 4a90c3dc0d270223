"""Determines which running jobs contend for links, and when each of them may communicate: CASSINI (NSDI'24
§4) on links that are known only by name. Pure functions of their arguments.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hocket import _hocket
from hocket.compat.answer import written_score
from hocket.compat.link_demands import multiplied
from hocket.compat.ranking import on_circle
from hocket.compat.verdict import Speedup, Verdict
from hocket.engines.network import Network
from hocket.engines.specs import native_profile
from hocket.profiles import WorkloadProfile
from hocket.schedulers.cassini.components import Member, Part, layout
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.slots import IterationTime, Prediction, Spacing, faster
from hocket.schedulers.cassini.time_shifts import Circle, TimeShiftSolver, reference

OPTIONS = CassiniOptions()
"""The same options as in simulated clusters: steps of 5°, a threshold of 0.6, a limit of steps."""

MAX_COMPONENT_JOBS = 64
"""The most contending jobs that get slots. Hocket: with less than a sixty-fourth of a link each, jobs gain
little from shifts."""

_WORTH_SLOTS = (Verdict.HELPS, Verdict.HELPS_LITTLE)
# Fixed, so that the same jobs always get the same slots.
_SEED = 1
_PS_PER_NS = 1_000
# Slots leave room for up to twice the deviation of compute times, so held slots that are longer by no more
# than that are kept.
_LONGER = 2.0
# Rounding to nanoseconds changes a link's score by less than this.
_AS_GOOD = 1e-6


@dataclass(frozen=True)
class Contender:
    """The properties of a running job that determine contention."""

    name: str
    serial: int
    """The number of its registration: equal numbers mean equal profiles and links."""
    profile: WorkloadProfile
    links: Mapping[str, tuple[int, int]]
    """By link that the job crosses: capacity in bits per second, and the number of its flows there."""

    @property
    def key(self) -> tuple[str, int]:
        """Identifies profile and links."""
        return self.name, self.serial

    @cached_property
    def mark_ps(self) -> int:
        """The point of an iteration that its slot refers to: the start of the Up phase after the longest
        silence; the first of equals.

        `hocket profile` begins iterations there, and the agent looks for the same point.
        """
        phases = self.profile.phases
        ends_ps = [phase.start_ps + phase.duration_ps for phase in phases]
        before_ps = [ends_ps[-1] - self.profile.period_ps, *ends_ps[:-1]]
        silences = [phase.start_ps - end_ps for phase, end_ps in zip(phases, before_ps, strict=True)]
        return phases[silences.index(max(silences))].start_ps


@dataclass(frozen=True)
class Component:
    """Jobs that contend for links, directly or through other jobs, in order of registration."""

    jobs: tuple[Contender, ...]
    links: Mapping[str, tuple[int, ...]]
    """By link on which they contend: the indices in `jobs` of those that cross it."""

    @cached_property
    def key(self) -> tuple[tuple[str, int], ...]:
        """Components with equal keys are the same."""
        return tuple(job.key for job in self.jobs)


@dataclass(frozen=True)
class Contention:
    """The components, and the jobs outside any."""

    components: tuple[Component, ...]
    alone: Mapping[str, str]
    """By job that contends with no other: the reason."""


@dataclass(frozen=True)
class HeldSlot:
    """The slot that a job has now."""

    origin_ns: int
    period_ns: int

    def next_ns(self, at_ns: int) -> int:
        """Its first start at or after `at_ns`."""
        return at_ns + (self.origin_ns - at_ns) % self.period_ns


@dataclass(frozen=True)
class Place:
    """When a job of a component communicates: `offset_ns` after an origin that all its jobs share, and every
    `period_ns` from then on.
    """

    offset_ns: int
    period_ns: int


@dataclass(frozen=True)
class Predicted:
    """Predicted iterations of a job among the others of its component."""

    free: IterationTime
    """Without slots, at random starts."""
    slotted: IterationTime
    """In slots."""

    @property
    def speedup(self) -> Speedup:
        """The speed-up of slots."""
        return faster(self.free, self.slotted)


@dataclass(frozen=True)
class Solution:
    """The solution for a component."""

    scores: Mapping[str, float]
    """By link: the score with these places, or without any the mean over all shifts; empty if not solved."""
    predicted: Mapping[str, Predicted]
    """By job; empty if not simulated."""
    places: Mapping[str, Place]
    """By job; empty if slots do not help."""
    reference: str | None
    """The job that is not delayed, to which the others are shifted."""
    why_none: str | None
    """Why there are no places; None if there are."""
    kept: bool = False
    """Whether the places are the slots that all jobs have now."""


def contention(jobs: Sequence[Contender]) -> Contention:
    """Finds the contending jobs among `jobs`, in order of registration. Jobs must agree on capacities."""
    numbers, capacities_bps = _numbered(jobs)
    names = list(numbers)
    members = [_member(job, numbers) for job in jobs]
    found = layout(members, capacities_bps)
    known = {job.name: job for job in jobs}
    components = tuple(
        Component(
            tuple(known[name] for name in part.names),
            {names[link]: tuple(place for place, _ in crossing) for link, crossing in part.links.items()},
        )
        for part in found.parts
    )
    alone = dict.fromkeys(known, "shares no link with another running job")
    for link, flows in found.roomy.items():
        alone.update(dict.fromkeys(flows, f"{names[link]} carries all of its jobs at once"))
    # Last, since a job may cross a link with room for all and still contend on another one.
    for component in components:
        for job in component.jobs:
            del alone[job.name]
    return Contention(components, alone)


def solve(component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
    """Solves for the places of the jobs of `component`, some of which may hold slots; none if slots do not
    help.

    If all jobs hold slots that score as high as the best ones, these are returned, so that a departing job
    moves no other. `jitter` is the relative standard deviation of compute times, for which slots leave room.
    """
    if len(component.jobs) > MAX_COMPONENT_JOBS:
        why = f"{len(component.jobs)} jobs contend with each other; at most {MAX_COMPONENT_JOBS} get slots"
        return Solution({}, {}, {}, None, why)
    network = _network(component.jobs)
    part = _part(component)
    (answer,) = TimeShiftSolver(OPTIONS, network, _SEED).solve([part])
    names = [name for name, _ in network.links]
    unshifted = Solution({names[link]: score for link, score in answer.expected.items()}, {}, {}, None, None)
    if answer.circle is None:
        return replace(unshifted, why_none=answer.why_none)
    if answer.score < OPTIONS.shift_threshold:
        limit = OPTIONS.shift_threshold
        best = written_score(answer.score)
        why = f"the best shifts score {best}; below {limit:g} taking turns does not help"
        return replace(unshifted, why_none=why)
    # A job that holds a slot has priority as the reference job, so that it keeps this slot.
    first = reference(part, [int(job.name in held) for job in component.jobs], _SEED)
    circle = answer.circle.turned(first)
    spacing = Prediction(network.fabric, part, jitter=jitter, adjust=True, seed=_SEED).spacing(circle)
    if spacing is None:
        return replace(unshifted, why_none="late jobs delay each other further, so no slots last")
    predicted = {
        job.name: Predicted(free, slotted)
        for job, free, slotted in zip(component.jobs, spacing.free, spacing.slotted, strict=True)
    }
    if spacing.speedup.verdict not in _WORTH_SLOTS:
        why = f"taking turns {spacing.speedup.verdict} these jobs: predicted {spacing.speedup}"
        return replace(unshifted, predicted=predicted, why_none=why)
    places = _places(component, circle, spacing)
    kept = _held_places(component, circle, places, held, 1 + _LONGER * jitter)
    as_good = kept is not None and _score(component, circle, kept) >= answer.score - _AS_GOOD
    return Solution(
        scores={names[link]: score for link, score in answer.scores.items()},
        predicted=predicted,
        places=kept if kept is not None and as_good else places,
        reference=component.jobs[first].name,
        why_none=None,
        kept=as_good,
    )


def _numbered(jobs: Sequence[Contender]) -> tuple[dict[str, int], list[int]]:
    """The number of each link by name, in the order in which jobs name them, and the capacities by number."""
    capacities_bps: dict[str, int] = {}
    for job in jobs:
        for name, (capacity_bps, _) in job.links.items():
            capacities_bps.setdefault(name, capacity_bps)
    return {name: number for number, name in enumerate(capacities_bps)}, list(capacities_bps.values())


def _member(job: Contender, numbers: Mapping[str, int]) -> Member:
    crossings = [(numbers[name], flows) for name, (_, flows) in job.links.items()]
    # The service does not know the job's GPUs; its name identifies it.
    return Member(job.name, (), 1, job.profile, crossings)


def _network(jobs: Sequence[Contender]) -> Network:
    """A network of the jobs' links, each between its own two nodes: paths are already known, so only
    capacities matter.

    A cable has two directions; link 2n is the first direction of cable n.
    """
    numbers, capacities_bps = _numbered(jobs)
    nodes: list[tuple[str, _hocket._NodeKind]] = [
        (f"{name} {end}", "switch") for name in numbers for end in ("from", "to")
    ]
    cables: list[_hocket._Cable] = [
        {"a": 2 * number, "b": 2 * number + 1, "rate_bps": rate_bps, "delay_ps": 0}
        for number, rate_bps in enumerate(capacities_bps)
    ]
    fabric = _hocket.Fabric(nodes, cables)
    links = tuple((name, rate) for name, rate in zip(numbers, capacities_bps, strict=True) for _ in range(2))
    return Network(fabric, links, {}, (0,) * len(cables))


def _part(component: Component) -> Part:
    numbers, _ = _numbered(component.jobs)
    directed = {name: 2 * number for name, number in numbers.items()}
    members = tuple(_member(job, directed) for job in component.jobs)
    links = {
        directed[name]: tuple((place, members[place].flows[directed[name]]) for place in places)
        for name, places in component.links.items()
    }
    return Part(members, dict(sorted(links.items())))


def _places(component: Component, circle: Circle, spacing: Spacing) -> dict[str, Place]:
    """Slots in whole nanoseconds. All periods divide one common turn exactly, so that slots do not drift
    apart.
    """
    step_ns = math.lcm(*circle.rounds)
    turn_ps = spacing.periods_ps[0] * circle.rounds[0]
    # Rounded up, since a slot shorter than the predicted iteration would make its job late every time.
    turn_ns = -(-turn_ps // (_PS_PER_NS * step_ns)) * step_ns
    return {
        job.name: Place((offset_ps + job.mark_ps) // _PS_PER_NS, turn_ns // rounds)
        for job, rounds, offset_ps in zip(component.jobs, circle.rounds, spacing.offsets_ps, strict=True)
    }


def _held_places(
    component: Component,
    circle: Circle,
    places: Mapping[str, Place],
    held: Mapping[str, HeldSlot],
    longer: float,
) -> dict[str, Place] | None:
    """The slots held now as places, or None unless all jobs hold slots with one common turn, which must be
    long enough and at most `longer` times that of `places`.
    """
    kept = {name: Place(slot.origin_ns, slot.period_ns) for name, slot in held.items()}
    if kept.keys() != places.keys():
        return None
    rounds = {job.name: laps for job, laps in zip(component.jobs, circle.rounds, strict=True)}
    turns_ns = {kept[name].period_ns * rounds[name] for name in kept}
    name = component.jobs[0].name
    longest_ns = places[name].period_ns * rounds[name] * longer
    shortest_ns = circle.padded_perimeter_ps / _PS_PER_NS
    if len(turns_ns) > 1 or not shortest_ns <= max(turns_ns) <= longest_ns:
        return None
    return kept


def _score(component: Component, circle: Circle, places: Mapping[str, Place]) -> float:
    """The score of jobs at `places`, averaged over the links."""
    shifts_ps = []
    for job, period_ps in zip(component.jobs, circle.periods_ps, strict=True):
        place = places[job.name]
        slot_ps = place.period_ns * _PS_PER_NS
        # Slots are longer than the periods on the circle, so that positions are scaled to the circle.
        into_ps = (place.offset_ns * _PS_PER_NS - job.mark_ps) % slot_ps
        shifts_ps.append(into_ps * period_ps // slot_ps)
    profiles = on_circle([job.profile for job in component.jobs], circle.periods_ps)
    scores = []
    for name, crossing in component.links.items():
        capacity_bps, _ = component.jobs[crossing[0]].links[name]
        demand = [
            native_profile(multiplied(profiles[at], component.jobs[at].links[name][1])) for at in crossing
        ]
        scores.append(_hocket.score(capacity_bps, demand, [shifts_ps[at] for at in crossing]))
    return sum(scores) / len(scores)
