"""Which of a job's collectives begins its communication phase: the one after the longest quiet of an
iteration, where profiles of `hocket profile` begin too.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

# DistributedDataParallel cuts its buckets anew after the first iteration.
_WARM_UP = 2
# Hocket: an odd number that a few stragglers do not outvote.
_LESSONS = 9
# Hocket: far more collectives than layers of the largest models; more than that tells nothing new.
_MOST = 4_096


class Span(NamedTuple):
    """Marks of a begin and an end."""

    start: Any
    end: Any


class Seen(NamedTuple):
    """What an iteration showed, as marks."""

    start: Any
    """Of its communication phase, once known which collective begins it."""
    quiet: list[Span]
    """Until then, before each of its collectives."""
    spans: list[Span]
    """In which at least one collective went on."""
    is_whole: bool
    """Whether the ends of all collectives were seen."""


class Communication:
    """Collects an iteration's collectives. They may start and end in any thread, and nothing that is called
    there raises: what goes wrong is told to `fail`, once, and from then on nothing is collected.
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
        """A collective starts, and nobody tells when it ends: the quiet after it counts from its start."""
        self._collect(self._begin_unbounded)

    def span_started(self) -> None:
        """A collective starts, and `span_ended` follows."""
        self._collect(self._open_span)

    def span_ended(self) -> None:
        """One of the collectives under way is over."""
        self._collect(self._close_span)

    def take(self) -> Seen:
        """What there was since the last call."""
        with self._lock:
            is_whole = self._open == 0 and not self._is_unbounded
            seen = Seen(self._start, self._quiet, self._spans, is_whole)
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
        self._is_unbounded = False
        self._start: Any = None
        self._opened: Any = None
        self._quiet: list[Span] = []
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
        # Of an iteration that is over itself, what is late no longer counts.
        if self._open == 0:
            return
        self._open -= 1
        if self._open == 0:
            self._last = self._mark()
            self._spans.append(Span(self._opened, self._last))

    def _note(self) -> Any:
        """A collective starts: its mark, if there is need for one."""
        index = self._count
        self._count += 1
        mark = None
        if self._first is not None:
            if index == self._first:
                mark = self._start = self._mark()
        elif index < _MOST:
            mark = self._mark()
            since = mark if self._open or self._last is None else self._last
            self._quiet.append(Span(since, mark))
            self._last = mark
        return mark


class Lessons:
    """Learns from the first iterations which collective comes after the longest quiet."""

    def __init__(self) -> None:
        self._seen = 0
        self._votes: Counter[int] = Counter()

    def learn(self, quiet_ns: list[int | None], delay_ns: int) -> int | None:
        """The index of the collective after this iteration's longest quiet, of what was quiet before each;
        none if nothing is known of any. What the iteration was delayed is no quiet of its own.
        """
        quiet_ns = [quiet_ns[0] if quiet_ns[0] is None else quiet_ns[0] - delay_ns, *quiet_ns[1:]]
        known = [index for index, its_ns in enumerate(quiet_ns) if its_ns is not None]
        if not known:
            return None
        longest = max(known, key=lambda index: quiet_ns[index] or 0)
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
