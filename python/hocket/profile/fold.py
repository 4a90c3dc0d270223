"""Many iterations on top of each other: one iteration, finer than the readings.

A reading tells exactly how many bytes passed between two phases of the iteration, so the fold is the
least-squares solution for the bytes in each bin of the iteration, not an average of blurred rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hocket.profile.counters import FloatArray

FEWEST_BINS = 16
MOST_BINS = 240
BINS_PER_READING = 4
# Weight of neighbouring bins being alike, against the mean weight of the readings: it decides only where
# the readings say nothing, such as between phases that are never sampled.
SMOOTHNESS = 0.02


@dataclass(frozen=True, eq=False)
class Fold:
    """One iteration in n equal bins: `bin_bytes` (n), and the normal equations that it solves.

    The squared error of any other `bin_bytes` x against the readings is
    `square - 2 * x @ moment + x @ normal @ x`; `total` is the squared error of an even rate.
    """

    bin_bytes: FloatArray
    normal: FloatArray
    moment: FloatArray
    square: float
    total: float

    def explained(self, bin_bytes: FloatArray) -> float:
        """Share of the readings' variance about an even rate that `bin_bytes` (n) explains."""
        error = self.square - 2 * float(bin_bytes @ self.moment) + float(bin_bytes @ self.normal @ bin_bytes)
        return 1.0 - error / self.total if self.total > 0 else 0.0


def bin_count(readings_per_period: float, readings: int) -> int:
    """Bins of an iteration: finer than the readings, and fewer than a sixth of them."""
    wanted = int(BINS_PER_READING * readings_per_period)
    return int(np.clip(min(wanted, readings // 6), FEWEST_BINS, MOST_BINS))


def fold_increments(
    before: FloatArray, after: FloatArray, step_bytes: FloatArray, readings_per_period: float
) -> Fold:
    """Fold readings that saw `step_bytes` (n) pass between the phases `before` and `after` (n, in iterations)."""
    bins = bin_count(readings_per_period, before.size)
    normal, moment = normal_equations(before, after, step_bytes, bins)
    difference = np.eye(bins) - np.roll(np.eye(bins), 1, axis=1)
    weight = SMOOTHNESS * float(np.trace(normal)) / bins + 1e-12
    bin_bytes = np.linalg.solve(normal + weight * difference.T @ difference, moment)
    even = np.full(bins, float(moment.sum()) / max(float(normal.sum()), 1e-300))
    square = float(step_bytes @ step_bytes)
    total = square - 2 * float(even @ moment) + float(even @ normal @ even)
    return Fold(bin_bytes, normal, moment, square, total)


def normal_equations(
    before: FloatArray, after: FloatArray, step_bytes: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray]:
    """Normal matrix (bins, bins) and right-hand side (bins) for the bytes of each bin.

    A reading's bytes are the difference of a piecewise linear total between two phases, so each has at
    most five weights on the totals at the bins' borders; the last one is that of whole iterations.
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
    # From totals at the borders to bytes in the bins: a bin adds to every total after it.
    later = np.cumsum(totals.reshape(size, size)[:0:-1, :0:-1], axis=0).cumsum(axis=1)[::-1, ::-1]
    return later, np.cumsum(right[:0:-1])[::-1]


def predict(fold: Fold, before: FloatArray, after: FloatArray) -> FloatArray:
    """Bytes between the phases `before` and `after`, as the fold has them."""
    bins = fold.bin_bytes.size
    total = np.concatenate([[0.0], np.cumsum(fold.bin_bytes)])
    borders = np.arange(bins + 1) / bins

    def until(phase: FloatArray) -> FloatArray:
        whole = np.floor(phase)
        return whole * total[-1] + np.interp(phase - whole, borders, total)

    return until(after) - until(before)


def explained_by_halves(
    before: FloatArray, after: FloatArray, step_bytes: FloatArray, step_s: FloatArray, readings_per_period: float
) -> float:
    """Share of the variance that every second iteration explains of the rest, both ways round.

    Iterations that have nothing in common explain less than an even rate does: the share is then below 0.
    It is 0 without enough readings in both halves.
    """
    odd = (before.astype(np.int64) & 1) == 1
    if min(int(odd.sum()), int((~odd).sum())) < FEWEST_BINS // 2:
        return 0.0
    error = 0.0
    for known in (odd, ~odd):
        fold = fold_increments(before[known], after[known], step_bytes[known], readings_per_period)
        error += float(np.sum((step_bytes[~known] - predict(fold, before[~known], after[~known])) ** 2))
    even = step_s * (float(step_bytes.sum()) / float(step_s.sum()))
    total = float(np.sum((step_bytes - even) ** 2))
    return 1.0 - error / total if total > 0 else 0.0
