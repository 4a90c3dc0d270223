"""Auctions on clusters small enough to follow by hand."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from hocket.errors import InputError
from hocket.schedulers import Cluster, Decision, Gpus, JobState, State
from hocket.schedulers.checks import checked
from hocket.schedulers.themis import Themis, ThemisOptions

MakeCluster = Callable[[int, int, int], Cluster]
MakeJob = Callable[..., JobState]
MakeState = Callable[..., State]

S = 10**12
MINUTE = 60 * S


def ask(state: State, seed: int = 1, **options: object) -> Decision:
    return Themis(ThemisOptions.model_validate(options), seed).schedule(state, 1)


def placed(decision: Decision) -> dict[str, Gpus]:
    return dict(decision.candidates[0].placement)


def workers(decision: Decision) -> dict[str, int]:
    return {name: len(gpus) for name, gpus in placed(decision).items()}


def test_a_job_alone_gets_what_it_was_submitted_with_in_one_rack(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    decision = ask(make_state(0, make_cluster(6, 4, 1), make_job("a", requested=3)))
    assert placed(decision) == {"a": (0, 1, 2)}
    assert decision.ask_again_ps == 10 * MINUTE


def test_a_job_that_has_run_grows_to_its_maximum_parallelism(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    state = make_state(0, make_cluster(6, 4, 1), make_job("a", (0, 1), requested=2))
    assert placed(ask(state)) == {"a": (0, 1, 2, 3)}
    assert placed(ask(state, workers="requested")) == {"a": (0, 1)}


def test_no_job_moves_for_less_than_a_restart(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    # 27.4 s of serial work are left: four workers save 6.85 s of 13.7 s, and a restart takes 30 s.
    state = make_state(0, make_cluster(1, 1, 4), make_job("a", (0, 1), done=900 * 1400))
    assert placed(ask(state)) == {"a": (0, 1)}
    assert placed(ask(state, restart_cost="0 s")) == {"a": (0, 1, 2, 3)}


def test_two_equal_jobs_share_and_pay_half(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    state = make_state(0, make_cluster(1, 1, 4), make_job("a"), make_job("b"))
    decision = ask(state, fairness_knob=0)
    # With N_avg = 2, T_id = 274 s ÷ 4 × 2 = 137 s: ρ = 274 s ÷ n ÷ 137 s, and V = n ÷ 2 on n GPUs.
    assert decision.why["bids"]["a"] == {
        "1 anywhere": 0.5,
        "2 in one server": 1.0,
        "3 in one server": 1.5,
        "4 in one server": 2.0,
    } | {
        # Wider ones, where S(G) is 0.52: the only server has them all, but others might take some.
        "2 anywhere": 0.52,
        "3 anywhere": 0.78,
        "4 anywhere": 1.04,
        "2 in one rack": 0.72,
        "3 in one rack": 1.08,
        "4 in one rack": 1.44,
    }
    # V_b on two ÷ V_b on all four: 1 ÷ 2.
    assert decision.why["won"] == {
        "a": {"bid": "2 in one server", "share": 0.5},
        "b": {"bid": "2 in one server", "share": 0.5},
    }
    # Each keeps one of its two, and the other comes back as nobody else is there.
    assert decision.why["leftovers"] == {"a": 1, "b": 1}
    assert workers(decision) == {"a": 2, "b": 2}


@pytest.mark.parametrize(("hidden_payment", "expected"), [(True, {"c": 3}), (False, {"c": 1})])
def test_gpus_paid_go_to_jobs_that_did_not_see_the_offer(
    make_cluster: MakeCluster,
    make_job: MakeJob,
    make_state: MakeState,
    hidden_payment: bool,
    expected: dict[str, int],
) -> None:
    jobs = [make_job("a"), make_job("b"), make_job("c", (4,))]
    # f = 0.4 shows the offer to two of three; c has GPU 4 on lease.
    state = make_state(0, make_cluster(1, 1, 5), *jobs)
    decision = ask(state, fairness_knob=0.4, hidden_payment=hidden_payment)
    assert sorted(decision.why["asked"]) == ["a", "b"]
    assert {"c": workers(decision)["c"]} == expected


def test_every_job_gets_one_gpu_before_any_gets_two(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job(f"j{number}") for number in range(4)]
    decision = ask(make_state(0, make_cluster(1, 1, 5), *jobs), fairness_knob=0)
    assert sorted(workers(decision).values()) == [1, 1, 1, 2]


def test_a_winner_of_one_gpu_keeps_it_although_the_other_goes_without(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    # What a winner costs the other is nearly all that the other has: nothing to thousandths of its valuation.
    jobs = [make_job("a"), make_job("b"), make_job("c", (1,))]
    decision = ask(make_state(0, make_cluster(1, 1, 2), *jobs), fairness_knob=0.4)
    (winner,) = decision.why["won"]
    assert decision.why["won"][winner] == {"bid": "1 anywhere", "share": 0.001}
    assert workers(decision)[winner] == 1
    assert decision.why["leftovers"] == {}


@pytest.mark.parametrize(("knob", "asked"), [(0, 10), (0.5, 5), (0.75, 3), (0.8, 2), (0.95, 1), (1, 1)])
def test_the_knob_sets_how_many_jobs_see_the_offer(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState, knob: float, asked: int
) -> None:
    jobs = [make_job(f"j{number}") for number in range(10)]
    decision = ask(make_state(0, make_cluster(6, 4, 1), *jobs), fairness_knob=knob)
    assert len(decision.why["asked"]) == asked


def test_the_job_with_the_worst_rho_bids_first(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    # On one GPU ρ is three times that on three; b has waited, and comes before both.
    jobs = [make_job("on_three", (0, 1, 2)), make_job("on_one", (3,)), make_job("waits")]
    cluster = make_cluster(1, 1, 5)
    assert ask(make_state(0, cluster, *jobs)).why["asked"] == ["waits"]
    assert ask(make_state(0, cluster, *jobs[:2])).why["asked"] == ["on_one"]


def test_the_next_jobs_bid_if_the_worst_cannot(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job("needs_four", sizes=(4,)), make_job("a", (0, 1))]
    decision = ask(make_state(0, make_cluster(1, 1, 4), *jobs))
    assert decision.why["asked"] == ["needs_four", "a"]
    assert workers(decision) == {"needs_four": 0, "a": 4}


def test_the_seed_orders_equally_unfair_jobs(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    state = make_state(0, make_cluster(1, 1, 4), *[make_job(name) for name in "abc"])
    first = [ask(state, seed).why["asked"][0] for seed in range(20)]
    assert set(first) == {"a", "b", "c"}
    assert first == [ask(state, seed).why["asked"][0] for seed in range(20)]


def test_a_lease_protects_until_it_ends(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job("a", (0, 1, 2, 3), done=700 * 1400), make_job("b")]
    cluster = make_cluster(1, 1, 4)
    before = ask(make_state(10 * MINUTE - 1, cluster, *jobs))
    assert placed(before) == {"a": (0, 1, 2, 3), "b": ()}
    assert before.why["offered"] == []
    assert before.ask_again_ps == 10 * MINUTE
    after = ask(make_state(10 * MINUTE, cluster, *jobs))
    assert after.why["offered"] == [0, 1, 2, 3]
    assert placed(after) == {"a": (), "b": (0, 1, 2, 3)}


def test_only_the_gpus_whose_lease_ended_are_auctioned(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job("a", (0, 1, 2, 3)), make_job("b", requested=1, sizes=(1,))]
    state = make_state(10 * MINUTE, make_cluster(2, 2, 1), *jobs, given={2: MINUTE, 3: 2 * MINUTE})
    decision = ask(state)
    assert decision.why["offered"] == [0, 1]
    # b wins one of them; a drops to the other and those on lease.
    assert workers(decision) == {"a": 3, "b": 1}
    assert set(placed(decision)["a"]) > {2, 3}
    assert decision.ask_again_ps == 11 * MINUTE


def test_leases_that_end_soon_may_be_auctioned_together(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    state = make_state(MINUTE, make_cluster(1, 1, 4), make_job("a", (0, 1, 2, 3)), given={3: MINUTE // 2})
    assert ask(state).ask_again_ps == 10 * MINUTE
    assert ask(state, batch="30 s").ask_again_ps == 10 * MINUTE + 30 * S
    assert ask(state, batch="1 h").ask_again_ps == 11 * MINUTE


def test_a_job_that_wins_its_gpus_again_stays_with_a_new_lease(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    # Two racks are free that are as good, and the job is in the last.
    cluster, job = make_cluster(3, 4, 1), make_job("a", (8, 9, 10, 11), requested=4)
    themis = Themis(ThemisOptions(), 1)
    for minutes in (10, 20, 30):
        decision = themis.schedule(make_state(minutes * MINUTE, cluster, job), 10)
        assert [dict(each.placement) for each in decision.candidates] == [{"a": (8, 9, 10, 11)}]
        assert decision.why["won"] == {"a": {"bid": "4 in place", "share": 1.0}}
        assert decision.ask_again_ps == (minutes + 10) * MINUTE
    between = themis.schedule(make_state(35 * MINUTE, cluster, job), 10)
    assert between.why["offered"] == list(range(8))


def test_a_winner_avoids_gpus_that_others_may_reclaim(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    # The leases of a end; b could have its GPUs or those of the second rack, which nobody had.
    jobs = [make_job("a", (0, 1)), make_job("b", requested=2, sizes=(1, 2))]
    state = make_state(10 * MINUTE, make_cluster(2, 2, 1), *jobs)
    assert placed(ask(state, workers="requested")) == {"a": (0, 1), "b": (2, 3)}


def test_drawn_places_lie_anywhere_in_the_region_that_a_job_won(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    cluster = make_cluster(6, 4, 1)
    # S of BERT is the same at every distance, that of VGG16 is worse beyond a rack.
    anywhere = make_state(0, cluster, make_job("a", requested=3, model=("BERT", 8)))
    one_rack = make_state(0, cluster, make_job("a", requested=3))
    assert placed(ask(anywhere))["a"] == placed(ask(one_rack))["a"] == (0, 1, 2)
    drawn = [placed(ask(anywhere, seed, placement="drawn"))["a"] for seed in range(20)]
    assert len(set(drawn)) > 10
    assert any(len({gpu // 4 for gpu in gpus}) == 3 for gpus in drawn)
    inside = [placed(ask(one_rack, seed, placement="drawn"))["a"] for seed in range(20)]
    assert len(set(inside)) == 4, "three of the four servers of the rack"
    assert all(len(gpus) == 3 and len({gpu // 4 for gpu in gpus}) == 1 for gpus in inside)


def test_a_job_whose_places_are_drawn_keeps_those_that_it_had(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    cluster = make_cluster(6, 4, 1)
    job = make_job("a", (5, 23), requested=4, sizes=(2, 4), model=("BERT", 8))
    for seed in range(10):
        state = make_state(0, cluster, job)
        gpus = placed(ask(state, seed, placement="drawn", restart_cost="0 s"))["a"]
        assert len(gpus) == 4
        assert {5, 23} < set(gpus)


def test_a_job_runs_on_its_sizes_or_not_at_all(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job("a", requested=4, sizes=(4,)), make_job("b", requested=2, sizes=(2,))]
    decision = ask(make_state(0, make_cluster(1, 1, 5), *jobs), fairness_knob=0)
    assert sorted(workers(decision).values()) in ([0, 2], [0, 4])
    # Two of the four GPUs of a are auctioned and b gets them; a cannot run on the two on lease, and waits.
    running = [make_job("a", (0, 1, 2, 3), sizes=(4,)), make_job("b", requested=2, sizes=(2,))]
    state = make_state(10 * MINUTE, make_cluster(1, 1, 4), *running, given={2: MINUTE, 3: MINUTE})
    assert placed(ask(state)) == {"a": (), "b": (0, 1)}


def test_the_rules_are_the_same_for_one_and_two_gpus_per_server(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job("a", requested=4), make_job("b", requested=3), make_job("c", requested=2)]
    single = ask(make_state(0, make_cluster(6, 4, 1), *jobs), fairness_knob=0)
    assert workers(single) == {"a": 4, "b": 3, "c": 2}
    spans = {name: make_cluster(6, 4, 1).span(gpus).name for name, gpus in placed(single).items()}
    assert spans == {"a": "RACK", "b": "RACK", "c": "RACK"}
    double = ask(make_state(0, make_cluster(3, 2, 2), *jobs), fairness_knob=0)
    assert workers(double) == {"a": 4, "b": 3, "c": 2}
    spans = {name: make_cluster(3, 2, 2).span(gpus).name for name, gpus in placed(double).items()}
    assert spans == {"a": "RACK", "b": "RACK", "c": "SERVER"}


def test_a_thousand_gpus_are_auctioned_server_by_server(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    cluster = make_cluster(32, 4, 8)
    jobs = [make_job(f"j{n}", requested=n % 8 + 1, sizes=tuple(range(1, 12))) for n in range(170)]
    themis = Themis(ThemisOptions(), 1)
    fresh = make_state(0, cluster, *jobs)
    first = checked(themis.schedule(fresh, 10), fresh)
    # They ask for 759 GPUs of 1,024, none for more than a server has.
    assert workers(first) == {job.job.name: job.job.requested for job in jobs}
    assert {cluster.span(gpus).name for gpus in placed(first).values()} == {"SERVER"}
    running = [replace(job, gpus=placed(first)[job.job.name], first_start_ps=0) for job in jobs]
    later = make_state(10 * MINUTE, cluster, *running)
    second = checked(themis.schedule(later, 10), later)
    assert len(second.why["offered"]) == 1_024
    # No more in a rack are as fast as eight in a server: 11 × 0.72 = 7.92.
    assert {workers(second)[name] for name in second.why["won"]} == {8}


def test_a_decision_explains_itself_in_json(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    jobs = [make_job("a", (0, 1)), make_job("b", requested=2), make_job("c")]
    why = ask(make_state(10 * MINUTE, make_cluster(2, 2, 1), *jobs), fairness_knob=0.5).why
    assert json.loads(json.dumps(why, allow_nan=False)) == why
    assert set(why) == {"offered", "rho", "asked", "bids", "won", "leftovers", "proven"}


def test_an_empty_cluster_needs_no_auction(make_cluster: MakeCluster, make_state: MakeState) -> None:
    decision = ask(make_state(0, make_cluster(1, 1, 4)))
    assert placed(decision) == {}
    assert decision.ask_again_ps is None


def test_the_time_average_of_competing_jobs_is_a_switch(
    make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState
) -> None:
    state = make_state(0, make_cluster(1, 1, 4), make_job("a", (0, 1)), make_job("b", (2, 3)))
    assert ask(state).why["rho"] == {"a": 1.0, "b": 1.0}
    assert ask(state, competing_jobs=False).why["rho"] == {"a": 2.0, "b": 2.0}


def test_bad_input_is_named(make_cluster: MakeCluster, make_job: MakeJob, make_state: MakeState) -> None:
    state = make_state(0, make_cluster(1, 1, 4), make_job("big", requested=8, sizes=(8, 12)))
    with pytest.raises(InputError, match="big: needs at least 8 workers, but the cluster has 4 GPUs"):
        ask(state)
    with pytest.raises(InputError, match="candidates: 0 is below 1"):
        Themis(ThemisOptions(), 1).schedule(make_state(0, make_cluster(1, 1, 4)), 0)


@pytest.mark.parametrize(
    "table", [{"fairness_knob": 1.1}, {"epoch": "0 s"}, {"lease": "-1 s"}, {"slowdown": "none"}, {"f": 0.8}]
)
def test_options_have_limits(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(table))):
        ThemisOptions.model_validate(table)
