"""The process that solves: same answers as here, and a service that survives whatever becomes of it."""

import asyncio

import pytest
from tests.service.test_contention import contender, only_component

from hocket.service.contention import HeldSlot, Solution, solve
from hocket.service.solver import Solver

COMPONENT = only_component(contender("a"), contender("b", 2))


def test_it_answers_as_if_solved_here() -> None:
    held = {"a": HeldSlot(5, 180_000_000)}

    async def asked() -> list[Solution]:
        solver = Solver()
        try:
            return [await solver(COMPONENT, {}, 0.01), await solver(COMPONENT, held, 0.0)]
        finally:
            await solver.close()

    assert asyncio.run(asked()) == [solve(COMPONENT, {}, 0.01), solve(COMPONENT, held, 0.0)]


def test_what_takes_too_long_is_given_up_with_a_reason() -> None:
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
    # Links that a component does not know make it fail there, as a bug would.
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
    assert failed.why_none == "solving failed; what the service wrote to its log says why"
    assert "KeyError: 'no such link'" in capfd.readouterr().err
    assert solved.places
