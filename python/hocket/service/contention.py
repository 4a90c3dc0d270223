"""Which running jobs contend for links, and when each of them may communicate: CASSINI's machinery (NSDI'24
§4) on links that are known by name alone. Pure: what comes out depends on the arguments only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hocket import _hocket
from hocket.compat.answer import written_score
from hocket.compat.demand import times
from hocket.compat.solving import on_circle
from hocket.compat.verdict import Speedup, Verdict
from hocket.engines.network import Network
from hocket.engines.specs import plain
from hocket.profiles import WorkloadProfile
from hocket.schedulers.cassini.components import Member, Part, layout
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.slots import IterationTime, Prediction, Spacing, faster
from hocket.schedulers.cassini.time_shifts import Circle, TimeShiftSolver, reference

OPTIONS = CassiniOptions()
"""As in simulated clusters, with their sources: steps of 5°, a threshold of 0.6, a limit of steps."""

MOST_JOBS = 64
"""That contend with each other and get slots. Hocket: so many take seconds to solve and predict; and on one
link of which each job has less than a sixty-fourth, shifts help little."""

_WORTH_SLOTS = (Verdict.HELPS, Verdict.HELPS_LITTLE)
_SEED = 1
_PS_PER_NS = 1_000
# Slots leave room for up to twice the deviation of compute times: what is within that is no reason to move.
_LONGER = 2.0
# A place moves by less than a nanosecond where picoseconds are rounded: of a link's score, this much at most.
_AS_GOOD = 1e-6


@dataclass(frozen=True)
class Contender:
    """A running job, as far as contention goes."""

    name: str
    serial: int
    """Of its registration: the same number, the same profile and links."""
    profile: WorkloadProfile
    links: Mapping[str, tuple[int, int]]
    """By link that it crosses, its capacity in bits per second and the job's flows on it."""

    @property
    def key(self) -> tuple[str, int]:
        """What decides profile and links."""
        return self.name, self.serial

    @cached_property
    def mark_ps(self) -> int:
        """What of an iteration a slot stands for: the Up phase that follows its longest silence begins.

        That is where `hocket profile` lets iterations begin, and the agent looks for it; of equals the first.
        """
        phases = self.profile.phases
        ends_ps = [phase.start_ps + phase.duration_ps for phase in phases]
        before_ps = [ends_ps[-1] - self.profile.period_ps, *ends_ps[:-1]]
        silences = [phase.start_ps - end_ps for phase, end_ps in zip(phases, before_ps, strict=True)]
        return phases[silences.index(max(silences))].start_ps


@dataclass(frozen=True)
class Component:
    """Jobs that contend for links with each other, directly or through others, in order of registration."""

    jobs: tuple[Contender, ...]
    links: Mapping[str, tuple[int, ...]]
    """By link on which they contend, the places in `jobs` of those that cross it."""

    @cached_property
    def key(self) -> tuple[tuple[str, int], ...]:
        """Components of equal keys are the same."""
        return tuple(job.key for job in self.jobs)


@dataclass(frozen=True)
class Contention:
    """Who contends with whom."""

    components: tuple[Component, ...]
    alone: Mapping[str, str]
    """By job that contends with none, the reason."""


@dataclass(frozen=True)
class HeldSlot:
    """A slot that a job has had so far."""

    origin_ns: int
    period_ns: int

    def next_ns(self, at_ns: int) -> int:
        """Its first start at or after `at_ns`."""
        return at_ns + (self.origin_ns - at_ns) % self.period_ns


@dataclass(frozen=True)
class Place:
    """Where a job of a component communicates: from `offset_ns` on after an origin common to all, and every
    `period_ns`.
    """

    offset_ns: int
    period_ns: int


@dataclass(frozen=True)
class Predicted:
    """What a job pays for its iterations beside the others of its component."""

    free: IterationTime
    """Without slots, at random starts."""
    slotted: IterationTime
    """In slots."""

    @property
    def speedup(self) -> Speedup:
        """How many times faster they are in slots."""
        return faster(self.free, self.slotted)


