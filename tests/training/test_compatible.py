"""Training jobs that share links: their demand, their compatibility, and the effect of time-shifts."""

from typing import Any

import pytest

from hocket import Compatibility, InputError, _hocket, compatibility, parse_plan, simulate
from hocket.compat.link_demands import demands
from hocket.compat.measured import MeasuredIteration, measure
from hocket.compat.verdict import Verdict
from hocket.engines.network import Network, build_network
from hocket.engines.specs import native_profile
from hocket.plan import Engine

Tables = dict[str, Any]

# 4,096 bytes of data come with headers of 82, and with an acknowledgement of 86 in the other direction.
OVERHEAD = (4_096 + 82 + 86) / 4_096


def accumulating(name: str, placement: list[str], compute: str = "12 ms", **changes: object) -> Tables:
    """A job that adds up 40 MB of gradients when it has computed."""
    operations = [
        {"name": "passes", "compute": compute},
        {"name": "gradients", "collective": "all-reduce", "bytes": "40 MB", "after": ["passes"]},
    ]
    return {"name": name, "placement": placement, "training": {"operations": operations}, **changes}


def two_racks(*jobs: Tables, **changes: object) -> Tables:
    """Racks of four servers of one GPU with one uplink, all of 50 Gbps: hosts s0 … s3 and s4 … s7."""
    clos = {
        "racks": 2,
        "servers_per_rack": 4,
        "gpus_per_server": 1,
        "spines": 1,
        "cables_per_spine": 1,
        "nic": "50 Gbps",
        "uplink": "50 Gbps",
    }
    return {"fabric": {"clos": clos}, "host": {"mtu": "4096 B"}, "jobs": list(jobs), **changes}


A = accumulating("a", ["s0", "s4"])
B = accumulating("b", ["s1", "s5"])


def measured(tables: Tables, number: int = 0) -> tuple[MeasuredIteration, Network]:
    plan = parse_plan(tables)
    network = build_network(plan)
    return measure(plan, number, network, None), network


def mean_s(answer: Compatibility, column: str) -> list[float]:
    """A column of the prediction, by job."""
    return list(answer.prediction[f"{column}_mean_s"])


def test_an_iteration_alone_is_compute_and_an_all_reduce_at_the_rate_of_the_nic() -> None:
    found, network = measured(two_racks(A))
    # Of two ranks' 40 MB, each sends 2(n-1)/n = 1 times as much.
    reduce_s = 40e6 * 8 * OVERHEAD / 50e9
    assert found.period_ps / 1e12 == pytest.approx(0.012 + reduce_s, rel=1e-3)
    # Each NIC and each uplink, in both directions.
    assert len(found.rates_bps) == 8
    for link in found.rates_bps:
        (phase,) = found.profile(link, network.links[link][1]).phases
        assert phase.start_ps / 1e12 == pytest.approx(0.012, rel=1e-4)
        assert phase.duration_ps / 1e12 == pytest.approx(reduce_s, rel=1e-3)
        assert phase.rate_bps == pytest.approx(50e9, rel=1e-3)


def test_a_straggler_lengthens_the_period_and_jitter_does_not() -> None:
    found, _ = measured(two_racks({**A, "jitter": 0.1, "stragglers": [{"rank": 1, "slowdown": 1.5}]}))
    assert found.period_ps / 1e12 == pytest.approx(0.018 + 40e6 * 8 * OVERHEAD / 50e9, rel=1e-3)


def test_a_job_takes_the_same_paths_alone_as_in_a_run_with_others() -> None:
    jobs = [accumulating(name, [f"s{4 * i + n}" for i in range(4)]) for n, name in enumerate("abc")]
    tables: Tables = {"fabric": {"testbed": "cassini"}, "jobs": jobs}
    links = simulate({**tables, "run": {"iterations": 1}}).tables["links"]
    for number, name in enumerate("abc"):
        found, network = measured(tables, number)
        # The table of links counts data, and here acknowledgements count too: they take 2% of a NIC.
        crossed = {network.links[link][0] for link, rates in found.rates_bps.items() if rates.max() > 2e9}
        assert crossed == set(links.filter(job=name)["link"])


