"""The groups of ranks in the collectives of Chakra traces: by name, by dimensions, or all ranks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hocket.errors import InputError
from hocket.training.chakra.nodes import COMMUNICATOR_NAMES, DIMENSION_NAMES, Node, NodeType
from hocket.units import shown

# ASTRA-sim uses these names for the group of all ranks unless they are defined otherwise.
_EVERYBODY = ("", "0")

Members = tuple[int, ...]


class Communicators:
    """The groups that traces use, numbered by first use.

    A group is a name with its members, so two communicators of the same ranks are two groups, each with its
    own order of collectives.
    """

    def __init__(self, ranks: int, named: Mapping[str, Members], dimensions: Sequence[int] | None) -> None:
        self.groups: list[Members] = []
        self.names: list[str] = []
        self._named = named
        self._dimensions = tuple(dimensions) if dimensions is not None else None
        self._numbers: dict[tuple[str, Members], int] = {}
        self._everybody = tuple(range(ranks))

    def everybody(self) -> int:
        """The group of all ranks, in their order."""
        return self._number("", self._everybody)

    def of(self, node: Node, rank: int, process_groups: Mapping[str, Members]) -> int:
        """The group of a collective: the communicator that it names, as the `process_groups` of the rank's
        trace or else the file of groups define it; otherwise the ranks along its dimensions of the topology,
        or all ranks.

        Raises `InputError` at the node if the group is unknown or does not contain `rank`.
        """
        name = _name(node)
        members = process_groups.get(name, self._named.get(name))
        if members is None and name not in _EVERYBODY:
            raise node.error(
                f"names the communicator {shown(name)}; neither the trace nor a file of groups defines it"
            )
        if members is None:
            name, members = self._across(node, rank)
        # Checked here, where the message can name the node.
        if rank not in members:
            raise node.error(f"its rank is not in the communicator {shown(name)} of {listed(members)}")
        return self._number(name, members)

    def _across(self, node: Node, rank: int) -> tuple[str, Members]:
        """The ranks that differ from `rank` only in the dimensions that the node involves.

        Ranks are numbered along the first dimension first, as in ASTRA-sim's topologies.
        """
        involved = _involved(node)
        if all(involved):
            return "", self._everybody
        if self._dimensions is None:
            raise node.error(
                f"involves only some dimensions of the topology, {_bits(involved)}; give the number of ranks "
                "along each as `dimensions`"
            )
        if len(involved) < len(self._dimensions):
            raise node.error(f"involves {_bits(involved)}; `dimensions` has {len(self._dimensions)}")
        members = [rank]
        stride = 1
        for size, is_involved in zip(self._dimensions, involved, strict=False):
            if is_involved:
                place = rank // stride % size
                members = [each + (other - place) * stride for each in members for other in range(size)]
            stride *= size
        return f"dimensions {_bits(involved)}", tuple(sorted(members))

    def _number(self, name: str, members: Members) -> int:
        key = (name, members)
        if key not in self._numbers:
            self._numbers[key] = len(self.groups)
            self.groups.append(members)
            self.names.append(name)
        return self._numbers[key]


def read_groups(path: Path, ranks: int) -> dict[str, Members]:
    """The communicators in ASTRA-sim's file of groups, JSON such as {"1": [0, 1], "2": [2, 3]}.

    Raises `InputError` with file, communicator and value if it is anything else.
    """
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(
            f"{path}: must be an object of communicators, each a list of ranks: got {shown(found)}"
        )
    return {name: _members(f"{path}: communicator {shown(name)}", of, ranks) for name, of in found.items()}


def named_in_trace(nodes: Iterable[Node], ranks: int) -> dict[str, Members]:
    """The process groups that PyTorch wrote into a rank's trace.

    They are JSON in the inputs of a metadata node, `[{"pg_name": "1", "ranks": [0, 1]}, …]`; a group without
    ranks has all ranks. Other metadata is ignored.
    """
    groups: dict[str, Members] = {}
    for node in nodes:
        # PyTorch prints the inputs as a list of strings, so quotes and brackets surround the JSON.
        start, end = node.inputs.find("[{"), node.inputs.rfind("}]")
        if node.type is not NodeType.METADATA or "pg_name" not in node.inputs or not 0 <= start < end:
            continue
        try:
            found = json.loads(node.inputs[start : end + 2])
        except (ValueError, RecursionError) as error:
            raise node.error(f"its process groups are not JSON: {error}") from None
        for each in found:
            if not isinstance(each, dict) or not isinstance(each.get("pg_name"), str | int):
                raise node.error(f"a process group must be an object with a pg_name: got {shown(each)}")
            name = str(each["pg_name"])
            members = each.get("ranks") or list(range(ranks))
            groups[name] = _members(f"{node.file}: {node.label}: process group {shown(name)}", members, ranks)
    return groups


def check_dimensions(dimensions: Sequence[int] | None, ranks: int) -> None:
    """Raises `InputError` unless the product of the dimensions is the number of ranks."""
    if dimensions is None:
        return
    product = 1
    for size in dimensions:
        if not isinstance(size, int) or size < 1:
            raise InputError(f"dimensions: each must be at least 1: got {shown(size)}")
        product *= size
    if product != ranks:
        sizes = " × ".join(str(size) for size in dimensions)
        raise InputError(f"dimensions: {sizes} are {product} ranks; the traces have {ranks}")


def listed(members: Members) -> str:
    """The ranks as text for messages, at most eight of them."""
    shown_members = ", ".join(str(rank) for rank in members[:8])
    return f"ranks {shown_members}{f', … ({len(members)} in all)' if len(members) > 8 else ''}"


def _members(where: str, found: object, ranks: int) -> Members:
    if not isinstance(found, list) or not found:
        raise InputError(f"{where}: must be a list of ranks: got {shown(found)}")
    for rank in found:
        # JSON's `true` is an `int` in Python.
        if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < ranks:
            raise InputError(f"{where}: has {shown(rank)}; there are files of ranks 0 to {ranks - 1}")
    # Sorted, because a group is recognised by its name and members, which ranks may list in another order.
    members = tuple(sorted(set(found)))
    if len(members) < len(found):
        raise InputError(f"{where}: has a rank twice: {listed(tuple(found))}")
    return members


def _name(node: Node) -> str:
    for attribute in COMMUNICATOR_NAMES:
        value = node.attributes.get(attribute)
        if isinstance(value, str | int):
            return str(value)
        if value is not None:
            raise node.error(f"{attribute}: must be a name: got a {type(value).__name__}")
    return ""


def _involved(node: Node) -> tuple[bool, ...]:
    for attribute in DIMENSION_NAMES:
        value = node.attributes.get(attribute)
        if isinstance(value, tuple):
            return tuple(bool(each) for each in value)
        if value is not None:
            raise node.error(f"{attribute}: must be a list: got {shown(str(value))}")
    return ()


def _bits(involved: Iterable[bool]) -> str:
    return f"[{', '.join('1' if each else '0' for each in involved)}]"
