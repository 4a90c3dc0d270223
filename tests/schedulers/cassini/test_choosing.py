"""CASSINI on hand-made decisions: which candidate, whose slots, and why."""

import json
from collections.abc import Callable

import pytest

from hocket.engines.network import Network
from hocket.errors import InputError
from hocket.schedulers import Candidate, Decision, State
from hocket.schedulers.cassini import Cassini, Choice

MakeState = Callable[..., State]
MakeCassini = Callable[..., Cassini]
MakeDecision = Callable[..., Decision]

# Jobs of a pair share the cables of both racks that they stretch over.
FITTING = {"W": (0, 2), "V": (1, 3), "R": (4, 6), "S": (5, 7)}
MIXED = {"W": (0, 2), "R": (1, 3), "V": (4, 6), "S": (5, 7)}
# Each job shares one rack with each of the others.
TRIANGLE = {"R": (0, 2), "S": (3, 4), "T": (5, 1)}
W_AND_V = {"W": (0, 2), "V": (1, 3)}


def choose(cassini: Cassini, state: State, decision: Decision) -> Choice:
    """What it makes of `decision` while all jobs are between two iterations."""
    return cassini.choose(state, decision, lambda job: None)


def test_the_placement_whose_jobs_can_take_turns_wins(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    state = make_state(W=(), V=(), R=(), S=())
    chosen = choose(make_cassini(aggregate="mean"), state, make_decision(MIXED, FITTING))
    own, best = chosen.candidates
    assert chosen.candidate == 1
    assert own.score is not None
    assert best.score is not None
    # Snapshots 1 and 4 of NSDI'24 Table 2 have scores of 1.0 and 0.8; four directed links each.
    assert best.score == pytest.approx((0.993 + 0.832) / 2, abs=0.001)
    assert own.score < best.score


def test_jobs_that_fit_get_slots_of_one_distance_half_a_period_apart(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    chosen = choose(make_cassini(), make_state(W=(), V=()), make_decision(W_AND_V))
    (component,) = chosen.components
    assert component.reference in ("W", "V")
    assert component.gain is not None
    assert component.gain > 1
    w, v = chosen.slots["W"], chosen.slots["V"]
    assert w.period_ps == v.period_ps
    # Iterations on an idle network take 274 ms; Table 2 has both jobs 150 of them apart.
    assert 274e9 < w.period_ps < 1.02 * 274e9
    apart = (v.origin_ps - w.origin_ps) % w.period_ps / w.period_ps
    assert apart == pytest.approx(150 / 274, abs=0.05)


def test_the_reference_continues_from_its_current_iteration(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    state = make_state(**W_AND_V)
    began = {"W": state.now_ps - 100, "V": state.now_ps - 7}
    chosen = make_cassini().choose(state, make_decision(W_AND_V), began.get)
    reference = chosen.components[0].reference
    assert chosen.slots[reference].origin_ps == began[reference]


def test_every_link_has_its_scores_before_and_after(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision, network: Network
) -> None:
    chosen = choose(make_cassini(), make_state(W=(), V=()), make_decision(W_AND_V))
    assert [link.name for link in chosen.links] == [
        "tor0->spine0",
        "spine0->tor0",
        "tor1->spine0",
        "spine0->tor1",
    ]
    # Together W and V ask for 58 of 50 Gbps while both are up: 138 and 148 of 274 ms.
    by_chance = 1 - 8 / 50 * (138 / 274) * (148 / 274)
    # Up for 286 ms of 274, they have to overlap for 12.
    in_slots = 1 - 8 / 50 * 12 / 274
    for link in chosen.links:
        assert link.jobs_before == link.jobs == ("W", "V")
        assert link.before == pytest.approx(by_chance, abs=1e-9)
        assert link.after == pytest.approx(in_slots, abs=1e-9)
        assert network.links[link.link][0] == link.name


def test_of_equal_candidates_the_one_that_moves_no_running_job_wins(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    chosen = choose(make_cassini(), make_state(W=(0, 2)), make_decision({"W": (4, 6)}, {"W": (0, 2)}))
    assert chosen.candidate == 1
    assert [each.score for each in chosen.candidates] == [1.0, 1.0]
    assert [each.moved_jobs for each in chosen.candidates] == [1, 0]


def test_a_candidate_whose_shifts_disagree_around_a_loop_is_discarded_by_name(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    apart = {"R": (0, 1), "S": (2, 3), "T": (4, 5)}
    state = make_state(R=(), S=(), T=())
    chosen = choose(make_cassini(loops="discard"), state, make_decision(TRIANGLE, apart))
    assert chosen.candidate == 1
    assert chosen.candidates[0].score is None
    reason = chosen.candidates[0].discarded
    assert reason is not None
    assert "loop" in reason
    assert all(name in reason for name in "RST")


def test_if_all_are_discarded_the_schedulers_choice_is_taken_without_slots(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    other = {"R": (1, 3), "S": (2, 5), "T": (4, 0)}
    cassini = make_cassini(loops="discard")
    chosen = choose(cassini, make_state(R=(), S=(), T=()), make_decision(TRIANGLE, other))
    assert chosen.candidate == 0
    assert all(each.discarded for each in chosen.candidates)
    assert not chosen.slots
    assert "loop" in str(chosen.components[0].why_none)


def test_loops_are_solved_together(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    state = make_state(R=(), S=(), T=())
    chosen = choose(make_cassini(), state, make_decision(TRIANGLE))
    assert chosen.candidates[0].score is not None
    assert chosen.components[0].origin == "joint"


def test_an_unchanged_component_keeps_its_slots(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    cassini = make_cassini()
    first = choose(cassini, make_state(W=(), V=()), make_decision(W_AND_V))
    later = make_state(now_ps=9 * 10**12, **W_AND_V, R=())
    second = choose(cassini, later, make_decision({**W_AND_V, "R": (4, 6)}))
    assert second.slots == first.slots
    assert [component.kept for component in second.components] == [True]
    assert second.released == ()


def test_a_job_in_a_slot_is_not_delayed_for_the_sake_of_one_that_joins(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    # W was in slots with V; of W and U, which takes the place of V, only U has to find its place.
    cassini = make_cassini()
    choose(cassini, make_state(W=(), V=()), make_decision(W_AND_V))
    later = make_state(now_ps=9 * 10**12, W=(0, 2), U=())
    chosen = cassini.choose(later, make_decision({"W": (0, 2), "U": (1, 3)}), {"W": 8 * 10**12}.get)
    assert chosen.components[0].reference == "W"
    assert chosen.slots["W"].origin_ps == 8 * 10**12
    assert chosen.slots.keys() == {"W", "U"}


def test_a_job_that_is_left_alone_loses_its_slot(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    cassini = make_cassini()
    choose(cassini, make_state(W=(), V=()), make_decision(W_AND_V))
    chosen = choose(cassini, make_state(W=(0, 2)), make_decision({"W": (0, 2)}))
    assert chosen.released == ("W",)
    assert not chosen.slots


def test_jobs_that_demand_a_link_nearly_all_the_time_get_no_slots(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    chosen = choose(make_cassini(), make_state(B=(), C=()), make_decision({"B": (0, 2), "C": (1, 3)}))
    assert not chosen.slots
    assert chosen.components[0].why_none
    for link in chosen.links:
        assert link.after == link.before


def test_below_the_threshold_nothing_is_shifted(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    cassini = make_cassini(shift_threshold=0.999)
    chosen = choose(cassini, make_state(W=(), V=()), make_decision(W_AND_V))
    assert not chosen.slots
    assert chosen.components[0].why_none == (
        "a score of 0.992 is below 0.999: priorities or adaptive unfairness help these jobs more"
    )


@pytest.mark.parametrize(("aggregate", "expected"), [("min", 0.832), ("tail", 0.832), ("mean", 0.9125)])
def test_candidates_are_ranked_by_the_configured_aggregate(
    make_cassini: MakeCassini,
    make_state: MakeState,
    make_decision: MakeDecision,
    aggregate: str,
    expected: float,
) -> None:
    state = make_state(W=(), V=(), R=(), S=())
    chosen = choose(make_cassini(aggregate=aggregate), state, make_decision(FITTING))
    assert chosen.candidates[0].score == pytest.approx(expected, abs=0.001)


def test_over_the_fabric_fewer_shared_links_count(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    # R and S share two racks' cables, or one rack's; no shifts keep them apart.
    two_racks, one_rack = {"R": (0, 2), "S": (1, 3)}, {"R": (0, 2), "S": (1, 4)}
    state = make_state(R=(), S=())
    mean = choose(make_cassini(aggregate="mean"), state, make_decision(two_racks, one_rack))
    fabric = choose(make_cassini(), state, make_decision(two_racks, one_rack))
    assert mean.candidates[0].score == mean.candidates[1].score
    assert mean.candidate == 0
    assert fabric.candidate == 1


def test_candidates_of_other_sizes_are_refused(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    decision = make_decision({"W": (0, 2)}, {"W": (0, 2, 3)})
    with pytest.raises(InputError, match=r"candidates\[1\]: job 'W' has 3 workers, but 2 in the first"):
        choose(make_cassini(), make_state(W=()), decision)


def test_candidates_of_other_batch_sizes_are_refused(
    make_cassini: MakeCassini, make_state: MakeState
) -> None:
    decision = Decision([Candidate({"W": (0, 2)}), Candidate({"W": (0, 2)}, {"W": 1_000})])
    with pytest.raises(InputError, match=r"candidates\[1\]: batch sizes \{'W': 1000\}"):
        choose(make_cassini(), make_state(W=()), decision)


def test_equal_inputs_give_identical_decisions(
    make_cassini: MakeCassini, make_state: MakeState, make_decision: MakeDecision
) -> None:
    state, decision = make_state(W=(), V=(), R=(), S=()), make_decision(MIXED, FITTING)
    one, other = (json.dumps(choose(make_cassini(), state, decision).why) for _ in range(2))
    assert one == other
