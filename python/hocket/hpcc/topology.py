"""The network of a study: numbered nodes, of which some are switches, and links in the order of the file.

Routing is left to the engine.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hocket.errors import InputError
from hocket.text_inputs import (
    Mistakes,
    delay_ps,
    rate_bps,
    read_words,
    real,
    whole,
)
from hocket.units import shown

IntArray: TypeAlias = NDArray[np.int64]

MAX_NODES = 65_536
"""The limit on nodes: an address has 16 bits for the number of its node."""

MAX_LINKS = 1_000_000
"""The limit on links; both directions of a cable count as one."""

_HEADER = "the first line is 'nodes switches links'"
_LINK = "a link is 'node node rate delay error_rate'"
_Lines: TypeAlias = Sequence[tuple[int, list[str]]]


@dataclass(frozen=True, eq=False)
class Topology:
    """A checked network.

    Nodes are numbered from 0 to `node_count` - 1; those in `switch_ids`, in the order of the file, are
    switches, all others hosts. Link i joins `a[i]` and `b[i]` in both directions at `rate_bps[i]` (above 0)
    with a propagation delay of `delay_ps[i]`. `unread_lines` counts the lines after the last announced link.
    """

    path: Path
    node_count: int
    switch_ids: tuple[int, ...]
    a: IntArray
    b: IntArray
    rate_bps: IntArray
    delay_ps: IntArray
    unread_lines: int = 0

    @cached_property
    def is_switch(self) -> NDArray[np.bool_]:
        """Per node, whether it is a switch."""
        flags = np.zeros(self.node_count, dtype=np.bool_)
        flags[list(self.switch_ids)] = True
        return flags

    @cached_property
    def host_ids(self) -> tuple[int, ...]:
        """The hosts, in ascending order."""
        return tuple(int(node) for node in np.flatnonzero(~self.is_switch))

    @cached_property
    def interfaces(self) -> tuple[IntArray, IntArray]:
        """The interface of each link at `a` and at `b`: each node numbers its links from 1, in the order of
        the file. Interface 0 is the loopback device of ns-3's nodes."""
        seen: Counter[int] = Counter()
        numbers = np.empty((len(self.a), 2), dtype=np.int64)
        for link, ends in enumerate(zip(self.a.tolist(), self.b.tolist(), strict=True)):
            for side, node in enumerate(ends):
                seen[node] += 1
                numbers[link, side] = seen[node]
        return numbers[:, 0], numbers[:, 1]

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Per node, its neighbours with the index of the link to each, in the order of interfaces."""
        neighbours: list[list[tuple[int, int]]] = [[] for _ in range(self.node_count)]
        for link, (a, b) in enumerate(zip(self.a.tolist(), self.b.tolist(), strict=True)):
            neighbours[a].append((b, link))
            neighbours[b].append((a, link))
        return tuple(map(tuple, neighbours))

    def connected(self, src: int, dst: int) -> bool:
        """Whether packets can reach host `dst` from host `src`, over one link or through switches only."""
        # Hosts do not forward, so islands of the graph with its hosts would be too large.
        near_src, near_dst = self._reach[src], self._reach[dst]
        return not near_src.isdisjoint(near_dst) or any(peer == dst for peer, _ in self.neighbours[src])

    @cached_property
    def _reach(self) -> tuple[frozenset[int], ...]:
        """Per node, the connected groups of switches that contain it or are linked to it; a group is named by
        one of its switches."""
        group = [-1] * self.node_count
        for root in self.switch_ids:
            frontier = [root] if group[root] < 0 else []
            group[root] = root if frontier else group[root]
            while frontier:
                node = frontier.pop()
                for peer, _ in self.neighbours[node]:
                    if self.is_switch[peer] and group[peer] < 0:
                        group[peer] = root
                        frontier.append(peer)
        return tuple(
            frozenset(
                [group[peer] for peer, _ in self.neighbours[node] if group[peer] >= 0]
                + ([group[node]] if group[node] >= 0 else [])
            )
            for node in range(self.node_count)
        )


def read_topology(path: Path) -> Topology:
    """The network in `path`: `nodes switches links`, then the switches' numbers, then one link per line.

    Lines after the last announced link are not read, because the simulators' own examples explain the format
    there. Raises `InputError` with all mistakes.
    """
    lines = read_words(path)
    mistakes = Mistakes(path)
    if not lines:
        raise InputError(f"{path}: the file is empty; {_HEADER}")
    node_count, switch_count, link_count = _header(lines[0], mistakes)
    switch_ids, rest = _switches(lines[1:], node_count, switch_count, mistakes)
    if len(rest) < link_count:
        mistakes.add(0, f"ends after {len(rest)} links; its first line announces {link_count}")
        mistakes.check()
    rows = [_link(number, words, node_count, mistakes) for number, words in rest[:link_count]]
    mistakes.check()
    a, b, rate, delay = np.array([row for row in rows if row], dtype=np.int64).reshape(-1, 4).T
    return Topology(path, node_count, switch_ids, a, b, rate, delay, unread_lines=len(rest) - link_count)


def _header(line: tuple[int, list[str]], mistakes: Mistakes) -> tuple[int, int, int]:
    number, words = line
    if len(words) == 6:
        mistakes.add(
            number,
            f"has 6 values, as in topologies of SimAI, whose NVSwitches are not supported; {_HEADER}",
        )
    elif len(words) != 3:
        mistakes.add(number, f"has {len(words)} values; {_HEADER}")
    mistakes.check()
    counts = [0, 0, 0]
    limits = (("nodes", 1, MAX_NODES), ("switches", 0, MAX_NODES), ("links", 0, MAX_LINKS))
    for index, (word, (name, lowest, highest)) in enumerate(zip(words, limits, strict=True)):
        try:
            counts[index] = whole(word, lowest, highest)
        except InputError as error:
            mistakes.add(number, f"the number of {name} {error}")
    nodes, switches, links = counts
    if switches > nodes > 0:
        mistakes.add(number, f"{switches} switches are more than the {nodes} nodes")
    mistakes.check()
    return nodes, switches, links


def _switches(
    lines: _Lines, node_count: int, switch_count: int, mistakes: Mistakes
) -> tuple[tuple[int, ...], _Lines]:
    """The numbers of the switches, which may be on several lines, and the lines after them."""
    words: list[tuple[int, str]] = []
    used = 0
    while len(words) < switch_count and used < len(lines):
        number, in_line = lines[used]
        words += [(number, word) for word in in_line]
        used += 1
    if len(words) != switch_count:
        line = words[-1][0] if words else 0
        mistakes.add(line, f"{len(words)} numbers of switches; the first line announces {switch_count}")
        mistakes.check()
    # A dictionary keeps the order of the file, which is that of `switch_ids`.
    switches: dict[int, None] = {}
    for number, word in words:
        try:
            node = whole(word, 0, node_count - 1)
        except InputError as error:
            mistakes.add(number, f"a switch's number {error}")
            continue
        if node in switches:
            mistakes.add(number, f"switch {node} is named twice")
        switches[node] = None
    return tuple(switches), lines[used:]


def _link(
    number: int, words: list[str], node_count: int, mistakes: Mistakes
) -> tuple[int, int, int, int] | None:
    if len(words) != 5:
        mistakes.add(number, f"has {len(words)} values; {_LINK}")
        return None
    before = len(mistakes.entries)
    values = [0, 0, 0, 0]

    def node(word: str) -> int:
        return whole(word, 0, node_count - 1)

    readers: tuple[tuple[str, Callable[[str], int]], ...] = (
        ("a node's number ", node),
        ("a node's number ", node),
        ("rate: ", rate_bps),
        ("delay: ", delay_ps),
    )
    for index, (name, read) in enumerate(readers):
        try:
            values[index] = read(words[index])
        except InputError as error:
            mistakes.add(number, f"{name}{error}")
    try:
        if real(words[4]) != 0:
            mistakes.add(
                number, f"error_rate: {shown(words[4])} is not supported, only 0: no frame is corrupted"
            )
    except InputError as error:
        mistakes.add(number, f"error_rate: {error}")
    if len(mistakes.entries) > before:
        return None
    a, b, rate, delay = values
    if a == b:
        mistakes.add(number, f"a link from node {a} to itself")
        return None
    return a, b, rate, delay
