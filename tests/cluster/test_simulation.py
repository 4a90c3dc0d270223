"""What a cluster run does with what a scheduler says. Iterations take 274 ms on an idle network, of which the
last 148 ms are communication at 29 Gbps; a start costs 5 s, a restart 30 s.
"""

import os
import random
import signal
from collections.abc import Callable, Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket import Run
from hocket.cluster.policies import Policy
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace, parse_trace
from hocket.errors import InputError
from hocket.schedulers import Candidate, Decision, State

MakeTrace = Callable[..., Trace]
# Between the first two racks.
LINKS = {"tor0->spine0", "spine0->tor0", "tor1->spine0", "spine0->tor1"}

MakeScripted = Callable[[Mapping[float, Mapping[str, tuple[int, ...]]]], Any]


def jobs_of(run: Run) -> dict[str, dict[str, Any]]:
    return {row["job"]: row for row in run.tables["jobs"].to_dicts()}


def stints_of(run: Run, job: str) -> list[dict[str, Any]]:
    return run.tables["placements"].filter(pl.col("job") == job).sort("given_s").to_dicts()


def test_a_job_alone_takes_its_start_and_its_iterations(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    trace = make_trace([{"name": "a", "arrival": "10 s"}])
    run = simulate_cluster(trace, Policy("scripted", scripted({0: {"a": (0, 2)}})))
    job = jobs_of(run)["a"]
    assert (job["arrival_s"], job["first_start_s"], job["status"]) == (10, 10, "done")
    assert job["completion_s"] == pytest.approx(5 + 100 * 0.274)
    assert (job["iterations"], job["restarts"], job["slowdown"]) == (100, 0, 1)
    assert job["gpu_hours"] == pytest.approx(2 * job["completion_s"] / 3600)
    assert job["rho"] == pytest.approx((5 + 27.4) / 27.4)


def test_a_moved_job_keeps_its_iterations_and_pays_for_the_move(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    # It computes from 5 s on; at 10 s it is in its 19th iteration, which ends at 5 + 19 × 0.274 = 10.206 s.
    trace = make_trace([{"name": "a"}])
    run = simulate_cluster(trace, Policy("scripted", scripted({0: {"a": (0, 2)}, 10: {"a": (4, 6)}})))
    first, second = stints_of(run, "a")
    assert (first["iterations"], first["gpus"]) == (19, ["s0", "s2"])
    assert first["until_s"] == second["given_s"] == pytest.approx(10.206)
    assert second["start_s"] == pytest.approx(40.206)
    assert second["iterations"] == 81
    job = jobs_of(run)["a"]
    assert (job["restarts"], job["iterations"]) == (1, 100)
    assert job["completion_s"] == pytest.approx(40.206 + 81 * 0.274)


def test_a_grown_job_does_the_same_work_in_fewer_iterations(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    # 19 of 100 iterations on 2 workers leave 81 × 2 worker-iterations, and these are 40.5 on 4.
    trace = make_trace([{"name": "a"}])
    run = simulate_cluster(trace, Policy("scripted", scripted({0: {"a": (0, 2)}, 10: {"a": (0, 2, 4, 6)}})))
    assert [each["iterations"] for each in stints_of(run, "a")] == [19, 41]
    assert jobs_of(run)["a"]["iterations"] == 60


def test_jobs_that_swap_gpus_wait_for_each_other(make_trace: MakeTrace, scripted: MakeScripted) -> None:
    # Their iterations end at 5 + 19 × 0.274 = 10.206 s and at 5.1 + 18 × 0.274 = 10.032 s.
    trace = make_trace([{"name": "a"}, {"name": "b", "arrival": "100 ms"}])
    swap: Mapping[float, Mapping[str, tuple[int, ...]]] = {
        0: {"a": (0, 1), "b": (2, 3)},
        10: {"a": (2, 3), "b": (0, 1)},
    }
    run = simulate_cluster(trace, Policy("scripted", scripted(swap)))
    (a_first, a_second), (b_first, b_second) = (stints_of(run, job) for job in "ab")
    assert b_first["until_s"] == pytest.approx(10.032)
    assert a_first["until_s"] == a_second["given_s"] == b_second["given_s"] == pytest.approx(10.206)
    assert {job["status"] for job in jobs_of(run).values()} == {"done"}


def test_a_decision_during_a_move_replaces_its_target(make_trace: MakeTrace, scripted: MakeScripted) -> None:
    # At 10.1 s `a` has not left yet; it never begins where it was sent at 10 s.
    trace = make_trace([{"name": "a"}])
    moves = {0: {"a": (0, 1)}, 10: {"a": (2, 3)}, 10.1: {"a": (4, 5)}}
    run = simulate_cluster(trace, Policy("scripted", scripted(moves)))
    assert [each["gpus"] for each in stints_of(run, "a")] == [["s0", "s1"], ["s4", "s5"]]


def test_a_job_that_has_not_started_moves_at_once(make_trace: MakeTrace, scripted: MakeScripted) -> None:
    trace = make_trace([{"name": "a"}])
    run = simulate_cluster(trace, Policy("scripted", scripted({0: {"a": (0, 1)}, 3: {"a": (2, 3)}})))
    first, second = stints_of(run, "a")
    assert (first["iterations"], first["until_s"]) == (0, 3)
    assert (second["given_s"], second["start_s"]) == (3, 33)


def test_a_job_loses_its_gpus_and_waits(make_trace: MakeTrace, scripted: MakeScripted) -> None:
    trace = make_trace([{"name": "a"}])
    run = simulate_cluster(trace, Policy("scripted", scripted({0: {"a": (0, 1)}, 10: {}, 50: {"a": (0, 1)}})))
    job = jobs_of(run)["a"]
    assert job["waiting_s"] == pytest.approx(50 - 10.206)
    assert job["iterations"] == 100


def test_the_delays_of_two_jobs_on_one_link_are_recorded(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    # Both start at 5 s and ask for 29 of the 25 Gbps that each gets: 148 ms × 29/25 is 171.68 ms.
    trace = make_trace([{"name": name} for name in "ab"], cluster={"jitter": 0})
    run = simulate_cluster(trace, Policy("scripted", scripted({0: {"a": (0, 2), "b": (1, 3)}})))
    for job in jobs_of(run).values():
        assert job["mean_iteration_s"] == pytest.approx(0.126 + 0.17168)
        assert job["slowdown"] == pytest.approx(0.29768 / 0.274)
    delays = run.tables["delays"]
    used = run.tables["links"].filter(pl.col("job") == "a")
    # Of a ring of two, each sends all iterations' 148 ms at 29 Gbps to the other.
    assert set(used["link"]) == {*LINKS, "s0->tor0", "tor0->s0", "s2->tor1", "tor1->s2"}
    assert used["bytes"].to_list() == [100 * 148 * 29_000_000 // 8] * 8
    took_s = 5 + 100 * 0.29768
    assert used["utilisation"].to_list() == pytest.approx([100 * 0.148 * 29 / 50 / took_s] * 8)
    assert set(delays["link"]) == LINKS
    lost = delays.group_by("job", "other").agg(pl.col("delay_s").sum()).sort("job").rows()
    assert [row[:2] for row in lost] == [("a", "b"), ("b", "a")]
    assert [row[2] for row in lost] == pytest.approx([100 * 0.02368] * 2, rel=1e-6)


def test_a_run_ends_at_until_and_lists_the_remaining_jobs(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    jobs = [{"name": "runs"}, {"name": "waits"}, {"name": "comes", "arrival": "30 s"}]
    run = simulate_cluster(
        make_trace(jobs, until="20 s"), Policy("scripted", scripted({0: {"runs": (0, 1)}}))
    )
    assert {name: job["status"] for name, job in jobs_of(run).items()} == {
        "runs": "running",
        "waits": "waiting",
    }
    # 15 s after its start, of 274 ms each.
    assert jobs_of(run)["runs"]["iterations"] == 54
    assert run.manifest["counts"]["arrived"] == 2
    assert run.manifest["simulated_s"] == 20


def test_a_job_that_runs_at_the_start_is_placed_before_the_scheduler_is_asked(make_trace: MakeTrace) -> None:
    seen: list[tuple[int, ...]] = []

    class Watches:
        def schedule(self, state: State, candidates: int) -> Decision:
            seen.extend(each.gpus for each in state.jobs)
            return Decision([Candidate({each.job.name: each.gpus for each in state.jobs})])

    trace = make_trace([{"name": "a", "placement": ["s3", "s6"]}])
    assert jobs_of(simulate_cluster(trace, Policy("watches", Watches())))["a"]["status"] == "done"
    assert seen == [(3, 6)]


def test_a_scheduler_sees_progress_gpu_time_and_when_gpus_were_given(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    states: list[State] = []

    class Watches:
        def __init__(self) -> None:
            self.scripted = scripted({0: {"a": (0, 1)}, 10: {"a": (1, 2)}, 50: {"a": (1, 2)}})

        def schedule(self, state: State, candidates: int) -> Decision:
            states.append(state)
            decision: Decision = self.scripted.schedule(state, candidates)
            return decision

    simulate_cluster(make_trace([{"name": "a"}]), Policy("watches", Watches()))
    _, at_10, at_50 = states
    (job,) = at_10.jobs
    assert (job.samples_done, job.gpu_ps, job.restarts) == (18 * 2 * 1400, 2 * 10 * 10**12, 0)
    (job,) = at_50.jobs
    # 9.794 s after its restart at 40.206 s.
    assert (job.samples_done, job.restarts) == ((19 + 35) * 2 * 1400, 1)
    assert at_50.given_ps[:3] == (0, 0, 10 * 10**12)


def failing(answer: Callable[[State], Decision]) -> Any:
    """A scheduler that lets jobs run where they stand until 10 s, and then answers so."""

    class Fails:
        def schedule(self, state: State, candidates: int) -> Decision:
            if state.now_ps == 0:
                return Decision([Candidate({"a": (0, 1)})], 10 * 10**12)
            return answer(state)

    return Fails()


def raises(state: State) -> Decision:
    raise KeyError("rack")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (raises, "scheduler 'bad': at 10.000 s: raised KeyError: 'rack'"),
        (
            lambda state: Decision([Candidate({"a": (0, 1), "b": (1, 2)})]),
            "scheduler 'bad': at 10.000 s: candidates[0]: GPU s1 is assigned twice: to 'a' and 'b'",
        ),
        (
            lambda state: Decision([Candidate({"b": ()}), Candidate({"b": (3,)})]),
            "scheduler 'bad': at 10.000 s: candidates[1]: job 'b' gets 1 workers here and 0 in the "
            "scheduler's own choice; candidates may differ only in where jobs run",
        ),
    ],
)
def test_a_scheduler_that_fails_is_named_and_what_ran_is_kept(
    make_trace: MakeTrace, tmp_path: Path, answer: Callable[[State], Decision], message: str
) -> None:
    trace = make_trace([{"name": "a"}, {"name": "b"}])
    with pytest.raises(InputError) as error:
        simulate_cluster(trace, Policy("bad", failing(answer)), directory=tmp_path)
    assert str(error.value) == f"{message}; its tables until then are in {tmp_path}"
    kept = Run.read(tmp_path)
    assert (kept.manifest["status"], kept.manifest["failure"]) == ("failed", message)
    # From 5 s to 10 s, of 274 ms each.
    assert kept.tables["iterations"]["count"].sum() == 18


def test_a_scheduler_that_leaves_all_jobs_waiting_is_stopped(make_trace: MakeTrace) -> None:
    class Hesitates:
        def schedule(self, state: State, candidates: int) -> Decision:
            return Decision([Candidate({})], state.now_ps + 1)

    with pytest.raises(
        InputError, match=r"'hesitates': at 0.000 s: leaves all 2 jobs waiting, starting with 'a', although"
    ):
        simulate_cluster(make_trace([{"name": "a"}, {"name": "b"}]), Policy("hesitates", Hesitates()))


def test_a_scheduler_that_moves_jobs_before_they_progress_is_stopped(make_trace: MakeTrace) -> None:
    class Fidgets:
        def schedule(self, state: State, candidates: int) -> Decision:
            # A start takes 5 s, another one 30 s.
            now_s = state.now_ps // 10**12
            return Decision([Candidate({"a": (now_s % 4,)})], state.now_ps + 10**12)

    with pytest.raises(
        InputError, match="moves jobs before any of them finishes an iteration; this lasted 1,000"
    ):
        simulate_cluster(make_trace([{"name": "a", "workers": 1}]), Policy("fidgets", Fidgets()))


def test_a_scheduler_may_ask_often_while_jobs_run(make_trace: MakeTrace) -> None:
    class Watches:
        def schedule(self, state: State, candidates: int) -> Decision:
            # Some hundred times in each iteration.
            return Decision([Candidate({"a": (0, 1)})], state.now_ps + 10**9)

    run = simulate_cluster(make_trace([{"name": "a", "iterations": 20}]), Policy("watches", Watches()))
    assert jobs_of(run)["a"]["iterations"] == 20


def test_a_run_ends_when_no_event_is_left(make_trace: MakeTrace, scripted: MakeScripted) -> None:
    run = simulate_cluster(make_trace([{"name": "a"}]), Policy("scripted", scripted({0: {}})))
    assert (run.manifest["status"], jobs_of(run)["a"]["status"]) == ("complete", "waiting")


def test_ctrl_c_keeps_what_was_finished(make_trace: MakeTrace, tmp_path: Path) -> None:
    def interrupts(state: State) -> Decision:
        os.kill(os.getpid(), signal.SIGINT)
        return Decision([Candidate({"a": (0, 1)})])

    run = simulate_cluster(make_trace([{"name": "a"}]), Policy("x", failing(interrupts)), directory=tmp_path)
    assert run.interrupted
    assert Run.read(tmp_path).tables["iterations"]["count"].sum() == 18


class Restless:
    """Moves, grows and shrinks jobs at random, often before they have got where they were sent."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asked = 0

    def schedule(self, state: State, candidates: int) -> Decision:
        self._asked += 1
        stream = random.Random(f"{self._seed} {self._asked}")
        free = list(range(len(state.cluster.gpus)))
        stream.shuffle(free)
        placement = {}
        for each in state.jobs:
            fits = [size for size in each.job.sizes if size <= len(free)]
            stays = stream.random() < 0.3
            count = 0 if stays or not fits else stream.choice(fits)
            placement[each.job.name] = tuple(free.pop() for _ in range(count))
        # After a dozen times all may come to their end.
        settled = self._asked > 12
        if settled:
            return self._all_in_turn(state)
        return Decision([Candidate(placement)], state.now_ps + stream.randrange(1, 60 * 10**12))

    def _all_in_turn(self, state: State) -> Decision:
        """The job that came first, on what it asked for."""
        first = state.jobs[0].job
        return Decision([Candidate({first.name: tuple(range(first.requested))})])


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), arrivals=st.lists(st.integers(0, 100), min_size=1, max_size=5))
def test_whatever_a_scheduler_does_no_gpu_has_two_jobs_and_no_work_is_lost(
    make_trace: MakeTrace, seed: int, arrivals: list[int]
) -> None:
    jobs = [{"name": f"j{number}", "arrival": f"{time} s"} for number, time in enumerate(arrivals)]
    run = simulate_cluster(make_trace(jobs, seed=seed, cluster={"jitter": 0.05}), Policy("r", Restless(seed)))
    placements = run.tables["placements"]
    held = placements.explode("gpus").sort("gpus", "given_s")
    for _, stints in held.group_by("gpus"):
        for before, after in pairwise(stints.sort("given_s").to_dicts()):
            assert before["until_s"] <= after["given_s"]
    for name, job in jobs_of(run).items():
        assert job["status"] == "done"
        mine = run.tables["iterations"].filter(pl.col("job") == name)
        # 100 iterations of 2 × 1400 samples, and less than one iteration on top.
        samples = (mine["count"] * mine["workers"] * mine["batch_size"]).sum()
        assert 280_000 <= samples < 280_000 + 8 * 1400
        spans = mine.sort("start_s").select("iteration", "start_s", "end_s").to_dicts()
        assert [each["iteration"] for each in spans] == list(range(len(spans)))
        for one, next_one in combinations(spans, 2):
            assert one["end_s"] <= next_one["start_s"] + 1e-9


def test_jobs_that_contend_lose_the_goodput_of_the_fabric(
    make_trace: MakeTrace, scripted: MakeScripted
) -> None:
    # Both cross the uplinks of racks 0 and 1, and compute for 126 ms. What takes 148 ms at 29 Gbps takes
    # 214.6 ms at half of 0.8 × 50 Gbps.
    trace = make_trace([{"name": "a"}, {"name": "b"}])
    fabric = {"clos": trace.resolved()["given"]["fabric"]["clos"], "contended_goodput": [0.8]}
    lossy = parse_trace({**trace.resolved()["given"], "fabric": fabric})
    run = simulate_cluster(lossy, Policy("scripted", scripted({0: {"a": (0, 2), "b": (1, 3)}})))
    for job in jobs_of(run).values():
        assert job["completion_s"] == pytest.approx(5 + 100 * (0.126 + 0.2146), rel=1e-6)


def test_a_run_that_skips_ahead_says_what_it_repeated(make_trace: MakeTrace, scripted: MakeScripted) -> None:
    # `a` and `b` share the links of two racks; `c` has one server and no link.
    jobs = [
        {"name": name, "workers": workers, "iterations": 2_000}
        for name, workers in zip("abc", (2, 2, 1), strict=True)
    ]
    placement = {"a": (0, 2), "b": (1, 3), "c": (4,)}
    policy = Policy("scripted", scripted({0: placement}))
    settings = {"jitter": 0.01}
    full = simulate_cluster(make_trace(jobs, cluster=settings), policy)
    run = simulate_cluster(make_trace(jobs, cluster={**settings, "skip_ahead": True}), policy)
    assert "skip_ahead" not in full.manifest
    skipped = run.manifest["skip_ahead"]
    assert skipped["iterations"] == 6_000
    assert 3_000 < skipped["repeated"] < 6_000
    counted = run.tables["iterations"].group_by("job").agg(pl.col("count").sum())
    assert counted.sort("job").rows() == [("a", 2_000), ("b", 2_000), ("c", 2_000)]
    for job, slowdown in ((job, mean_slowdown(full, job)) for job in "abc"):
        assert mean_slowdown(run, job) == pytest.approx(slowdown, rel=0.02)
    assert mean_slowdown(full, "a") > 1.05


def mean_slowdown(run: Run, job: str) -> float:
    rows = run.tables["iterations"].filter(pl.col("job") == job)
    total_s = pl.col("iteration_s", "ideal_s") * pl.col("count")
    iteration_s, ideal_s = rows.select(total_s.sum()).row(0)
    return float(iteration_s / ideal_s)
