"""The table of a sweep, its order, and what is refused before anything runs."""

import json
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import hocket
from hocket import InputError, Run, SelfCheckError
from hocket.sweeps import parse_axis, sweep, task
from hocket.sweeps.build import build

Tables = dict[str, Any]


def test_combinations_are_in_order_and_the_last_axis_varies_fastest(halves: Tables) -> None:
    swept = sweep(halves, {"link.capacity": ["80 Gbps", "50 Gbps"], "jobs[1].time_shift": [None, "90 ms"]})
    assert swept.table.select("combination", "link.capacity", "jobs[1].time_shift", "job").rows() == [
        (0, "80 Gbps", None, "a"),
        (0, "80 Gbps", None, "b"),
        (1, "80 Gbps", "90 ms", "a"),
        (1, "80 Gbps", "90 ms", "b"),
        (2, "50 Gbps", None, "a"),
        (2, "50 Gbps", None, "b"),
        (3, "50 Gbps", "90 ms", "a"),
        (3, "50 Gbps", "90 ms", "b"),
    ]
    # They slow down only while both are Up on the link of 50 Gbps.
    expected_s = [0.18, 0.18, 0.18, 0.18, 0.234, 0.234, 0.18, 0.18]
    assert swept.table["mean_iteration_s"].to_list() == pytest.approx(expected_s)
    assert swept.axes == ("link.capacity", "jobs[1].time_shift")
    assert set(swept.table["status"]) == {"complete"}


def test_a_row_equals_that_of_a_single_run(halves: Tables) -> None:
    halves["jobs"][0]["jitter"] = 0.05
    row = sweep(halves, {"seed": [1, 2]}).table.filter(pl.col("combination") == 1)
    run = hocket.simulate({**halves, "seed": 2})
    jobs = run.tables["jobs"]
    assert_frame_equal(row.select(jobs.columns), jobs)
    assert row["run_events"].to_list() == [run.manifest["counts"]["events"]] * 2
    assert row["run_simulated_s"].to_list() == [run.manifest["simulated_s"]] * 2


def test_the_table_does_not_depend_on_the_number_of_workers(halves: Tables) -> None:
    halves["jobs"][0]["jitter"] = 0.05
    tables = [
        sweep(halves, {"run.iterations": [1, 300, 10]}, seeds=4, workers=workers, cache=False).table
        for workers in (1, 2, 5)
    ]
    assert_frame_equal(tables[0], tables[1])
    assert_frame_equal(tables[0], tables[2])


def test_seeds_are_averaged_and_their_spread_is_that_of_the_sample(halves: Tables) -> None:
    halves["jobs"][0]["jitter"] = 0.05
    swept = sweep(halves, {"link.capacity": ["50 Gbps", "45 Gbps"]}, seeds=3)
    assert swept.table["seed"].unique(maintain_order=True).to_list() == [1, 2, 3]
    means = swept.over_seeds()
    assert means.select("link.capacity", "job", "runs").rows() == [
        ("50 Gbps", "a", 3),
        ("50 Gbps", "b", 3),
        ("45 Gbps", "a", 3),
        ("45 Gbps", "b", 3),
    ]
    of_first = swept.table.filter((pl.col("link.capacity") == "50 Gbps") & (pl.col("job") == "a"))
    times_s = of_first["mean_iteration_s"].to_list()
    assert len(set(times_s)) == 3
    assert means["mean_iteration_s"][0] == pytest.approx(statistics.mean(times_s))
    assert means["std_mean_iteration_s"][0] == pytest.approx(statistics.stdev(times_s))


def test_seeds_start_from_that_of_the_plan(halves: Tables) -> None:
    swept = sweep({**halves, "seed": 7}, {}, seeds=2)
    assert swept.table["seed"].unique(maintain_order=True).to_list() == [7, 8]


