"""Builds the program of one rank from the nodes of its trace.

Nodes that take no time on the GPU are left out; their successors wait for their predecessors instead.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from hocket.training.chakra.communicators import Communicators, Members
from hocket.training.chakra.nodes import Node, NodeType
from hocket.training.workload import CollectiveKind, Operation
from hocket.units import LARGEST

MICROSECOND_PS = 10**6

# Numbers of the schema. REDUCE, GATHER and SCATTER are missing: no other simulator of these traces runs them
# either.
_COLLECTIVES: dict[int, CollectiveKind] = {
    0: "all-reduce",
    2: "all-gather",
    5: "broadcast",
    6: "all-to-all",
    7: "reduce-scatter",
    8: "reduce-scatter",  # REDUCE_SCATTER_BLOCK: MPI's name for equal blocks
    9: "all-reduce",  # BARRIER
}
_UNSUPPORTED = {1: "REDUCE", 3: "GATHER", 4: "SCATTER"}
_BARRIER = 9

# PyTorch's barrier over NCCL is an all-reduce of one number of four bytes.
_BARRIER_BYTES = 4

# A node that takes no time but waits for more nodes than this becomes a compute of no length. Otherwise each
# successor would wait for all predecessors, and in traces of many streams the number of dependencies would
# grow with the square of the length.
_MOST_WAITED_FOR = 64

# Names of template kernels have thousands of letters.
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Roofline:
    """The time of a compute for which the trace has only its work: the longer of its operations at the GPU's
    peak rate and its bytes at the memory's bandwidth, as in ASTRA-sim's roofline.

    >>> Roofline(peak_flops=10**12, memory_bytes_per_s=10**9).duration_ps(3 * 10**9, 10**6)
    3000000000
    """

    peak_flops: int
    memory_bytes_per_s: int

    def __post_init__(self) -> None:
        for name in ("peak_flops", "memory_bytes_per_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be above 0: got {getattr(self, name)}")

    def duration_ps(self, num_ops: int, tensor_size: int) -> int:
        """Picoseconds for `num_ops` floating-point operations on `tensor_size` bytes, rounded up."""
        seconds = max(Fraction(num_ops, self.peak_flops), Fraction(tensor_size, self.memory_bytes_per_s))
        # Rounded up, so that no work takes no time: computes of 0 ps are left out.
        return ceil(seconds * 10**12)


@dataclass(slots=True)
class RankProgram:
    """The operations of one rank, the groups of its communicators, and the nodes of its operations."""

    operations: list[Operation] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)


def program_of(
    nodes: Sequence[Node],
    rank: int,
    communicators: Communicators,
    process_groups: Mapping[str, Members],
    roofline: Roofline | None,
) -> RankProgram:
    """The operations of one rank, each after those that it waits for. Among several that could come next, the
    lowest id comes first, as ASTRA-sim issues ready nodes.

    Raises `InputError` at a node that cannot be run.
    """
    builder = _Builder(rank, communicators, process_groups, roofline, computes_on_cpu(nodes))
    # For each node, the operations that its successors wait for.
    stands_for: dict[int, frozenset[int]] = {}
    for node, depends in in_order(nodes):
        after = frozenset[int]().union(*(stands_for[each] for each in depends))
        stands_for[node.id] = builder.add(node, after)
    return builder.program


def computes_on_cpu(nodes: Sequence[Node]) -> bool:
    """Whether the trace has computes and all are on the CPU; only then do they take time."""
    computes = [node for node in nodes if node.type is NodeType.COMP]
    return bool(computes) and all(node.flag("is_cpu_op") for node in computes)


def in_order(nodes: Sequence[Node]) -> list[tuple[Node, frozenset[int]]]:
    """The nodes in an order in which each comes after its dependencies, whose ids are returned with it. Among
    several that could come next, the lowest id comes first.

    Raises `InputError` at a node whose data dependency is missing, or that waits for itself.
    """
    by_id = {node.id: node for node in nodes}
    depends = {node.id: _depends(node, by_id) for node in nodes}
    waits = {number: len(ids) for number, ids in depends.items()}
    successors: dict[int, list[int]] = {}
    for number, ids in depends.items():
        for each in ids:
            successors.setdefault(each, []).append(number)
    ready = [number for number, count in waits.items() if count == 0]
    heapq.heapify(ready)
    ordered = []
    while ready:
        number = heapq.heappop(ready)
        ordered.append((by_id[number], depends[number]))
        for each in successors.get(number, ()):
            waits[each] -= 1
            if waits[each] == 0:
                heapq.heappush(ready, each)
    if len(ordered) < len(nodes):
        _refuse_cycle(by_id, depends, waits)
    return ordered


def _depends(node: Node, by_id: Mapping[int, Node]) -> frozenset[int]:
    """The ids that a node waits for. Control dependencies may be missing: in PyTorch's traces they are
    callers, and the converter leaves out nodes to which no data dependency leads.
    """
    for each in node.data:
        if each not in by_id:
            raise node.error(f"waits for node {each}, which is not in the file")
    return frozenset(node.data).union(each for each in node.control if each in by_id)


def _refuse_cycle(
    by_id: Mapping[int, Node], depends: Mapping[int, frozenset[int]], waits: Mapping[int, int]
) -> None:
    """Raises an error that names a cycle: the dependencies of any node that still waits lead to one."""
    number = min(number for number, count in waits.items() if count > 0)
    path: dict[int, None] = {}
    while number not in path:
        path[number] = None
        number = min(each for each in depends[number] if waits[each] > 0)
    cycle: list[object] = [*list(path)[list(path).index(number) :], number]
    some = cycle if len(cycle) <= 10 else [*cycle[:8], "…", cycle[-1]]
    raise by_id[number].error(f"waits for itself: {' → '.join(str(each) for each in some)}")


class _Builder:
    """Appends operations to a rank's program, node by node."""

    def __init__(
        self,
        rank: int,
        communicators: Communicators,
        process_groups: Mapping[str, Members],
        roofline: Roofline | None,
        on_cpu: bool,
    ) -> None:
        self.program = RankProgram()
        self._rank = rank
        self._communicators = communicators
        self._process_groups = process_groups
        self._roofline = roofline
        self._on_cpu = on_cpu
        self._places: dict[int, int] = {}

    def add(self, node: Node, after: frozenset[int]) -> frozenset[int]:
        """Appends the node's operation, if any; returns the operations that its successors wait for."""
        operation = self._operation(node, tuple(sorted(after)))
        if operation is None:
            if len(after) <= _MOST_WAITED_FOR:
                return after
            operation = Operation(_name(node), "compute", tuple(sorted(after)))
        self.program.operations.append(operation)
        self.program.nodes.append(node)
        return frozenset({len(self.program.operations) - 1})

    def _operation(self, node: Node, after: tuple[int, ...]) -> Operation | None:
        match node.type:
            case NodeType.COMP | NodeType.MEM_LOAD | NodeType.MEM_STORE:
                duration_ps = self._duration_ps(node)
                return Operation(_name(node), "compute", after, duration_ps) if duration_ps else None
            case NodeType.COMM_COLL:
                return self._collective(node, after)
            case NodeType.COMM_SEND | NodeType.COMM_RECV:
                return self._exchange(node, after)
            case NodeType.METADATA | NodeType.INVALID:
                return None

    def _duration_ps(self, node: Node) -> int:
        # The CPU works in parallel with the GPU, but a rank has a single stream of computes.
        if node.type is NodeType.COMP and node.flag("is_cpu_op") and not self._on_cpu:
            return 0
        duration_ps = node.duration_us * MICROSECOND_PS
        if duration_ps == 0:
            duration_ps = self._modelled_ps(node)
        if duration_ps > LARGEST:
            raise node.error(f"takes {duration_ps} ps; the limit is {LARGEST}")
        return duration_ps

    def _modelled_ps(self, node: Node) -> int:
        """The roofline's time of a node without a duration; 0 if it has no work either."""
        is_compute = node.type is NodeType.COMP
        num_ops = (node.number("num_ops") if is_compute else None) or 0
        # For a compute of no operations, `tensor_size` only describes its tensors.
        tensor_size = (node.number("tensor_size") if num_ops or not is_compute else None) or 0
        if not num_ops and not tensor_size:
            return 0
        if self._roofline is None:
            work = f"{num_ops} operations" if num_ops else f"{tensor_size} bytes of memory"
            raise node.error(
                f"has no duration, only {work}; give a roofline (peak FLOP/s and memory bandwidth)"
            )
        return self._roofline.duration_ps(num_ops, tensor_size)

    def _collective(self, node: Node, after: tuple[int, ...]) -> Operation | None:
        number = node.needed("comm_type")
        if number not in _COLLECTIVES:
            name = _UNSUPPORTED.get(number, "an unknown type")
            raise node.error(f"comm_type: {number} ({name}) is not supported")
        kind = _COLLECTIVES[number]
        size = _BARRIER_BYTES if number == _BARRIER else node.needed("comm_size")
        group = self._communicators.of(node, self._rank, self._process_groups)
        members = len(self._communicators.groups[group])
        # `comm_size` is the input of a rank, while nccl-tests counts the output of an all-gather.
        size_bytes = size * members if kind == "all-gather" else size
        if size_bytes > LARGEST:
            raise node.error(f"moves {size_bytes} bytes; the limit is {LARGEST}")
        if members == 1 or size_bytes == 0:
            return None
        return Operation(_name(node), kind, after, bytes=size_bytes, communicator=self._place(group))

    def _exchange(self, node: Node, after: tuple[int, ...]) -> Operation | None:
        kind, peer_name, own_name = (
            ("send", "comm_dst", "comm_src")
            if node.type is NodeType.COMM_SEND
            else ("recv", "comm_src", "comm_dst")
        )
        # Sends and receives name ranks of the whole job, whatever communicator they were posted in.
        peer = node.needed(peer_name)
        itself = node.number(own_name)
        group = self._communicators.everybody()
        ranks = len(self._communicators.groups[group])
        if itself not in (None, self._rank):
            raise node.error(f"{own_name}: is {itself} in the trace of rank {self._rank}")
        if peer >= ranks:
            raise node.error(f"{peer_name}: is {peer}; there are files of ranks 0 to {ranks - 1}")
        if peer == self._rank:
            raise node.error(f"{peer_name}: is {peer}, the rank itself")
        size_bytes = node.needed("comm_size")
        tag = node.number("comm_tag") or 0
        if size_bytes == 0:
            return None
        return Operation(
            _name(node),
            "send" if kind == "send" else "recv",
            after,
            bytes=size_bytes,
            communicator=self._place(group),
            peer=peer,
            tag=tag,
        )

    def _place(self, group: int) -> int:
        """The index of the group in the rank's list of communicators, which it is added to if new."""
        if group not in self._places:
            self._places[group] = len(self.program.groups)
            self.program.groups.append(group)
        return self._places[group]


def _name(node: Node) -> str:
    name = node.name or f"node {node.id}"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
