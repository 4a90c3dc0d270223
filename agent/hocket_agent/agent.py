"""The agent in a training job: delays its iterations to their slots, and otherwise stays out of the way.

Training's thread only looks at clocks and hands over what it saw; a thread of the agent's own does the rest.
If anything fails in here, the agent stops working and training goes on.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from hocket_agent.client import client_of
from hocket_agent.collectives import is_ddp, watch_collectives, watch_ddp
from hocket_agent.communication import (
    Communication,
    Lessons,
    Seen,
    Span,
)
from hocket_agent.connections import Connections
from hocket_agent.errors import InputError
from hocket_agent.marks import CudaMarker, HostMarker, Marker
from hocket_agent.notes import logger, note
from hocket_agent.reporter import INTERVAL_S, Finished, Reporter
from hocket_agent.settings import Settings, settings_of
from hocket_agent.state import (
    Answer,
    Delay,
    Iteration,
    Shifter,
)

_Model = TypeVar("_Model")
_Step = TypeVar("_Step", bound=Callable[..., Any])
# Hocket: iterations that a GPU may be behind its host; more, and the oldest go unmeasured.
_MOST_PENDING = 1_024


class _Pending(NamedTuple):
    """An iteration that the host is through with; a GPU may have it before it still."""

    number: int
    start: Any
    seen: Seen
    end: Any
    delay: Delay


class Agent:
    """One rank's agent. Its methods are for the thread that trains, except where they say otherwise.

    >>> agent = Agent()
    >>> for _ in range(3):
    ...     with agent.iteration():
    ...         pass
    >>> agent.status()["iterations"], agent.status()["reason"]
    (3, 'no service is named')
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`clock` is monotonic, in ns; `sleep` takes seconds; every `interval_s` the service is asked.

        `InputError` if a setting cannot be.
        """
        settings = settings or Settings()
        client = client_of(settings, clock)
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._marker: Marker | None = None
        self._communication = Communication(self._mark, self._fail)
        self._lessons = Lessons()
        after_ms = settings.communication_after_ms
        self._shifter = Shifter(None if after_ms is None else round(after_ms * 1e6))
        self._answer: Answer | None = None
        self._told: set[tuple[int, bool]] = set()
        self._number = 0
        self._running = False
        self._start: Any = None
        self._delay = Delay(0, False)
        self._delayed_ns = 0
        self._pending: deque[_Pending] = deque(maxlen=_MOST_PENDING)
        self._failure: str | None = None
        self._iteration = _IterationContext(self)
        self._undo: Callable[[], None] | None = None
        self._reporter = Reporter(
            client,
            rank=settings.rank,
            ranks=settings.ranks,
            dry_run=settings.dry_run,
            log=settings.log,
            connections=_connections(settings),
            clock=clock,
            interval_s=interval_s,
        )
        self._reporter.start()
        atexit.register(self.close)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Agent:
        """The agent that HOCKET_SERVICE, HOCKET_JOB, HOCKET_TOKEN, HOCKET_DRY_RUN, HOCKET_LOG,
        HOCKET_COMMUNICATION_AFTER_MS and HOCKET_CONGESTION describe; without a service it only measures.

        It never raises. Whoever sets a cluster's variables is not who starts a training run: if one is
        wrong, the log says so, and the agent only measures.
        """
        try:
            settings = settings_of(os.environ if environment is None else environment)
            agent = cls(settings)
        except InputError as error:
            logger.warning("the agent only measures: %s", error)
            return cls()
        if settings.service is None and settings.rank == 0:
            note("no service is named (HOCKET_SERVICE): training goes on without slots")
        return agent

    def iteration(self) -> _IterationContext:
        """The context of one iteration: all of a step, from its batch to the optimizer. What is to be waited
        is waited before its body.
        """
        return self._iteration

    def wrap(self, step: _Step) -> _Step:
        """The function that does one step, each call of it an iteration."""

        @functools.wraps(step)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._iteration:
                return step(*args, **kwargs)

        return wrapped  # type: ignore[return-value]  # of the same signature

    def attach(self, model: _Model, hook: Any = None, state: Any = None) -> _Model:
        """Sees when communication starts, and returns the model.

        Of a `DistributedDataParallel` by its communication hook: one of the user's own is `hook`, with its
        `state`. Of anything else, FSDP among it, by the functions of `torch.distributed` that it calls.
        """
        try:
            if is_ddp(model):
                watch_ddp(model, self._communication, state, hook)
            elif self._undo is None:
                self._undo = watch_collectives(self._communication)
        except (RuntimeError, ImportError, AttributeError) as error:
            logger.warning("when communication starts cannot be seen: %s; training goes on", error)
        return model

    def communication_started(self) -> None:
        """Communication starts: for jobs that `attach` cannot see into. May be called in any thread."""
        self._communication.started()

    @contextmanager
    def communication(self) -> Iterator[None]:
        """The context of communication that is over when its body is. May be used in any thread."""
        self._communication.span_started()
        try:
            yield
        finally:
            self._communication.span_ended()

    def status(self) -> dict[str, Any]:
        """What the agent does and why, for people and for logs: times in ns, `reason` says why nothing is
        shifted.
        """
        answer, shifter = self._reporter.answer, self._shifter
        offset = None if answer is None else answer.offset
        return {
            "job": self._settings.job,
            "rank": self._settings.rank,
            "dry_run": self._settings.dry_run,
            "iterations": self._number,
            "slot": shifter.applied,
            "reason": self._reason(),
            "deviation_ns": shifter.deviation_ns,
            "adjustments": shifter.adjustments,
            "delayed_ns": self._delayed_ns,
            "clock_offset_ns": None if offset is None else offset.offset_ns,
            "clock_uncertainty_ns": None if offset is None else offset.uncertainty_at(self._clock()),
            "service": self._reporter.said,
        }

    def _reason(self) -> str:
        """Why nothing is shifted; empty while a slot is in force."""
        if self._failure is not None:
            return self._failure
        if self._settings.dry_run:
            return "dry run"
        return "no service is named" if self._settings.service is None else self._shifter.reason

    def close(self) -> None:
        """Reports and writes what there is; takes two seconds at most. Called when the interpreter ends,
        too.
        """
        atexit.unregister(self.close)
        if self._undo is not None:
            self._undo()
            self._undo = None
        self._reporter.close()

    def _begin(self) -> None:
        if self._failure is not None:
            return
        try:
            if self._marker is None:
                self._marker = _marker(self._clock)
            self._delay = self._wait(self._marker)
            self._start = self._marker.mark()
            # What went on between iterations belongs to none.
            self._communication.take()
            self._running = True
        except Exception as error:
            self._fail(error)

    def _end(self, completed: bool) -> None:
        if not self._running or self._marker is None:
            return
        try:
            self._running = False
            seen = self._communication.take()
            if completed:
                pending = _Pending(self._number, self._start, seen, self._marker.mark(), self._delay)
                self._number += 1
                self._pending.append(pending)
                self._settle(self._marker)
        except Exception as error:
            self._fail(error)

    def _wait(self, marker: Marker) -> Delay:
        """Waits for the slot of the next iteration, if it has one."""
        now_ns = self._clock()
        if self._reporter.answer is not self._answer and not self._settings.dry_run:
            self._answer = self._reporter.answer
            if self._answer is not None:
                self._shifter.answered(self._answer)
        if marker.is_due(now_ns) or self._shifter.needs_start(self._number, now_ns):
            marker.catch_up()
            self._settle(marker)
            marker.calibrate()
            now_ns = self._clock()
        delay = self._shifter.delay(self._number, now_ns)
        self._tell()
        if delay.wait_ns > 0:
            self._sleep(delay.wait_ns / 1e9)
            self._delayed_ns += delay.wait_ns
        return delay

    def _tell(self) -> None:
        """Says in the log of the process, once for each slot, that the job follows it, or why it does not."""
        slot = None if self._answer is None else self._answer.slot
        if slot is None or self._number < slot.iteration:
            return
        follows = self._shifter.applied == slot.version
        if (slot.version, follows) not in self._told:
            self._told.add((slot.version, follows))
            if follows:
                logger.info("slot %d is followed from iteration %d on", slot.version, self._number)
            else:
                logger.warning("slot %d is not followed: %s", slot.version, self._shifter.reason)

    def _settle(self, marker: Marker) -> None:
        """Passes on the iterations that the device is through with."""
        while self._pending:
            pending = self._pending[0]
            end_ns = None if pending.end is None else marker.read_ns(pending.end)
            if pending.end is not None and end_ns is None:
                return
            self._pending.popleft()
            start_ns = marker.read_ns(pending.start)
            if start_ns is not None and end_ns is not None:
                self._finish(marker, pending, start_ns, end_ns)
            # While it learns, the agent may look at marks of an iteration again in the next.
            if not pending.seen.quiet:
                marker.free(_marks(pending))

    def _communication_start_ns(self, marker: Marker, pending: _Pending) -> int | None:
        quiet = pending.seen.quiet
        if not quiet:
            return None if pending.seen.start is None else marker.read_ns(pending.seen.start)
        first = self._lessons.learn([_length_ns(marker, span) for span in quiet], pending.delay.wait_ns)
        if self._lessons.outcome is not None:
            self._communication.settle(self._lessons.outcome)
        return None if first is None else marker.read_ns(quiet[first].end)

    def _finish(self, marker: Marker, pending: _Pending, start_ns: int, end_ns: int) -> None:
        iteration = Iteration(
            number=pending.number,
            start_ns=start_ns,
            communication_start_ns=self._communication_start_ns(marker, pending),
            end_ns=end_ns,
            delay_ns=pending.delay.wait_ns,
            adjusted=pending.delay.adjusted,
            communication_ns=_communication_ns(marker, pending.seen),
        )
        deviation_ns = self._shifter.completed(iteration)
        shifter = self._shifter
        self._reporter.add(
            Finished(iteration, deviation_ns, shifter.applied, shifter.adjustments, self._reason())
        )

    def _mark(self) -> Any:
        return None if self._marker is None else self._marker.mark()

    def _fail(self, error: Exception) -> None:
        """The agent stops working, so that training does not."""
        self._failure = self._reporter.failure = f"the agent has failed: {error!r}"
        self._running = False
        logger.error("%s; training goes on without it", self._failure, exc_info=error)


class _IterationContext:
    """What `Agent.iteration` returns: one object for all iterations, as they do not overlap. An iteration
    within another, as of a wrapped step in a context, is part of it.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._agent._begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._agent._end(completed=kind is None)


def _communication_ns(marker: Marker, seen: Seen) -> int | None:
    """The time in which at least one collective went on, if all their ends were seen."""
    lengths_ns = [_length_ns(marker, span) for span in seen.spans]
    known_ns = [each_ns for each_ns in lengths_ns if each_ns is not None]
    return sum(known_ns) if seen.is_whole and known_ns and len(known_ns) == len(lengths_ns) else None


def _length_ns(marker: Marker, span: Span) -> int | None:
    start_ns, end_ns = marker.read_ns(span.start), marker.read_ns(span.end)
    return None if start_ns is None or end_ns is None else end_ns - start_ns


def _marks(pending: _Pending) -> Iterator[Any]:
    yield pending.start
    yield pending.seen.start
    yield pending.end
    for span in pending.seen.spans:
        yield from span


def _connections(settings: Settings) -> Connections | None:
    """Those to govern: none in a dry run, which changes nothing."""
    if settings.congestion is None or settings.dry_run:
        return None
    return Connections(settings.congestion)


def _marker(clock: Callable[[], int]) -> Marker:
    """Of the GPU, if this process uses one by the time of its first iteration."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return CudaMarker(torch.cuda, clock)
    return HostMarker(clock)
