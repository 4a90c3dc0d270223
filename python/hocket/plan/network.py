"""The network of a plan: `[link]`, which all jobs share, or `[fabric]`, on which they are placed."""

from collections import Counter
from typing import Annotated

from pydantic import Field, StrictInt

from hocket.schema import Name, Number, Table, default
from hocket.units import DurationPs, PositiveRateBps, parse_duration

DEFAULT_PRECISION_DEG = 5.0
"""Sectors of this many degrees unless the plan says otherwise: NSDI'24 §5.1."""

PrecisionDeg = Annotated[Number, Field(ge=0.1, le=90)]


class Link(Table):
    """One link that all jobs share."""

    capacity_bps: PositiveRateBps = Field(alias="capacity")
    delay_ps: DurationPs = default(parse_duration("500 ns"), "HOTI'22 Table I: 500 ns per link", "delay")
    precision_deg: PrecisionDeg = default(DEFAULT_PRECISION_DEG, "NSDI'24 §5.1: unless otherwise stated, 5°")
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )


class FabricLink(Table):
    """A bidirectional link between two nodes of the fabric."""

    ends: Annotated[tuple[Name, ...], Field(min_length=2, max_length=2)]
    rate_bps: PositiveRateBps = Field(alias="rate")
    delay_ps: DurationPs = default(parse_duration("500 ns"), "HOTI'22 Table I: 500 ns per link", "delay")
    name: Name | None = None

    @property
    def label(self) -> str:
        """Its name, or its ends joined by a hyphen."""
        return self.name or "-".join(self.ends)


class Fabric(Table):
    """The network as links; a node with one link is a host, a node with several a switch unless it is one of
    `hosts`.
    """

    links: Annotated[tuple[FabricLink, ...], Field(min_length=1, max_length=1_000_000)]
    hosts: Annotated[tuple[Name, ...], Field(max_length=1_000_000)] = ()
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )

    def degrees(self) -> Counter[str]:
        """The number of links at each node."""
        return Counter(end for link in self.links for end in link.ends)

    def nic_rates_bps(self) -> dict[str, int]:
        """The rate of each host's slowest link, in bits per second, in the order of the links."""
        degrees, named = self.degrees(), set(self.hosts)
        rates: dict[str, int] = {}
        for link in self.links:
            for end in link.ends:
                if degrees[end] == 1 or end in named:
                    rates[end] = min(link.rate_bps, rates.get(end, link.rate_bps))
        return rates

    def islands(self) -> dict[str, int]:
        """For each node the number of the island it is on: nodes with a path between them share one."""
        neighbours: dict[str, list[str]] = {}
        for link in self.links:
            for end, other in (link.ends, link.ends[::-1]):
                neighbours.setdefault(end, []).append(other)
        island: dict[str, int] = {}
        for start in neighbours:
            reached = [start] if start not in island else []
            while reached:
                node = reached.pop()
                if node not in island:
                    island[node] = len(island) if node == start else island[start]
                    reached.extend(neighbours[node])
        return island
