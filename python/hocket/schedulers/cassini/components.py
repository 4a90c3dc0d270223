"""Which jobs meet on which links under a candidate: components of the affinity graph (NSDI'24 §4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hocket.engines.network import Crossings
from hocket.profiles import WorkloadProfile
from hocket.schedulers.state import Gpus


@dataclass(frozen=True)
class Member:
    """A job where a candidate has it run."""

    name: str
    gpus: Gpus
    batch_size: int
    profile: WorkloadProfile
    crossings: Crossings

    @property
    def key(self) -> tuple[str, Gpus, int]:
        """What decides profile and crossings."""
        return self.name, self.gpus, self.batch_size

    @cached_property
    def flows(self) -> Mapping[int, int]:
        """By link that it crosses."""
        return dict(self.crossings)

    @cached_property
    def peak_bps(self) -> int:
        """The most that one of its flows asks of a link."""
        return max((phase.rate_bps for phase in self.profile.phases), default=0)


@dataclass(frozen=True)
class Part:
    """Jobs that contend for links with each other, directly or through others, by arrival."""

    members: tuple[Member, ...]
    links: Mapping[int, tuple[tuple[int, int], ...]]
    """By link, ascending, its jobs as (place in `members`, flows)."""

    @cached_property
    def key(self) -> tuple[tuple[str, Gpus, int], ...]:
        """Parts of equal keys are the same: links and profiles follow from who runs where."""
        return tuple(member.key for member in self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """Its jobs."""
        return tuple(member.name for member in self.members)


@dataclass(frozen=True)
class Layout:
    """What is shared under a candidate."""

    parts: tuple[Part, ...]
    """By their first job."""
    roomy: Mapping[int, Mapping[str, int]]
    """Flows by job, on links that several cross and that carry all of them at their peaks: such a link scores
    1 at any shifts. Hocket: it joins no components, though in NSDI'24 Algorithm 2 every shared link does;
    what looks like a loop over it is none."""


def layout(members: Sequence[Member], capacities_bps: Sequence[int]) -> Layout:
    """The parts that `members` fall into on links of these capacities."""
    roomy = {}
    contended = {}
    for link, crossing in _shared(members).items():
        peak_bps = sum(members[number].peak_bps * flows for number, flows in crossing)
        if peak_bps > capacities_bps[link]:
            contended[link] = crossing
        else:
            roomy[link] = {members[number].name: flows for number, flows in crossing}
    return Layout(tuple(_parts(members, contended)), roomy)


def _shared(members: Sequence[Member]) -> dict[int, list[tuple[int, int]]]:
    """By link that several of `members` cross, ascending, these as (number, flows)."""
    # Most links are crossed by one job alone; sets find the others many times faster than a loop over all.
    crossed: set[int] = set()
    shared: set[int] = set()
    for member in members:
        shared |= member.flows.keys() & crossed
        crossed |= member.flows.keys()
    found: dict[int, list[tuple[int, int]]] = {link: [] for link in sorted(shared)}
    for number, member in enumerate(members):
        for link in member.flows.keys() & shared:
            found[link].append((number, member.flows[link]))
    return found


def _parts(members: Sequence[Member], contended: Mapping[int, Sequence[tuple[int, int]]]) -> list[Part]:
    joined = list(range(len(members)))

    def first(number: int) -> int:
        while joined[number] != number:
            joined[number] = joined[joined[number]]
            number = joined[number]
        return number

    for crossing in contended.values():
        for number, _ in crossing:
            one, other = sorted((first(crossing[0][0]), first(number)))
            joined[other] = one
    numbers: dict[int, list[int]] = {}
    for number in sorted({number for crossing in contended.values() for number, _ in crossing}):
        numbers.setdefault(first(number), []).append(number)
    links: dict[int, dict[int, tuple[tuple[int, int], ...]]] = {start: {} for start in numbers}
    for link, crossing in contended.items():
        start = first(crossing[0][0])
        place = {number: index for index, number in enumerate(numbers[start])}
        links[start][link] = tuple((place[number], flows) for number, flows in crossing)
    return [Part(tuple(members[number] for number in numbers[start]), links[start]) for start in numbers]
