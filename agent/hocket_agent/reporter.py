"""The thread that reports to the service and writes the log, so that training waits for neither."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from hocket_agent.client import Client, UnreachableError, refusal
from hocket_agent.connections import Connections
from hocket_agent.errors import InputError
from hocket_agent.notes import logger, note
from hocket_agent.offset import OffsetFilter
from hocket_agent.protocol import (
    LONGEST_REASON,
    Reply,
    Report,
    WrongAnswerError,
    parse_reply,
)
from hocket_agent.slots import Slot
from hocket_agent.state import LEASE_NS, Answer, Iteration

# Hocket: 1,000 jobs of 8 ranks then send 8,000 reports a second.
INTERVAL_S = 1.0
# Hocket: a service that restarts hears from its jobs within this time; half of a slot's lease.
LONGEST_PAUSE_S = 30.0
_NOT_FOUND = 404
# Hocket: some hours of short iterations, 100 MB. Beyond that, the oldest are dropped.
_QUEUE_LIMIT = 100_000


class Finished(NamedTuple):
    """A finished iteration, and the state of the job's slot at its end."""

    iteration: Iteration
    deviation_ns: int | None
    slot: int | None
    """The version of the slot in force."""
    adjustments: int
    """So far."""
    reason: str
    """Why no slot is in force; empty while one is."""


