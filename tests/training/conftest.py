"""What tests of training jobs share: a second, slower executor of workloads on a perfect network as their
oracle, what every workload has to be, and messages of protocol buffers written byte by byte.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from hocket.training.workload import Operation, Workload


def varint(value: int) -> bytes:
    """Seven bits to a byte, low ones first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def whole(number: int, value: int) -> bytes:
    """A field that holds a whole number."""
    return varint(number << 3) + varint(value % 2**64)


def content(number: int, value: bytes) -> bytes:
    """A field that holds bytes, text or a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def trace(*nodes: bytes, metadata: bytes = content(1, b"0.0.4")) -> bytes:
    """A rank's file of a Chakra trace."""
    return b"".join(varint(len(each)) + each for each in (metadata, *nodes))


def is_valid(workload: Workload) -> bool:
    """Asserts the engines' requirements on programs that can be checked without running them."""
    for rank, its in enumerate(workload.ranks):
        assert all(rank in workload.groups[group] for group in its.communicators)
        for place, operation in enumerate(workload.programs[its.program]):
            assert all(0 <= each < place for each in operation.after)
            assert operation.kind == "compute" or 0 <= operation.communicator < len(its.communicators)
            assert (operation.kind == "compute") == (operation.bytes == 0)
    return True


@dataclass(frozen=True)
class Executed:
    """When an operation of a rank ran, in ps from the start of the iteration."""

    rank: int
    operation: Operation
    start_ps: int
    end_ps: int


class Meeting(NamedTuple):
    """What ranks wait for each other at: the n-th collective of a group, or a message by its ends and tag."""

    group: int
    kind: str
    members: int
    place: tuple[int, ...]


class Replay:
    """One iteration of all ranks of a workload.

    Every rank computes one operation at a time, of those ready the first in its program. Collectives of a
    group run one after another in the order of the programs, each from when all have come to it; a message
    goes when both ends have. Bytes take `ps_per_byte` each, whatever else is under way.
    """

    def __init__(self, workload: Workload, ps_per_byte: int) -> None:
        self.workload = workload
        self.ps_per_byte = ps_per_byte
        self.programs = [workload.programs[rank.program] for rank in workload.ranks]
        self.done: list[set[int]] = [set() for _ in workload.ranks]
        self.started: list[set[int]] = [set() for _ in workload.ranks]
        self.computing = [False] * len(workload.ranks)
        self.running: list[tuple[int, int, int]] = []  # end, rank, position
        self.executed: list[Executed] = []
        self.now = 0

    def run(self) -> list[Executed]:
        """The times of all operations; fails if ranks deadlock."""
        self.start()
        while self.running:
            self.running.sort()
            self.now, rank, position = self.running.pop(0)
            self.done[rank].add(position)
            if self.programs[rank][position].kind == "compute":
                self.computing[rank] = False
            if not self.running or min(self.running)[0] > self.now:
                self.start()
        for rank, program in enumerate(self.programs):
            left = [each.name for i, each in enumerate(program) if i not in self.done[rank]]
            assert not left, f"rank {rank} waits for ever for {left[0]}"
        return self.executed

    def start(self) -> None:
        waiting: defaultdict[Meeting, list[tuple[int, int]]] = defaultdict(list)
        for rank, program in enumerate(self.programs):
            for position, operation in enumerate(program):
                if position in self.started[rank] or not self.done[rank].issuperset(operation.after):
                    continue
                if operation.kind != "compute":
                    if self.in_turn(rank, position):
                        waiting[self.meeting(rank, position)].append((rank, position))
                elif not self.computing[rank]:
                    self.computing[rank] = True
                    self.begin(rank, position, operation.duration_ps)
        for meeting, present in waiting.items():
            if len(present) == meeting.members:
                sizes = {self.programs[rank][position].bytes for rank, position in present}
                assert len(sizes) == 1, f"{meeting}: {sizes} bytes"
                for rank, position in present:
                    self.begin(rank, position, sizes.copy().pop() * self.ps_per_byte)

    def earlier(self, rank: int, position: int) -> list[int]:
        """The collectives before this one of the same communicator."""
        program = self.programs[rank]
        slot = program[position].communicator
        return [
            i
            for i, each in enumerate(program[:position])
            if each.kind not in ("compute", "send", "recv") and each.communicator == slot
        ]

    def in_turn(self, rank: int, position: int) -> bool:
        if self.programs[rank][position].kind in ("send", "recv"):
            return True
        return self.done[rank].issuperset(self.earlier(rank, position))

    def meeting(self, rank: int, position: int) -> Meeting:
        operation = self.programs[rank][position]
        group = self.workload.ranks[rank].communicators[operation.communicator]
        members = self.workload.groups[group]
        if operation.kind == "send":
            return Meeting(group, "message", 2, (rank, members[operation.peer], operation.tag))
        if operation.kind == "recv":
            return Meeting(group, "message", 2, (members[operation.peer], rank, operation.tag))
        return Meeting(group, operation.kind, len(members), (len(self.earlier(rank, position)),))

    def begin(self, rank: int, position: int, duration_ps: int) -> None:
        self.started[rank].add(position)
        self.running.append((self.now + duration_ps, rank, position))
        operation = self.programs[rank][position]
        self.executed.append(Executed(rank, operation, self.now, self.now + duration_ps))


@pytest.fixture
def replay() -> Callable[..., list[Executed]]:
    """One iteration of a workload, with `ps_per_byte` of its messages and collectives (0 by default)."""

    def run(workload: Workload, ps_per_byte: int = 0) -> list[Executed]:
        return Replay(workload, ps_per_byte).run()

    return run
