"""Candidates are equally fair, different, and leave alone who stays; and what holds for every auction."""

from collections.abc import Callable, Mapping
from itertools import permutations
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.schedulers import Cluster, Decision, Gpus, JobState, Span, State
from hocket.schedulers.checks import checked
from hocket.schedulers.themis import Themis, ThemisOptions
from hocket.schedulers.themis.candidates import EqualPlacements
from hocket.schedulers.themis.fairness import FinishTime, Speedups, speedup

MakeCluster = Callable[[int, int, int], Cluster]
MakeJob = Callable[..., JobState]
MakeState = Callable[..., State]
Placement = Mapping[str, Gpus]

MINUTE = 60 * 10**12
MODELS = [("VGG16", 1400), ("WideResNet101", 800), ("BERT", 8), ("DLRM", 512)]
SHAPES = [(6, 4, 1), (3, 2, 2), (2, 2, 2), (4, 1, 2), (1, 1, 6), (2, 2, 4)]
# The catalogue has GPT2 and GPT3 on these numbers of workers only: what asks for others raises.
KINDS = [
    *[(sizes, model) for sizes in [(1, 2, 3, 4, 5, 6), (2, 4), (1, 3), (3, 5)] for model in MODELS],
    ((2,), ("GPT2", 48)),
    ((2, 8), ("GPT3", 32)),
    ((8, 12, 16), ("GPT3", 32)),
]


def equal_placements(
    cluster: Cluster, before: Placement, own: Placement, auctioned: list[int], count: int = 10
) -> list[Placement]:
    """Of GPUs that were auctioned, with jobs whose ρ depends on their span."""
    widest = {name: cluster.span(gpus) for name, gpus in own.items()}
    equal = EqualPlacements(cluster, before, own, auctioned, widest, "auctioned")
    return equal.sample(count, Random(1))


@pytest.mark.parametrize(
    ("exchange", "drawn", "after"),
    [
        ("restarting", ((0, 10, 12, 16, 26, 29, 32, 33, 36), (28, 30, 31, 35), (37, 38)), 0.7384880133220164),
        ("auctioned", ((0, 2, 3, 4, 5, 6, 7, 24, 25), (8, 9, 10, 11), (21, 22)), 0.43416423277281657),
    ],
)
def test_draws_are_those_of_the_standard_library(
    make_cluster: MakeCluster,
    exchange: Literal["restarting", "auctioned"],
    drawn: tuple[Gpus, ...],
    after: float,
) -> None:
    # Recorded when random.Random itself drew them; it also continues after the same draws.
    before = {"a": tuple(range(8)), "b": (8, 9, 24), "c": (40, 41)}
    own = {"a": (0, 1, 2, 3, 4, 5, 6, 16, 17), "b": (8, 9, 12, 13), "c": (40, 41), "d": (20, 21)}
    auctioned = [*range(1, 8), *range(10, 40)]
    widest = {"a": Span.RACKS, "b": Span.RACK, "d": Span.SERVER}
    cluster, draws = make_cluster(4, 3, 4), Random(7)
    found = EqualPlacements(cluster, before, own, auctioned, widest, exchange).sample(5, draws)
    assert (len(found), found[0]) == (5, own)
    assert tuple(found[1][name] for name in "abd") == drawn
    assert draws.random() == after


def test_two_losers_give_to_two_winners_in_several_ways(make_cluster: MakeCluster) -> None:
    # The example of NSDI'24 §4.2: j1 and j2 win two workers each, k1 loses one and k2 three.
    before = {"j1": (0,), "j2": (1,), "k1": (2, 3), "k2": (4, 5, 6, 7)}
    own = {"j1": (0, 2, 4), "j2": (1, 5, 6), "k1": (3,), "k2": (7,)}
    found = equal_placements(make_cluster(4, 2, 1), before, own, [2, 3, 4, 5, 6, 7], 100)
    givers = {
        tuple(
            sorted(
                (winner, "k1" if gpu in before["k1"] else "k2")
                for winner in ("j1", "j2")
                for gpu in placement[winner]
                if gpu not in before[winner]
            )
        )
        for placement in found
    }
    assert givers == {
        (("j1", "k1"), ("j1", "k2"), ("j2", "k2"), ("j2", "k2")),
        (("j1", "k2"), ("j1", "k2"), ("j2", "k1"), ("j2", "k2")),
    }


