"""The communication and computation of one rank, from a profiler trace of any format.

Each format has its own module to read it; `hocket.profiling.timelines.iterations` finds the iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import InputError
from hocket.profiling.counters import FloatArray

IntArray = NDArray[np.int64]

NO_TIMES: FloatArray = np.empty(0)
NO_INTERVALS: FloatArray = np.empty((0, 2))
# No profiler trace lasts for months: events this far apart mean that a time is wrong.
LONGEST_S = 1e7


class Operation(NamedTuple):
    """The identity of a communication operation: equal values recur in each iteration.

    `kind` is the name in nccl-tests ("all-reduce", "all-to-all", "send", …), `size_bytes` the message as
    nccl-tests counts it, and `group_size` the number of ranks; None if the profiler trace does not give them.
    `ranks` are the members of the group, () if unknown. `detail` is anything else that distinguishes
    operations: data type, communicator, kernel and its grid. `lane` is a queue, such as a stream, in which
    operations wait for each other; operations of different lanes may overtake each other.
    """

    kind: str
    size_bytes: int | None = None
    group_size: int | None = None
    ranks: tuple[int, ...] = ()
    detail: str = ""
    lane: str = ""


@dataclass(frozen=True, eq=False)
class Timeline:
    """What one rank did, in seconds from the first event of its profiler trace; built by `Timeline.of`.

    The n communication operations are in order of their start: `start_s` and `end_s` (n), and `which` (n),
    the index of each in `operations`, the distinct ones in order of appearance.

    `compute_s` (m, 2) are the merged intervals in which the GPU (or the CPU, if it trains) computed, and
    `kernels_s` (k) the starts of all its kernels; empty if the profiler trace does not show them. `steps_s`
    are the starts of annotated steps, which only confirm or contradict the result, and `length_s` is the
    length of the trace.

    `trust`, in (0, 1], lowers the confidence of the profile; `caveat` is the reason.
    """

    source: str
    operations: tuple[Operation, ...]
    which: IntArray
    start_s: FloatArray
    end_s: FloatArray
    compute_s: FloatArray = field(default_factory=lambda: NO_INTERVALS)
    kernels_s: FloatArray = field(default_factory=lambda: NO_TIMES)
    steps_s: FloatArray = field(default_factory=lambda: NO_TIMES)
    length_s: float = 0.0
    trust: float = 1.0
    caveat: str | None = None

    @classmethod
    def of(
        cls,
        source: str,
        start_s: Iterable[float],
        end_s: Iterable[float],
        operations: Sequence[Operation],
        *,
        computes_s: FloatArray = NO_INTERVALS,
        steps_s: FloatArray = NO_TIMES,
        trust: float = 1.0,
        caveat: str | None = None,
    ) -> Timeline:
        """A timeline of `operations` (n) that ran from `start_s` (n) to `end_s` (n), in any order and on any
        clock, with computation in the intervals `computes_s` (k, 2). Takes O((n + k) log (n + k)).

        Raises:
            InputError: There is no operation, one ends before it starts, a time is not finite, or the times
                are more than `LONGEST_S` apart.

        >>> all_reduce = Operation("all-reduce", size_bytes=1_000_000, group_size=2)
        >>> Timeline.of("a", [7.5, 7.0], [7.6, 7.1], [all_reduce, all_reduce]).start_s.tolist()
        [0.0, 0.5]
        """
        starts = np.asarray(list(start_s), dtype=np.float64)
        ends = np.asarray(list(end_s), dtype=np.float64)
        if starts.size == 0:
            raise InputError(f"{source}: contains no communication operation")
        check_intervals(source, np.column_stack([starts, ends]))
        check_intervals(source, computes_s)
        # Ties are ordered by end, so that the result does not depend on the order of the input.
        order = np.lexsort((ends, starts))
        distinct: dict[Operation, int] = {}
        which = [distinct.setdefault(operations[index], len(distinct)) for index in order.tolist()]
        first_s = min(float(starts.min()), float(computes_s[:, 0].min(initial=np.inf)))
        last_s = max(float(ends.max()), float(computes_s[:, 1].max(initial=-np.inf)))
        if not last_s - first_s <= LONGEST_S:
            raise InputError(
                f"{source}: its events are {last_s - first_s:.3g} s apart; the limit is {LONGEST_S:g} s"
            )
        # A step without a usable time is left out, not refused: steps only confirm the result.
        steps = np.sort(steps_s[np.isfinite(steps_s)]) - first_s
        return cls(
            source,
            tuple(distinct),
            np.array(which, dtype=np.int64),
            starts[order] - first_s,
            ends[order] - first_s,
            merged(computes_s - first_s),
            np.sort(computes_s[:, 0]) - first_s,
            steps,
            last_s - first_s,
            trust,
            caveat,
        )


def check_intervals(source: str, intervals_s: FloatArray) -> None:
    """Raises `InputError` for the first interval (n, 2) that is not finite or ends before it starts."""
    wrong = ~(np.isfinite(intervals_s).all(axis=1) & (intervals_s[:, 1] >= intervals_s[:, 0]))
    if wrong.any():
        begin_s, end_s = intervals_s[int(np.argmax(wrong))].tolist()
        raise InputError(
            f"{source}: an event from {begin_s:.9g} s to {end_s:.9g} s; times must be finite, "
            "durations not negative"
        )


def merged(intervals_s: FloatArray) -> FloatArray:
    """The union of intervals (n, 2) as disjoint intervals (m, 2) in order.

    >>> merged(np.array([[2.0, 3.0], [0.0, 1.0], [0.5, 1.5]])).tolist()
    [[0.0, 1.5], [2.0, 3.0]]
    """
    if intervals_s.shape[0] == 0:
        return NO_INTERVALS
    ordered = intervals_s[np.argsort(intervals_s[:, 0], kind="stable")]
    # An interval may contain later ones, so the end reached so far counts, not the end of the one before.
    reached = np.maximum.accumulate(ordered[:, 1])
    begins = np.flatnonzero(np.append(True, ordered[1:, 0] > reached[:-1]))
    ends = np.append(begins[1:], ordered.shape[0]) - 1
    return np.column_stack([ordered[begins, 0], reached[ends]])


def covered_until(intervals_s: FloatArray, time_s: FloatArray) -> FloatArray:
    """Seconds of the merged intervals (m, 2) that lie before each of `time_s` (n).

    >>> covered_until(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.5, 1.5, 9.0])).tolist()
    [0.5, 1.0, 2.0]
    """
    if intervals_s.shape[0] == 0:
        return np.zeros(np.shape(time_s))
    lengths = np.diff(intervals_s, axis=1).ravel()
    corners = np.column_stack([np.cumsum(lengths) - lengths, np.cumsum(lengths)]).ravel()
    covered: FloatArray = np.interp(time_s, intervals_s.ravel(), corners)
    return covered
