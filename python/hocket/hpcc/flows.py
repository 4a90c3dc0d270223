"""The flows of a study as columns: source, destination, priority, port, bytes and start.

Files are parsed column by column, because studies have tens of thousands of flows; only a file with a mistake
is parsed row by row, so that errors name the lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from hocket.errors import InputError
from hocket.hpcc.topology import IntArray, Topology
from hocket.text_inputs import (
    SECOND_PS,
    Mistakes,
    bounded_time_ps,
    read_words,
    whole,
)
from hocket.units import LARGEST

MAX_FLOWS = 10_000_000
"""The limit on the flows of a study."""

FIRST_SOURCE_PORT = 10_000
"""The UDP source port of the first flow from one host to another; the next one has the next port."""

_FLOW = "a flow is 'src dst priority dport bytes start_s'"
_FIELDS = ("src", "dst", "priority", "dport", "bytes")
# Priority 0 is the queue of PFC frames, which is never paused.
_LOWEST = (0, 0, 1, 0, 1)
# Numbers of up to 18 digits fit in 64 bits; longer ones go to `_exact_columns`.
_SAFE_DIGITS = 18


@dataclass(frozen=True, eq=False)
class Flows:
    """Checked flows in the order of the file, one entry per flow in each column.

    `priority` is from 1 to 7, `bytes` above 0, `start_ps` not negative. `unread_lines` counts the lines
    after the last announced flow.
    """

    path: Path
    src: IntArray
    dst: IntArray
    priority: IntArray
    dport: IntArray
    bytes: IntArray
    start_ps: IntArray
    unread_lines: int = 0

    def __len__(self) -> int:
        return len(self.src)

    @cached_property
    def sport(self) -> IntArray:
        """The UDP source ports: 10000 + k for flow k, counted from 0, of each pair of source and destination.

        ECMP hashes them. Ports have 16 bits and wrap, as in the simulators.
        """
        pair = self.src << 32 | self.dst
        # A stable sort keeps the flows of a pair in the order of the file; the number of a flow is then its
        # position minus that of the pair's first flow.
        order = np.argsort(pair, kind="stable")
        ordered = pair[order]
        positions = np.arange(len(pair), dtype=np.int64)
        is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        ports = np.empty_like(pair)
        ports[order] = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
        return (FIRST_SOURCE_PORT + ports) % 2**16


def read_flows(path: Path, topology: Topology) -> Flows:
    """The flows in `path`: their number, then one `src dst priority dport bytes start_s` per line.

    Starts are rounded to the nearest picosecond, and may be in any order. Lines after the last announced flow
    are not read, because the simulators' own examples explain the format there. Raises `InputError` with all
    mistakes, including flows that do not fit `topology`.
    """
    lines = read_words(path)
    count = _count(path, lines)
    rest = lines[1:]
    if len(rest) < count:
        raise InputError(f"{path}: ends after {len(rest)} flows; its first line announces {count}")
    rows = rest[:count]
    words_by_row = [words for _, words in rows]
    columns = _columns(words_by_row)
    if columns is None:
        mistakes = Mistakes(path)
        for number, words in rows:
            _explain(number, words, mistakes)
        mistakes.check()
        # Here all numbers are valid, but some have too many digits for `_columns`, such as leading zeros.
        columns = _exact_columns(words_by_row)
    src, dst, priority, dport, size, start_ps = columns
    flows = Flows(path, src, dst, priority, dport, size, start_ps, unread_lines=len(rest) - count)
    _check(flows, topology, [number for number, _ in rows])
    return flows


def _count(path: Path, lines: Sequence[tuple[int, list[str]]]) -> int:
    if not lines:
        raise InputError(f"{path}: the file is empty; the first line is the number of flows")
    number, words = lines[0]
    mistakes = Mistakes(path)
    count = 0
    if len(words) != 1:
        mistakes.add(number, f"has {len(words)} values; the first line is the number of flows")
    else:
        try:
            count = whole(words[0], 1, MAX_FLOWS)
        except InputError as error:
            mistakes.add(number, f"the number of flows {error}")
    mistakes.check()
    return count


def _columns(rows: Sequence[list[str]]) -> list[IntArray] | None:
    """The six columns; `None` unless every row is six plain numbers in range."""
    if set(map(len, rows)) != {len(_FIELDS) + 1}:
        return None
    *counts, starts = zip(*rows, strict=True)
    columns = []
    for words, lowest in zip(counts, _LOWEST, strict=True):
        # One test of all digits of a column is faster than a test of each word. `isdecimal` alone would also
        # accept the digits of other scripts.
        digits = "".join(words)
        if not (digits.isascii() and digits.isdecimal()) or max(map(len, words)) > _SAFE_DIGITS:
            return None
        column = np.fromiter(map(int, words), dtype=np.int64, count=len(words))
        if column.min() < lowest:
            return None
        columns.append(column)
    if columns[2].max() > 7 or columns[3].max() >= 2**16:
        return None
    try:
        # Most flows share their start with others, so each distinct start is parsed once.
        start_ps = {word: _start_ps(word) for word in set(starts)}
    except InputError:
        return None
    columns.append(np.fromiter(map(start_ps.__getitem__, starts), dtype=np.int64, count=len(starts)))
    return columns


def _start_ps(word: str) -> int:
    """As `bounded_time_ps` of seconds, but faster for numbers with few digits, which need no `Fraction`."""
    seconds, _, decimals = word.partition(".")
    digits = seconds + decimals
    # A time below a million seconds cannot exceed the clock.
    if 0 < len(seconds) <= 6 and len(decimals) <= 12 and digits.isascii() and digits.isdecimal():
        return int(seconds + decimals.ljust(12, "0"))
    return bounded_time_ps(word, SECOND_PS)


def _exact_columns(rows: Sequence[list[str]]) -> list[IntArray]:
    *counts, starts = zip(*rows, strict=True)
    columns = [np.array([int(word) for word in words], dtype=np.int64) for words in counts]
    columns.append(np.array([bounded_time_ps(word, SECOND_PS) for word in starts], dtype=np.int64))
    return columns


def _explain(number: int, words: list[str], mistakes: Mistakes) -> None:
    """Adds the mistakes in the line of one flow."""
    if len(words) != len(_FIELDS) + 1:
        mistakes.add(number, f"has {len(words)} values; {_FLOW}")
        return
    # Nodes are compared with the topology later, in `_check`.
    highest = (LARGEST, LARGEST, 7, 2**16 - 1, LARGEST)
    for name, word, low, high in zip(_FIELDS, words[:-1], _LOWEST, highest, strict=True):
        try:
            whole(word, low, high)
        except InputError as error:
            hint = "; 0 is the queue of PFC frames" if name == "priority" and word == "0" else ""
            mistakes.add(number, f"{name} {error}{hint}")
    try:
        bounded_time_ps(words[-1], SECOND_PS)
    except InputError as error:
        mistakes.add(number, f"start {error}")


def _check(flows: Flows, topology: Topology, numbers: Sequence[int]) -> None:
    """Raises `InputError` for flows that do not fit `topology`."""
    mistakes = Mistakes(flows.path)
    outside = np.zeros(len(flows), dtype=np.bool_)
    for name, nodes in (("src", flows.src), ("dst", flows.dst)):
        beyond = nodes >= topology.node_count
        # Node 0 stands in for those that do not exist, so that the index is valid.
        at_switch = ~beyond & topology.is_switch[np.where(beyond, 0, nodes)]
        for flow in np.flatnonzero(beyond).tolist():
            last = topology.node_count - 1
            mistakes.add(numbers[flow], f"{name}: {nodes[flow]} is not a node; the last is {last}")
        for flow in np.flatnonzero(at_switch).tolist():
            mistakes.add(numbers[flow], f"{name}: node {nodes[flow]} is a switch; flows run between hosts")
        outside |= beyond | at_switch
    to_itself = ~outside & (flows.src == flows.dst)
    for flow in np.flatnonzero(to_itself).tolist():
        mistakes.add(numbers[flow], f"a flow from node {flows.src[flow]} to itself")
    fine = np.flatnonzero(~(outside | to_itself))
    # Many flows have the same ends, so each pair is looked up once.
    pairs, index = np.unique(flows.src[fine] << 32 | flows.dst[fine], return_inverse=True)
    joined = np.array(
        [topology.connected(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], np.bool_
    )
    for flow in fine[~joined[index]].tolist():
        mistakes.add(numbers[flow], f"node {flows.src[flow]} has no path to node {flows.dst[flow]}")
    mistakes.check()