def test_a_link_that_only_acknowledgements_cross_is_not_shared() -> None:
    # Their data takes different uplinks; acknowledgements of each come back on those of the other.
    tables: Tables = {
        "fabric": {"testbed": "cassini"},
        "jobs": [
            accumulating("a", ["s0", "s1", "s4", "s5"]),
            accumulating("b", ["s2", "s3", "s6", "s7"]),
        ],
    }
    answer = compatibility(tables)
    assert answer.links == ()
    assert answer.score == 1


def test_two_jobs_that_send_a_third_of_the_time_take_turns() -> None:
    answer = compatibility(two_racks(A, B))
    assert answer.score == 1
    assert answer.proven_optimal
    assert [link.name for link in answer.links] == [
        "tor0->spine0",
        "spine0->tor0",
        "tor1->spine0",
        "spine0->tor1",
    ]
    # From a common start both all-reduces take twice as long.
    reduce_s = 40e6 * 8 * OVERHEAD / 50e9
    assert mean_s(answer, "alone") == pytest.approx([0.012 + reduce_s] * 2, rel=1e-3)
    assert mean_s(answer, "sharing") == pytest.approx([0.012 + 2 * reduce_s] * 2, rel=1e-3)
    assert mean_s(answer, "shifted") == pytest.approx([0.012 + reduce_s] * 2, rel=1e-3)


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_the_predicted_time_shift_shortens_iterations_in_a_run(engine: Engine) -> None:
    tables = two_racks({**A, "congestion": "dcqcn"}, {**B, "congestion": "dcqcn"}, run={"iterations": 3})
    answer = compatibility(tables)
    shifted = [
        {**job, "time_shift": f"{answer.time_shifts_s[job['name']] * 1e3} ms"} for job in tables["jobs"]
    ]
    times_s = [
        float(
            simulate({**tables, "jobs": jobs}, engine=engine)
            .tables["iterations"]["iteration_s"]
            .to_numpy()
            .mean()
        )
        for jobs in (tables["jobs"], shifted)
    ]
    alone_s = mean_s(answer, "alone")[0]
    assert times_s[0] > 1.2 * alone_s
    assert times_s[1] == pytest.approx(alone_s, rel=2e-3)


@pytest.mark.parametrize("shift_ms", [0, 1, 3, 6])
def test_the_later_job_is_delayed_by_the_excess_demand_in_the_score(shift_ms: int) -> None:
    tables = two_racks(A, {**B, "time_shift": f"{shift_ms} ms"}, run={"iterations": 1})
    plan = parse_plan(tables)
    network = build_network(plan)
    (demand,) = demands(plan, network).values()
    given = [profiles[0] for profiles in demand.profiles]
    (link, _), *_ = demand.crossings[0]
    asked = [native_profile(demand.on_link(job, link, given[job])) for job in (0, 1)]
    score = _hocket.score(network.links[link][1], asked, [0, shift_ms * 10**9])
    # While both send, the link lacks its own rate once more; it is never idle until both are done.
    late_s = simulate(tables).tables["iterations"]["iteration_s"][1] - given[1].period_ps / 1e12
    assert late_s == pytest.approx((1 - score) * given[1].period_ps / 1e12, abs=2e-5)


def test_jobs_that_send_most_of_the_time_cannot_take_turns() -> None:
    short = [
        accumulating(name, place, compute="1 ms")
        for name, place in (("a", ["s0", "s4"]), ("b", ["s1", "s5"]))
    ]
    answer = compatibility(two_racks(*short))
    # Up u = 6.67 of p = 7.67 ms at the full rate: at least 2u - p overlap, where the excess is one capacity.
    reduce_s = 40e6 * 8 * OVERHEAD / 50e9
    period_s = 0.001 + reduce_s
    assert answer.score == pytest.approx(1 - (2 * reduce_s - period_s) / period_s, abs=2e-3)
    # Sharing, both compute at once, then send in twice the time; shifted, the link never pauses.
    assert answer.speedup.mean == pytest.approx((period_s + reduce_s) / (2 * reduce_s), rel=5e-3)
    assert answer.verdict is Verdict.HELPS


