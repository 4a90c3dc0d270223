"""Which links a job crosses where it runs. Answers are kept, as most jobs stay where they are."""

from collections.abc import Mapping, Sequence

from hocket.network import Crossings, Network
from hocket.schedulers.state import Cluster, Gpus

# Labels of different jobs must not meet: a job has at most so many workers.
_LABELS = 10_000


class Routes:
    """Links by job and placement: those of a ring over its hosts, each once, in ascending order of GPUs."""

    def __init__(self, network: Network, cluster: Cluster, jobs: Sequence[str]) -> None:
        """`jobs` are the names of all jobs of a trace: their places in it decide which ways ECMP gives them."""
        self._fabric = network.fabric
        self._node_of = [network.nodes[host] for host in cluster.hosts]
        self._label: Mapping[str, int] = {name: number * _LABELS for number, name in enumerate(jobs)}
        self._known: dict[tuple[str, Gpus], Crossings] = {}

    def crossings(self, job: str, gpus: Gpus) -> Crossings:
        """As (link, flows); none for a job within one host."""
        key = (job, gpus)
        if key not in self._known:
            nodes = list(dict.fromkeys(self._node_of[gpu] for gpu in gpus))
            self._known[key] = self._fabric.ring(nodes, self._label[job]) if len(nodes) > 1 else []
        return self._known[key]
