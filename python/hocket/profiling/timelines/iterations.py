"""The iterations of a job in a timeline: how long they are, where each one begins, and how sure that is.

The smallest repeat of the sequence of operations decides first, their times second, and where the sequence
says nothing, the autocorrelation of when something was sent. Annotated steps check what was found.
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

# In so much of a pause something has to be done for it to be a part of the iteration.
BUSY_PAUSE = 0.5
# The factor of one interruption that is none of it.
INTERRUPTION = 0.9
# Layers in micro-batches in iterations: so many levels of times are looked for.
MOST_LEVELS = 4
# Readings of the busy signal in a period, and in all.
READINGS_PER_PERIOD = 100
MOST_READINGS = 12_000
# Two ways to find the period agree to within this share. Annotated steps are the CPU's, which runs ahead:
# they contradict a period only beyond a larger one.
SAME_PERIOD = 0.02
SAME_STEP = 0.1
# Iterations of the busy signal that explain less of each other than this are none.
LEAST_EXPLAINED = 0.3
# A profiler trace may be silent at its ends for so many times what its iterations are.
LONG_SILENCE = 1.2
# Where operations are alike. The autocorrelation often finds a part of the period, which proves little.
OTHER_OPINION = 0.7
NO_OPINION = 0.8
WARM_UP = 0.8
# Of operations that overtake each other only one stream repeats.
OTHER_LANES = 0.85
# A single doubt of this size makes a profile a guess.
GUESS = 0.45


class Doubt(NamedTuple):
    """Something that speaks against a period: the confidence is multiplied by `factor`."""

    factor: float
    why: str


@dataclass(frozen=True, eq=False)
class TimelineIterations:
    """The iterations of a timeline.

    `begin_s` (n) is where those that are complete begin, with the first operation after the longest quiet;
    `period_s` is their mean length, stalls left out, and `spread_s` the standard deviation of their lengths.
    `doubts` are what speaks against it, `notes` what it rests on.
    """

    begin_s: FloatArray
    period_s: float
    spread_s: float
    doubts: tuple[Doubt, ...]
    notes: tuple[str, ...]

    @property
    def confidence(self) -> float:
        """The product of all doubts, in [0, 1]."""
        return float(np.clip(math.prod(doubt.factor for doubt in self.doubts), 0.0, 1.0))


class Part(NamedTuple):
    """What happens every few repeats of a part of an iteration: whether it is a `pause`, and in which share
    of that something is done, `busy`, nan where the profiler trace does not say.
    """

    pause: bool
    busy: float


class Stretches(NamedTuple):
    """From each operation (n) of a view to the one `lag` later (n - lag): seconds, seconds in which something
    was computed or communicated, and kernels that were started; None where the profiler trace does not say.
    """

    time_s: FloatArray
    busy_s: FloatArray | None
    kernels: FloatArray | None

    def after(self, first: int) -> Stretches:
        """Those from the operation `first` on."""
        busy_s = None if self.busy_s is None else self.busy_s[first:]
        return Stretches(self.time_s[first:], busy_s, None if self.kernels is None else self.kernels[first:])


@dataclass(frozen=True, eq=False)
class Progress:
    """What has passed until each operation of a view (n) starts: see `Stretches`."""

    view: View
    time_s: FloatArray
    busy_s: FloatArray | None
    kernels: FloatArray | None

    def over(self, lag: int) -> Stretches:
        """What passes from each operation to the one `lag` later."""
        passed = (
            None if until is None else until[lag:] - until[:-lag] for until in (self.busy_s, self.kernels)
        )
        return Stretches(self.time_s[lag:] - self.time_s[:-lag], *passed)


def progress(timeline: Timeline, view: View) -> Progress:
    """What has passed until each operation of the view starts."""
    time_s = timeline.start_s[view.index]
    if timeline.kernels_s.size == 0:
        return Progress(view, time_s, None, None)
    communication_s = np.column_stack([timeline.start_s, timeline.end_s])
    busy_s = covered_until(merged(np.vstack([timeline.compute_s, communication_s])), time_s)
    return Progress(view, time_s, busy_s, np.searchsorted(timeline.kernels_s, time_s).astype(np.float64))


def timeline_iterations(timeline: Timeline) -> TimelineIterations:
    """The iterations of the job; where nothing repeats, all of it as one, with a confidence of 0.

    Takes O(n²) for n operations, of which no more than `MOST_OPERATIONS` from the middle are searched.
    """
    found = None
    if len(timeline.operations) < timeline.which.size:
        repeat = best_repeat(timeline)
        found = by_sequence(timeline, repeat) if repeat is not None else None
        found = found or by_autocorrelation(timeline)
    return checked(timeline, found or single(timeline))


def by_sequence(timeline: Timeline, repeat: Repeat) -> TimelineIterations | None:
    """Iterations of as many operations as the sequence and its times repeat after; None if there are none."""
    view = repeat.view
    length, doubts = settled_length(timeline, repeat)
    places, linked = occurrences(view.symbols, quiet_before(timeline)[view.index], length)
    if places.size == 0:
        return None
    starts_s = timeline.start_s[view.index]
    steps_s = starts_s[length:] - starts_s[:-length]
    lengths_s = np.diff(starts_s[places])[linked] if int(linked.sum()) > 1 else steps_s
    if not float(np.median(lengths_s)) > 0:
        return None
    period_s = mean_length(lengths_s)
    kinds = int(np.unique(view.symbols[places[0] : places[0] + length]).size)
    recurring = float(np.mean(matched(view.symbols, length)))
    repeats = view.symbols.size / length
    # Where the end of an iteration does not show, as many may be micro-batches of one.
    certain = 1.3 if timeline.kernels_s.size > 0 else 2.6
    doubts += [
        Doubt(1.0 - certain / repeats, f"{repeats:.3g} repeats are seen"),
        Doubt((recurring - 0.5) / 0.4, f"{1 - recurring:.0%} of the operations are not part of it"),
        Doubt(1.0 - 2 * deviation(lengths_s) / period_s, "iterations are of unlike length"),
        Doubt(well_known(lengths_s, period_s), "so few iterations of unlike length do not give a mean"),
    ]
    if view.symbols.size < min(timeline.which.size, MOST_OPERATIONS):
        doubts.append(Doubt(OTHER_LANES, "other streams do not repeat"))
    if length == 1:
        doubts.append(
            Doubt(GUESS, "all operations are alike and evenly apart: iterations, or layers of one iteration")
        )
    elif kinds == 1:
        doubts.append(second_opinion(timeline, period_s))
    note = f"the sequence repeats after {count_of(length, 'operation')} of {count_of(kinds, 'kind')}"
    return TimelineIterations(starts_s[places], period_s, deviation(lengths_s), tuple(doubts), (note,))


def count_of(number: int, what: str) -> str:
    """`number` things.

    >>> count_of(1, "kind"), count_of(2, "kind")
    ('1 kind', '2 kinds')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def well_known(lengths_s: FloatArray, period_s: float) -> float:
    """How well the mean of the lengths is known: 1 if two standard errors are within `SAME_PERIOD`."""
    error_s = 2 * deviation(lengths_s) / math.sqrt(lengths_s.size)
    return min(1.0, SAME_PERIOD * period_s / max(error_s, 1e-300))


