"""What Crux, MLTCP and perfect routing do to jobs that a script places: jobs of VGG16 that communicate for
the last 148 ms of 274 at 29 Gbps, on links of 50 Gbps.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hocket import Run
from hocket.cluster.explain import explain
from hocket.cluster.policies import Policy
from hocket.cluster.replay import replay
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace, parse_trace
from hocket.errors import InputError

MakeTrace = Callable[..., Trace]
MakeScripted = Callable[[Mapping[float, Mapping[str, tuple[int, ...]]]], Any]

FIRST, LAST = "VGG16", "VGG19"
"""Crux puts a job of the first model before one of the second, at the same batch size and workers."""

ACROSS = {"a": (0, 2), "b": (1, 3)}
"""Two jobs between the first two racks of `make_trace`, whose links they share."""


def slowdowns(run: Run) -> dict[str, float]:
    return dict(run.tables["jobs"].select("job", "slowdown").rows())


def times_of(run: Run) -> pl.DataFrame:
    """When iterations start and end."""
    return run.tables["iterations"].select("job", "iteration", "start_s", "end_s")


def crux_notes(run: Run) -> list[dict[str, Any]]:
    return [json.loads(why)["crux"] for why in run.tables["decisions"]["why"]]


def test_the_job_that_crux_puts_first_runs_as_on_an_idle_network(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    trace = make_trace([{"name": "a"}, {"name": "b", "model": "VGG19"}])
    fair = simulate_cluster(trace, Policy("scripted", scripted({0: ACROSS})))
    crux = simulate_cluster(trace, Policy("scripted", scripted({0: ACROSS}), crux=True))
    assert all(value > 1.01 for value in slowdowns(fair).values())
    queues = crux_notes(crux)[0]["queue"]
    (first,) = (job for job, queue in queues.items() if queue == 0)
    assert sorted(queues.values()) == [0, 1]
    assert slowdowns(crux)[first] == 1
    assert explain(crux, at_s=6.0).said["crux"]["queue"] == queues


def test_crux_puts_the_jobs_of_one_queue_on_equal_terms(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    trace = make_trace([{"name": "a"}, {"name": "b"}])
    one_queue = parse_trace(
        {**trace.resolved()["given"], "fabric": {**trace.resolved()["given"]["fabric"], "priority_queues": 1}}
    )
    fair, crux = (
        simulate_cluster(one_queue, Policy("scripted", scripted({0: ACROSS}), crux=on))
        for on in (False, True)
    )
    assert_frame_equal(times_of(fair), times_of(crux))


def test_crux_moves_a_running_job_behind_one_that_arrives(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    trace = make_trace([{"name": "a", "model": LAST}, {"name": "b", "model": FIRST, "arrival": "10 s"}])
    script = scripted({0: {"a": (0, 2)}, 10: ACROSS})
    run = simulate_cluster(trace, Policy("scripted", script, crux=True))
    alone, both, *_ = crux_notes(run)
    assert (alone["queue"], both["queue"]) == ({"a": 0}, {"b": 0, "a": 1})
    assert slowdowns(run)["b"] == 1
    assert slowdowns(run)["a"] > 1


def test_with_mltcp_jobs_that_start_together_slide_apart(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    def late_s(*, mltcp: bool, **options: float) -> float:
        jobs = [{"name": name, "iterations": 400} for name in ACROSS]
        trace = make_trace(jobs, cluster={"jitter": 0.01}, mltcp=options)
        run = simulate_cluster(trace, Policy("scripted", scripted({0: ACROSS}), mltcp=mltcp))
        late = run.tables["iterations"].filter(pl.col("iteration") >= 200)
        return float(np.average(late["iteration_s"], weights=late["count"]))

    # Each needs 148 ms of 274 for itself, which leaves an overlap of 22 ms.
    assert late_s(mltcp=True) < 0.278
    assert late_s(mltcp=False) > 0.285
    # With a weight that hardly grows, they stay together.
    assert late_s(mltcp=True, slope=1 / 64, intercept=16) > 0.285


def crossing(racks: int, spines: int, uplink: str, jobs: int) -> Trace:
    """Jobs that each have a worker in either of two racks."""
    clos = {"racks": racks, "servers_per_rack": jobs, "gpus_per_server": 1, "spines": spines}
    return parse_trace(
        {
            "fabric": {"clos": {**clos, "cables_per_spine": 1, "nic": "50 Gbps", "uplink": uplink}},
            "cluster": {"jitter": 0},
            "jobs": [
                {"name": f"j{n}", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 20}
                for n in range(jobs)
            ],
        }
    )


def over_spines(scripted: MakeScripted, trace: Trace, **fields: bool) -> Run:
    count = len(trace.jobs)
    placement = {f"j{n}": (n, n + count) for n in range(count)}
    return simulate_cluster(trace, Policy("scripted", scripted({0: placement}), **fields))


def test_crux_and_perfect_routing_remove_the_collisions_of_ecmp(scripted: MakeScripted) -> None:
    # Four jobs of 29 Gbps, and four spines of 50: a spine is too small for two of them.
    trace = crossing(racks=2, spines=4, uplink="50 Gbps", jobs=4)
    assert max(slowdowns(over_spines(scripted, trace)).values()) > 1.05
    for fields in ({"crux": True}, {"perfect_routing": True}):
        assert set(slowdowns(over_spines(scripted, trace, **fields)).values()) == {1}


def test_perfect_routing_makes_of_two_spines_one_of_their_rates(scripted: MakeScripted) -> None:
    # Two jobs want 58 Gbps of 50: over-subscription stays.
    halves = over_spines(scripted, crossing(2, 2, "25 Gbps", jobs=2), perfect_routing=True)
    whole = over_spines(scripted, crossing(2, 1, "50 Gbps", jobs=2))
    compared = ["job", "iteration", "start_s", "end_s"]
    assert_frame_equal(
        halves.tables["iterations"].select(compared), whole.tables["iterations"].select(compared)
    )
    assert min(slowdowns(halves).values()) > 1.05
    halves_bytes, whole_bytes = (
        run.tables["links"].filter(pl.col("link").str.contains("tor0->spine"))["bytes"].sum()
        for run in (halves, whole)
    )
    assert halves_bytes == pytest.approx(whole_bytes, rel=1e-6)


def test_cassini_finds_slots_for_spread_flows(scripted: MakeScripted) -> None:
    halves = over_spines(scripted, crossing(2, 2, "25 Gbps", jobs=2), perfect_routing=True, cassini=True)
    whole = over_spines(scripted, crossing(2, 1, "50 Gbps", jobs=2), cassini=True)
    assert halves.tables["decisions"]["score"][0] is not None
    compared = ["job", "iteration", "start_s", "end_s"]
    assert_frame_equal(
        halves.tables["iterations"].select(compared), whole.tables["iterations"].select(compared)
    )


@pytest.mark.parametrize("suffix", ["crux", "mltcp", "perfect-routing"])
def test_marks_are_not_counted_and_runs_not_replayed(make_trace: MakeTrace, suffix: str) -> None:
    run = simulate_cluster(make_trace([{"name": "a"}]), f"fifo+{suffix}")
    assert run.tables["jobs"]["marks"].to_list() == [None]
    with pytest.raises(InputError, match=f"'fifo\\+{suffix}': cannot be replayed, as a plan cannot"):
        replay(run, 6.0, 1.0)
