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
RackShape = tuple[tuple[int, tuple[str, ...]], ...]
"""By server of a rack, sorted so that their numbers do not matter: the number of GPUs, and their jobs."""
Shape = tuple[RackShape, ...]
"""By rack, sorted as well."""

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
        self._settled_racks = {rack: self._rack_shape(rack, self._settled) for rack in self.racks}

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
        server_of = self.regions.cluster.server_of
        inside: dict[int, list[str]] = {}
        for mover in self.movers:
            for gpu in placement[mover.name]:
                server = server_of[gpu]
                if server in inside:
                    inside[server].append(mover.name)
                # In other racks, a job has only leased GPUs, which it keeps.
                elif server in self._settled:
                    inside[server] = [*self._settled[server], mover.name]
        shapes, names = dict(self._settled_racks), self._settled | inside
        for rack in {self.regions.around[server][1] for server in inside}:
            shapes[rack] = self._rack_shape(rack, names)
        return tuple(sorted(shapes.values()))

    def _rack_shape(self, rack: int, names: Mapping[int, Sequence[str]]) -> RackShape:
        gpus_of = self.regions.cluster.gpus_of
        servers = self.regions.servers_in(rack)
        return tuple(sorted((len(gpus_of[server]), tuple(sorted(names[server]))) for server in servers))


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


def _shuffle(gpus: list[int], random: Random) -> None:
    """`random.shuffle(gpus)`, with the same draws, in a third of the time."""
    for last in range(len(gpus) - 1, 0, -1):
        bits = (last + 1).bit_length()
        place = random.getrandbits(bits)
        while place > last:
            place = random.getrandbits(bits)
        gpus[last], gpus[place] = gpus[place], gpus[last]


def _draw(regions: Regions, mover: Mover, kept: Gpus, gpus: Sequence[int], random: Random) -> Sequence[int]:
    """The new GPUs of `mover` out of `gpus`, within a region of its widest span; empty if no region has
    enough.

    Half of the draws scatter them over the region; the others fill its servers and racks one after another,
    starting with those in which the job has GPUs, as it then shares links with fewer others.
    """
    if mover.fresh == 0:
        return ()
    server_of, rack_of = regions.cluster.server_of, regions.cluster.rack_of
    allowed = regions.at(mover.widest, kept)
    by_server = Counter(map(server_of.__getitem__, gpus))
    counts: Counter[int] = Counter()
    for server, count in by_server.items():
        for region in regions.around[server]:
            counts[region] += count
    places = [place for place, count in counts.items() if place in allowed and count >= mover.fresh]
    if not places:
        return ()
    place = random.choice(places)
    within = list(gpus)
    if place != regions.whole:
        within = [gpu for gpu in gpus if place in regions.around[server_of[gpu]]]
    _shuffle(within, random)
    if random.random() < 0.5:
        # A turn for each server and rack, and for the whole, which changes no order: the last one drawn.
        servers = [server_of[gpu] for gpu in within]
        draws = [random.random() for _ in range(3 * len(within))]
        server_turns = dict(zip(servers, draws[::3], strict=True))
        rack_turns = dict(zip((rack_of[server] for server in servers), draws[1::3], strict=True))
        for gpu in kept:
            server_turns[server_of[gpu]] = rack_turns[regions.cluster.rack(gpu)] = -1.0
        turns = {server: (rack_turns[rack_of[server]], server_turns[server]) for server in set(servers)}
        within.sort(key=lambda gpu: turns[server_of[gpu]])
    return within[: mover.fresh]
