"""Quantities as people write them ("180 ms", "50 Gbps", "32 MB") and the integers that Hocket computes with.

Arithmetic is exact: a quantity that is not a whole number of picoseconds, bits per second or bytes is
refused, never rounded.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from hocket.errors import InputError

# The engines hold quantities in 64 bits; one bit is left so that sums of two never overflow there.
LARGEST = 2**63 - 1

_NUMBER = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*(?P<unit>.*)", re.DOTALL
)
# Longer input is not a quantity; the limit keeps exact arithmetic on it cheap.
_MOST_CHARACTERS = 64


@dataclass(frozen=True)
class _Dimension:
    """One kind of quantity: its name with its article, the integer it is held in, and how it is written."""

    name: str
    base: str
    example: str
    units: dict[str, int]
    printed: tuple[str, ...]
    largest: int = LARGEST


_DURATION = _Dimension(
    name="a duration",
    base="ps",
    example="ms",
    units={
        "ps": 1,
        "ns": 10**3,
        "us": 10**6,
        "µs": 10**6,  # U+00B5, the micro sign of most keyboards
        "μs": 10**6,  # U+03BC, the Greek letter that it normalises to
        "ms": 10**9,
        "s": 10**12,
        "min": 60 * 10**12,
        "h": 3600 * 10**12,
    },
    printed=("s", "ms", "us", "ns", "ps"),
)

_PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

_RATE = _Dimension(
    name="a rate",
    base="bits per second",
    example="Gbps",
    units={
        **{
            f"{prefix}{spelling}": factor
            for prefix, factor in _PREFIXES.items()
            for spelling in ("bps", "b/s", "bit/s")
        },
        # Only with a slash: "GBps" is too easily a misspelt "Gbps".
        **{f"{prefix}B/s": 8 * factor for prefix, factor in _PREFIXES.items()},
    },
    printed=("Tbps", "Gbps", "Mbps", "kbps", "bps"),
    # `hocket_scenario::MAX_RATE`.
    largest=10**15,
)

_BYTES = _Dimension(
    name="an amount of data",
    base="bytes",
    example="MB",
    units={
        **{f"{prefix}B": factor for prefix, factor in _PREFIXES.items()},
        **{f"{prefix}iB": 2 ** (10 * power) for power, prefix in enumerate("KMGT", start=1)},
    },
    printed=("TB", "GB", "MB", "kB", "B"),
)

_DIMENSIONS = (_DURATION, _RATE, _BYTES)


def parse_duration(text: str) -> int:
    """The picoseconds in `text`, such as "180 ms".

    Raises `InputError` without a unit of time, for negative, non-finite or too large values, and for
    fractions of a picosecond.

    >>> parse_duration("1.5 us")
    1500000
    """
    return _parse(text, _DURATION)


def parse_rate(text: str) -> int:
    """The bits per second in `text`, such as "50 Gbps", "50 Gb/s" or "6.25 GB/s".

    Raises `InputError` as `parse_duration` does.

    >>> parse_rate("6.25 GB/s")
    50000000000
    """
    return _parse(text, _RATE)


def parse_bytes(text: str) -> int:
    """The bytes in `text`: "32 MB" are 32 million, "32 MiB" are 32 × 2^20.

    Raises `InputError` as `parse_duration` does.

    >>> parse_bytes("10 KiB")
    10240
    """
    return _parse(text, _BYTES)


def format_duration(duration_ps: int) -> str:
    """`duration_ps` picoseconds in the largest unit that leaves a whole part, exactly.

    >>> format_duration(180_000_000_000)
    '180 ms'
    """
    return _format(duration_ps, _DURATION)


def format_rate(rate_bps: int) -> str:
    """`rate_bps` bits per second in the largest unit that leaves a whole part, exactly.

    >>> format_rate(33_500_000_000)
    '33.5 Gbps'
    """
    return _format(rate_bps, _RATE)


def format_bytes(size_bytes: int) -> str:
    """`size_bytes` bytes, exactly; in binary units where only these come out whole.

    >>> format_bytes(32_000_000), format_bytes(10240)
    ('32 MB', '10 KiB')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = _BYTES.units[unit]
        if size_bytes > 0 and size_bytes % factor == 0 and size_bytes % 1000 != 0:
            return f"{size_bytes // factor} {unit}"
    return _format(size_bytes, _BYTES)


