"""Runs whose times can be calculated by hand, reproducible runs, and runs that end early."""

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Tables, half
from tests.conftest import shared_link as on_link
from tests.engines.conftest import iteration_times_s

from hocket import InputError, Run, simulate
from hocket.results import RunWriter, frame
from hocket.results.times import in_ps


def shared_link(*jobs: Tables, iterations: int = 50, **changes: object) -> Tables:
    """A plan of `jobs` on one link of 50 Gbps, for `iterations` iterations."""
    return on_link(*jobs, **{"run": {"iterations": iterations}, **changes})


def communication_times_s(run: Run, job: str) -> list[float]:
    """The communication times of `job`, in order."""
    return run.tables["iterations"].filter(pl.col("job") == job)["communication_s"].to_list()


def test_a_job_alone_takes_its_period() -> None:
    run = simulate(shared_link(half("a"), iterations=7))
    assert iteration_times_s(run, "a") == [0.18] * 7
    assert communication_times_s(run, "a") == [0.09] * 7


def test_two_jobs_that_start_together_get_half_of_the_link_each() -> None:
    # 3.6 Gbit at 25 Gbps take 144 ms, and 90 ms of compute follow.
    run = simulate(shared_link(half("a"), half("b")))
    for name in "ab":
        assert communication_times_s(run, name) == pytest.approx([0.144] * 50)
        assert iteration_times_s(run, name) == pytest.approx([0.234] * 50)


def test_a_link_for_which_jobs_contend_loses_goodput_by_their_number() -> None:
    lossy = {"capacity": "50 Gbps", "contended_goodput": [0.8, 0.6]}
    # 3.6 Gbit at 20 Gbps take 180 ms, at 10 Gbps 360 ms; 90 ms of compute follow.
    two = simulate(shared_link(half("a"), half("b"), link=lossy))
    assert iteration_times_s(two, "a") == iteration_times_s(two, "b") == pytest.approx([0.27] * 50)
    three = simulate(shared_link(half("a"), half("b"), half("c"), link=lossy))
    assert iteration_times_s(three, "a") == pytest.approx([0.45] * 50)
    in_turn = simulate(shared_link(half("a"), half("b", time_shift="90 ms"), link=lossy))
    assert iteration_times_s(in_turn, "b") == pytest.approx([0.18] * 50)


def test_jobs_shifted_by_half_a_period_never_contend() -> None:
    run = simulate(shared_link(half("a"), half("b", time_shift="90 ms")))
    assert iteration_times_s(run, "a") == iteration_times_s(run, "b") == pytest.approx([0.18] * 50)
    delayed = run.tables["iterations"].filter(pl.col("job") == "b")["delayed_s"].to_list()
    assert delayed == [0.09] + [0.0] * 49


def test_a_weight_of_4_to_1_gives_40_and_10_of_50_gbps() -> None:
    # While a sends for 90 ms, b sends 0.9 of its 3.6 Gbit; the rest takes 67.5 ms at its own 40 Gbps.
    run = simulate(shared_link(half("a", share={"weighted": 4}), half("b"), iterations=1))
    assert communication_times_s(run, "a") == pytest.approx([0.09])
    assert communication_times_s(run, "b") == pytest.approx([0.1575])
    assert run.manifest["counts"]["share_or_priority_decided"] > 0


def test_the_higher_priority_is_served_first_while_queues_last() -> None:
    jobs = (half("a", priority=1), half("b"))
    served = simulate(shared_link(*jobs, iterations=1))
    assert communication_times_s(served, "b") == pytest.approx([0.09])
    assert communication_times_s(served, "a") == pytest.approx([0.1575])
    one_queue = {"capacity": "50 Gbps", "priority_queues": 1}
    alike = simulate(shared_link(*jobs, iterations=1, link=one_queue))
    assert communication_times_s(alike, "a") == communication_times_s(alike, "b") == pytest.approx([0.144])


def test_weights_that_grow_with_progress_drive_two_jobs_apart_and_equal_ones_do_not() -> None:
    # HotNets'22 §4(i): who is ahead within a phase gets further ahead, until the phases no longer overlap.
    def last_iteration_s(share: object) -> float:
        jobs = (half("a", share=share), half("b", share=share, arrival="10 ms"))
        return max(iteration_times_s(simulate(shared_link(*jobs)), name)[-1] for name in "ab")

    assert last_iteration_s({"adaptive": 1}) == pytest.approx(0.18)
    assert last_iteration_s("fair") > 0.2


