"""The building blocks of a plan's tables: their base class and its constructor, types of fields, and defaults
with their sources.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, ParamSpec, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hocket.errors import InputError
from hocket.plan.table_errors import Mistake, TableError, refusal, tables_in
from hocket.units import LARGEST, Quantity, format_bytes, parse_bytes, shown

P = ParamSpec("P")

# The `repr` of a table is one line, in which a longer list is shown as its number of entries.
_MOST_LISTED = 4

AS_SHORT_AS_FILES = "as short as files"
"""The context of a dump that writes a table with only a name as the name itself."""


class Unquoted(str):
    """Text that the `repr` of a table shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class Table(BaseModel):
    """A table of a plan. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, /, **keys: object) -> None:
        """Raises `InputError`, one line per mistake, with the same sentences as for a file."""
        try:
            super().__init__(**keys)
        except (ValidationError, UnicodeEncodeError) as error:
            raise refusal(error, type(self)) from None

    # With this mark, which pydantic's own constructor has, pydantic validates a table without calling it.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def to_dict(self) -> dict[str, Any]:
        """The given keys in the form of a file; those of a plan are what `parse_plan` takes."""
        return self.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True, context=AS_SHORT_AS_FILES
        )

    def _given(self) -> dict[str, Any]:
        """The given keys in the form of the constructor: tables as objects, quantities as text."""
        fields = type(self).model_fields
        given = [name for name in fields if name in self.model_fields_set and getattr(self, name) is not None]
        # Tables stay objects: as text, they would lose the directory of their relative paths.
        tables = {name for name in given if any(tables_in(fields[name].annotation))}
        texts = self.model_dump(mode="json", by_alias=False, include=self.model_fields_set - tables)
        return {
            fields[name].alias or name: getattr(self, name) if name in tables else texts[name]
            for name in given
        }

    def _replaced(self, changes: Mapping[str, object]) -> Self:
        """A new table with `changes` to the given keys; a value of `None` leaves a key out."""
        given = {**self._given(), **changes}
        return type(self)(**{key: value for key, value in given.items() if value is not None})

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """The given keys on one line, long lists as their number of entries."""
        positional = _positional(type(self).__init__)
        for key, value in self._given().items():
            yield None if key in positional else key, _brief(value)

    __str__ = BaseModel.__repr__
    # A table must not be iterable: where a list of tables is expected, pydantic would take the fields of a
    # single table for the entries of the list.
    __iter__ = None  # type: ignore[assignment]


def counted(number: int, one: str, several: str = "") -> str:
    """A count with its noun; `several` is the plural if it is not `one` with an s.

    >>> counted(1, "job"), counted(2, "job"), counted(2, "entry", "entries")
    ('1 job', '2 jobs', '2 entries')
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _brief(value: object) -> object:
    match value:
        case str():
            return Unquoted(shown(value))
        case list() | tuple() if len(value) <= _MOST_LISTED and all(isinstance(each, str) for each in value):
            return value
        case dict() if len(value) == 1:
            ((key, only),) = value.items()
            return {key: _brief(only)}
        case list() | tuple() | dict():
            return Unquoted(f"<{counted(len(value), 'entry', 'entries')}>")
        case _:
            return value


def constructor(signature: Callable[P, None]) -> Callable[P, None]:
    """Decorates `signature`, an `__init__` without a body, to be the constructor of a table.

    The signature lists the keys for type checkers, editors and `help`; the fields check their values. A value
    of `None` leaves a key out.
    """
    positional = _positional(signature)

    @wraps(signature)
    def construct(*values: P.args, **keys: P.kwargs) -> None:
        taken: tuple[Any, ...] = values
        table, *placed = taken
        # `zip` below would silently drop what is too much.
        if len(placed) > len(positional):
            places = ", ".join(positional) or "nothing"
            raise TypeError(
                f"{type(table).__name__} takes {counted(len(positional), 'positional argument')}, {places}: "
                f"got {len(placed)}"
            )
        given = {key: value for key, value in keys.items() if value is not None}
        Table.__init__(table, **dict(zip(positional, placed, strict=False)), **given)

    vars(construct).update(__signature__=_spelt_out(signature), __pydantic_base_init__=True)
    return construct


