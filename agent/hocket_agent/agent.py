"""The agent in a training job: delays iterations to their slots, and otherwise does not interfere.

The training thread only reads clocks and queues its measurements; a thread of the agent does the rest.
If anything in the agent fails, the agent stops working and training continues.
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
    Observation,
    PhaseStart,
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
# Hocket: how many iterations a GPU may lag behind its host; beyond that, the oldest go unmeasured.
_PENDING_LIMIT = 1_024


class _Pending(NamedTuple):
    """An iteration that the host has finished; a GPU may not have started it yet."""

    number: int
    start: Any
    observed: Observation
    end: Any
    delay: Delay


class Agent:
    """One rank's agent. Call its methods from the training thread unless they state otherwise.

    >>> agent = Agent()
    >>> for _ in range(3):
    ...     with agent.iteration():
    ...         pass
    >>> agent.status()["iterations"], agent.status()["reason"]
    (3, 'no service is configured')
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`clock` is monotonic, in ns; `sleep` takes seconds; a report is sent every `interval_s`.

        Raises `InputError` if a setting is invalid.
        """
        settings = settings or Settings()
        client = client_of(settings, clock)
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._marker: Marker | None = None
        self._communication = Communication(self._mark, self._fail)
        self._phase_start = PhaseStart()
        after_ms = settings.communication_after_ms
        self._shifter = Shifter(None if after_ms is None else round(after_ms * 1e6))
        self._answer: Answer | None = None
        self._logged: set[tuple[int, bool]] = set()
        self._number = 0
        self._running = False
        self._start: Any = None
        self._delay = Delay(0, False)
        self._delayed_ns = 0
        self._pending: deque[_Pending] = deque(maxlen=_PENDING_LIMIT)
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
        """An agent configured by HOCKET_SERVICE, HOCKET_JOB, HOCKET_TOKEN, HOCKET_DRY_RUN, HOCKET_LOG,
        HOCKET_COMMUNICATION_AFTER_MS and HOCKET_CONGESTION; without a service it only measures.

        Never raises: an invalid variable is logged, and the agent then only measures. The person who starts
        a training run is often not the one who set the cluster's variables.
        """
        try:
            settings = settings_of(os.environ if environment is None else environment)
            agent = cls(settings)
        except InputError as error:
            logger.warning("the agent only measures: %s", error)
            return cls()
        if settings.service is None and settings.rank == 0:
            note("no service is configured (HOCKET_SERVICE is not set): training continues without slots")
        return agent

    def iteration(self) -> _IterationContext:
        """Context manager for one iteration: the whole step, from its batch to the optimizer. Any delay
        happens on entry.
        """
        return self._iteration

    def wrap(self, step: _Step) -> _Step:
        """Wraps a function that performs one step, so that each call is an iteration."""

        @functools.wraps(step)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._iteration:
                return step(*args, **kwargs)

        return wrapped  # type: ignore[return-value]  # functools.wraps keeps the signature

    def attach(self, model: _Model, hook: Any = None, state: Any = None) -> _Model:
        """Observes when the model's communication starts, and returns the model.

        For `DistributedDataParallel`, it registers a communication hook; pass your own as `hook` with its
        `state`. For anything else, including FSDP, it wraps the functions of `torch.distributed`.
        """
        try:
            if is_ddp(model):
                watch_ddp(model, self._communication, state, hook)
            # The functions are wrapped once, however many models are attached.
            elif self._undo is None:
                self._undo = watch_collectives(self._communication)
        except (RuntimeError, ImportError, AttributeError) as error:
            logger.warning("cannot observe when communication starts: %s; training continues", error)
        return model

    def communication_started(self) -> None:
        """Marks the start of communication, for jobs that `attach` cannot observe. Thread-safe."""
        self._communication.started()

    @contextmanager
    def communication(self) -> Iterator[None]:
        """Context manager for communication that ends when the body does. Thread-safe."""
        self._communication.span_started()
        try:
            yield
        finally:
            self._communication.span_ended()

    def status(self) -> dict[str, Any]:
        """The agent's state, for people and for logs: times are in ns, and `reason` explains why no slot is
        followed.
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
            "service": self._reporter.service_status,
        }

    def _reason(self) -> str:
        """Why no slot is followed; empty while one is."""
        if self._failure is not None:
            return self._failure
        if self._settings.dry_run:
            return "dry run"
        return "no service is configured" if self._settings.service is None else self._shifter.reason

    def close(self) -> None:
        """Sends and logs what is still queued, within two seconds. Also called when the interpreter exits."""
        # A job may use several agents one after the other; the interpreter would keep all of them.
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
            # The delay comes first, since it is not part of the iteration.
            self._delay = self._wait(self._marker)
            self._start = self._marker.mark()
            # Communication between iterations, such as a checkpoint's, belongs to none of them.
            self._communication.take()
            self._running = True
        except Exception as error:
            self._fail(error)

    def _end(self, completed: bool) -> None:
        if not self._running or self._marker is None:
            return
        try:
            self._running = False
            observed = self._communication.take()
            # An iteration that ended with an exception has no meaningful duration.
            if completed:
                pending = _Pending(self._number, self._start, observed, self._marker.mark(), self._delay)
                self._number += 1
                self._pending.append(pending)
                self._settle(self._marker)
        except Exception as error:
            self._fail(error)

    def _wait(self, marker: Marker) -> Delay:
        """Delays the next iteration to its slot, if it has one."""
        now_ns = self._clock()
        # By identity, as the reporter replaces the answer as a whole.
        if self._reporter.answer is not self._answer and not self._settings.dry_run:
            self._answer = self._reporter.answer
            if self._answer is not None:
                self._shifter.answered(self._answer)
        if marker.is_due(now_ns) or self._shifter.needs_start(self._number, now_ns):
            # Waiting for the GPU costs its overlap with the host, so it happens only here.
            marker.catch_up()
            self._settle(marker)
            marker.calibrate()
            now_ns = self._clock()
        delay = self._shifter.delay(self._number, now_ns)
        self._log_slot()
        if delay.wait_ns > 0:
            self._sleep(delay.wait_ns / 1e9)
            self._delayed_ns += delay.wait_ns
        return delay

    def _log_slot(self) -> None:
        """Logs, once for each slot, that the job follows it, or why it does not."""
        slot = None if self._answer is None else self._answer.slot
        if slot is None or self._number < slot.iteration:
            return
        follows = self._shifter.applied == slot.version
        if (slot.version, follows) not in self._logged:
            self._logged.add((slot.version, follows))
            if follows:
                logger.info("slot %d is followed from iteration %d", slot.version, self._number)
            else:
                logger.warning("slot %d is not followed: %s", slot.version, self._shifter.reason)

    def _settle(self, marker: Marker) -> None:
        """Processes the iterations that the device has finished."""
        while self._pending:
            pending = self._pending[0]
            end_ns = None if pending.end is None else marker.read_ns(pending.end)
            # Marks are None while a CUDA graph is captured, and such an iteration is left out.
            if pending.end is not None and end_ns is None:
                return
            self._pending.popleft()
            start_ns = marker.read_ns(pending.start)
            if start_ns is not None and end_ns is not None:
                self._finish(marker, pending, start_ns, end_ns)
            # While the agent learns which collective begins the phase, the last mark of one iteration also
            # begins the first gap of the next.
            if not pending.observed.gaps:
                marker.free(_marks(pending))

    def _communication_start_ns(self, marker: Marker, pending: _Pending) -> int | None:
        gaps = pending.observed.gaps
        if not gaps:
            return None if pending.observed.start is None else marker.read_ns(pending.observed.start)
        first = self._phase_start.learn([_length_ns(marker, span) for span in gaps], pending.delay.wait_ns)
        if self._phase_start.outcome is not None:
            self._communication.settle(self._phase_start.outcome)
        return None if first is None else marker.read_ns(gaps[first].end)

    def _finish(self, marker: Marker, pending: _Pending, start_ns: int, end_ns: int) -> None:
        iteration = Iteration(
            number=pending.number,
            start_ns=start_ns,
            communication_start_ns=self._communication_start_ns(marker, pending),
            end_ns=end_ns,
            delay_ns=pending.delay.wait_ns,
            adjusted=pending.delay.adjusted,
            communication_ns=_communication_ns(marker, pending.observed),
        )
        deviation_ns = self._shifter.completed(iteration)
        shifter = self._shifter
        self._reporter.add(
            Finished(iteration, deviation_ns, shifter.applied, shifter.adjustments, self._reason())
        )

    def _mark(self) -> Any:
        return None if self._marker is None else self._marker.mark()

    def _fail(self, error: Exception) -> None:
        """Disables the agent, so that its error does not stop training."""
        self._failure = self._reporter.failure = f"the agent has failed: {error!r}"
        self._running = False
        logger.error("%s; training continues without it", self._failure, exc_info=error)