def test_a_job_that_has_drifted_by_5_percent_returns_to_its_slot() -> None:
    shifted = half("b", time_shift="90 ms", jitter=0.05, readjust=True)
    run = simulate(shared_link(half("a"), shifted, iterations=300))
    adjustments = run.tables["adjustments"]
    assert adjustments.height == run.manifest["counts"]["time_shift_adjustments"] > 0
    assert set(adjustments["job"]) == {"b"}
    assert min(adjustments["deviation_s"].abs()) > 0.05 * 0.18
    left_alone = simulate(shared_link(half("a"), {**shifted, "readjust": False}, iterations=300))
    assert left_alone.tables["adjustments"].is_empty()


def test_padding_makes_every_iteration_last_the_given_time() -> None:
    run = simulate(shared_link(half("a", pad_to="200 ms"), iterations=10))
    starts_ps = run.tables["iterations"].select(in_ps("start_s"))["start_s"].to_list()
    assert [later - earlier for earlier, later in pairwise(starts_ps)] == [200 * 10**9] * 9


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_a_first_iteration_that_begins_part_way_ends_earlier(engine: Any) -> None:
    # Of 90 ms at 40 Gbps and 90 ms of computation, 10 ms and 90 ms are left, which a shift does not delay.
    rest = {"period": "100 ms", "up": [{"start": "0 ms", "duration": "10 ms", "rate": "40 Gbps"}]}
    plan = shared_link(half("a", first=rest, time_shift="70 ms"), iterations=3)
    iterations = simulate(plan, engine=engine).tables["iterations"]
    assert iterations["start_s"][0] == 0
    assert iterations["iteration_s"].to_list() == pytest.approx([0.1, 0.18, 0.18], abs=1e-4)
    assert iterations["communication_s"].to_list() == pytest.approx([0.01, 0.09, 0.09], abs=1e-4)


def test_a_job_ends_after_its_own_iterations_and_a_run_at_its_time() -> None:
    run = simulate(shared_link(half("a", iterations=3), half("b", arrival="100 ms"), run={"until": "1 s"}))
    assert run.tables["jobs"]["iterations"].to_list() == [3, 4]
    assert run.manifest["simulated_s"] == 1.0


def test_a_candidate_places_the_jobs() -> None:
    ends = [(f"s{number}", "t1") for number in (1, 2, 3, 4)]
    links = [{"ends": list(pair), "rate": "50 Gbps"} for pair in ends]
    candidates = [
        {"name": "meeting", "placement": {"a": ["s1", "s2"], "b": ["s1", "s2"]}},
        {"name": "apart", "placement": {"a": ["s1", "s2"], "b": ["s3", "s4"]}},
    ]
    plan = {
        "fabric": {"links": links},
        "run": {"iterations": 5},
        "jobs": [half("a"), half("b")],
        "candidates": candidates,
    }
    assert iteration_times_s(simulate(plan, candidate="meeting"), "a") == pytest.approx([0.234] * 5)
    assert iteration_times_s(simulate(plan, candidate="apart"), "a") == pytest.approx([0.18] * 5)
    with pytest.raises(InputError, match="no candidate is called 'none'; known: 'meeting', 'apart'"):
        simulate(plan, candidate="none")
    with pytest.raises(InputError, match=r"jobs\[0\]\.placement: only candidates place job 'a'; choose one"):
        simulate(plan)


def test_several_batch_sizes_are_refused() -> None:
    job = {"name": "v", "workload": "VGG16", "batch_size": [1200, 1400], "workers": 2}
    with pytest.raises(InputError, match=r"jobs\[0\]\.batch_size: a run needs one batch size: got 2"):
        simulate(shared_link(job))


def test_a_refusal_by_the_engine_is_an_input_error_that_names_the_job() -> None:
    longest = "9223372036854775807 ps"
    job = half("a", period=longest, up=[{"start": "0 ms", "duration": longest, "rate": "1 Gbps"}])
    with pytest.raises(InputError, match='job "a"'):
        simulate(shared_link(job))


