"""A study: settings, network and flows, and the checks that need all three."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hocket.errors import InputError
from hocket.hpcc.config import Config, Ignored, LinkDown, read_config
from hocket.hpcc.flows import Flows, read_flows
from hocket.hpcc.topology import Topology, read_topology
from hocket.text_inputs import SECOND_PS, Mistakes, read_words
from hocket.units import format_rate, shown

RESERVE_BYTES = 4096
"""The bytes that a switch reserves for each port before it shares its buffer."""

HEADROOM_DELAYS = 3
"""A port's headroom is its rate × this many times its link's delay."""

_KEY = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class Study:
    """The settings, network and flows of a run, checked separately and together.

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


def is_study(path: str | Path) -> bool:
    """Whether `path` contains the settings of a study and not a plan: its name does not end in `.toml` or
    `.json`, and its first line begins with a key in capital letters.

    >>> is_study("plan.toml")
    False
    """
    path = Path(path)
    if path.suffix.lower() in (".toml", ".json") or not path.is_file():
        return False
    lines = read_words(path)
    # `KEY = value` is TOML.
    return bool(lines) and _KEY.fullmatch(lines[0][1][0]) is not None and lines[0][1][1:2] != ["="]


def load_study(path: str | Path) -> Study:
    """The study whose settings are in `path`, with the topology and the flows that they name.

    These files are looked for in the directory of `path`, then in the working directory. Raises `InputError`
    with one line per mistake: the file, the line, the value and the limit.
    """
    config = read_config(Path(path))
    topology = read_topology(_find(config, "TOPOLOGY_FILE", config.topology_file))
    _check(config, topology)
    flows = read_flows(_find(config, "FLOW_FILE", config.flow_file), topology)
    unread = (
        ("TOPOLOGY_FILE", config.topology_file, len(topology.a), topology.unread_lines),
        ("FLOW_FILE", config.flow_file, len(flows), flows.unread_lines),
    )
    ignored = tuple(
        Ignored(key, name, f"its first line announces {announced}; {more} more lines are not read")
        for key, name, announced, more in unread
        if more
    )
    return Study(config, topology, flows, config.ignored + ignored)


def _find(config: Config, key: str, name: str) -> Path:
    # The simulators know only the working directory, but a study that was moved has its files beside it.
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
    mistakes = Mistakes(config.path)
    for text in (*_unmarked_rates(config, topology), *_small_buffers(config, topology)):
        mistakes.add(0, text)
    if config.link_down and not _has_link(config.link_down, topology):
        mistakes.add(0, f"LINK_DOWN: no link joins node {config.link_down.a} and node {config.link_down.b}")
    mistakes.check()


def _unmarked_rates(config: Config, topology: Topology) -> Iterator[str]:
    """Rates of switch ports without ECN thresholds: the simulators then divide 0 by 0 and mark everything."""
    known = {each.rate_bps for each in config.marking}
    of_switches = topology.is_switch[topology.a] | topology.is_switch[topology.b]
    for rate in sorted(set(topology.rate_bps[of_switches].tolist()) - known) if config.ecn else ():
        yield (
            f"KMIN_MAP, KMAX_MAP, PMAX_MAP: {rate} is not in all of them, and a switch has a port of "
            f"{format_rate(rate)}; with ENABLE_QCN 1 each rate of a switch's ports needs its thresholds"
        )


def _small_buffers(config: Config, topology: Topology) -> Iterator[str]:
    """Switches whose buffer, without headroom and reserve, has no room for a packet."""
    rates, delays = topology.rate_bps.tolist(), topology.delay_ps.tolist()
    for switch in topology.switch_ids:
        links = [link for _, link in topology.neighbours[switch]]
        headroom = sum(HEADROOM_DELAYS * (rates[link] * delays[link] // (8 * SECOND_PS)) for link in links)
        needed = headroom + RESERVE_BYTES * len(links) + config.payload_bytes
        if needed > config.buffer_bytes:
            yield (
                f"BUFFER_SIZE: {config.buffer_bytes} bytes are too few for switch {switch}, "
                f"which needs {needed}: {headroom} of headroom, {RESERVE_BYTES} in reserve for each of "
                f"{len(links)} ports, and a packet of {config.payload_bytes}"
            )


def _has_link(link_down: LinkDown, topology: Topology) -> bool:
    known = link_down.a < topology.node_count
    return known and any(peer == link_down.b for peer, _ in topology.neighbours[link_down.a])
