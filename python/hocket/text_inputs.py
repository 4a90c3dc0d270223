"""Reads the text inputs of other simulators (HPCC, SimAI): lines of words, numbers with or without units, and
errors that name the line.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from hocket.errors import InputError
from hocket.units import LARGEST, parse_duration, parse_rate, shown

MAX_FILE_BYTES = 512_000_000
"""The largest file that is read: about ten million flows of a study."""

_MOST_MISTAKES_SHOWN = 20
# Twenty digits are enough for every 64-bit number; a longer word is out of range, so it is never converted.
_WHOLE = re.compile(r"[0-9]{1,20}", re.ASCII)
# The limits on digits and on the exponent keep exact arithmetic cheap: 1e999999999 has a billion digits.
_REAL = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
# HPCC's config_doc.txt puts explanations in braces after values.
_COMMENT = re.compile(r"\{[^{}]*\}|(?:^|(?<=\s))#.*")

SECOND_PS = 10**12
MICROSECOND_PS = 10**6
NANOSECOND_PS = 10**3


@dataclass
class Mistakes:
    """The errors in one file, collected so that all are reported together."""

    path: Path
    entries: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        """Adds an error in this line, counted from 1; line 0 stands for the whole file."""
        self.entries.append((line, text))

    def check(self) -> None:
        """Raises `InputError` with one line per error, in the order of the file, if there are any."""
        if not self.entries:
            return
        # Stable, so that the errors of a line stay in the order of its words; those of the file come first.
        ordered = sorted(self.entries, key=lambda mistake: mistake[0])
        lines = [
            f"{self.path}: line {line}: {text}" if line else f"{self.path}: {text}"
            for line, text in ordered[:_MOST_MISTAKES_SHOWN]
        ]
        if len(ordered) > _MOST_MISTAKES_SHOWN:
            lines.append(f"{self.path}: and {len(ordered) - _MOST_MISTAKES_SHOWN} more mistakes")
        raise InputError("\n".join(lines))


def read_words(path: Path) -> list[tuple[int, list[str]]]:
    """The lines of `path` that have any words: the line's number, counted from 1, and its words.

    Comments are left out: text in braces, and from a `#` at the start of a word to the end of the line.
    Raises `InputError` for a file that does not exist, is too large, or is not UTF-8.
    """
    text = _read(path)
    # Files of millions of flows have no comments, and skip the regular expression.
    if "#" in text or "{" in text:
        text = "\n".join(_COMMENT.sub(" ", line) for line in text.split("\n"))
    # Not `splitlines`, which also splits at characters that editors do not count as ends of lines.
    return [(number, words) for number, line in enumerate(text.split("\n"), 1) if (words := line.split())]


def _read(path: Path) -> str:
    # Checked first: opening a FIFO would wait for its writer.
    try:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file():
            raise InputError(f"{path}: cannot be read: not a file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path}: has {size} bytes, above the limit of {MAX_FILE_BYTES}")
        # Editors on Windows may begin a file with a byte order mark.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text: byte {error.start} cannot be decoded") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def whole(text: str, lowest: int, highest: int) -> int:
    """The whole number `text`. Raises `InputError` if it is none, or not from `lowest` to `highest`.

    >>> whole("7", 0, 7)
    7
    """
    if _WHOLE.fullmatch(text) and lowest <= int(text) <= highest:
        return int(text)
    raise InputError(f"must be a whole number from {lowest} to {highest}: got {shown(text)}")


def real(text: str) -> Fraction:
    """The finite number `text`, exactly. Raises `InputError` for anything else.

    >>> real("2.5e-1")
    Fraction(1, 4)
    """
    if not _REAL.fullmatch(text):
        raise InputError(f"must be a finite number: got {shown(text)}")
    return Fraction(text)


def time_ps(text: str, unit_ps: int) -> int:
    """The picoseconds in `text`, a number in units of `unit_ps`. Raises `InputError` if it is negative.

    Rounded to the nearest picosecond, because flow generators print seconds with more decimals than that.

    >>> time_ps("0.0000000015", SECOND_PS)
    1500
    """
    value = real(text)
    if value < 0:
        raise InputError(f"must not be negative: got {shown(text)}")
    scaled = value * unit_ps
    return (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)


def bounded_time_ps(text: str, unit_ps: int) -> int:
    """As `time_ps`. Also raises `InputError` for a time that does not fit in 63 bits."""
    value = time_ps(text, unit_ps)
    if value > LARGEST:
        raise InputError(f"must be at most {LARGEST // unit_ps}: got {shown(text)}")
    return value


def rate_bps(text: str) -> int:
    """The bits per second in `text`, such as "40Mb/s"; a whole number without a unit is in bps.

    Raises `InputError` for 0 and for anything else that is no rate.

    >>> rate_bps("200Gbps"), rate_bps("25000000000")
    (200000000000, 25000000000)
    """
    rate = parse_rate(f"{text} bps" if _WHOLE.fullmatch(text) else text)
    if rate == 0:
        raise InputError(f"must be above 0: got {shown(text)}")
    return rate


def delay_ps(text: str) -> int:
    """The picoseconds in `text`, such as "0.0005ms"; a number without a unit is in seconds, as in ns-3.

    Raises `InputError` for anything that is no duration.

    >>> delay_ps("0.0005ms"), delay_ps("0.000001")
    (500000, 1000000)
    """
    return parse_duration(f"{text} s" if _REAL.fullmatch(text) else text)