def shown(value: object) -> str:
    """`value` as error messages quote it: on one line, printable, and never long.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'"
    """
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:56]}…")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of more than 63 bits"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"


def _parse(text: object, dimension: _Dimension) -> int:
    if not isinstance(text, str):
        raise InputError(
            f"{dimension.name} is written as text with a unit, such as "
            f'"10 {dimension.example}": got {shown(text)}'
        )
    stripped = text.strip()
    match = _NUMBER.fullmatch(stripped) if len(stripped) <= _MOST_CHARACTERS else None
    if match is None:
        raise InputError(
            f'{dimension.name} is a finite number and a unit, such as "10 {dimension.example}": '
            f"got {shown(text)}"
        )
    value = Fraction(match["number"]) * _factor(match["unit"], text, dimension)
    if match["number"].startswith("-"):
        raise InputError(f"{dimension.name} must not be negative: got {shown(text)}")
    if value > dimension.largest:
        raise InputError(f"{shown(text)} is above the largest value, {dimension.largest} {dimension.base}")
    if value.denominator != 1:
        raise InputError(f"{shown(text)} is not a whole number of {dimension.base}, the finest that is kept")
    return value.numerator


def _factor(unit: str, text: str, dimension: _Dimension) -> int:
    if unit in dimension.units:
        return dimension.units[unit]
    if not unit:
        raise InputError(f"{dimension.name} needs a unit such as {dimension.example}: got {shown(text)}")
    for other in _DIMENSIONS:
        if unit in other.units:
            raise InputError(
                f"{shown(text)} is {other.name}; here {dimension.name} is needed, "
                f"such as 10 {dimension.example}"
            )
    known = ", ".join(dimension.units)
    alike = [spelling for spelling in dimension.units if spelling.lower() == unit.lower()]
    hint = f"did you mean {alike[-1]}" if alike else f"known are {known}"
    raise InputError(f"{shown(text)} has the unknown unit {shown(unit)}; {hint}{'?' if alike else ''}")


def _format(value: int, dimension: _Dimension) -> str:
    smallest = dimension.printed[-1]
    unit = next((unit for unit in dimension.printed if value >= dimension.units[unit]), smallest)
    whole, rest = divmod(value, dimension.units[unit])
    # A decimal unit has as many places as its factor has zeros.
    places = len(str(dimension.units[unit])) - 1
    fraction = f".{rest:0{places}d}".rstrip("0") if rest else ""
    return f"{whole}{fraction} {unit}"


def _schema(dimension: _Dimension) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "description": f"{dimension.name} with its unit",
            "examples": [f"10 {dimension.example}"],
        }
    )


def _quantity(
    dimension: _Dimension, positive: bool = False
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    def parse(text: Any) -> int:
        value = _parse(text, dimension)
        if positive and value == 0:
            raise InputError(f"{dimension.name} must be above 0 here: got {shown(text)}")
        return value

    def write(value: int) -> str:
        return format_bytes(value) if dimension is _BYTES else _format(value, dimension)

    return BeforeValidator(parse), PlainSerializer(write, return_type=str), _schema(dimension)


DurationPs = Annotated[int, *_quantity(_DURATION)]
"""A pydantic field: read from text such as "180 ms", held in picoseconds."""

PositiveDurationPs = Annotated[int, *_quantity(_DURATION, positive=True)]
"""`DurationPs` that must be longer than zero."""

RateBps = Annotated[int, *_quantity(_RATE)]
"""A pydantic field: read from text such as "50 Gbps", held in bits per second."""

PositiveRateBps = Annotated[int, *_quantity(_RATE, positive=True)]
"""`RateBps` that must be higher than zero."""

Bytes = Annotated[int, *_quantity(_BYTES)]
"""A pydantic field: read from text such as "32 MB", held in bytes."""
