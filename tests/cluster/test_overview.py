"""A run in one row, from its summaries over all iterations."""

from typing import Any

import polars as pl
import pytest

from hocket import Run
from hocket.cluster.overview import overviews
from hocket.cluster.schemas import JOBS, SUMMARIES


def run_of(**summary: Any) -> Run:
    """A run of one job, with these columns in the summary of all jobs; without any, no iteration ended."""
    model = {"model": "VGG16", "iterations": 7, "mean_iteration_s": 9.0}
    summaries = [model, {"model": None, **summary}] if summary else []
    jobs = pl.DataFrame([{"job": "a", "completion_s": 30.0, "restarts": 2, "adjustments": 3}], schema=JOBS)
    manifest: dict[str, Any] = {
        "scheduler": "themis",
        "status": "complete",
        "counts": {"jobs": 1, "done": 1},
        "simulated_s": 90.0,
        "run_s": 0.1,
    }
    return Run({"summaries": pl.DataFrame(summaries, schema=SUMMARIES), "jobs": jobs}, manifest)


def test_iterations_are_those_of_all_jobs_together() -> None:
    (row,) = overviews(
        [run_of(iterations=100, mean_iteration_s=0.102, p99_slowdown=2.5, marks=50)]
    ).to_dicts()
    assert (row["iterations"], row["mean_iteration_s"], row["p99_slowdown"]) == (100, 0.102, 2.5)
    assert row["marks_per_iteration"] == 0.5
    assert row["adjustments_per_minute"] == 2


def test_a_run_without_iterations_has_no_means() -> None:
    (row,) = overviews([run_of()]).to_dicts()
    assert (row["iterations"], row["mean_iteration_s"], row["marks_per_iteration"]) == (0, None, None)


def test_factors_say_how_many_times_shorter_iterations_are_than_in_the_first_run() -> None:
    runs = [run_of(iterations=10, mean_iteration_s=mean_s) for mean_s in (0.15, 0.1)]
    table = overviews([*runs, run_of()])
    assert table["mean_factor"].to_list() == [1, pytest.approx(1.5), None]
    assert table["marks_per_iteration"].null_count() == 3
