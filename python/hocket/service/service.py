"""State, database and solver together: what is told is written down first, and changes are solved in the
background.
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
"""Relative standard deviation of compute times, for which slots leave room. Hocket: measured iteration times
vary by about 1%."""

_LOG = logging.getLogger(__name__)

# Jobs of one launch register and report within less; they are then solved once, together.
_GATHER_S = 0.1
_EXPIRE_EVERY_S = 1.0


class Solve(Protocol):
    """Who works out slots: `contention.solve`, off the event loop."""

    async def __call__(self, component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
        """As that function."""

    async def close(self) -> None:
        """Ends what it started."""


class Service:
    """What the API offers. Calls are made from one thread."""

    def __init__(
        self,
        store: Store,
        solve: Solve,
        clock: Callable[[], int],
        *,
        jitter: float = JITTER,
        expire_ns: int = EXPIRE_NS,
    ) -> None:
        """Goes on from what `store` holds; `clock` gives nanoseconds since 1970 (UTC)."""
        self._store = store
        self._solve = solve
        self._clock = clock
        self._jitter = jitter
        stored = store.load()
        self._state = State(stored.jobs, stored.serial, clock(), expire_ns=expire_ns)
        self._wake = asyncio.Event()
        self.failure: str | None = None
        """Why it works out no slots any more; None while it does."""

    def now_ns(self) -> int:
        """By its clock."""
        return self._clock()

    def jobs(self) -> list[ServedJob]:
        """All, by name."""
        return self._state.jobs()

    def views(self) -> list[JobView]:
        """All jobs and how they fare, by name."""
        now_ns = self._clock()
        return [job.view(now_ns) for job in self._state.jobs()]

    def scores(self) -> dict[str, float]:
        """By link on which running jobs contend."""
        return self._state.scores()

    def view(self, name: str) -> JobView:
        """Job `name`. Raises `UnknownJobError`."""
        return self._state.view(name, self._clock())

    def register(self, name: str, registration: Registration) -> tuple[JobView, bool]:
        """Job `name`, registered so, and whether it is new.

        Raises `ConflictError` as `State.registered` does, and `StoreError`; then nothing has changed.
        """
        now_ns = self._clock()
        kept = self._state.registered(name, registration, now_ns)
        self._store.save({name: kept}, max(kept.serial, self._state.serial))
        created = self._state.register(kept, now_ns)
        self._write()
        return self._state.view(name, now_ns), created

    def unregister(self, name: str) -> None:
        """Forgets job `name`. Raises `UnknownJobError`, and `StoreError`; then nothing has changed."""
        self.view(name)
        self._store.save({name: None}, self._state.serial)
        self._state.unregister(name)
        self._write()

    def report(self, name: str, report: Report) -> Answer:
        """What a rank of job `name` is to do. Raises `UnknownJobError`, and `StoreError`."""
        answer = self._state.report(name, report, self._clock())
        self._write()
        return answer

    async def settle(self) -> None:
        """Solves what is to be solved, and puts it in force."""
        self._state.expire(self._clock())
        while components := self._state.unsolved(self._clock()):
            for component in components:
                solution = await self._solve(component, self._state.held(component), self._jitter)
                self._state.settle(component, solution, self._clock())
                self._write()
        self._write()

    async def run(self) -> None:
        """Settles whatever changes, until cancelled."""
        try:
            while True:
                await self._changes()
                await self._try_to_settle()
        finally:
            await self._solve.close()

    async def _changes(self) -> None:
        """Returns soon after something changed, or when it is time to look for jobs that are silent."""
        try:
            async with asyncio.timeout(_EXPIRE_EVERY_S):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GATHER_S)
        self._wake.clear()

    async def _try_to_settle(self) -> None:
        try:
            await self.settle()
        except StoreError as error:
            _LOG.error("%s; tried again in %g s", error, _EXPIRE_EVERY_S)
            await asyncio.sleep(_EXPIRE_EVERY_S)

    def _write(self) -> None:
        """Writes down what changed, before anyone is told."""
        changed = self._state.changed()
        if changed:
            self._store.save(changed, self._state.serial)
            self._state.written()
        if self._state.unsettled:
            self._wake.set()
