"""Builds regular fabrics: Clos, rails, fat trees, dumbbells and the testbed of NSDI'24.

Servers are `s0`, `s1`, … in the order of their racks. With several GPUs each, the GPUs are `s0:0`, `s0:1`, ….
Cables of hosts come first, then those between switches, from the lowest tier up.
"""

# ECMP hashes the numbers of nodes, which follow the order of the cables: another order would route the same
# plan differently.

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Literal, TypeAlias

from hocket.fabrics.topology import Cable, Topology, built

CASSINI_DELAY_PS = 500_000
"""NSDI'24 gives no delays of its testbed; HOTI'22 Table I has 500 ns per link."""

# NSDI'24 §5.1 gives the rate of the NICs only. With the same rate everywhere, four NICs below two uplinks are
# the 2:1 that it gives.
_CASSINI_RATE_BPS = 50 * 10**9


def clos(
    *,
    racks: int,
    servers_per_rack: int,
    gpus_per_server: int,
    spines: int,
    nic_bps: int,
    uplink_bps: int,
    cables_per_spine: int,
    delay_ps: int,
) -> Topology:
    """Racks of servers below `tor0`, …; each ToR has cables to all of `spine0`, … (HOTI'22 Fig 2)."""
    nics: list[Cable] = []
    trunks: list[Cable] = []
    for rack in range(racks):
        servers = range(rack * servers_per_rack, (rack + 1) * servers_per_rack)
        nics += [Cable((gpu, f"tor{rack}"), nic_bps, delay_ps) for gpu in _gpus(servers, gpus_per_server)]
        trunks += _uplinks(f"tor{rack}", "spine", range(spines), uplink_bps, cables_per_spine, delay_ps)
    return built(nics, trunks)


