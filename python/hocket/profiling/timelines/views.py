"""Views of the operations of a timeline, and the view in which they repeat most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hocket.profiling.timelines.sequence import MOST_OPERATIONS, smallest_repeat
from hocket.profiling.timelines.timeline import IntArray, Operation, Timeline

# If a smaller share of the operations repeats, the sequence does not show iterations.
LEAST_RECURRENCE = 0.6
# A view in which this share repeats is good enough; further ones are not tried.
FULL_RECURRENCE = 0.85


@dataclass(frozen=True, eq=False)
class View:
    """Some operations of a timeline, in order: their indices `index` (n), and `symbols` (n), which are equal
    for operations that the view does not distinguish.
    """

    index: IntArray
    symbols: IntArray


class Repeat(NamedTuple):
    """A view, the number of operations after which it repeats, and the share that does."""

    view: View
    length: int
    share: float


def best_repeat(timeline: Timeline) -> Repeat | None:
    """The first view in which nearly all operations repeat, or else the view with the largest share that
    does; None if that share is below `LEAST_RECURRENCE`.
    """
    repeats: list[Repeat] = []
    for view in views(timeline):
        length, share = smallest_repeat(view.symbols)
        repeats.append(Repeat(view, length, share))
        if share >= FULL_RECURRENCE:
            break
    # Of equal shares, max returns the first: views come in the order of preference.
    best = max(repeats, key=lambda each: each.share)
    return best if best.share >= LEAST_RECURRENCE else None


def views(timeline: Timeline) -> Iterator[View]:
    """All operations distinguished by everything, then without their sizes, then lane by lane."""
    # From the middle, away from warm-up at the start and an evaluation or a checkpoint at the end.
    first = max(0, (timeline.which.size - MOST_OPERATIONS) // 2)
    index = np.arange(first, min(timeline.which.size, first + MOST_OPERATIONS))
    unsized = coarse(timeline)
    yield View(index, timeline.which[index])
    yield View(index, unsized[index])
    lanes = numbered(timeline, lambda each: (each.lane, each.ranks, each.group_size))[index]
    names, counts = np.unique(lanes, return_counts=True)
    if names.size > 1:
        # The busiest lane first, in which most repeats can be seen.
        for lane in names[np.argsort(-counts, kind="stable")].tolist():
            of_lane = index[lanes == lane]
            yield View(of_lane, timeline.which[of_lane])
            yield View(of_lane, unsized[of_lane])


def coarse(timeline: Timeline) -> IntArray:
    """Symbols (n) without sizes: those of an all-to-all between experts differ every time."""
    return numbered(timeline, lambda each: (each.kind, each.group_size, each.ranks, each.lane))


def numbered(timeline: Timeline, key: Callable[[Operation], object]) -> IntArray:
    """A number for each operation (n), equal for operations with the same `key`."""
    numbers: dict[object, int] = {}
    of_each = [numbers.setdefault(key(operation), len(numbers)) for operation in timeline.operations]
    return np.array(of_each, dtype=np.int64)[timeline.which]
