"""Byte counters of a NIC as a clean series: one clock, in bytes, wraps undone, cached readings merged.

This module knows the counters' names, units and pitfalls; the rest of the package interprets the traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hocket.errors import InputError
from hocket.units import shown

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Unit = Literal["bytes", "words4"]

COUNTER_UNITS: Mapping[str, Unit] = {
    "tx_bytes": "bytes",
    "rx_bytes": "bytes",
    "port_xmit_data": "words4",
    "port_rcv_data": "words4",
    "node_infiniband_port_data_transmitted_bytes_total": "bytes",
    "node_infiniband_port_data_received_bytes_total": "bytes",
    "node_network_transmit_bytes_total": "bytes",
    "node_network_receive_bytes_total": "bytes",
}
"""Counters known by name, and the unit of each: `words4` are words of 4 octets, as InfiniBand's PortXmitData
counts (Linux `Documentation/ABI/stable/sysfs-class-infiniband`). If a file has several, the first of this
list is used: sent before received."""

BYTES_PER_COUNT: Mapping[Unit, int] = {"bytes": 1, "words4": 4}

TIME_COLUMNS: Mapping[str, float] = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9}
"""Seconds per unit of the time columns whose name gives the unit."""

MAX_FILE_BYTES = 512_000_000
"""The largest file of readings: about two days at one every 10 ms."""

EPOCH_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Pairs of a threshold and seconds per unit: a `timestamp` this large counts nanoseconds, microseconds or
milliseconds since 1970."""

# The leading space keeps it apart from any column of a file, whose names are stripped.
LINE = " line"

INTERFACE_COLUMNS = ("interface", "device", "dev", "port")

# Beyond this many typical intervals between two readings, the traffic between them is unknown.
GAP_INTERVALS = 4.0
# mlx5's `lifespan` is 10 ms by default. A much longer one has to be given: a series with one short burst per
# iteration looks just like a counter that is refreshed once per iteration.
LONGEST_GUESSED_LIFESPAN_S = 0.05
# The lifespan is estimated from this many readings: if it does not show in them, it does not show at all.
MOST_GUESSED_FROM = 100_000
# A wrong lifespan doubles many rates: lifespans whose busy rates are within this factor are equally good.
SAME_BUSY_RATE = 1.3
# Three periods of four readings each: no shorter series can have a period (`period`).
MINIMUM_READINGS = 12
# The search works on a grid that covers gaps too, so its length is limited: two days hold about 17 million
# readings 10 ms apart.
MOST_INTERVALS = 20_000_000


@dataclass(frozen=True, eq=False)
class CounterSeries:
    """Readings of one byte counter.

    `time_s` (n) starts at 0 and increases; `total_bytes` (n) starts at 0 and never decreases. `known` (n - 1)
    tells for each interval between two readings whether its bytes are known: they are not across a gap or a
    reset of the counter.
    """

    source: str
    column: str
    time_s: FloatArray
    total_bytes: FloatArray
    known: BoolArray

    @property
    def interval_s(self) -> float:
        """The typical time between two readings."""
        return float(np.median(np.diff(self.time_s)))


def read_counters(
    source: str | Path | pl.DataFrame,
    *,
    column: str | None = None,
    unit: Unit | None = None,
    wrap_bits: Literal[32, 64] | None = None,
    lifespan_s: float | None = None,
    interface: str | None = None,
) -> CounterSeries:
    """Reads a counter of a CSV file or frame; see `hocket.profiling.profile_counters` for the arguments.

    Raises:
        InputError: The file or a value in it cannot be used; the message names file, column, line and limit.
    """
    if isinstance(source, pl.DataFrame):
        name, frame = "data frame", source
    else:
        name, frame = str(source), read_csv(Path(source))
    return counters_of(
        frame,
        name,
        column=column,
        unit=unit,
        wrap_bits=wrap_bits,
        lifespan_s=lifespan_s,
        interface=interface,
    )


