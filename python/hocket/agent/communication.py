"""Which of a job's collectives begins its communication phase: the one after the longest quiet of an
iteration, where profiles of `hocket profile` begin too.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

# DistributedDataParallel cuts its buckets anew after the first iteration.
_WARM_UP = 2
# Hocket: an odd number that a few stragglers do not outvote.
_LESSONS = 9
# Hocket: far more collectives than layers of the largest models; more than that tells nothing new.
_MOST = 4_096


class Event(NamedTuple):
    """Marks of a collective's start, and of when the quiet before it began."""

    start: Any
    quiet_since: Any


class Seen(NamedTuple):
    """What an iteration showed."""

    start: Any
    """Mark of the start of its communication phase, once known which it is."""
    events: list[Event]
    """Until then, all of them."""
    communication_ns: int | None
    """The time in which at least one collective went on, if their ends were seen."""


class Communication:
    """Collects an iteration's collectives. They may start and end in any thread, and nothing that is called
    there raises: what goes wrong is told to `fail`, once, and from then on nothing is collected.
    """

    def __init__(
        self,
        mark: Callable[[], Any],
        fail: Callable[[Exception], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._mark = mark
        self._fail = fail
        self._clock = clock
        self._works = True
        self._lock = threading.Lock()
        self._first: int | None = None
        self._last: Any = None
        self._busy_ns: int | None = None
        self._begin()

    def started(self) -> None:
        """A collective starts, and nobody tells when it ends: the quiet after it counts from its start."""
        self._collect(self._note)

    def span_started(self) -> None:
        """A collective starts, and `span_ended` follows."""
        self._collect(self._open_span)

    def span_ended(self) -> None:
        """One of the collectives under way is over."""
        self._collect(self._close_span)

    def take(self) -> Seen:
        """What there was since the last call."""
        with self._lock:
            seen = Seen(self._start, self._events, None if self._open else self._busy_ns)
            self._begin()
            return seen

    def settle(self, first: int) -> None:
        """From now on only the collective of this index is marked: marks on a GPU cost microseconds."""
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

    def _begin(self) -> None:
        self._count = 0
        self._open = 0
        self._open_since_ns = 0
        self._start: Any = None
        self._events: list[Event] = []
        self._busy_ns = None

    def _note(self) -> None:
        index = self._count
        self._count += 1
        if self._first is not None:
            if index == self._first:
                self._start = self._mark()
        elif index < _MOST:
            start = self._mark()
            quiet_since = start if self._open or self._last is None else self._last
            self._events.append(Event(start, quiet_since))
            self._last = start

    def _open_span(self) -> None:
        self._note()
        self._open += 1
        if self._open == 1:
            self._open_since_ns = self._clock()

    def _close_span(self) -> None:
        # Of an iteration that is over itself, what is late no longer counts.
        if self._open == 0:
            return
        self._open -= 1
        if self._open == 0:
            now_ns = self._clock()
            self._busy_ns = (self._busy_ns or 0) + now_ns - self._open_since_ns
            self._last = now_ns


class Lessons:
    """Learns from the first iterations which collective comes after the longest quiet."""

    def __init__(self) -> None:
        self._seen = 0
        self._votes: Counter[int] = Counter()

    def learn(self, events: list[tuple[int | None, int | None]], delay_ns: int) -> int | None:
        """The index of the collective after this iteration's longest quiet, of their starts and of when the
        quiet before each began, in ns; none if no times are known. What the iteration was delayed is no
        quiet of its own.
        """
        quiet_ns = [
            -1 if start_ns is None or since_ns is None else start_ns - since_ns
            for start_ns, since_ns in events
        ]
        quiet_ns[0] -= delay_ns
        longest = max(range(len(events)), key=quiet_ns.__getitem__)
        if quiet_ns[longest] < 0:
            return None
        self._seen += 1
        if self._seen > _WARM_UP:
            self._votes[longest] += 1
        return longest

    @property
    def outcome(self) -> int | None:
        """What most iterations said, once there were enough."""
        if sum(self._votes.values()) < _LESSONS:
            return None
        return self._votes.most_common(1)[0][0]
