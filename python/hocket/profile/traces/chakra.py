"""One rank's Chakra trace as a timeline: its operations, run one after another as they wait for each other.

A Chakra trace says what depends on what and how long it took, not when it was. Reading it is left to
`hocket.training.chakra`, as are its communicators.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hocket.errors import InputError
from hocket.profile.job import JobProfile
from hocket.profile.traces import profile_timeline, wire_bytes
from hocket.profile.traces.timeline import Operation, Timeline
from hocket.training import workload
from hocket.training.chakra import GROUPS_FILE
from hocket.training.chakra.communicators import Communicators, named_in_trace, read_groups
from hocket.training.chakra.nodes import read_nodes
from hocket.training.chakra.programs import MICROSECOND_PS, RankProgram, program_of
from hocket.units import parse_rate

PS_PER_S = 10**12

_NO_TIMES = "a Chakra trace has durations and dependencies, no times: its operations were run as these allow"
_NAME = re.compile(r"(?P<name>.*)\.(?P<rank>0|[1-9][0-9]{0,8})\.et", re.DOTALL)


def profile_chakra(
    path: str | Path, *, name: str | None = None, rate: str | None = None, gpus_per_server: int | None = None
) -> JobProfile:
    """Profile the job of which one rank left the trace `path`; otherwise as `profile_timeline`.

    Raises `InputError` as `read_chakra_timeline` does.
    """
    timeline = read_chakra_timeline(path, rate)
    profile = profile_timeline(
        timeline, name=name or Path(path).stem, rate=rate, gpus_per_server=gpus_per_server
    )
    return replace(profile, notes=(*profile.notes, _NO_TIMES))


def read_chakra_timeline(path: str | Path, rate: str | None = None) -> Timeline:
    """The timeline of the rank whose trace is `path`, a file `NAME.RANK.et` among those of all ranks.

    Communication that the trace gives no duration takes its bytes on the wire at `rate`, such as "50 Gbps".

    Raises `InputError` for what is no Chakra trace, or communication without a duration and without a rate.
    """
    path = Path(path)
    program, groups = read_program(path)
    rate_bps = None if rate is None else parse_rate(rate)
    described = [described_as(operation, program, groups) for operation in program.operations]

    def lasts_ps(place: int) -> int:
        operation, node = program.operations[place], program.nodes[place]
        if operation.kind == "compute":
            return operation.duration_ps
        if node.duration_us > 0:
            return node.duration_us * MICROSECOND_PS
        if rate_bps is None:
            raise node.error("has no duration; the rate at which the job sends (--rate) would give it one")
        # A receive lasts as long as the message, though it is another rank that sends it.
        octets = operation.bytes if operation.kind == "recv" else wire_bytes(described[place])
        return round(octets * 8 * PS_PER_S / rate_bps)

    start_ps, end_ps = execute(program.operations, lasts_ps)
    times_s = np.column_stack([start_ps, end_ps]) / PS_PER_S
    computes = np.array([operation.kind == "compute" for operation in program.operations], dtype=np.bool_)
    return Timeline.of(
        str(path),
        times_s[~computes, 0],
        times_s[~computes, 1],
        [each for each, compute in zip(described, computes, strict=True) if not compute],
        computes_s=times_s[computes],
    )


def read_program(path: Path) -> tuple[RankProgram, list[tuple[int, ...]]]:
    """What the rank of a trace does, and the groups that its communicators are."""
    match = _NAME.fullmatch(path.name)
    rank = int(match["rank"]) if match else 0
    ranks = max([rank, *(other for other in ranks_beside(path, match["name"]) if match)]) + 1 if match else 1
    nodes = read_nodes(path, rank)
    beside = path.parent / GROUPS_FILE
    communicators = Communicators(ranks, read_groups(beside, ranks) if beside.is_file() else {}, None)
    program = program_of(nodes, rank, communicators, named_in_trace(nodes, ranks), None)
    if not program.operations:
        raise InputError(f"{path}: no node of the trace takes any time on a GPU or communicates")
    return program, [communicators.groups[group] for group in program.groups]


def ranks_beside(path: Path, name: str) -> list[int]:
    """The ranks whose traces of the same job lie beside `path`."""
    matches = (_NAME.fullmatch(other.name) for other in path.parent.glob("*.et"))
    return [int(match["rank"]) for match in matches if match and match["name"] == name]


def described_as(
    operation: workload.Operation, program: RankProgram, groups: Sequence[tuple[int, ...]]
) -> Operation:
    """An operation of a rank's program as timelines have it; computes have no size."""
    if operation.kind == "compute":
        return Operation("compute")
    members = groups[operation.communicator]
    peer = f"with {operation.peer}" if operation.kind in ("send", "recv") else ""
    return Operation(operation.kind, operation.bytes, len(members), members, peer)


def execute(
    operations: Sequence[workload.Operation], lasts_ps: Callable[[int], int]
) -> tuple[list[int], list[int]]:
    """When operations (n) start and end (ps) on a rank that no other keeps waiting; `lasts_ps` says how long
    each takes, by its place.
    """
    start_ps, end_ps = [0] * len(operations), [0] * len(operations)
    rank = _Rank(operations)
    running: list[tuple[int, int]] = []
    now_ps = 0
    while True:
        for place in rank.starts():
            start_ps[place], end_ps[place] = now_ps, now_ps + lasts_ps(place)
            heapq.heappush(running, (end_ps[place], place))
        if not running:
            return start_ps, end_ps
        now_ps = running[0][0]
        while running and running[0][0] == now_ps:
            rank.end(heapq.heappop(running)[1])


class _Rank:
    """What a rank may start, as the engines let it: one compute at a time, of those ready the first in its
    program; collectives of a communicator one by one, in the order of the program; messages once they are
    ready.
    """

    def __init__(self, operations: Sequence[workload.Operation]) -> None:
        self._operations = operations
        self._waits = [len(operation.after) for operation in operations]
        self._then: dict[int, list[int]] = {}
        self._computes: list[int] = []
        self._messages: list[int] = []
        self._computing = False
        # By communicator, its collectives that have not ended, in order; and which of all these are ready.
        self._turns: dict[int, deque[int]] = {}
        self._ready: set[int] = set()
        for place, operation in enumerate(operations):
            for before in operation.after:
                self._then.setdefault(before, []).append(place)
            if operation.kind not in ("compute", "send", "recv"):
                self._turns.setdefault(operation.communicator, deque()).append(place)
            if not operation.after:
                self._release(place)

    def starts(self) -> list[int]:
        """The places of the operations that start now."""
        starting, self._messages = self._messages, []
        if self._computes and not self._computing:
            self._computing = True
            starting.append(heapq.heappop(self._computes))
        for turns in self._turns.values():
            if turns and turns[0] in self._ready:
                self._ready.remove(turns[0])
                starting.append(turns[0])
        return starting

    def end(self, place: int) -> None:
        """The operation at `place` has ended."""
        operation = self._operations[place]
        if operation.kind == "compute":
            self._computing = False
        elif operation.kind not in ("send", "recv"):
            self._turns[operation.communicator].popleft()
        for after in self._then.get(place, ()):
            self._waits[after] -= 1
            if self._waits[after] == 0:
                self._release(after)

    def _release(self, place: int) -> None:
        """The operation at `place` waits for no other."""
        match self._operations[place].kind:
            case "compute":
                heapq.heappush(self._computes, place)
            case "send" | "recv":
                self._messages.append(place)
            case _:
                self._ready.add(place)
