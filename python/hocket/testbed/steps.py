"""The commands that make a testbed, as data: each can be printed, and run after it has been looked at."""

from collections.abc import Iterable, Iterator

from hocket.testbed.layout import (
    CONTROL_NETWORK,
    MTU_BYTES,
    SERVICE_ADDRESS,
    Layout,
    Port,
    Route,
)

Command = tuple[str, ...]

# Of a namespace's own, so that neither this machine's settings nor what they are for matter.
_SETTINGS = (
    # Two ways between two hosts need not be the same there and back.
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    # A job pauses for most of an iteration, and a NIC that paces in hardware keeps its rate meanwhile: TCP
    # would otherwise begin each phase with 10 packets (RFC 2861) and take its share only later.
    "net.ipv4.tcp_slow_start_after_idle=0",
    # Nor does a run learn from the one before.
    "net.ipv4.tcp_no_metrics_save=1",
)
# The largest packet that TCP hands down, whole: a smaller bucket would cut each in software.
_LARGEST_SEGMENT_BYTES = 65_536
_BUCKET_S = 0.0005
# RFC 6298's second, of which Linux makes 200 ms, is as long as an Up phase; here nothing is further away than
# a full queue on each of a few links.
_SHORTEST_TIMEOUT = "10ms"
# tc counts both in 32 bits.
_MOST_BYTES = 2**31
# Hocket: a queue of 5 ms at a link's rate, 312 kB at 500 Mbps: TCP fills a link with it, and evens out within
# a phase.
QUEUE_S = 0.005
_FEWEST_QUEUED_BYTES = 4 * _LARGEST_SEGMENT_BYTES


def up(layout: Layout) -> Iterator[Command]:
    """Makes the testbed, from nothing: namespaces, links and their rates, routes, the control network."""
    for namespace in layout.all_namespaces():
        yield from _namespace(namespace, forwards=namespace in layout.switches or namespace == layout.control)
    for link in layout.links:
        yield from _joined(*link.ports)
        for port in link.ports:
            yield _shaped(port)
    addresses = {worker.namespace: worker.address for worker in layout.workers()}
    for route in layout.routes:
        yield from _routed(route, addresses.get(route.namespace))
    yield from _controlled(layout)


def down(namespaces: Iterable[str]) -> Iterator[Command]:
    """Takes namespaces away, and with them all links in them."""
    for namespace in namespaces:
        yield ("ip", "netns", "delete", namespace)


def _namespace(name: str, *, forwards: bool) -> Iterator[Command]:
    yield ("ip", "netns", "add", name)
    yield ("ip", "-n", name, "link", "set", "lo", "up")
    settings = (*_SETTINGS, "net.ipv4.ip_forward=1") if forwards else _SETTINGS
    yield ("ip", "netns", "exec", name, "sysctl", "-qw", *settings)


def _joined(one: Port, other: Port) -> Iterator[Command]:
    """A veth pair whose ends are made in their namespaces: the machine's own never sees them."""
    ends = ("type", "veth", "peer", "name", other.interface, "netns", other.namespace)
    yield ("ip", "link", "add", "name", one.interface, "mtu", str(MTU_BYTES), "netns", one.namespace, *ends)
    for port in (one, other):
        yield ("ip", "-n", port.namespace, "address", "add", f"{port.address}/31", "dev", port.interface)
        yield ("ip", "-n", port.namespace, "link", "set", port.interface, "up")


def _shaped(port: Port) -> Command:
    """What leaves by `port` has at most its rate, on the wire: tbf counts the headers of every packet."""
    bucket_bytes = min(_LARGEST_SEGMENT_BYTES + round(port.rate_bps / 8 * _BUCKET_S), _MOST_BYTES)
    queue_bytes = min(max(round(port.rate_bps / 8 * QUEUE_S), _FEWEST_QUEUED_BYTES), _MOST_BYTES)
    shape = ("rate", f"{port.rate_bps}bit", "burst", f"{bucket_bytes}b", "limit", f"{queue_bytes}b")
    return ("tc", "-n", port.namespace, "qdisc", "add", "dev", port.interface, "root", "tbf", *shape)


def _routed(route: Route, own_address: str | None) -> Iterator[Command]:
    """`own_address` is what a worker of the namespace sends from."""
    via = ("via", route.via, "dev", route.interface)
    source = () if own_address is None else ("src", own_address, "rto_min", _SHORTEST_TIMEOUT)
    ip = ("ip", "-n", route.namespace)
    if route.source is None:
        yield (*ip, "route", "add", f"{route.destination}/32", *via, *source)
        return
    # The same for every source that leaves by this interface.
    yield (*ip, "route", "replace", "default", *via, *source, "table", str(route.table))
    where = ("from", route.source, "to", route.destination)
    yield (*ip, "rule", "add", *where, "lookup", str(route.table))


def _controlled(layout: Layout) -> Iterator[Command]:
    """The control network: a link of no set rate from each worker's host to a namespace that joins them."""
    yield ("ip", "-n", layout.control, "address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo")
    for worker in layout.workers():
        own, other = worker.control
        yield from _joined(own, other)
        via = ("via", other.address, "dev", own.interface)
        yield ("ip", "-n", own.namespace, "route", "add", CONTROL_NETWORK, *via)
