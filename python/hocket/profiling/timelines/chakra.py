"""A rank's Chakra trace as one iteration, found by executing its operations in the order of dependencies.

A Chakra trace has dependencies and durations, but no times. `hocket.training.chakra` reads the file and its
communicators.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import FloatArray
from hocket.profiling.job import JobProfile
from hocket.profiling.timelines.assemble import profile_iterations
from hocket.profiling.timelines.iterations import Doubt, TimelineIterations
from hocket.profiling.timelines.timeline import Operation, Timeline, merged
from hocket.profiling.timelines.wire import wire_bytes
from hocket.training import workload
from hocket.training.chakra import GROUPS_FILE
from hocket.training.chakra.communicators import Communicators, named_in_trace, read_groups
from hocket.training.chakra.nodes import read_nodes
from hocket.training.chakra.programs import MICROSECOND_PS, RankProgram, program_of
from hocket.units import parse_rate

PS_PER_S = 10**12

_ONE_ITERATION = (
    "a Chakra trace has durations and dependencies but no times: it was executed once and taken for one "
    "iteration, as in a plan's training jobs"
)
_NAME = re.compile(r"(?P<name>.*)\.(?P<rank>0|[1-9][0-9]{0,8})\.et", re.DOTALL)


def profile_chakra(
    path: str | Path, *, name: str | None = None, rate: str | None = None, gpus_per_server: int | None = None
) -> JobProfile:
    """Profiles a job from the Chakra trace of one rank: `NAME.RANK.et`, beside those of the other ranks.

    The trace counts as one iteration, whatever repeats in it, with a confidence of 0: nothing in it confirms
    that. Communication without a duration sends its bytes on the wire at `rate`, such as "50 Gbps". Otherwise
    like `profile_timeline`.

    Raises `InputError` if the file is not a Chakra trace, or if communication has no duration and `rate` is
    not given.
    """
    path = Path(path)
    timeline, period_s = read_iteration(path, rate)
    once = TimelineIterations(np.zeros(1), period_s, 0.0, (Doubt(0.0, _ONE_ITERATION),), (_ONE_ITERATION,))
    return profile_iterations(
        timeline, once, name=name or path.stem, rate=rate, gpus_per_server=gpus_per_server
    )


def read_iteration(path: Path, rate: str | None) -> tuple[Timeline, float]:
    """The timeline of a Chakra trace, from the end of its longest quiet time on, and its length (s).

    Iterations follow each other, so operations before that point belong to the end of the iteration.
    """
    program, groups = read_program(path)
    described = [timeline_operation(operation, program, groups) for operation in program.operations]
    start_ps, end_ps = execute(program.operations, durations(program, described, rate))
    times_s = np.column_stack([start_ps, end_ps]) / PS_PER_S
    period_s = float(times_s[:, 1].max())
    computes = np.array([operation.kind == "compute" for operation in program.operations], dtype=np.bool_)
    if computes.all():
        raise InputError(f"{path}: contains no communication operation")
    begin_s = after_longest_quiet(times_s[~computes], period_s)
    communication_s = times_s[~computes] + period_s * (times_s[~computes, :1] < begin_s)
    timeline = Timeline.of(
        str(path),
        communication_s[:, 0],
        communication_s[:, 1],
        [each for each, compute in zip(described, computes, strict=True) if not compute],
        # Computation may span the time at which the iteration now begins; communication is quiet there.
        computes_s=rotated(times_s[computes], begin_s, period_s),
    )
    return timeline, period_s


def durations(program: RankProgram, described: Sequence[Operation], rate: str | None) -> Callable[[int], int]:
    """A function for the duration (ps) of the operation at a place of the program."""
    rate_bps = None if rate is None else parse_rate(rate)

    def lasts_ps(place: int) -> int:
        operation, node = program.operations[place], program.nodes[place]
        if operation.kind == "compute":
            return operation.duration_ps
        if node.duration_us > 0:
            return node.duration_us * MICROSECOND_PS
        if rate_bps is None:
            raise node.error("has no duration; give the rate at which the job sends (--rate)")
        # A receive lasts as long as the message takes, although another rank sends it.
        octets = operation.bytes if operation.kind == "recv" else wire_bytes(described[place])
        return round(octets * 8 * PS_PER_S / rate_bps)

    return lasts_ps


def after_longest_quiet(communication_s: FloatArray, period_s: float) -> float:
    """When communication (n, 2) starts after the longest time without, if iterations follow each other."""
    busy_s = merged(communication_s)
    quiet_s = busy_s[:, 0] - np.roll(busy_s[:, 1], 1)
    # Before the first communication, the iteration before it ends: that quiet time spans the border.
    quiet_s[0] += period_s
    return float(busy_s[int(np.argmax(quiet_s)), 0])


def rotated(intervals_s: FloatArray, begin_s: float, period_s: float) -> FloatArray:
    """Intervals (n, 2), for an iteration that begins at `begin_s`; those that contain it are split."""
    before, after = np.minimum(intervals_s, begin_s) + period_s, np.maximum(intervals_s, begin_s)
    both = np.vstack([before, after])
    return both[both[:, 1] > both[:, 0]]


def read_program(path: Path) -> tuple[RankProgram, list[tuple[int, ...]]]:
    """The program of the rank of a Chakra trace, and the ranks of each of its communicators."""
    match = _NAME.fullmatch(path.name)
    rank = int(match["rank"]) if match else 0
    ranks = max([rank, *(other for other in ranks_beside(path, match["name"]) if match)]) + 1 if match else 1
    nodes = read_nodes(path, rank)
    beside = path.parent / GROUPS_FILE
    communicators = Communicators(ranks, read_groups(beside, ranks) if beside.is_file() else {}, None)
    program = program_of(nodes, rank, communicators, named_in_trace(nodes, ranks), None)
    if not program.operations:
        raise InputError(f"{path}: no node of the Chakra trace communicates or takes any time on a GPU")
    return program, [communicators.groups[group] for group in program.groups]


def ranks_beside(path: Path, name: str) -> list[int]:
    """The ranks with a Chakra trace of the same job in the folder of `path`."""
    matches = (_NAME.fullmatch(other.name) for other in path.parent.glob("*.et"))
    return [int(match["rank"]) for match in matches if match and match["name"] == name]


def timeline_operation(
    operation: workload.Operation, program: RankProgram, groups: Sequence[tuple[int, ...]]
) -> Operation:
    """An operation of a rank's program in the form of timelines; computation has no size."""
    if operation.kind == "compute":
        return Operation("compute")
    members = groups[operation.communicator]
    peer = f"with {operation.peer}" if operation.kind in ("send", "recv") else ""
    return Operation(operation.kind, operation.bytes, len(members), members, peer)


