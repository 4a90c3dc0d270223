"""The iterations of a job in a timeline: how long they are, where they begin, and the confidence in that.

They follow from the smallest repeat of the sequence of operations, refined by their times. If the sequence
does not repeat, they follow from the autocorrelation of communication over time. Annotated steps confirm or
contradict the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import CounterSeries, FloatArray
from hocket.profiling.period import deviation, find_iterations, mean_length
from hocket.profiling.timelines.occurrences import occurrences
from hocket.profiling.timelines.sequence import (
    MOST_OPERATIONS,
    PAUSE_DEVIATIONS,
    PAUSE_SHARE,
    alike,
    excess_elsewhere,
    find_breaks,
    matched,
    ordinary_places,
    pattern_length,
    repeats_within,
)
from hocket.profiling.timelines.timeline import IntArray, Timeline, covered_until, merged
from hocket.profiling.timelines.views import Repeat, View, best_repeat

# A pause belongs to the iteration if the job computes or communicates for at least this share of the pause:
# the end of an iteration keeps the GPU busy, a checkpoint does not.
BUSY_PAUSE = 0.5
# Factor on the confidence for each interruption that is not part of the iteration.
INTERRUPTION = 0.9
# Iterations may contain micro-batches, and micro-batches layers: times are searched for this many levels.
MOST_LEVELS = 4
# Readings of the busy signal per period, and in total: as many as `find_iterations` searches.
READINGS_PER_PERIOD = 100
MOST_READINGS = 12_000
# Two estimates of the period agree if they differ by less than this share. Annotated steps are those of the
# CPU, which runs ahead of the GPU: they contradict a period only beyond a larger share.
SAME_PERIOD = 0.02
SAME_STEP = 0.1
# Iterations of the busy signal must explain at least this share of each other.
LEAST_EXPLAINED = 0.3
# Silence at an end of the profiler trace is suspicious if it lasts this many times the longest quiet time of
# an iteration.
LONG_SILENCE = 1.2
# Factors on the confidence if all operations are alike and the autocorrelation finds another period or none.
# It often finds a part of the period, so that another one proves little.
OTHER_AUTOCORRELATION = 0.7
NO_AUTOCORRELATION = 0.8
# Factor for silence before the first operation.
WARM_UP = 0.8
# Factor if only one stream repeats, since operations of different streams overtake each other.
OTHER_LANES = 0.85
# A single doubt with this factor makes the profile a guess: the confidence is then below 0.5.
GUESS = 0.45


class Doubt(NamedTuple):
    """A reason `why` the period may be wrong; it multiplies the confidence by `factor`."""

    factor: float
    why: str


@dataclass(frozen=True, eq=False)
class TimelineIterations:
    """The iterations of a timeline.

    `begin_s` (n) are the starts of the complete ones, at the first operation after the longest quiet time.
    `period_s` is their mean length, without stalls, and `spread_s` the standard deviation of their lengths.
    `doubts` are reasons against the period, and `notes` are sentences for the user on how it was found.
    """

    begin_s: FloatArray
    period_s: float
    spread_s: float
    doubts: tuple[Doubt, ...]
    notes: tuple[str, ...]

    @property
    def confidence(self) -> float:
        """The product of the factors of all doubts, in [0, 1]."""
        return float(np.clip(math.prod(doubt.factor for doubt in self.doubts), 0.0, 1.0))


class Part(NamedTuple):
    """The interruption between the repeats of a part of an iteration.

    `pause` tells whether it is a pause. `busy` is the share of the pause in which the job computes or
    communicates, nan if the profiler trace does not show it.
    """

    pause: bool
    busy: float


class Stretches(NamedTuple):
    """The stretches from each operation of a view (n) to the one `lag` later (n - lag).

    `time_s` are their lengths, `busy_s` the seconds in which the job computed or communicated, and `kernels`
    the numbers of kernels that started; the latter two are None if the profiler trace does not show them.
    """

    time_s: FloatArray
    busy_s: FloatArray | None
    kernels: FloatArray | None

    def after(self, first: int) -> Stretches:
        """The stretches that begin with the operation `first` or a later one."""
        busy_s = None if self.busy_s is None else self.busy_s[first:]
        return Stretches(self.time_s[first:], busy_s, None if self.kernels is None else self.kernels[first:])


@dataclass(frozen=True, eq=False)
class Progress:
    """Running totals at the start of each operation of a view (n); their differences are `Stretches`."""

    view: View
    time_s: FloatArray
    busy_s: FloatArray | None
    kernels: FloatArray | None

    def over(self, lag: int) -> Stretches:
        """The stretches from each operation to the one `lag` later."""
        passed = (
            None if until is None else until[lag:] - until[:-lag] for until in (self.busy_s, self.kernels)
        )
        return Stretches(self.time_s[lag:] - self.time_s[:-lag], *passed)


def progress(timeline: Timeline, view: View) -> Progress:
    """The running totals at the start of each operation of the view."""
    time_s = timeline.start_s[view.index]
    if timeline.kernels_s.size == 0:
        return Progress(view, time_s, None, None)
    communication_s = np.column_stack([timeline.start_s, timeline.end_s])
    busy_s = covered_until(merged(np.vstack([timeline.compute_s, communication_s])), time_s)
    return Progress(view, time_s, busy_s, np.searchsorted(timeline.kernels_s, time_s).astype(np.float64))


def timeline_iterations(timeline: Timeline) -> TimelineIterations:
    """Finds the iterations of the job; if nothing repeats, a single one with a confidence of 0.

    Takes O(n²) for n operations; no more than `MOST_OPERATIONS`, from the middle, are searched.
    """
    iterations = None
    # Operations that are all different cannot repeat.
    if len(timeline.operations) < timeline.which.size:
        repeat = best_repeat(timeline)
        iterations = by_sequence(timeline, repeat) if repeat is not None else None
        iterations = iterations or by_autocorrelation(timeline)
    return with_checks(timeline, iterations or single_iteration(timeline))


def by_sequence(timeline: Timeline, repeat: Repeat) -> TimelineIterations | None:
    """Iterations from the repeats of the sequence and of its times; None if there are none."""
    view = repeat.view
    length, doubts = iteration_length(timeline, repeat)
    places, linked = occurrences(view.symbols, quiet_before(timeline)[view.index], length)
    if places.size == 0:
        return None
    starts_s = timeline.start_s[view.index]
    # Without complete iterations in a row, times from operations to their repeats stand for their lengths.
    steps_s = starts_s[length:] - starts_s[:-length]
    lengths_s = np.diff(starts_s[places])[linked] if int(linked.sum()) > 1 else steps_s
    if not float(np.median(lengths_s)) > 0:
        return None
    period_s = mean_length(lengths_s)
    kinds = int(np.unique(view.symbols[places[0] : places[0] + length]).size)
    recurring = float(np.mean(matched(view.symbols, length)))
    repeats = view.symbols.size / length
    # Without kernels, the end of an iteration does not show, and several repeats may be its micro-batches.
    certain = 1.3 if timeline.kernels_s.size > 0 else 2.6
    doubts += [
        Doubt(1.0 - certain / repeats, f"only {repeats:.3g} repeats were seen"),
        Doubt((recurring - 0.5) / 0.4, f"{1 - recurring:.0%} of the operations are not part of the repeats"),
        Doubt(1.0 - 2 * deviation(lengths_s) / period_s, "iterations differ in length"),
        Doubt(
            confidence_in_mean(lengths_s, period_s),
            "there are too few iterations for a reliable mean of their lengths",
        ),
    ]
    if view.symbols.size < min(timeline.which.size, MOST_OPERATIONS):
        doubts.append(Doubt(OTHER_LANES, "operations of other streams do not repeat"))
    if length == 1:
        doubts.append(
            Doubt(
                GUESS,
                "all operations are alike and evenly spaced: each may be an iteration or a layer of one",
            )
        )
    elif kinds == 1:
        doubts.append(autocorrelation_doubt(timeline, period_s))
    note = f"the sequence repeats after {count_of(length, 'operation')} of {count_of(kinds, 'kind')}"
    return TimelineIterations(starts_s[places], period_s, deviation(lengths_s), tuple(doubts), (note,))


def count_of(number: int, what: str) -> str:
    """A number with its noun, in the singular or plural.

    >>> count_of(1, "kind"), count_of(2, "kind")
    ('1 kind', '2 kinds')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def confidence_in_mean(lengths_s: FloatArray, period_s: float) -> float:
    """Confidence in the mean of the lengths: 1 if two standard errors are within `SAME_PERIOD`."""
    error_s = 2 * deviation(lengths_s) / math.sqrt(lengths_s.size)
    return min(1.0, SAME_PERIOD * period_s / max(error_s, 1e-300))


