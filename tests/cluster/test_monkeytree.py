"""What MonkeyTree does to jobs that a script places on four racks of two GPUs: jobs of VGG16 that communicate
for the last 148 ms of 274 at 29 Gbps, with one uplink of 50 Gbps in each rack.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hocket import Run
from hocket.cluster.explain import explain
from hocket.cluster.policies import Policy
from hocket.cluster.replay import replay
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace
from hocket.schedulers import Candidate, Decision, State

MakeTrace = Callable[..., Trace]
Placement = Mapping[str, tuple[int, ...]]

FULL = {"c": (4, 5), "d": (6, 7)}
"""Jobs that leave no room beside two others."""
SPLIT = {"a": (0, 2), "b": (1, 3)}
"""Two jobs across the first two racks."""


class Placing:
    """Places each job where `places` says, and leaves it where it is then. It records what it sees."""

    def __init__(self, places: Placement) -> None:
        self._places = places
        self.states: list[State] = []

    def schedule(self, state: State, candidates: int) -> Decision:
        """Jobs that run stay."""
        self.states.append(state)
        placement = {each.job.name: each.gpus or self._places[each.job.name] for each in state.jobs}
        return Decision([Candidate(placement)])


def run_of(trace: Trace, places: Placement, **fields: bool) -> Run:
    fields = {"monkeytree": True, **fields}
    return simulate_cluster(trace, Policy("placing", Placing(places), **fields))


def slowdowns(run: Run) -> dict[str, float]:
    return dict(run.tables["jobs"].select("job", "slowdown").rows())


def notes(run: Run) -> list[dict[str, Any]]:
    """MonkeyTree's notes on the decisions in which it moved workers."""
    found = [json.loads(why)["monkeytree"] for why in run.tables["decisions"]["why"]]
    return [each for each in found if each is not None]


def fragmented(make_trace: MakeTrace, iterations: int = 1_000, **options: Any) -> Trace:
    """Jobs a, c and d, and 36 iterations of 274 ms later b, in step with a; all GPUs are then taken."""
    jobs = [
        {"name": name, "iterations": iterations, "arrival": "9864 ms" if name == "b" else "0 s"}
        for name in ("a", "c", "d", "b")
    ]
    return make_trace(jobs, monkeytree={"epoch": "1 s", **options})


def test_two_jobs_split_over_two_racks_are_put_back_and_run_at_ideal_speed(make_trace: MakeTrace) -> None:
    trace = fragmented(make_trace)
    split = run_of(trace, {**SPLIT, **FULL}, monkeytree=False)
    assert min(slowdowns(split)[name] for name in SPLIT) > 1.05
    run = run_of(trace, {**SPLIT, **FULL})
    assert slowdowns(run) == dict.fromkeys("acdb", 1.0)
    # Job b starts beside its other worker; the one of a whose GPU it gets has migrated.
    (step,) = notes(run)[0]["steps"]
    assert notes(run)[0]["migrated workers"] == 1
    assert {name: move["costs GPU-s"] for name, move in step["jobs"].items()} == {"a": 18.0, "b": 0.0}
    assert step["saves GPU-s"] > 18
    assert step["proven"]


def test_a_migration_costs_its_own_time_and_not_that_of_a_restart(make_trace: MakeTrace) -> None:
    run = run_of(fragmented(make_trace, migration="7 s"), {**SPLIT, **FULL})
    stints = run.tables["placements"].filter(pl.col("job") == "a").sort("given_s")
    assert (stints["start_s"] - stints["given_s"]).to_list() == pytest.approx([5.0, 7.0])
    assert run.tables["jobs"].filter(pl.col("job") == "a")["restarts"].item() == 1
    # It loses no iteration.
    assert stints["iterations"].sum() == 1_000


def test_a_migrated_worker_keeps_its_lease(make_trace: MakeTrace) -> None:
    scheduler = Placing({**SPLIT, **FULL})
    simulate_cluster(fragmented(make_trace), Policy("placing", scheduler, monkeytree=True))
    # When c and d are done, a and b go on.
    seen = scheduler.states[2]
    since_s = {each.job.name: [seen.given_ps[gpu] / 1e12 for gpu in each.gpus] for each in seen.jobs}
    assert since_s == {"a": [0, 0], "b": [9.864, 9.864]}


