"""The workload of a training job: the operations of its ranks in one iteration, and their dependencies.

These classes are plain data. The engines validate them; `hocket_scenario::workload` documents the rules.
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

    It starts when the operations at the positions `after`, all before it in the program, are done. A compute
    lasts `duration_ps`. All other kinds move `bytes` (those of a collective as nccl-tests counts them) within
    the group at index `communicator` of the rank's list. A send goes to, and a recv comes from, the member at
    index `peer` of that group; they match by `tag` in the order of the programs.
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
    """One GPU: the number of its program, and the numbers of the groups that it belongs to."""

    program: int
    communicators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Programs, groups of ranks that communicate, and the ranks that run the programs.

    Ranks with the same operations share a program; they differ in the groups behind their communicators.
    """

    programs: tuple[tuple[Operation, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    ranks: tuple[Rank, ...]