def iteration_length(timeline: Timeline, repeat: Repeat) -> tuple[int, list[Doubt]]:
    """The number of operations in an iteration, by sequence and times, and the doubts about it."""
    length = repeat.length
    until = progress(timeline, repeat.view)
    for _ in range(MOST_LEVELS):
        times = stretches_per_iteration(until.over(length), length)
        length *= times
        if times == 1:
            break
    length, doubts = part_or_whole(until, quiet_before(timeline)[repeat.view.index], length)
    return length, [*doubts, *interruption_doubts(timeline, until, length)]


def part_or_whole(until: Progress, quiet_s: FloatArray, length: int) -> tuple[int, list[Doubt]]:
    """`length`, or a part of it if that is the iteration and something else interrupts it regularly."""
    symbols = until.view.symbols
    places, linked = occurrences(symbols, quiet_s, length)
    whole = places[:-1][linked]
    template = symbols[(whole if whole.size else places)[0] :][:length]
    verdict: tuple[int, list[Doubt]] = (length, [])
    # The smallest part comes last: if it is certainly the iteration, doubts about larger parts do not count.
    for short in repeats_within(template):
        rows = (whole[:, None] + np.arange(length))[whole + length + short <= symbols.size]
        if rows.shape[0] < 2:
            return length, [
                Doubt(GUESS, "iterations contain repeats, and too few are seen to tell them from their parts")
            ]
        part = part_of(template, rows, until.over(short), short)
        if part is None:
            continue
        chosen = choose_length(short, length, part)
        if short == 1 and not chosen[1]:
            return chosen
        verdict = verdict if verdict[1] else chosen
    return verdict


