"""Determines which of a job's collectives begins its communication phase: the one after the longest gap of an
iteration, which is also where the profiles of `hocket profile` begin.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

# DistributedDataParallel rebuilds its buckets after the first iteration.
_WARM_UP = 2
# Hocket: an odd number, large enough that a few stragglers do not decide the vote.
_VOTES = 9
# Hocket: far more collectives than the largest models have layers; it bounds the marks kept while learning.
_MARKED_COLLECTIVES = 4_096


class Span(NamedTuple):
    """A pair of marks."""

    start: Any
    end: Any


class Observation(NamedTuple):
    """The communication of one iteration, as marks."""

    start: Any
    """Start of the communication phase, once it is known which collective begins it."""
    gaps: list[Span]
    """Until then, the gap before each collective."""
    spans: list[Span]
    """Times in which at least one collective was under way."""
    is_whole: bool
    """Whether the ends of all collectives were observed."""


class Communication:
    """Collects an iteration's collectives. They may start and end in any thread, and these calls never raise:
    the first error goes to `fail`, and from then on nothing is collected.
    """

    def __init__(self, mark: Callable[[], Any], fail: Callable[[Exception], None]) -> None:
        self._mark = mark
        self._fail = fail
        self._works = True
        self._lock = threading.Lock()
        self._first: int | None = None
        self._last: Any = None
        self._begin()

    def started(self) -> None:
        """A collective starts whose end is not observed: the gap after it counts from its start."""
        self._collect(self._begin_unbounded)

    def span_started(self) -> None:
        """A collective starts, and `span_ended` follows."""
        self._collect(self._open_span)

    def span_ended(self) -> None:
        """One of the collectives under way has ended."""
        self._collect(self._close_span)

    def take(self) -> Observation:
        """The communication since the last call."""
        with self._lock:
            is_whole = self._open == 0 and not self._is_unbounded
            observed = Observation(self._start, self._gaps, self._spans, is_whole)
            self._begin()
            return observed

    def settle(self, first: int) -> None:
        """From now on marks only the collective of this index, since marks on a GPU cost microseconds."""
        with self._lock:
            self._first = first

    def _collect(self, what: Callable[[], None]) -> None:
        if self._works:
            try:
                with self._lock:
                    what()
            except Exception as error:
                self._works = False
                self._fail(error)

    # `_last` stays, since the first gap of an iteration begins in the one before.
    def _begin(self) -> None:
        self._count = 0
        self._open = 0
        self._is_unbounded = False
        self._start: Any = None
        self._opened: Any = None
        self._gaps: list[Span] = []
        self._spans: list[Span] = []

    def _begin_unbounded(self) -> None:
        self._is_unbounded = True
        self._note()

    def _open_span(self) -> None:
        mark = self._note()
        if self._open == 0:
            self._opened = self._mark() if mark is None else mark
        self._open += 1

    def _close_span(self) -> None:
        # A collective that outlives its iteration was already counted as unfinished there.
        if self._open == 0:
            return
        self._open -= 1
        if self._open == 0:
            self._last = self._mark()
            self._spans.append(Span(self._opened, self._last))

    def _note(self) -> Any:
        """Records the start of a collective and returns its mark, if it needed one."""
        index = self._count
        self._count += 1
        mark = None
        if self._first is not None:
            if index == self._first:
                mark = self._start = self._mark()
        elif index < _MARKED_COLLECTIVES:
            mark = self._mark()
            # While another collective is under way there is no silence, hence an empty gap.
            since = mark if self._open or self._last is None else self._last
            self._gaps.append(Span(since, mark))
            self._last = mark
        return mark


class PhaseStart:
    """Learns from the first iterations which collective follows the longest gap."""

    def __init__(self) -> None:
        self._learnt = 0
        self._votes: Counter[int] = Counter()

    def learn(self, gaps_ns: list[int | None], delay_ns: int) -> int | None:
        """The index of the collective after the longest of this iteration's gaps, which are given in order;
        None if no gap is known. The first gap does not count the time by which the iteration was delayed.
        """
        gaps_ns = [gaps_ns[0] if gaps_ns[0] is None else gaps_ns[0] - delay_ns, *gaps_ns[1:]]
        known = [index for index, gap_ns in enumerate(gaps_ns) if gap_ns is not None]
        if not known:
            return None
        # The first of equally long gaps, as in the service (`Contender.mark_ps`).
        longest = max(known, key=lambda index: gaps_ns[index] or 0)
        self._learnt += 1
        if self._learnt > _WARM_UP:
            self._votes[longest] += 1
        return longest

    @property
    def outcome(self) -> int | None:
        """The index that most iterations agree on; None until there are enough of them."""
        if sum(self._votes.values()) < _VOTES:
            return None
        return self._votes.most_common(1)[0][0]