def noisy(seed: int) -> Tables:
    jobs = [
        half("a", jitter=0.1, time_shift="3 ms", clock_error="1 ms", readjust=True),
        half("b", jitter=0.1),
        half("c", share={"adaptive": 1.5}, priority=3),
    ]
    return shared_link(*jobs, seed=seed, run={"iterations": 40, "record_rates_until": "2 s"})


def files(directory: Path) -> dict[str, bytes]:
    """Every table of a run, as bytes."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.parquet"))}


def test_the_same_plan_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    here = files(simulate(noisy(7)).write(tmp_path / "here"))
    (tmp_path / "plan.json").write_text(json.dumps(noisy(7)), encoding="utf-8")
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "hocket", "run", "plan.json", "--out", hash_seed]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120)
        assert files(tmp_path / hash_seed) == here


def test_the_seed_changes_jitter_and_nothing_else() -> None:
    one, again, other = (simulate(noisy(seed)).tables for seed in (1, 1, 2))
    assert all(one[name].equals(again[name]) for name in one)
    assert not one["iterations"].equals(other["iterations"])
    without = [simulate(shared_link(half("a"), half("b"), seed=seed)).tables for seed in (1, 2)]
    assert all(without[0][name].equals(without[1][name]) for name in without[0])


def test_progress_is_reported_in_order_and_an_error_in_its_callback_ends_the_run() -> None:
    told: list[tuple[float, int, int | None]] = []
    plan = shared_link(half("a"), half("b"), iterations=100_000)
    simulate(plan, progress=lambda *at: told.append(at))
    assert len(told) > 2
    assert told == sorted(told)
    assert {total for *_, total in told} == {200_000}

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simulate(plan, progress=fail)


def test_ctrl_c_keeps_finished_rows_and_marks_the_run_as_interrupted(tmp_path: Path) -> None:
    calls = 0

    def press_at_the_third(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            signal.raise_signal(signal.SIGINT)

    run = simulate(shared_link(half("a"), half("b"), iterations=10**9), progress=press_at_the_third)
    assert run.interrupted
    assert run.manifest["status"] == "interrupted"
    iterations = run.tables["iterations"]
    assert iterations.height == run.tables["jobs"]["iterations"].sum() > 1_000
    assert iterations["end_s"].max() <= run.manifest["simulated_s"]
    assert Run.read(run.write(tmp_path)).interrupted


def test_ctrl_c_in_a_long_run_keeps_the_rows_that_are_on_disk_and_the_last_ones(tmp_path: Path) -> None:
    calls = 0

    def press_at_the_tenth(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 10:
            signal.raise_signal(signal.SIGINT)

    plan = shared_link(half("a"), half("b"), iterations=10**9)
    simulate(plan, directory=tmp_path, progress=press_at_the_tenth)
    run = Run.read(tmp_path)
    assert run.interrupted
    iterations = run.tables["iterations"]
    # Ten times 65,536 events, of which each of these iterations has two.
    assert iterations.height == run.manifest["counts"]["iterations"] > 300_000
    finished = iterations.group_by("job").len().sort("job")["len"]
    assert finished.to_list() == run.tables["jobs"]["iterations"].to_list()
    assert iterations["end_s"].is_sorted()


def test_a_run_on_disk_holds_few_rows_however_long_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, held = 0, []
    append = RunWriter.append

    def counted(writer: RunWriter, name: str, columns: Any) -> None:
        nonlocal written
        append(writer, name, columns)
        if name in ("iterations", "phases"):
            written += frame(columns).height

    monkeypatch.setattr(RunWriter, "append", counted)
    plan = shared_link(half("a"), half("b"), iterations=300_000)
    # Each iteration is a row, and so is its phase.
    simulate(plan, directory=tmp_path, progress=lambda _, done, __: held.append(2 * done - written))
    assert written == 4 * 300_000
    # At most five tables of half a batch: four wait and one is being written; another batch is filling.
    assert max(held) < 4 * 65_536


def test_rows_that_cannot_be_written_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = RunWriter.append

    def fails(writer: RunWriter, name: str, columns: Any) -> None:
        append(writer, name, columns)
        if frame(columns).height > 0:
            raise InputError("the disk is full")

    monkeypatch.setattr(RunWriter, "append", fails)
    with pytest.raises(InputError, match="the disk is full"):
        simulate(shared_link(half("a"), iterations=10**9), directory=tmp_path)


@st.composite
def small_runs(draw: st.DrawFn) -> Tables:
    """Up to four jobs of any policy with a phase or two, and a few iterations."""
    jobs = []
    for number in range(draw(st.integers(1, 4))):
        edges = sorted(draw(st.lists(st.integers(0, 1000), min_size=4, max_size=4, unique=True)))
        up = [
            {"start": f"{start} us", "duration": f"{end - start} us", "rate": f"{rate} Mbps"}
            for start, end, rate in zip(
                edges[::2], edges[1::2], draw(st.tuples(*[st.integers(1000, 50_000)] * 2)), strict=True
            )
        ]
        jobs.append(
            {
                "name": f"j{number}",
                "period": "1 ms",
                "up": up,
                "priority": draw(st.integers(0, 9)),
                "share": draw(st.sampled_from(["fair", {"weighted": 3}, {"adaptive": 2}])),
                "arrival": f"{draw(st.integers(0, 2000))} us",
                "jitter": draw(st.sampled_from([0, 0.2])),
            }
        )
    link = {"capacity": "50 Gbps", "priority_queues": draw(st.sampled_from([1, 2, 8]))}
    return shared_link(*jobs, link=link, iterations=draw(st.integers(1, 20)), seed=draw(st.integers(0, 99)))


@settings(max_examples=60, deadline=None)
@given(small_runs())
def test_every_byte_is_sent_once_and_no_link_or_job_exceeds_its_rate(plan: Tables) -> None:
    run = simulate(plan)
    assert run.tables["jobs"]["iterations"].to_list() == [plan["run"]["iterations"]] * len(plan["jobs"])
    asked_bytes = sum(
        round(int(phase["duration"].split()[0]) * int(phase["rate"].split()[0]) / 8)
        for job in plan["jobs"]
        for phase in job["up"]
    )
    phases = run.tables["phases"]
    # A phase's bytes are rounded to whole ones.
    assert phases["bytes"].sum() == pytest.approx(asked_bytes * plan["run"]["iterations"], abs=phases.height)
    assert run.tables["links"]["utilisation"].sum() <= 1 + 1e-9
    rates_bps = {
        (job["name"], n): int(up["rate"].split()[0]) * 1e6
        for job in plan["jobs"]
        for n, up in enumerate(job["up"])
    }
    for row in phases.iter_rows(named=True):
        lasted_s = row["end_s"] - row["start_s"]
        # Half a byte is the rounding of `bytes`.
        assert (row["bytes"] - 0.5) * 8 / lasted_s <= rates_bps[row["job"], row["phase"]] * (1 + 1e-6)


def test_the_manifest_says_how_many_jobs_share_a_queue() -> None:
    up = [{"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}]
    jobs = [{"name": f"j{n}", "period": "180 ms", "up": up, "priority": n} for n in range(4)]
    plan = {"link": {"capacity": "50 Gbps", "priority_queues": 2}, "run": {"iterations": 1}, "jobs": jobs}
    # Priorities 1, 2 and 3 share the last queue.
    assert simulate(plan).manifest["jobs_per_queue"] == [1, 3]


def test_operations_of_large_iterations_are_recorded_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(ranks: int, **run: object) -> tuple[int, dict[str, int]]:
        clos = {"racks": 1, "servers_per_rack": ranks, "gpus_per_server": 1, "spines": 0}
        training = {"collective": "all-reduce", "bytes": "1 MB"}
        found = simulate(
            {"fabric": {"clos": clos}, "run": run, "jobs": [{"name": "a", "training": training}]}
        )
        return found.tables["operations"].height, found.manifest["not_recorded"]

    # One operation for each rank.
    monkeypatch.setattr("hocket.engines.specs.MOST_OPERATIONS", 4)
    assert recorded(4) == (4, {})
    assert recorded(5) == (0, {"operations": 5})
    assert recorded(5, engine="packet") == (0, {"operations": 5})
    assert recorded(5, record_operations=1) == (5, {})
    assert recorded(5, record_operations=0) == (0, {})
    assert recorded(5, perfetto=True) == (5, {})
