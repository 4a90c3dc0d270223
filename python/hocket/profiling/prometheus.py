"""Profiles of byte counters in the response to a Prometheus range query.

This module chooses the series and finds out how often it was really read; everything else is as for any
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
# A counter falls only when it wraps or its host restarts. A series that falls in more than this share of its
# steps is not a counter.
_MOST_FALLS = 0.05
# The iteration time of a large model, as an example: readings must be at most a quarter of it apart.
_EXAMPLE_S = 0.25


class Series(msgspec.Struct):
    """One series of a matrix: labels, and samples as (seconds since 1970, value as text).

    Prometheus writes values as text because JSON has no NaN and no infinity.
    """

    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 (Prometheus's name)
    result: msgspec.Raw


class _Response(msgspec.Struct):
    """See "Expression query result formats" of the Prometheus HTTP API."""

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
    """Profiles the job whose traffic is a counter in the response to a Prometheus range query.

    `column` is the metric's name, by default the first one in `COUNTER_UNITS`. `interface` chooses the series
    by the value of a label, such as `instance` or `device`, or by several values joined with `/`. Otherwise
    like `profile_counters`; the profile's `notes` tell which iterations are too short to be seen.

    Raises `InputError` if the file is not such a response, the expression is not a counter, or not exactly
    one series matches; also where `profile_counters` does.
    """
    from hocket.profiling.series import profile_series

    path = Path(path)
    metric, frame, interval_s = read_counter(path, column, interface)
    limit = shortest_seen(interval_s)
    try:
        # Repeated values are already left out (`scraped`), so no lifespan is to be estimated.
        series = counters_of(frame, str(path), column=metric, unit=unit, lifespan_s=0.0)
        profile = profile_series(series, name or interface or path.stem)
    except InputError as error:
        raise InputError(f"{error}; {limit}" if limit else str(error)) from None
    return replace(profile, notes=(*profile.notes, *([limit] if limit else [])))


def read_counter(path: Path, column: str | None, interface: str | None) -> tuple[str, pl.DataFrame, float]:
    """The metric's name, its readings (columns `time_s` and that name), and the typical interval (s)."""
    series = chosen_series(read_response(path), column, interface, str(path))
    metric = series.metric.get(_NAME, "value")
    where = f"{path}: {metric}"
    time_s = np.array([time for time, _ in series.values])
    counts = np.array([number(value, place, where) for place, (_, value) in enumerate(series.values)])
    if not np.all(np.diff(time_s) > 0):
        raise InputError(f"{where}: the times of the samples do not increase")
    check_counter(counts, where)
    kept = scraped(time_s, counts)
    interval_s = float(np.median(np.diff(time_s[kept]))) if kept.size > 1 else 0.0
    return metric, pl.DataFrame({"time_s": time_s[kept], metric: counts[kept]}), interval_s


def read_response(path: Path) -> list[Series]:
    """The series of the response in the file."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB")
        response = msgspec.json.decode(path.read_bytes(), type=_Response)
        if response.status != "success" or response.data is None:
            raise InputError(f"{path}: the query failed: {shown(response.error or response.status)}")
        if response.data.resultType != "matrix":
            raise InputError(
                f"{path}: the result is a {shown(response.data.resultType)}; it must be the 'matrix' of a "
                "range query (api/v1/query_range)"
            )
        return msgspec.json.decode(response.data.result, type=list[Series])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not a response of Prometheus: {error}") from None


def chosen_series(
    response: Sequence[Series], column: str | None, interface: str | None, where: str
) -> Series:
    """The one series with this metric's name and these labels.

    Raises `InputError` that lists what there is unless exactly one matches.
    """
    if not response:
        raise InputError(f"{where}: the response has no series: nothing matched the query")
    metrics = list(dict.fromkeys(series.metric.get(_NAME, "") for series in response))
    if column is None:
        column = next((known for known in COUNTER_UNITS if known in metrics), metrics[0])
    elif column not in metrics:
        raise InputError(f"{where}: no metric {column!r}; the metrics are {listed(metrics)}")
    named = [series for series in response if series.metric.get(_NAME, "") == column]
    titles = [title(series, named) for series in named]
    matching = [
        series
        for series, label in zip(named, titles, strict=True)
        if interface is None or label == interface or {*interface.split("/")} <= {*series.metric.values()}
    ]
    # The sum of several ports would mix the traffic of their jobs.
    if len(matching) != 1:
        number = "no series" if not matching else f"{len(matching)} series"
        wanted = "" if interface is None else f" {interface!r}"
        raise InputError(
            f"{where}: {number}{wanted} of {column or 'the expression'}; choose one by its interface: "
            f"{listed(titles)}"
        )
    return matching[0]


def title(series: Series, others: Iterable[Series]) -> str:
    """The values of the labels in which a series differs from others, joined with `/`."""
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
    # Prometheus itself stores 64-bit floats, so no digit of a counter is lost here.
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: sample {place + 1} is {shown(text)}, not a finite number")
    return value


def check_counter(counts: FloatArray, where: str) -> None:
    """Raises `InputError` if the values have fractions or fall often, as those of a counter never do."""
    reason = ""
    falls = int(np.sum(np.diff(counts) < 0))
    if np.any(counts % 1 != 0):
        reason = f"it has fractions, such as {counts[int(np.argmax(counts % 1 != 0))]:g}"
    elif falls > _MOST_FALLS * counts.size:
        reason = f"it falls in {falls} of {counts.size - 1} steps"
    if reason:
        raise InputError(
            f"{where}: is not a counter: {reason}; query the counter itself, not its rate(): a rate over a "
            "window hides the iterations"
        )


def scraped(time_s: FloatArray, counts: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Indices of the samples that show a new scrape.

    A range query returns the last scraped value at every step: with a step below the scrape interval, values
    repeat. While a port is busy, its counter changes with each scrape, so the shortest times between changes
    are the scrape interval.
    """
    steps = np.diff(counts)
    changed_s = time_s[1:][steps != 0]
    if changed_s.size < 2:
        return np.arange(time_s.size)
    step_s = float(np.median(np.diff(time_s)))
    # A low quantile, not the minimum: scrapes jitter. Samples fall on steps, not on scrapes: half a step is
    # allowed for. With a step as long as the scrape interval, a repeated value means an idle port.
    scrape_s = float(np.quantile(np.diff(changed_s), 0.05))
    lifespan_s = scrape_s - 0.5 * step_s if scrape_s > 1.5 * step_s else 0.0
    return fresh_readings(time_s, steps, np.zeros(steps.size, dtype=np.bool_), lifespan_s)


def shortest_seen(interval_s: float) -> str | None:
    """A note on the iterations that such readings cannot show; None if they show ordinary ones."""
    if interval_s * READINGS_PER_PERIOD <= _EXAMPLE_S:
        return None
    return (
        f"readings {interval_s:.3g} s apart show no iteration shorter than "
        f"{READINGS_PER_PERIOD * interval_s:.3g} s; one of {_EXAMPLE_S * 1e3:g} ms needs a reading every "
        f"{_EXAMPLE_S / READINGS_PER_PERIOD * 1e3:.3g} ms, which `hocket profile --watch` makes"
    )
