"""Combines state, database and solver: slots are stored before any job learns of them, and changes are solved
in the background.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from hocket.service.contention import Component, HeldSlot, Solution
from hocket.service.job import ServedJob
from hocket.service.models import Answer, JobView, Registration, Report
from hocket.service.state import EXPIRE_NS, State
from hocket.service.store import Store, StoreError

JITTER = 0.01
"""Relative standard deviation of compute times, for which slots leave room. Hocket: measured iterations vary
by about 1%."""

_LOG = logging.getLogger(__name__)

# Jobs that are launched together register and report within this time, and are then solved once.
_GATHER_S = 0.1
_EXPIRE_EVERY_S = 1.0


class Solve(Protocol):
    """Runs `contention.solve` off the event loop."""

    async def __call__(self, component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
        """See `contention.solve`."""

    async def close(self) -> None:
        """Ends its processes."""


class Service:
    """The operations behind the API. Not thread-safe."""

    def __init__(
        self,
        store: Store,
        solve: Solve,
        clock: Callable[[], int],
        *,
        jitter: float = JITTER,
        expire_ns: int = EXPIRE_NS,
    ) -> None:
        """Resumes from the content of `store`; `clock` returns nanoseconds since 1970 (UTC)."""
        self._store = store
        self._solve = solve
        self._clock = clock
        self._jitter = jitter
        stored = store.load()
        self._state = State(stored.jobs, stored.serial, clock(), expire_ns=expire_ns)
        self._wake = asyncio.Event()
        self.failure: str | None = None
        """Why solving has stopped; None while it works."""

    def now_ns(self) -> int:
        """The time of the service's clock."""
        return self._clock()

    def jobs(self) -> list[ServedJob]:
        """All jobs, sorted by name."""
        return self._state.jobs()

    def views(self) -> list[JobView]:
        """The state of all jobs, sorted by name."""
        now_ns = self._clock()
        return [job.view(now_ns) for job in self._state.jobs()]

    def scores(self) -> dict[str, float]:
        """The score of each link on which running jobs contend."""
        return self._state.scores()

    def view(self, name: str) -> JobView:
        """The state of job `name`. Raises `UnknownJobError`."""
        return self._state.view(name, self._clock())

    def register(self, name: str, registration: Registration) -> tuple[JobView, bool]:
        """Registers job `name`. Returns its state, and whether it is new.

        Raises `ConflictError` like `State.registered`, and `StoreError`; then nothing has changed.
        """
        now_ns = self._clock()
        record = self._state.registered(name, registration, now_ns)
        # The record of a repeated registration is the existing one, with its old serial.
        self._store.save({name: record}, max(record.serial, self._state.serial))
        created = self._state.register(record, now_ns)
        self._write()
        return self._state.view(name, now_ns), created

    def unregister(self, name: str) -> None:
        """Unregisters job `name`. Raises `UnknownJobError` or `StoreError`; then nothing has changed."""
        # Raises before anything is stored.
        self.view(name)
        self._store.save({name: None}, self._state.serial)
        self._state.unregister(name)
        self._write()

    def report(self, name: str, report: Report) -> Answer:
        """Takes a rank's report and returns the answer. Raises `UnknownJobError` or `StoreError`."""
        answer = self._state.report(name, report, self._clock())
        self._write()
        return answer

    async def settle(self) -> None:
        """Solves all components that have changed, and applies the solutions."""
        self._state.expire(self._clock())
        # Jobs may come and go while a component is solved, and change the others.
        while components := self._state.unsolved(self._clock()):
            for component in components:
                solution = await self._solve(component, self._state.held(component), self._jitter)
                self._state.settle(component, solution, self._clock())
                self._write()
        self._write()

    async def run(self) -> None:
        """Calls `settle` after each change, until cancelled."""
        try:
            while True:
                await self._changes()
                await self._try_to_settle()
        finally:
            await self._solve.close()

    async def _changes(self) -> None:
        """Returns shortly after a change, or when it is time to check for silent jobs."""
        try:
            async with asyncio.timeout(_EXPIRE_EVERY_S):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GATHER_S)
        # Cleared only now: what changed during the sleep is solved together with the first change.
        self._wake.clear()

    async def _try_to_settle(self) -> None:
        try:
            await self.settle()
        except StoreError as error:
            # The state still counts its changes as unwritten, so the next call stores them.
            _LOG.error("%s; retrying in %g s", error, _EXPIRE_EVERY_S)
            await asyncio.sleep(_EXPIRE_EVERY_S)

    def _write(self) -> None:
        """Stores all changes before any client learns of them."""
        changed = self._state.changed()
        if changed:
            self._store.save(changed, self._state.serial)
            self._state.written()
        if self._state.unsettled:
            self._wake.set()
