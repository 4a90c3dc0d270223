"""Byte counters in the answer of a Prometheus range query, as a series to profile.

Which of the answer's series it is, and how often it was really read, is decided here; the rest is as for any
counter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from hocket.errors import InputError
from hocket.profiling.counters import (
    COUNTER_UNITS,
    MAX_FILE_BYTES,
    FloatArray,
    Unit,
    counters_of,
    fresh_readings,
    listed,
)
from hocket.profiling.job import JobProfile
from hocket.profiling.period import READINGS_PER_PERIOD
from hocket.units import shown

# Labels that tell ports apart, in the order in which a series is named after them.
_FIRST_LABELS = ("instance", "device", "interface", "port")
_NAME = "__name__"
# A counter falls where it wraps or its host starts again: hardly ever. What falls more often is no counter.
_MOST_FALLS = 0.05
# An iteration of a large model; readings must be a quarter of it apart at most.
_EXAMPLE_S = 0.25


class Series(msgspec.Struct):
    """One series of a matrix: its labels, and samples of (seconds since 1970, value as text)."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 (Prometheus's name)
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    """Prometheus HTTP API, "Expression query result formats"."""

    status: str
    data: _Data | None = None
    error: str = ""


def profile_prometheus(
    path: str | Path,
    *,
    column: str | None = None,
    interface: str | None = None,
    unit: Unit | None = None,
    name: str | None = None,
) -> JobProfile:
    """Profile the job whose traffic is a counter in the answer of a Prometheus range query.

    `column` is the metric's name, by default the first that `COUNTER_UNITS` knows. `interface` chooses the
    series by the value of a label, such as its `instance` or `device`, or several with `/` between them.
    Otherwise as `profile_counters`; the profile's `notes` say which iterations are too short to be seen.

    Raises `InputError` for anything but such an answer, an expression that is no counter, several series that
    fit, and where `profile_counters` does.
    """
    from hocket.profiling.series import profile_series

    path = Path(path)
    metric, frame, interval_s = read_counter(path, column, interface)
    limit = shortest_seen(interval_s)
    try:
        series = counters_of(frame, str(path), column=metric, unit=unit, lifespan_s=0.0)
        profile = profile_series(series, name or interface or path.stem)
    except InputError as error:
        raise InputError(f"{error}; {limit}" if limit else str(error)) from None
    return replace(profile, notes=(*profile.notes, *([limit] if limit else [])))


def read_counter(path: Path, column: str | None, interface: str | None) -> tuple[str, pl.DataFrame, float]:
    """The name of a counter in an answer, its readings as `time_s` and that name, and the seconds between
    two of them.
    """
    series = the_series(read_answer(path), column, interface, str(path))
    metric = series.metric.get(_NAME, "value")
    where = f"{path}: {metric}"
    time_s = np.array([time for time, _ in series.values])
    counts = np.array([number(value, place, where) for place, (_, value) in enumerate(series.values)])
    if not np.all(np.diff(time_s) > 0):
        raise InputError(f"{where}: the times of its samples do not increase")
    check_counter(counts, where)
    kept = scraped(time_s, counts)
    interval_s = float(np.median(np.diff(time_s[kept]))) if kept.size > 1 else 0.0
    return metric, pl.DataFrame({"time_s": time_s[kept], metric: counts[kept]}), interval_s


