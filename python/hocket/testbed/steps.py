"""The commands that create a testbed, as data, so that they can be printed as well as run."""

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

# Set within each namespace, so that runs do not depend on the machine's settings, which stay unchanged.
_SETTINGS = (
    # The forward and reverse paths between two hosts may differ. ip-sysctl: the stricter of `all` and the
    # interface's own setting applies, and a new interface gets that of `default`.
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    # A job pauses for most of an iteration, and a NIC that paces in hardware keeps its rate meanwhile.
    # Otherwise TCP would begin each phase with 10 packets (RFC 2861) and reach its share only later.
    "net.ipv4.tcp_slow_start_after_idle=0",
    # A run must not inherit metrics from the previous one.
    "net.ipv4.tcp_no_metrics_save=1",
)
# The largest packet that TCP passes down; with a smaller bucket, the kernel would split it in software.
_LARGEST_SEGMENT_BYTES = 65_536
# Hocket: tc-tbf(8) requires a bucket that also holds what accumulates until a timer wakes the queue.
_BUCKET_S = 0.0005
# The minimum of RFC 6298 is 1 s, that of Linux 200 ms, which is as long as an Up phase; round trips here are
# at most a full queue on each of a few links.
_SHORTEST_TIMEOUT = "10ms"
# tc stores the sizes of bucket and queue in 32 bits.
_MAX_BYTES = 2**31
# Hocket: a queue of 5 ms at a link's rate, 312 kB at 500 Mbps, with which TCP fills a link and flows converge
# within a phase.
QUEUE_S = 0.005
_MIN_QUEUE_BYTES = 4 * _LARGEST_SEGMENT_BYTES


def up(layout: Layout) -> Iterator[Command]:
    """The commands that create the testbed: namespaces, links with rates, routes, control network."""
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
    """The commands that delete namespaces, and with them their links."""
    for namespace in namespaces:
        yield ("ip", "netns", "delete", namespace)


def _namespace(name: str, *, forwards: bool) -> Iterator[Command]:
    yield ("ip", "netns", "add", name)
    yield ("ip", "-n", name, "link", "set", "lo", "up")
    settings = (*_SETTINGS, "net.ipv4.ip_forward=1") if forwards else _SETTINGS
    yield ("ip", "netns", "exec", name, "sysctl", "-qw", *settings)


def _joined(one: Port, other: Port) -> Iterator[Command]:
    """A veth pair whose ends are created in their namespaces, never in the machine's own."""
    ends = ("type", "veth", "peer", "name", other.interface, "netns", other.namespace)
    yield ("ip", "link", "add", "name", one.interface, "mtu", str(MTU_BYTES), "netns", one.namespace, *ends)
    for port in (one, other):
        # RFC 3021: a link between two ports needs no addresses for network and broadcast.
        yield ("ip", "-n", port.namespace, "address", "add", f"{port.address}/31", "dev", port.interface)
        yield ("ip", "-n", port.namespace, "link", "set", port.interface, "up")


def _shaped(port: Port) -> Command:
    """Limits what `port` sends to its rate on the wire: tbf counts the headers of every packet."""
    bucket_bytes = min(_LARGEST_SEGMENT_BYTES + round(port.rate_bps / 8 * _BUCKET_S), _MAX_BYTES)
    queue_bytes = min(max(round(port.rate_bps / 8 * QUEUE_S), _MIN_QUEUE_BYTES), _MAX_BYTES)
    shape = ("rate", f"{port.rate_bps}bit", "burst", f"{bucket_bytes}b", "limit", f"{queue_bytes}b")
    return ("tc", "-n", port.namespace, "qdisc", "add", "dev", port.interface, "root", "tbf", *shape)


def _routed(route: Route, own_address: str | None) -> Iterator[Command]:
    """`own_address` is the address from which the namespace's worker sends."""
    via = ("via", route.via, "dev", route.interface)
    source = () if own_address is None else ("src", own_address, "rto_min", _SHORTEST_TIMEOUT)
    ip = ("ip", "-n", route.namespace)
    if route.source is None:
        yield (*ip, "route", "add", f"{route.destination}/32", *via, *source)
        return
    # Every source that leaves through this interface shares one table, hence `replace`.
    yield (*ip, "route", "replace", "default", *via, *source, "table", str(route.table))
    where = ("from", route.source, "to", route.destination)
    yield (*ip, "rule", "add", *where, "lookup", str(route.table))


def _controlled(layout: Layout) -> Iterator[Command]:
    """The control network: a link without a rate limit from each worker's host to the control namespace."""
    yield ("ip", "-n", layout.control, "address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo")
    for worker in layout.workers():
        host_end, far_end = worker.control
        yield from _joined(host_end, far_end)
        via = ("via", far_end.address, "dev", host_end.interface)
        yield ("ip", "-n", host_end.namespace, "route", "add", CONTROL_NETWORK, *via)
