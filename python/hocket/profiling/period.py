"""Finds the iterations of a job in its traffic: how long they are, and when each one starts.

The autocorrelation proposes periods. Each is tracked through the series, so that jitter does not add up from
iteration to iteration. The result is the shortest period that predicts unseen iterations as well as the best
one does. `phases` then finds the Up phases of an iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import BoolArray, CounterSeries, FloatArray
from hocket.profiling.fold import Fold, explained_by_halves, fold_increments

# With fewer than four readings per period, a beat between sampling and traffic looks like a period.
READINGS_PER_PERIOD = 4
MINIMUM_PERIODS = 3
# Irregular readings are closer together in some places: two cells per reading keep that resolution.
CELLS_PER_READING = 2
# The period is searched for in this many readings from the middle of a long series, then tracked through all.
SEARCH_READINGS = 12_000
# An iteration may start this share of the period earlier or later than one period after the last.
JITTER = 0.2
# An iteration that matches the template less than this counts as unseen: a stall, or another job's traffic.
LEAST_MATCH = 0.3
# A match above this contains a burst of another job on top of the iteration.
ORDINARY_MATCH = 1.25
# An iteration of which a smaller share than this is known cannot be compared with the template.
COMPLETE = 0.75
# A match at the farthest place must be better by this than one at the expected place: noise differs as much.
DISTANT_HANDICAP = 0.1
# Borders smoothed over this many iterations still follow a drift.
SMOOTHED_BORDERS = 9
# Borders that move more freely also follow noise, so they must explain this much more of the variance.
STIFFNESS = 0.003
# Periods predict equally well if their unexplained shares are at most the least one times this factor, plus
# this share.
EQUAL_RATIO = 1.15
EQUAL_SHARE = 0.003
LEAST_CORRELATION = 0.1
# The period may be any autocorrelation peak above this share of the highest, or one of these fractions of it.
HIGH_PEAK = 0.6
FRACTIONS = (2, 3, 4)
# A period that predicts well may be that of a group of this many iterations. Larger groups are tried first.
PARTS = (5, 4, 3, 2)
# Iterations predict each other at least as well as groups of them do. This factor allows for chance.
LIKE_PARTS = 1.05
# Periods that differ by less than this share are the same.
SAME_PERIOD = 0.02
# Following and folding are repeated until the period changes by less than this share.
SETTLED = 1e-4
MOST_ROUNDS = 3
# This many readings show well enough how iterations explain each other.
COMPARED_READINGS = 100_000
# A template is folded from few periods, since jitter adds up, at the best of this many places of the series.
TEMPLATE_PERIODS = 8
TEMPLATE_PLACES = 40


@dataclass(frozen=True, eq=False)
class Grid:
    """The traffic on a uniform grid of `cell_s`.

    `rate` (n) is in bytes/s, minus its mean, and 0 where unknown. `known` (n) is the known share of each
    cell.
    """

    cell_s: float
    rate: FloatArray
    known: FloatArray


@dataclass(frozen=True, eq=False)
class Borders:
    """Where iterations begin: `at` (n + 1), in cells.

    An iteration is `seen` (n) if it looks like the others, and `linked` (n) if the next one is seen too, so
    that its length is known. `lost` is True if a gap in the series contains an unknown number of iterations.
    """

    at: FloatArray
    seen: BoolArray
    linked: BoolArray
    lost: bool

    def lengths(self) -> FloatArray:
        """Lengths of the linked iterations, in cells."""
        return np.diff(self.at)[self.linked]


class Step(NamedTuple):
    """One step of the walk along the series, to the place `at`, in cells.

    `seen` tells whether an iteration was seen there, `lost` whether a gap made the place uncertain.
    """

    at: float
    seen: bool
    lost: bool


@dataclass(frozen=True, eq=False)
class Iterations:
    """Iterations found in a series.

    `start_s` (n + 1) are their borders, in seconds from the first reading; `seen` (n) tells which of the n
    iterations look like the others. `period_s` is the mean length of those, without stalls, `spread_s` the
    standard deviation of their lengths, and `halves_s` the mean lengths in the two halves of the series.
    `explained` is the share of the variance of the rate that one half of the iterations explains of the
    other.
    """

    start_s: FloatArray
    seen: BoolArray
    period_s: float
    spread_s: float
    halves_s: tuple[float, float]
    explained: float

    def phase(self, time_s: FloatArray) -> FloatArray:
        """Iterations elapsed at `time_s` (n), also beyond the borders: 2.5 is the middle of the third one."""
        count = np.arange(self.start_s.size, dtype=np.float64)
        inside: FloatArray = np.interp(time_s, self.start_s, count)
        before: FloatArray = np.minimum(time_s - self.start_s[0], 0.0) / self.period_s
        after: FloatArray = np.maximum(time_s - self.start_s[-1], 0.0) / self.period_s
        return inside + before + after


def find_iterations(series: CounterSeries) -> Iterations:
    """Finds the iterations of the job whose traffic `series` counts.

    Raises:
        InputError: The series is too short for three periods, its rate never changes, or nothing repeats.
    """
    search = middle_of(series, SEARCH_READINGS)
    grid = grid_of(search)
    candidates = [track(search, grid, period_s) for period_s in candidate_periods(search, grid)]
    followed = [candidate for candidate in candidates if candidate is not None]
    if not followed:
        raise InputError(
            f"{series.source}: column {series.column!r}: no period of the traffic recurs through the series"
        )
    best = smallest_alike_parts(search, shortest_of_the_best(followed), followed)
    if search is series:
        return best
    whole = track(series, grid_of(series), best.period_s)
    if whole is not None:
        return whole
    # Iterations of the middle alone, whose times are counted from its own first reading.
    skipped_s = series.time_s[first_of_middle(series, SEARCH_READINGS)]
    return replace(best, start_s=best.start_s + skipped_s)


def middle_of(series: CounterSeries, readings: int) -> CounterSeries:
    """At most this many readings from the middle of the series."""
    if series.time_s.size <= readings:
        return series
    first = first_of_middle(series, readings)
    time_s = series.time_s[first : first + readings]
    total = series.total_bytes[first : first + readings]
    known = series.known[first : first + readings - 1]
    return CounterSeries(series.source, series.column, time_s - time_s[0], total - total[0], known)


def first_of_middle(series: CounterSeries, readings: int) -> int:
    """The index of the first of this many readings in the middle of the series."""
    return (series.time_s.size - readings) // 2


def grid_of(series: CounterSeries) -> Grid:
    """The series on a uniform grid; the bytes between two readings are spread evenly over the interval."""
    cell_s = series.interval_s / CELLS_PER_READING
    borders_s = np.arange(int(series.time_s[-1] / cell_s) + 1) * cell_s
    known_s = np.concatenate([[0.0], np.cumsum(np.diff(series.time_s) * series.known)])
    known_bytes = np.concatenate([[0.0], np.cumsum(np.diff(series.total_bytes) * series.known)])
    known = np.diff(np.interp(borders_s, series.time_s, known_s)) / cell_s
    rate = np.diff(np.interp(borders_s, series.time_s, known_bytes)) / cell_s
    mean_rate = known_bytes[-1] / known_s[-1]
    return Grid(cell_s, rate - mean_rate * known, known)


def candidate_periods(series: CounterSeries, grid: Grid) -> list[float]:
    """Periods worth tracking, in seconds: peaks of the autocorrelation and their small fractions.

    Raises:
        InputError: The series is too short, its rate never changes, or nothing repeats.
    """
    where = f"{series.source}: column {series.column!r}"
    longest = grid.rate.size // MINIMUM_PERIODS
    shortest = READINGS_PER_PERIOD * CELLS_PER_READING
    if longest <= shortest:
        raise InputError(
            f"{where}: {series.time_s.size} readings; {MINIMUM_PERIODS} periods of {READINGS_PER_PERIOD} "
            f"readings each need {MINIMUM_PERIODS * READINGS_PER_PERIOD + 1}"
        )
    mean_rate = float(series.total_bytes[-1] / series.time_s[-1])
    # Not 0: the rounding of times and counts makes even a constant rate vary a little.
    if float(np.std(grid.rate)) <= 1e-6 * mean_rate:
        raise InputError(f"{where}: the rate is constant, {mean_rate * 8e-9:g} Gbps; nothing repeats")
    correlation = autocorrelation(grid, longest + 2)
    peaks = peak_lags(correlation, shortest)
    if not peaks:
        raise InputError(
            f"{where}: the traffic does not repeat within {series.time_s[-1] / MINIMUM_PERIODS:.3g} s, "
            f"a third of the series; a period must be seen {MINIMUM_PERIODS} times"
        )
    lags = distinct(with_fractions(peaks, correlation, shortest), longest)
    return [lag * grid.cell_s for lag in lags]


def autocorrelation(grid: Grid, lags: int) -> FloatArray:
    """Autocorrelation of the rate at lags 0 … `lags` − 1 cells, over the pairs of known cells."""
    # Padding keeps the circular correlation of the FFT from wrapping around; powers of two are the fastest
    # sizes.
    size = 1 << int(np.ceil(np.log2(grid.rate.size + lags)))
    power = np.abs(np.fft.rfft(grid.rate, size)) ** 2
    pairs = np.abs(np.fft.rfft(grid.known, size)) ** 2
    products = np.fft.irfft(power, size)[:lags] / np.maximum(np.fft.irfft(pairs, size)[:lags], 1.0)
    normalised: FloatArray = products / products[0]
    return normalised


def peak_lags(correlation: FloatArray, shortest: int) -> list[float]:
    """Local maxima of the autocorrelation, highest first, in fractional cells.

    Peaks on the flank of lag 0 do not count: the correlation must have dipped below a peak before it.
    """
    middle = correlation[1:-1]
    is_peak = (middle >= correlation[:-2]) & (middle > correlation[2:]) & (middle > LEAST_CORRELATION)
    lags = np.flatnonzero(is_peak) + 1
    lowest_before = np.minimum.accumulate(correlation)[lags]
    rises = correlation[lags] - lowest_before > 0.5 * LEAST_CORRELATION
    lags = lags[(lags >= shortest) & rises]
    # Stable, so that the order of equal peaks does not depend on the sorting algorithm.
    lags = lags[np.argsort(-correlation[lags], kind="stable")]
    return [lag + vertex(*correlation[lag - 1 : lag + 2].tolist()) for lag in lags.tolist()]


def vertex(left: float, centre: float, right: float) -> float:
    """Offset (cells) of the vertex of the parabola through three neighbouring values from the middle one."""
    curvature = left - 2 * centre + right
    return min(max(0.5 * (left - right) / curvature, -0.5), 0.5) if curvature < 0 else 0.0


def with_fractions(peaks: list[float], correlation: FloatArray, shortest: int) -> Iterable[float]:
    """The earliest of the high peaks, then the highest ones, then their halves, thirds and quarters."""
    # A few of each, since every candidate is tracked through the series.
    height = [float(correlation[round(lag)]) for lag in peaks]
    high = [lag for lag, value in zip(peaks, height, strict=True) if value >= HIGH_PEAK * height[0]]
    first = sorted(high)[:4]
    yield from first
    yield from peaks[:3]
    for lag in (first[0], peaks[0]):
        yield from (lag / divisor for divisor in FRACTIONS if lag / divisor >= shortest)


def distinct(lags: Iterable[float], longest: int) -> list[float]:
    """The lags, except those within 2% of an earlier one or too long to be seen three times."""
    kept: list[float] = []
    for lag in lags:
        if lag <= longest and all(abs(lag - other) > 0.02 * other for other in kept):
            kept.append(lag)
    return kept


def track(series: CounterSeries, grid: Grid, period_s: float) -> Iterations | None:
    """Follows iterations of about `period_s` through the series; None if there are none.

    The borders may have a strict period, be smoothed over some iterations, or stand each by itself. The
    stiffest of these three that predicts unseen iterations as well as the best is used.
    """
    borders = settled_borders(grid, period_s / grid.cell_s)
    if borders is None:
        return None
    choices = [
        iterations_at(series, grid.cell_s, borders, width) for width in (borders.at.size, SMOOTHED_BORDERS, 1)
    ]
    best = max(choice.explained for choice in choices)
    return next(choice for choice in choices if choice.explained >= best - STIFFNESS)


def settled_borders(grid: Grid, length: float) -> Borders | None:
    """Borders of iterations of about `length` cells: followed and folded in turn until the length settles."""
    borders = follow(grid, first_template(grid, length), length)
    for _ in range(MOST_ROUNDS - 1):
        if borders is None:
            return None
        previous, length = length, mean_length(borders.lengths())
        if abs(length - previous) <= SETTLED * length:
            break
        borders = follow(grid, fold_cells(grid, borders.at, length), length)
    return borders


def first_template(grid: Grid, length: float) -> FloatArray:
    """A template of an iteration (mean rate per cell): the fold of the few periods where it is strongest."""
    span = int(TEMPLATE_PERIODS * length)
    starts = range(0, max(1, grid.rate.size - span), max(span, grid.rate.size // TEMPLATE_PLACES))
    ends = [min(start + span, grid.rate.size) + 1 for start in starts]
    folds = [
        fold_cells(grid, np.arange(start, end, length), length)
        for start, end in zip(starts, ends, strict=True)
    ]
    strongest = max(folds, key=lambda fold: float(np.sum(fold**2)))
    return anchored(strongest)


def fold_cells(grid: Grid, borders: FloatArray, length: float) -> FloatArray:
    """Mean rate per cell of an iteration, averaged over the iterations between `borders` (in cells)."""
    cells = np.arange(max(0, int(borders[0])), min(grid.rate.size, int(borders[-1])))
    phase = np.interp(cells + 0.5, borders, np.arange(borders.size)) % 1.0
    size = max(2, round(length))
    bins = np.minimum((phase * size).astype(np.intp), size - 1)
    known = np.bincount(bins, grid.known[cells], size)
    total = np.bincount(bins, grid.rate[cells], size)
    return np.divide(total, known, out=np.zeros(size), where=known > 0)


def anchored(template: FloatArray) -> FloatArray:
    """The template rotated to begin with its steepest rise: the start of the busiest phase.

    Borders then lie where traffic starts. That place jitters only with the computation before it, not with
    the length of the transfer after it.
    """
    width = max(1, template.size // 8)
    total = np.concatenate([[0.0], np.cumsum(np.tile(template, 3))])
    at = np.arange(template.size, 2 * template.size)
    rise = total[at + width] - 2 * total[at] + total[at - width]
    return np.roll(template, -int(np.argmax(rise)))


def follow(grid: Grid, template: FloatArray, length: float) -> Borders | None:
    """Borders of iterations, found from the best match outwards, each within `JITTER` of its expected place.

    None if fewer than `MINIMUM_PERIODS` iterations look like the template.
    """
    pattern = template - float(np.mean(template))
    match = correlate(grid.rate, pattern) / max(float(np.sum(pattern**2)), 1e-300)
    known = np.concatenate([[0.0], np.cumsum(grid.known)])
    last = grid.rate.size - pattern.size
    if last <= 0:
        return None
    # Matches above the ordinary are left out: the highest of all may have another job's burst on top.
    anchor = int(np.argmax(np.where(match[: last + 1] <= ORDINARY_MATCH, match[: last + 1], -np.inf)))
    forward = walk(match, known, anchor, length, last, pattern.size)
    backward = walk(match, known, anchor, -length, last, pattern.size)
    steps = [*backward[:0:-1], *forward]
    seen = np.array([step.seen for step in steps[:-1]], dtype=bool)
    if int(seen.sum()) < MINIMUM_PERIODS:
        return None
    lost = np.array([step.lost for step in steps], dtype=bool)
    linked = seen[:-1] & seen[1:] & ~lost[:-2] & ~lost[1:-1]
    linked = np.append(linked, steps[-1].seen and bool(seen[-1]) and not lost[-1])
    borders = Borders(np.array([step.at for step in steps]), seen, linked, bool(lost.any()))
    return borders if int(linked.sum()) >= MINIMUM_PERIODS - 1 else None


def correlate(rate: FloatArray, pattern: FloatArray) -> FloatArray:
    """Cross-correlation of the rate (n) with the pattern, for each cell (n) where the pattern may start."""
    size = 1 << int(np.ceil(np.log2(rate.size + pattern.size)))
    spectrum = np.fft.rfft(rate, size) * np.conj(np.fft.rfft(pattern, size))
    products: FloatArray = np.fft.irfft(spectrum, size)[: rate.size]
    return products


def walk(
    match: FloatArray, known: FloatArray, anchor: int, length: float, last: int, size: int
) -> list[Step]:
    """Steps of `length` cells (negative: backwards) from `anchor` through the cells 0 to `last`.

    `match` tells how well the traffic from each cell on matches a template of `size` cells, and `known` is
    the number of known cells before each. After a gap, the next iteration may start anywhere within a period.
    """
    steps: list[Step] = []
    expected, lost = float(anchor), False
    near, far = handicaps(JITTER * abs(length)), handicaps(0.5 * abs(length))
    while 0 <= round(expected) <= last:
        handicap = far if lost else near
        first = round(expected) - handicap.size // 2
        low, high = max(0, first), min(last + 1, first + handicap.size)
        best = low + int((match[low:high] - handicap[low - first : high - first]).argmax())
        complete = bool(known[best + size] - known[best] >= COMPLETE * size)
        if complete and match[best] >= LEAST_MATCH:
            inside = 0 < best < last
            at = best + (vertex(*match[best - 1 : best + 2].tolist()) if inside else 0.0)
            steps.append(Step(at, True, lost))
            lost = False
        else:
            at = expected
            lost = lost or not complete
            steps.append(Step(at, False, lost))
        expected = at + length
    return steps


def handicaps(reach: float) -> FloatArray:
    """How much better a match must be, from `reach` cells before the expected place to `reach` after."""
    shape: FloatArray = np.linspace(-1.0, 1.0, 2 * round(reach) + 1) ** 2
    return DISTANT_HANDICAP * shape


def mean_length(lengths: FloatArray) -> float:
    """Mean of the lengths without stalls, which lie more than six deviations from the median."""
    middle = float(np.median(lengths))
    ordinary = np.abs(lengths - middle) <= 6 * deviation(lengths) + 0.01 * middle
    return float(np.mean(lengths[ordinary]))


def deviation(lengths: FloatArray) -> float:
    """Standard deviation, estimated from the median distance to the median: a few stalls do not matter."""
    # For a normal distribution, the standard deviation is 1.4826 times that median distance.
    return 1.4826 * float(np.median(np.abs(lengths - np.median(lengths))))


def smoothed(borders: Borders, width: int) -> tuple[FloatArray, float]:
    """Borders smoothed over `width` neighbours relative to a strict period, and that period, in cells.

    A width of 1 leaves them unchanged. A width of all borders gives a strict period by linear regression,
    unless a gap contains an unknown number of iterations.
    """
    count = np.arange(borders.at.size, dtype=np.float64)
    if width >= borders.at.size and not borders.lost:
        slope, offset = np.polyfit(count[:-1][borders.seen], borders.at[:-1][borders.seen], 1)
        return offset + slope * count, float(slope)
    length = mean_length(borders.lengths())
    # The window shrinks towards the ends to stay centred: otherwise a drift would bend the ends.
    index = np.arange(borders.at.size)
    reach = np.minimum(np.minimum(index, index[::-1]), width // 2)
    total = np.concatenate([[0.0], np.cumsum(borders.at - length * count)])
    average = (total[index + reach + 1] - total[index - reach]) / (2 * reach + 1)
    return average + length * count, length


def iterations_at(series: CounterSeries, cell_s: float, borders: Borders, width: int) -> Iterations:
    """The iterations with borders smoothed over `width`, including how well they explain each other."""
    at, length = smoothed(borders, width)
    lengths_s = borders.lengths() * cell_s
    middle = lengths_s.size // 2
    halves_s = (
        (mean_length(lengths_s[:middle]), mean_length(lengths_s[middle:])) if middle else (0.0, lengths_s[0])
    )
    iterations = Iterations(at * cell_s, borders.seen, length * cell_s, deviation(lengths_s), halves_s, 0.0)
    # Unseen iterations count as unexplained.
    return replace(iterations, explained=likeness(series, iterations) * float(np.mean(borders.seen)))


def increments(
    series: CounterSeries, iterations: Iterations
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """For each known interval in a seen iteration: phase before and after, bytes, and seconds."""
    phase = iterations.phase(series.time_s)
    inside = (phase[:-1] >= 0) & (phase[1:] <= iterations.seen.size)
    first = np.clip(phase[:-1].astype(np.intp), 0, iterations.seen.size - 1)
    last = np.clip(phase[1:].astype(np.intp), 0, iterations.seen.size - 1)
    use = series.known & inside & iterations.seen[first] & iterations.seen[last]
    return (
        phase[:-1][use],
        phase[1:][use],
        np.diff(series.total_bytes)[use],
        np.diff(series.time_s)[use],
    )


def shortest_of_the_best(candidates: list[Iterations]) -> Iterations:
    """The candidate with the shortest period among those that explain as much as the best one.

    A multiple of the period explains as much as the period. A fraction of it explains less as soon as its
    phases differ.
    """
    least = min(1.0 - candidate.explained for candidate in candidates)
    equal = [
        candidate
        for candidate in candidates
        if 1.0 - candidate.explained <= EQUAL_RATIO * least + EQUAL_SHARE
    ]
    return min(equal, key=lambda candidate: candidate.period_s)


def smallest_alike_parts(series: CounterSeries, best: Iterations, candidates: list[Iterations]) -> Iterations:
    """The equal parts of the iterations of `best`, if these predict each other as well as the whole ones do.

    A period and its double are followed independently, and following the double may happen to succeed better;
    parts of the same borders are a fair comparison. If the parts are iterations, the result is the best
    candidate with their period.
    """
    whole = likeness(series, best)
    for parts in PARTS:
        split = split_into(best, parts)
        share = likeness(series, split)
        seen = split.period_s >= READINGS_PER_PERIOD * series.interval_s
        if seen and share > 0 and 1.0 - share <= LIKE_PARTS * (1.0 - whole) + EQUAL_SHARE:
            split = replace(split, explained=best.explained * share / max(whole, share))
            same = [each for each in candidates if abs(each.period_s / split.period_s - 1) < SAME_PERIOD]
            return max([split, *same], key=lambda each: each.explained)
    return best


def split_into(iterations: Iterations, parts: int) -> Iterations:
    """Splits each iteration into `parts` equal ones."""
    count = iterations.seen.size * parts
    start_s = np.interp(np.arange(count + 1) / parts, np.arange(iterations.seen.size + 1), iterations.start_s)
    first_s, second_s = iterations.halves_s
    return Iterations(
        start_s,
        np.repeat(iterations.seen, parts),
        iterations.period_s / parts,
        # The variances of independent lengths add up.
        iterations.spread_s / parts**0.5,
        (first_s / parts, second_s / parts),
        0.0,
    )


def likeness(series: CounterSeries, iterations: Iterations) -> float:
    """The share of the variance that iterations explain of each other, without unseen ones."""
    before, after, step_bytes, step_s = (
        values[:COMPARED_READINGS] for values in increments(series, iterations)
    )
    return explained_by_halves((before, after, step_bytes, step_s), iterations.period_s / series.interval_s)


def fold_iterations(series: CounterSeries, iterations: Iterations) -> Fold:
    """The fold of all seen iterations."""
    before, after, step_bytes, _ = increments(series, iterations)
    return fold_increments(before, after, step_bytes, iterations.period_s / series.interval_s)
