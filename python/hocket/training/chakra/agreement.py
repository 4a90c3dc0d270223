"""Checks that ranks of Chakra traces agree on the order of collectives, and on sends and receives."""

from dataclasses import dataclass

from hocket.training.chakra.communicators import Communicators, listed
from hocket.training.chakra.nodes import Node
from hocket.training.chakra.programs import RankProgram
from hocket.training.workload import Operation
from hocket.units import shown


@dataclass(frozen=True, slots=True)
class _Posted:
    """An operation that other ranks take part in, and the node that it comes from."""

    operation: Operation
    node: Node

    @property
    def what(self) -> str:
        return f"{self.operation.kind} of {self.operation.bytes} bytes"


class Agreement:
    """Compares ranks one after another and refuses inconsistent ones."""

    def __init__(self, communicators: Communicators) -> None:
        self._communicators = communicators
        # For each group, the first rank that uses it with its operations, and all ranks that use it.
        self._first: dict[int, tuple[int, list[_Posted]]] = {}
        self._users: dict[int, set[int]] = {}
        # By sender, receiver and tag.
        self._sends: dict[tuple[int, int, int], list[_Posted]] = {}
        self._receives: dict[tuple[int, int, int], list[_Posted]] = {}

    def add(self, rank: int, program: RankProgram) -> None:
        """Adds a rank's program. Raises `InputError` if its collectives differ from an earlier rank's."""
        # Only collectives are ordered within a group; messages are matched by their ends and tag.
        collectives: dict[int, list[_Posted]] = {}
        for operation, node in zip(program.operations, program.nodes, strict=True):
            posted = _Posted(operation, node)
            match operation.kind:
                case "compute":
                    pass
                case "send":
                    self._sends.setdefault((rank, operation.peer, operation.tag), []).append(posted)
                case "recv":
                    self._receives.setdefault((operation.peer, rank, operation.tag), []).append(posted)
                case _:
                    collectives.setdefault(program.groups[operation.communicator], []).append(posted)
        for group, posts in collectives.items():
            self._users.setdefault(group, set()).add(rank)
            # Ranks that agree with the first one agree with each other: no need to compare all pairs.
            first_rank, first = self._first.setdefault(group, (rank, posts))
            self._compare(group, rank, posts, first_rank, first)

    def check(self) -> None:
        """Call after all ranks were added. Raises `InputError` if a member of a group takes no part in its
        collectives, or if a send has no receive or a receive no send.
        """
        for group, (_, posts) in self._first.items():
            members = self._communicators.groups[group]
            missing = [member for member in members if member not in self._users[group]]
            if missing:
                raise posts[0].node.error(
                    f"{posts[0].what} in {self._group(group)}; rank {missing[0]} has none there"
                )
        for ends, posts in self._sends.items():
            self._match(ends, posts, self._receives.get(ends, []), "send", "receive")
        # Also from the receives' side: some may have no send at all.
        for ends, posts in self._receives.items():
            self._match(ends, posts, self._sends.get(ends, []), "receive", "send")

    def _compare(
        self, group: int, rank: int, posts: list[_Posted], first_rank: int, first: list[_Posted]
    ) -> None:
        for number, (ours, theirs) in enumerate(zip(posts, first, strict=False), start=1):
            if (ours.operation.kind, ours.operation.bytes) != (theirs.operation.kind, theirs.operation.bytes):
                raise ours.node.error(
                    f"collective {number} of {self._group(group)} is {_article(ours.what)}; "
                    f"for rank {first_rank} it is {_article(theirs.what)}, {theirs.node.label}"
                )
        if len(posts) != len(first):
            fewer = first_rank if len(posts) > len(first) else rank
            longer, shorter = max(posts, first, key=len), min(len(posts), len(first))
            raise longer[shorter].node.error(
                f"{longer[shorter].what} is collective {shorter + 1} of {self._group(group)}; "
                f"rank {fewer} has {shorter} there"
            )

    def _match(
        self,
        ends: tuple[int, int, int],
        posts: list[_Posted],
        others: list[_Posted],
        half: str,
        other_half: str,
    ) -> None:
        source, destination, tag = ends
        path = f"from rank {source} to rank {destination} with tag {tag}"
        if len(posts) > len(others):
            raise posts[len(others)].node.error(
                f"{half} {len(others) + 1} {path} has no {other_half}; there are {len(others)}"
            )
        for number, (ours, theirs) in enumerate(zip(posts, others, strict=False), start=1):
            if ours.operation.bytes != theirs.operation.bytes:
                raise ours.node.error(
                    f"{half} {number} {path} has {ours.operation.bytes} bytes; its {other_half}, "
                    f"{theirs.node.label}, has {theirs.operation.bytes}"
                )

    def _group(self, group: int) -> str:
        name = self._communicators.names[group]
        called = f"communicator {shown(name)} of " if name else ""
        return f"{called}{listed(self._communicators.groups[group])}"


def _article(what: str) -> str:
    return f"an {what}" if what[0] == "a" else f"a {what}"
