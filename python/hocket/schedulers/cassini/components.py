"""Jobs that share links under a candidate: the components of the affinity graph (NSDI'24 §4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hocket.engines.network import Crossings
from hocket.profiles import WorkloadProfile
from hocket.schedulers.state import Gpus


@dataclass(frozen=True)
class Member:
    """A job at its placement under a candidate."""

    name: str
    gpus: Gpus
    batch_size: int
    profile: WorkloadProfile
    crossings: Crossings

    @property
    def key(self) -> tuple[str, Gpus, int]:
        """The properties that determine profile and crossings."""
        return self.name, self.gpus, self.batch_size

    @cached_property
    def flows(self) -> Mapping[int, int]:
        """The number of flows by link."""
        return dict(self.crossings)

    @cached_property
    def links(self) -> npt.NDArray[np.int64]:
        """The links that it crosses, each once."""
        return np.fromiter(self.flows, np.int64, len(self.flows))

    @cached_property
    def peak_bps(self) -> int:
        """The highest demand of one of its flows."""
        return max((phase.rate_bps for phase in self.profile.phases), default=0)


@dataclass(frozen=True)
class Part:
    """Jobs that contend for links with each other, directly or through others, in order of arrival."""

    members: tuple[Member, ...]
    links: Mapping[int, tuple[tuple[int, int], ...]]
    """The jobs of each link as (place in `members`, flows), by link, ascending."""

    @cached_property
    def key(self) -> tuple[tuple[str, Gpus, int], ...]:
        """Equal for identical parts, as links and profiles follow from the placement of the jobs."""
        return tuple(member.key for member in self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its jobs."""
        return tuple(member.name for member in self.members)

    def only(self, places: Sequence[int]) -> "Part":
        """The members at `places`, in this order, with the links that several of them cross. They may be
        connected only through others, so it may be no part of a layout.
        """
        among = {place: index for index, place in enumerate(places)}
        links = {}
        for link, crossing in self.links.items():
            left = tuple((among[place], flows) for place, flows in crossing if place in among)
            if len(left) > 1:
                links[link] = left
        return Part(tuple(self.members[place] for place in places), links)

    @property
    def connected(self) -> bool:
        """Whether its links connect all members."""
        reached = {0}
        # Each round reaches at least one more member, or is the last one.
        for _ in self.members:
            for crossing in self.links.values():
                crossed = {place for place, _ in crossing}
                if reached & crossed:
                    reached |= crossed
        return len(reached) == len(self.members)


@dataclass(frozen=True)
class Layout:
    """The shared links under a candidate."""

    parts: tuple[Part, ...]
    """In the order of their first jobs."""
    roomy: Mapping[int, Mapping[str, int]]
    """Flows by job on shared links with capacity for the peak demands of all their jobs, whose score is 1
    under any time-shifts. Hocket: these links do not connect components, though in NSDI'24 Algorithm 2 every
    shared link does; so they close no loops either."""


def layout(members: Sequence[Member], capacities_bps: Sequence[int]) -> Layout:
    """The parts that `members` form on links of these capacities."""
    roomy = {}
    contended = {}
    for link, crossing in _shared(members, len(capacities_bps)).items():
        peak_bps = sum(members[number].peak_bps * flows for number, flows in crossing)
        if peak_bps > capacities_bps[link]:
            contended[link] = crossing
        else:
            roomy[link] = {members[number].name: flows for number, flows in crossing}
    return Layout(tuple(_parts(members, contended)), roomy)


def _shared(members: Sequence[Member], links: int) -> dict[int, list[tuple[int, int]]]:
    """The members on each shared link as (number, flows), by link, ascending; there are `links` links."""
    found: dict[int, list[tuple[int, int]]] = {}
    if not members:
        return found
    # Most links are crossed by a single job, and NumPy finds the others many times faster than a loop.
    crossed = np.concatenate([member.links for member in members])
    owners = np.repeat(np.arange(len(members)), [len(member.links) for member in members])
    shared = np.bincount(crossed, minlength=links)[crossed] > 1
    crossed, owners = crossed[shared], owners[shared]
    order = np.argsort(crossed, kind="stable")
    for link, number in zip(crossed[order].tolist(), owners[order].tolist(), strict=True):
        found.setdefault(link, []).append((number, members[number].flows[link]))
    return found


def _parts(members: Sequence[Member], contended: Mapping[int, Sequence[tuple[int, int]]]) -> list[Part]:
    """The connected components of `members` and `contended` links, in the order of their first jobs."""
    # Union-find, which needs no list of all pairs of jobs that share a link.
    joined = list(range(len(members)))

    def first(number: int) -> int:
        while joined[number] != number:
            joined[number] = joined[joined[number]]
            number = joined[number]
        return number

    for crossing in contended.values():
        for number, _ in crossing:
            earlier, later = sorted((first(crossing[0][0]), first(number)))
            joined[later] = earlier
    numbers: dict[int, list[int]] = {}
    for number in sorted({number for crossing in contended.values() for number, _ in crossing}):
        numbers.setdefault(first(number), []).append(number)
    links: dict[int, dict[int, tuple[tuple[int, int], ...]]] = {start: {} for start in numbers}
    for link, crossing in contended.items():
        start = first(crossing[0][0])
        place = {number: index for index, number in enumerate(numbers[start])}
        links[start][link] = tuple((place[number], flows) for number, flows in crossing)
    return [Part(tuple(members[number] for number in numbers[start]), links[start]) for start in numbers]
