"""Records of jobs in other clusters' traces, and tables read with errors that name file, line and value."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from re import compile as pattern

from hocket.errors import InputError
from hocket.profiles import PS_PER_S
from hocket.units import shown

# Stricter than `Fraction`, which also accepts "1/3" and "1_000", and would compute 10^999999999 exactly.
_NUMBER = pattern(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?")
_EPOCH = datetime(1970, 1, 1)
_PS_PER_US = 10**6
_MOST_S = 10**12
"""The largest time accepted, in seconds: 30,000 years."""


@dataclass(frozen=True)
class Record:
    """A job of another cluster's trace."""

    name: str
    submitted_ps: int | None
    """By the trace's own clock; `None` if unknown."""
    gpus: int = 0
    run_time_ps: int | None = None
    """On its GPUs; `None` if the trace specifies its work differently."""
    iterations: int | None = None
    application: str | None = None
    """The application that it trains, as named by the trace."""
    refused: str | None = None
    """Why it cannot be run again; `None` if it can."""


@dataclass(frozen=True)
class Row:
    """A row of a table, with its file and line."""

    path: Path
    line: int
    values: Mapping[str, str]

    def text(self, key: str) -> str:
        """The value as text, without surrounding blanks."""
        return self.values[key].strip()

    def wrong(self, key: str, expected: str) -> InputError:
        """The error for a value of `key` that is not as `expected`."""
        return InputError(
            f"{self.path}: line {self.line}: {key} must be {expected}: got {shown(self.text(key))}"
        )

    def number(self, key: str) -> Fraction:
        """A number from 0 to 10¹². Raises `InputError` for anything else."""
        text = self.text(key)
        # All other text becomes a value outside the limits, so that there is one message.
        value = Fraction(text) if _NUMBER.fullmatch(text) else Fraction(-1)
        if not 0 <= value <= _MOST_S:
            raise self.wrong(key, "a number from 0 to 10^12")
        return value

    def whole(self, key: str) -> int:
        """A whole number from 0 to 10¹², possibly written as 2.0. Raises `InputError` for anything else."""
        value = self.number(key)
        if value.denominator != 1:
            raise self.wrong(key, "a whole number")
        return value.numerator

    def seconds(self, key: str) -> int:
        """Seconds as picoseconds, rounded."""
        return round(self.number(key) * PS_PER_S)

    def time(self, key: str) -> int:
        """A date and time as picoseconds. Raises `InputError` for anything else."""
        try:
            return clock_ps(self.text(key))
        except ValueError:
            raise self.wrong(key, "a time such as 2020-04-01 00:00:00") from None


def clock_ps(text: str) -> int:
    """The time in `text`, as in 2020-04-01 00:00:00, in picoseconds since 1970.

    Raises `ValueError` for anything else, and for a time with a time zone: the traces have none.

    >>> clock_ps("1970-01-01 00:01:00") // 10**12
    60
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError("has a time zone")
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * PS_PER_S + since.microseconds * _PS_PER_US


def rows(path: Path, columns: Sequence[str], header: bool | None = True) -> Iterator[Row]:
    """The rows of a CSV file that has at least `columns`, in any order.

    Without a `header` the file has exactly `columns`, in this order; with `None` it may have one.

    Raises `InputError` if the file cannot be read or lacks a column, and for a row of another length.
    """
    with_header = header
    names: Sequence[str] = columns
    for line, values in lines(path, ","):
        if with_header is None:
            with_header = values == list(columns)
        if with_header:
            names, with_header = _names(path, line, values, columns), False
        elif len(values) != len(names):
            raise InputError(
                f"{path}: line {line}: has {len(values)} values, but the table has {len(names)} columns"
            )
        else:
            yield Row(path, line, dict(zip(names, values, strict=True)))


def _names(path: Path, line: int, values: Sequence[str], needed: Sequence[str]) -> list[str]:
    """The names in a header. Raises `InputError` if one of `needed` is missing or occurs twice."""
    names = [value.strip() for value in values]
    for column in needed:
        if names.count(column) > 1:
            raise InputError(f"{path}: line {line}: has the column {column!r} twice")
        if column not in names:
            raise InputError(f"{path}: line {line}: has no column {column!r}; needed are {', '.join(needed)}")
    return names


def lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The non-empty lines of a table, with their numbers counted from 1.

    Raises `InputError` if the file cannot be read as a table.
    """
    try:
        # Spreadsheets may write a byte-order mark, which `utf-8-sig` skips.
        with path.open(encoding="utf-8-sig", newline="") as file:
            # Tab-separated traces contain commands, in which quotation marks are ordinary characters.
            reader = csv.reader(
                file,
                delimiter=delimiter,
                quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
            )
            for values in reader:
                if any(value.strip() for value in values):
                    yield reader.line_num, values
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text: byte {error.start} of a part that was read") from None
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: is not a row of a table: {error}") from None
    # `open` raises `ValueError` for a path that contains a null character.
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
