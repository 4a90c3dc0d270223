"""GPUs on offer by region, a tree of servers, racks and the cluster, and compact selections from them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from hocket.schedulers.state import Cluster, Gpus, Span


@dataclass(frozen=True)
class Regions:
    """The regions of a cluster by number: its servers, then its racks, then the whole."""

    cluster: Cluster

    @cached_property
    def servers(self) -> int:
        """The number of servers; rack r is region `servers` + r."""
        return len(self.cluster.rack_of)

    @cached_property
    def whole(self) -> int:
        """The last region, which is the whole cluster."""
        return self.servers + max(self.cluster.rack_of) + 1

    def servers_in(self, rack: int) -> list[int]:
        """The servers of the rack that is region `rack`."""
        return list(self._servers_in[rack - self.servers])

    @cached_property
    def _servers_in(self) -> list[list[int]]:
        by_rack: list[list[int]] = [[] for _ in range(self.whole - self.servers)]
        for server, rack in enumerate(self.cluster.rack_of):
            by_rack[rack].append(server)
        return by_rack

    @cached_property
    def around(self) -> tuple[tuple[int, ...], ...]:
        """By region: itself and the regions that contain it, innermost first."""
        of_servers = [(s, self.servers + rack, self.whole) for s, rack in enumerate(self.cluster.rack_of)]
        of_racks = [(rack, self.whole) for rack in range(self.servers, self.whole)]
        return (*of_servers, *of_racks, (self.whole,))

    def of(self, gpu: int) -> tuple[int, ...]:
        """The regions that contain a GPU, innermost first."""
        return self.around[self.cluster.server_of[gpu]]

    def at(self, span: Span, gpus: Sequence[int]) -> Sequence[int]:
        """The regions within which a job that has `gpus`, possibly none, spans no more than `span`.

        Empty if `gpus` themselves span more.
        """
        if span is Span.RACKS:
            return (self.whole,)
        if not gpus:
            return range(self.servers) if span is Span.SERVER else range(self.servers, self.whole)
        if self.cluster.span(gpus) > span:
            return ()
        # Both `of` and `Span` order by server, rack and whole cluster.
        return (self.of(gpus[0])[span],)


class Offer:
    """GPUs that nobody holds; `claimed` are those that a job had until now and may want back."""

    def __init__(
        self,
        regions: Regions,
        gpus: Iterable[int],
        claimed: frozenset[int] = frozenset(),
        draws: Random | None = None,
    ) -> None:
        """With `draws`, GPUs are picked at random."""
        self.regions = regions
        self.claimed = claimed
        self._draws = draws
        self.counts = [0] * (regions.whole + 1)
        """By region: the number of GPUs on offer in it."""
        self.unclaimed = [0] * (regions.whole + 1)
        """By region: the number of them that no job may reclaim."""
        self._most: dict[tuple[int, int], int] = {}
        self._gpus: list[set[int]] = [set() for _ in range(regions.servers)]
        self.add(gpus)

    def most_in(self, regions: Sequence[int]) -> int:
        """The most GPUs on offer in one of `regions`, which are consecutive; 0 without any."""
        if len(regions) <= 1:
            return self.counts[regions[0]] if regions else 0
        key = regions[0], regions[-1]
        if key not in self._most:
            self._most[key] = max(self.counts[regions[0] : regions[-1] + 1])
        return self._most[key]

    @property
    def total(self) -> int:
        """The number of GPUs on offer."""
        return self.counts[-1]

    def __contains__(self, gpu: int) -> bool:
        return gpu in self._gpus[self.regions.cluster.server_of[gpu]]

    def add(self, gpus: Iterable[int]) -> None:
        """Add `gpus` to the offer."""
        given = tuple(gpus)
        for gpu in given:
            server = self.regions.cluster.server_of[gpu]
            assert gpu not in self._gpus[server], "a GPU is offered once"
            self._gpus[server].add(gpu)
        self._count(given, 1)

    def remove(self, gpus: Gpus) -> None:
        """Remove `gpus` from the offer."""
        for gpu in gpus:
            self._gpus[self.regions.cluster.server_of[gpu]].remove(gpu)
        self._count(gpus, -1)

    def _count(self, gpus: Gpus, sign: int) -> None:
        self._most.clear()
        unclaimed = [gpu for gpu in gpus if gpu not in self.claimed]
        for counts, counted in ((self.counts, gpus), (self.unclaimed, unclaimed)):
            for server, number in Counter(map(self.regions.cluster.server_of.__getitem__, counted)).items():
                for region in self.regions.around[server]:
                    counts[region] += sign * number

    def pick(self, needed: int, region: int, held: Gpus = (), former: frozenset[int] = frozenset()) -> Gpus:
        """`needed` GPUs in `region`, ascending, for a job that holds `held` and had `former`.

        Racks, and the servers of a rack, are preferred in this order: those with most of its former GPUs;
        those in which it holds some; those that have enough without GPUs that other jobs may reclaim; those
        that have enough; of these, the one with the fewest, so that others stay whole. If none has enough,
        the one with the most comes first, so that the job is spread over few. Ties go to the lowest number.

        With random draws, only its former GPUs come first, and those that other jobs may reclaim last.
        """
        assert needed <= self.counts[region], "a region must have the GPUs that are picked in it"
        if self._draws is not None:
            return self._drawn(self._draws, needed, region, former)
        near = [self._by_region(gpu for gpu in former if gpu in self), self._by_region(held)]
        picked: list[int] = []
        racks = self._racks(region)
        while len(picked) < needed:
            rack = self._take_best(racks, needed - len(picked), near)
            servers = self._servers(rack, region)
            while servers and len(picked) < needed:
                server = self._take_best(servers, needed - len(picked), near)
                gpus = sorted(
                    self._gpus[server], key=lambda gpu: (gpu not in former, gpu in self.claimed, gpu)
                )
                picked += gpus[: needed - len(picked)]
        return tuple(sorted(picked))

    def _drawn(self, draws: Random, needed: int, region: int, former: frozenset[int]) -> Gpus:
        # Sorted, because the draw must not depend on the order of a set.
        gpus = sorted(gpu for server in self._gpus for gpu in server if region in self.regions.of(gpu))
        draws.shuffle(gpus)
        # The sort is stable, so GPUs of one kind stay shuffled.
        gpus.sort(key=lambda gpu: (gpu not in former, gpu in self.claimed))
        return tuple(sorted(gpus[:needed]))

    def _take_best(self, places: list[int], needed: int, near: list[Counter[int]]) -> int:
        """Remove the best region from `places` and return it, in the order that `pick` describes.

        `near` counts, by region, the former GPUs of the job on offer and those that it holds.
        """

        def order(place: int) -> tuple[int, bool, bool, bool, int, int]:
            former, held = near
            count = self.counts[place]
            crowded, short = self.unclaimed[place] < needed, count < needed
            return -former[place], not held[place], crowded, short, -count if short else count, place

        best = min(places, key=order)
        places.remove(best)
        return best

    def _by_region(self, gpus: Iterable[int]) -> Counter[int]:
        return Counter(region for gpu in gpus for region in self.regions.of(gpu))

    def _racks(self, region: int) -> list[int]:
        around = self.regions.around[region]
        return list(range(self.regions.servers, self.regions.whole)) if len(around) == 1 else [around[-2]]

    def _servers(self, rack: int, region: int) -> list[int]:
        return [region] if region < self.regions.servers else self.regions.servers_in(rack)
