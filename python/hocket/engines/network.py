"""Builds the engines' network from a plan's link or fabric: directed links, and the flows and paths of jobs.

`hocket_scenario::routing` decides which of several shortest paths a flow takes.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from hocket import _hocket
from hocket.errors import InputError
from hocket.fabrics import Topology
from hocket.plan import Job, Plan

Crossings = list[tuple[int, int]]
"""The links that a job crosses, as (link, number of flows)."""

# `hocket_flowsim::MarkModel` needs them: a full link marks only flows that arrive over other links.
InputLinks = list[tuple[int, int]]
"""The links over which the flows of a job arrive at each link that it crosses, as (link, input link): every
pair of consecutive links of its paths, once."""

# Labels of different jobs must not coincide: a job has at most 10,000 workers, and each flow a label.
_LABELS = 10_000


@dataclass(frozen=True)
class Network:
    """A fabric for the engines with the names that the plan gives its links and nodes."""

    fabric: _hocket.Fabric
    links: tuple[tuple[str, int], ...]
    """Name and rate in bits per second of each directed link."""
    nodes: Mapping[str, int]
    """The number of each node, by name."""
    delays_ps: tuple[int, ...]
    """The one-way delay of each cable."""

    def display_names(self) -> dict[str, str]:
        """Maps the engines' names of links to the names to show."""
        return {name: shown for (name, _), (shown, _) in zip(self.fabric.links(), self.links, strict=True)}

    def crossings(self, plan: Plan, placement: Mapping[str, Sequence[str]] | None) -> list[Crossings]:
        """For each job of `plan`, the links that it crosses: the plan's one link, or those of its ring.

        Raises `InputError` if a job has no placement, or if a worker cannot reach the next one at all or over
        the links that the job's `path` names.
        """
        if plan.link is not None:
            return [[(0, 1)] for _ in plan.jobs]
        found: list[Crossings] = []
        for number, job in enumerate(plan.jobs):
            if job.training is not None:
                # The engines derive the flows between its ranks from its collectives.
                found.append([])
                continue
            hosts = self._hosts(plan, number, placement)
            if isinstance(job.path, str):
                try:
                    found.append(self.fabric.ring(hosts, _first_label(number, job)))
                except ValueError as error:
                    raise InputError(f"jobs[{number}].placement: job {job.name!r}: {error}") from None
            else:
                paths = self._pinned(plan, number, job, hosts)
                found.append(sorted(Counter(link for path in paths for link in path).items()))
        return found

    def flows(
        self, plan: Plan, placement: Mapping[str, Sequence[str]] | None
    ) -> "list[list[_hocket._JobFlow]]":
        """For each job of `plan`, the flows of its ring, or its one flow where all jobs share one link.

        A training job has none here: the engines derive the flows between its ranks.

        Raises `InputError` as `crossings` does.
        """
        if plan.link is not None:
            return [
                [self._flow_between(number, _left(job), _right(job))] for number, job in enumerate(plan.jobs)
            ]
        found: list[list[_hocket._JobFlow]] = []
        for number, job in enumerate(plan.jobs):
            hosts = self._hosts(plan, number, placement)
            if job.training is not None:
                found.append([])
                continue
            ring = self.fabric.ring_flows(hosts, _first_label(number, job))
            if isinstance(job.path, str):
                found.append([{**flow, "path": job.path} for flow in ring])
            else:
                paths = self._pinned(plan, number, job, hosts)
                found.append([{**flow, "path": path} for flow, path in zip(ring, paths, strict=True)])
        return found

    def inputs(self, plan: Plan, placement: Mapping[str, Sequence[str]] | None) -> list[InputLinks]:
        """For each job of `plan`, which is on a fabric, the input links of every link that its ring crosses.

        Raises `InputError` as `crossings` does.
        """
        return [
            ring_input_links(self.fabric, self._hosts(plan, number, placement), _first_label(number, job))
            for number, job in enumerate(plan.jobs)
        ]

    def path_bytes(self, flows: "Sequence[_hocket._JobFlow]", packet_bytes: int, ack_bytes: int) -> int:
        """The largest bandwidth-delay product of the paths of `flows`, in bytes: the rate of the slowest link
        × the idle round-trip time of a packet and its acknowledgement.
        """
        most = 0
        # One call for all flows that have no path yet: routing state is built once for each call.
        chosen = iter(self.fabric.routes([flow for flow in flows if isinstance(flow["path"], str)]))
        for flow in flows:
            links = next(chosen) if isinstance(flow["path"], str) else flow["path"]
            rates_bps = [self.links[link][1] for link in links]
            bits = 8 * (packet_bytes + ack_bytes)
            # The acknowledgement is taken to return over links of the same rates and delays. Links 2i and
            # 2i + 1 are the two directions of cable i.
            rtt_ps = sum(
                2 * self.delays_ps[link // 2] + bits * 10**12 // rate
                for link, rate in zip(links, rates_bps, strict=True)
            )
            most = max(most, min(rates_bps) * rtt_ps // (8 * 10**12))
        return most

    def flows_between_servers(
        self, plan: Plan, number: int, placement: Mapping[str, Sequence[str]] | None
    ) -> "list[_hocket._JobFlow]":
        """One flow from the first host of training job `number` to each of its hosts in other servers."""
        assert plan.fabric is not None, "training jobs are placed on a fabric"
        first, *others = plan.hosts_of(plan.jobs[number], placement)
        server = plan.fabric.server_of(first)
        outside = [host for host in others if plan.fabric.server_of(host) != server]
        return [self._flow_between(number, first, host) for host in outside]

    def _flow_between(self, number: int, start: str, end: str) -> "_hocket._JobFlow":
        """A flow of job `number` from node `start` to node `end`."""
        return {
            "from_node": self.nodes[start],
            "to_node": self.nodes[end],
            "label": number * _LABELS,
            "path": "ecmp",
        }

    def _hosts(self, plan: Plan, number: int, placement: Mapping[str, Sequence[str]] | None) -> list[int]:
        job = plan.jobs[number]
        if job.training is None and not ((placement or {}).get(job.name) or job.placement):
            raise InputError(f"jobs[{number}].placement: job {job.name!r} has none; name its hosts")
        return [self.nodes[host] for host in plan.hosts_of(job, placement)]

    def _pinned(self, plan: Plan, number: int, job: Job, hosts: list[int]) -> list[list[int]]:
        """The path of each flow of `job` over the links that it names: the shortest, the first of equals."""
        assert plan.fabric is not None, "only links of a fabric have names"
        topology = plan.fabric.topology
        # The first of the two links of each cable; its other direction is the next one.
        cables = {cable.label: 2 * number for number, cable in enumerate(topology.cables)}
        from_node: dict[int, list[tuple[int, int]]] = {}
        for name in job.path:
            cable = cables[name]
            one, other = (self.nodes[end] for end in topology.cables[cable // 2].ends)
            from_node.setdefault(one, []).append((cable, other))
            from_node.setdefault(other, []).append((cable + 1, one))
        names = list(self.nodes)
        ends = {self.nodes[host] for host in topology.gpus}
        paths = []
        # Labels choose among paths, and these are given: any label gives the same flows.
        for flow in self.fabric.ring_flows(hosts, 0):
            start, end = flow["from_node"], flow["to_node"]
            path = _shortest(from_node, start, end, ends)
            if path is None:
                raise InputError(
                    f"jobs[{number}].path: its links do not lead from {names[start]!r} to {names[end]!r}"
                )
            paths.append(path)
        return paths


def _shortest(
    from_node: Mapping[int, Sequence[tuple[int, int]]], start: int, end: int, hosts: Set[int]
) -> list[int] | None:
    """The directed links of the shortest path that passes through no host; `None` if there is none."""
    reached_by: dict[int, tuple[int, int] | None] = {start: None}
    reached = deque([start])
    while reached and end not in reached_by:
        node = reached.popleft()
        # As in `hocket_scenario::routing`, hosts do not forward packets of others.
        for link, other in from_node.get(node, ()) if node == start or node not in hosts else ():
            if other not in reached_by:
                reached_by[other] = (link, node)
                reached.append(other)
    if end not in reached_by:
        return None
    path: list[int] = []
    step = reached_by[end]
    while step is not None:
        path.append(step[0])
        step = reached_by[step[1]]
    return path[::-1]


def ring_input_links(fabric: _hocket.Fabric, workers: Sequence[int], first_label: int) -> InputLinks:
    """The input links of every link that a ring over the nodes `workers` crosses, ascending.

    The first link of a path has no input link. Paths are those of `Fabric.ring` with the same label.

    Raises `ValueError` as `Fabric.routes` does.
    """
    paths = fabric.routes(fabric.ring_flows(workers, first_label))
    return sorted({(link, before) for path in paths for before, link in pairwise(path)})


def build_dumbbell(plan: Plan) -> Network:
    """The plan's one link as a dumbbell: two switches joined by it, and a host of each job on either side.

    The hosts' links have the rate and the delay of the shared one, which is called `link` as on the flow
    engine.
    """
    assert plan.link is not None, "only one link becomes a dumbbell"
    # Each job has hosts of its own, so that jobs share nothing but the one link.
    rate_bps, delay_ps = plan.link.capacity_bps, plan.link.delay_ps
    hosts = [end for job in plan.jobs for end in (_left(job), _right(job))]
    nodes = {name: number for number, name in enumerate(("left", "right", *hosts))}
    ends = [(0, 1)]
    for job in plan.jobs:
        ends += [(nodes[_left(job)], 0), (1, nodes[_right(job)])]
    fabric = _hocket.Fabric(
        [(name, "switch" if name in ("left", "right") else "host") for name in nodes],
        [{"a": a, "b": b, "rate_bps": rate_bps, "delay_ps": delay_ps} for a, b in ends],
    )
    # Jobs send from left to right, the first direction of the first cable: that link has the plan's name.
    (_, rate), *others = fabric.links()
    return Network(fabric, (("link", rate), *others), nodes, (delay_ps,) * len(ends))


def _first_label(number: int, job: Job) -> int:
    """The label of the first flow in the ring of job `number`; further flows have the following numbers."""
    return number * _LABELS if job.label is None else job.label


def _left(job: Job) -> str:
    return f"{job.name}.left"


def _right(job: Job) -> str:
    return f"{job.name}.right"


def build_network(plan: Plan) -> Network:
    """The network of `plan`: its one link, or its fabric with two directed links for each cable."""
    if plan.fabric is None:
        assert plan.link is not None, "a checked plan has a link or a fabric"
        fabric = _hocket.Fabric.one_link(plan.link.capacity_bps)
        return Network(fabric, tuple(fabric.links()), {}, (plan.link.delay_ps,))
    return network_of(plan.fabric.topology)


def network_of(topology: Topology, flow_parts: int = 1) -> Network:
    """The network of `topology`, with two directed links for each cable.

    With `flow_parts`, rates are multiplied by it: those of a network in which crossings count parts of flows.
    """
    nodes = {name: number for number, name in enumerate(topology.nodes)}
    cables: list[_hocket._Cable] = [
        {
            "a": nodes[cable.ends[0]],
            "b": nodes[cable.ends[1]],
            "rate_bps": cable.rate_bps * flow_parts,
            "delay_ps": cable.delay_ps,
        }
        for cable in topology.cables
    ]
    fabric = _hocket.Fabric(list(topology.nodes.items()), cables)
    # The engines name a link by its direction; a name in the plan is put before it.
    names = [cable.name for cable in topology.cables for _ in cable.ends]
    links = tuple(
        (f"{name} {direction}" if name else direction, rate_bps)
        for name, (direction, rate_bps) in zip(names, fabric.links(), strict=True)
    )
    return Network(fabric, links, nodes, tuple(cable.delay_ps for cable in topology.cables))
