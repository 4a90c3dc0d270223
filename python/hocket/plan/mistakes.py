"""What pydantic finds wrong with a table, in this project's words: a key and a sentence."""

import re
from collections.abc import Collection, Iterable, Mapping, Sized
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from hocket.errors import InputError
from hocket.schema import KeyPath, Mistake, Table, TableError, tables_in
from hocket.units import shown

MOST_MISTAKES_SHOWN = 20
"""So many lines fit on a screen; the rest is counted."""

_MOST_COMPARED = 20_000
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def explained(error: ErrorDetails, plan: type[Table]) -> list[Mistake]:
    """Pydantic's `error` about a table of the type `plan` in this project's words: path and sentence."""
    path: KeyPath = error["loc"]
    if path[-1:] == ("[key]",) and error["type"] != "extra_forbidden":
        # Pydantic's way to say that the key itself is wrong, not its value.
        path = path[:-1]
    context = error.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, TableError):
        return [((*path, *rest), text) for rest, text in cause.mistakes]
    if error["type"] == "too_short" and _entries(error) >= context["min_length"]:
        # Pydantic counts valid entries only; the invalid ones have their own mistakes.
        return []
    if error["type"] == "default_factory_not_called":
        # It follows from keys that are wrong, and said to be.
        return []
    if error["type"] == "extra_forbidden":
        return [(path, _unknown_key(path, plan))]
    return [(path, str(cause) if isinstance(cause, InputError) else _sentence(error, context))]


def _sentence(error: ErrorDetails, context: Mapping[str, Any]) -> str:
    found = shown(error["input"])
    match error["type"]:
        case "missing":
            return "is missing"
        case "greater_than":
            return f"must be above {context['gt']}: got {found}"
        case "greater_than_equal":
            return f"{found} is below the smallest, {context['ge']}"
        case "less_than":
            return f"must be below {context['lt']}: got {found}"
        case "less_than_equal":
            return f"{found} is above the largest, {context['le']}"
        case "too_long":
            return f"has more than {context['max_length']} entries: got {_entries(error)}"
        case "too_short":
            return f"has too few entries: got {_entries(error)}, at least {context['min_length']} needed"
        case "string_too_long":
            return f"is longer than {context['max_length']} characters: got {found}"
        case "literal_error":
            return f"must be {context['expected']}: got {found}"
        case "int_type" | "int_parsing_size":
            return f"must be a whole number: got {found}"
        case "string_type" | "string_unicode":
            return f"must be text: got {found}"
        case "bool_type":
            return f"must be true or false: got {found}"
        case "tuple_type":
            return f"must be a list: got {found}"
        case "model_type" | "dict_type":
            return f"must be a table: got {found}"
        case _:
            return f"{error['msg'][:1].lower()}{error['msg'][1:]}: got {found}"


def _entries(error: ErrorDetails) -> int:
    found = error["input"]
    return len(found) if isinstance(found, Sized) else int(error.get("ctx", {}).get("actual_length", 0))


def _unknown_key(path: KeyPath, plan: type[Table]) -> str:
    known = [field.alias or name for name, field in _table_at(path[:-1], plan).model_fields.items()]
    hint = closest(str(path[-1]), known)
    return f"is not a known key{hint or '; known are ' + ', '.join(known)}"


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'NAME'?` of the one of `known` that is most like `name`, or nothing."""
    matches = get_close_matches(name, list(known), n=1)
    return f"; did you mean {shown(matches[0])}?" if matches else ""


class Suggestions:
    """The closest of names that may be many, for the first mistakes only.

    Comparing with each takes a while, and of many mistakes no more than `MOST_MISTAKES_SHOWN` are shown.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._left = MOST_MISTAKES_SHOWN if len(known) <= _MOST_COMPARED else 0

    def closest(self, name: str) -> str:
        """As the function of this name, or nothing."""
        self._left -= 1
        return closest(name, self._known) if self._left >= 0 else ""


def _table_at(path: KeyPath, plan: type[Table]) -> type[Table]:
    table = plan
    for part in path:
        for name, field in table.model_fields.items():
            if part == (field.alias or name):
                table = next(tables_in(field.annotation), table)
    return table


def spelt(path: KeyPath) -> str:
    """`path` as it is read in a plan: `jobs[1].up[0].rate`."""
    spelt = ""
    for part in path:
        if isinstance(part, int):
            spelt += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else shown(part)
            spelt += f".{key}" if spelt else key
    return spelt