def _positional(init: Callable[..., None]) -> list[str]:
    """The keys that a constructor also takes as positional arguments."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    return [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


# For `help` and editors: `inspect` shows only `**keys`.
def _spelt_out(init: Callable[..., None]) -> inspect.Signature:
    """The signature of `init`, with the keys of `**keys: Unpack[TypedDict]` as separate parameters."""
    signature = inspect.signature(init)
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.kind is each.VAR_KEYWORD:
            (keys,) = get_args(each.annotation)
            parameters += [
                inspect.Parameter(key, each.KEYWORD_ONLY, default=None, annotation=annotation)
                for key, annotation in keys.__annotations__.items()
            ]
        else:
            parameters.append(each)
    return signature.replace(parameters=parameters)


class Spelling(NamedTuple):
    """Another name for a key: the key it stands for, and how its value becomes a value of that key."""

    key: str
    read: Callable[[object], object]


def respelt(given: object, spellings: Mapping[str, Spelling]) -> object:
    """The table `given` with the keys of `spellings` replaced by those they stand for.

    Raises `TableError` if a value cannot be read, or a key is given by two names.
    """
    if not isinstance(given, Mapping):
        return given
    found: dict[Any, object] = {}
    spelt_as: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for key, value in given.items():
        spelling = spellings.get(key) or Spelling(key, lambda value: value)
        first = spelt_as.setdefault(spelling.key, key)
        if first != key:
            # Neither name takes precedence, even if both have the same value.
            mistakes.append(((key,), f"means the same as {first}; give one of them"))
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
    # In Python, True and False are integers.
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"must be a whole number from {least} to {most}: got {shown(value)}")
    return value


def whole(unit: str, factor: int = 1) -> Callable[[object], object]:
    """Reads a whole number of `factor` times a unit."""
    return lambda value: f"{integer(value, 0, 2**31) * factor} {unit}"


def in_seconds(value: object) -> str:
    """Reads a number of seconds, to the nearest picosecond: computed seconds are seldom whole picoseconds."""
    if isinstance(value, str | Quantity):
        raise InputError(
            f"must be a number of seconds; text with a unit is for the key without _s: got {shown(value)}"
        )
    found = number(value)
    if not 0 <= found <= LARGEST / 1e12:
        raise InputError(f"must be from 0 to {LARGEST // 10**12} seconds: got {shown(value)}")
    return f"{round(found * 1e12)} ps"


def default(value: object, source: str, key: str | None = None) -> Any:
    """A field with a default and its source, which manifests contain; `key` is its name in the file."""
    return Field(default=value, alias=key, json_schema_extra={"source": source})


def source_of(table: Table, name: str) -> str:
    """The source of the value of a field with a default: "plan", or the default's source."""
    extra = type(table).model_fields[name].json_schema_extra
    assert isinstance(extra, dict), "a field without a source has no default"
    return "plan" if name in table.model_fields_set else str(extra["source"])


def number(value: object) -> float:
    """`value` if it is a finite number. Raises `InputError` for anything else."""
    # As in `integer`, true and false are not numbers here.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"must be a number: got {shown(value)}")
    if not abs(value) <= LARGEST:  # false for NaN, too
        raise InputError(f"must be a finite number: got {shown(value)}")
    return float(value)


class _OneOrSeveral:
    """In the JSON Schema: a list, or one item alone."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


class _FlagOrTable:
    """In the JSON Schema: a table, true for its defaults, or false for none."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "boolean"}, *handler(schema)["anyOf"]]}


def one_or_several() -> tuple[BeforeValidator, PlainSerializer, _OneOrSeveral]:
    """Makes a tuple field also accept one item alone, and write a single item so."""
    read = BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))
    write = PlainSerializer(lambda values: values[0] if len(values) == 1 else list(values))
    return read, write, _OneOrSeveral()


def flag_or_table(table: type[Table], keys: str) -> tuple[BeforeValidator, _FlagOrTable]:
    """Makes a field read true as `table` with its defaults and false as `None`; the error names `keys`."""

    def read(value: object) -> object:
        if isinstance(value, bool):
            return {} if value else None
        if not isinstance(value, Mapping | table):
            raise InputError(f"must be true, false or a table of {keys}: got {shown(value)}")
        return value

    return BeforeValidator(read), _FlagOrTable()


def size_within(least: int, most: int) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A field for bytes within limits, read from text with a unit."""
    limits = f"{format_bytes(least)} to {format_bytes(most)}"

    def read(value: Any) -> int:
        found = parse_bytes(value)
        if not least <= found <= most:
            raise InputError(f"must be from {limits}: got {shown(value)}")
        return found

    text = f"an amount of data from {limits} with its unit"
    schema = {"type": "string", "description": text, "examples": ["4096 B"]}
    return BeforeValidator(read), PlainSerializer(format_bytes, return_type=str), WithJsonSchema(schema)


def directory_of(context: Any) -> Path:
    """The directory that relative paths start from in this `context`; without one, the current directory."""
    return Path((context or {}).get("directory", ""))


def _name(value: object) -> object:
    # Names are printed in tables and in messages of one line.
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise InputError(f"must be a name of printable characters: got {shown(value)}")
    return value


def _file_path(value: object) -> object:
    if isinstance(value, str) and not (value and value.isprintable()):
        raise InputError(f"must be the path of a file or a directory: got {shown(value)}")
    return value


Name = Annotated[StrictStr, Field(max_length=100), BeforeValidator(_name)]
FilePath = Annotated[StrictStr, BeforeValidator(_file_path)]
"""A path as written in the plan; relative paths start from the plan's directory."""

Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(number)]
Count = Annotated[StrictInt, Field(ge=1, le=LARGEST)]