@pytest.mark.parametrize(("other", "places"), [(("BERT", 8), {True, False}), (("ResNet50", 1600), {False})])
def test_jobs_change_places_where_no_slowdown_ties_them(
    make_cluster: MakeCluster, make_job: MakeJob, other: tuple[str, int], places: set[bool]
) -> None:
    # Three GPUs of one rack are free, and one of each of three others. DLRM's ρ is the same on either.
    before = {"busy": (0, 1, 2, 4, 5, 6, 8, 9, 10, 12)}
    own = {**before, "dlrm": (3, 7, 11), "other": (13, 14, 15)}
    job = make_job("other", sizes=(1, 3), model=other)
    bound = FinishTime(job, 0, 16, 1.0, ThemisOptions(), Speedups(job.job, "published"))
    widest = {"dlrm": Span.RACKS, "other": bound.widest(3, Span.RACK)}
    cluster, auctioned = make_cluster(4, 4, 1), [3, 7, 11, 13, 14, 15]
    found = EqualPlacements(cluster, before, own, auctioned, widest, "auctioned").sample(10, Random(1))
    assert {placement["dlrm"] == (13, 14, 15) for placement in found} == places


def test_jobs_that_restart_anyway_may_be_apart_from_each_other(make_cluster: MakeCluster) -> None:
    # Both grow from two workers to four, of which each rack has one; in a rack each they share no link.
    before = {"a": (0, 4), "b": (1, 5)}
    own = {"a": (0, 2, 4, 6), "b": (1, 3, 5, 7)}
    widest = dict.fromkeys(own, Span.RACKS)
    cluster = make_cluster(2, 4, 1)
    shared = EqualPlacements(cluster, before, own, [2, 3, 6, 7], widest, "auctioned").sample(10, Random(1))
    assert all(placement["a"][0] == 0 and 4 in placement["a"] for placement in shared)
    free = EqualPlacements(cluster, before, own, [2, 3, 6, 7], widest, "restarting").sample(10, Random(1))
    assert any(cluster.span(placement["a"]) == Span.RACK for placement in free)


def test_a_loser_may_give_up_another_worker(make_cluster: MakeCluster) -> None:
    # Job b stands beside GPU 1, so it matters which of its three workers a gives up.
    before = {"a": (0, 2, 4), "b": (1,), "c": (3,)}
    own = {"a": (0, 2), "b": (1,), "c": (3,)}
    found = equal_placements(make_cluster(3, 2, 1), before, own, [0, 2, 4])
    assert sorted(placement["a"] for placement in found) == [(0, 2), (0, 4), (2, 4)]
    assert all(placement["b"] == (1,) and placement["c"] == (3,) for placement in found)