def execute(
    operations: Sequence[workload.Operation], lasts_ps: Callable[[int], int]
) -> tuple[list[int], list[int]]:
    """Start and end (ps) of each operation (n) on a rank that never waits for another rank.

    `lasts_ps` gives the duration of the operation at a place.
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
        # All that end at one time end before anything starts, so that ties do not decide what runs first.
        now_ps = running[0][0]
        while running and running[0][0] == now_ps:
            rank.end(heapq.heappop(running)[1])


class _Rank:
    """The operations that a rank may start next, by the rules of the engines.

    Computation runs one operation at a time, of those ready the first in the program. Collectives of a
    communicator run one at a time, in the order of the program. Messages start once they are ready.
    """

    def __init__(self, operations: Sequence[workload.Operation]) -> None:
        self._operations = operations
        self._waits = [len(operation.after) for operation in operations]
        self._successors: dict[int, list[int]] = {}
        self._computes: list[int] = []
        self._messages: list[int] = []
        self._computing = False
        # The collectives of each communicator that have not ended, in order, and those of all that are ready.
        self._turns: dict[int, deque[int]] = {}
        self._ready: set[int] = set()
        for place, operation in enumerate(operations):
            for before in operation.after:
                self._successors.setdefault(before, []).append(place)
            if operation.kind not in ("compute", "send", "recv"):
                self._turns.setdefault(operation.communicator, deque()).append(place)
            if not operation.after:
                self._release(place)

    def starts(self) -> list[int]:
        """Starts all operations that may start now, and returns their places."""
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
        """Ends the operation at `place`."""
        operation = self._operations[place]
        if operation.kind == "compute":
            self._computing = False
        elif operation.kind not in ("send", "recv"):
            self._turns[operation.communicator].popleft()
        for after in self._successors.get(place, ()):
            self._waits[after] -= 1
            if self._waits[after] == 0:
                self._release(after)

    def _release(self, place: int) -> None:
        """Makes the operation at `place` ready: all that it depends on has ended."""
        match self._operations[place].kind:
            case "compute":
                heapq.heappush(self._computes, place)
            case "send" | "recv":
                self._messages.append(place)
            case _:
                self._ready.add(place)
