"""The messages of a Chakra execution trace, declared here rather than generated.

Field numbers are those of MLCommons Chakra's `et_def.proto`, package `ChakraProtoMsg`. Fields that nothing
here reads are left out: the decoder skips them, as it does fields of later versions.
"""

from typing import Protocol, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

# In this order: the n-th has field number 3 + 2n in the union of an attribute's values, its list 4 + 2n.
_VALUES = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)

_PACKAGE = "hocket.chakra"
_Field = descriptor_pb2.FieldDescriptorProto

AttributeValue = int | float | bool | str | bytes | tuple[int | float | bool | str | bytes, ...]


class Attribute(Protocol):
    """A named value; `attribute_value` reads it."""

    name: str


class InputsOutputs(Protocol):
    """Inputs or outputs of a node; `values` is a list printed as text."""

    values: str


class NodeMessage(Protocol):
    """A node as in the file; absent fields are 0 or empty."""

    id: int
    name: str
    type: int
    ctrl_deps: list[int]
    data_deps: list[int]
    duration_micros: int
    inputs: InputsOutputs
    attr: list[Attribute]

    def ParseFromString(self, serialized: bytes) -> int: ...  # noqa: N802 (protobuf's name)


def new_node() -> NodeMessage:
    """An empty node, to parse bytes into."""
    return cast(NodeMessage, _NODE())


def new_metadata() -> Message:
    """An empty global metadata message, the first of a file, to parse bytes into."""
    return _METADATA()


def attribute_value(attribute: Attribute) -> AttributeValue | None:
    """The value of an attribute, a list as a tuple; `None` if it has none."""
    which = cast(Message, attribute).WhichOneof("value")
    if which is None:
        return None
    value = getattr(attribute, which)
    return tuple(value.values) if which.endswith("_list") else cast(AttributeValue, value)


def _message(file: descriptor_pb2.FileDescriptorProto, name: str) -> descriptor_pb2.DescriptorProto:
    message = file.message_type.add()
    message.name = name
    return message


def _scalar(
    message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str, *, repeated: bool = False
) -> descriptor_pb2.FieldDescriptorProto:
    field = message.field.add()
    field.name, field.number = name, number
    field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    return field


def _nested(
    message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str, *, repeated: bool = False
) -> descriptor_pb2.FieldDescriptorProto:
    field = _scalar(message, name, number, "message", repeated=repeated)
    field.type_name = f".{_PACKAGE}.{kind}"
    return field


def _declare() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package=_PACKAGE, syntax="proto3")
    for value in _VALUES:
        _scalar(_message(file, f"{value.capitalize()}List"), "values", 1, value, repeated=True)

    attribute = _message(file, "Attribute")
    attribute.oneof_decl.add().name = "value"
    _scalar(attribute, "name", 1, "string")
    for number, value in enumerate(_VALUES):
        _scalar(attribute, f"{value}_val", 3 + 2 * number, value).oneof_index = 0
        _nested(attribute, f"{value}_list", 4 + 2 * number, f"{value.capitalize()}List").oneof_index = 0

    metadata = _message(file, "GlobalMetadata")
    _scalar(metadata, "version", 1, "string")
    _nested(metadata, "attr", 2, "Attribute", repeated=True)

    _scalar(_message(file, "InputsOutputs"), "values", 1, "string")

    node = _message(file, "Node")
    _scalar(node, "id", 1, "uint64")
    _scalar(node, "name", 2, "string")
    # An enum in `et_def.proto`, encoded the same; as an integer, numbers of later versions stay readable.
    _scalar(node, "type", 3, "int32")
    _scalar(node, "ctrl_deps", 4, "uint64", repeated=True)
    _scalar(node, "data_deps", 5, "uint64", repeated=True)
    _scalar(node, "duration_micros", 7, "uint64")
    _nested(node, "inputs", 8, "InputsOutputs")
    _nested(node, "attr", 10, "Attribute", repeated=True)
    return file


# A pool of its own: Chakra's generated modules may be loaded beside it.
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_declare())
_NODE = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.Node"))
_METADATA = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.GlobalMetadata"))
