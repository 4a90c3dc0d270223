"""The uplinks of racks: the cables that leave the switches of a rack's servers."""

from dataclasses import dataclass

from hocket.fabrics import Topology
from hocket.schedulers.state import Cluster


@dataclass(frozen=True)
class Uplinks:
    """The cables from the switches of one rack to the rest of the fabric."""

    cables: int
    """0 for a rack that is connected to no other."""
    rate_bps: int
    """In each direction, over all cables."""


def uplinks_of(cluster: Cluster, topology: Topology) -> tuple[Uplinks, ...]:
    """The uplinks of each rack.

    >>> from hocket.fabrics import dumbbell
    >>> fabric = dumbbell(left=2, right=1, gpus_per_server=1, nic_bps=50, bottleneck_bps=25, delay_ps=0)
    >>> uplinks_of(Cluster(("s0", "s1", "s2"), ("s0", "s1", "s2"), (0, 1, 2), (0, 0, 1)), fabric)
    (Uplinks(cables=1, rate_bps=25), Uplinks(cables=1, rate_bps=25))
    """
    rack_of_host = {host: cluster.rack(gpu) for gpu, host in enumerate(cluster.hosts)}
    # Several on a rail-optimised fabric. A switch has the hosts of one rack.
    rack_of_switch = {
        node: rack
        for host, rack in rack_of_host.items()
        for node in topology.neighbours[host]
        if topology.nodes[node] == "switch"
    }
    racks = max(cluster.rack_of) + 1
    cables, rates_bps = [0] * racks, [0] * racks
    for cable in topology.cables:
        for near, far in (cable.ends, cable.ends[::-1]):
            rack = rack_of_switch.get(near)
            if rack is not None and rack not in (rack_of_host.get(far), rack_of_switch.get(far)):
                cables[rack] += 1
                rates_bps[rack] += cable.rate_bps
    return tuple(Uplinks(*each) for each in zip(cables, rates_bps, strict=True))