def read_answer(path: Path) -> list[Series]:
    """The series of the answer in a file."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB")
        answer = msgspec.json.decode(path.read_bytes(), type=_Answer)
        if answer.status != "success" or answer.data is None:
            raise InputError(f"{path}: the query failed: {shown(answer.error or answer.status)}")
        if answer.data.resultType != "matrix":
            raise InputError(
                f"{path}: the answer is a {shown(answer.data.resultType)}; that of a range query "
                "(api/v1/query_range), a 'matrix', is needed"
            )
        return msgspec.json.decode(answer.data.result, type=list[Series])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no answer of Prometheus: {error}") from None


def the_series(answer: Sequence[Series], column: str | None, interface: str | None, where: str) -> Series:
    """The one series that is asked for."""
    if not answer:
        raise InputError(f"{where}: the answer holds no series: nothing matched the query")
    metrics = list(dict.fromkeys(series.metric.get(_NAME, "") for series in answer))
    if column is None:
        column = next((known for known in COUNTER_UNITS if known in metrics), metrics[0])
    elif column not in metrics:
        raise InputError(f"{where}: no metric {column!r}; it has {listed(metrics)}")
    named = [series for series in answer if series.metric.get(_NAME, "") == column]
    titles = [title(series, named) for series in named]
    found = [
        series
        for series, its in zip(named, titles, strict=True)
        if interface is None or its == interface or {*interface.split("/")} <= {*series.metric.values()}
    ]
    if len(found) != 1:
        several = "no series" if not found else f"{len(found)} series"
        asked = "" if interface is None else f" {interface!r}"
        raise InputError(
            f"{where}: {several}{asked} of {column or 'the expression'}; choose one by its interface: "
            f"{listed(titles)}"
        )
    return found[0]


def title(series: Series, others: Iterable[Series]) -> str:
    """The values of the labels in which a series differs from others, `/` between them."""
    differing = {
        label
        for other in others
        for label in {*series.metric, *other.metric}
        if series.metric.get(label) != other.metric.get(label)
    }
    first = [label for label in _FIRST_LABELS if label in differing]
    ordered = [*first, *sorted(differing.difference(first))]
    return "/".join(series.metric[label] for label in ordered if label in series.metric)


def number(text: str, place: int, where: str) -> float:
    """The value of a sample, checked to be finite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: sample {place + 1} is {shown(text)}, not a finite number")
    return value


def check_counter(counts: FloatArray, where: str) -> None:
    """Raises `InputError` for what no counter does: fractions, and falling again and again."""
    reason = ""
    falls = int(np.sum(np.diff(counts) < 0))
    if np.any(counts % 1 != 0):
        reason = f"it has fractions, such as {counts[int(np.argmax(counts % 1 != 0))]:g}"
    elif falls > _MOST_FALLS * counts.size:
        reason = f"it falls in {falls} of {counts.size - 1} steps"
    if reason:
        raise InputError(
            f"{where}: is no counter: {reason}; query the counter itself, not its rate(): a rate over a "
            "window hides the iterations"
        )


def scraped(time_s: FloatArray, counts: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Indices of the samples that are readings of their own.

    A range query answers at every step with the last value scraped: with a step below the scrape interval,
    values repeat. While a port is busy they change with each scrape, so the shortest times between changes
    are the scrape interval.
    """
    steps = np.diff(counts)
    changed_s = time_s[1:][steps != 0]
    if changed_s.size < 2:
        return np.arange(time_s.size)
    step_s = float(np.median(np.diff(time_s)))
    scrape_s = float(np.quantile(np.diff(changed_s), 0.05))
    lifespan_s = scrape_s - 0.5 * step_s if scrape_s > 1.5 * step_s else 0.0
    return fresh_readings(time_s, steps, np.zeros(steps.size, dtype=np.bool_), lifespan_s)


def shortest_seen(interval_s: float) -> str | None:
    """A sentence on the iterations that such readings do not show; None if they show ordinary ones."""
    if interval_s * READINGS_PER_PERIOD <= _EXAMPLE_S:
        return None
    return (
        f"readings {interval_s:.3g} s apart show no iteration shorter than "
        f"{READINGS_PER_PERIOD * interval_s:.3g} s; one of {_EXAMPLE_S * 1e3:g} ms needs a reading every "
        f"{_EXAMPLE_S / READINGS_PER_PERIOD * 1e3:.3g} ms, as `hocket profile --watch` makes them"
    )