class _Totals:
    """Totals of the iterations since the last report that the service accepted."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = self.total_ns = self.min_ns = self.max_ns = 0
        self.communication_ns: int | None = None

    def add(self, iteration: Iteration) -> None:
        # With the delay before it, which predicted times include as well.
        took_ns = iteration.delay_ns + iteration.end_ns - iteration.start_ns
        self.min_ns = min(self.min_ns, took_ns) if self.count else took_ns
        self.max_ns = max(self.max_ns, took_ns)
        self.count += 1
        self.total_ns += took_ns
        if iteration.communication_ns is not None:
            self.communication_ns = (self.communication_ns or 0) + iteration.communication_ns


class Reporter:
    """Reports a rank's iterations, and keeps the service's last answer."""

    def __init__(
        self,
        client: Client | None,
        *,
        rank: int,
        ranks: int,
        dry_run: bool,
        log: str | None = None,
        connections: Connections | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`log`: the file to which iterations are appended. `connections`: configured before each report."""
        self.answer: Answer | None = None
        """The service's last answer. It is replaced as a whole, so any thread may read it."""
        self.service_status = "has not answered yet" if client is not None else "not configured"
        """The state of the service, for people."""
        self.failure: str | None = None
        """Why the agent has stopped delaying iterations; set once, by the training thread."""
        self._client = client
        self._identity = (rank, ranks, dry_run)
        self._log = log
        self._connections = connections
        self._clock = clock
        self._interval_s = interval_s
        self._pause_s = interval_s
        self._due_ns = clock()
        # Only `append` and `popleft` are used, which are atomic and need no lock.
        self._queue: deque[Finished] = deque(maxlen=_QUEUE_LIMIT)
        self._totals = _Totals()
        self._last: Finished | None = None
        self._offsets = OffsetFilter()
        self._logged: set[str] = set()
        # The offset is fixed at the start, so that steps of the wall clock during a run do not reach the log.
        self._wall_ns = time.time_ns() - clock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread, if there is a service, a log or connections to serve."""
        if not (self._client is None and self._log is None and self._connections is None):
            # A daemon, so that a service that hangs does not keep the job from ending.
            self._thread = threading.Thread(target=self._run, name="hocket.agent", daemon=True)
            self._thread.start()

    def add(self, finished: Finished) -> None:
        """Queues an iteration; returns at once."""
        self._queue.append(finished)

    def close(self) -> None:
        """Sends and logs what is still queued; returns within two seconds."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        # At once: no slot is assigned before all ranks have reported.
        self.step()
        while not self._stopping.wait(self._interval_s):
            self.step()
        # If the last request failed, a job does not wait for the service at its end.
        self.step(last=self._pause_s == self._interval_s)
        if self._client is not None:
            self._client.close()

    def step(self, last: bool = False) -> None:
        """Writes the log, and reports if a report is due or if it is the `last`. Never raises: failures are
        logged, once for each kind.
        """
        self._configure()
        try:
            self._write(self._take())
            if self._client is not None and (last or self._clock() >= self._due_ns):
                self._report(self._client)
                # Half an interval less, so that a step that comes a little early still reports.
                self._due_ns = self._clock() + int((self._pause_s - self._interval_s / 2) * 1e9)
        except Exception as error:
            self._warn_once(f"own {type(error).__name__}", f"reporting failed: {error!r}; training continues")

    def _configure(self) -> None:
        if self._connections is None:
            return
        try:
            self._connections.configure()
        except (InputError, OSError) as error:
            self._warn_once("congestion control", f"connections keep their congestion control: {error}")

    def _take(self) -> list[Finished]:
        finished = []
        # The length is read once: training keeps appending meanwhile, and the loop must end.
        for _ in range(len(self._queue)):
            finished.append(self._queue.popleft())
            self._totals.add(finished[-1].iteration)
            self._last = finished[-1]
        return finished

    def _write(self, finished: list[Finished]) -> None:
        if self._log is None or not finished:
            return
        lines = "".join(json.dumps(self._line(each)) + "\n" for each in finished)
        try:
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            self._warn_once("log", f"{self._log}: cannot be written, logging of iterations stops: {error}")
            self._log = None

    def _line(self, finished: Finished) -> dict[str, Any]:
        iteration = finished.iteration
        started_ns = iteration.communication_start_ns
        return {
            "iteration": iteration.number,
            "start_ns": iteration.start_ns + self._wall_ns,
            "communication_start_ns": None if started_ns is None else started_ns + self._wall_ns,
            "end_ns": iteration.end_ns + self._wall_ns,
            "delay_ns": iteration.delay_ns,
            "communication_ns": iteration.communication_ns,
            "deviation_ns": finished.deviation_ns,
            "adjusted": iteration.adjusted,
            "slot": finished.slot,
        }

    def _report(self, client: Client) -> None:
        try:
            response = client.post(self._body())
            error_text = refusal(response)
            if error_text is None:
                self._accept(parse_reply(response.body, response.sent_ns, response.received_ns))
                self._note_once("connected", f"connected to {client.address} as job {client.job}")
            elif response.status == _NOT_FOUND:
                # The service works, and the job may be registered later.
                self.service_status = error_text
                self._set_answer(None, error_text)
                self._note_once(
                    "unregistered",
                    f"connected to {client.address}, but job {client.job} is not registered: "
                    "its iterations are only measured until it is (`hocket register`)",
                )
            else:
                raise UnreachableError(f"status {response.status}", error_text)
        except (UnreachableError, WrongAnswerError) as error:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self.service_status = str(error)
            self._warn_once(error.kind, self._unanswered(client, error))
        else:
            self._pause_s = self._interval_s

    def _body(self) -> bytes:
        rank, ranks, dry_run = self._identity
        last, totals, now_ns = self._last, self._totals, self._clock()
        wall_ns = time.time_ns()
        # Estimated for the monotonic clock; reported for the wall clock, like `sent_ns`.
        offset = self._offsets.best(now_ns)
        follows = None if last is None or self.failure is not None else last.slot
        why_not = self.failure or ("no iteration has ended yet" if last is None else last.reason)
        return Report(
            rank=rank,
            ranks=ranks,
            sent_ns=wall_ns,
            iteration=0 if last is None else last.iteration.number + 1,
            count=totals.count,
            total_ns=totals.total_ns,
            min_ns=totals.min_ns,
            max_ns=totals.max_ns,
            communication_ns=totals.communication_ns,
            deviation_ns=None if last is None else last.deviation_ns,
            adjustments=0 if last is None else last.adjustments,
            clock_offset_ns=None if offset is None else offset.offset_ns + now_ns - wall_ns,
            clock_uncertainty_ns=None if offset is None else offset.uncertainty_at(now_ns),
            dry_run=dry_run,
            applied=follows,
            reason="" if follows is not None else _printable(why_not),
        ).as_json()

    def _accept(self, reply: Reply) -> None:
        self._check_version(reply.slot)
        self._offsets.add(reply.exchange)
        self.service_status = "answers"
        self._set_answer(reply.slot, reply.reason)
        self._totals.clear()

    def _set_answer(self, slot: Slot | None, reason: str) -> None:
        now_ns = self._clock()
        self.answer = Answer(slot, reason, self._offsets.best(now_ns), now_ns)

    def _check_version(self, slot: Slot | None) -> None:
        # A service that has lost its database may restart versions from 1 once its last slot's lease is over.
        last = self.answer
        if slot is None or last is None or last.slot is None or self._clock() - last.at_ns > LEASE_NS:
            return
        if slot.version < last.slot.version:
            raise WrongAnswerError(
                "version", f"slot.version: {slot.version} is below {last.slot.version}, received before"
            )
        if slot.version == last.slot.version and slot != last.slot:
            raise WrongAnswerError("version", f"slot.version: {slot.version} was a different slot before")

    def _unanswered(self, client: Client, error: Exception) -> str:
        if self.answer is not None:
            return f"no usable answer from the service: {error}; training continues"
        return (
            f"no usable answer from the service at {client.address}: {error}; "
            "training continues without slots, and the agent retries"
        )

    def _warn_once(self, kind: str, sentence: str) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            logger.warning("%s", sentence)

    def _note_once(self, kind: str, sentence: str) -> None:
        """Reports something that is not a problem; only rank 0 does, on behalf of all."""
        if kind not in self._logged and self._identity[0] == 0:
            self._logged.add(kind)
            note(sentence)


def _printable(text: str) -> str:
    """A reason that the service accepts: messages of other libraries may contain any character."""
    return "".join(each if each.isprintable() else "?" for each in text)[:LONGEST_REASON]