def rail_optimised(
    *,
    servers: int,
    gpus_per_server: int,
    servers_per_unit: int,
    spines: int,
    nic_bps: int,
    uplink_bps: int,
    cables_per_spine: int,
    delay_ps: int,
) -> Topology:
    """GPU i of every server in a unit is attached to switch i of that unit, and all switches to `spine0`, ….

    The switches are `rail0`, `rail1`, …, unit by unit.
    """
    nics: list[Cable] = []
    trunks: list[Cable] = []
    for server in range(servers):
        # A unit has as many rail switches as its servers have GPUs.
        first = server // servers_per_unit * gpus_per_server
        for rail, gpu in enumerate(_gpus(range(server, server + 1), gpus_per_server), first):
            nics.append(Cable((gpu, f"rail{rail}"), nic_bps, delay_ps))
    # Rounded up: the last unit may have fewer servers.
    units = -(-servers // servers_per_unit)
    for rail in range(units * gpus_per_server):
        trunks += _uplinks(f"rail{rail}", "spine", range(spines), uplink_bps, cables_per_spine, delay_ps)
    return built(nics, trunks)


def fat_tree(*, k: int, gpus_per_server: int, rate_bps: int, delay_ps: int) -> Topology:
    """The k-ary fat tree (Al-Fares et al., SIGCOMM'08 §3.1) of k³/4 hosts, for an even k.

    Each of k pods has k/2 switches `edge…` with k/2 hosts each, and k/2 switches `agg…`. The j-th `agg…` of a
    pod is below cores j·k/2 to (j + 1)·k/2 − 1 of the k²/4 switches `core…`. Switches are numbered by pod.
    """
    half = k // 2
    # All GPUs of a server are below one edge switch, so `gpus_per_server` divides k/2.
    per_edge = half // gpus_per_server
    nics: list[Cable] = []
    trunks: list[Cable] = []
    # k pods of k/2 edge switches; `first` below is the first `agg…` of the pod.
    for edge in range(k * half):
        servers = range(edge * per_edge, (edge + 1) * per_edge)
        nics += [Cable((gpu, f"edge{edge}"), rate_bps, delay_ps) for gpu in _gpus(servers, gpus_per_server)]
        first = edge // half * half
        trunks += _uplinks(f"edge{edge}", "agg", range(first, first + half), rate_bps, 1, delay_ps)
    for agg in range(k * half):
        # The position within the pod selects the cores, so that each core has one cable to every pod.
        first = agg % half * half
        trunks += _uplinks(f"agg{agg}", "core", range(first, first + half), rate_bps, 1, delay_ps)
    return built(nics, trunks)


def dumbbell(
    *, left: int, right: int, gpus_per_server: int, nic_bps: int, bottleneck_bps: int, delay_ps: int
) -> Topology:
    """Servers at the switches `left` and `right`, numbered in this order, and one cable between the two."""
    sides = (("left", range(left)), ("right", range(left, left + right)))
    nics = [
        Cable((gpu, switch), nic_bps, delay_ps)
        for switch, servers in sides
        for gpu in _gpus(servers, gpus_per_server)
    ]
    return built(nics, [Cable(("left", "right"), bottleneck_bps, delay_ps)])


CassiniTree: TypeAlias = Literal["cassini", "cassini-6-3-4", "cassini-6-6-1", "cassini-8-4-1"]
"""A tree with the numbers of NSDI'24's testbed; all but the first are named by their ToRs, aggregation
switches and cores."""

_CASSINI_SERVERS = 24
_CASSINI_UPLINKS = 2


@dataclass(frozen=True)
class _Tree:
    """ToRs with two uplinks each, and aggregation switches with `cables` to each core."""

    tors: int
    aggs: int
    cores: int
    cables: int


_CASSINI_TREES: Mapping[CassiniTree, _Tree] = MappingProxyType(
    {
        "cassini": _Tree(6, 4, 3, cables=1),
        "cassini-6-3-4": _Tree(6, 3, 4, cables=1),
        "cassini-6-6-1": _Tree(6, 6, 1, cables=2),
        "cassini-8-4-1": _Tree(8, 4, 1, cables=2),
    }
)


def cassini_testbed(tree: CassiniTree = "cassini") -> Topology:
    """A testbed as in NSDI'24 §5.1: 24 servers with one NIC of 50 Gbps, 13 switches, 48 links, 2:1.

    The paper's text gives only these numbers, which several regular trees have; Fig 10 draws one. `"cassini"`
    has six ToRs of four servers with two uplinks each (2:1); two pods of three ToRs and two aggregation
    switches (12 links); each of these four switches has a link to each of three cores (12 links). The names
    of the others end in the numbers of their ToRs, aggregation switches and cores. `"cassini-8-4-1"` is 1.5:1
    at its ToRs, and 2:1 only above.
    """
    shape = _CASSINI_TREES[tree]
    rate_bps, delay_ps = _CASSINI_RATE_BPS, CASSINI_DELAY_PS
    per_tor = _CASSINI_SERVERS // shape.tors
    nics = [
        Cable((f"s{server}", f"tor{server // per_tor}"), rate_bps, delay_ps)
        for server in range(_CASSINI_SERVERS)
    ]
    # Pods of as many aggregation switches as a ToR has uplinks; where that leaves some over, each pair of
    # them has as many ToRs as every other.
    above = (
        [tuple(range(first, first + _CASSINI_UPLINKS)) for first in range(0, shape.aggs, _CASSINI_UPLINKS)]
        if shape.aggs % _CASSINI_UPLINKS == 0
        else list(combinations(range(shape.aggs), _CASSINI_UPLINKS))
    )
    trunks: list[Cable] = []
    for tor in range(shape.tors):
        trunks += _uplinks(f"tor{tor}", "agg", above[tor * len(above) // shape.tors], rate_bps, 1, delay_ps)
    for agg in range(shape.aggs):
        trunks += _uplinks(f"agg{agg}", "core", range(shape.cores), rate_bps, shape.cables, delay_ps)
    return built(nics, trunks)


def _gpus(servers: range, gpus_per_server: int) -> Iterator[str]:
    for server in servers:
        if gpus_per_server == 1:
            yield f"s{server}"
        else:
            yield from (f"s{server}:{gpu}" for gpu in range(gpus_per_server))


def _uplinks(
    switch: str, above: str, numbers: Iterable[int], rate_bps: int, cables: int, delay_ps: int
) -> Iterator[Cable]:
    for number in numbers:
        for copy in range(1, cables + 1):
            yield Cable((switch, f"{above}{number}"), rate_bps, delay_ps, copy=copy)
