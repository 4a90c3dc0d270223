"""The Up phases of a folded iteration: a piecewise constant rate with no more steps than needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hocket.profiling.counters import FloatArray
from hocket.profiling.fold import Fold

MOST_SEGMENTS = 12
# A further step must explain this share of the variance, plus this share of what iterations do not explain of
# each other. Otherwise it is noise, or the edge of a jittering phase.
LEAST_GAIN = 0.0007
LEAST_GAIN_OF_NOISE = 0.05
# In a segment shorter than this share of the time between two readings, length and rate cannot be separated.
RESOLUTION = 0.6
# A segment is Up if it exceeds the quietest one by this share of the range between quietest and busiest.
LEAST_UP = 0.06
# Neighbouring Up phases are one if their rates differ by less than this share of the highest.
SAME_RATE = 0.1
# Edges are refined to this fraction of a bin. A step size is kept as long as a round over the edges gains
# this much.
EDGE_FRACTION = 64
LEAST_REFINEMENT = 1e-5
# The search ends after this many segmentations in a row without a gain.
PATIENCE = 4


@dataclass(frozen=True)
class Segment:
    """A stretch of constant rate: `start` and `length` as shares of the iteration, and whether it is `up`.

    `share_bytes` is its rate times the period: the bytes that a whole iteration at this rate would send.
    """

    start: float
    length: float
    share_bytes: float
    up: bool


def find_segments(fold: Fold, explained: float, reading: float, spread: float) -> list[Segment]:
    """Divides the iteration into segments, in order; the last one ends where the first begins.

    `explained` is the share of the variance that iterations explain of each other. `reading` is the time
    between two readings and `spread` the jitter of edges, both as shares of the iteration; no segment is much
    shorter than either. An iteration in which nothing stands out is a single segment, which is Up.
    """
    shortest = max(spread, RESOLUTION * reading)
    least_gain = LEAST_GAIN + LEAST_GAIN_OF_NOISE * (1.0 - explained)
    edges = simplified(fold, best_edges(fold, shortest, least_gain), spread)
    if edges.size < 2:
        return [Segment(0.0, 1.0, float(fold.bin_bytes.sum()), True)]
    heights = fit_heights(fold, edges)
    up = is_up(heights)
    lengths = segment_lengths(edges)
    return [
        Segment(float(start) % 1.0, float(length), max(0.0, float(height)), bool(busy))
        for start, length, height, busy in zip(edges, lengths, heights, up, strict=True)
    ]


def best_edges(fold: Fold, shortest: float, least_gain: float) -> FloatArray:
    """Edges (shares of the iteration) of the best segmentation, if each edge costs `least_gain`."""
    bins = fold.bin_bytes.size
    quiet = quietest_bin(fold.bin_bytes)
    shortest_bins = int(np.clip(np.ceil(shortest * bins), 1, bins // 8))
    best, best_score, waited = np.empty(0), least_gain, 0
    for borders in segmentations(np.roll(fold.bin_bytes, -quiet), shortest_bins):
        # The first and the last segment meet in the quietest place and are one, so only inner borders are
        # edges.
        edges = refined(fold, (borders + quiet) / bins, min(shortest, 0.5 * shortest_bins / bins))
        score = explained_with(fold, edges) - least_gain * edges.size
        waited += 1
        if score > best_score:
            best, best_score, waited = edges, score, 0
        if waited == PATIENCE:
            break
    return best


def quietest_bin(bin_bytes: FloatArray) -> int:
    """The middle of the quietest eighth of the iteration."""
    width = max(1, bin_bytes.size // 8)
    total = np.concatenate([[0.0], np.cumsum(np.concatenate([bin_bytes, bin_bytes]))])
    sums = total[width : width + bin_bytes.size] - total[: bin_bytes.size]
    return (int(np.argmin(sums)) + width // 2) % bin_bytes.size


def segmentations(bin_bytes: FloatArray, shortest: int) -> list[FloatArray]:
    """The inner borders of least squared error, for 3 … `MOST_SEGMENTS` segments of at least `shortest` bins.

    Optimal by dynamic programming over the last border (Bellman 1961), in O(segments × bins²).
    """
    bins = bin_bytes.size
    total = np.concatenate([[0.0], np.cumsum(bin_bytes)])
    square = np.concatenate([[0.0], np.cumsum(bin_bytes**2)])
    size = np.arange(bins + 1)[None, :] - np.arange(bins + 1)[:, None]
    allowed = size >= shortest
    spread = (total[None, :] - total[:, None]) ** 2 / np.where(allowed, size, 1)
    error = np.where(allowed, square[None, :] - square[:, None] - spread, np.inf)
    least = error[0]
    origins = []
    divisions = []
    for segments in range(2, min(MOST_SEGMENTS, bins // shortest) + 1):
        through = least[:, None] + error
        origins.append(np.argmin(through, axis=0))
        least = np.min(through, axis=0)
        if segments >= 3:
            border = bins
            borders = []
            for origin in reversed(origins):
                border = int(origin[border])
                borders.append(border)
            divisions.append(np.array(borders[::-1], dtype=np.float64))
    return divisions


def refined(fold: Fold, edges: FloatArray, shortest: float) -> FloatArray:
    """Moves the edges, one at a time and by ever smaller steps, to where they explain the readings best.

    Edges keep their order and stay `shortest` (share of the iteration) apart.
    """
    bins = fold.bin_bytes.size
    best = explained_with(fold, edges)
    step = 1.0 / bins
    while step * EDGE_FRACTION * bins >= 1.0:
        before = best
        for index in range(edges.size):
            for shift in (-step, step):
                trial = edges.copy()
                trial[index] += shift
                lengths = segment_lengths(trial)
                explained = explained_with(fold, trial) if lengths.min() >= shortest else -np.inf
                if explained > best:
                    edges, best = trial, explained
        if best - before < LEAST_REFINEMENT:
            step /= 2
    return edges


def segment_lengths(edges: FloatArray) -> FloatArray:
    """Lengths of the segments between the edges; the last ends at the first edge of the next iteration."""
    return np.diff(np.append(edges, edges[0] + 1.0))


def explained_with(fold: Fold, edges: FloatArray) -> float:
    """Share of the variance that the best constant rates between the edges explain."""
    heights, normal, moment = fit(fold, edges)
    error = fold.square - 2 * float(heights @ moment) + float(heights @ normal @ heights)
    return 1.0 - error / fold.total if fold.total > 0 else 0.0


def fit_heights(fold: Fold, edges: FloatArray) -> FloatArray:
    """Rate of each segment in bytes per iteration, fitted to the readings by least squares."""
    return fit(fold, edges)[0]


def fit(fold: Fold, edges: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Heights of the segments (k), and the normal equations (k, k) and (k) that they solve.

    A segment weighs each bin by the share that it covers. Its equations are therefore differences of the
    bins' running totals, interpolated within bins: O(k²) instead of O(bins²).
    """
    bins = fold.bin_bytes.size
    borders = np.append(edges, edges[0] + 1.0)
    whole = np.floor(borders)
    position = (borders - whole) * bins
    low = np.minimum(position.astype(np.intp), bins - 1)
    part = position - low
    # Whole iterations before each border, plus the running total within the iteration.
    totals = fold.moment_until
    moment = np.diff(whole * totals[-1] + totals[low] * (1 - part) + totals[low + 1] * part)
    square = fold.normal_until
    rows = square[low] * (1 - part)[:, None] + square[low + 1] * part[:, None] + whole[:, None] * square[-1]
    grid = rows[:, low] * (1 - part) + rows[:, low + 1] * part + whole * rows[:, -1:]
    normal = np.diff(np.diff(grid, axis=0), axis=1) / bins**2
    moment = moment / bins
    # Readings may not tell two short segments apart; the ridge then makes their rates finite.
    ridge = 1e-9 * float(np.trace(normal)) / edges.size
    heights: FloatArray = np.linalg.solve(normal + ridge * np.eye(edges.size), moment)
    return heights, normal, moment


