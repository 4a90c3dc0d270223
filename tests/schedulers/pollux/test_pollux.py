"""Pollux as a scheduler: rounds, restarts, sizes, and what every decision keeps to."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket import InputError
from hocket.schedulers import Cluster, ClusterJob, Decision, Gpus, JobState, State
from hocket.schedulers.pollux import Pollux, PolluxOptions

S = 10**12
PERIOD_PS = 60 * S


def cluster(servers: int, gpus: int = 1) -> Cluster:
    """Servers of so many GPUs, two in each rack."""
    server_of = tuple(server for server in range(servers) for _ in range(gpus))
    names = tuple(f"g{gpu}" for gpu in range(len(server_of)))
    hosts = tuple(f"s{server}" for server in server_of)
    return Cluster(names, hosts, server_of, tuple(server // 2 for server in range(servers)))


def job(
    name: str, model: str = "VGG16", batch_size: int = 1_400, sizes: tuple[int, ...] = (1, 2, 3, 4)
) -> JobState:
    """A job that has just arrived."""
    return JobState(
        ClusterJob(name, model, batch_size, None, 0, 2, sizes, 10**7), 0, (), batch_size, None, 0, 0
    )


def state(cluster: Cluster, *jobs: JobState, now_ps: int = 0) -> State:
    """Jobs in a cluster."""
    return State(now_ps, cluster, jobs, (0,) * len(cluster.gpus))


def options(**changes: object) -> PolluxOptions:
    """Options with few generations, which small clusters are searched well with."""
    return PolluxOptions.model_validate({"population": 30, "generations": 30, **changes})


def applied(before: State, decision: Decision, now_ps: int) -> State:
    """The state at a later time, with the first candidate in force."""
    own = decision.candidates[0]

    def after(each: JobState) -> JobState:
        gpus = own.placement.get(each.job.name, ())
        moved = bool(each.gpus) and gpus != each.gpus
        started = each.first_start_ps if each.first_start_ps is not None or not gpus else before.now_ps
        batch_size = own.batch_sizes.get(each.job.name, each.batch_size)
        return dataclasses.replace(
            each, gpus=gpus, batch_size=batch_size, first_start_ps=started, restarts=each.restarts + moved
        )

    return dataclasses.replace(before, now_ps=now_ps, jobs=tuple(after(each) for each in before.jobs))


def workers(decision: Decision) -> dict[str, int]:
    """By job, as placed by the first candidate."""
    return {job: len(gpus) for job, gpus in decision.candidates[0].placement.items()}


def test_a_job_starts_on_one_worker_and_at_most_doubles_in_a_round() -> None:
    pollux, now = Pollux(options(restart_delay="0 s"), 1), state(cluster(8), job("a"))
    counts = []
    for number in range(4):
        decision = pollux.schedule(now, 1)
        counts.append(workers(decision)["a"])
        now = applied(now, decision, (number + 1) * PERIOD_PS)
    assert counts == [1, 2, 4, 4], "a job's sizes are its limit"


def test_without_doubling_a_job_grows_at_once() -> None:
    decision = Pollux(options(scale_up="any"), 1).schedule(state(cluster(8), job("a")), 1)
    assert workers(decision) == {"a": 4}


def test_jobs_alike_get_equal_shares() -> None:
    decision = Pollux(options(scale_up="any"), 1).schedule(state(cluster(6), job("a"), job("b"), job("c")), 1)
    assert workers(decision) == {"a": 2, "b": 2, "c": 2}
    assert decision.why["fitness"] == pytest.approx(1, abs=0.01), "each has its fair share"


def test_the_next_round_is_a_period_later_also_if_a_job_arrives_before() -> None:
    pollux = Pollux(options(), 1)
    first = pollux.schedule(state(cluster(4), job("a")), 1)
    between = pollux.schedule(applied(state(cluster(4), job("a")), first, 10 * S), 1)
    assert (first.ask_again_ps, between.ask_again_ps) == (PERIOD_PS, PERIOD_PS)


def test_between_rounds_running_jobs_stay_and_an_arrival_starts_on_free_gpus() -> None:
    pollux = Pollux(options(scale_up="any"), 1)
    now = state(cluster(6), job("a"))
    now = applied(now, pollux.schedule(now, 1), 10 * S)
    decision = pollux.schedule(dataclasses.replace(now, jobs=(*now.jobs, job("b"))), 1)
    placement = decision.candidates[0].placement
    assert placement["a"] == now.jobs[0].gpus
    assert len(placement["b"]) == 2, "four of six GPUs are taken"


def test_a_job_that_was_restarted_often_stays_though_it_could_grow() -> None:
    running = dataclasses.replace(job("a"), gpus=(0,), first_start_ps=0, restarts=10)
    # (300 s − 10 × 30 s) / (300 s + 30 s) = 0: nothing is left of what it would gain.
    now = state(cluster(4), running, now_ps=300 * S)
    assert Pollux(options(), 1).schedule(now, 1).candidates[0].placement["a"] == (0,)
    # Without restarts 300 / 330 of it is.
    now = state(cluster(4), dataclasses.replace(running, restarts=0), now_ps=300 * S)
    assert len(Pollux(options(), 1).schedule(now, 1).candidates[0].placement["a"]) == 2


def test_a_job_runs_on_its_own_numbers_of_workers_only() -> None:
    hybrid = job("large", "GPT3", 16, sizes=(8, 12))
    now = state(cluster(13), *(job(name) for name in "abcd"), hybrid)
    decision = Pollux(options(scale_up="any"), 1).schedule(now, 1)
    assert workers(decision)["large"] == 8
    assert sum(workers(decision).values()) <= 13
    assert min(workers(decision).values()) >= 1


def test_batch_sizes_are_named_where_they_change_and_tuning_can_be_switched_off() -> None:
    now = state(cluster(4), job("a", "BERT", 8))
    tuned = Pollux(options(scale_up="any"), 1).schedule(now, 1)
    assert 8 < tuned.candidates[0].batch_sizes["a"] <= 32
    again = Pollux(options(scale_up="any"), 1).schedule(applied(now, tuned, 0), 1)
    assert again.candidates[0].batch_sizes == {}
    kept = Pollux(options(scale_up="any", tune_batch_size=False), 1).schedule(now, 1)
    assert kept.candidates[0].batch_sizes == {}


def test_the_later_release_favours_jobs_that_scale() -> None:
    jobs = [job("wide", "BERT", 8, tuple(range(1, 7))), job("narrow", "ResNet50", 1_600, tuple(range(1, 7)))]
    shares = {
        policy: workers(
            Pollux(options(policy=policy, scale_up="any"), 1).schedule(state(cluster(6), *jobs), 1)
        )
        for policy in ("pollux-osdi21", "pollux-adaptdl")
    }
    assert shares["pollux-osdi21"]["narrow"] > shares["pollux-adaptdl"]["narrow"]


def test_candidates_differ_in_servers_alone_and_do_not_change_the_own_choice() -> None:
    now = state(cluster(8), job("a"), job("b"))
    alone = Pollux(options(scale_up="any"), 1).schedule(now, 1)
    several = Pollux(options(scale_up="any"), 1).schedule(now, 10)
    assert several.candidates[0] == alone.candidates[0]
    assert 1 < len(several.candidates) <= 10
    for each in several.candidates:
        assert {name: len(gpus) for name, gpus in each.placement.items()} == workers(alone)


def test_a_decision_records_its_goodput_and_speedups() -> None:
    why = Pollux(options(), 1).schedule(state(cluster(4), job("a")), 1).why
    assert why["fitness"] > why["fitness_before"]
    assert 1 <= why["generations"] < 30, "one worker is the most at first: no allocation can be better"
    assert why["jobs"]["a"]["workers"] == 1
    assert why["jobs"]["a"]["goodput"] == pytest.approx(1_400 / 0.274, rel=0.1), "as much as it trains"


def test_an_empty_cluster_needs_no_further_round() -> None:
    decision = Pollux(options(), 1).schedule(state(cluster(4)), 1)
    assert (decision.candidates[0].placement, decision.ask_again_ps) == ({}, None)


def test_the_error_names_a_job_that_cannot_be_scheduled() -> None:
    with pytest.raises(InputError, match="job a: it needs at least 3 workers, but the cluster has 2 GPUs"):
        Pollux(options(), 1).schedule(state(cluster(2), job("a", sizes=(3, 4))), 1)
    with pytest.raises(InputError, match="candidates: 0 is below 1"):
        Pollux(options(), 1).schedule(state(cluster(2), job("a")), 0)
    with pytest.raises(InputError, match="node 0 has 256 GPUs; at most 255 are possible"):
        Pollux(options(), 1).schedule(state(cluster(1, gpus=256), job("a")), 1)


MODELS = (("VGG16", 1_400, (1, 2, 3, 4)), ("BERT", 8, (1, 2, 4, 8)), ("GPT2", 48, (2,)), ("GPT3", 16, (2, 8)))
kinds = st.lists(st.sampled_from(MODELS), min_size=1, max_size=6)


def check(before: State, decision: Decision) -> None:
    """What every decision keeps to, whatever the state."""
    jobs = {each.job.name: each for each in before.jobs}
    first = {name: len(gpus) for name, gpus in decision.candidates[0].placement.items()}
    for each in decision.candidates:
        given = [gpu for gpus in each.placement.values() for gpu in gpus]
        assert len(given) == len(set(given)), "a GPU is given twice"
        assert set(given) <= set(range(len(before.cluster.gpus)))
        assert each.placement.keys() == jobs.keys()
        for name, gpus in each.placement.items():
            assert len(gpus) == first[name]
            assert not gpus or len(gpus) in jobs[name].job.sizes
        _check_interference(before.cluster, list(each.placement.values()))


def _check_interference(cluster: Cluster, placement: list[Gpus]) -> None:
    spread = [{cluster.server_of[gpu] for gpu in gpus} for gpus in placement]
    distributed = [server for servers in spread if len(servers) > 1 for server in servers]
    assert len(distributed) == len(set(distributed)), "two distributed jobs on a server"


@settings(max_examples=25, deadline=None)
@given(kinds, kinds, st.sampled_from([(8, 1), (6, 2), (3, 4)]), st.integers(0, 2**32), st.booleans())
def test_every_decision_is_possible_and_the_same_when_asked_again(
    present: list[tuple[str, int, tuple[int, ...]]],
    arriving: list[tuple[str, int, tuple[int, ...]]],
    shape: tuple[int, int],
    seed: int,
    sums: bool,
) -> None:
    few = options(population=10, generations=5, policy="pollux-adaptdl" if sums else "pollux-osdi21")
    twins = Pollux(few, seed), Pollux(few, seed)
    fitting = [kind for kind in [*present, *arriving] if kind[2][0] <= shape[0] * shape[1]]
    jobs = [job(f"job {number}", *kind) for number, kind in enumerate(fitting)]
    now = state(cluster(*shape), *jobs[: len(present)])
    for time_ps, arrivals in [(20 * S, jobs[len(present) :]), (70 * S, []), (130 * S, [])]:
        decision, again = (each.schedule(now, 5) for each in twins)
        assert decision == again
        check(now, decision)
        now = applied(now, decision, time_ps)
        now = dataclasses.replace(now, jobs=(*now.jobs[1:], *arrivals))