def settled_length(timeline: Timeline, repeat: Repeat) -> tuple[int, list[Doubt]]:
    """The operations of an iteration, by the sequence and by the times, and the doubts about that."""
    length = repeat.length
    until = progress(timeline, repeat.view)
    for _ in range(MOST_LEVELS):
        times = lengthened(until.over(length), length)
        length *= times
        if times == 1:
            break
    length, doubts = divided(until, quiet_before(timeline)[repeat.view.index], length)
    return length, [*doubts, *interrupted(timeline, until, length)]


def divided(until: Progress, quiet_s: FloatArray, length: int) -> tuple[int, list[Doubt]]:
    """`length`, or a part of it that is the iteration where something else happens every few of them."""
    symbols = until.view.symbols
    places, linked = occurrences(symbols, quiet_s, length)
    whole = places[:-1][linked]
    template = symbols[(whole if whole.size else places)[0] :][:length]
    verdict: tuple[int, list[Doubt]] = (length, [])
    # The smallest part last: where that explains all, larger ones with an operation too many need not.
    for short in repeats_within(template):
        rows = (whole[:, None] + np.arange(length))[whole + length + short <= symbols.size]
        if rows.shape[0] < 2:
            return length, [Doubt(GUESS, "it repeats within, and too few are seen to tell which is which")]
        part = part_of(template, rows, until.over(short), short)
        if part is None:
            continue
        chosen = between(short, length, part)
        if short == 1 and not chosen[1]:
            return chosen
        verdict = verdict if verdict[1] else chosen
    return verdict


