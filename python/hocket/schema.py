"""What tables of a plan are made of: fields that are text with a unit, names, counts, and defaults with their
sources.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hocket.errors import InputError
from hocket.units import LARGEST, format_bytes, parse_bytes, shown

KeyPath: TypeAlias = tuple[str | int, ...]
Mistake: TypeAlias = tuple[KeyPath, str]


class TableError(ValueError):
    """What is wrong between keys, carried through pydantic, which knows one error per table."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(f"{len(mistakes)} mistakes")
        self.mistakes = mistakes


class Table(BaseModel):
    """A table of a plan. Keys that it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Spelling(NamedTuple):
    """Another name for a key, and what turns its value into what that key takes."""

    key: str
    read: Callable[[object], object]


def respelt(given: object, spellings: Mapping[str, Spelling]) -> object:
    """The table `given` with the keys of `spellings` turned into those they stand for.

    Raises `TableError` if a value cannot be read, or a key is given by two names.
    """
    if not isinstance(given, Mapping):
        return given
    found: dict[Any, object] = {}
    mistakes: list[Mistake] = []
    for key, value in given.items():
        spelling = spellings.get(key) or Spelling(key, lambda value: value)
        if spelling.key in found:
            mistakes.append(((key,), f"is {spelling.key} by another name, and given twice"))
            continue
        try:
            found[spelling.key] = spelling.read(value)
        except InputError as error:
            mistakes.append(((key,), str(error)))
    if mistakes:
        raise TableError(mistakes)
    return found


def integer(value: object, least: int, most: int) -> int:
    """`value` if it is a whole number within limits. Raises `InputError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"must be a whole number from {least} to {most}: got {shown(value)}")
    return value


def whole(unit: str, factor: int = 1) -> Callable[[object], object]:
    """Reads a whole number of `factor` times a unit."""
    return lambda value: f"{integer(value, 0, 2**31) * factor} {unit}"


def default(value: object, source: str, key: str | None = None) -> Any:
    """A field with a default whose source the manifest prints; `key` is its name in the file."""
    return Field(default=value, alias=key, json_schema_extra={"source": source})


def source_of(table: Table, name: str) -> str:
    """Where the value of a field with a default is from: the plan, or the default's source."""
    extra = type(table).model_fields[name].json_schema_extra
    assert isinstance(extra, dict), "a field without a source has no default"
    return "plan" if name in table.model_fields_set else str(extra["source"])


def number(value: object) -> float:
    """`value` if it is a finite number. Raises `InputError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"must be a number: got {shown(value)}")
    if not abs(value) <= LARGEST:  # nor is NaN
        raise InputError(f"must be a finite number: got {shown(value)}")
    return float(value)


class _OneOrSeveral:
    """In the JSON Schema, a list or one of its items alone."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


class _FlagOrTable:
    """In the JSON Schema, a table, or true for its defaults and false for none."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "boolean"}, *handler(schema)["anyOf"]]}


def one_or_several() -> tuple[BeforeValidator, _OneOrSeveral]:
    """Reads one item where a tuple of several may be."""
    return BeforeValidator(
        lambda value: value if isinstance(value, list | tuple) else (value,)
    ), _OneOrSeveral()


def flag_or_table(table: type[Table], keys: str) -> tuple[BeforeValidator, _FlagOrTable]:
    """Reads true as `table` with its defaults and false as `None`; `keys` names the table's in the error."""

    def read(value: object) -> object:
        if isinstance(value, bool):
            return {} if value else None
        if not isinstance(value, Mapping | table):
            raise InputError(f"must be true, false or a table of {keys}: got {shown(value)}")
        return value

    return BeforeValidator(read), _FlagOrTable()


def size_within(least: int, most: int) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """Bytes within limits, as text with a unit."""

    def read(value: Any) -> int:
        found = parse_bytes(value)
        if not least <= found <= most:
            limits = f"{format_bytes(least)} to {format_bytes(most)}"
            raise InputError(f"must be from {limits}: got {shown(value)}")
        return found

    schema = {"type": "string", "examples": ["4096 B"]}
    return BeforeValidator(read), PlainSerializer(format_bytes, return_type=str), WithJsonSchema(schema)


def _name(value: object) -> object:
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise InputError(f"must be a name of printable characters: got {shown(value)}")
    return value


def _file_path(value: object) -> object:
    if isinstance(value, str) and not (value and value.isprintable()):
        raise InputError(f"must be the path of a file or a directory: got {shown(value)}")
    return value


Name = Annotated[StrictStr, Field(max_length=100), BeforeValidator(_name)]
FilePath = Annotated[StrictStr, BeforeValidator(_file_path)]
"""A path as it is written: relative ones start from the directory of the plan."""

Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(number)]
Count = Annotated[StrictInt, Field(ge=1, le=LARGEST)]


def tables_in(annotation: object) -> Iterator[type[Table]]:
    """The tables that a field of this type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    for argument in get_args(annotation):
        yield from tables_in(argument)
