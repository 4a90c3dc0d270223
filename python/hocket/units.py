"""Quantities as text ("180 ms", "50 Gbps", "32 MB"), as the types `Duration`, `Rate` and `Size` for programs,
and as the integers that Hocket computes with.

Arithmetic is exact: a quantity that is not a whole number of picoseconds, bits per second or bytes is an
error, and is never rounded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from hocket.errors import InputError

# The engines store quantities in unsigned 64-bit integers; with one bit free, a sum of two never overflows.
LARGEST = 2**63 - 1

# Exponents of two digits at most, because an exact number has as many digits as its exponent says.
_NUMBER = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*(?P<unit>.*)", re.DOTALL
)
# Longer text is no quantity; the limit keeps exact arithmetic cheap.
_MOST_CHARACTERS = 64


@dataclass(frozen=True)
class _Dimension:
    """A kind of quantity: its name with its article, the base unit of its integers, and its units.

    `units` has the size of each unit in base units; `printed` are the units of output, the largest first.
    """

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
        # Bytes per second need the slash, since "GBps" may well be a misspelt "Gbps".
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


class Quantity:
    """A duration, a rate or a size, made from text with a unit; never negative, and exact in arithmetic.

    A plan accepts one wherever it accepts text with a unit.
    """

    __slots__ = ("_value",)
    _dimension: ClassVar[_Dimension]

    def __init__(self, text: str) -> None:
        """Raises `InputError` as `parse_duration` does."""
        self._value = _parse(text, self._dimension)

    @classmethod
    def _from_integer(cls, value: int) -> Self:
        # Through text, so that the limits of the constructor apply to results too.
        return cls(f"{value} {cls._dimension.printed[-1]}")

    def __add__(self, other: Self) -> Self:
        return self._from_integer(self._value + other._value) if type(other) is type(self) else NotImplemented

    def __sub__(self, other: Self) -> Self:
        """Raises `InputError` if `other` is larger."""
        return self._from_integer(self._value - other._value) if type(other) is type(self) else NotImplemented

    def __mul__(self, factor: int) -> Self:
        return self._from_integer(self._value * factor) if isinstance(factor, int) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, parts: int) -> Self:
        """Raises `InputError` if the quotient is not a whole number of the base unit."""
        if not isinstance(parts, int):
            return NotImplemented
        # Division by 0 raises `ZeroDivisionError` below, as for numbers.
        if parts and self._value % parts:
            raise InputError(
                f"{self} divided by {parts} is not a whole number of {self._dimension.base}, "
                "the finest resolution"
            )
        return self._from_integer(self._value // parts)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._value == other._value

    def __lt__(self, other: Self) -> bool:
        return self._value < other._value if type(other) is type(self) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._value <= other._value if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __str__(self) -> str:
        """The quantity as in a plan, in the largest unit in which the value is at least 1."""
        return _written(self._value, self._dimension)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Duration(Quantity):
    """A length of time, in whole picoseconds.

    >>> ms(180) / 2 + us(1.5), ms(1) < seconds(1), ms(90).ps
    (Duration('90.0015 ms'), True, 90000000000)
    """

    __slots__ = ()
    _dimension = _DURATION

    @property
    def ps(self) -> int:
        """In picoseconds."""
        return self._value


class Rate(Quantity):
    """Data over time, in whole bits per second.

    >>> str(3 * gbps(12.5)), Rate("6.25 GB/s").bps
    ('37.5 Gbps', 50000000000)
    """

    __slots__ = ()
    _dimension = _RATE

    @property
    def bps(self) -> int:
        """In bits per second."""
        return self._value


class Size(Quantity):
    """An amount of data, in whole bytes.

    >>> mb(32), mib(32).bytes
    (Size('32 MB'), 33554432)
    """

    __slots__ = ()
    _dimension = _BYTES

    @property
    def bytes(self) -> int:
        """In bytes."""
        return self._value


DurationLike: TypeAlias = str | Duration
"""Text such as "180 ms", or a `Duration`."""

RateLike: TypeAlias = str | Rate
"""Text such as "50 Gbps", or a `Rate`."""

SizeLike: TypeAlias = str | Size
"""Text such as "32 MB", or a `Size`."""


def ns(number: float) -> Duration:
    """`number` nanoseconds."""
    return Duration(_with_unit(number, "ns"))


def us(number: float) -> Duration:
    """`number` microseconds."""
    return Duration(_with_unit(number, "us"))


def ms(number: float) -> Duration:
    """`number` milliseconds; a float stands for the decimal fraction that Python prints for it.

    >>> ms(0.1).ps
    100000000
    >>> ms(1e-10)
    Traceback (most recent call last):
    hocket_agent.errors.InputError: '1e-10 ms' is not a whole number of ps, the finest resolution
    """
    return Duration(_with_unit(number, "ms"))


def seconds(number: float) -> Duration:
    """`number` seconds."""
    return Duration(_with_unit(number, "s"))


def mbps(number: float) -> Rate:
    """`number` megabits per second."""
    return Rate(_with_unit(number, "Mbps"))


def gbps(number: float) -> Rate:
    """`number` gigabits per second."""
    return Rate(_with_unit(number, "Gbps"))


def tbps(number: float) -> Rate:
    """`number` terabits per second."""
    return Rate(_with_unit(number, "Tbps"))


def kb(number: float) -> Size:
    """`number` kilobytes, 1,000 bytes each."""
    return Size(_with_unit(number, "kB"))


def mb(number: float) -> Size:
    """`number` megabytes, 1,000² bytes each."""
    return Size(_with_unit(number, "MB"))


def gb(number: float) -> Size:
    """`number` gigabytes, 1,000³ bytes each."""
    return Size(_with_unit(number, "GB"))


def kib(number: float) -> Size:
    """`number` kibibytes, 1,024 bytes each."""
    return Size(_with_unit(number, "KiB"))


def mib(number: float) -> Size:
    """`number` mebibytes, 1,024² bytes each."""
    return Size(_with_unit(number, "MiB"))


def gib(number: float) -> Size:
    """`number` gibibytes, 1,024³ bytes each."""
    return Size(_with_unit(number, "GiB"))


def _with_unit(number: float, unit: str) -> str:
    # Python prints a float as the shortest decimal that converts back to it, which is what the caller wrote.
    return f"{shown(number)} {unit}"


def parse_duration(text: DurationLike) -> int:
    """The picoseconds in `text`, such as "180 ms".

    Raises `InputError` if the unit is missing or is no unit of time, or if the value is negative, not finite,
    too large or not a whole number of picoseconds.

    >>> parse_duration("1.5 us")
    1500000
    """
    return _parse(text, _DURATION)


def parse_rate(text: RateLike) -> int:
    """The bits per second in `text`, such as "50 Gbps", "50 Gb/s" or "6.25 GB/s".

    Raises `InputError` as `parse_duration` does.

    >>> parse_rate("6.25 GB/s")
    50000000000
    """
    return _parse(text, _RATE)


def parse_bytes(text: SizeLike) -> int:
    """The bytes in `text`: "32 MB" is 32 million, "32 MiB" is 32 × 2^20.

    Raises `InputError` as `parse_duration` does.

    >>> parse_bytes("10 KiB")
    10240
    """
    return _parse(text, _BYTES)


def format_duration(duration_ps: int) -> str:
    """`duration_ps` picoseconds as exact text, in the largest unit in which the value is at least 1.

    >>> format_duration(180_000_000_000)
    '180 ms'
    >>> format_duration(0)
    '0 s'
    """
    return _format(duration_ps, _DURATION) if duration_ps else "0 s"


def format_rate(rate_bps: int) -> str:
    """`rate_bps` bits per second as exact text, in the largest unit in which the value is at least 1.

    >>> format_rate(33_500_000_000)
    '33.5 Gbps'
    """
    return _format(rate_bps, _RATE)


def format_bytes(size_bytes: int) -> str:
    """`size_bytes` bytes as exact text, in a binary unit if the size is a multiple of it but not of 1 kB.

    >>> format_bytes(32_000_000), format_bytes(10240)
    ('32 MB', '10 KiB')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = _BYTES.units[unit]
        if size_bytes > 0 and size_bytes % factor == 0 and size_bytes % 1000 != 0:
            return f"{size_bytes // factor} {unit}"
    return _format(size_bytes, _BYTES)


