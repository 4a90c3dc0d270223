"""The links that a job crosses at a placement. Results are cached, as most jobs stay where they are."""

from collections.abc import Mapping, Sequence

from hocket.engines.network import (
    Crossings,
    InputLinks,
    Network,
    ring_input_links,
)
from hocket.schedulers.state import Cluster, Gpus

FLOW_PARTS = 512
"""The parts into which a spread flow is divided: two levels of 16 paths divide it exactly, and other numbers
of paths to 0.2%. Rates of up to 1.9 Tbps, times this, are still rates of the engine."""

# Distance between the labels of consecutive jobs, above the most workers of a job, so that labels never
# repeat.
_LABELS = 10_000

Path = list[int]
"""The links of a flow, in order."""


class Routes:
    """Links by job and placement: those of a ring over the job's hosts, in ascending order of GPUs."""

    def __init__(
        self, network: Network, cluster: Cluster, jobs: Sequence[str], *, spread: bool = False
    ) -> None:
        """`jobs` names all jobs of a trace: their positions determine the paths that ECMP selects.

        If `spread`, each flow is divided evenly over all shortest paths, and crossings count its
        `FLOW_PARTS`.
        """
        self.spread = spread
        self._fabric = network.fabric
        self._node_of = [network.nodes[host] for host in cluster.hosts]
        self._labels: Mapping[str, int] = {name: number * _LABELS for number, name in enumerate(jobs)}
        self._crossings: dict[tuple[str, Gpus], Crossings] = {}
        self._inputs: dict[tuple[str, Gpus], InputLinks] = {}

    def crossings(self, job: str, gpus: Gpus) -> Crossings:
        """The links of a job as (link, flows); empty for a job within one host."""
        key = (job, gpus)
        if key not in self._crossings:
            nodes = self._nodes(gpus)
            if self.spread:
                self._crossings[key] = self._fabric.spread_ring(nodes, FLOW_PARTS)
            else:
                self._crossings[key] = self._fabric.ring(nodes, self._labels[job]) if len(nodes) > 1 else []
        return self._crossings[key]

    def paths(self, job: str, gpus: Gpus) -> list[list[Path]]:
        """For each flow of a job: the path that ECMP selects, and then the other shortest ones."""
        flows = self._fabric.ring_flows(self._nodes(gpus), self._labels[job])
        found = []
        for chosen, paths in zip(self._fabric.routes(flows), self._fabric.paths(flows), strict=True):
            found.append([chosen, *(path for path in paths if path != chosen)])
        return found

    def inputs(self, job: str, gpus: Gpus) -> InputLinks:
        """The links from which its flows enter each link that they cross; none for a host's own link.

        None at all for spread flows, for which no packets are marked.
        """
        if self.spread:
            return []
        key = (job, gpus)
        if key not in self._inputs:
            self._inputs[key] = ring_input_links(self._fabric, self._nodes(gpus), self._labels[job])
        return self._inputs[key]

    def label(self, job: str) -> int:
        """The label of the first flow of its ring; those of the others follow."""
        return self._labels[job]

    def _nodes(self, gpus: Gpus) -> list[int]:
        """The nodes of the hosts of `gpus`, each once."""
        # Workers on one host communicate inside it. GPUs are numbered rack by rack, so a ring in ascending
        # order enters each rack only once.
        return list(dict.fromkeys(self._node_of[gpu] for gpu in gpus))