@dataclass(frozen=True)
class Solution:
    """What is best for a component."""

    scores: Mapping[str, float]
    """By link, under the places; without them the mean over all shifts. Empty if that was not looked for."""
    predicted: Mapping[str, Predicted]
    """By job; empty if that was not looked for."""
    places: Mapping[str, Place]
    """By job; empty if slots do not help."""
    reference: str | None
    """The job that goes on undelayed."""
    why_none: str | None
    """Why there are no places, if so."""
    kept: bool = False
    """Whether the places are those that all jobs have had."""


def contention(jobs: Sequence[Contender]) -> Contention:
    """Who of `jobs`, by registration, contends with whom; links of one name have one capacity."""
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
    for component in components:
        for job in component.jobs:
            del alone[job.name]
    return Contention(components, alone)


def solve(component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
    """Places for the jobs of `component`, some of which have had slots; none where slots do not help.

    Where the places that all jobs have had score as high as the best, these come back: a job that left makes
    no other move. `jitter` is the relative standard deviation of compute times, for which slots leave room.
    """
    if len(component.jobs) > MOST_JOBS:
        why = f"{len(component.jobs)} jobs contend with each other, and at most {MOST_JOBS} are given slots"
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
        why = f"the best shifts score {best}, and below {limit:g} taking turns does not help"
        return replace(unshifted, why_none=why)
    first = reference(part, [int(job.name in held) for job in component.jobs], _SEED)
    circle = answer.circle.turned(first)
    spacing = Prediction(network.fabric, part, jitter=jitter, adjust=True, seed=_SEED).spacing(circle)
    if spacing is None:
        return replace(unshifted, why_none="jobs that are late make each other later: no slots last")
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
    """Numbers of links by name, in the order in which jobs name them, and their capacities by number."""
    capacities_bps: dict[str, int] = {}
    for job in jobs:
        for name, (capacity_bps, _) in job.links.items():
            capacities_bps.setdefault(name, capacity_bps)
    return {name: number for number, name in enumerate(capacities_bps)}, list(capacities_bps.values())


def _member(job: Contender, numbers: Mapping[str, int]) -> Member:
    crossings = [(numbers[name], flows) for name, (_, flows) in job.links.items()]
    # It is known by its name: which GPUs it has, the service is not told.
    return Member(job.name, (), 1, job.profile, crossings)


def _network(jobs: Sequence[Contender]) -> Network:
    """Their links, each between two nodes of its own: ways are known already, and only rates count.

    A cable carries both ways; link number n is its first direction.
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
    """Slots in whole nanoseconds, on a turn that all jobs divide, so that they stay where they are."""
    step_ns = math.lcm(*circle.rounds)
    turn_ps = spacing.periods_ps[0] * circle.rounds[0]
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
    """Where the slots that were held are, if all jobs had some, on one turn that is long enough, and at most
    `longer` times that of `places`.
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
    """The mean over links of the score of jobs at `places`."""
    shifts_ps = []
    for job, period_ps in zip(component.jobs, circle.periods_ps, strict=True):
        place = places[job.name]
        slot_ps = place.period_ns * _PS_PER_NS
        into_ps = (place.offset_ns * _PS_PER_NS - job.mark_ps) % slot_ps
        shifts_ps.append(into_ps * period_ps // slot_ps)
    profiles = on_circle([job.profile for job in component.jobs], circle.periods_ps)
    scores = []
    for name, crossing in component.links.items():
        capacity_bps, _ = component.jobs[crossing[0]].links[name]
        demand = [plain(times(profiles[at], component.jobs[at].links[name][1])) for at in crossing]
        scores.append(_hocket.score(capacity_bps, demand, [shifts_ps[at] for at in crossing]))
    return sum(scores) / len(scores)
