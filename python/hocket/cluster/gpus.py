"""Numbers the GPUs of a cluster so that GPUs with close numbers are close to each other."""

from hocket.fabrics import Topology
from hocket.schedulers import Cluster


def cluster_of(topology: Topology, gpus_per_host: int) -> Cluster:
    """The GPUs of `topology`, numbered rack by rack and server by server.

    A rack consists of the servers whose first NIC is connected to the same switch; racks are in the order of
    their first servers. With several GPUs per host, those of host `s0` are called `s0:0`, `s0:1` and so on.

    >>> from hocket.fabrics import dumbbell
    >>> fabric = dumbbell(left=1, right=2, gpus_per_server=1, nic_bps=1, bottleneck_bps=1, delay_ps=0)
    >>> cluster = cluster_of(fabric, 2)
    >>> cluster.server_of, cluster.rack_of
    ((0, 0, 1, 1, 2, 2), (0, 1, 1))
    """
    racks: dict[str, list[str]] = {}
    # NICs of one server may have different switches, as on a rail-optimised fabric: the first one decides.
    for server, hosts in topology.servers.items():
        racks.setdefault(_switch_of(topology, hosts[0]), []).append(server)
    gpus: list[str] = []
    hosts_of_gpus: list[str] = []
    server_of: list[int] = []
    rack_of: list[int] = []
    for rack, servers in enumerate(racks.values()):
        for server in servers:
            for host in topology.servers[server]:
                gpus.extend(
                    [host] if gpus_per_host == 1 else [f"{host}:{gpu}" for gpu in range(gpus_per_host)]
                )
                hosts_of_gpus.extend([host] * gpus_per_host)
                server_of.extend([len(rack_of)] * gpus_per_host)
            rack_of.append(rack)
    return Cluster(tuple(gpus), tuple(hosts_of_gpus), tuple(server_of), tuple(rack_of))


def _switch_of(topology: Topology, host: str) -> str:
    """The first switch that `host` has a link to; a host without one is a rack by itself."""
    return next((node for node in topology.neighbours[host] if topology.nodes[node] == "switch"), host)
