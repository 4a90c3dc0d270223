"""Lays out a plan's hosts and links as network namespaces and veth pairs: names, addresses, rates and routes.

This is only data; nothing is created here. Each flow of a job takes the same links as in both engines.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from hocket import _hocket
from hocket.engines.network import Network, network_of
from hocket.engines.specs import only_profile
from hocket.errors import InputError
from hocket.fabrics import Cable, Topology
from hocket.fabrics.topology import from_cables
from hocket.plan import Plan
from hocket.profiles import WorkloadProfile
from hocket.units import format_duration, format_rate

MAX_NODES = 256
"""Hocket: the most hosts and switches; a fat tree of 54 hosts, 99 nodes in all, takes 6 s to create."""

MAX_CABLES = 256
"""The most links; each uses two addresses of a /16."""

BUSY_BPS = 2 * 10**9
"""Hocket: above this total rate, jobs may be limited by the machine's processors rather than by links."""

NOTICEABLE_DELAY_PS = 100_000_000
"""Hocket: 0.1 ms is a fiftieth of a full queue; shorter delays do not show in iterations."""

MTU_BYTES = 1500
"""The MTU of Ethernet without jumbo frames."""

# Addresses exist only within the namespaces; RFC 1918 reserves 10/8 for private networks.
_LINKS = "10.77"
_CONTROL = "10.78"
CONTROL_NETWORK = f"{_CONTROL}.0.0/16"
SERVICE_ADDRESS = f"{_CONTROL}.255.254"
"""The control namespace's address, which each host of a job reaches."""

CONTROL_INTERFACE = "ctl"
"""The interface of a host to the control namespace."""

# Short enough to read. iproute2 keeps a namespace as a file, so the hard limit is 255 bytes.
_MAX_SLUG = 24
# Such a slug could equal another slug followed by the number of its node.
_ENDS_WITH_NUMBER = re.compile(r"-[0-9]+$")
# Routing tables 0 and 253 to 255 are reserved by the kernel.
_FIRST_TABLE = 1_000


@dataclass(frozen=True)
class Port:
    """One end of a link: an interface in a namespace, and the rate at which it sends."""

    namespace: str
    interface: str
    address: str
    rate_bps: int


@dataclass(frozen=True)
class Link:
    """A link of the plan: the engines' names of its two directions, and the sending end of each."""

    names: tuple[str, str]
    ports: tuple[Port, Port]
    capacity_bps: int
    """The capacity of each direction in the plan; a NIC may be limited further to the rate of its job."""


@dataclass(frozen=True)
class Route:
    """In `namespace`, packets to address `destination` leave through `interface` to the address `via`.

    With a `source`, this applies only to packets from that address.
    """

    namespace: str
    destination: str
    via: str
    interface: str
    source: str | None = None
    table: int | None = None
    """The routing table of a route with a source: one for each interface."""


@dataclass(frozen=True)
class Worker:
    """Where a worker of a job runs: its host, the host's namespace, NIC and addresses, and the path that it
    sends over.
    """

    host: str
    namespace: str
    interface: str
    address: str
    control: tuple[Port, Port]
    """The host's end and the other end of its link to the control namespace, which is not rate-limited."""
    path: tuple[str, ...]
    """The links to the next worker of the ring, by the names of their directions, its own first."""


@dataclass(frozen=True)
class PlacedJob:
    """A job with its workers, in the order of their ring, and its profile."""

    name: str
    workers: tuple[Worker, ...]
    profile: WorkloadProfile
    rate_bps: int
    """The rate of all its phases, in bits per second on the wire."""


@dataclass(frozen=True)
class Layout:
    """A testbed: namespaces by node of the plan, links, routes, and jobs in the order of the plan."""

    name: str
    namespaces: Mapping[str, str]
    switches: frozenset[str]
    """Namespaces that forward."""
    control: str
    """The namespace that connects all hosts besides the plan's links, for traffic that is not a job's."""
    links: tuple[Link, ...]
    routes: tuple[Route, ...]
    jobs: tuple[PlacedJob, ...]
    longest_delay_ps: int
    """The longest delay of a link in the plan, which the testbed does not reproduce."""

    def all_namespaces(self) -> tuple[str, ...]:
        """The namespaces of the nodes in the order of their numbers, then the control namespace."""
        return (*self.namespaces.values(), self.control)

    def workers(self) -> tuple[Worker, ...]:
        """The workers of all jobs, in order of the jobs."""
        return tuple(worker for job in self.jobs for worker in job.workers)