def test_a_new_job_may_stand_beside_either_neighbour(make_cluster: MakeCluster) -> None:
    # Racks 0 and 1 hold one job each, racks 2 and 3 none: beside a, beside b, or alone.
    before = {"a": (0, 1), "b": (4, 5)}
    own = {**before, "new": (2, 3)}
    free = [2, 3, 6, 7, *range(8, 16)]
    found = equal_placements(make_cluster(4, 4, 1), before, own, free)
    racks = [placement["new"][0] // 4 for placement in found]
    assert sorted(min(rack, 2) for rack in racks) == [0, 1, 2]


def test_without_a_change_there_is_one_candidate(make_cluster: MakeCluster) -> None:
    before = {"a": (0, 1)}
    assert equal_placements(make_cluster(2, 2, 1), before, before, [2, 3]) == [before]


def test_racks_of_different_sizes_are_not_alike() -> None:
    names = tuple(f"g{number}" for number in range(5))
    cluster = Cluster(names, names, tuple(range(5)), (0, 0, 1, 1, 1))
    found = equal_placements(cluster, {}, {"a": (0, 1)}, list(range(5)))
    # Beside one free GPU, and beside none; which of the three of the larger rack is the same.
    assert sorted(cluster.rack(placement["a"][0]) for placement in found) == [0, 1]


@st.composite
def busy_clusters(
    draw: st.DrawFn, make_cluster: MakeCluster, make_job: MakeJob
) -> tuple[State, ThemisOptions]:
    """A cluster with jobs on some of its GPUs, leases of every age, and jobs that wait."""
    cluster = make_cluster(*draw(st.sampled_from(SHAPES)))
    free = draw(st.permutations(range(len(cluster.gpus))))
    now_ps = draw(st.integers(10, 30)) * MINUTE
    jobs: list[JobState] = []
    kinds = [kind for kind in KINDS if kind[0][0] <= len(cluster.gpus)]
    for number in range(draw(st.integers(0, 7))):
        sizes, model = draw(st.sampled_from(kinds))
        workers = draw(st.sampled_from([0, *sizes]))
        gpus, free = (tuple(sorted(free[:workers])), free[workers:]) if workers <= len(free) else ((), free)
        arrival_ps = draw(st.integers(0, 9)) * MINUTE
        job = make_job(
            f"j{number}",
            gpus,
            requested=draw(st.sampled_from(sizes)),
            sizes=sizes,
            arrival_ps=arrival_ps,
            done=draw(st.integers(0, 999)) * 8,
            started=bool(gpus) or draw(st.booleans()),
            model=model,
        )
        jobs.append(job)
    ages = [draw(st.integers(0, 12)) * MINUTE for _ in cluster.gpus]
    table = {
        "fairness_knob": draw(st.sampled_from([0, 0.5, 0.8])),
        "hidden_payment": draw(st.booleans()),
        "exchange": draw(st.sampled_from(["restarting", "auctioned"])),
    }
    taken = {gpu for each in jobs for gpu in each.gpus}
    given_ps = tuple(now_ps - age if gpu in taken else 0 for gpu, age in enumerate(ages))
    return State(now_ps, cluster, tuple(jobs), given_ps), ThemisOptions.model_validate(table)


@pytest.fixture(scope="session")
def clusters(make_cluster: MakeCluster, make_job: MakeJob) -> st.SearchStrategy[tuple[State, ThemisOptions]]:
    return busy_clusters(make_cluster, make_job)


def decided(
    data: st.DataObject, clusters: st.SearchStrategy[tuple[State, ThemisOptions]]
) -> tuple[State, ThemisOptions, Decision]:
    state, options = data.draw(clusters)
    return state, options, Themis(options, 3).schedule(state, 8)


def leased(state: State, job: JobState) -> set[int]:
    """Its GPUs whose lease of ten minutes goes on."""
    return {gpu for gpu in job.gpus if state.given_ps[gpu] + 10 * MINUTE > state.now_ps}


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_every_candidate_can_be_applied(
    clusters: st.SearchStrategy[tuple[State, ThemisOptions]], data: st.DataObject
) -> None:
    state, _, decision = decided(data, clusters)
    checked(decision, state)  # no GPU twice, sizes that jobs run on, as many workers in every candidate


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_candidates_slow_no_job_and_keep_leases_and_staying_jobs(
    clusters: st.SearchStrategy[tuple[State, ThemisOptions]], data: st.DataObject
) -> None:
    state, options, decision = decided(data, clusters)
    own = decision.candidates[0].placement
    for candidate in decision.candidates:
        for job in state.jobs:
            name, gpus = job.job.name, candidate.placement[job.job.name]
            speeds = [
                speedup(job.job, len(each), state.cluster.span(each), "published") if each else 0.0
                for each in (own[name], gpus)
            ]
            assert speeds[1] >= speeds[0]
            assert (gpus == job.gpus) == (own[name] == job.gpus)
            if options.exchange == "auctioned":
                assert set(own[name]) & leased(state, job) <= set(gpus)
                assert len(set(gpus) & set(job.gpus)) == len(set(own[name]) & set(job.gpus))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_lease_is_given_up_only_for_a_size_that_a_job_runs_on(
    clusters: st.SearchStrategy[tuple[State, ThemisOptions]], data: st.DataObject
) -> None:
    state, _, decision = decided(data, clusters)
    for job in state.jobs:
        held = leased(state, job)
        gpus = set(decision.candidates[0].placement[job.job.name])
        if not held <= gpus:
            assert len(held) not in job.job.sizes
            # Somebody may have taken what it gave up before enough was left over for a larger size.
            assert gpus < held or len(gpus) > len(held)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_nobody_waits_while_its_smallest_size_is_free(
    clusters: st.SearchStrategy[tuple[State, ThemisOptions]], data: st.DataObject
) -> None:
    state, _, decision = decided(data, clusters)
    placement = decision.candidates[0].placement
    free = len(state.cluster.gpus) - sum(map(len, placement.values()))
    for job in state.jobs:
        assert placement[job.job.name] or job.job.sizes[0] > free


def alike(cluster: Cluster, one: Placement, other: Placement) -> bool:
    """Whether some renumbering of racks turns one into the other, in racks of two servers of one GPU each."""
    racks = [
        [
            sorted(name for name, gpus in placement.items() for gpu in gpus if cluster.rack(gpu) == rack)
            for rack in range(4)
        ]
        for placement in (one, other)
    ]
    return any([racks[0][rack] for rack in order] == racks[1] for order in permutations(range(4)))


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(8)), st.integers(1, 4), st.integers(1, 3))
def test_no_two_candidates_are_the_same_but_for_numbers_of_racks(
    make_cluster: MakeCluster, make_job: MakeJob, order: list[int], running: int, fresh: int
) -> None:
    cluster = make_cluster(4, 2, 1)
    jobs = [make_job(f"r{gpu}", (gpu,), sizes=(1,), requested=1) for gpu in order[:running]]
    jobs += [make_job(f"f{number}", sizes=(1, 2), requested=2) for number in range(fresh)]
    state = State(MINUTE, cluster, tuple(jobs), (0,) * 8)
    found = [each.placement for each in Themis(ThemisOptions(), 1).schedule(state, 10).candidates]
    for index, one in enumerate(found):
        assert not any(alike(cluster, one, other) for other in found[:index])


