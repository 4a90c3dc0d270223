"""A plan's hosts and links as network namespaces and veth pairs: names, addresses, rates and routes, as data.

Nothing is made here. Routes give each flow of a job the links that both engines give it.
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
"""Hocket: the most hosts and switches; a fat tree of 54 hosts, 99 in all, takes 6 s to make."""

MAX_CABLES = 256
"""The most links: of each, two addresses of a /16 are used."""

BUSY_BPS = 2 * 10**9
"""Hocket: above this rate in all, one machine's processors rather than its links are what jobs share."""

NOTICEABLE_DELAY_PS = 100_000_000
"""Hocket: a delay of 0.1 ms is a fiftieth of a full queue; of shorter ones iterations do not tell."""

MTU_BYTES = 1500
"""Of Ethernet without jumbo frames."""

# Addresses exist within the namespaces alone; RFC 1918 keeps 10/8 for such use.
_LINKS = "10.77"
_CONTROL = "10.78"
CONTROL_NETWORK = f"{_CONTROL}.0.0/16"
SERVICE_ADDRESS = f"{_CONTROL}.255.254"
"""Of the control namespace, from each host."""

CONTROL_INTERFACE = "ctl"
"""Of a host: it leads to the control namespace."""

# The longest file name is 255 bytes, and names are read by people.
_LONGEST_NAME = 24
_ENDS_WITH_NUMBER = re.compile(r"-[0-9]+$")
# The kernel keeps tables 253 to 255 for itself, and 0 is none.
_FIRST_TABLE = 1_000


@dataclass(frozen=True)
class Port:
    """One end of a link: an interface in a namespace, and the rate of what leaves by it."""

    namespace: str
    interface: str
    address: str
    rate_bps: int


@dataclass(frozen=True)
class Link:
    """A link of the plan: what the engines call its two directions, and an end for each to leave by."""

    names: tuple[str, str]
    ports: tuple[Port, Port]
    capacity_bps: int
    """Of either direction, before a NIC is held to the rate of its job."""


@dataclass(frozen=True)
class Route:
    """In `namespace`, what is for address `destination` leaves by `interface` to the address `via`.

    With a `source`, only what is from there does.
    """

    namespace: str
    destination: str
    via: str
    interface: str
    source: str | None = None
    table: int | None = None
    """Of the routes by this interface, for those with a source."""


@dataclass(frozen=True)
class Worker:
    """Where a worker of a job runs: its host, that one's namespace, NIC and addresses, and over which links
    it sends.
    """

    host: str
    namespace: str
    interface: str
    address: str
    control: tuple[Port, Port]
    """The host's end and the other of its link to the control namespace, whose rates are not held."""
    path: tuple[str, ...]
    """The links to the next worker of the ring, by the names of their directions, its own first."""


@dataclass(frozen=True)
class PlacedJob:
    """A job, where its workers are in the order of their ring, and what one iteration of it is."""

    name: str
    workers: tuple[Worker, ...]
    profile: WorkloadProfile
    rate_bps: int
    """Of all its phases, in bits per second on the wire."""


@dataclass(frozen=True)
class Layout:
    """A testbed: namespaces by the node that they stand for, links, routes, and jobs in the order of the
    plan.
    """

    name: str
    namespaces: Mapping[str, str]
    switches: frozenset[str]
    """Namespaces that forward."""
    control: str
    """The namespace that joins all hosts apart from the plan's links, for what is not a job's traffic."""
    links: tuple[Link, ...]
    routes: tuple[Route, ...]
    jobs: tuple[PlacedJob, ...]
    longest_delay_ps: int
    """Of a link of the plan; the testbed adds none."""

    def all_namespaces(self) -> tuple[str, ...]:
        """The nodes' in the order of their numbers, then the control namespace."""
        return (*self.namespaces.values(), self.control)

    def workers(self) -> tuple[Worker, ...]:
        """Of all jobs, in their order."""
        return tuple(worker for job in self.jobs for worker in job.workers)


def slug(text: str) -> str:
    """`text` as part of a name: small letters, digits and hyphens, at most 24 of them.

    >>> slug("two jobs, one link"), slug("s0:3"), slug("µ")
    ('two-jobs-one-link', 's0-3', 'x')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_NAME].rstrip("-") or "x"


def lay_out(plan: Plan, name: str) -> Layout:
    """The testbed of `plan`, called `name`, with its jobs at their placements.

    Raises `InputError` for what a testbed cannot be: one with too many nodes or links, jobs that share a
    host, have phases of several rates or more than one batch size, or are given by `training`.
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
    ways = _ways(plan, network, hosts)
    control = f"hk-{name}-ctl"
    workers = _workers(hosts, namespaces, control, links, ways)
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
        routes=tuple(_routes(links, workers, ways)),
        jobs=jobs,
        longest_delay_ps=max(cable.delay_ps for cable in topology.cables),
    )


