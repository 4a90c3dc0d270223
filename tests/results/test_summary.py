"""Summaries of the tables of a run, against numbers computed by hand."""

from collections.abc import Callable

import polars as pl
import pytest

from hocket import Run
from hocket.results.summary import (
    COLLECTIVE_COLUMNS,
    JOB_COLUMNS,
    NETWORK_COLUMNS,
    collective_summary,
    columns_of,
    job_summary,
    network_summary,
)

TrainingRun = Callable[..., Run]


def test_compute_and_exposed_communication_add_up_to_the_iteration(training_run: TrainingRun) -> None:
    (job,) = job_summary(training_run(all_reduce_ms=4)).to_dicts()
    assert (job["training"], job["ranks"], job["iterations"]) == (True, 4, 2)
    assert job["mean_iteration_s"] == 5e-3
    assert job["compute_s"] == pytest.approx(3e-3)
    assert job["communication_s"] == 2e-3
    assert (job["policy"], job["policy_acted"]) == ("dcqcn", 12)
    assert (job["marks"], job["cnps"]) == (50, 9)


def test_a_collective_that_hides_behind_compute_is_not_exposed(training_run: TrainingRun) -> None:
    (job,) = job_summary(training_run(all_reduce_ms=2)).to_dicts()
    assert (job["mean_iteration_s"], job["communication_s"]) == (3e-3, 0.0)


def test_a_straggler_is_named_with_its_imbalance(training_run: TrainingRun) -> None:
    run = training_run()
    slow = pl.when(rank=2).then(5e-3).otherwise("compute_s").alias("compute_s")
    (job,) = job_summary(
        Run({**run.tables, "ranks": run.tables["ranks"].with_columns(slow)}, run.manifest)
    ).to_dicts()
    # 3, 3, 5 and 3 ms are 3.5 ms on average.
    assert job["slowest_rank"] == "2 (s0:2)"
    assert job["imbalance"] == pytest.approx(5 / 3.5)


def test_a_job_that_finished_no_iteration_is_still_a_training_job(training_run: TrainingRun) -> None:
    run = training_run()
    tables = {**run.tables, "ranks": run.tables["ranks"].clear()}
    plan = {"jobs": [{"name": "dlrm", "training": {"collective": "all-reduce", "bytes": "1 MB"}}]}
    (job,) = job_summary(Run(tables, {**run.manifest, "plan": plan})).to_dicts()
    assert (job["training"], job["ranks"], job["imbalance"]) == (True, None, None)


def test_the_flow_engine_has_shares_and_no_marks(training_run: TrainingRun) -> None:
    (job,) = job_summary(training_run(engine="flow")).to_dicts()
    assert (job["policy"], job["marks"], job["cnps"]) == ("fair", None, None)


def test_a_job_that_finished_no_iteration_has_no_times(training_run: TrainingRun) -> None:
    run = training_run()
    unfinished = run.tables["jobs"].with_columns(pl.lit(None, dtype=pl.Float64).alias("mean_iteration_s"))
    (job,) = job_summary(Run({**run.tables, "jobs": unfinished}, run.manifest)).to_dicts()
    assert (job["mean_iteration_s"], job["compute_s"]) == (None, None)


def test_100_mb_in_4_ms_are_25_gb_per_s_and_half_more_on_the_bus_of_four_ranks(
    training_run: TrainingRun,
) -> None:
    (collective,) = collective_summary(training_run(all_reduce_ms=4)).to_dicts()
    assert (collective["kind"], collective["algorithm"], collective["count"]) == ("all-reduce", "ring", 2)
    assert collective["algbw_bps"] == pytest.approx(8 * 25e9)
    assert collective["busbw_bps"] == pytest.approx(8 * 37.5e9)


def test_the_bandwidth_of_several_collectives_is_that_of_their_mean_time(training_run: TrainingRun) -> None:
    tables = [training_run(all_reduce_ms=each, iterations=1).tables["collectives"] for each in (2, 8)]
    run = Run({"collectives": pl.concat(tables)}, {"status": "complete"})
    (collective,) = collective_summary(run).to_dicts()
    # 100 MB in 5 ms on average; the mean of 50 and 12.5 GB/s would be 31.25.
    assert collective["time_s"] == 5e-3
    assert collective["algbw_bps"] == pytest.approx(8 * 20e9)


def test_a_collective_that_takes_no_time_has_no_bandwidth(training_run: TrainingRun) -> None:
    run = training_run()
    instant = run.tables["collectives"].with_columns(
        pl.lit(0.0).alias("time_s"), pl.lit(float("inf")).alias("algbw_bps")
    )
    (collective,) = collective_summary(Run({"collectives": instant}, run.manifest)).to_dicts()
    assert (collective["time_s"], collective["algbw_bps"]) == (0.0, None)


def test_the_network_has_its_longest_queue_and_the_sum_of_paused_times(training_run: TrainingRun) -> None:
    (network,) = network_summary(training_run(pauses=7)).to_dicts()
    assert (network["pauses"], network["marks"], network["cnps"]) == (7, 50, 9)
    assert (network["peak_bytes"], network["peak_link"]) == (64_000, "b->a")
    assert network["paused_s"] == pytest.approx(3e-3)
    assert (network["flows"], network["mean_fct_s"], network["p99_fct_s"]) == (2, 2e-3, 3e-3)


def test_a_run_without_tables_has_empty_summaries_and_a_network_of_nulls() -> None:
    run = Run({}, {"status": "failed"})
    assert job_summary(run).equals(pl.DataFrame(schema=JOB_COLUMNS))
    assert collective_summary(run).equals(pl.DataFrame(schema=COLLECTIVE_COLUMNS))
    (network,) = network_summary(run).to_dicts()
    assert network == dict.fromkeys(NETWORK_COLUMNS)


def test_a_table_that_lacks_a_column_counts_as_missing(training_run: TrainingRun) -> None:
    run = training_run()
    assert columns_of(run, "jobs", "job", "not there") is None
    older = Run({**run.tables, "collectives": run.tables["collectives"].drop("busbw_bps")}, run.manifest)
    assert collective_summary(older).is_empty()
