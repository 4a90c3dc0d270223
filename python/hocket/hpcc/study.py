"""A study: settings, network and flows, and what only all three together can get wrong."""

from dataclasses import dataclass
from pathlib import Path

from hocket.errors import InputError
from hocket.hpcc.config import Config, Ignored, LinkDown, read_config
from hocket.hpcc.flows import Flows, read_flows
from hocket.hpcc.topology import Topology, read_topology
from hocket.units import format_rate, shown

RESERVE_BYTES = 4096
"""What a switch sets aside per port before it shares its buffer."""

HEADROOM_DELAYS = 3
"""A port's headroom is its rate × this many times its link's delay."""


@dataclass(frozen=True)
class Study:
    """Everything that a run needs, checked.

    `ignored` lists the settings and lines without effect, each with the reason.
    """

    config: Config
    topology: Topology
    flows: Flows
    ignored: tuple[Ignored, ...]

    @property
    def switch_ids(self) -> tuple[int, ...]:
        """The numbers of the switches, in the order of the topology file."""
        return self.topology.switch_ids


def load_study(path: str | Path) -> Study:
    """The study whose settings are in `path`, with the topology and the flows that it names.

    Their names are relative to the directory of `path`, or else to the working directory. Raises `InputError`
    with one line per mistake, each naming the file, the line, the value and the limit.
    """
    config = read_config(Path(path))
    topology = read_topology(_find(config, "TOPOLOGY_FILE", config.topology_file))
    _check(config, topology)
    flows = read_flows(_find(config, "FLOW_FILE", config.flow_file), topology)
    unread = (
        ("TOPOLOGY_FILE", config.topology_file, topology.unread_lines, f"{len(topology.a)} links"),
        ("FLOW_FILE", config.flow_file, flows.unread_lines, f"{len(flows)} flows"),
    )
    ignored = tuple(
        Ignored(key, name, f"{count} lines follow the {announced} that its first line announces")
        for key, name, count, announced in unread
        if count
    )
    return Study(config, topology, flows, config.ignored + ignored)


def _find(config: Config, key: str, name: str) -> Path:
    beside = config.path.parent / name
    if beside.exists():
        return beside
    here = Path(name)
    if here.exists():
        return here
    raise InputError(
        f"{config.path}: {key}: no such file: {shown(name)}, neither in {config.path.parent} "
        f"nor in {Path.cwd()}"
    )


def _check(config: Config, topology: Topology) -> None:
    mistakes = [*_unmarked_rates(config, topology), *_small_buffers(config, topology)]
    if config.link_down:
        mistakes += _no_such_link(config.link_down, topology)
    if mistakes:
        raise InputError("\n".join(f"{config.path}: {mistake}" for mistake in mistakes))


def _unmarked_rates(config: Config, topology: Topology) -> list[str]:
    """Rates of switch ports without ECN thresholds: the simulators then divide 0 by 0 and mark everything."""
    if not config.ecn:
        return []
    known = {each.rate_bps for each in config.marking}
    switch_links = topology.is_switch[topology.a] | topology.is_switch[topology.b]
    return [
        f"KMIN_MAP, KMAX_MAP, PMAX_MAP: {rate} is not in all of them, and a switch has a port of "
        f"{format_rate(rate)}; with ENABLE_QCN 1 each rate of a switch's ports needs its thresholds"
        for rate in sorted(set(topology.rate_bps[switch_links].tolist()) - known)
    ]


def _small_buffers(config: Config, topology: Topology) -> list[str]:
    """Switches whose buffer leaves no packet's room to share."""
    mistakes = []
    for switch in topology.switch_ids:
        links = [link for _, link in topology.neighbours[switch]]
        headroom = sum(
            HEADROOM_DELAYS * int(topology.rate_bps[link]) * int(topology.delay_ps[link]) // (8 * 10**12)
            for link in links
        )
        needed = headroom + RESERVE_BYTES * len(links) + config.payload_bytes
        if needed > config.buffer_bytes:
            mistakes.append(
                f"BUFFER_SIZE: {config.buffer_bytes} bytes are too few for switch {switch}: its "
                f"{len(links)} ports take {headroom} bytes of headroom and {RESERVE_BYTES} each in reserve, and a packet has "
                f"{config.payload_bytes}"
            )
    return mistakes[:20]


def _no_such_link(link_down: LinkDown, topology: Topology) -> list[str]:
    a, b = link_down.a, link_down.b
    if a < topology.node_count and any(peer == b for peer, _ in topology.neighbours[a]):
        return []
    return [f"LINK_DOWN: no link joins node {a} and node {b}"]
