"""The number of operations after which a sequence repeats, by their kinds and by the times between them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hocket.profiling.counters import BoolArray, FloatArray
from hocket.profiling.period import deviation
from hocket.profiling.timelines.timeline import IntArray

# The longest sequence that is searched, from the middle of a timeline: the search takes O(n²).
MOST_OPERATIONS = 20_000
# The smaller of two lags is right unless the larger one leaves less unexplained by this factor.
EQUAL_RATIO = 1.15
# Times vary within an iteration if their squared differences reach this share of the mean at some distance.
RISEN = 0.7
# Multiples of a pattern repeat as well. The pattern is the first distance at which times repeat that is as
# good as the best to within this share of the mean squared difference.
AS_GOOD = 0.25
# Lengths that differ by less than this share are equal: rounding of floats and clocks makes patterns too.
NO_DIFFERENCE = 1e-4
# A pattern of times must be seen at least this often.
FEWEST_PATTERNS = 2.5
# A stretch contains a pause if it is longer than the others by this many deviations and by this share.
PAUSE_DEVIATIONS = 4.0
PAUSE_SHARE = 0.05
# Copies differ if their lengths do by more than this many standard errors plus this share of their length.
UNLIKE_ERRORS = 3.0
UNLIKE_SHARE = 0.02


class Breaks(NamedTuple):
    """The interruptions (b) of a sequence that repeats.

    `excess_s` (b) is the time by which an interrupted stretch is longer than the others. `busy` (b) is the
    share of that time in which the job computed or communicated, nan if the profiler trace does not show it.
    `odd_s` (b) is the duration of the longest operation that is not part of the repeats, 0 if there is none.
    """

    excess_s: FloatArray
    busy: FloatArray
    odd_s: FloatArray


def recurrence(symbols: IntArray) -> FloatArray:
    """Share of the operations (n) that equal the one `lag` later, for lags 1 … n // 2.

    >>> recurrence(np.array([0, 1, 2, 0, 1, 2])).tolist()
    [0.0, 0.0, 1.0]
    """
    return np.array(
        [float(np.mean(symbols[lag:] == symbols[:-lag])) for lag in range(1, symbols.size // 2 + 1)]
    )


def smallest_repeat(symbols: IntArray) -> tuple[int, float]:
    """The smallest lag after which as many operations repeat as after any other, and their share.

    Both are 0 if there are fewer than two operations.

    >>> smallest_repeat(np.array([0, 0, 1, 0, 0, 1, 0, 0]))
    (3, 1.0)
    """
    shares = recurrence(symbols)
    if shares.size == 0:
        return 0, 0.0
    pairs = symbols.size - np.arange(1, shares.size + 1)
    # Half an operation of tolerance: shares that differ by less than one operation are equal.
    enough = (1.0 - shares) <= EQUAL_RATIO * float(1.0 - shares.max()) + 0.5 / pairs
    lag = int(np.argmax(enough)) + 1
    return lag, float(shares[lag - 1])


def matched(symbols: IntArray, lag: int) -> BoolArray:
    """Whether each operation (n) equals the one `lag` later or the one `lag` earlier."""
    same = symbols[lag:] == symbols[:-lag]
    none = np.zeros(lag, dtype=bool)
    either: BoolArray = np.concatenate([same, none]) | np.concatenate([none, same])
    return either


def pattern_length(stretches: FloatArray, lag: int) -> int:
    """The number of stretches after which their lengths repeat; 1 if all are alike or vary at random.

    `stretches` (n) are the seconds or kernels from each operation to the one `lag` later. They have a pattern
    if their mean squared differences at some distance are far smaller than by chance. The threshold is the
    quantile of χ² by Wilson and Hilferty (PNAS 17, 1931), at a level of 0.1 false patterns.
    """
    most = int((stretches.size + lag) / lag / FEWEST_PATTERNS)
    if most < 2:
        return 1
    clipped = ordinary_lengths(stretches, lag)
    differences = np.array([spread(clipped, distance * lag) for distance in range(1, most + 1)])
    usual = float(differences.mean())
    if usual <= (NO_DIFFERENCE * float(np.median(stretches))) ** 2:
        return 1
    # Stretches that overlap are not independent, so only pairs of disjoint ones count.
    pairs = np.maximum(stretches.size / lag - np.arange(1, most + 1), 1.0)
    unlikely = math.sqrt(2 * math.log(10 * most))
    ceiling = usual * np.maximum(1 - 2 / (9 * pairs) - unlikely * np.sqrt(2 / (9 * pairs)), 0.0) ** 3
    # Neighbours are also alike if lengths only change slowly, so lengths must differ before they repeat.
    risen = np.maximum.accumulate(differences) >= RISEN * usual
    risen = np.append(False, risen[:-1])
    around = np.concatenate([[math.inf], differences, [math.inf]])
    lowest = (differences <= around[:-2]) & (differences <= around[2:])
    repeats = risen & lowest & (differences <= ceiling)
    if not repeats.any():
        return 1
    best = float(differences[repeats].min())
    return int(np.argmax(repeats & (differences <= best + AS_GOOD * usual))) + 1


def ordinary_lengths(stretches: FloatArray, lag: int) -> FloatArray:
    """The stretches, the longest cut to an ordinary length: what happens at most twice is no pattern."""
    rare = 2 * lag
    if stretches.size <= rare:
        return stretches
    longest: FloatArray = np.minimum(stretches, np.partition(stretches, -rare - 1)[-rare - 1])
    return longest


def spread(stretches: FloatArray, distance: int) -> float:
    """Mean squared difference of stretches that begin `distance` operations apart."""
    apart = stretches[distance:] - stretches[: stretches.size - distance]
    return float(np.mean(apart**2)) if apart.size > 0 else math.inf


def long_stretches(stretches: FloatArray) -> BoolArray:
    """Which stretches are so much longer than the others that they contain a pause."""
    usual = float(np.median(stretches))
    long: BoolArray = stretches > usual + max(PAUSE_DEVIATIONS * deviation(stretches), PAUSE_SHARE * usual)
    return long


def ordinary_places(template: IntArray, rows: FloatArray, lag: int) -> IntArray:
    """The places of an iteration at which stretches of `lag` operations are ordinary.

    At most one place is assumed to be unusual, which affects `lag` stretches. `template` (n) are the
    operations of an iteration, `rows` (r, n) the stretches from each of them in r iterations. If an extra
    operation marks that place, the ordinary stretches are those without it; otherwise, they are the
    neighbours in a circle that differ least.
    """
    length = template.size
    same = template == np.roll(template, -lag)
    if not same.all():
        begin, count = longest_run(same)
        return np.arange(begin, begin + count) % length
    usual = np.median(rows, axis=0)
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([usual, usual]), length - lag)[:length]
    begin = int(np.argmin(windows.std(axis=1)))
    if length == 2 * lag and np.median(windows[begin]) > np.median(windows[begin - lag]):
        # Half of the stretches contain the pause: the ordinary ones are the shorter half.
        begin += lag
    return np.arange(begin, begin + length - lag) % length


def alike(rows: FloatArray, places: IntArray, spare: int) -> bool:
    """Whether stretches differ no more between these places of an iteration than between iterations.

    `rows` (r, n) are the stretches from each of n places in r iterations. The `spare` places that differ most
    are left out.
    """
    usual = np.median(rows, axis=0)
    # Deviations from the centre of r rows are too small by this factor, as in an unbiased variance.
    residual = (rows - usual) * math.sqrt(rows.shape[0] / max(rows.shape[0] - 1, 1))
    error = float(residual.std()) / math.sqrt(rows.shape[0])
    away = np.sort(np.abs(usual[places] - np.median(usual[places])))
    spread = float(np.sqrt(np.mean(away[: away.size - min(spare, away.size // 3)] ** 2)))
    return spread <= UNLIKE_ERRORS * error + UNLIKE_SHARE * float(np.median(rows))


def excess_elsewhere(rows: FloatArray, places: IntArray) -> float:
    """How much longer the longest stretch of an iteration is than those at `places`; see `alike`."""
    usual = np.median(rows, axis=0)
    return float(usual.max() - np.median(usual[places]))


def find_breaks(
    stretches_s: FloatArray, busy_s: FloatArray | None, odd: BoolArray, lasted_s: FloatArray
) -> Breaks:
    """The interruptions: stretches that contain a pause or end with an operation that is `odd` (n).

    `stretches_s` (n) are the lengths of stretches, `busy_s` (n) the seconds of computation or communication
    in them, and `lasted_s` (n) the durations of the operations at their ends.
    """
    # One pause lengthens all stretches across it, so neighbouring exceptions are one interruption.
    exceptional = odd | long_stretches(stretches_s)
    begins = np.flatnonzero(exceptional & ~np.append(False, exceptional[:-1]))
    ends = np.flatnonzero(exceptional & ~np.append(exceptional[1:], False)) + 1
    places = list(zip(begins.tolist(), ends.tolist(), strict=True))
    odd_s = np.array([(lasted_s * odd)[begin:end].max() for begin, end in places])
    excess_s = np.array([excess(stretches_s, begin, end) for begin, end in places])
    if busy_s is None:
        busy = np.full(len(places), np.nan)
    else:
        more_s = np.array([excess(busy_s, begin, end) for begin, end in places])
        busy = np.divide(more_s, excess_s, out=np.zeros(len(places)), where=excess_s > 0)
    return Breaks(excess_s, busy, odd_s)


def excess(values: FloatArray, begin: int, end: int) -> float:
    """How far the largest of the values from `begin` to `end` exceeds the median of all."""
    return max(0.0, float(values[begin:end].max() - np.median(values)))


def repeats_within(template: IntArray) -> list[int]:
    """The lags, largest first, of repeats within a sequence that repeats as a whole.

    Such a sequence consists of consecutive copies and less than one copy of something else.

    >>> repeats_within(np.array([0, 1, 0, 1, 0, 1, 2]))
    [2]
    """
    lags = []
    for lag in range(template.size // 2, 0, -1):
        copies = longest_run(template == np.roll(template, -lag))[1] // lag + 1
        if copies > 1 and template.size - copies * lag < max(lag, 2):
            lags.append(lag)
    return lags


def longest_run(true: BoolArray) -> tuple[int, int]:
    """The longest run of true values in a circle: its first index and its length.

    >>> longest_run(np.array([True, False, True, True]))
    (2, 3)
    """
    false = np.flatnonzero(~true)
    if false.size == 0:
        return 0, true.size
    counts = np.diff(np.append(false, false[0] + true.size)) - 1
    longest = int(np.argmax(counts))
    return (int(false[longest]) + 1) % true.size, int(counts[longest])