def test_both_engines_are_in_one_table(halves: Tables) -> None:
    up = [{"start": "0 ms", "duration": "0.5 ms", "rate": "40 Gbps"}]
    jobs = [{"name": "a", "period": "1 ms", "up": up}]
    swept = sweep({**halves, "jobs": jobs, "run": {"iterations": 2}}, {"run.engine": ["flow", "packet"]})
    assert swept.table["engine"].to_list() == ["flow", "packet"]
    assert swept.table["run_pauses"].to_list() == [None, 0]
    only = sweep({**halves, "jobs": jobs, "run": {"iterations": 2}}, {}, engine="packet")
    assert only.table["engine"].to_list() == ["packet"]


def test_a_combination_that_is_not_a_valid_plan_is_a_row_and_the_others_run(halves: Tables) -> None:
    swept = sweep(halves, {"link.capacity": ["30 Gbps", "50 Gbps", "20 Gbps"]}, directory=None)
    assert swept.table.select("link.capacity", "status", "job").rows() == [
        ("30 Gbps", "refused", None),
        ("50 Gbps", "complete", "a"),
        ("50 Gbps", "complete", "b"),
        ("20 Gbps", "refused", None),
    ]
    assert swept.failures()["error"].to_list() == [
        "\n".join(
            f"jobs[{job}].up[0].rate: 40 Gbps is above the link's capacity of {limit}" for job in (0, 1)
        )
        for limit in ("30 Gbps", "20 Gbps")
    ]
    assert swept.manifest["status"] == "failed"
    assert [run["status"] for run in swept.manifest["runs"]] == ["refused", "complete", "refused"]
    assert swept.manifest["plan"]["link"]["capacity"] == "50 Gbps"


def test_jobs_of_the_catalogue_follow_the_rate_of_the_link_and_others_cause_a_warning(halves: Tables) -> None:
    vgg16 = {"name": "v", "workload": "VGG16", "batch_size": 1400, "workers": 2}
    axes = {"link.capacity": ["25 Gbps", "50 Gbps", "400 Gbps"]}
    swept = sweep({**halves, "jobs": [vgg16]}, axes)
    slow_s, measured_s, fast_s = swept.table["mean_iteration_s"].to_list()
    assert slow_s > measured_s > fast_s
    assert measured_s == pytest.approx(0.274)
    assert swept.manifest["warnings"] == []
    mixed = sweep({**halves, "jobs": [vgg16, halves["jobs"][0]]}, axes)
    assert mixed.manifest["warnings"] == [
        "link.capacity: the Up phases of 'a' keep the rates that the plan gives them, whatever links and "
        "NICs carry"
    ]


def test_if_no_combination_is_a_valid_plan_the_first_is_named_before_anything_runs(
    halves: Tables, tmp_path: Path, own_cache: Path
) -> None:
    with pytest.raises(InputError) as refused:
        sweep(
            halves,
            {"seed": [1, 2], "jobs.*.congestion": ["dcqcm", "dcqcx"]},
            directory=tmp_path / "out",
        )
    first, second = str(refused.value).splitlines()
    assert first.startswith(
        "plan with seed = 1, jobs.*.congestion = dcqcm: jobs[0].congestion: must be one of"
    )
    assert second.startswith(
        "plan with seed = 1, jobs.*.congestion = dcqcm: jobs[1].congestion: must be one of"
    )
    assert not own_cache.exists()
    assert not (tmp_path / "out").exists()