def part_of(template: IntArray, rows: IntArray, passed: Stretches, short: int) -> Part | None:
    """The interruption between the parts of an iteration with the operations `template` (n).

    The parts have `short` operations each; None if they are not alike. `rows` (r, n) are the numbers of the
    operations of r iterations.
    """
    time_s = passed.time_s[rows]
    ordinary = ordinary_places(template, time_s, short)
    # An extra operation may equal one of the others and so be taken for it.
    odd = template.size % short
    if not alike(time_s, ordinary, spare=odd):
        return None
    excess_s = excess_elsewhere(time_s, ordinary)
    if excess_s <= pause_s(time_s[:, ordinary]) or (odd > 0 and np.unique(template).size == 1):
        # If an extra operation equals all others, the place of a pause cannot be determined.
        return Part(pause=False, busy=math.nan)
    if passed.busy_s is None:
        return Part(pause=True, busy=math.nan)
    return Part(pause=True, busy=excess_elsewhere(passed.busy_s[rows], ordinary) / excess_s)


def choose_length(short: int, long: int, part: Part) -> tuple[int, list[Doubt]]:
    """Whether an iteration has `short` operations, with interruptions, or `long`; and the doubts about it."""
    every = f"every {long // short} repeats of {short} operations"
    if not part.pause:
        return short, [Doubt(GUESS, f"{every} there is an extra operation, and no pause")]
    if math.isnan(part.busy):
        unknown = "the profiler trace does not show computation"
        return long, [Doubt(GUESS, f"{every} there is a pause; {unknown}")]
    if part.busy < BUSY_PAUSE:
        return short, [Doubt(GUESS, f"{every} there is a pause in which the job is idle")]
    return long, []


