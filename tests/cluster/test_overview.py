"""Means and percentiles over iterations, of which a row may be several."""

from typing import Any

import polars as pl
import pytest

from hocket import Run
from hocket.cluster.jobs import JobTotals
from hocket.cluster.overview import overviews
from hocket.cluster.schemas import ITERATIONS, JOBS

MS = 10**9


def run_of(*rows: tuple[int, float, float, float | None]) -> Run:
    """A run of one job whose iterations are rows of count, milliseconds, those on an idle network, marks."""
    iterations = pl.DataFrame(
        [
            {"job": "a", "count": count, "iteration_s": ms / 1e3, "ideal_s": ideal_ms / 1e3, "marks": marks}
            for count, ms, ideal_ms, marks in rows
        ],
        schema=ITERATIONS,
    )
    jobs = pl.DataFrame([{"job": "a", "completion_s": 30.0, "restarts": 2, "adjustments": 3}], schema=JOBS)
    manifest: dict[str, Any] = {
        "scheduler": "themis",
        "status": "complete",
        "counts": {"jobs": 1, "done": 1},
        "simulated_s": 90.0,
        "run_s": 0.1,
    }
    return Run({"iterations": iterations, "jobs": jobs}, manifest)


def test_rows_count_as_many_times_as_they_have_iterations() -> None:
    # 98 of 100 ms and 2 of 200 ms: the 99th of 100 is one of the slow ones, the 98th is not.
    (row,) = overviews([run_of((98, 100, 80, 49), (2, 200, 80, 1))]).to_dicts()
    assert row["iterations"] == 100
    assert row["mean_iteration_s"] == pytest.approx(0.102)
    assert row["p99_iteration_s"] == 0.2
    assert row["slowdown"] == pytest.approx(102 / 80)
    assert (row["mean_ideal_s"], row["p99_slowdown"]) == (pytest.approx(0.08), 2.5)
    assert row["marks_per_iteration"] == 0.5
    assert row["adjustments_per_minute"] == 2


def test_the_99th_percentile_is_the_99th_of_a_hundred() -> None:
    (row,) = overviews([run_of((99, 100, 80, 0), (1, 200, 80, 0))]).to_dicts()
    assert row["p99_iteration_s"] == 0.1


def test_slowdowns_are_ranked_by_themselves() -> None:
    # The longest iterations are those of a job that nobody slows.
    (row,) = overviews([run_of((90, 500, 500, 0), (10, 120, 80, 0))]).to_dicts()
    assert (row["p99_iteration_s"], row["p99_slowdown"]) == (0.5, pytest.approx(1.5))


def test_factors_say_how_many_times_shorter_iterations_are_than_in_the_first_run() -> None:
    table = overviews([run_of((10, 150, 80, None)), run_of((10, 100, 80, None)), run_of()])
    assert table["mean_factor"].to_list() == [1, pytest.approx(1.5), None]
    assert table["marks_per_iteration"].null_count() == 3


def test_percentiles_of_jobs_are_by_nearest_rank_whatever_the_order_of_rows() -> None:
    measured = JobTotals()
    for count, ms in ((1, 9), (50, 5), (48, 4), (1, 8)):
        measured.add(
            pl.DataFrame(
                {
                    "job": "a",
                    "count": count,
                    "iteration_ps": count * ms * MS,
                    "mean_ps": float(ms * MS),
                    "ideal_ps": 4 * MS,
                    "communication_ps": count * MS,
                    "delayed_ps": 0,
                    "workers": 2,
                    "batch_size": 10,
                    "marks": 0.5,
                }
            ),
            pl.DataFrame(schema={"job": pl.String}),
        )
    (row,) = measured.by_job().values()
    assert (row["p50_ps"], row["p99_ps"]) == (5 * MS, 8 * MS)
    assert (row["iterations"], row["samples"], row["marks"]) == (100, 2_000, 2.0)
    assert row["iteration_ps"] == (9 + 50 * 5 + 48 * 4 + 8) * MS