def test_invalid_arguments_are_refused(halves: Tables, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seed: is given as an axis twice"):
        sweep(halves, [parse_axis("seed=1"), parse_axis("seed=2")])
    with pytest.raises(InputError, match="seed: is given as an axis twice"):
        sweep(halves, {"seed": [1]}, seeds=2)
    with pytest.raises(InputError, match="the axes have 1,000,000 combinations; the limit is 100,000"):
        sweep(halves, {"seed": range(1000), "run.iterations": range(1, 1001)})
    with pytest.raises(InputError, match="seeds: a sweep has 1 to 100,000 of them: got 0"):
        sweep(halves, {}, seeds=0)
    with pytest.raises(InputError, match="workers: must be at least 1: got 0"):
        sweep(halves, {}, workers=0)
    with pytest.raises(InputError, match=r"the values of an axis are a list: got '1\.\.5'"):
        sweep(halves, {"seed": "1..5"})
    with pytest.raises(InputError, match="keep_runs: needs a directory"):
        sweep(halves, {}, keep_runs=True)
    with pytest.raises(InputError, match=r"plan: jobs\[5\]\.priority: jobs has 2 entries"):
        sweep(halves, {"jobs[5].priority": [1]})
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used as the cache"):
        sweep(halves, {}, cache=tmp_path / "file")


def test_a_run_that_its_engine_refuses_is_a_row_and_the_others_continue(halves: Tables) -> None:
    plan = {**halves, "changes": [{"at": "1 ms", "link": "link", "rate": "40 Gbps"}]}
    plan["jobs"] = [{**halves["jobs"][0], "iterations": 1}]
    swept = sweep(plan, {"run.engine": ["flow", "packet"], "jobs[0].up[0].duration": ["10 us", "20 us"]})
    assert swept.table["status"].to_list() == ["failed", "failed", "complete", "complete"]
    assert swept.table["job"].to_list() == [None, None, "a", "a"]
    refused = "changes: the flow engine does not support links that change"
    assert all(refused in error for error in swept.failures()["error"])
    assert swept.manifest["status"] == "failed"
    assert not swept.interrupted
    assert swept.over_seeds().height == 2


def test_a_run_whose_self_check_fails_has_failed(monkeypatch: pytest.MonkeyPatch, halves: Tables) -> None:
    def wrong(*_: object, **__: object) -> Run:
        raise SelfCheckError("link tor0: a packet was lost at 1 ms although PFC is on")

    monkeypatch.setattr(task, "simulate", wrong)
    plan = hocket.parse_plan(halves)
    outcome = task.perform(task.Task(plan, "flow", build()))
    assert outcome == task.Failure("link tor0: a packet was lost at 1 ms although PFC is on")


def test_a_machine_with_another_build_runs_no_task(halves: Tables) -> None:
    outcome = task.perform(task.Task(hocket.parse_plan(halves), "flow", "0" * 64))
    assert isinstance(outcome, task.Failure)
    assert f"another build of Hocket: {build()[:12]}, not 000000000000" in outcome.error


def test_a_sweep_is_written_as_a_run_with_one_table(halves: Tables, tmp_path: Path) -> None:
    swept = sweep(halves, {"seed": [1, 2]}, directory=tmp_path / "out")
    read = Run.read(tmp_path / "out")
    assert_frame_equal(read.tables["sweep"], swept.table)
    assert read.manifest["axes"] == {"seed": [1, 2]}
    assert read.manifest["plan"]["jobs"][0]["name"] == "a"
    assert [each["status"] for each in read.manifest["runs"]] == ["complete", "complete"]
    again = swept.write(tmp_path / "again")
    assert_frame_equal(Run.read(again).tables["sweep"], swept.table)


def test_whole_runs_are_kept_on_request_and_not_repeated(halves: Tables, tmp_path: Path) -> None:
    first = sweep(halves, {"seed": [1, 2]}, directory=tmp_path / "out", keep_runs=True)
    places = [each["directory"] for each in first.manifest["runs"]]
    assert [Run.read(place).manifest["seed"] for place in places] == [1, 2]
    assert Run.read(places[0]).tables["iterations"].height == 20
    second = sweep(halves, {"seed": [1, 2, 3]}, directory=tmp_path / "out", keep_runs=True)
    assert [each["cached"] for each in second.manifest["runs"]] == [True, True, False]
    assert_frame_equal(second.table.head(4), first.table)


def test_a_sweep_takes_a_file_tables_or_a_plan(halves: Tables, tmp_path: Path) -> None:
    path = tmp_path / "halves.json"
    path.write_text(json.dumps(halves), encoding="utf-8")
    tables = [
        sweep(plan, {"jobs.*.share": ["fair", {"weighted": 2.0}]}).table
        for plan in (path, halves, hocket.parse_plan(halves))
    ]
    assert_frame_equal(tables[0], tables[1])
    assert_frame_equal(tables[0], tables[2])
    assert tables[0]["jobs.*.share"].unique(maintain_order=True).to_list() == ["fair", '{"weighted": 2.0}']
