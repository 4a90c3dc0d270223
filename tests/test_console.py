"""What `hocket run` prints of training jobs."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hocket import Run
from hocket.console import print_run

TrainingRun = Callable[..., Run]


def printed(run: Run, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The words of each line."""
    print_run("a plan", run, Path("out"))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_training_job_has_its_exposed_communication_beside_its_compute(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(training_run(all_reduce_ms=4), capsys)
    times = ["5.000", "5.000", "5.000", "3.000", "2.000", "40.0", "0.000"]
    assert ["dlrm", "4", "2", *times] in lines
    assert "adjustments" not in [word for line in lines for word in line]


def test_a_straggler_is_named_and_ranks_in_balance_are_not(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training_run()
    assert "computes" not in [word for line in printed(run, capsys) for word in line]
    slow = pl.when(rank=2).then(5e-3).otherwise("compute_s").alias("compute_s")
    uneven = Run({**run.tables, "ranks": run.tables["ranks"].with_columns(slow)}, run.manifest)
    line = "dlrm: rank 2 (s0:2) computes 1.43 times as long as the ranks do on average"
    assert line.split() in printed(uneven, capsys)


def test_collectives_are_printed_as_nccl_tests_does(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(training_run(all_reduce_ms=4), capsys)
    assert ["dlrm", "all-reduce", "ring", "100,000,000", "2", "4", "4,000.00", "25.00", "37.50"] in lines


def test_what_governed_a_job_and_how_often_it_acted_is_printed_on_both_engines(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ["dlrm", "hpcc", "50", "9", "12"] in printed(training_run(policy="hpcc"), capsys)
    assert ["dlrm", "fair", "12"] in printed(training_run(engine="flow"), capsys)


def test_jobs_that_are_profiles_stand_in_a_table_of_their_own(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training_run(engine="flow")
    jobs = run.tables["jobs"]
    both = pl.concat([jobs, jobs.with_columns(job=pl.lit("vgg19"))])
    lines = printed(Run({**run.tables, "jobs": both}, run.manifest), capsys)
    assert ["vgg19", "2", "5.00", "5.00", "5.00", "2.00", "0.00", "0"] in lines
    assert ["dlrm", "4", "2", "5.000", "5.000", "5.000", "3.000", "2.000", "40.0", "0.000"] in lines
