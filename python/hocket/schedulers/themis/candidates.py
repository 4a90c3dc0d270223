"""Placements as fair as Themis's own, for CASSINI to choose from (NSDI'24 §4.2, step 1).

Every job keeps its number of workers, and its span where ρ depends on it, so that no ρ is worse; which loser
gives up which worker, and which winner gets it, differs. Jobs that stay where they are always do so.
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
"""By rack and server, in an order without their numbers: how many GPUs there are, and whose."""

MOST_DEALS = 4
"""Hocket: how often a candidate re-deals GPUs of two jobs; the paper's example moves a few of four."""

ATTEMPTS = 10
"""Hocket: how many are tried per candidate asked for, before there are taken to be no more."""


@dataclass(frozen=True)
class Mover:
    """A job whose GPUs change."""

    name: str
    former: Gpus
    """None where it may change all of them."""
    fixed: Gpus
    """On lease: it keeps them."""
    stay: int
    """How many of its former GPUs that were auctioned it keeps."""
    fresh: int
    """How many GPUs it gets that it did not have."""
    widest: Span
    """A wider span would make its ρ worse."""


class EqualPlacements:
    """All placements that can be had from `own` by dealing the GPUs of an auction differently."""

    def __init__(
        self,
        regions: Regions,
        before: Placement,
        own: Placement,
        auctioned: Sequence[int],
        widest: Mapping[str, Span],
        exchange: Literal["restarting", "auctioned"] = "restarting",
    ) -> None:
        """`before` and `own`: GPUs by job; `auctioned`: those on offer; `widest`: span by job for its ρ."""
        self.regions = regions
        self.before = before
        self.own = own
        given_up = (gpu for name, gpus in before.items() for gpu in gpus if gpu not in own[name])
        open_to_all = {*auctioned, *given_up}
        moving = {name: gpus for name, gpus in own.items() if gpus and gpus != before.get(name, ())}
        if exchange == "restarting":
            open_to_all.update(*moving.values())
            before = {}
        self.movers = [
            _mover(name, before.get(name, ()), gpus, open_to_all, widest[name])
            for name, gpus in moving.items()
        ]
        self.spare = open_to_all.difference(*own.values())
        self.racks = sorted({regions.of(gpu)[1] for gpu in open_to_all})
        self._settled = self._settled_names()

    def sample(self, count: int, random: Random) -> list[Placement]:
        """Up to `count` placements, `own` first, no two of them the same but for the numbering of racks,
        servers in a rack, or GPUs in a server.
        """
        found, seen = [self.own], {self._shape(self.own)}
        # One job and nothing to spare: there is no other way.
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
        """By server of the racks in which GPUs were auctioned: a name for each GPU that keeps its job."""
        moving = {mover.name for mover in self.movers}
        found: dict[int, list[str]] = {
            server: [] for rack in self.racks for server in self.regions.servers_in(rack)
        }
        for name, gpus in self.own.items():
            for gpu in gpus if name not in moving else ():
                if (server := self.regions.cluster.server_of[gpu]) in found:
                    found[server].append(name)
        return found

    def _dealt_again(self, random: Random) -> Placement:
        placement, spare = dict(self.own), set(self.spare)
        for _ in range(random.randint(1, MOST_DEALS)):
            group = random.sample(self.movers, min(2, len(self.movers)))
            available = spare.union(*(placement[mover.name] for mover in group))
            available.difference_update(*(mover.fixed for mover in group))
            dealt = _deal(self.regions, group, available, random)
            # Back where it runs, a job would not restart, and be better off than in `own`.
            if dealt and all(gpus != self.before.get(name) for name, gpus in dealt.items()):
                placement |= dealt
                spare = available.difference(*dealt.values())
        return placement

    def _shape(self, placement: Placement) -> Shape:
        server_of, gpus_of = self.regions.cluster.server_of, self.regions.cluster.gpus_of
        inside = {server: list(names) for server, names in self._settled.items()}
        for mover in self.movers:
            for gpu in placement[mover.name]:
                if server_of[gpu] in inside:  # elsewhere it has GPUs on lease only
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
    """GPUs for each of `group` from `available`, or none where the draw fits no span."""
    rest, kept, found = set(available), {}, {}
    for mover in group:
        own = sorted(rest.intersection(mover.former))
        if len(own) < mover.stay:
            return None
        stay = random.sample(own, mover.stay)
        rest.difference_update(stay)
        kept[mover.name] = (*mover.fixed, *stay)
    for mover in sorted(group, key=lambda each: each.widest):  # a narrow one has less to choose from
        others = sorted(rest.difference(mover.former))
        fresh = _draw(regions, mover, kept[mover.name], others, random)
        gpus = tuple(sorted((*kept[mover.name], *fresh)))
        if len(fresh) < mover.fresh or regions.cluster.span(gpus) > mover.widest:
            return None
        rest.difference_update(fresh)
        found[mover.name] = gpus
    return found


def _draw(regions: Regions, mover: Mover, kept: Gpus, gpus: Sequence[int], random: Random) -> Sequence[int]:
    """The fresh ones for `mover` of `gpus`, in a region as narrow as it needs; none where none has enough.

    Half of the draws scatter them over the region; half fill its servers and racks one after another, those
    first in which the job has some, as it meets fewer others then.
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