def slug(text: str) -> str:
    """`text` as part of a name: at most 24 lower-case letters, digits and hyphens.

    >>> slug("two jobs, one link"), slug("s0:3"), slug("µ")
    ('two-jobs-one-link', 's0-3', 'x')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_MAX_SLUG].rstrip("-") or "x"


def lay_out(plan: Plan, name: str) -> Layout:
    """The testbed of `plan`, called `name`, with its jobs at their placements.

    Raises `InputError` for plans that a testbed does not support: too many nodes or links, or jobs that share
    a host, have phases of several rates or several batch sizes, or are given by `training`.
    """
    topology = _dumbbell(plan) if plan.fabric is None else plan.fabric.topology
    _check_size(topology)
    network = network_of(topology)
    hosts = _hosts_of_jobs(plan)
    profiles = [_profile(number, plan) for number in range(len(plan.jobs))]
    rates_bps = {
        host: profile.phases[0].rate_bps
        for hosts_, profile in zip(hosts, profiles, strict=True)
        for host in hosts_
    }
    namespaces = dict(zip(topology.nodes, _namespaces(name, topology), strict=True))
    links = tuple(_links(topology, network, namespaces, rates_bps))
    paths = _paths(plan, network, hosts)
    control = f"hk-{name}-ctl"
    workers = _workers(hosts, namespaces, control, links, paths)
    jobs = tuple(
        PlacedJob(job.name, tuple(workers[host] for host in hosts_), profile, profile.phases[0].rate_bps)
        for job, hosts_, profile in zip(plan.jobs, hosts, profiles, strict=True)
    )
    return Layout(
        name=name,
        namespaces=namespaces,
        switches=frozenset(namespaces[node] for node, kind in topology.nodes.items() if kind != "host"),
        control=control,
        links=links,
        routes=tuple(_routes(links, workers, paths)),
        jobs=jobs,
        longest_delay_ps=max(cable.delay_ps for cable in topology.cables),
    )


def _dumbbell(plan: Plan) -> Topology:
    """The one link of `plan` between two switches, with a host of each job on either side, as on the packet
    engine.
    """
    assert plan.link is not None, "a checked plan has a link or a fabric"
    rate_bps, delay_ps = plan.link.capacity_bps, plan.link.delay_ps
    cables = [Cable(("left", "right"), rate_bps, delay_ps, "link")]
    for job in plan.jobs:
        left, right = _sides(job.name)
        cables += [Cable((left, "left"), rate_bps, delay_ps), Cable(("right", right), rate_bps, delay_ps)]
    return from_cables(cables)


def _sides(job: str) -> tuple[str, str]:
    return f"{job}.left", f"{job}.right"


def _check_size(topology: Topology) -> None:
    for what, count, limit in (
        ("hosts and switches", len(topology.nodes), MAX_NODES),
        ("links", len(topology.cables), MAX_CABLES),
    ):
        if count > limit:
            raise InputError(f"a testbed has at most {limit} {what}: this plan has {count:,}")


def _hosts_of_jobs(plan: Plan) -> list[tuple[str, ...]]:
    """The hosts of each job; no host may have two jobs."""
    found: list[tuple[str, ...]] = []
    taken: dict[str, str] = {}
    for number, job in enumerate(plan.jobs):
        hosts: tuple[str, ...]
        if job.training is not None:
            raise InputError(
                f"jobs[{number}].training: the testbed runs only jobs given by Up phases; use the profile "
                f"that a run of job {job.name!r} measures"
            )
        if plan.fabric is None:
            hosts = _sides(job.name)
        elif job.placement:
            hosts = plan.hosts_of(job)
        else:
            raise InputError(f"jobs[{number}].placement: job {job.name!r} has no placement; name its hosts")
        if len(hosts) < 2:
            raise InputError(
                f"jobs[{number}].placement: an all-reduce needs at least two workers: got {len(hosts)}"
            )
        for host in hosts:
            if host in taken:
                raise InputError(
                    f"jobs[{number}].placement: host {host!r} already has job {taken[host]!r}; "
                    "on the testbed, a host's NIC is limited to the rate of one job"
                )
            taken[host] = job.name
        found.append(hosts)
    return found


def _profile(number: int, plan: Plan) -> WorkloadProfile:
    """The profile of a job, whose phases must all have one rate, to which its NICs are limited."""
    job = plan.jobs[number]
    profile = only_profile(plan, number)
    rates_bps = sorted({phase.rate_bps for phase in profile.phases})
    if not rates_bps:
        raise InputError(f"jobs[{number}].up: job {job.name!r} never sends; the testbed needs an Up phase")
    if len(rates_bps) > 1:
        raise InputError(
            f"jobs[{number}].up: a NIC of the testbed has one rate, but job {job.name!r} has phases of "
            + " and ".join(map(format_rate, rates_bps))
        )
    return profile


def _namespaces(name: str, topology: Topology) -> list[str]:
    """A name for each node: its slug, followed by its number if another node might have the same name."""
    slugs = [slug(node) for node in topology.nodes]
    # "ctl" is the slug of the control namespace.
    counts = Counter([*slugs, "ctl"])
    return [
        f"hk-{name}-{each}"
        if counts[each] == 1 and not _ENDS_WITH_NUMBER.search(each)
        else f"hk-{name}-{each}-{number}"
        for number, each in enumerate(slugs)
    ]


def _links(
    topology: Topology, network: Network, namespaces: Mapping[str, str], rates_bps: Mapping[str, int]
) -> Iterator[Link]:
    for number, cable in enumerate(topology.cables):
        ends = cable.ends
        ports = [
            Port(
                namespace=namespaces[end],
                # Linux limits the name of an interface to 15 bytes, too few for the names of two nodes.
                interface=f"c{number}",
                address=_address(_LINKS, 2 * number + side),
                # In a valid plan, no job demands more than the rate of its NIC.
                rate_bps=rates_bps.get(end, cable.rate_bps),
            )
            for side, end in enumerate(ends)
        ]
        names = (network.links[2 * number][0], network.links[2 * number + 1][0])
        yield Link(names, (ports[0], ports[1]), cable.rate_bps)


def _address(network: str, number: int) -> str:
    return f"{network}.{number >> 8}.{number & 255}"


_Paths = Mapping[tuple[str, str], Sequence[int]]
"""By names of two hosts: the directed links of the path."""


def _paths(
    plan: Plan,
    network: Network,
    hosts: Sequence[Sequence[str]],
) -> _Paths:
    """The path between any two hosts of a job. Neighbours in the ring use the plan's path, and the same links
    in reverse. Other pairs, which connect but exchange no gradients, use any shortest path.
    """
    names = list(network.nodes)
    found: dict[tuple[str, str], Sequence[int]] = {}
    rings: list[list[_hocket._JobFlow]]
    if plan.fabric is None:
        rings = [
            [
                {"from_node": network.nodes[a], "to_node": network.nodes[b], "label": 0, "path": "ecmp"}
                for a, b in permutations(each, 2)
            ]
            for each in hosts
        ]
    else:
        rings = network.flows(plan, None)
    for flows in rings:
        for flow in flows:
            start, end = flow["from_node"], flow["to_node"]
            pinned = flow["path"]
            links = network.fabric.route(start, end, flow["label"]) if isinstance(pinned, str) else pinned
            found[names[start], names[end]] = links
    for (start_name, end_name), forward in list(found.items()):
        # In a ring of two, the reverse direction is a flow of the plan as well, and keeps its path.
        found.setdefault((end_name, start_name), _reversed(forward))
    for each in hosts:
        for a, b in permutations(each, 2):
            if (a, b) not in found:
                found[a, b] = network.fabric.route(network.nodes[a], network.nodes[b], 0)
                found[b, a] = _reversed(found[a, b])
    return found


def _reversed(path: Sequence[int]) -> list[int]:
    """The reverse path over the same cables, whose two directions have the numbers 2k and 2k + 1."""
    return [link ^ 1 for link in reversed(path)]


def _workers(
    hosts: Sequence[Sequence[str]],
    namespaces: Mapping[str, str],
    control: str,
    links: Sequence[Link],
    paths: _Paths,
) -> dict[str, Worker]:
    found: dict[str, Worker] = {}
    for each in hosts:
        for host, following in zip(each, (*each[1:], each[0]), strict=True):
            path = paths[host, following]
            nic = _leaving(links, path[0])
            names = tuple(links[directed // 2].names[directed % 2] for directed in path)
            # Counted over all jobs, as they share the control network.
            number = len(found)
            # A port has a rate, but those of control links are not shaped.
            control_ports = (
                Port(namespaces[host], CONTROL_INTERFACE, _address(_CONTROL, 2 * number), nic.rate_bps),
                Port(control, f"h{number}", _address(_CONTROL, 2 * number + 1), nic.rate_bps),
            )
            found[host] = Worker(host, namespaces[host], nic.interface, nic.address, control_ports, names)
    return found


def _leaving(links: Sequence[Link], directed: int) -> Port:
    """The sending end of a directed link."""
    return links[directed // 2].ports[directed % 2]


def _routes(links: Sequence[Link], workers: Mapping[str, Worker], paths: _Paths) -> Iterator[Route]:
    """Routes by destination; also by source if a node's flows to one destination take different links."""
    chosen: dict[tuple[str, str], int] = {}
    for (start, end), path in paths.items():
        source, destination = workers[start].address, workers[end].address
        for directed in path:
            port, next_hop = _leaving(links, directed), _leaving(links, directed ^ 1)
            usual = chosen.get((port.namespace, destination))
            if usual is None:
                chosen[port.namespace, destination] = directed
                yield Route(port.namespace, destination, next_hop.address, port.interface)
            elif usual != directed:
                table = _FIRST_TABLE + directed
                yield Route(port.namespace, destination, next_hop.address, port.interface, source, table)


def warnings(layout: Layout) -> list[str]:
    """One sentence for each property of the plan that a testbed cannot reproduce."""
    found = []
    total_bps = sum(job.rate_bps * len(job.workers) for job in layout.jobs)
    if total_bps > BUSY_BPS:
        found.append(
            f"all workers together send at {format_rate(total_bps)}; above {format_rate(BUSY_BPS)} the "
            "processors of the machine may limit them"
        )
    if layout.longest_delay_ps >= NOTICEABLE_DELAY_PS:
        found.append(
            f"links add no delay, but the plan has delays of up to "
            f"{format_duration(layout.longest_delay_ps)}; only the kernel's own delay applies"
        )
    return found
