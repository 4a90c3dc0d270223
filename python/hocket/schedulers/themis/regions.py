"""The regions of a cluster: a tree of servers, racks and the whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hocket import _hocket
from hocket.schedulers.state import Cluster, Span


@dataclass(frozen=True)
class Regions:
    """The regions of a cluster by number: its servers, then its racks, then the whole."""

    cluster: Cluster

    @cached_property
    def native(self) -> _hocket.Regions:
        """The same regions, for auctions and compact places."""
        return _hocket.Regions(self.cluster.server_of, self.cluster.rack_of)

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
