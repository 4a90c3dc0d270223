"""Components of contending jobs and their places, compared with `hocket compat` on the same jobs."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket import compatibility
from hocket._hocket import score
from hocket.engines.specs import native_profile
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.service.contention import (
    MAX_COMPONENT_JOBS,
    Component,
    Contender,
    HeldSlot,
    Solution,
    contention,
    solve,
)

MS = 10**9
GBPS = 10**9
LINK = {"l1": (50 * GBPS, 1)}


def contender(
    name: str,
    serial: int = 1,
    *,
    period_ms: int = 180,
    up_ms: tuple[tuple[int, int], ...] = ((0, 80),),
    rate_gbps: int = 40,
    links: dict[str, tuple[int, int]] | None = None,
) -> Contender:
    phases = tuple(PhaseSpec(start * MS, duration * MS, rate_gbps * GBPS) for start, duration in up_ms)
    profile = WorkloadProfile(period_ms * MS, phases, ("test",), "")
    return Contender(name, serial, profile, LINK if links is None else links)


def as_plan(jobs: tuple[Contender, ...]) -> dict[str, Any]:
    """A plan with these jobs on their one link."""
    return {
        "link": {"capacity": "50 Gbps"},
        "jobs": [
            {
                "name": job.name,
                "period": f"{job.profile.period_ps} ps",
                "up": [
                    {
                        "start": f"{phase.start_ps} ps",
                        "duration": f"{phase.duration_ps} ps",
                        "rate": f"{phase.rate_bps} bps",
                    }
                    for phase in job.profile.phases
                ],
            }
            for job in jobs
        ],
    }


def only_component(*jobs: Contender) -> Component:
    (component,) = contention(jobs).components
    return component


def overlap(jobs: tuple[Contender, ...], solution: Solution) -> float:
    """The score of one link under the places of a solution, for jobs with equal periods."""
    profiles, shifts_ps = [], []
    for job in jobs:
        profiles.append(native_profile(job.profile))
        place = solution.places[job.name]
        # Slots may be longer than iterations, so angles are compared.
        into_ps = (place.offset_ns * 1000 - job.mark_ps) % (place.period_ns * 1000)
        shifts_ps.append(into_ps * job.profile.period_ps // (place.period_ns * 1000))
    return score(50 * GBPS, profiles, shifts_ps)


def test_jobs_that_share_a_link_directly_or_through_others_are_one_component() -> None:
    ends = contender("a", 1), contender("c", 3, links={"l2": (50 * GBPS, 1)})
    between = contender("b", 2, links={**LINK, "l2": (50 * GBPS, 1)})
    apart = contender("d", 4, links={"l3": (50 * GBPS, 1)})

    found = contention([ends[0], between, ends[1], apart])

    assert [[job.name for job in each.jobs] for each in found.components] == [["a", "b", "c"]]
    assert found.alone == {"d": "shares no link with another running job"}


def test_a_link_that_carries_all_of_its_jobs_at_once_is_no_reason_to_shift() -> None:
    found = contention([contender("a", rate_gbps=25), contender("b", 2, rate_gbps=25)])

    assert found.components == ()
    assert found.alone["a"] == "l1 carries all of its jobs at once"


def test_each_flow_of_a_job_demands_its_rate() -> None:
    twice = {"l1": (50 * GBPS, 2)}
    assert contention([contender("a", rate_gbps=15), contender("b", 2, rate_gbps=15)]).components == ()
    assert contention(
        [contender("a", rate_gbps=15, links=twice), contender("b", 2, rate_gbps=15, links=twice)]
    ).components


def test_jobs_that_can_take_turns_get_places_that_do_not_overlap() -> None:
    component = only_component(contender("a"), contender("b", 2))

    solution = solve(component, {}, jitter=0.0)

    # 80 ms of 180 ms each: one begins at least 80 ms after the other and ends before it comes again.
    assert solution.scores == {"l1": 1.0}
    first, second = (solution.places[name] for name in ("a", "b"))
    assert first.period_ns == second.period_ns == 180_000_000
    assert 80_000_000 <= (second.offset_ns - first.offset_ns) % 180_000_000 <= 100_000_000


def loads(most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Of 2 to `most` jobs, the tenths of the period that they send for, and the rate in Gbps."""
    return st.lists(st.tuples(st.integers(1, 5), st.integers(26, 50)), min_size=2, max_size=most)


