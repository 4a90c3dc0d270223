"""Reads the file of a rank in a Chakra trace into nodes with attributes by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from hocket.errors import InputError
from hocket.training.chakra.schema import (
    AttributeValue,
    NodeMessage,
    attribute_value,
    new_metadata,
    new_node,
)
from hocket.units import LARGEST, shown

MAX_FILE_BYTES = 2_000_000_000
"""The largest file of one rank that is accepted: about ten million nodes."""

CONVERTED = "convert PyTorch's own execution traces, in JSON, with `chakra_converter PyTorch`"
"""The hint of messages about files in PyTorch's own format."""

# A varint of 64 bits has at most ten bytes of seven bits each.
_LONGEST_VARINT = 10

_GZIP = b"\x1f\x8b"

# Producers spell these differently; the first one that a node has counts.
COMMUNICATOR_NAMES = ("pg_name", "comm_group")
DIMENSION_NAMES = ("involved_dim", "involved_dims", "involve_dims")

# Only these attributes are kept: all attributes of ten million nodes would fill the memory.
_READ = {
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    *COMMUNICATOR_NAMES,
    *DIMENSION_NAMES,
}


class NodeType(IntEnum):
    """Kinds of nodes, with their numbers in the schema."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


@dataclass(frozen=True, slots=True)
class Node:
    """The parts of a node in a rank's trace that Hocket reads.

    `file` is its path and rank for messages. `data` and `control` are dependencies, in the order of
    the file. `duration_us` is 0 where the trace has none. `inputs` is the text that PyTorch wrote for the
    inputs of a metadata node; for other nodes it is empty.
    """

    file: str
    id: int
    name: str
    type: NodeType
    data: tuple[int, ...]
    control: tuple[int, ...]
    duration_us: int
    inputs: str
    attributes: dict[str, AttributeValue]

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        return f"node {self.id} {shown(self.name)}" if self.name else f"node {self.id}"

    def error(self, text: str) -> InputError:
        """An error at this node."""
        return InputError(f"{self.file}: {self.label}: {text}")

    def number(self, name: str) -> int | None:
        """The attribute as a whole number; `None` if the node does not have it.

        Raises `InputError` for anything but a whole number from 0 to 2^63 − 1.
        """
        value = self.attributes.get(name)
        if value is None:
            return None
        # The schema leaves the type of a value to the producer, so a whole number may be a double.
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, int) and 0 <= whole <= LARGEST:
            return int(whole)
        raise self.error(f"{name}: must be a whole number from 0 to {LARGEST}: got {_shown(value)}")

    def needed(self, name: str) -> int:
        """The attribute as by `number`; raises `InputError` if the node does not have it."""
        value = self.number(name)
        if value is None:
            raise self.error(f"a {self.type.name} needs the attribute {name}")
        return value

    def flag(self, name: str) -> bool:
        """The attribute as a truth value; false if the node does not have it."""
        return bool(self.number(name))


def read_nodes(path: Path, rank: int) -> tuple[Node, ...]:
    """The nodes of a rank's file, in its order.

    Raises `InputError` with the position if the file cannot be read, is no Chakra trace, or repeats an id.
    """
    file = f"{path}: rank {rank}"
    messages = _messages(file, _read(path, file))
    where, first = next(messages, (0, b""))
    _check_metadata(file, where, first)
    nodes = []
    by_id: dict[int, Node] = {}
    for where, content in messages:
        node = _node(file, where, content)
        if node.id in by_id:
            raise node.error(f"byte {where}: the id is taken by {by_id[node.id].label}")
        by_id[node.id] = node
        nodes.append(node)
    return tuple(nodes)


def _read(path: Path, file: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{file}: has {size} bytes; the limit is {MAX_FILE_BYTES}")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    if not content:
        raise InputError(f"{file}: is empty; a Chakra trace begins with its metadata")
    if content.startswith(_GZIP):
        raise InputError(f"{file}: is compressed by gzip; decompress it first")
    # As the length of a message, "{" would be followed by a field, and no field starts with these bytes.
    if content.startswith((b'{"', b"{ ", b"{\n", b"{\r")):
        raise InputError(f"{file}: is JSON; {CONVERTED}")
    return content


def _messages(file: str, content: bytes) -> Iterator[tuple[int, bytes]]:
    """Each message of the file with the byte at which it begins; its length precedes it as a varint."""
    where = 0
    while where < len(content):
        length, start = _varint(file, content, where)
        if length > len(content) - start:
            raise InputError(
                f"{file}: is cut short: the message at byte {start} has {length} bytes, "
                f"but {len(content) - start} are left"
            )
        yield start, content[start : start + length]
        where = start + length


def _varint(file: str, content: bytes, where: int) -> tuple[int, int]:
    """The varint at byte `where`, low bits first and seven to a byte, and the position of its end."""
    value = 0
    for place, byte in enumerate(content[where : where + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, where + place + 1
    if where + _LONGEST_VARINT > len(content):
        raise InputError(f"{file}: is cut short: the length of the message at byte {where} is incomplete")
    raise InputError(
        f"{file}: is no Chakra trace: the length of the message at byte {where} has more than "
        f"{_LONGEST_VARINT} bytes"
    )


def _check_metadata(file: str, where: int, content: bytes) -> None:
    metadata = new_metadata()
    _parse(file, where, content, metadata, "GlobalMetadata")
    # Parsed as metadata, a node's id has the wrong wire type and its type is no field: both are unknown.
    unknown = UnknownFieldSet(metadata)
    if any(unknown[index].field_number in (1, 3) for index in range(len(unknown))):
        raise InputError(f"{file}: is no Chakra trace: the first message is a node, not the metadata")


def _parse(file: str, where: int, content: bytes, message: Message | NodeMessage, name: str) -> None:
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise InputError(
            f"{file}: the {len(content)} bytes at byte {where} are not a {name} of a Chakra trace: {error}"
        ) from None


def _node(file: str, where: int, content: bytes) -> Node:
    message = new_node()
    _parse(file, where, content, message, "Node")
    attributes: dict[str, AttributeValue] = {}
    for attribute in message.attr:
        if attribute.name in _READ:
            value = attribute_value(attribute)
            if value is not None:
                attributes.setdefault(attribute.name, value)
    # An unknown type becomes INVALID for a moment, so that the error can name the node.
    is_known = message.type in NodeType.__members__.values()
    node = Node(
        file=file,
        id=message.id,
        name=message.name,
        type=NodeType(message.type) if is_known else NodeType.INVALID,
        data=tuple(message.data_deps),
        control=tuple(message.ctrl_deps),
        duration_us=message.duration_micros,
        inputs=message.inputs.values if message.type == NodeType.METADATA else "",
        attributes=attributes,
    )
    if not is_known:
        known = ", ".join(f"{each.value} ({each.name})" for each in NodeType)
        raise node.error(f"is of type {message.type}, which is not supported; known: {known}")
    return node


def _shown(value: AttributeValue) -> str:
    return "bytes" if isinstance(value, bytes) else shown(value)
