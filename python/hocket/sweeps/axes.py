"""Axes of a sweep: a key of the plan, at any depth, and its values.

An axis changes the tables of a plan before they are checked, so that every key of a plan can be an axis.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hocket.errors import InputError
from hocket.units import shown

MAX_VALUES = 100_000
"""The most values of an axis, and the most combinations of a sweep: a day of one-second runs."""

_KEY = re.compile(r"(?:\A|\.)(?P<key>[\w-]+|\*)|\[(?P<item>[^\[\]]+)\]")
# At most 18 digits, so that every number of a range fits in 64 bits.
_RANGE = re.compile(r"(?P<first>[+-]?[0-9]{1,18})\.\.(?P<last>[+-]?[0-9]{1,18})")
# `_set` recurses once for each part; no key of a plan has as many.
_MOST_PARTS = 32
_CLOSING = {"[": "]", "{": "}"}
_EVERY = "*"


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of a plan as text, such as `jobs.*.congestion`, and its values in order.

    In a list, a part of the key is a position from 0, the name of an entry, or `*` for all entries. A value
    of `None` leaves the key out of the plan.
    """

    key: str
    values: tuple[object, ...]

    def __post_init__(self) -> None:
        """Raises `InputError` for an invalid key, for no or too many values, and for a value given twice."""
        _parts(self.key)
        if not 1 <= len(self.values) <= MAX_VALUES:
            raise InputError(f"{self.key}: has {len(self.values)} values; an axis has 1 to {MAX_VALUES}")
        seen: set[str] = set()
        for value in self.values:
            # As JSON, because 1, 1.0 and true are equal in Python.
            text = json.dumps(value, sort_keys=True, default=str)
            if text in seen:
                raise InputError(f"{self.key}: has the value {written(value)} twice")
            seen.add(text)


def parse_axis(text: str) -> Axis:
    """The axis in `text`: `KEY=V1,V2,…`.

    A value is a whole number, a range of whole numbers (`1..5`), a number, true or false, a list or a table
    as in TOML, text in quotes, or else the text itself; an empty value leaves the key out of the plan.

    Raises `InputError` for anything else.

    >>> parse_axis("jobs[0].congestion=dcqcn,{ dcqcn = { g = 0.5 } }")
    Axis(key='jobs[0].congestion', values=('dcqcn', {'dcqcn': {'g': 0.5}}))
    >>> parse_axis("seed=1..3").values
    (1, 2, 3)
    """
    key, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"{shown(text)} is not an axis; write it as KEY=V1,V2,…")
    key = key.strip()
    found: list[object] = []
    for value in _split(values):
        found.extend(_read(key, value.strip()))
    return Axis(key, tuple(found))


def written(value: object) -> str:
    """`value` of an axis as text for messages and tables.

    >>> written("dcqcn"), written(0.5), written({"dcqcn": {"g": 0.5}}), written(None)
    ('dcqcn', '0.5', '{"dcqcn": {"g": 0.5}}', 'not given')
    """
    if value is None:
        return "not given"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def json_values(values: Sequence[object]) -> list[object]:
    """`values` in types that JSON has; others, such as dates, become text."""
    found: list[object] = json.loads(json.dumps(values, default=str))
    return found


def with_setting(tables: object, key: str, value: object) -> object:
    """A copy of `tables` in which `key` has `value`; missing tables on the path of the key are created.

    Raises `InputError` if the key leads past the end of a list or into a value that is not a table.

    >>> with_setting({"jobs": [{"name": "a"}, {"name": "b"}]}, "jobs.*.priority", 1)
    {'jobs': [{'name': 'a', 'priority': 1}, {'name': 'b', 'priority': 1}]}
    """
    return _set(tables, _parts(key), value, "")


def _parts(key: str) -> tuple[str, ...]:
    parts: list[str] = []
    end = 0
    while end < len(key) and len(parts) < _MOST_PARTS:
        match = _KEY.match(key, end)
        if match is None:
            break
        parts.append((match["key"] or match["item"]).strip())
        end = match.end()
    if end < len(key) or not parts:
        raise InputError(f"{shown(key)} is not a key; write it as run.iterations or jobs[0].congestion")
    return tuple(parts)


def _set(given: object, parts: Sequence[str], value: object, where: str) -> object:
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if isinstance(given, list | tuple):
        chosen = _chosen(given, part, where)
        return [
            _set(each, rest, value, f"{where}[{index}]") if index in chosen else each
            for index, each in enumerate(given)
        ]
    if not isinstance(given, Mapping):
        raise InputError(f"{where or 'the plan'} is {shown(given)} and has no key {shown(part)}")
    if part == _EVERY:
        raise InputError(f"{where or 'the plan'} is a table; * stands for everything in a list")
    # Combinations share all tables that are not on the path of the key, so no table is ever changed in place.
    if not rest and value is None:
        return {key: each for key, each in given.items() if key != part}
    below = given.get(part, {})
    return {**given, part: _set(below, rest, value, f"{where}.{part}" if where else part)}


def _chosen(items: Sequence[object], part: str, where: str) -> Sequence[int]:
    if part == _EVERY:
        return range(len(items))
    # A number is always a position, even if it is also the name of an entry.
    if part.isdecimal():
        if int(part) < len(items):
            return [int(part)]
        raise InputError(f"{where} has {len(items)} entries, 0 to {len(items) - 1}: got {where}[{part}]")
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    if part in names:
        return [names.index(part)]
    known = ", ".join(shown(name) for name in names[:10] if isinstance(name, str))
    raise InputError(f"{where} has no entry named {shown(part)}; known: {known or 'none'}")


def _split(values: str) -> list[str]:
    """The parts of `values` between commas outside brackets and quotes."""
    found, start = [], 0
    closing: list[str] = []
    quote = ""
    for place, character in enumerate(values):
        at_start = not values[start:place].strip()
        if quote:
            quote = "" if character == quote and not _is_escaped(values, place, quote) else quote
        elif character in "\"'" and (at_start or closing):
            # A quote opens text only at the start of a value or in brackets: "DLRM (HOTI'22)" is bare text.
            quote = character
        elif character in _CLOSING and (at_start or closing):
            closing.append(_CLOSING[character])
        elif closing and character == closing[-1]:
            closing.pop()
        elif character == "," and not closing:
            found.append(values[start:place])
            start = place + 1
    return [*found, values[start:]]


def _is_escaped(values: str, place: int, quote: str) -> bool:
    before = values[:place]
    return quote == '"' and (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _read(key: str, text: str) -> Sequence[object]:
    if not text:
        return [None]
    match = _RANGE.fullmatch(text)
    if match is not None:
        return _range(key, int(match["first"]), int(match["last"]))
    try:
        value = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        # Text that begins like a list, a table or text in quotes is not meant as bare text.
        if text[0] in "[{\"'":
            raise InputError(f"{key}: {shown(text)} is not a value of TOML") from None
        return [text]
    # Text with a line break may contain further keys; dates are no values of a plan. Both stay text.
    if list(value) == ["value"] and isinstance(value["value"], bool | int | float | str | list | dict):
        return [value["value"]]
    return [text]


def _range(key: str, first: int, last: int) -> Sequence[int]:
    if not first <= last < first + MAX_VALUES:
        raise InputError(f"{key}: {first}..{last} is not a range of 1 to {MAX_VALUES} whole numbers, upwards")
    return range(first, last + 1)