def counters_of(
    frame: pl.DataFrame,
    name: str,
    *,
    column: str | None = None,
    unit: Unit | None = None,
    wrap_bits: Literal[32, 64] | None = None,
    lifespan_s: float | None = None,
    interface: str | None = None,
) -> CounterSeries:
    """Like `read_counters`, but for a frame, which messages call `name`."""
    if column is not None and column not in frame.columns:
        raise InputError(f"{name}: no column {column!r}; the columns are {listed(real_columns(frame))}")
    # Messages count lines as an editor does: the header is line 1, the first reading line 2.
    frame = frame.with_row_index(LINE, offset=2)
    if interface is not None:
        frame = rows_of_interface(frame, interface, name)
    column = column if column is not None else counter_column(frame, name)
    unit = unit if unit is not None else COUNTER_UNITS.get(column, "bytes")
    if unit not in BYTES_PER_COUNT:
        raise InputError(f"{name}: column {column!r}: unit {unit!r} must be 'bytes' or 'words4'")
    if lifespan_s is not None and not 0 <= lifespan_s <= 10:
        # The range of mlx5's `lifespan`: 0 to 10,000 ms.
        raise InputError(f"{name}: lifespan_s is {lifespan_s}; it must be from 0 to 10")
    if frame.height < MINIMUM_READINGS:
        raise InputError(f"{name}: {frame.height} readings; a profile needs at least {MINIMUM_READINGS}")
    time_s = read_time(frame, name)
    counts, reset = count_steps(
        frame[LINE], read_counts(frame, column, name), wrap_bits, f"{name}: column {column!r}"
    )
    return clean(name, column, time_s, counts * float(BYTES_PER_COUNT[unit]), reset, lifespan_s)


def read_csv(path: Path) -> pl.DataFrame:
    """Reads all columns as text, so that 64-bit counters keep every digit."""
    try:
        # Opened here because polars, given a path, would expand a folder or a `*` in it.
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB")
        frame = pl.read_csv(content, infer_schema=False)
        return frame.rename({column: column.strip() for column in frame.columns})
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except pl.exceptions.NoDataError:
        raise InputError(f"{path}: the file is empty") from None
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: not a CSV table: {str(error).splitlines()[0]}") from None


def rows_of_interface(frame: pl.DataFrame, interface: str, name: str) -> pl.DataFrame:
    """The rows of one interface in a file with readings of several."""
    columns = [column for column in INTERFACE_COLUMNS if column in frame.columns]
    if not columns:
        raise InputError(
            f"{name}: no column to choose interface {interface!r} by; it would be one of "
            f"{listed(INTERFACE_COLUMNS)}"
        )
    for column in columns:
        rows = frame.filter(pl.col(column).cast(pl.String) == interface)
        if rows.height > 0:
            return rows
    interfaces = sorted({str(value) for column in columns for value in frame[column].unique()})
    raise InputError(
        f"{name}: no reading of interface {interface!r}; the interfaces are {listed(interfaces)}"
    )


def counter_column(frame: pl.DataFrame, name: str) -> str:
    """The first column that `COUNTER_UNITS` knows."""
    for column in COUNTER_UNITS:
        if column in frame.columns:
            return column
    raise InputError(
        f"{name}: no known counter; the columns are {listed(real_columns(frame))}, known counters are "
        f"{listed(COUNTER_UNITS)}; choose another with `column`"
    )


def real_columns(frame: pl.DataFrame) -> list[str]:
    """The columns of the input, without that of line numbers."""
    return [column for column in frame.columns if column != LINE]


def listed(names: Iterable[str]) -> str:
    """The first dozen names, quoted for a message; "none" if there are none."""
    quoted = [shown(name) for name in names]
    if len(quoted) > 12:
        quoted[12:] = ["…"]
    return ", ".join(quoted) if quoted else "none"


def read_time(frame: pl.DataFrame, name: str) -> FloatArray:
    """The times of the readings in seconds since the first, checked to increase."""
    column = next((column for column in (*TIME_COLUMNS, "timestamp") if column in frame.columns), None)
    if column is None:
        raise InputError(
            f"{name}: no time column; the columns are {listed(real_columns(frame))}, time columns are "
            f"{listed((*TIME_COLUMNS, 'timestamp'))}"
        )
    values = frame[column]
    if column == "timestamp" and (values.dtype.is_temporal() or is_text_date(values)):
        time_s = seconds_of_dates(values, frame[LINE], name)
    else:
        numbers = read_numbers(values, frame[LINE], name)
        # Subtracted before the conversion: nanoseconds since 1970 do not fit in a float.
        scale = TIME_COLUMNS[column] if column in TIME_COLUMNS else epoch_unit(float(numbers[0]))
        elapsed: FloatArray = (numbers - numbers[0]).to_numpy().astype(np.float64)
        time_s = elapsed * scale
    steps = np.diff(time_s)
    if not np.all(steps > 0):
        row = int(np.argmin(steps > 0)) + 1
        raise InputError(
            f"{name}: column {column!r}, line {frame[LINE][row]}: "
            f"time goes from {values[row - 1]} to {values[row]}; it must increase"
            + (
                ""
                if float(steps[row - 1]) < 0
                else " (if the file has several interfaces, choose one with `interface`)"
            )
        )
    return time_s


def epoch_unit(value: float) -> float:
    """Seconds per unit of a numeric `timestamp`, judged by its size."""
    return next((unit for threshold, unit in EPOCH_UNITS if value >= threshold), 1.0)


