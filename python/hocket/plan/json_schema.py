"""The JSON Schema of a file of tables, with a description of every key: the docstring below its field."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hocket.plan.schema import Table
from hocket.plan.table_errors import tables_in

_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: type[Table]) -> dict[str, Any]:
    """The JSON Schema of a file of this `kind`, with defaults as a file has them."""
    schema = kind.model_json_schema(by_alias=True, mode="validation")
    for table in tables_below(kind):
        of_table = schema if table is kind else _table_of(schema["$defs"][table.__name__])
        descriptions = descriptions_of(table)
        for name, field in table.model_fields.items():
            key = of_table["properties"][field.alias or name]
            _make_plain(key)
            key["description"] = descriptions[name]
            # Pydantic's default is the value that a table holds, such as a number of picoseconds.
            key.pop("default", None)
            default = written_default(field)
            if default is not None:
                key["default"] = default
    return {"$schema": _DIALECT, **schema}


def tables_below(kind: type[Table]) -> Iterator[type[Table]]:
    """`kind` and all tables that it may contain, each once, from the top down."""
    seen = {kind: None}
    waiting = [kind]
    while waiting:
        table = waiting.pop(0)
        yield table
        for field in table.model_fields.values():
            for below in tables_in(field.annotation):
                if issubclass(below, Table) and below not in seen:
                    seen[below] = None
                    waiting.append(below)


@cache
def descriptions_of(table: type[Table]) -> dict[str, str]:
    """What the docstrings below the fields of `table` say, each on one line, by field.

    They are read from its source, as Python does not keep them.
    """
    found: dict[str, str] = {}
    # A subclass comes after its base, so its text for a field that both have is the one that stays.
    for part in reversed(table.__mro__):
        if issubclass(part, Table) and part is not Table:
            # All tables are at the top level of a module: the source of a nested class is indented.
            (definition,) = ast.parse(inspect.getsource(part)).body
            assert isinstance(definition, ast.ClassDef), "the source of a class defines it"
            for field, below in pairwise(definition.body):
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found[name] = " ".join(text.split())
    return found


def written_default(field: FieldInfo) -> Any:
    """The default of `field` in the form of a file; `None` if there is none, or if it is a table, an empty
    list or a value that follows from other keys.
    """
    value = field.default
    if value in (PydanticUndefined, None, ()) or isinstance(value, Table):
        return None
    return TypeAdapter(field.rebuild_annotation()).dump_python(value, mode="json", by_alias=True)


def key_schema(field: FieldInfo) -> dict[str, Any]:
    """The JSON Schema of the values of one key."""
    schema = TypeAdapter(field.rebuild_annotation()).json_schema(by_alias=True)
    _make_plain(schema)
    return schema


def _make_plain(key: dict[str, Any]) -> None:
    """Removes null as a value of the key, which TOML cannot express and a plan in JSON does not need, and
    gives limits the names of JSON Schema: behind a validator, pydantic writes them under its own names.
    """
    alternatives = [each for each in key.pop("anyOf", ()) if each != {"type": "null"}]
    if len(alternatives) == 1:
        key.update(alternatives[0])
    elif alternatives:
        key["anyOf"] = alternatives
    for name, standard in _LIMITS.items():
        limit = key.pop(name, None)
        # A quantity is text in a file, and the limits of the whole number that it becomes mean nothing there.
        if limit is not None and key.get("type") in ("integer", "number"):
            key[standard] = limit


def _table_of(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of the table itself where a name alone is accepted in its place."""
    return next((each for each in definition.get("anyOf", ()) if "properties" in each), definition)