def part_of(template: IntArray, rows: IntArray, passed: Stretches, short: int) -> Part | None:
    """What else happens in an iteration of the operations `template` (n), if it is made of parts of `short`
    operations that are alike; None if they are not. `rows` (r, n) are the numbers of its operations.
    """
    time_s = passed.time_s[rows]
    ordinary = ordinary_places(template, time_s, short)
    # An operation too many may be like one of the others, and so be taken for it.
    odd = template.size % short
    if not alike(time_s, ordinary, spare=odd):
        return None
    excess_s = excess_elsewhere(time_s, ordinary)
    if excess_s <= pause_s(time_s[:, ordinary]) or (odd > 0 and np.unique(template).size == 1):
        # Where an operation too many is like all others, it cannot be told where a pause is.
        return Part(pause=False, busy=math.nan)
    if passed.busy_s is None:
        return Part(pause=True, busy=math.nan)
    return Part(pause=True, busy=excess_elsewhere(passed.busy_s[rows], ordinary) / excess_s)


def between(short: int, long: int, part: Part) -> tuple[int, list[Doubt]]:
    """Whether an iteration has `short` operations, and something happens every few of them, or `long`."""
    every = f"every {long // short} repeats of {short} operations"
    if not part.pause:
        return short, [Doubt(GUESS, f"{every} there is another one, and no pause")]
    if math.isnan(part.busy):
        unknown = "the profiler trace does not say what is computed"
        return long, [Doubt(GUESS, f"{every} there is a pause; {unknown}")]
    if part.busy < BUSY_PAUSE:
        return short, [Doubt(GUESS, f"{every} there is a pause in which nothing is done")]
    return long, []


def lengthened(passed: Stretches, lag: int) -> int:
    """How many stretches make an iteration, by their lengths or else by their kernels."""
    by_time = pattern_length(passed.time_s, lag)
    if by_time > 1 or passed.kernels is None:
        return by_time
    return pattern_length(passed.kernels, lag)


def pause_s(passed_s: FloatArray) -> float:
    """The shortest pause that is none of the jitter of these stretches."""
    return float(max(PAUSE_DEVIATIONS * deviation(passed_s.ravel()), PAUSE_SHARE * np.median(passed_s)))


def interrupted(timeline: Timeline, until: Progress, lag: int) -> Iterator[Doubt]:
    """The doubts that interruptions of the repeating sequence leave.

    A pause in which something is done may be the end of an iteration of which what repeats is a part.
    """
    symbols = until.view.symbols
    first = warm_up(symbols, lag)
    if symbols.size <= first + lag:
        return
    passed = until.over(lag).after(first)
    odd = (symbols[lag:] != symbols[:-lag])[first:]
    lasted_s = (timeline.end_s - timeline.start_s)[until.view.index][first + lag :]
    breaks = find_breaks(passed.time_s, passed.busy_s, odd, lasted_s)
    pauses = (breaks.excess_s > pause_s(passed.time_s)) & ~(breaks.busy < BUSY_PAUSE)
    if (pauses | (breaks.odd_s > PAUSE_SHARE * float(np.median(passed.time_s)))).any():
        yield Doubt(GUESS, "a pause interrupts what repeats: it may be the end of a longer iteration")
    elif breaks.excess_s.size > 0:
        yield Doubt(INTERRUPTION ** min(breaks.excess_s.size, 5), "something else interrupts what repeats")


def warm_up(symbols: IntArray, lag: int) -> int:
    """How many operations there are at the start that do not come back `lag` later, nor ever."""
    again = np.isin(symbols, symbols[lag:][symbols[lag:] == symbols[:-lag]])
    return int(np.argmax(again)) if again.any() else 0


def quiet_before(timeline: Timeline) -> FloatArray:
    """Seconds before the start of each operation (n) in which no other one ran; 0 for the first one."""
    reached = np.maximum.accumulate(timeline.end_s)
    return np.append(0.0, np.maximum(timeline.start_s[1:] - reached[:-1], 0.0))


def second_opinion(timeline: Timeline, period_s: float) -> Doubt:
    """Whether the autocorrelation finds the same period, where all operations of an iteration are alike."""
    other_s = autocorrelated_period(timeline, period_s)
    if other_s is None:
        return Doubt(NO_OPINION, "all operations are alike, and there are too few iterations to correlate")
    if abs(other_s - period_s) > SAME_PERIOD * period_s:
        why = f"all operations are alike, and the autocorrelation's period is {other_s * 1e3:.4g} ms"
        return Doubt(OTHER_OPINION, why)
    return Doubt(1.0, "the autocorrelation agrees")