class _IterationContext:
    """What `Agent.iteration` returns: one object for all iterations, since they do not overlap. An iteration
    nested in another, such as a wrapped step inside the context, counts as part of the outer one.
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


def _communication_ns(marker: Marker, observed: Observation) -> int | None:
    """The time in which at least one collective was under way, if all their ends were observed."""
    lengths_ns = [_length_ns(marker, span) for span in observed.spans]
    known_ns = [each_ns for each_ns in lengths_ns if each_ns is not None]
    return sum(known_ns) if observed.is_whole and known_ns and len(known_ns) == len(lengths_ns) else None


def _length_ns(marker: Marker, span: Span) -> int | None:
    start_ns, end_ns = marker.read_ns(span.start), marker.read_ns(span.end)
    return None if start_ns is None or end_ns is None else end_ns - start_ns


def _marks(pending: _Pending) -> Iterator[Any]:
    yield pending.start
    yield pending.observed.start
    yield pending.end
    for span in pending.observed.spans:
        yield from span


def _connections(settings: Settings) -> Connections | None:
    """Sets the congestion control of connections; none in a dry run, which changes nothing."""
    if settings.congestion is None or settings.dry_run:
        return None
    return Connections(settings.congestion)


def _marker(clock: Callable[[], int]) -> Marker:
    """A CUDA marker if this process uses a GPU by its first iteration, else one of the host."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return CudaMarker(torch.cuda, clock)
    return HostMarker(clock)
