"""Concurrency: reports and changes while the solver runs, and a full disk."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.service.conftest import S, SolvedHere, registered, reported

from hocket.plan.reading import parse_as
from hocket.service.contention import Component, HeldSlot, Solution, solve
from hocket.service.models import Registration, Report
from hocket.service.service import Service
from hocket.service.store import Store, StoreError


class Slow:
    """Solves when the test allows it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    async def __call__(self, component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
        """Like `contention.solve`, but later."""
        self.asked.set()
        await self.released.wait()
        return solve(component, held, jitter)

    async def close(self) -> None:
        """Does nothing: no process was started."""


def running(store: Store, solver: Any, *jobs: str) -> Service:
    """A service with these jobs running on link `l1`."""
    service = Service(store, solver, lambda: 1_000 * S)
    for name in jobs:
        service.register(name, registration())
        service.report(name, report())
    return service


def registration(up: str = "80 ms") -> Registration:
    return parse_as(Registration, registered(up=up), "test", "")


def report() -> Report:
    return parse_as(Report, reported(), "test", "")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """The database of this test."""
    with Store(tmp_path / "hocket.sqlite") as opened:
        yield opened


def test_reports_are_answered_while_the_solver_runs(store: Store) -> None:
    async def course() -> tuple[str, object, object]:
        slow = Slow()
        service = running(store, slow, "a", "b")
        settling = asyncio.create_task(service.settle())
        await slow.asked.wait()
        meanwhile = service.report("a", report())
        slow.released.set()
        await settling
        return meanwhile.reason, meanwhile.slot, service.report("a", report()).slot

    reason, before, after = asyncio.run(course())

    assert reason == "its slot is being worked out"
    assert before is None
    assert after is not None


def test_a_solution_for_jobs_that_are_gone_is_not_applied(store: Store) -> None:
    async def course() -> Service:
        slow = Slow()
        service = running(store, slow, "a", "b")
        settling = asyncio.create_task(service.settle())
        await slow.asked.wait()
        service.unregister("b")
        slow.released.set()
        await settling
        return service

    service = asyncio.run(course())

    assert service.view("a").slot is None
    assert service.view("a").reason == "shares no link with another running job"


def test_a_job_that_registers_meanwhile_with_another_profile_is_solved_again(store: Store) -> None:
    async def course() -> Service:
        slow = Slow()
        service = running(store, slow, "a", "b")
        settling = asyncio.create_task(service.settle())
        await slow.asked.wait()
        service.register("b", registration(up="90 ms"))
        service.report("b", report())
        slow.released.set()
        await settling
        return service

    service = asyncio.run(course())

    slots = service.view("a").slot, service.view("b").slot
    assert slots[0] is not None
    assert slots[1] is not None
    apart_ns = (slots[1].origin_ns - slots[0].origin_ns) % slots[0].period_ns
    # 80 ms after 90 ms of 180 ms: the phases do not overlap.
    assert 80_000_000 <= apart_ns <= slots[0].period_ns - 90_000_000


def test_no_job_learns_of_a_slot_that_could_not_be_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = running(store, SolvedHere(), "a", "b")

    def full(*_: object) -> None:
        raise StoreError("hocket.sqlite: cannot be written: database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "save", full)
        with pytest.raises(StoreError):
            asyncio.run(service.settle())
        with pytest.raises(StoreError):
            service.report("a", report())

    asyncio.run(service.settle())
    slot = service.report("a", report()).slot
    assert slot is not None
    assert slot in [job.slot for job in store.load().jobs]


def test_a_failed_write_is_retried(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save, refused = store.save, 0

    def full_once(*arguments: Any) -> None:
        nonlocal refused
        refused += 1
        if refused == 1:
            raise StoreError("hocket.sqlite: cannot be written: database or disk is full")
        save(*arguments)

    async def course() -> Service:
        service = running(store, SolvedHere(), "a", "b")
        monkeypatch.setattr(store, "save", full_once)
        background = asyncio.create_task(service.run())
        while service.view("a").slot is None or refused < 2:
            await asyncio.sleep(0.01)
        background.cancel()
        await asyncio.gather(background, return_exceptions=True)
        return service

    with caplog.at_level(logging.ERROR):
        service = asyncio.run(course())

    assert "cannot be written: database or disk is full; retrying in 1 s" in caplog.text
    assert [job.slot for job in store.load().jobs] == [service.view(name).slot for name in "ab"]
