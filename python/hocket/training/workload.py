"""What the ranks of a training job do in one iteration: operations and what they wait for.

Plain data on its way to the engines, which check it: `hocket_scenario::workload` says what it must be.
"""

from dataclasses import dataclass
from typing import Literal

CollectiveKind = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"]
OperationKind = Literal[
    "compute", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send", "recv"
]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a program.

    It starts when those at the positions `after`, all before it in the program, are done. A compute lasts
    `duration_ps`. All others move `bytes` (of a collective as nccl-tests counts them) within the group that
    the rank has at place `communicator` of its list; a send goes to, and a recv comes from, the member at
    place `peer` of that group, and they match by `tag` in the order of the programs.
    """

    name: str
    kind: OperationKind
    after: tuple[int, ...] = ()
    duration_ps: int = 0
    bytes: int = 0
    communicator: int = 0
    peer: int = 0
    tag: int = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """One GPU: the number of the program that it runs, and the numbers of the groups that it is in."""

    program: int
    communicators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Programs, the groups of ranks that communicate, and who runs what.

    Ranks that do the same share a program: they differ in the groups that their communicators are.
    """

    programs: tuple[tuple[Operation, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    ranks: tuple[Rank, ...]