def loading(load: list[tuple[int, int]]) -> tuple[Contender, ...]:
    return tuple(
        contender(f"job {number}", number, up_ms=((0, tenths * 18),), rate_gbps=rate)
        for number, (tenths, rate) in enumerate(load)
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(loads(most=2))
def test_scores_of_two_jobs_are_those_of_hocket_compat(load: list[tuple[int, int]]) -> None:
    jobs = loading(load)

    solution = solve(only_component(*jobs), {}, jitter=0.0)

    if solution.places:
        best = compatibility(as_plan(jobs), precision_deg=5).score
        assert solution.scores["l1"] == pytest.approx(best, abs=1e-9)
        assert overlap(jobs, solution) == pytest.approx(best, abs=1e-6)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(loads(most=4))
def test_scores_of_more_are_as_near_to_the_best_as_a_limited_search_comes(
    load: list[tuple[int, int]],
) -> None:
    jobs = loading(load)

    solution = solve(only_component(*jobs), {}, jitter=0.0)

    best = compatibility(as_plan(jobs), precision_deg=5).score
    if solution.places:
        assert best - 1e-3 <= solution.scores["l1"] <= best + 1e-9
        assert overlap(jobs, solution) == pytest.approx(solution.scores["l1"], abs=1e-6)
    elif solution.why_none is not None and "below" in solution.why_none:
        assert best < 0.6 + 1e-3


def test_jobs_that_cannot_take_turns_get_their_score_as_the_reason() -> None:
    jobs = [contender(name, serial, up_ms=((0, 120),)) for serial, name in enumerate("abc")]

    solution = solve(only_component(*jobs), {}, jitter=0.01)

    assert solution.places == {}
    assert solution.why_none is not None
    assert solution.why_none.startswith("the best shifts score 0.")


def test_periods_that_fit_on_no_circle_get_no_places_and_a_reason() -> None:
    periods_ms = (101, 211, 307, 401, 503, 601)
    jobs = [
        contender(str(serial), serial, period_ms=period_ms, up_ms=((0, 30),))
        for serial, period_ms in enumerate(periods_ms)
    ]

    solution = solve(only_component(*jobs), {}, jitter=0.01)

    assert solution.places == {}
    assert solution.why_none


def test_slots_of_periods_in_a_ratio_of_two_to_three_divide_one_turn() -> None:
    jobs = (
        contender("slow", 1, period_ms=300, up_ms=((0, 60),), rate_gbps=50),
        contender("fast", 2, period_ms=200, up_ms=((0, 20),), rate_gbps=50),
    )

    solution = solve(only_component(*jobs), {}, jitter=0.001)

    assert solution.places["slow"].period_ns * 2 == solution.places["fast"].period_ns * 3


def test_a_slot_refers_to_the_phase_after_the_longest_silence() -> None:
    # Silent from 50 to 140 ms, from 150 to 180 ms and, round the end, not at all.
    assert contender("a", up_ms=((0, 50), (140, 10))).mark_ps == 140 * MS
    # Silent for 60 ms before each: the first of equals.
    assert contender("a", up_ms=((30, 30), (120, 30))).mark_ps == 30 * MS


def test_held_slots_that_are_as_good_are_kept() -> None:
    component = only_component(contender("a"), contender("b", 2))
    held = {"a": HeldSlot(7, 180_000_000), "b": HeldSlot(7 + 85_000_000, 180_000_000)}

    solution = solve(component, held, jitter=0.0)

    assert solution.kept
    assert {name: place.offset_ns for name, place in solution.places.items()} == {"a": 7, "b": 85_000_007}


def test_held_slots_that_are_worse_are_replaced() -> None:
    component = only_component(contender("a"), contender("b", 2))
    held = {"a": HeldSlot(7, 180_000_000), "b": HeldSlot(7 + 40_000_000, 180_000_000)}

    solution = solve(component, held, jitter=0.0)

    assert not solution.kept
    assert solution.scores == {"l1": 1.0}


def test_a_job_with_a_slot_keeps_it_and_the_new_job_is_delayed() -> None:
    component = only_component(contender("a"), contender("b", 2))

    assert solve(component, {"b": HeldSlot(0, 200_000_000)}, jitter=0.0).reference == "b"


def test_too_many_jobs_get_that_as_the_reason() -> None:
    jobs = [contender(str(serial), serial, up_ms=((0, 2),)) for serial in range(MAX_COMPONENT_JOBS + 1)]

    solution = solve(only_component(*jobs), {}, jitter=0.01)

    assert solution.places == {}
    assert solution.why_none == "65 jobs contend with each other; at most 64 get slots"


def test_solutions_depend_only_on_the_arguments() -> None:
    component = only_component(contender("a"), contender("b", 2), contender("c", 3, up_ms=((0, 20),)))

    assert solve(component, {}, jitter=0.01) == solve(component, {}, jitter=0.01)
