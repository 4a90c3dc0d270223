"""The numbers kept from a run for the table of a sweep."""

import polars as pl
import pytest

from hocket import Run
from hocket.sweeps.task import answer_of


def run_with_collectives() -> Run:
    """Two jobs, the first with two collectives of 1 ms at 80 Gbps and one of 2 ms at 160 Gbps."""
    jobs = {
        "job": ["trains", "idles"],
        "iterations": [2, 2],
        "mean_iteration_s": [0.004, 0.002],
        "p50_iteration_s": [0.004, 0.002],
        "p99_iteration_s": [0.004, 0.002],
        "mean_communication_s": [0.003, 0.0],
        "mean_delayed_s": [0.0, 0.0],
        "policy_acted": [5, 0],
    }
    collectives = {
        "job": ["trains"] * 3,
        "kind": ["all-reduce", "all-reduce", "all-to-all"],
        "algorithm": ["ring", "ring", "direct"],
        "ranks": [2, 2, 2],
        "bytes": [10_000_000, 10_000_000, 40_000_000],
        "time_s": [0.001, 0.001, 0.002],
        "algbw_bps": [80e9, 80e9, 160e9],
        "busbw_bps": [80e9, 80e9, 80e9],
    }
    ranks = {
        "job": ["trains", "trains", "idles"],
        "rank": [0, 1, 0],
        "host": ["s0", "s1", "s2"],
        "compute_s": [0.001, 0.003, 0.002],
    }
    tables = {"jobs": jobs, "collectives": collectives, "ranks": ranks}
    manifest = {
        "engine": "flow",
        "status": "complete",
        "simulated_s": 0.008,
        "run_s": 0.5,
        "counts": {"events": 7, "rate_cuts": {"dcqcn": 5}},
        "plan": {
            "jobs": [{"name": "trains", "share": "fair"}, {"name": "idles", "share": {"weighted": 2.0}}]
        },
    }
    return Run({name: pl.DataFrame(columns) for name, columns in tables.items()}, manifest)


def test_bandwidths_of_a_jobs_collectives_are_weighted_by_their_time() -> None:
    jobs = answer_of(run_with_collectives()).jobs
    assert jobs.select("job", "collectives").rows() == [("trains", 3), ("idles", None)]
    # 2 ms at 80 Gbps and 2 ms at 160.
    assert jobs["algbw_bps"].to_list() == [pytest.approx(120e9), None]
    assert jobs["busbw_bps"].to_list() == [pytest.approx(80e9), None]


def test_a_job_has_the_columns_of_the_table_of_jobs_and_numbers_from_other_tables() -> None:
    run = run_with_collectives()
    jobs = answer_of(run).jobs
    assert jobs.columns[: run.tables["jobs"].width] == run.tables["jobs"].columns
    # 3 ms are 1.5 times the mean of 1 ms and 3 ms.
    assert jobs.select("policy", "ranks", "slowest_rank", "imbalance").rows() == [
        ("fair", 2, "1 (s1)", 1.5),
        ("weighted 2", 1, "0 (s2)", 1.0),
    ]


def test_totals_of_a_run_are_named_by_their_keys_in_the_manifest() -> None:
    answer = answer_of(run_with_collectives())
    assert answer.totals == {"simulated_s": 0.008, "events": 7, "rate_cuts_dcqcn": 5}
    assert answer.run_s == 0.5
