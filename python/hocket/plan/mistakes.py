"""What is wrong with a table, each mistake a key and a sentence, and the one error that they make."""

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
"""So many lines fit on a screen; the rest is counted."""

_MOST_COMPARED = 20_000
_MISSING = "is missing"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


_OTHER_WORDS = {"model": "workload", "workload": "model"}
"""A key by what another kind of file calls the same."""


class KeyLines(Protocol):
    """Where the keys of a file are."""

    def of(self, path: KeyPath) -> int | None:
        """The line of the key at `path`."""


class TableError(ValueError):
    """What is wrong between keys, carried through pydantic, which knows one error per table."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(f"{len(mistakes)} mistakes")
        self.mistakes = mistakes


def refusal(
    error: ValidationError | UnicodeEncodeError,
    table: type[BaseModel],
    source: str = "",
    lines: KeyLines | None = None,
) -> InputError:
    """What pydantic raised of a `table`, as one line for each mistake, each beginning with `source` and the
    line of the key, as far as they are known.
    """
    start = f"{source}: " if source else ""
    if isinstance(error, UnicodeEncodeError):
        # A lone surrogate, which JSON can spell and no text can hold.
        return InputError(f"{start}has a key that is not valid text")
    unknown = _UnknownKeys(table)
    mistakes = [mistake for each in error.errors(include_url=False) for mistake in _explained(each, unknown)]
    # A key that is missing because it is misspelt is one mistake.
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
    """Pydantic's `error` in this project's words: path and sentence."""
    path: KeyPath = error["loc"]
    if path[-1:] == ("[key]",) and error["type"] != "extra_forbidden":
        # Pydantic's way to say that the key itself is wrong, not its value.
        path = path[:-1]
    context = error.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, TableError):
        return [((*path, *rest), text) for rest, text in cause.mistakes]
    if isinstance(cause, AssertionError):
        # Pydantic takes a defect of ours for a mistake in the table.
        raise cause
    if error["type"] == "too_short" and _entries(error) >= context["min_length"]:
        # Pydantic counts valid entries only; the invalid ones have their own mistakes.
        return []
    if error["type"] == "default_factory_not_called":
        # It follows from keys that are wrong, and said to be.
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


class _UnknownKeys:
    """What is said about keys that a table does not know."""

    def __init__(self, table: type[BaseModel]) -> None:
        self._table = table
        self._listed: set[type[BaseModel]] = set()
        self.meant: set[KeyPath] = set()
        """The keys that are suggested instead."""

    def sentence(self, path: KeyPath) -> str:
        """The key that was meant, as far as that can be guessed; else, once for each kind of table, which
        there are.
        """
        given, table = str(path[-1]), _table_at(path[:-1], self._table)
        known = [field.alias or name for name, field in table.model_fields.items()]
        other = _OTHER_WORDS.get(given)
        if other in known:
            self.meant.add((*path[:-1], other))
            return "is not a known key; a plan calls it 'workload', a cluster trace 'model'"
        matches = get_close_matches(given, known, n=1)
        self.meant.update((*path[:-1], match) for match in matches)
        if matches or table in self._listed:
            return f"is not a known key{_did_you_mean(matches)}"
        self._listed.add(table)
        return f"is not a known key; known are {', '.join(known)}"


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'NAME'?` of the one of `known` that is most like `name`, or nothing."""
    return _did_you_mean(get_close_matches(name, list(known), n=1))


def _did_you_mean(matches: Sequence[str]) -> str:
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


def _table_at(path: KeyPath, table: type[BaseModel]) -> type[BaseModel]:
    for part in path:
        for name, field in table.model_fields.items():
            if part == (field.alias or name):
                table = next(tables_in(field.annotation), table)
    return table


def tables_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The tables that a field of this type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from tables_in(argument)


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
