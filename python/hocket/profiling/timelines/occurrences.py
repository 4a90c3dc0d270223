"""Places where the iterations of a sequence begin, given the number of operations in one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hocket.profiling.counters import BoolArray, FloatArray
from hocket.profiling.timelines.timeline import IntArray

# An extra operation, or jitter in the times, may move the start of an iteration by this many operations.
MOST_MOVED = 8
MOVED_HANDICAP = 0.02
# Share of the operations of an iteration that must equal those of the template.
LEAST_LIKENESS = 0.9


def occurrences(symbols: IntArray, quiet_s: FloatArray, length: int) -> tuple[IntArray, BoolArray]:
    """Starts of complete iterations of `length` operations (n), and whether the next one follows (n - 1).

    Iterations begin after the longest quiet time; `quiet_s` is that before each operation. The search starts
    from the stretch of the sequence that repeats best, so that a warm-up does not become the template.
    """
    anchor = best_anchor(symbols, quiet_s, length)
    template = symbols[anchor : anchor + length]
    # Above 0, since it is a divisor: operations may follow each other without a gap.
    usual_s = max(float(quiet_s[anchor]), 1e-12)

    def likeness(place: int) -> float:
        window = symbols[place : place + length]
        return float(np.mean(window == template)) if window.size == length and place >= 0 else 0.0

    def best_near(expected: int) -> int | None:
        reach = min(length // 4, MOST_MOVED)
        scored = [
            (
                like + min(1.0, float(quiet_s[place]) / usual_s) - MOVED_HANDICAP * abs(place - expected),
                place,
            )
            for place in range(expected - reach, expected + reach + 1)
            if (like := likeness(place)) >= LEAST_LIKENESS
        ]
        return max(scored)[1] if scored else None

    forward = walk(anchor, length, symbols.size, best_near)
    backward = walk(anchor, -length, symbols.size, best_near)
    places = np.array(sorted({*forward, *backward}), dtype=np.int64)
    return places, np.diff(places) == length


def best_anchor(symbols: IntArray, quiet_s: FloatArray, length: int) -> int:
    """The start of the iteration that serves as the template.

    Its operations recur best one iteration later, and it begins after the longest quiet time.
    """
    same = np.concatenate([[0], np.cumsum(symbols[length:] == symbols[:-length])])
    whole = same[length:] - same[:-length] if same.size > length else same[-1:]
    likest = np.flatnonzero(whole >= whole.max())
    # Every place of an iteration is among `length` consecutive places.
    first = likest[likest.size // 2 // length * length :][:length]
    typical = [float(np.median(quiet_s[place % length :: length])) for place in first.tolist()]
    return int(first[int(np.argmax(typical))])


def walk(anchor: int, step: int, size: int, best_near: Callable[[int], int | None]) -> list[int]:
    """Places from `anchor` on, each about `step` from the one before, or else at the next match."""
    # After a checkpoint or an evaluation, the next iteration may begin at any operation.
    places, expected = [anchor], anchor + step
    while 0 <= expected < size:
        place = best_near(expected)
        if place is None:
            expected += 1 if step > 0 else -1
        else:
            places.append(place)
            expected = place + step
    return places