def stretches_per_iteration(passed: Stretches, lag: int) -> int:
    """Number of stretches in an iteration, by their lengths or else by their kernels."""
    by_time = pattern_length(passed.time_s, lag)
    if by_time > 1 or passed.kernels is None:
        return by_time
    return pattern_length(passed.kernels, lag)


def pause_s(passed_s: FloatArray) -> float:
    """The shortest pause (s) that exceeds the jitter of these stretches."""
    return float(max(PAUSE_DEVIATIONS * deviation(passed_s.ravel()), PAUSE_SHARE * np.median(passed_s)))


def interruption_doubts(timeline: Timeline, until: Progress, lag: int) -> Iterator[Doubt]:
    """The doubts that follow from interruptions of the repeating sequence.

    A pause in which the job is busy may be the end of a longer iteration, of which each repeat is a part.
    """
    symbols = until.view.symbols
    first = warm_up(symbols, lag)
    if symbols.size <= first + lag:
        return
    # Operations before the first one that repeats, such as broadcasts of initial weights, interrupt nothing.
    passed = until.over(lag).after(first)
    odd = (symbols[lag:] != symbols[:-lag])[first:]
    lasted_s = (timeline.end_s - timeline.start_s)[until.view.index][first + lag :]
    breaks = find_breaks(passed.time_s, passed.busy_s, odd, lasted_s)
    pauses = (breaks.excess_s > pause_s(passed.time_s)) & ~(breaks.busy < BUSY_PAUSE)
    if (pauses | (breaks.odd_s > PAUSE_SHARE * float(np.median(passed.time_s)))).any():
        yield Doubt(GUESS, "a pause interrupts the repeats: it may be the end of a longer iteration")
    elif breaks.excess_s.size > 0:
        # At most five count: a long trace has many, and these alone must not make the profile a guess.
        yield Doubt(INTERRUPTION ** min(breaks.excess_s.size, 5), "something else interrupts the repeats")


def warm_up(symbols: IntArray, lag: int) -> int:
    """Number of operations at the start that never occur in the repeats."""
    again = np.isin(symbols, symbols[lag:][symbols[lag:] == symbols[:-lag]])
    return int(np.argmax(again)) if again.any() else 0


def quiet_before(timeline: Timeline) -> FloatArray:
    """Seconds before the start of each operation (n) in which none ran; 0 for the first."""
    # Operations of several streams overlap: the last one to start need not be the last one to end.
    reached = np.maximum.accumulate(timeline.end_s)
    return np.append(0.0, np.maximum(timeline.start_s[1:] - reached[:-1], 0.0))


def autocorrelation_doubt(timeline: Timeline, period_s: float) -> Doubt:
    """The doubt, if all operations are alike, from comparing the period with the autocorrelation's."""
    other_s = autocorrelated_period(timeline, period_s)
    if other_s is None:
        return Doubt(
            NO_AUTOCORRELATION, "all operations are alike, and there are too few iterations to correlate"
        )
    if abs(other_s - period_s) > SAME_PERIOD * period_s:
        why = f"all operations are alike, and the autocorrelation's period is {other_s * 1e3:.4g} ms"
        return Doubt(OTHER_AUTOCORRELATION, why)
    return Doubt(1.0, "the autocorrelation agrees")


def autocorrelated_period(timeline: Timeline, period_s: float) -> float | None:
    """The period of the busy signal, read often enough to resolve `period_s`; None if there is none."""
    interval_s = max(period_s / READINGS_PER_PERIOD, timeline.length_s / MOST_READINGS)
    try:
        return find_iterations(busy_series(timeline, interval_s)).period_s
    except InputError:
        return None


def busy_series(timeline: Timeline, interval_s: float) -> CounterSeries:
    """The communication time so far as a counter, read every `interval_s`."""
    time_s = np.arange(math.ceil(timeline.end_s.max() / interval_s) + 1) * interval_s
    busy = merged(np.column_stack([timeline.start_s, timeline.end_s]))
    known = np.ones(time_s.size - 1, dtype=bool)
    return CounterSeries(timeline.source, "communication", time_s, covered_until(busy, time_s), known)