def shown(value: object) -> str:
    """`value` as error messages quote it: on one line, printable and short.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'"
    """
    if isinstance(value, Quantity):
        value = str(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:56]}…")
    # Values are shown as in TOML and JSON. A `bool` is also an `int`, so it comes first.
    if isinstance(value, bool):
        return str(value).lower()
    # Longer numbers would fill the message, and Python refuses to print the longest.
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
    if isinstance(text, Quantity):
        text = str(text)
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
    number = Fraction(match["number"])
    value = number * _factor(match["unit"], number, text, dimension)
    if match["number"].startswith("-"):
        raise InputError(f"{dimension.name} must not be negative: got {shown(text)}")
    if value > dimension.largest:
        raise InputError(f"{shown(text)} is above the largest value, {_plain(dimension.largest, dimension)}")
    if value.denominator != 1:
        raise InputError(f"{shown(text)} is not a whole number of {dimension.base}, the finest resolution")
    return value.numerator


def _factor(unit: str, number: Fraction, text: str, dimension: _Dimension) -> int:
    if unit in dimension.units:
        return dimension.units[unit]
    if not unit:
        raise InputError(f"{dimension.name} needs a unit such as {dimension.example}: got {shown(text)}")
    # A valid unit of another kind suggests the wrong key, not a misspelt unit.
    for other in _DIMENSIONS:
        if unit in other.units:
            raise InputError(
                f"{shown(text)} is {other.name}; here {dimension.name} is needed, "
                f"such as 10 {dimension.example}"
            )
    hint = _rate_hint(unit, number) if dimension is _RATE else ""
    hint = hint or f"did you mean {_either(_likely(unit, dimension))}?"
    raise InputError(f"{shown(text)} has the unknown unit {shown(unit)}; {hint}")