def is_up(heights: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which segments (k) stand out from the quietest one."""
    # Least squares may fit a negative rate to a short segment, above which one that sends nothing is not Up.
    quiet = max(float(heights.min()), 0.0)
    return np.asarray(heights > quiet + LEAST_UP * (float(heights.max()) - quiet))


def simplified(fold: Fold, edges: FloatArray, spread: float) -> FloatArray:
    """Removes edges between two quiet segments, between two of like rate, and between a ramp and its phase.

    A ramp is a short segment between a lower and a higher one: the edge of a phase that jitters.
    """
    while edges.size >= 2:
        heights = fit_heights(fold, edges)
        index = superfluous_edge(edges, heights, spread)
        if index is None:
            break
        edges = refined(fold, np.delete(edges, index), 0.5 / fold.bin_bytes.size)
    return edges


def superfluous_edge(edges: FloatArray, heights: FloatArray, spread: float) -> int | None:
    """Index of the first edge to remove, and of the segment after it; None if all are needed."""
    up = is_up(heights)
    lengths = segment_lengths(edges)
    alike = SAME_RATE * float(heights.max())
    for index in range(edges.size):
        before, after = index - 1, (index + 1) % edges.size
        both_quiet = not up[index] and not up[before]
        same_phase = up[index] and up[before] and abs(heights[index] - heights[before]) < alike
        low, high = sorted((float(heights[before]), float(heights[after])))
        if both_quiet or same_phase:
            return index
        if edges.size > 2 and lengths[index] < 2 * spread and low < heights[index] < high:
            return index
    return None
