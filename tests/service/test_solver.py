"""The solver's process returns the same solutions as a direct call, and the service survives its failures."""

import asyncio

import pytest
from tests.service.test_contention import contender, only_component

from hocket.service.contention import HeldSlot, Solution, solve
from hocket.service.solver import Solver

COMPONENT = only_component(contender("a"), contender("b", 2))


def test_the_process_returns_the_same_solution_as_a_direct_call() -> None:
    held = {"a": HeldSlot(5, 180_000_000)}

    async def asked() -> list[Solution]:
        solver = Solver()
        try:
            return [await solver(COMPONENT, {}, 0.01), await solver(COMPONENT, held, 0.0)]
        finally:
            await solver.close()

    assert asyncio.run(asked()) == [solve(COMPONENT, {}, 0.01), solve(COMPONENT, held, 0.0)]


def test_solving_that_takes_too_long_is_abandoned_with_a_reason() -> None:
    async def asked() -> tuple[Solution, Solution]:
        hurried = Solver(time_limit_s=0)
        given_up = await hurried(COMPONENT, {}, 0.01)
        patient = Solver()
        try:
            return given_up, await patient(COMPONENT, {}, 0.01)
        finally:
            await patient.close()

    given_up, solved = asyncio.run(asked())
    assert given_up == Solution({}, {}, {}, None, "solving took longer than 0 s")
    assert solved.places


def test_a_process_that_dies_costs_one_answer(capfd: pytest.CaptureFixture[str]) -> None:
    # Links that the component lacks make the process fail, like a bug would.
    broken = only_component(contender("a"), contender("b", 2))
    broken = type(broken)(broken.jobs, {"no such link": (0, 1)})

    async def asked() -> tuple[Solution, Solution]:
        solver = Solver()
        try:
            return await solver(broken, {}, 0.01), await solver(COMPONENT, {}, 0.01)
        finally:
            await solver.close()

    failed, solved = asyncio.run(asked())

    assert failed.places == {}
    assert failed.why_none == "solving failed; see the service's log"
    assert "KeyError: 'no such link'" in capfd.readouterr().err
    assert solved.places
