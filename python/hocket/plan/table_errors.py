"""Errors in tables: each is a key and a sentence, and one `InputError` reports them all."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hocket.errors import InputError
from hocket.units import shown

KeyPath: TypeAlias = tuple[str | int, ...]
Mistake: TypeAlias = tuple[KeyPath, str]

MOST_MISTAKES_SHOWN = 20
"""The most lines of an `InputError`, about a screenful; the other mistakes are only counted."""

# `MOST_MISTAKES_SHOWN` comparisons with this many names take about a second.
_MAX_COMPARED = 20_000
_MISSING = "is missing"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


_COUNTERPARTS = {"model": "workload", "workload": "model"}
"""Keys with the same meaning in a plan and in a cluster trace, each with its name in the other file."""


class KeyLines(Protocol):
    """The lines of the keys in a file."""

    def of(self, path: KeyPath) -> int | None:
        """The line of the key at `path`, or `None` if it is unknown."""


class TableError(ValueError):
    """Several mistakes raised in one validator: pydantic allows one error for each."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(f"{len(mistakes)} mistakes")
        self.mistakes = mistakes


def refusal(
    error: ValidationError | UnicodeEncodeError,
    table: type[BaseModel],
    source: str = "",
    lines: KeyLines | None = None,
) -> InputError:
    """Turns what pydantic raised for `table` into an `InputError` with one line per mistake, each beginning
    with `source` and the line of the key, as far as they are known.
    """
    start = f"{source}: " if source else ""
    if isinstance(error, UnicodeEncodeError):
        # A lone surrogate: JSON can spell it (`"\ud800"`), but UTF-8 cannot encode it.
        return InputError(f"{start}has a key that is not valid text")
    unknown = _UnknownKeys(table)
    mistakes = [mistake for each in error.errors(include_url=False) for mistake in _explained(each, unknown)]
    # A misspelt key counts once: as unknown, and not as missing too.
    mistakes = [each for each in mistakes if each[1] != _MISSING or each[0] not in unknown.meant]
    texts = []
    for path, text in mistakes:
        line = None if lines is None else lines.of(path)
        where = start if line is None else f"{source}:{line}: "
        texts.append(f"{where}{spelt(path)}{': ' if path else ''}{text}")
    if len(texts) > MOST_MISTAKES_SHOWN:
        more = len(texts) - MOST_MISTAKES_SHOWN
        texts = [*texts[:MOST_MISTAKES_SHOWN], f"{start}and {more} more mistakes"]
    return InputError("\n".join(texts))


def _explained(error: ErrorDetails, unknown: "_UnknownKeys") -> list[Mistake]:
    """Pydantic's `error` as mistakes in our words."""
    path: KeyPath = error["loc"]
    if path[-1:] == ("[key]",) and error["type"] != "extra_forbidden":
        # Pydantic marks an error in the key itself, not in its value, with this last part.
        path = path[:-1]
    context = error.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, TableError):
        return [((*path, *rest), text) for rest, text in cause.mistakes]
    if isinstance(cause, AssertionError):
        # Pydantic turns a failed assertion into a validation error, but it is a defect of ours.
        raise cause
    if error["type"] == "too_short" and _entries(error) >= context["min_length"]:
        # Pydantic counts only valid entries; the invalid ones have errors of their own.
        return []
    if error["type"] == "default_factory_not_called":
        # The default depends on keys that are invalid, which have errors of their own.
        return []
    if error["type"] == "extra_forbidden":
        return [(path, unknown.sentence(path))]
    return [(path, str(cause) if isinstance(cause, ValueError) else _sentence(error, context))]


def _sentence(error: ErrorDetails, context: Mapping[str, Any]) -> str:
    found = shown(error["input"])
    match error["type"]:
        case "missing":
            return _MISSING
        case "greater_than":
            return f"must be above {context['gt']}: got {found}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}: got {found}"
        case "less_than":
            return f"must be below {context['lt']}: got {found}"
        case "less_than_equal":
            return f"must be at most {context['le']}: got {found}"
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


class _UnknownKeys:
    """The messages about unknown keys of a table."""

    def __init__(self, table: type[BaseModel]) -> None:
        self._table = table
        self._listed: set[type[BaseModel]] = set()
        self.meant: set[KeyPath] = set()
        """The keys that are suggested instead."""

    def sentence(self, path: KeyPath) -> str:
        """A sentence with the key that was probably meant; if there is none, with all known keys, but only
        once for each kind of table.
        """
        given, table = str(path[-1]), _table_at(path[:-1], self._table)
        known = [field.alias or name for name, field in table.model_fields.items()]
        counterpart = _COUNTERPARTS.get(given)
        if counterpart in known:
            self.meant.add((*path[:-1], counterpart))
            return "is not a known key; a plan calls it 'workload', a cluster trace 'model'"
        matches = get_close_matches(given, known, n=1)
        self.meant.update((*path[:-1], match) for match in matches)
        if matches or table in self._listed:
            return f"is not a known key{_did_you_mean(matches)}"
        self._listed.add(table)
        return f"is not a known key; known: {', '.join(known)}"


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'NAME'?` with the one of `known` that is most similar to `name`, or nothing."""
    return _did_you_mean(get_close_matches(name, list(known), n=1))


def _did_you_mean(matches: Sequence[str]) -> str:
    return f"; did you mean {shown(matches[0])}?" if matches else ""


class Suggestions:
    """The closest of a large number of names, for the first mistakes only.

    Comparing a name with all others is slow, and no more than `MOST_MISTAKES_SHOWN` mistakes are shown.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._left = MOST_MISTAKES_SHOWN if len(known) <= _MAX_COMPARED else 0

    def closest(self, name: str) -> str:
        """As the function `closest`; nothing once the limit is reached."""
        self._left -= 1
        return closest(name, self._known) if self._left >= 0 else ""


def _table_at(path: KeyPath, table: type[BaseModel]) -> type[BaseModel]:
    for part in path:
        for name, field in table.model_fields.items():
            if part == (field.alias or name):
                table = next(tables_in(field.annotation), table)
    return table


def tables_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The classes of tables that a field of this type can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from tables_in(argument)


def spelt(path: KeyPath) -> str:
    """`path` as text: `jobs[1].up[0].rate`."""
    spelt = ""
    for part in path:
        if isinstance(part, int):
            spelt += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else shown(part)
            spelt += f".{key}" if spelt else key
    return spelt