def is_text_date(values: pl.Series) -> bool:
    """Whether the first value is text such as `2026-01-31T12:00:00.005`."""
    return values.dtype == pl.String and "-" in (values[0] or "") and ":" in values[0]


def seconds_of_dates(values: pl.Series, lines: pl.Series, name: str) -> FloatArray:
    """The dates of a column as seconds since the first."""
    if values.dtype == pl.String:
        try:
            values = values.str.strip_chars().str.to_datetime(time_unit="ns", strict=True, time_zone="UTC")
        except pl.exceptions.PolarsError:
            raise InputError(
                f"{name}: column 'timestamp': not every value is a date such as '{values[0]}'"
            ) from None
    elapsed = values.cast(pl.Datetime("ns")).cast(pl.Int64)
    refuse_missing(elapsed.is_null(), values, lines, name)
    elapsed_ns: FloatArray = (elapsed - elapsed[0]).to_numpy().astype(np.float64)
    return elapsed_ns * 1e-9


def read_numbers(values: pl.Series, lines: pl.Series, name: str) -> pl.Series:
    """A column as integers if all are integers, else as finite floats."""
    if values.dtype == pl.String:
        text = values.str.strip_chars()
        # A 64-bit counter in its upper half fits only the unsigned type; floats would lose its last digits.
        for integer in (pl.Int64, pl.UInt64):
            exact = text.cast(integer, strict=False)
            if exact.null_count() == 0:
                return exact
        numbers = text.cast(pl.Float64, strict=False)
    elif values.dtype.is_integer():
        numbers = values
    else:
        numbers = values.cast(pl.Float64, strict=False)
    bad = numbers.is_null()
    if numbers.dtype.is_float():
        bad = bad | ~numbers.is_finite().fill_null(False)
    refuse_missing(bad, values, lines, name)
    return numbers


def refuse_missing(bad: pl.Series, values: pl.Series, lines: pl.Series, name: str) -> None:
    """Raises `InputError` for the first value marked in `bad`."""
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise InputError(
            f"{name}: column {values.name!r}, line {lines[row]}: {values[row]!r} is not a finite number"
        )


def read_counts(frame: pl.DataFrame, column: str, name: str) -> NDArray[np.uint64]:
    """The counter's readings, checked to be from 0 to 2^64."""
    numbers = read_numbers(frame[column], frame[LINE], name)
    where = f"{name}: column {column!r}"
    low = float(numbers.min())  # type: ignore[arg-type]  # numbers, as just checked
    if low < 0:
        row = int(numbers.arg_min() or 0)
        raise InputError(f"{where}, line {frame[LINE][row]}: {low:g}; a counter is never negative")
    if float(numbers.max()) >= 2.0**64:  # type: ignore[arg-type]  # numbers, as just checked
        row = int(numbers.arg_max() or 0)
        raise InputError(f"{where}, line {frame[LINE][row]}: {numbers[row]:g}; a counter has at most 64 bits")
    return numbers.to_numpy().astype(np.uint64)


def count_steps(
    lines: pl.Series, counts: NDArray[np.uint64], wrap_bits: Literal[32, 64] | None, where: str
) -> tuple[FloatArray, BoolArray]:
    """Increase of the counter in each interval, and whether it was reset there (the increase is then 0).

    A decrease is a wrap at `wrap_bits`. Without these, it is a wrap at 32 bits if the increase is then at
    most the largest of the others, and otherwise a reset.
    """
    if wrap_bits == 32 and int(counts.max()) >= 2**32:
        row = int(np.argmax(counts >= 2**32))
        raise InputError(f"{where}, line {lines[row]}: {counts[row]} does not fit in a counter of 32 bits")
    # Unsigned subtraction is modulo 2^64, so a wrap at 64 bits needs no correction.
    steps = np.diff(counts)
    fell = counts[1:] < counts[:-1]
    if wrap_bits == 32:
        steps[fell] &= np.uint64(2**32 - 1)
        reset = np.zeros_like(fell)
    elif wrap_bits == 64:
        reset = np.zeros_like(fell)
    elif wrap_bits is None:
        # A reset that is taken for a wrap usually makes an increase of gigabytes, which no other step has.
        largest = int(steps[~fell].max(initial=0))
        wrapped = steps & np.uint64(2**32 - 1)
        is_wrap = fell & (counts[:-1] < 2**32) & (wrapped <= largest)
        steps = np.where(is_wrap, wrapped, steps)
        reset = fell & ~is_wrap
    else:
        raise InputError(f"{where}: wrap_bits is {wrap_bits}; it must be 32 or 64")
    if not steps[~reset].any():
        raise InputError(f"{where}: the counter never increases; there is no traffic to profile")
    return np.where(reset, 0.0, steps.astype(np.float64)), reset