def _rate_hint(unit: str, number: Fraction) -> str:
    """Both readings of a rate if `unit` does not make clear whether bits or bytes are meant; else empty."""
    prefix = unit[0].upper() if unit[0] in "kKmMgGtT" else ""
    prefix = "k" if prefix == "K" else prefix
    bits, in_bytes = f"{prefix}bps", f"{prefix}B/s"
    says_bytes = re.search("B(?!it)", unit) is not None
    says_bits = unit.lower() == bits.lower() and not says_bytes
    if says_bits or not prefix or not 0 < number * _RATE.units[in_bytes] <= _RATE.largest:
        return ""
    given = _decimal(number)
    converted = f"{given} {in_bytes} is {_decimal(8 * number)} {bits}"
    if says_bytes:
        return f"a capital B is bytes, and {converted}; write {in_bytes} for bytes, {bits} for bits"
    return f"did you mean {given} {bits}, or bytes? {converted}"


def _decimal(number: Fraction) -> str:
    """`number` in decimal, to 12 significant digits.

    >>> _decimal(Fraction(50)), _decimal(Fraction("0.125"))
    ('50', '0.125')
    """
    return f"{float(number):.12g}"


def _likely(unit: str, dimension: _Dimension) -> list[str]:
    """Up to three units that `unit` may mean, the likeliest first; if it resembles none, common ones."""
    same = [each for each in dimension.units if each.lower() == unit.lower()]
    if same:
        return same[:3]
    # One of several spellings of a unit is enough in a hint.
    known = [each for each in dimension.units if each.isascii() and not each.endswith(("b/s", "bit/s"))]
    begin_alike = [each for each in known if each[0].lower() == unit[0].lower()]
    begin_alike.sort(key=lambda each: not unit.lower().startswith(each.lower()))
    usual = [dimension.example, *dimension.printed]
    return list(dict.fromkeys([*begin_alike, *get_close_matches(unit, known), *usual]))[:3]


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _plain(value: int, dimension: _Dimension) -> str:
    """`value` rounded down to the largest unit of output; a duration also in days."""
    unit = dimension.printed[0]
    text = f"{value // dimension.units[unit]:,} {unit}"
    days = value // (86_400 * _DURATION.units["s"])
    return f"{text} ({days:,} days)" if dimension is _DURATION else text


def _written(value: int, dimension: _Dimension) -> str:
    if dimension is _BYTES:
        return format_bytes(value)
    return format_duration(value) if dimension is _DURATION else _format(value, dimension)


def _format(value: int, dimension: _Dimension) -> str:
    smallest = dimension.printed[-1]
    unit = next((unit for unit in dimension.printed if value >= dimension.units[unit]), smallest)
    whole, rest = divmod(value, dimension.units[unit])
    # Units of output are powers of ten: an exact value in a unit of 10^n has at most n decimals.
    places = len(str(dimension.units[unit])) - 1
    fraction = f".{rest:0{places}d}".rstrip("0") if rest else ""
    return f"{whole}{fraction} {unit}"


def _schema(dimension: _Dimension, positive: bool) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "description": f"{dimension.name}{' above 0' if positive else ''} with its unit",
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
        return _written(value, dimension)

    return BeforeValidator(parse), PlainSerializer(write, return_type=str), _schema(dimension, positive)


DurationPs = Annotated[int, *_quantity(_DURATION)]
"""A pydantic field: an integer in picoseconds, read from text such as "180 ms"."""

PositiveDurationPs = Annotated[int, *_quantity(_DURATION, positive=True)]
"""A `DurationPs` above zero."""

RateBps = Annotated[int, *_quantity(_RATE)]
"""A pydantic field: an integer in bits per second, read from text such as "50 Gbps"."""

PositiveRateBps = Annotated[int, *_quantity(_RATE, positive=True)]
"""A `RateBps` above zero."""

Bytes = Annotated[int, *_quantity(_BYTES)]
"""A pydantic field: an integer in bytes, read from text such as "32 MB"."""