def autocorrelated_period(timeline: Timeline, period_s: float) -> float | None:
    """The period of the busy signal, read often enough to see `period_s`; None if it has none."""
    interval_s = max(period_s / READINGS_PER_PERIOD, timeline.length_s / MOST_READINGS)
    try:
        return find_iterations(busy_series(timeline, interval_s)).period_s
    except InputError:
        return None


def busy_series(timeline: Timeline, interval_s: float) -> CounterSeries:
    """How long something has been sent until then, read every `interval_s`, as a counter."""
    time_s = np.arange(math.ceil(timeline.end_s.max() / interval_s) + 1) * interval_s
    busy = merged(np.column_stack([timeline.start_s, timeline.end_s]))
    known = np.ones(time_s.size - 1, dtype=bool)
    return CounterSeries(timeline.source, "communication", time_s, covered_until(busy, time_s), known)


def by_autocorrelation(timeline: Timeline) -> TimelineIterations | None:
    """Iterations of the busy signal, a guess: its autocorrelation often picks a part of the period."""
    length_s = float(timeline.end_s.max())
    if not length_s > 0:
        return None
    try:
        found = find_iterations(busy_series(timeline, length_s / MOST_READINGS))
    except InputError:
        return None
    doubts = (
        Doubt(GUESS, "the sequence of operations does not repeat; the period is the autocorrelation's"),
        Doubt(found.explained, "iterations explain little of each other"),
    )
    if found.explained < LEAST_EXPLAINED:
        return None
    seen_s = found.start_s[:-1][found.seen]
    return TimelineIterations(seen_s, found.period_s, found.spread_s, doubts, ())


def single(timeline: Timeline) -> TimelineIterations:
    """All of it as one iteration."""
    begin_s = float(timeline.start_s[0])
    period_s = max(timeline.length_s - begin_s, float(np.finfo(np.float64).tiny))
    doubts = (Doubt(0.0, "nothing repeats: the profiler trace is taken for a single iteration"),)
    return TimelineIterations(np.array([begin_s]), period_s, 0.0, doubts, ())


def checked(timeline: Timeline, found: TimelineIterations) -> TimelineIterations:
    """With the doubts that the ends of the profiler trace and annotated steps raise, or take away by half."""
    doubts = [*found.doubts, *outside(timeline, found)]
    notes = list(found.notes)
    steps_s = np.diff(timeline.steps_s)
    if steps_s.size > 0:
        step_s = float(steps_s.mean())
        if abs(found.period_s - step_s) <= SAME_PERIOD * step_s:
            # What else could be true was written down by the job itself: half of each doubt is gone.
            doubts = [Doubt(0.5 + 0.5 * max(doubt.factor, 0.0), doubt.why) for doubt in doubts]
            notes.append(f"annotated steps of {step_s * 1e3:.4g} ms agree")
        elif abs(found.period_s - step_s) > SAME_STEP * step_s:
            doubts.append(Doubt(0.4, f"annotated steps are {step_s * 1e3:.4g} ms long"))
    elif timeline.steps_s.size == 1 and found.begin_s.size > 2:
        doubts.append(Doubt(0.4, "the profiler trace has a single annotated step"))
    if timeline.caveat is not None:
        doubts.append(Doubt(timeline.trust, timeline.caveat))
    doubts = [Doubt(min(max(doubt.factor, 0.0), 1.0), doubt.why) for doubt in doubts]
    notes += [doubt.why for doubt in doubts if doubt.factor < 0.9]
    return TimelineIterations(found.begin_s, found.period_s, found.spread_s, tuple(doubts), tuple(notes))


def outside(timeline: Timeline, found: TimelineIterations) -> Iterator[Doubt]:
    """Doubts where a profiler trace is silent at its ends for longer than iterations are."""
    quiet_s = quiet_before(timeline)
    inside = np.searchsorted(timeline.start_s, found.begin_s)
    longest_s = np.maximum.reduceat(quiet_s, inside) if found.begin_s.size > 0 else quiet_s.max(keepdims=True)
    usual_s = float(np.median(longest_s)) + SAME_PERIOD * found.period_s
    before_s = float(timeline.start_s[0])
    after_s = timeline.length_s - float(timeline.end_s.max())
    # Before it repeats, a job may have warmed up; after that it does not stop.
    for factor, silent_s, where in (
        (WARM_UP, before_s, "before the first"),
        (GUESS, after_s, "after the last"),
    ):
        if silent_s > LONG_SILENCE * usual_s:
            yield Doubt(factor, f"{silent_s * 1e3:.4g} ms {where} operation are longer than any quiet of it")
