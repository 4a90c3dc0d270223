"""Who contends with whom, what chance makes of a link, and Theorem 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket import _hocket
from hocket.engines.network import Network
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.schedulers.cassini import CassiniOptions, check_relative_shifts
from hocket.schedulers.cassini.components import Member, Part, layout
from hocket.schedulers.cassini.expected import expected_score
from hocket.schedulers.cassini.time_shifts import TimeShiftSolver, reference

MS = 10**9
GBPS = 10**9


def job_profile(period_ms: int, *phases: tuple[int, int, int]) -> WorkloadProfile:
    """Phases as (start in ms, duration in ms, rate in Gbps)."""
    specs = tuple(PhaseSpec(start * MS, duration * MS, rate * GBPS) for start, duration, rate in phases)
    return WorkloadProfile(period_ms * MS, specs, ())


def member(name: str, profile: WorkloadProfile, *links: int) -> Member:
    return Member(name, (ord(name),), 1, profile, [(link, 1) for link in links])


HALF = job_profile(100, (0, 50, 40))


def test_a_component_joins_jobs_that_contend_directly_or_through_others() -> None:
    members = [member("a", HALF, 0), member("b", HALF, 0, 1), member("c", HALF, 1), member("d", HALF, 2)]
    found = layout([*members, member("e", HALF, 2), member("f", HALF, 3)], [50 * GBPS] * 4)
    assert [part.names for part in found.parts] == [("a", "b", "c"), ("d", "e")]
    assert list(found.parts[0].links) == [0, 1]
    assert found.parts[0].links[1] == ((1, 1), (2, 1))
    assert not found.roomy


def test_a_link_with_capacity_for_all_peaks_connects_no_jobs() -> None:
    members = [member("a", HALF, 0, 1), member("b", HALF, 0, 1)]
    found = layout(members, [80 * GBPS, 79 * GBPS])
    assert found.roomy == {0: {"a": 1, "b": 1}}
    assert [list(part.links) for part in found.parts] == [[1]]


@given(
    st.lists(
        st.tuples(st.sampled_from([100, 150, 300]), st.integers(10, 90), st.integers(1, 60)),
        min_size=1,
        max_size=3,
    )
)
def test_the_expected_score_is_the_mean_over_all_shifts(wishes: list[tuple[int, int, int]]) -> None:
    jobs = [job_profile(period, (0, up, rate)) for period, up, rate in wishes]
    # Of jobs at random places, each is up for its share of any instant, whatever the others do.
    mean_excess = 0.0
    for ups in np.ndindex(*(2,) * len(jobs)):
        asked = sum(rate for up, (_, _, rate) in zip(ups, wishes, strict=True) if up)
        share = np.prod([d / p if up else 1 - d / p for up, (p, d, _) in zip(ups, wishes, strict=True)])
        mean_excess += float(share) * max(asked - 50, 0)
    found = expected_score(50 * GBPS, [(job, 1) for job in jobs])
    assert found == pytest.approx(1 - mean_excess / 50, abs=1e-9)


def test_flows_multiply_the_demand_of_a_job() -> None:
    # Two flows of 40 Gbps, half of the time, on 50.
    assert expected_score(50 * GBPS, [(HALF, 2)]) == pytest.approx(1 - 0.5 * 30 / 50)


def one_network(links: int) -> Network:
    """Any links of 50 Gbps: who crosses them is said by members."""
    nodes: list[tuple[str, _hocket._NodeKind]] = [(f"n{number}", "host") for number in range(links + 1)]
    cables: list[_hocket._Cable] = [
        {"a": number, "b": number + 1, "rate_bps": 50 * GBPS, "delay_ps": 0} for number in range(links)
    ]
    fabric = _hocket.Fabric(nodes, cables)
    return Network(fabric, tuple(fabric.links()), {}, (0,) * links)


@given(st.data())
def test_theorem_1_holds_on_trees_of_jobs_and_links(data: st.DataObject) -> None:
    jobs = data.draw(st.integers(2, 6))
    periods = data.draw(st.lists(st.sampled_from([60, 90, 120, 180]), min_size=jobs, max_size=jobs))
    rates = data.draw(st.lists(st.integers(26, 50), min_size=jobs, max_size=jobs))
    links: list[list[int]] = [[] for _ in range(jobs)]
    for job in range(1, jobs):
        # On a link of its own with an earlier job, so that no loop can be.
        links[job].append(job)
        links[data.draw(st.integers(0, job - 1))].append(job)
    members = [
        member(chr(ord("a") + job), job_profile(periods[job], (5, 20, rates[job])), *links[job])
        for job in range(jobs)
    ]
    network = one_network(jobs)
    (part,) = layout(members, [50 * GBPS] * 2 * jobs).parts
    # The solver checks it itself, but only for a loop-free circle.
    (solution,) = TimeShiftSolver(CassiniOptions(), network, seed=0).solve([part])
    assert solution.circle is not None
    assert solution.circle.origin == "loop-free"
    assert solution.circle.turned(0).shifts_ps[0] == 0


def test_the_error_names_jobs_whose_relative_shift_changed() -> None:
    periods_ps = {"a": 100, "b": 100, "c": 50}
    found_ps = {"a": 0, "b": 30, "c": 10}
    check_relative_shifts("up", found_ps, {"a": 90, "b": 20, "c": 0}, periods_ps)
    with pytest.raises(AssertionError, match="Theorem 1 on up: jobs b and c are 1 ps off"):
        check_relative_shifts("up", found_ps, {"a": 90, "b": 20, "c": 1}, {**periods_ps, "a": 1})


def test_periods_without_a_circle_are_left_to_chance_and_discard_nothing() -> None:
    profiles = [job_profile(period, (0, 20, 40)) for period in (997, 613, 389)]
    members = [member(name, profile, 0) for name, profile in zip("abc", profiles, strict=True)]
    (part,) = layout(members, [50 * GBPS] * 2).parts
    (solution,) = TimeShiftSolver(CassiniOptions(tolerance=0), one_network(1), seed=0).solve([part])
    assert solution.circle is None
    assert not solution.discards
    assert solution.scores == solution.expected
    assert solution.why_none is not None
    assert "common multiple" in solution.why_none


def test_a_part_is_solved_once_while_it_is_there() -> None:
    solver = TimeShiftSolver(CassiniOptions(), one_network(1), seed=0)
    (part,) = layout([member("a", HALF, 0), member("b", HALF, 0)], [50 * GBPS] * 2).parts
    (other,) = layout([member("a", HALF, 0), member("c", HALF, 0)], [50 * GBPS] * 2).parts
    (first,) = solver.solve([part])
    assert solver.solve([part, other, part])[0] is first
    solver.solve([other])
    assert solver.solve([part])[0] is not first


def test_the_reference_has_the_highest_priority_and_then_the_seed_decides() -> None:
    (part,) = layout([member(name, HALF, 0) for name in "abcd"], [50 * GBPS]).parts
    assert reference(part, [0, 2, 1, 1], seed=5) == 1
    assert {reference(part, [1, 0, 1, 1], seed) for seed in range(50)} == {0, 2, 3}


def test_a_part_is_the_same_if_the_same_jobs_run_in_the_same_places() -> None:
    def part(gpu: int) -> Part:
        one = Member("a", (gpu,), 1, HALF, [(0, 1)])
        return layout([one, member("b", HALF, 0)], [50 * GBPS]).parts[0]

    assert part(3).key == part(3).key
    assert part(3).key != part(4).key
