"""After how many operations a sequence of them repeats, by what they are and by how far apart they start."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hocket.profiling.counters import BoolArray, FloatArray
from hocket.profiling.period import deviation
from hocket.profiling.timelines.timeline import IntArray

# The longest sequence that is searched, from the middle of a timeline: the search takes O(n²).
MOST_OPERATIONS = 20_000
# Of two lags the smaller one is right unless the larger one leaves this much less unexplained.
EQUAL_RATIO = 1.15
# Times vary from one place of an iteration to another if they differ by this share of their mean spread.
RISEN = 0.7
# Of the distances at which times repeat, the first one that is as good as the best to within this share of
# what is usual: a longer pattern is found among its repeats.
AS_GOOD = 0.25
# Lengths that differ by less than this share are alike: floats and clocks have patterns of their own.
NO_DIFFERENCE = 1e-4
# A pattern of times has to be seen as often as this.
FEWEST_PATTERNS = 2.5
# Longer than the others by so many deviations and by this share of itself, a stretch holds a pause.
PAUSE_DEVIATIONS = 4.0
PAUSE_SHARE = 0.05
# Copies differ from each other if they do by so many standard errors and by this share of their length.
UNLIKE_ERRORS = 3.0
UNLIKE_SHARE = 0.02


class Breaks(NamedTuple):
    """Where a sequence that repeats is interrupted.

    `excess_s` (b) is how much longer than the others the interrupted stretches are, `busy` (b) the share of
    that in which something was computed or communicated, nan where the profiler trace does not say. `odd_s`
    (b) is how long the longest operation lasts that should not be there, 0 where there is none.
    """

    excess_s: FloatArray
    busy: FloatArray
    odd_s: FloatArray


def recurrence(symbols: IntArray) -> FloatArray:
    """Share of the operations (n) that are the same as the one so many later, for lags 1 … n // 2.

    >>> recurrence(np.array([0, 1, 2, 0, 1, 2])).tolist()
    [0.0, 0.0, 1.0]
    """
    return np.array(
        [float(np.mean(symbols[lag:] == symbols[:-lag])) for lag in range(1, symbols.size // 2 + 1)]
    )


def smallest_repeat(symbols: IntArray) -> tuple[int, float]:
    """The smallest lag after which as many operations repeat as after any other, and their share; 0 if there
    are fewer than two operations.

    >>> smallest_repeat(np.array([0, 0, 1, 0, 0, 1, 0, 0]))
    (3, 1.0)
    """
    shares = recurrence(symbols)
    if shares.size == 0:
        return 0, 0.0
    pairs = symbols.size - np.arange(1, shares.size + 1)
    # A difference of less than one operation is none.
    enough = (1.0 - shares) <= EQUAL_RATIO * float(1.0 - shares.max()) + 0.5 / pairs
    lag = int(np.argmax(enough)) + 1
    return lag, float(shares[lag - 1])


def matched(symbols: IntArray, lag: int) -> BoolArray:
    """Of each operation (n), whether the one `lag` later or the one `lag` earlier is the same."""
    same = symbols[lag:] == symbols[:-lag]
    none = np.zeros(lag, dtype=bool)
    either: BoolArray = np.concatenate([same, none]) | np.concatenate([none, same])
    return either


def pattern_length(stretches: FloatArray, lag: int) -> int:
    """After how many stretches their lengths repeat, 1 if they are all alike or vary at random.

    `stretches` (n) are what passes from each operation to the one `lag` later: seconds, or kernels. Their
    mean squared differences show a pattern if those at some distance are far smaller than chance makes
    them: the quantile of χ² by Wilson and Hilferty (PNAS 17, 1931), at the level of a tenth of a false
    pattern.
    """
    most = int((stretches.size + lag) / lag / FEWEST_PATTERNS)
    if most < 2:
        return 1
    clipped = ordinary_lengths(stretches, lag)
    differences = np.array([spread(clipped, distance * lag) for distance in range(1, most + 1)])
    usual = float(differences.mean())
    if usual <= (NO_DIFFERENCE * float(np.median(stretches))) ** 2:
        return 1
    pairs = np.maximum(stretches.size / lag - np.arange(1, most + 1), 1.0)
    unlikely = math.sqrt(2 * math.log(10 * most))
    ceiling = usual * np.maximum(1 - 2 / (9 * pairs) - unlikely * np.sqrt(2 / (9 * pairs)), 0.0) ** 3
    # Neighbours are alike also where lengths only change slowly: they have to differ before they repeat.
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
    """The stretches, those of what happens no more than twice as long as the longest ordinary one."""
    rare = 2 * lag
    if stretches.size <= rare:
        return stretches
    longest: FloatArray = np.minimum(stretches, np.partition(stretches, -rare - 1)[-rare - 1])
    return longest


def spread(stretches: FloatArray, distance: int) -> float:
    """Mean squared difference of stretches that begin so many operations apart."""
    apart = stretches[distance:] - stretches[: stretches.size - distance]
    return float(np.mean(apart**2)) if apart.size > 0 else math.inf


def long_stretches(stretches: FloatArray) -> BoolArray:
    """Which stretches are so much longer than the others that they hold a pause."""
    usual = float(np.median(stretches))
    long: BoolArray = stretches > usual + max(PAUSE_DEVIATIONS * deviation(stretches), PAUSE_SHARE * usual)
    return long


def ordinary_places(template: IntArray, rows: FloatArray, lag: int) -> IntArray:
    """The places of an iteration at which stretches of `lag` operations are ordinary, if they are so at all
    but one place.

    `template` (n) are the operations of an iteration, `rows` (r, n) the stretches from each of them in r
    iterations. A place is in as many stretches as they have operations. Where an operation too many tells it,
    ordinary are those without it, and otherwise the neighbours in a circle that differ least.
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
        # Half of the stretches hold a pause: the others are the shorter ones.
        begin += lag
    return np.arange(begin, begin + length - lag) % length