def test_a_training_job_and_a_job_of_phases_take_turns() -> None:
    phases = {
        "name": "p",
        "placement": ["s1", "s5"],
        "period": f"{measured(two_racks(A))[0].period_ps} ps",
        "up": [{"start": "12 ms", "duration": "6 ms", "rate": "50 Gbps"}],
    }
    answer = compatibility(two_racks(A, phases))
    assert answer.score == 1
    # Unlike as they are, they slide apart even without a shift, the slower the longer it takes.
    assert answer.prediction["sharing_p99_s"][0] > 1.02 * mean_s(answer, "alone")[0]
    assert list(answer.prediction["shifted_p99_s"]) == pytest.approx(mean_s(answer, "alone"), rel=1e-3)


def test_of_candidates_the_one_without_a_shared_link_wins() -> None:
    short = [
        accumulating(name, place, compute="1 ms")
        for name, place in (("a", ["s0", "s4"]), ("b", ["s1", "s5"]))
    ]
    candidates = [
        {"name": "across", "placement": {"b": ["s1", "s5"]}},
        {"name": "within a rack", "placement": {"b": ["s1", "s2"]}},
    ]
    answer = compatibility(two_racks(*short, candidates=candidates))
    assert [each.name for each in answer.candidates] == ["within a rack", "across"]
    assert answer.score == 1
    assert mean_s(answer, "sharing") == pytest.approx(mean_s(answer, "alone"))


def test_where_a_pipeline_sends_at_other_times_a_link_has_a_demand_of_its_own() -> None:
    # Two replicas of two stages: s0 and s4 have the first one. The last one, s1 and s6, adds up its gradients
    # before the first one has any; what goes from stage to stage stays in a rack.
    pipeline = {
        "name": "a",
        "placement": ["s0", "s4", "s1", "s6"],
        "training": {"model": "GPT-1", "parallel": {"pipeline": 2}, "microbatches": 2},
    }
    other = accumulating("b", ["s2", "s0", "s1"])
    plan = parse_plan(two_racks(pipeline, other))
    network = build_network(plan)
    (demand,) = demands(plan, network).values()
    shared = {network.links[link][0] for link, _ in demand.crossings[0]}
    assert shared == {"s0->tor0", "tor0->s0", "s1->tor0", "tor0->s1"}
    # Its profile is of one of these, and the others have one of their own.
    assert {job for job, _ in demand.link_profiles} == {0}
    assert len(demand.link_profiles) == 3
    answer = compatibility(plan)
    assert answer.score == pytest.approx(sum(link.score for link in answer.links) / len(answer.links))


def test_the_joint_form_takes_training_jobs() -> None:
    assert compatibility(two_racks(A, B, compat={"joint": True})).score == 1


def test_a_job_that_sends_nothing_disturbs_no_other_job() -> None:
    silent = {**B, "training": {"operations": [{"name": "passes", "compute": "5 ms"}]}}
    answer = compatibility(two_racks(A, silent))
    assert (answer.score, answer.links) == (1, ())


def test_a_job_whose_ranks_drift_apart_has_no_period() -> None:
    alone = {"operations": [{"name": "passes", "compute": "1 ms"}]}
    apart = {**A, "training": alone, "stragglers": [{"rank": 1, "slowdown": 3.0}]}
    with pytest.raises(InputError) as caught:
        compatibility(two_racks(apart, B))
    assert str(caught.value) == (
        "jobs[0].training: job 'a': alone, its iterations begin or end 1 ms to 3 ms apart; "
        "only jobs whose iterations are alike can take turns"
    )