def by_autocorrelation(timeline: Timeline) -> TimelineIterations | None:
    """Iterations of the busy signal, a guess: its autocorrelation often finds a part of the period."""
    length_s = float(timeline.end_s.max())
    if not length_s > 0:
        return None
    try:
        iterations = find_iterations(busy_series(timeline, length_s / MOST_READINGS))
    except InputError:
        return None
    doubts = (
        Doubt(GUESS, "the sequence of operations does not repeat; the period comes from the autocorrelation"),
        Doubt(iterations.explained, "iterations predict each other poorly"),
    )
    if iterations.explained < LEAST_EXPLAINED:
        return None
    seen_s = iterations.start_s[:-1][iterations.seen]
    return TimelineIterations(seen_s, iterations.period_s, iterations.spread_s, doubts, ())


def single_iteration(timeline: Timeline) -> TimelineIterations:
    """The whole timeline as one iteration."""
    begin_s = float(timeline.start_s[0])
    # The period is a divisor, so it must be above 0 even if the one operation takes no time.
    period_s = max(timeline.length_s - begin_s, float(np.finfo(np.float64).tiny))
    doubts = (Doubt(0.0, "nothing repeats: the profiler trace is taken for a single iteration"),)
    return TimelineIterations(np.array([begin_s]), period_s, 0.0, doubts, ())


def with_checks(timeline: Timeline, iterations: TimelineIterations) -> TimelineIterations:
    """Adds the doubts from annotated steps and the ends of the trace; steps that agree halve all doubts."""
    doubts = [*iterations.doubts, *silence_doubts(timeline, iterations)]
    notes = list(iterations.notes)
    steps_s = np.diff(timeline.steps_s)
    if steps_s.size > 0:
        step_s = float(steps_s.mean())
        if abs(iterations.period_s - step_s) <= SAME_PERIOD * step_s:
            # The job itself recorded its steps: where they agree, every doubt counts half.
            doubts = [Doubt(0.5 + 0.5 * max(doubt.factor, 0.0), doubt.why) for doubt in doubts]
            notes.append(f"annotated steps of {step_s * 1e3:.4g} ms confirm the period")
        elif abs(iterations.period_s - step_s) > SAME_STEP * step_s:
            doubts.append(Doubt(0.4, f"annotated steps of {step_s * 1e3:.4g} ms contradict the period"))
    # A trace with one step may be a single iteration, in which something repeats.
    elif timeline.steps_s.size == 1 and iterations.begin_s.size > 2:
        doubts.append(Doubt(0.4, "the profiler trace has only one annotated step"))
    if timeline.caveat is not None:
        doubts.append(Doubt(timeline.trust, timeline.caveat))
    doubts = [Doubt(min(max(doubt.factor, 0.0), 1.0), doubt.why) for doubt in doubts]
    notes += [doubt.why for doubt in doubts if doubt.factor < 0.9]
    return TimelineIterations(
        iterations.begin_s, iterations.period_s, iterations.spread_s, tuple(doubts), tuple(notes)
    )


def silence_doubts(timeline: Timeline, iterations: TimelineIterations) -> Iterator[Doubt]:
    """Doubts if the profiler trace is silent at its ends for longer than between iterations."""
    quiet_s = quiet_before(timeline)
    inside = np.searchsorted(timeline.start_s, iterations.begin_s)
    longest_s = (
        np.maximum.reduceat(quiet_s, inside) if iterations.begin_s.size > 0 else quiet_s.max(keepdims=True)
    )
    usual_s = float(np.median(longest_s)) + SAME_PERIOD * iterations.period_s
    before_s = float(timeline.start_s[0])
    after_s = timeline.length_s - float(timeline.end_s.max())
    # A job may warm up before its iterations, but it does not stop after them while it is traced: silence at
    # the end means that iterations may be longer.
    for factor, silent_s, where in (
        (WARM_UP, before_s, "before the first"),
        (GUESS, after_s, "after the last"),
    ):
        if silent_s > LONG_SILENCE * usual_s:
            yield Doubt(
                factor,
                f"the {silent_s * 1e3:.4g} ms {where} operation exceed the quiet times of iterations",
            )