def test_jobs_stay_if_moving_them_costs_more_than_it_saves(make_trace: MakeTrace) -> None:
    # 40 iterations of 274 ms lose about a second on each of two GPUs; a migration costs 9 of both.
    trace = fragmented(make_trace, iterations=40)
    run = run_of(trace, {**SPLIT, **FULL})
    assert notes(run) == []
    plain = run_of(trace, {**SPLIT, **FULL}, monkeytree=False)
    assert_frame_equal(run.tables["iterations"], plain.tables["iterations"])


def test_jobs_that_do_not_contend_stay(make_trace: MakeTrace) -> None:
    # Each crosses uplinks that no other uses.
    places = {"a": (0, 2), "b": (4, 6)}
    run = run_of(make_trace([{"name": name} for name in places]), places)
    assert notes(run) == []
    assert slowdowns(run) == {"a": 1.0, "b": 1.0}


def test_an_epoch_has_at_most_its_migrations_and_the_next_one_continues(make_trace: MakeTrace) -> None:
    # Two pairs of jobs, and each pair needs a swap of two workers. Without a decision in between, the plan of
    # the first epoch waits for its end.
    places = {**SPLIT, "c": (4, 6), "d": (5, 7)}
    arrivals = {"a": 0, "c": 0, "b": 10, "d": 20}
    jobs = [{"name": name, "iterations": 1_000, "arrival": f"{at} s"} for name, at in arrivals.items()]
    run = run_of(make_trace(jobs, monkeytree={"epoch": "30 s", "moves": 2}), places)
    planned = run.tables["decisions"].filter(pl.col("reason") == "an epoch of MonkeyTree")
    assert planned["at_s"].to_list()[:2] == [30.0, 60.0]
    assert [each["migrated workers"] for each in notes(run)] == [2, 2]
    last = run.tables["placements"].group_by("job").agg(pl.col("gpus").sort_by("given_s").last())
    assert sorted(last["gpus"].to_list()) == [["s0", "s1"], ["s2", "s3"], ["s4", "s5"], ["s6", "s7"]]


def test_slots_are_assigned_after_the_moves(make_trace: MakeTrace) -> None:
    run = run_of(fragmented(make_trace), {**SPLIT, **FULL}, cassini=True)
    why = json.loads(run.tables["decisions"]["why"][1])
    assert why["monkeytree"] is not None
    assert why["cassini"]["slots"] == {}
    assert slowdowns(run) == dict.fromkeys("acdb", 1.0)


def test_paths_that_balance_the_load_need_fewer_migrations(make_trace: MakeTrace) -> None:
    # Two cables for two flows: ECMP may put both on one, Crux does not.
    clos = {"racks": 2, "servers_per_rack": 2, "gpus_per_server": 1, "spines": 2, "cables_per_spine": 1}
    fabric = {"clos": {**clos, "nic": "50 Gbps", "uplink": "50 Gbps"}}
    trace = make_trace([{"name": name, "iterations": 5_000} for name in "ab"], fabric=fabric)
    assert notes(run_of(trace, SPLIT))
    for fields in ({"crux": True}, {"perfect_routing": True}):
        run = run_of(trace, SPLIT, **fields)
        assert notes(run) == []
        assert set(slowdowns(run).values()) == {1.0}


def test_the_notes_of_a_move_are_explained(make_trace: MakeTrace) -> None:
    run = run_of(fragmented(make_trace), {**SPLIT, **FULL})
    said = explain(run, at_s=11.0).said["monkeytree"]
    assert said == notes(run)[0]
    assert said["steps"][0]["jobs"]["a"]["from"] == "1 in rack 0 + 1 in rack 1"


def test_a_window_after_a_migration_is_replayed(make_trace: MakeTrace) -> None:
    jobs = [{"name": name, "iterations": 1_000} for name in "ab"]
    run = simulate_cluster(make_trace(jobs), "random+monkeytree")
    replayed = replay(run, 100.0, 5.0, engine="flow")
    compared = replayed.comparison()
    assert compared["iteration_s"].to_list() == pytest.approx(compared["iteration_s_replayed"].to_list())
