"""Renews the tables of keys on the pages of plans and traces, for `make docs`.

`<!-- keys of Link -->` begins a table of all keys of the class `Link`, `<!-- keys of Job: period up -->` one
of some keys of `Job`, and `<!-- end of keys -->` ends it. The rows are from the JSON Schema.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from hocket.cluster.file import TraceFile
from hocket.plan import Plan
from hocket.plan.json_schema import descriptions_of, key_schema, tables_below, written_default
from hocket.plan.names import Names, names_of
from hocket.units import LARGEST

PAGES = ("plan-format.md", "trace-format.md")
TABLES = {table.__name__: table for kind in (TraceFile, Plan) for table in tables_below(kind)}

_SECTION = re.compile(
    r"^(<!-- keys of (?P<table>\w+)(?:: (?P<keys>[^>]+?))? -->\n).*?^(<!-- end of keys -->)$",
    re.MULTILINE | re.DOTALL,
)
_QUANTITIES = {"an amount of data": "data", "a duration": "duration", "a rate": "rate"}


def renewed(text: str) -> str:
    """The text of a page with up-to-date tables of keys."""
    return _SECTION.sub(lambda section: "\n".join([section[1], *rows(section), "", section[4]]), text)


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The tables of keys on a page: the name of the class, and the keys in its table."""
    for section in _SECTION.finditer(text):
        yield section["table"], _keys(section)


def rows(section: re.Match[str]) -> Iterator[str]:
    """The lines of one table in Markdown. Columns without any entry are left out."""
    table = TABLES[section["table"]]
    fields = {field.alias or name: (name, field) for name, field in table.model_fields.items()}
    names = names_of(table)
    shown = [(key, *fields[key]) for key in _keys(section)]
    columns: dict[str, Sequence[str]] = {
        "key": [f"`{key}`" for key, _, _ in shown],
        "value": [takes(key_schema(field)) for _, _, field in shown],
        "meaning": [descriptions_of(table)[name] for _, name, _ in shown],
    }
    if any(each.nic for each in names.values()):
        others = [_other_names(names.get(name, Names())) for _, name, _ in shown]
        columns |= zip(("paper", "mlx5", "HPCC-style"), zip(*others, strict=True), strict=True)
    defaults = [default(field) for _, _, field in shown]
    if any(defaults):
        columns["default"] = defaults
    yield _row(columns)
    yield f"|{'---|' * len(columns)}"
    for cells in zip(*columns.values(), strict=True):
        yield _row(cells)


def takes(schema: dict[str, Any]) -> str:
    """The values that a key accepts, in a few words."""
    match schema:
        case {"anyOf": alternatives} | {"oneOf": alternatives}:
            # References in an alternative refer to definitions of the whole.
            return " or ".join(takes({"$defs": schema.get("$defs", {}), **each}) for each in alternatives)
        case {"$ref": str(reference), "$defs": dict(definitions)}:
            named: dict[str, Any] = definitions[reference.rpartition("/")[2]]
            return takes(named) if "anyOf" in named else "table"
        case {"enum": values}:
            return _either([f'`"{value}"`' for value in values])
        case {"const": value}:
            return f'`"{value}"`'
        case {"type": "string", "description": str(text)}:
            text = text.removesuffix(" with its unit")
            return next(text.replace(long, short) for long, short in _QUANTITIES.items() if long in text)
        case {"type": "string", "examples": examples}:
            return _either([f'`"{value}"`' for value in examples])
        case {"type": "string"}:
            return "text"
        case {"type": "boolean"}:
            return "`true` or `false`"
        case {"type": "integer" | "number" as kind}:
            number = "whole number" if kind == "integer" else "number"
            return number + _limits(schema, "minimum", "maximum")
        case {"type": "array"}:
            # "list, 2 to 4" would read as numbers: "list of 2 to 4".
            return "list" + _limits(schema, "minItems", "maxItems").replace(",", " of", 1)
        case {"properties": {**properties}, "additionalProperties": False} if len(properties) == 1:
            return f"`{{ {next(iter(properties))} = … }}`"
        case _:
            return "table"


def default(field: FieldInfo) -> str:
    """The default of a key, with its source; the source alone for a default that is no simple value."""
    if field.is_required():
        return "required"
    value = written_default(field)
    extra = field.json_schema_extra
    source = str(extra["source"]) if isinstance(extra, dict) else ""
    match value:
        case None | dict() | [dict(), *_]:
            return source
        case bool():
            shown = str(value).lower()
        case str():
            shown = f'"{value}"'
        case int() | float():
            shown = _count(value)
        case _:
            shown = str(value)
    return f"`{shown}`; {source}" if source else f"`{shown}`"


def _keys(section: re.Match[str]) -> list[str]:
    if section["keys"]:
        return section["keys"].split()
    return [field.alias or name for name, field in TABLES[section["table"]].model_fields.items()]


def _other_names(names: Names) -> list[str]:
    def cell(name: str, unit: str) -> str:
        return f"`{name}`" + (f" ({unit})" if unit else "")

    return [
        f"`{names.paper}`" if names.paper else "",
        cell(names.nic.name, names.nic.unit) if names.nic else "",
        cell(names.study.name, names.study.unit) if names.study else "",
    ]


def _limits(schema: dict[str, Any], least: str, most: str) -> str:
    low = schema.get(least)
    high = schema.get(most)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    parts = []
    if above is not None:
        parts.append(f"above {_count(above)}")
    if low is not None and high is not None and high < LARGEST:
        return f", {_count(low)} to {_count(high)}" if low != high else f", {low}"
    if low is not None and (low > 0 or least == "minimum"):
        parts.append(f"at least {_count(low)}")
    # `LARGEST` is a limit of the engines, and no user needs to know it.
    if high is not None and high < LARGEST:
        parts.append(f"at most {_count(high)}")
    if below is not None:
        parts.append(f"below {_count(below)}")
    return "".join(f", {part}" for part in parts)


def _count(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def _either(values: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(values[:-1]), values[-1]]))


def _row(cells: Iterable[str]) -> str:
    # Unescaped, a bar in a cell would end the cell. Empty cells are one space wide.
    line = " | ".join(cell.replace("|", "\\|") for cell in cells)
    return re.sub(r"\|  (?=\|)", "| ", f"| {line} |").replace("|  |", "| |")


def main() -> None:
    """Renews the tables of all `PAGES`."""
    for name in PAGES:
        page = Path(__file__).parents[1] / name
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
