"""Ways to look at the operations of a timeline, and the one in which they repeat most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hocket.profiling.timelines.sequence import MOST_OPERATIONS, smallest_repeat
from hocket.profiling.timelines.timeline import IntArray, Operation, Timeline

# Below this share of operations that repeat, the sequence says nothing.
LEAST_RECURRENCE = 0.6
# A view of the operations with this share is as good as any.
FULL_RECURRENCE = 0.85


@dataclass(frozen=True, eq=False)
class View:
    """Some operations of a timeline in order: their numbers `index` (n) in it, and what tells them apart,
    `symbols` (n).
    """

    index: IntArray
    symbols: IntArray


class Repeat(NamedTuple):
    """A view, after how many of its operations it repeats, and their share."""

    view: View
    length: int
    share: float


def best_repeat(timeline: Timeline) -> Repeat | None:
    """The first view that explains nearly all of itself, or else the one that explains most."""
    found: list[Repeat] = []
    for view in views(timeline):
        length, share = smallest_repeat(view.symbols)
        found.append(Repeat(view, length, share))
        if share >= FULL_RECURRENCE:
            break
    # max takes the first of equals.
    best = max(found, key=lambda each: each.share)
    return best if best.share >= LEAST_RECURRENCE else None


def views(timeline: Timeline) -> Iterator[View]:
    """All operations told apart by everything, then without their sizes, then lane by lane."""
    first = max(0, (timeline.which.size - MOST_OPERATIONS) // 2)
    index = np.arange(first, min(timeline.which.size, first + MOST_OPERATIONS))
    unsized = coarse(timeline)
    yield View(index, timeline.which[index])
    yield View(index, unsized[index])
    lanes = numbered(timeline, lambda each: (each.lane, each.ranks, each.group_size))[index]
    names, counts = np.unique(lanes, return_counts=True)
    if names.size > 1:
        for lane in names[np.argsort(-counts, kind="stable")].tolist():
            own = index[lanes == lane]
            yield View(own, timeline.which[own])
            yield View(own, unsized[own])


def coarse(timeline: Timeline) -> IntArray:
    """The operations (n) without their sizes: those of an all-to-all between experts differ every time."""
    return numbered(timeline, lambda each: (each.kind, each.group_size, each.ranks, each.lane))


def numbered(timeline: Timeline, key: Callable[[Operation], object]) -> IntArray:
    """A number for each operation (n): the same for those that `key` does not tell apart."""
    numbers: dict[object, int] = {}
    of_each = [numbers.setdefault(key(operation), len(numbers)) for operation in timeline.operations]
    return np.array(of_each, dtype=np.int64)[timeline.which]
