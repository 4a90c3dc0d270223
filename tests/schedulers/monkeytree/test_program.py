"""The program that moves workers, against all placements of tiny clusters."""

from collections.abc import Iterator, Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.schedulers.monkeytree.contention import Rack, losses
from hocket.schedulers.monkeytree.program import Problem, solve
from hocket.schedulers.monkeytree.ring_jobs import RingJob, Spread

Spreads = Mapping[str, Spread]

GBPS = 10**9
ENOUGH = 100_000
"""Nodes that no program of this size needs."""


def job(name: str, workers: int, stake: float = 100.0, price: float = 1.0, gbps: int = 50) -> RingJob:
    return RingJob(name, workers, gbps * GBPS, stake, price, running=price > 0)


def problem(jobs: list[RingJob], spreads: Spreads, *, racks: int, gpus: int, moves: int = 99) -> Problem:
    """Racks with `gpus` each and one uplink of 50 Gbps."""
    uplinks = {rack: Rack(1, 50 * GBPS, 1) for rack in range(racks)}
    return Problem(uplinks, dict.fromkeys(range(racks), gpus), jobs, (), spreads, {}, moves)


def divided(workers: int, racks: int) -> Iterator[Spread]:
    """All ways to divide the workers of a job among racks."""
    for counts in product(range(workers + 1), repeat=racks):
        if sum(counts) == workers:
            yield {rack: count for rack, count in enumerate(counts) if count}


def arriving(before: Spread, after: Spread) -> int:
    return sum(max(0, count - before.get(rack, 0)) for rack, count in after.items())


def cost(given: Problem, after: Spreads) -> float | None:
    """Losses and price of a placement; None if it is not allowed."""
    for rack, capacity in given.capacity.items():
        if sum(spread.get(rack, 0) for spread in after.values()) > capacity:
            return None
    moved = {each.name: arriving(given.spreads[each.name], after[each.name]) for each in given.movable}
    if sum(moved[each.name] for each in given.movable if each.running) > given.moves:
        return None
    racks = [given.racks[rack] for rack in sorted(given.racks)]
    every = {**given.spreads, **after}
    passing = losses((*given.movable, *given.passing), every, racks)
    return sum(passing.values()) + sum(each.price_gpu_s for each in given.movable if moved[each.name])


def least_cost(given: Problem) -> float:
    """The least of the costs of all placements."""
    names = [each.name for each in given.movable]
    choices = product(*(divided(each.workers, len(given.racks)) for each in given.movable))
    costs = (cost(given, dict(zip(names, each, strict=True))) for each in choices)
    return min(each for each in costs if each is not None)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Two or three racks of three or four GPUs, and up to four jobs that fit there."""
    racks, gpus = draw(st.integers(2, 3)), draw(st.integers(3, 4))
    free = [rack for rack in range(racks) for _ in range(gpus)]
    free = list(draw(st.permutations(free)))
    jobs, spreads = [], {}
    for number in range(draw(st.integers(1, 4))):
        workers = min(draw(st.integers(1, 4)), len(free))
        if workers == 0:
            break
        name = f"j{number}"
        price = draw(st.sampled_from([0.0, 0.5, 5.0, 50.0]))
        jobs.append(
            job(name, workers, draw(st.floats(1, 100)), price, draw(st.sampled_from([0, 20, 35, 50])))
        )
        spreads[name] = {rack: free[:workers].count(rack) for rack in sorted(set(free[:workers]))}
        free = free[workers:]
    uplinks = {
        rack: Rack(cables := draw(st.integers(1, 2)), 50 * GBPS, draw(st.integers(1, cables)))
        for rack in range(racks)
    }
    moves = draw(st.sampled_from([0, 1, 2, 4, 99]))
    return Problem(uplinks, dict.fromkeys(range(racks), gpus), jobs, (), spreads, {}, moves)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_program_is_as_good_as_trying_all_placements(given: Problem) -> None:
    solution = solve(given, ENOUGH)
    assert solution is not None
    assert solution.proven
    for each in given.movable:
        assert sum(solution.spreads[each.name].values()) == each.workers
    found = cost(given, solution.spreads)
    assert found is not None, "it moves more than it may, or more than fits"
    assert found == pytest.approx(least_cost(given), abs=0.01)


def test_two_jobs_over_two_racks_are_put_into_one_rack_each_by_one_swap() -> None:
    # Each moves one of its workers, which takes the GPU that the other one leaves.
    split = {"a": {0: 1, 1: 1}, "b": {0: 1, 1: 1}}
    solution = solve(problem([job("a", 2), job("b", 2)], split, racks=2, gpus=2), ENOUGH)
    assert solution is not None
    assert sorted(map(tuple, map(dict.items, map(dict, solution.spreads.values())))) == [((0, 2),), ((1, 2),)]


def test_no_more_workers_migrate_than_may() -> None:
    split = {"a": {0: 1, 1: 1}, "b": {0: 1, 1: 1}}
    for moves in (0, 1):
        solution = solve(problem([job("a", 2), job("b", 2)], split, racks=2, gpus=2, moves=moves), ENOUGH)
        # One worker alone finds no free GPU.
        assert solution is not None
        assert solution.spreads == split


def test_a_job_that_is_not_running_yet_moves_without_limit() -> None:
    split = {"a": {0: 1, 1: 1}, "b": {0: 1, 1: 1}}
    jobs = [job("a", 2, price=0), job("b", 2, price=0)]
    solution = solve(problem(jobs, split, racks=2, gpus=2, moves=0), ENOUGH)
    assert solution is not None
    assert all(len(spread) == 1 for spread in solution.spreads.values())


@pytest.mark.parametrize(("price", "moves"), [(99.0, True), (101.0, False)])
def test_a_job_moves_if_that_costs_less_than_it_saves(price: float, moves: bool) -> None:
    # Two flows of 50 Gbps on a cable of 50: each takes twice as long, and both lose 50 GPU-s.
    split = {"a": {0: 1, 1: 1}, "b": {0: 1, 1: 1}}
    jobs = [job("a", 2, stake=50, price=price), job("b", 2, stake=50, price=1_000)]
    solution = solve(problem(jobs, split, racks=3, gpus=2), ENOUGH)
    assert solution is not None
    assert (solution.spreads["a"] == {2: 2}) == moves


@pytest.mark.parametrize(("price", "moves"), [(49.0, True), (51.0, False)])
def test_a_job_moves_for_the_sake_of_one_that_stays(price: float, moves: bool) -> None:
    # Job p has a worker in a fourth rack, where it loses half of its stake in any case.
    spreads = {"a": {0: 1, 1: 1}, "p": {0: 1, 3: 1}}
    given = Problem(
        racks={rack: Rack(1, 50 * GBPS, 1) for rack in range(3)},
        capacity={0: 1, 1: 2, 2: 2},
        movable=[job("a", 2, stake=0, price=price)],
        passing=[job("p", 2, stake=100)],
        spreads=spreads,
        outside={"p": 0.5},
        moves=99,
    )
    solution = solve(given, ENOUGH)
    assert solution is not None
    assert (len(solution.spreads["a"]) == 1) == moves


def test_a_search_that_its_limit_ends_is_not_proven() -> None:
    jobs = [job(f"j{number}", 4, stake=10 + number, gbps=35) for number in range(8)]
    spreads = {each.name: dict.fromkeys(range(4), 1) for each in jobs}
    given = problem(jobs, spreads, racks=4, gpus=9)
    short = solve(given, 1)
    assert short is None or not short.proven
    assert short == solve(given, 1)