def clean(
    name: str,
    column: str,
    time_s: FloatArray,
    step_bytes: FloatArray,
    reset: BoolArray,
    lifespan_s: float | None,
) -> CounterSeries:
    """Merges cached readings, then marks the intervals whose bytes are unknown."""
    if lifespan_s is None:
        lifespan_s = guess_lifespan(time_s, step_bytes, reset)
    kept = fresh_readings(time_s, step_bytes, reset, lifespan_s)
    # Totals, not steps, are kept: the bytes that cached readings hid then belong to the next fresh one.
    total_bytes = np.concatenate([[0.0], np.cumsum(step_bytes)])[kept]
    resets = np.concatenate([[0], np.cumsum(reset)])[kept]
    time_s = time_s[kept] - time_s[kept][0]
    intervals_s = np.diff(time_s)
    if kept.size < MINIMUM_READINGS:
        raise InputError(
            f"{name}: column {column!r}: {kept.size} readings are left after merging those cached for "
            f"{lifespan_s * 1e3:g} ms; a profile needs at least {MINIMUM_READINGS}"
        )
    interval_s = float(np.median(intervals_s))
    if time_s[-1] > MOST_INTERVALS * interval_s:
        raise InputError(
            f"{name}: column {column!r}: readings {interval_s:.3g} s apart span {time_s[-1]:.3g} s with "
            f"their gaps; the limit is {MOST_INTERVALS:,} times the interval"
        )
    known = (np.diff(resets) == 0) & (intervals_s <= GAP_INTERVALS * interval_s)
    return CounterSeries(name, column, time_s, total_bytes, known)


def guess_lifespan(time_s: FloatArray, step_bytes: FloatArray, reset: BoolArray) -> float:
    """Estimates how long (s) the counter keeps a value until it reads the hardware again; 0 without a cache.

    While a port is busy, every fresh reading differs from the one before, so the shortest times between
    changes are one lifespan, give or take one reading: a value may be refreshed just before or just after it
    is read. Bytes that a cached reading hides appear in the next one, as a rate that the port never had. The
    estimate is therefore the shortest of these lifespans that yields no such rates.
    """
    step_bytes, reset = step_bytes[:MOST_GUESSED_FROM], reset[:MOST_GUESSED_FROM]
    time_s = time_s[: step_bytes.size + 1]
    changed_s = time_s[1:][step_bytes > 0]
    if changed_s.size < MINIMUM_READINGS:
        return 0.0
    between_s = float(np.quantile(np.diff(changed_s), 0.05))
    if between_s > LONGEST_GUESSED_LIFESPAN_S:
        return 0.0
    half_s = 0.5 * float(np.median(np.diff(time_s)))
    guesses_s = (0.0, between_s - half_s, between_s + half_s)
    highest = [busy_rate(time_s, step_bytes, reset, guess_s) for guess_s in guesses_s]
    return next(
        guess_s
        for guess_s, rate in zip(guesses_s, highest, strict=True)
        if rate <= SAME_BUSY_RATE * min(highest)
    )


def busy_rate(time_s: FloatArray, step_bytes: FloatArray, reset: BoolArray, lifespan_s: float) -> float:
    """The rate (bytes/s) that a tenth of the busy intervals between fresh readings exceed."""
    kept = fresh_readings(time_s, step_bytes, reset, lifespan_s)
    total_bytes = np.concatenate([[0.0], np.cumsum(step_bytes)])[kept]
    rates = np.diff(total_bytes) / np.diff(time_s[kept])
    return float(np.quantile(rates[rates > 0], 0.9)) if np.any(rates > 0) else 0.0


def fresh_readings(
    time_s: FloatArray, step_bytes: FloatArray, reset: BoolArray, lifespan_s: float
) -> NDArray[np.intp]:
    """Indices of the readings that are not a cached repeat of the one before.

    A value repeated within the lifespan of the last fresh one comes from the cache; after the lifespan, it
    means that the port was idle. A repeat followed by a fresh value less than a lifespan later was cached in
    any case.
    """
    repeated = (step_bytes == 0) & ~reset
    if lifespan_s <= 0 or not repeated.any():
        return np.arange(time_s.size)
    kept = [0]
    idle = False
    times_s = time_s.tolist()
    for index, repeat in enumerate(repeated.tolist(), start=1):
        since_s = times_s[index] - times_s[kept[-1]]
        if not repeat and idle and since_s < lifespan_s:
            kept.pop()
        if not repeat or since_s >= lifespan_s:
            kept.append(index)
            idle = repeat
    return np.array(kept, dtype=np.intp)
