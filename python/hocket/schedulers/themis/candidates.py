"""Placements as fair as Themis's own, for CASSINI to choose from (NSDI'24 §4.2, step 1).

Every job keeps its number of workers, and its span where ρ depends on it, so that no ρ is worse. Candidates
differ in the workers that losers give up, and in the winners that receive them. Jobs that stay do so in all
candidates.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from hocket.schedulers.state import Gpus, Span
from hocket.schedulers.themis.regions import Regions

Placement = Mapping[str, Gpus]
Shape = tuple[tuple[tuple[int, tuple[str, ...]], ...], ...]
"""By rack and server, sorted so that their numbers do not matter: the number of GPUs, and their jobs."""

MOST_DEALS = 4
"""Hocket: the most exchanges between two jobs in a candidate; in the example of NSDI'24 §4.2, four workers
change jobs."""

ATTEMPTS = 10
"""Hocket: the number of random placements tried per requested candidate before the search for more ends."""


@dataclass(frozen=True)
class Mover:
    """A job whose GPUs change."""

    name: str
    former: Gpus
    """Its GPUs before the auction; empty if it may change all of them."""
    fixed: Gpus
    """Leased GPUs, which it keeps."""
    stay: int
    """The number of auctioned former GPUs that it keeps."""
    fresh: int
    """The number of GPUs that are new to it."""
    widest: Span
    """The widest span that does not make its ρ worse."""


class EqualPlacements:
    """The placements that follow from `own` by exchanging the GPUs of an auction between jobs."""

    def __init__(
        self,
        regions: Regions,
        before: Placement,
        own: Placement,
        auctioned: Sequence[int],
        widest: Mapping[str, Span],
        exchange: Literal["restarting", "auctioned"] = "restarting",
    ) -> None:
        """`before` and `own`: GPUs by job; `auctioned`: GPUs on offer; `widest`: widest span of each job."""
        self.regions = regions
        self.before = before
        self.own = own
        given_up = (gpu for name, gpus in before.items() for gpu in gpus if gpu not in own[name])
        open_to_all = {*auctioned, *given_up}
        moving = {name: gpus for name, gpus in own.items() if gpus and gpus != before.get(name, ())}
        if exchange == "restarting":
            # These jobs restart in any case, so that exchanging all of their GPUs costs nothing further.
            open_to_all.update(*moving.values())
            before = {}
        self.movers = [
            _mover(name, before.get(name, ()), gpus, open_to_all, widest[name])
            for name, gpus in moving.items()
        ]
        self.spare = open_to_all.difference(*own.values())
        # All other racks are the same in every candidate, so comparisons skip them.
        self.racks = sorted({regions.of(gpu)[1] for gpu in open_to_all})
        self._settled = self._settled_names()

    def sample(self, count: int, random: Random) -> list[Placement]:
        """Up to `count` placements, `own` first, no two of which differ only in the numbering of racks,
        servers in a rack, or GPUs in a server.
        """
        found, seen = [self.own], {self._shape(self.own)}
        # A single job without spare GPUs has only one placement.
        attempts = ATTEMPTS * (count - 1) if len(self.movers) + bool(self.spare) > 1 else 0
        for _ in range(attempts):
            if len(found) == count:
                break
            placement = self._dealt_again(random)
            shape = self._shape(placement)
            if shape not in seen:
                seen.add(shape)
                found.append(placement)
        return found

    def _settled_names(self) -> dict[int, list[str]]:
        """By server of the racks with auctioned GPUs: the job of each GPU that keeps its job."""
        moving = {mover.name for mover in self.movers}
        names: dict[int, list[str]] = {
            server: [] for rack in self.racks for server in self.regions.servers_in(rack)
        }
        for name, gpus in self.own.items():
            for gpu in gpus if name not in moving else ():
                if (server := self.regions.cluster.server_of[gpu]) in names:
                    names[server].append(name)
        return names

    def _dealt_again(self, random: Random) -> Placement:
        placement, spare = dict(self.own), set(self.spare)
        for _ in range(random.randint(1, MOST_DEALS)):
            group = random.sample(self.movers, min(2, len(self.movers)))
            available = spare.union(*(placement[mover.name] for mover in group))
            available.difference_update(*(mover.fixed for mover in group))
            dealt = _deal(self.regions, group, available, random)
            # A job that returns to its current GPUs would not restart, and so be better off than in `own`.
            if dealt and all(gpus != self.before.get(name) for name, gpus in dealt.items()):
                placement |= dealt
                spare = available.difference(*dealt.values())
        return placement

    def _shape(self, placement: Placement) -> Shape:
        server_of, gpus_of = self.regions.cluster.server_of, self.regions.cluster.gpus_of
        inside = {server: list(names) for server, names in self._settled.items()}
        for mover in self.movers:
            for gpu in placement[mover.name]:
                # In other racks, a job has only leased GPUs, which it keeps.
                if server_of[gpu] in inside:
                    inside[server_of[gpu]].append(mover.name)
        whose = {server: (len(gpus_of[server]), tuple(sorted(names))) for server, names in inside.items()}
        racks = ((whose[server] for server in self.regions.servers_in(rack)) for rack in self.racks)
        return tuple(sorted(tuple(sorted(rack)) for rack in racks))


def _mover(name: str, former: Gpus, gpus: Gpus, auctioned: set[int], widest: Span) -> Mover:
    kept = [gpu for gpu in gpus if gpu in former]
    fixed = tuple(gpu for gpu in kept if gpu not in auctioned)
    stay = len(kept) - len(fixed)
    return Mover(name, former, fixed, stay, len(gpus) - len(kept), widest)


def _deal(
    regions: Regions, group: Sequence[Mover], available: set[int], random: Random
) -> dict[str, Gpus] | None:
    """Random GPUs for each of `group` from `available`; None if the draw exceeds the span of a job."""
    rest, kept, dealt = set(available), {}, {}
    for mover in group:
        # Sorted, because the draw must not depend on the order of a set.
        former = sorted(rest.intersection(mover.former))
        if len(former) < mover.stay:
            return None
        stay = random.sample(former, mover.stay)
        rest.difference_update(stay)
        kept[mover.name] = (*mover.fixed, *stay)
    # A job with a narrow span has fewer options, so it draws first.
    for mover in sorted(group, key=lambda each: each.widest):
        others = sorted(rest.difference(mover.former))
        fresh = _draw(regions, mover, kept[mover.name], others, random)
        gpus = tuple(sorted((*kept[mover.name], *fresh)))
        if len(fresh) < mover.fresh or regions.cluster.span(gpus) > mover.widest:
            return None
        rest.difference_update(fresh)
        dealt[mover.name] = gpus
    return dealt


def _draw(regions: Regions, mover: Mover, kept: Gpus, gpus: Sequence[int], random: Random) -> Sequence[int]:
    """The new GPUs of `mover` out of `gpus`, within a region of its widest span; empty if no region has
    enough.

    Half of the draws scatter them over the region; the others fill its servers and racks one after another,
    starting with those in which the job has GPUs, as it then shares links with fewer others.
    """
    allowed = regions.at(mover.widest, kept)
    counts = Counter(region for gpu in gpus for region in regions.of(gpu))
    places = [place for place, count in counts.items() if place in allowed and count >= mover.fresh]
    if not places or mover.fresh == 0:
        return ()
    place = random.choice(places)
    within = [gpu for gpu in gpus if place in regions.of(gpu)]
    random.shuffle(within)
    if random.random() < 0.5:
        turn = {region: random.random() for gpu in within for region in regions.of(gpu)}
        turn |= {region: -1.0 for gpu in kept for region in regions.of(gpu)}
        within.sort(key=lambda gpu: [turn[region] for region in reversed(regions.of(gpu))])
    return within[: mover.fresh]