def test_the_same_seed_draws_the_same_candidates(make_cluster: MakeCluster, make_job: MakeJob) -> None:
    def decisions(seed: int) -> list[Decision]:
        themis, cluster = Themis(ThemisOptions(), seed), make_cluster(6, 4, 1)
        running = [make_job(f"r{number}", (number * 4, number * 4 + 1)) for number in range(3)]
        fresh = [make_job(f"f{number}", requested=6, sizes=(3, 6)) for number in range(3)]
        states = [State(now * MINUTE, cluster, (*running, *fresh), (0,) * 24) for now in (1, 12, 25)]
        return [themis.schedule(state, 10) for state in states]

    assert repr(decisions(1)) == repr(decisions(1))
    assert len(decisions(1)[0].candidates) > 1
    assert repr(decisions(1)) != repr(decisions(2))


def test_asking_for_candidates_does_not_change_the_choice(
    make_cluster: MakeCluster, make_job: MakeJob
) -> None:
    cluster = make_cluster(3, 4, 1)
    jobs = tuple(make_job(f"j{number}", requested=number % 4 + 1) for number in range(6))
    themis = {count: Themis(ThemisOptions(), 5) for count in (1, 10)}
    for now in range(5):
        state = State(now * MINUTE, cluster, jobs, (0,) * 12)
        own = [each.schedule(state, count).candidates[0] for count, each in themis.items()]
        assert own[0] == own[1]