def _dumbbell(plan: Plan) -> Topology:
    """The one link of `plan` between two switches, and a host of each job on either side of it."""
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
    """The hosts of each job; no host has two."""
    found: list[tuple[str, ...]] = []
    taken: dict[str, str] = {}
    for number, job in enumerate(plan.jobs):
        hosts: tuple[str, ...]
        if job.training is not None:
            raise InputError(
                f"jobs[{number}].training: the testbed runs jobs of Up phases; what a run of job "
                f"{job.name!r} measures can be given as such"
            )
        if plan.fabric is None:
            hosts = _sides(job.name)
        elif job.placement:
            hosts = plan.hosts_of(job)
        else:
            raise InputError(f"jobs[{number}].placement: job {job.name!r} has none; name its hosts")
        if len(hosts) < 2:
            raise InputError(
                f"jobs[{number}].placement: an all-reduce has two workers at least: got {len(hosts)}"
            )
        for host in hosts:
            if host in taken:
                raise InputError(
                    f"jobs[{number}].placement: host {host!r} has job {taken[host]!r} already; "
                    "on the testbed a host's NIC has the rate of one job's worker"
                )
            taken[host] = job.name
        found.append(hosts)
    return found


def _profile(number: int, plan: Plan) -> WorkloadProfile:
    """The profile of a job whose phases are all of one rate, which its NICs get."""
    job = plan.jobs[number]
    profile = only_profile(plan, number)
    rates_bps = sorted({phase.rate_bps for phase in profile.phases})
    if not rates_bps:
        raise InputError(f"jobs[{number}].up: job {job.name!r} never sends; the testbed runs jobs that do")
    if len(rates_bps) > 1:
        raise InputError(
            f"jobs[{number}].up: a NIC of the testbed has one rate, and job {job.name!r} has phases of "
            + " and ".join(map(format_rate, rates_bps))
        )
    return profile


def _namespaces(name: str, topology: Topology) -> list[str]:
    """A name for each node: its slug, and its number too where that could be another's name."""
    slugs = [slug(node) for node in topology.nodes]
    # The control namespace has that name.
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
                interface=f"c{number}",
                address=_address(_LINKS, 2 * number + side),
                # A checked plan's job asks for no more than its NIC has.
                rate_bps=rates_bps.get(end, cable.rate_bps),
            )
            for side, end in enumerate(ends)
        ]
        names = (network.links[2 * number][0], network.links[2 * number + 1][0])
        yield Link(names, (ports[0], ports[1]), cable.rate_bps)


def _address(network: str, number: int) -> str:
    return f"{network}.{number >> 8}.{number & 255}"


_Ways = Mapping[tuple[str, str], Sequence[int]]
"""From host to host, by name: the directed links on the way."""


def _ways(
    plan: Plan,
    network: Network,
    hosts: Sequence[Sequence[str]],
) -> _Ways:
    """The way between any two hosts of a job: of its ring, that of the plan; back, the same links; of others,
    which only greet each other, any shortest one."""
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
    for (start_name, end_name), there in list(found.items()):
        found.setdefault((end_name, start_name), _back(there))
    for each in hosts:
        for a, b in permutations(each, 2):
            if (a, b) not in found:
                found[a, b] = network.fabric.route(network.nodes[a], network.nodes[b], 0)
                found[b, a] = _back(found[a, b])
    return found


def _back(way: Sequence[int]) -> list[int]:
    """The same cables, whose two directions have the numbers 2k and 2k + 1, the other way round."""
    return [link ^ 1 for link in reversed(way)]


def _workers(
    hosts: Sequence[Sequence[str]],
    namespaces: Mapping[str, str],
    control: str,
    links: Sequence[Link],
    ways: _Ways,
) -> dict[str, Worker]:
    found: dict[str, Worker] = {}
    for each in hosts:
        for host, following in zip(each, (*each[1:], each[0]), strict=True):
            way = ways[host, following]
            nic = _leaving(links, way[0])
            path = tuple(links[directed // 2].names[directed % 2] for directed in way)
            number = len(found)
            control_ports = (
                Port(namespaces[host], CONTROL_INTERFACE, _address(_CONTROL, 2 * number), nic.rate_bps),
                Port(control, f"h{number}", _address(_CONTROL, 2 * number + 1), nic.rate_bps),
            )
            found[host] = Worker(host, namespaces[host], nic.interface, nic.address, control_ports, path)
    return found


def _leaving(links: Sequence[Link], directed: int) -> Port:
    """The end by which what takes a directed link leaves."""
    return links[directed // 2].ports[directed % 2]


def _routes(links: Sequence[Link], workers: Mapping[str, Worker], ways: _Ways) -> Iterator[Route]:
    """By destination where all that a node sends there leaves alike; the others by source too."""
    chosen: dict[tuple[str, str], int] = {}
    for (start, end), way in ways.items():
        source, destination = workers[start].address, workers[end].address
        for directed in way:
            port, other = _leaving(links, directed), _leaving(links, directed ^ 1)
            usual = chosen.get((port.namespace, destination))
            if usual is None:
                chosen[port.namespace, destination] = directed
                yield Route(port.namespace, destination, other.address, port.interface)
            elif usual != directed:
                table = _FIRST_TABLE + directed
                yield Route(port.namespace, destination, other.address, port.interface, source, table)


def warnings(layout: Layout) -> list[str]:
    """What a testbed cannot do as the plan says, a sentence each."""
    found = []
    total_bps = sum(job.rate_bps * len(job.workers) for job in layout.jobs)
    if total_bps > BUSY_BPS:
        found.append(
            f"all workers together send at {format_rate(total_bps)}; above {format_rate(BUSY_BPS)} the "
            "processors of one machine may be what slows them"
        )
    if layout.longest_delay_ps >= NOTICEABLE_DELAY_PS:
        found.append(
            f"links have no delay of their own, and the plan has up to "
            f"{format_duration(layout.longest_delay_ps)}; what the kernel takes stands for it"
        )
    return found
