"""Runs side by side: their measurements, the differences of their plans, and what cannot be compared."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket import InputError, Run
from hocket.compare import Difference, compare, differences, read_runs
from hocket.compare.report import as_json, print_comparison, write_measurements

TrainingRun = Callable[..., Run]
Command = Callable[..., Any]


def with_manifest(run: Run, **manifest: object) -> Run:
    """`run` with these entries in its manifest."""
    return Run(run.tables, {**copy.deepcopy(run.manifest), **manifest})


def test_ratios_are_relative_to_the_first_run(training_run: TrainingRun) -> None:
    runs = {"ring": training_run(all_reduce_ms=4), "tree": training_run(all_reduce_ms=9, algorithm="tree")}
    comparison = compare(runs)
    jobs = comparison.jobs.select("job", "run", "ratio").rows()
    # 5 ms and 10 ms.
    assert jobs == [("dlrm", "ring", 1.0), ("dlrm", "tree", 2.0)]
    collectives = comparison.collectives.select("run", "algorithm", "ratio").rows()
    assert collectives == [("ring", "ring", 1.0), ("tree", "tree", 2.25)]
    assert comparison.runs["run"].to_list() == ["ring", "tree"]
    assert comparison.notes == ()


def test_rows_of_a_job_are_together_in_the_order_of_the_runs(training_run: TrainingRun) -> None:
    def two_jobs(run: Run) -> Run:
        jobs = run.tables["jobs"]
        return Run(
            {**run.tables, "jobs": pl.concat([jobs.with_columns(job=pl.lit("aaa")), jobs])}, run.manifest
        )

    runs = {name: two_jobs(training_run(all_reduce_ms=ms)) for name, ms in (("z", 3), ("a", 4), ("m", 5))}
    rows = compare(runs).jobs.select("job", "run").rows()
    assert rows == [(job, run) for job in ("aaa", "dlrm") for run in ("z", "a", "m")]


def test_a_job_that_the_first_run_does_not_have_has_no_ratio(training_run: TrainingRun) -> None:
    other = training_run()
    renamed = {
        name: table.with_columns(job=pl.lit("bert")) if "job" in table.columns else table
        for name, table in other.tables.items()
    }
    comparison = compare({"a": training_run(), "b": Run(renamed, other.manifest)})
    assert comparison.jobs.select("job", "run", "ratio").rows() == [("dlrm", "a", 1.0), ("bert", "b", None)]


def test_only_differing_keys_of_plans_are_reported(training_run: TrainingRun) -> None:
    runs = {"a": training_run(policy="dcqcn"), "b": training_run(policy="hpcc")}
    assert differences(runs) == [Difference("jobs[dlrm].congestion", ("dcqcn", "hpcc"))]


def test_a_job_that_a_run_does_not_have_is_one_difference(training_run: TrainingRun) -> None:
    job = {"name": "bert", "priority": 1, "path": "spray"}
    both = with_manifest(training_run(), plan={"jobs": [*training_run().manifest["plan"]["jobs"], job]})
    assert differences({"a": both, "b": training_run()}) == [Difference("jobs[bert]", ("there", None))]


def test_a_table_that_a_plan_does_not_have_is_one_difference(training_run: TrainingRun) -> None:
    plan = training_run().manifest["plan"]
    link = with_manifest(training_run(), plan={**plan, "link": {"capacity": "50 Gbps", "delay": "500 ns"}})
    fabric = with_manifest(training_run(), plan={**plan, "fabric": {"clos": {"racks": 2}, "hosts": []}})
    found = differences({"link": link, "fabric": fabric})
    assert {each.key: each.values for each in found} == {"link": ("there", None), "fabric": (None, "there")}


def test_a_key_that_only_one_plan_gives_differs(training_run: TrainingRun) -> None:
    job = {**training_run().manifest["plan"]["jobs"][0], "time_shift": "5 ms"}
    shifted = with_manifest(training_run(), plan={"jobs": [job]})
    found = differences({"as it is": training_run(), "shifted": shifted})
    assert found == [Difference("jobs[dlrm].time_shift", (None, "5 ms"))]


def test_settings_of_a_congestion_control_are_compared_only_with_the_same_control(
    training_run: TrainingRun,
) -> None:
    def with_control(control: str, **settings: str) -> Run:
        return with_manifest(
            training_run(), plan={"jobs": [{"name": "dlrm", "congestion": {control: settings}}]}
        )

    runs = {
        "slow": with_control("dcqcn", preset="mlx5", timer="300 us"),
        "fast": with_control("dcqcn", preset="mlx5", timer="100 us"),
        "hpcc": with_control("hpcc", target="0.95"),
    }
    assert differences(runs) == [
        Difference("jobs[dlrm].congestion", ("dcqcn", "dcqcn", "hpcc")),
        Difference("jobs[dlrm].congestion.dcqcn.timer", ("300 us", "100 us", None)),
    ]


def test_sources_of_defaults_and_derived_keys_are_no_differences(
    training_run: TrainingRun,
) -> None:
    plan = training_run().manifest["plan"]
    job = {**plan["jobs"][0], "profiles": [{"period": "1 ms"}]}
    other = with_manifest(training_run(), plan={"name": "b", "defaults": [{"key": "seed"}], "jobs": [job]})
    assert differences({"a": training_run(), "b": other}) == []


def test_parameters_differ_if_runs_with_the_same_policy_disagree(training_run: TrainingRun) -> None:
    def with_timer(policy: str, **parameters: int) -> Run:
        run = training_run(policy=policy)
        described = {name: {"value": value, "source": "preset"} for name, value in parameters.items()}
        jobs = {"dlrm": {**run.manifest["parameters"]["jobs"]["dlrm"], **described}}
        return with_manifest(run, parameters={"jobs": jobs})

    runs = {
        "slow": with_timer("dcqcn", timer_ps=125, gain=1),
        "fast": with_timer("dcqcn", timer_ps=100, gain=1),
        "hpcc": with_timer("hpcc", target=95, gain=2),
    }
    found = [each for each in differences(runs) if each.is_parameter]
    assert found == [Difference("parameters.jobs.dlrm.timer_ps", ("125", "100", None))]


def test_notes_tell_what_cannot_be_compared(training_run: TrainingRun) -> None:
    failed = with_manifest(training_run(), status="failed", failure="a packet was lost", simulated_s=0.002)
    bare = Run({}, {"status": "interrupted"})
    notes = compare({"packet": failed, "flow": training_run(engine="flow"), "bare": bare}).notes
    assert notes == (
        "packet: failed after 0.002 s of simulated time: a packet was lost; "
        "its values cover what was finished by then",
        "bare: interrupted; its values cover what was finished by then",
        "bare: has no table 'jobs', so its jobs are unknown",
        "bare: has no table 'collectives', so its collectives are unknown",
        "flow: has no table 'ports', so its queues, PAUSE frames, marks and CNPs are unknown",
        "bare: has no table 'ports', so its queues, PAUSE frames, marks and CNPs are unknown",
    )


def test_measurements_are_one_long_table_with_the_settings_that_differ(training_run: TrainingRun) -> None:
    runs = {"a": training_run(pauses=10), "b": training_run(policy="hpcc", all_reduce_ms=9, pauses=5)}
    long = compare(runs).measurements()
    found = long.filter(run="b").select("measure", "job", "kind", "value", "ratio").rows()
    assert ("mean_iteration_s", "dlrm", None, 10e-3, 2.0) in found
    assert ("time_s", "dlrm", "all-reduce", 9e-3, 2.25) in found
    assert ("pauses", None, None, 5.0, 0.5) in found
    assert ("losses", None, None, 0.0, None) in found
    assert set(long.filter(run="b")["jobs[dlrm].congestion"]) == {"hpcc"}
    keys = ["run", "job", "kind", "algorithm", "bytes", "ranks", "measure"]
    assert long.select(keys).is_unique().all()


def test_measurements_are_written_as_csv_or_parquet(training_run: TrainingRun, tmp_path: Path) -> None:
    comparison = compare({"a": training_run(), "b": training_run(all_reduce_ms=8)})
    written = pl.read_parquet(write_measurements(comparison, tmp_path / "new" / "all.parquet"))
    assert written.equals(comparison.measurements())
    header = write_measurements(comparison, tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "run,job,kind,algorithm,bytes,ranks,measure,value,ratio"
    with pytest.raises(InputError, match=r"all.txt: a table is one of .csv, .parquet: got '.txt'"):
        write_measurements(comparison, tmp_path / "all.txt")
    with pytest.raises(InputError, match="cannot be written"):
        write_measurements(comparison, tmp_path / "all.csv" / "all.csv")


def test_runs_are_named_by_the_ends_of_paths_that_distinguish_them(
    training_run: TrainingRun, tmp_path: Path
) -> None:
    for name in ("monday/dcqcn", "tuesday/dcqcn", "hpcc"):
        training_run().write(tmp_path / name)
    found = read_runs([tmp_path / "monday" / "dcqcn", tmp_path / "tuesday" / "dcqcn", tmp_path / "hpcc"])
    assert list(found) == ["monday/dcqcn", "tuesday/dcqcn", "hpcc"]
    with pytest.raises(InputError, match="hpcc: is given twice"):
        read_runs([tmp_path / "hpcc", tmp_path / "monday" / ".." / "hpcc"])


def test_directories_that_are_not_runs_are_refused(
    hocket: Command, training_run: TrainingRun, tmp_path: Path
) -> None:
    training_run().write(tmp_path / "one")
    (tmp_path / "empty").mkdir()
    outcome = hocket("compare", "one", "empty")
    assert (outcome.code, outcome.out) == (2, "")
    assert "empty: is not a run" in outcome.err
    assert "needs at least two runs: got 1" in hocket("compare", "one").err
    assert "a figure is one of" in hocket("compare", "one", "one", "--figure", "x.txt").err
    assert "a table is one of" in hocket("compare", "one", "one", "--out", "x.txt").err


def test_compare_prints_a_table_draws_a_figure_and_writes_a_file(
    hocket: Command, training_run: TrainingRun, tmp_path: Path
) -> None:
    training_run(all_reduce_ms=4).write(tmp_path / "dcqcn")
    training_run(all_reduce_ms=9, policy="timely", pauses=1_234).write(tmp_path / "timely")
    outcome = hocket("compare", "dcqcn", "timely", "--out", "all.csv", "--figure", "bars.png")
    assert outcome.code == 0
    lines = [line.split() for line in outcome.out.splitlines()]
    mean_to_acted = ["10.000", "2.000", "10.000", "3.000", "7.000", "70.0", "50", "9", "12"]
    assert ["timely", "timely", "2", *mean_to_acted] in lines
    assert ["timely", "ring", "2", "9,000.00", "2.250", "11.11", "16.67"] in lines
    assert ["timely", "packet", "complete", "20.000", "1,234", "3.000", "50", "9", "0", "64.0"] in lines
    assert ["jobs[dlrm].congestion", "dcqcn", "timely"] in lines
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "all.csv").exists()


def test_compare_as_json_is_valid_and_complete(
    hocket: Command, training_run: TrainingRun, tmp_path: Path
) -> None:
    training_run().write(tmp_path / "packet")
    training_run(engine="flow").write(tmp_path / "flow")
    answer = hocket("compare", "packet", "flow", "--json").json()
    assert list(answer) == ["runs", "jobs", "collectives", "differences", "notes"]
    assert answer["differences"] == [{"key": "engine", "values": {"packet": "packet", "flow": "flow"}}]
    assert [row["ratio"] for row in answer["jobs"]] == [1.0, 1.0]
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_of_many_collectives_only_those_that_take_the_most_time_are_printed(
    hocket: Command, training_run: TrainingRun, tmp_path: Path
) -> None:
    run = training_run()
    one = run.tables["collectives"].head(1)
    many = [one.with_columns(bytes=pl.lit(size), time_s=pl.lit(size / 1e6)) for size in range(1, 31)]
    for name in ("a", "b"):
        Run({**run.tables, "collectives": pl.concat(many)}, run.manifest).write(tmp_path / name)
    shown = hocket("compare", "a", "b").out
    assert "all-reduce, 30 B, 4 ranks" in shown
    assert "all-reduce, 14 B, 4 ranks" not in shown
    assert "and 14 more that take less time" in shown


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_runs_that_lack_tables_or_entries_of_their_manifests_are_compared_in_part(
    training_run: TrainingRun, data: st.DataObject
) -> None:
    def some(engine: str) -> Run:
        run = training_run(engine=engine)
        tables = data.draw(st.sets(st.sampled_from(sorted(run.tables))))
        entries = data.draw(st.sets(st.sampled_from(sorted(run.manifest)))) | {"status"}
        return Run(
            {name: run.tables[name] for name in sorted(tables)},
            {key: run.manifest[key] for key in sorted(entries)},
        )

    runs = {"a": some("packet"), "b": some("flow"), "c": some("packet")}
    comparison = compare(runs)
    assert comparison.runs["run"].to_list() == ["a", "b", "c"]
    assert comparison.jobs["run"].to_list() == [name for name, run in runs.items() if "jobs" in run.tables]
    print_comparison(comparison)
    assert json.dumps(as_json(comparison), allow_nan=False)
    assert comparison.measurements()["run"].unique().is_in(["a", "b", "c"]).all()


def test_runs_of_real_plans_are_compared_on_both_engines(hocket: Command, tmp_path: Path) -> None:
    up = [{"start": "0 ms", "duration": "0.5 ms", "rate": "40 Gbps"}]
    jobs = [{"name": name, "period": "1 ms", "up": up} for name in "ab"]
    plan = {"link": {"capacity": "50 Gbps"}, "run": {"iterations": 3}, "jobs": jobs}
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    for engine in ("flow", "packet"):
        assert hocket("run", "plan.json", "--engine", engine, "--out", engine).code == 0
    outcome = hocket("compare", "flow", "packet", "--figure", "runs.svg")
    assert outcome.code == 0
    assert "communication" in outcome.out
    assert "exposed" not in outcome.out
    assert "engine" in outcome.out
