"""Writes the output files of HPCC-style simulators, with their columns, order and rounding.

Scripts for the simulators' files can read these too. Times are rounded from picoseconds to whole nanoseconds.
"""

from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from hocket.hpcc.study import Study
from hocket.hpcc.topology import IntArray, Topology
from hocket.text_inputs import NANOSECOND_PS
from hocket.units import LARGEST

HEADER_BYTES = 48
"""The header bytes of a packet in the standalone time: Ethernet 14, IPv4 20, UDP 8, sequence number 4,
priority group 2. The simulators use this value regardless of the headers that they send."""

# 11.0.0.1, from which the simulators count.
_FIRST_ADDRESS = 0x0B000001
_PathSoFar: TypeAlias = tuple[int, int, int]
"""Hops, base round-trip time in nanoseconds, and lowest rate."""


def host_address(node: int) -> int:
    """The IPv4 address of a node: its number in the middle 16 bits of 11.0.0.1.

    >>> f"{host_address(258):08x}"
    '0b010201'
    """
    return _FIRST_ADDRESS + (node // 256) * 2**16 + (node % 256) * 2**8


def standalone_ns(study: Study) -> IntArray:
    """The completion time of each flow on an idle network, in nanoseconds, as the simulators estimate it.

    It is twice the delays of the path, plus the time of one payload on each link, plus the time of the flow's
    bytes, with a header per packet, at the path's lowest rate; each part is rounded down. Of equally short
    paths, the first in the order of the topology file counts. Times are limited to 63 bits.
    """
    flows, payload = study.flows, study.config.payload_bytes
    paths = _Paths(study.topology, payload)
    pairs, index = np.unique(flows.src << 32 | flows.dst, return_inverse=True)
    ends = [paths.between(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()]
    # Python's integers: bytes × 8 × 10^9 may need more than 64 bits.
    wire_bytes = flows.bytes.astype(object) + ((flows.bytes - 1) // payload + 1) * HEADER_BYTES
    times = [
        min(base_rtt_ns + wire * 8 * 10**9 // rate_bps, LARGEST)
        for wire, (base_rtt_ns, rate_bps) in zip(wire_bytes, (ends[pair] for pair in index), strict=True)
    ]
    return np.array(times, dtype=np.int64)


def write_completions(path: Path, study: Study, completions: pl.DataFrame) -> None:
    """Writes one line per completed flow: addresses in hexadecimal, ports, bytes, start, completion time and
    standalone time, separated by spaces.

    `completions` has the columns `flow`, the flow's index in `study.flows`, and `fct_ps`, the time from its
    start until its last byte is acknowledged. Lines are in the order of the rows; in the simulators' files,
    that is the order of completion.
    """
    flows = study.flows
    flow = completions["flow"].to_numpy()
    _write(
        path,
        {
            "sip": _addresses(flows.src[flow]),
            "dip": _addresses(flows.dst[flow]),
            "sport": flows.sport[flow],
            "dport": flows.dport[flow],
            "bytes": flows.bytes[flow],
            "start_ns": _nanoseconds(flows.start_ps[flow]),
            "fct_ns": _nanoseconds(completions["fct_ps"].to_numpy()),
            "standalone_ns": standalone_ns(study)[flow],
        },
    )


def write_pauses(path: Path, topology: Topology, pauses: pl.DataFrame) -> None:
    """Writes one line per PFC frame received, with values separated by spaces: the time, the node, 0 for a
    host or 1 for a switch, the interface, and 1 for a pause or 0 for its end.

    `pauses` has the columns `time_ps` (of reception), `node` (the receiver), `interface` (of the receiver, as
    numbered by `Topology.interfaces`) and `is_pause`. Lines are in the order of the rows.
    """
    node = pauses["node"].to_numpy()
    _write(
        path,
        {
            "time_ns": _nanoseconds(pauses["time_ps"].to_numpy()),
            "node": node,
            "node_type": topology.is_switch[node].astype(np.int64),
            "interface": pauses["interface"].to_numpy(),
            "is_pause": pauses["is_pause"].cast(pl.Int64).to_numpy(),
        },
    )


def _write(path: Path, columns: dict[str, IntArray | list[str]]) -> None:
    pl.DataFrame(columns).write_csv(path, separator=" ", include_header=False)


def _nanoseconds(time_ps: IntArray) -> IntArray:
    return (time_ps + NANOSECOND_PS // 2) // NANOSECOND_PS


def _addresses(nodes: IntArray) -> list[str]:
    spelt = {node: f"{host_address(node):08x}" for node in np.unique(nodes).tolist()}
    return [spelt[node] for node in nodes.tolist()]


class _Paths:
    """Shortest paths by hops. They are searched once from each switch, since many hosts are behind the same
    switch.
    """

    def __init__(self, topology: Topology, payload_bytes: int) -> None:
        self._topology = topology
        self._rate_bps = topology.rate_bps.tolist()
        # Each part is rounded down to whole nanoseconds, as in the simulators.
        self._rtt_ns = [
            2 * (delay // NANOSECOND_PS) + payload_bytes * 8 * 10**9 // rate
            for delay, rate in zip(topology.delay_ps.tolist(), self._rate_bps, strict=True)
        ]
        self._from_switch = cache(self._search)

    def between(self, src: int, dst: int) -> tuple[int, int]:
        """The base round-trip time in nanoseconds and the lowest rate from `src` to `dst`, which must be
        connected."""
        best: _PathSoFar | None = None
        for last, last_link in self._topology.neighbours[dst]:
            paths_to_last: list[_PathSoFar] = []
            if last == src:
                paths_to_last = [(0, 0, self._rate_bps[last_link])]
            elif self._topology.is_switch[last]:
                reached = self._from_switch(last)
                paths_to_last = [
                    self._extended(reached[first], first_link)
                    for first, first_link in self._topology.neighbours[src]
                    if first in reached
                ]
            for path_to_last in paths_to_last:
                path = self._extended(path_to_last, last_link)
                # The first of equally short paths stays.
                if best is None or path[0] < best[0]:
                    best = path
        assert best is not None, "flows run between hosts that are connected"
        return best[1], best[2]

    def _extended(self, path: _PathSoFar, link: int) -> _PathSoFar:
        hops, rtt_ns, rate_bps = path
        return hops + 1, rtt_ns + self._rtt_ns[link], min(rate_bps, self._rate_bps[link])

    def _search(self, start: int) -> dict[int, _PathSoFar]:
        """The shortest path from switch `start` to each switch that it reaches through switches only."""
        # No link is faster than the fastest, so this rate is the minimum of an empty path.
        reached: dict[int, _PathSoFar] = {start: (0, 0, max(self._rate_bps))}
        queue = [start]
        # Breadth first: the loop also visits the switches that it appends.
        for node in queue:
            for peer, link in self._topology.neighbours[node]:
                if peer not in reached and self._topology.is_switch[peer]:
                    reached[peer] = self._extended(reached[node], link)
                    queue.append(peer)
        return reached
