"""Epoch folding: many iterations combined into one, with a resolution finer than the readings.

Two readings tell exactly how many bytes passed between two phases of the iteration. The fold is therefore the
least-squares solution for the bytes in each bin of the iteration, not an average of blurred rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.profiling.counters import FloatArray

FEWEST_BINS = 16
MOST_BINS = 240
# Enough bins to see whether iterations resemble each other, and many times as fast to solve.
COMPARISON_BINS = 96
BINS_PER_READING = 4
# Weight of the preference for equal neighbouring bins, relative to the mean weight of the readings. It is
# small, so that it decides only where readings do not, such as between phases that are never sampled.
SMOOTHNESS = 0.02
GOLDEN_RATIO = (1 + 5**0.5) / 2


@dataclass(frozen=True, eq=False)
class Fold:
    """One iteration in n equal bins: `bin_bytes` (n) and the normal equations that they solve.

    The squared error of any other `bin_bytes` x against the readings is
    `square - 2 * x @ moment + x @ normal @ x`; `total` is the squared error of an even rate.
    """

    bin_bytes: FloatArray
    normal: FloatArray
    moment: FloatArray
    square: float
    total: float

    @cached_property
    def moment_until(self) -> FloatArray:
        """Running total of `moment`, from 0 (n + 1)."""
        return np.concatenate([[0.0], np.cumsum(self.moment)])

    @cached_property
    def normal_until(self) -> FloatArray:
        """Running total of `normal` along both axes, from 0 (n + 1, n + 1)."""
        return np.pad(self.normal.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))


def bin_count(readings_per_period: float, readings: int, most: int) -> int:
    """Number of bins: finer than the readings, and at most a sixth of their number."""
    wanted = int(BINS_PER_READING * readings_per_period)
    return int(np.clip(min(wanted, readings // 6), FEWEST_BINS, most))


def fold_increments(
    before: FloatArray,
    after: FloatArray,
    step_bytes: FloatArray,
    readings_per_period: float,
    most_bins: int = MOST_BINS,
) -> Fold:
    """Folds intervals (n) with their `step_bytes` and the phases `before` and `after` each, in iterations."""
    bins = bin_count(readings_per_period, before.size, most_bins)
    normal, moment = normal_equations(before, after, step_bytes, bins)
    same = np.eye(bins)
    # x @ unlike @ x is the sum of squared differences between neighbouring bins, in a circle.
    unlike = 2 * same - np.roll(same, 1, axis=1) - np.roll(same, -1, axis=1)
    weight = SMOOTHNESS * float(np.trace(normal)) / bins + 1e-12
    bin_bytes = np.linalg.solve(normal + weight * unlike, moment).astype(np.float64)
    even = np.full(bins, float(moment.sum()) / max(float(normal.sum()), 1e-300))
    square = float(step_bytes @ step_bytes)
    total = square - 2 * float(even @ moment) + float(even @ normal @ even)
    return Fold(bin_bytes, normal, moment, square, total)


def normal_equations(
    before: FloatArray, after: FloatArray, step_bytes: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray]:
    """Normal matrix (bins, bins) and right-hand side (bins) for the bytes of each bin.

    The bytes of an interval are the difference of a piecewise linear total at two phases. Each interval thus
    has at most five weights on the totals at the bins' borders, the last of which counts whole iterations.
    """
    places, weights = [], []
    for phase, sign in ((after, 1.0), (before, -1.0)):
        position = (phase - np.floor(phase)) * bins
        border = np.minimum(position.astype(np.intp), bins - 1)
        places += [border, border + 1]
        weights += [sign * (border + 1 - position), sign * (position - border)]
    places.append(np.full(before.size, bins))
    weights.append(np.floor(after) - np.floor(before))
    size = bins + 1
    totals = np.zeros(size * size)
    right = np.zeros(size)
    for place, weight in zip(places, weights, strict=True):
        right += np.bincount(place, weight * step_bytes, size)
        for other, other_weight in zip(places, weights, strict=True):
            totals += np.bincount(place * size + other, weight * other_weight, size * size)
    # From totals at the borders to bytes in the bins: a bin contributes to every total after it.
    later = np.cumsum(totals.reshape(size, size)[:0:-1, :0:-1], axis=0).cumsum(axis=1)[::-1, ::-1]
    return later, np.cumsum(right[:0:-1])[::-1]


def predict(fold: Fold, before: FloatArray, after: FloatArray) -> FloatArray:
    """Bytes that the fold predicts between the phases `before` and `after` (n)."""
    bins = fold.bin_bytes.size
    total = np.concatenate([[0.0], np.cumsum(fold.bin_bytes)])
    borders = np.arange(bins + 1) / bins

    def until(phase: FloatArray) -> FloatArray:
        whole = np.floor(phase)
        total_bytes: FloatArray = whole * total[-1] + np.interp(phase - whole, borders, total)
        return total_bytes

    return until(after) - until(before)


def explained_by_halves(
    increments: tuple[FloatArray, FloatArray, FloatArray, FloatArray], readings_per_period: float
) -> float:
    """Share of the variance of one half of the iterations that a fold of the other half explains.

    `increments` are, for n intervals between readings, the phases before and after (in iterations), the bytes
    and the seconds. Iterations that have nothing in common explain less than an even rate would: the share is
    then negative. It is 0 if a half has too few readings.
    """
    before, after, step_bytes, step_s = increments
    # Multiples of the golden ratio never fall into step with the readings. Taking every second iteration
    # would: at 25.5 readings per iteration, all readings of one half would lie between those of the other.
    one = before.astype(np.int64) * GOLDEN_RATIO % 1.0 >= 0.5
    if min(int(one.sum()), int((~one).sum())) < FEWEST_BINS // 2:
        return 0.0
    error = 0.0
    for known in (one, ~one):
        fold = fold_increments(
            before[known], after[known], step_bytes[known], readings_per_period, COMPARISON_BINS
        )
        error += float(np.sum((step_bytes[~known] - predict(fold, before[~known], after[~known])) ** 2))
    even = step_s * (float(step_bytes.sum()) / float(step_s.sum()))
    total = float(np.sum((step_bytes - even) ** 2))
    return 1.0 - error / total if total > 0 else 0.0
