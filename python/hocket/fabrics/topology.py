"""A fabric as nodes and cables: GPUs, switches, and the scale-up switches inside servers.

A GPU is a host of the fabric. Its name is that of its server and its number there, `s0:3`, or the server's
name alone if the server has one GPU.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

NodeKind = Literal["host", "switch", "scale-up"]

# `.+` is greedy, so a server's name may contain colons. A server of a shape has at most 1,024 GPUs.
_GPU_OF_SERVER = re.compile(r"(?P<server>.+):(?P<gpu>[0-9]{1,4})")


class Cable(NamedTuple):
    """A bidirectional link between two nodes, the `copy`-th between them."""

    ends: tuple[str, str]
    rate_bps: int
    delay_ps: int
    name: str | None = None
    copy: int = 1

    @property
    def label(self) -> str:
        """The name, or else the ends joined by a hyphen, with `/2` and so on for further cables.

        >>> Cable(("tor0", "spine1"), 200 * 10**9, 500_000, copy=2).label
        'tor0-spine1/2'
        """
        if self.name is not None:
            return self.name
        ends = "-".join(self.ends)
        return ends if self.copy == 1 else f"{ends}/{self.copy}"


class ScaleUpNetwork(NamedTuple):
    """The network inside a server: one switch with a link to each GPU."""

    rate_bps: int
    """The rate of each GPU's link in each direction."""
    delay_ps: int


def server_of(host: str) -> str:
    """The server of a host: the name before its GPU's number, or the host itself.

    >>> server_of("s0:3"), server_of("s0")
    ('s0', 's0')
    """
    match = _GPU_OF_SERVER.fullmatch(host)
    return match["server"] if match else host


def scale_up_switch(server: str) -> str:
    """The name of the switch inside a server of several GPUs."""
    return f"{server}:nvswitch"


@dataclass(frozen=True)
class Topology:
    """Nodes by name with their kinds, and the cables between them; both are numbered in this order.

    Every end of a cable is a node. The order is part of a run's input: ECMP hashes the numbers of nodes.
    """

    nodes: Mapping[str, NodeKind]
    cables: tuple[Cable, ...]

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """The hosts by server, in the order in which servers first occur, then by number."""
        return tuple(gpu for gpus in self.servers.values() for gpu in gpus)

    @cached_property
    def servers(self) -> Mapping[str, tuple[str, ...]]:
        """The hosts of each server, by number."""
        numbered: dict[str, list[tuple[int, str]]] = {}
        for node, kind in self.nodes.items():
            if kind == "host":
                match = _GPU_OF_SERVER.fullmatch(node)
                # The number as an integer, so that GPU 10 comes after GPU 9.
                server, gpu = (match["server"], int(match["gpu"])) if match else (node, 0)
                numbered.setdefault(server, []).append((gpu, node))
        return {server: tuple(gpu for _, gpu in sorted(gpus)) for server, gpus in numbered.items()}

    @cached_property
    def nic_rates_bps(self) -> Mapping[str, int]:
        """The rate of each host's slowest link outside its server, in the order of the cables.

        Hosts without such a link are left out.
        """
        rates: dict[str, int] = {}
        for cable in self.cables:
            one, other = cable.ends
            if "scale-up" not in (self.nodes[one], self.nodes[other]):
                for end in cable.ends:
                    if self.nodes[end] == "host":
                        # ECMP may send a flow over any of a host's NICs: only the slowest is certain.
                        rates[end] = min(cable.rate_bps, rates.get(end, cable.rate_bps))
        return rates

    @cached_property
    def islands(self) -> Mapping[str, int]:
        """The number of each node's island; nodes have the same number if a path connects them.

        The numbers are distinct but not consecutive.
        """
        neighbours = self.neighbours
        island: dict[str, int] = {}
        for start in self.nodes:
            # A stack, because a chain of switches may be longer than Python's limit on recursion.
            reached = [start] if start not in island else []
            while reached:
                node = reached.pop()
                if node not in island:
                    island[node] = len(island) if node == start else island[start]
                    reached.extend(neighbours[node])
        return island

    @cached_property
    def neighbours(self) -> Mapping[str, Sequence[str]]:
        """The other end of each cable of a node, in the order of the cables.

        A neighbour over several parallel cables is repeated.
        """
        neighbours: dict[str, list[str]] = {node: [] for node in self.nodes}
        for cable in self.cables:
            one, other = cable.ends
            neighbours[one].append(other)
            neighbours[other].append(one)
        return neighbours

    @cached_property
    def tiers(self) -> Mapping[str, int]:
        """The distance of each switch from its nearest host: 1 for a ToR, 2 for the switches above it.

        Switches that no host reaches are left out.
        """
        distance = {node: 0 for node, kind in self.nodes.items() if kind == "host"}
        reached = deque(distance)
        while reached:
            node = reached.popleft()
            for other in self.neighbours[node]:
                # Not through scale-up switches, which lead only to other hosts, whose distance is 0 already.
                if other not in distance and self.nodes[other] == "switch":
                    distance[other] = distance[node] + 1
                    reached.append(other)
        return {node: tier for node, tier in distance.items() if tier}


def built(nics: Sequence[Cable], trunks: Sequence[Cable]) -> Topology:
    """The fabric of hosts, the first ends of `nics`, attached to switches that `trunks` join.

    Hosts are numbered before switches, and switches in the order in which cables name them.
    """
    nodes: dict[str, NodeKind] = {cable.ends[0]: "host" for cable in nics}
    for cable in (*nics, *trunks):
        for end in cable.ends:
            nodes.setdefault(end, "switch")
    return Topology(nodes, (*nics, *trunks))


def from_cables(cables: Iterable[Cable], hosts: Iterable[str] = ()) -> Topology:
    """The fabric of `cables`; nodes are in the order in which they first occur.

    A node with one cable is a host; a node with several is a switch unless it is in `hosts`.
    """
    given = tuple(cables)
    degrees = Counter(end for cable in given for end in cable.ends)
    named = set(hosts)
    kinds: dict[str, NodeKind] = {
        node: "host" if degree == 1 or node in named else "switch" for node, degree in degrees.items()
    }
    return Topology(kinds, given)


def with_scale_up(topology: Topology, network: ScaleUpNetwork) -> Topology:
    """`topology` with a switch `NAME:nvswitch` in each server NAME of several hosts, linked to each."""
    # Appended after all other nodes and cables, so that adding scale-up renumbers none of them and leaves
    # the paths between servers as they were.
    nodes = dict(topology.nodes)
    cables = list(topology.cables)
    for server, gpus in topology.servers.items():
        if len(gpus) > 1:
            switch = scale_up_switch(server)
            nodes[switch] = "scale-up"
            cables.extend(Cable((gpu, switch), network.rate_bps, network.delay_ps) for gpu in gpus)
    return Topology(nodes, tuple(cables))