def alike(rows: FloatArray, places: IntArray, spare: int) -> bool:
    """Whether stretches differ no more between these places of an iteration than between iterations, `spare`
    of the places left out.

    `rows` (r, n) are the stretches from each of n places in r iterations.
    """
    usual = np.median(rows, axis=0)
    residual = (rows - usual) * math.sqrt(rows.shape[0] / max(rows.shape[0] - 1, 1))
    error = float(residual.std()) / math.sqrt(rows.shape[0])
    away = np.sort(np.abs(usual[places] - np.median(usual[places])))
    spread = float(np.sqrt(np.mean(away[: away.size - min(spare, away.size // 3)] ** 2)))
    return spread <= UNLIKE_ERRORS * error + UNLIKE_SHARE * float(np.median(rows))


def excess_elsewhere(rows: FloatArray, places: IntArray) -> float:
    """How much longer the longest stretch of an iteration is than those at the `places`; see `alike`."""
    usual = np.median(rows, axis=0)
    return float(usual.max() - np.median(usual[places]))


def find_breaks(
    stretches_s: FloatArray, busy_s: FloatArray | None, odd: BoolArray, own_s: FloatArray
) -> Breaks:
    """The places where stretches hold a pause, or end with an `odd` (n) operation, which lasts `own_s` (n).

    `stretches_s` (n) are their lengths, `busy_s` (n) how long something was computed or communicated in them.
    """
    exceptional = odd | long_stretches(stretches_s)
    begins = np.flatnonzero(exceptional & ~np.append(False, exceptional[:-1]))
    ends = np.flatnonzero(exceptional & ~np.append(exceptional[1:], False)) + 1
    places = list(zip(begins.tolist(), ends.tolist(), strict=True))
    odd_s = np.array([(own_s * odd)[begin:end].max() for begin, end in places])
    excess_s = np.array([excess(stretches_s, begin, end) for begin, end in places])
    if busy_s is None:
        busy = np.full(len(places), np.nan)
    else:
        more_s = np.array([excess(busy_s, begin, end) for begin, end in places])
        busy = np.divide(more_s, excess_s, out=np.zeros(len(places)), where=excess_s > 0)
    return Breaks(excess_s, busy, odd_s)


def excess(values: FloatArray, begin: int, end: int) -> float:
    """By how much the largest of the values from `begin` to `end` is above the median of all."""
    return max(0.0, float(values[begin:end].max() - np.median(values)))


def repeats_within(template: IntArray) -> list[int]:
    """The lags, largest first, after which a sequence that repeats as a whole repeats itself within: whole
    copies one after the other, and less than a copy of something else.

    >>> repeats_within(np.array([0, 1, 0, 1, 0, 1, 2]))
    [2]
    """
    found = []
    for lag in range(template.size // 2, 0, -1):
        copies = longest_run(template == np.roll(template, -lag))[1] // lag + 1
        if copies > 1 and template.size - copies * lag < max(lag, 2):
            found.append(lag)
    return found


def longest_run(true: BoolArray) -> tuple[int, int]:
    """Where most neighbours in a circle are true: the first of them, and how many they are.

    >>> longest_run(np.array([True, False, True, True]))
    (2, 3)
    """
    false = np.flatnonzero(~true)
    if false.size == 0:
        return 0, true.size
    counts = np.diff(np.append(false, false[0] + true.size)) - 1
    longest = int(np.argmax(counts))
    return (int(false[longest]) + 1) % true.size, int(counts[longest])
