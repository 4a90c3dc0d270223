"""A builder of programs: operations in order, each with the operations that it waits for.

`layers`, `pipeline` and `embedding_tables` decide which operations a training iteration has.
"""

from typing import TypeAlias

from hocket.training.workload import CollectiveKind, Operation

Done: TypeAlias = tuple[int, ...]
"""Positions of operations in a program, after all of which the next one may start."""

START: Done = ()
"""Nothing to wait for but the start of the iteration."""


class Program:
    """A program under construction. Each method adds an operation and returns what successors must wait for.

    An operation that does nothing, a compute of 0 ps or a collective of 0 bytes, is left out: its successors
    wait for what it would have waited for.
    """

    def __init__(self) -> None:
        self._operations: list[Operation] = []

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations so far, in order."""
        return tuple(self._operations)

    def compute(self, name: str, duration_ps: int, after: Done) -> Done:
        """Adds a compute of `duration_ps`."""
        if duration_ps == 0:
            return after
        return self._add(Operation(name, "compute", _positions(after), duration_ps=duration_ps))

    def collective(self, name: str, kind: CollectiveKind, size: int, communicator: int, after: Done) -> Done:
        """Adds a collective of `size` bytes, as nccl-tests counts them, in the group of `communicator`."""
        if size == 0:
            return after
        return self._add(
            Operation(name, kind, _positions(after), bytes=size, communicator=communicator),
        )

    def send(self, name: str, size: int, communicator: int, peer: int, tag: int, after: Done) -> Done:
        """Adds a send of `size` bytes to the member at index `peer` of the group of `communicator`."""
        return self._add(
            Operation(
                name, "send", _positions(after), bytes=size, communicator=communicator, peer=peer, tag=tag
            )
        )

    def recv(self, name: str, size: int, communicator: int, peer: int, tag: int, after: Done) -> Done:
        """Adds a receive of `size` bytes from the member at index `peer` of the group of `communicator`."""
        return self._add(
            Operation(
                name, "recv", _positions(after), bytes=size, communicator=communicator, peer=peer, tag=tag
            )
        )

    def _add(self, operation: Operation) -> Done:
        self._operations.append(operation)
        return (len(self._operations) - 1,)


def _positions(after: Done) -> Done:
    # Callers add up `Done`s, which may contain the same operation twice.
    return tuple(sorted(set(after)))
