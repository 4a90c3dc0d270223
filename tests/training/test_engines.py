"""The catalogue on the flow engine: it agrees with the oracle, and with the periods of the papers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hocket import load_plan, parse_plan, simulate
from hocket.engines.workload import workload_of
from hocket.plan import Straggler
from hocket.training.catalogue import ENTRIES
from hocket.workloads import profile

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
MEASURED = [entry for entry in ENTRIES.values() if entry.measured is not None]


def alone(training: dict[str, Any], gpus: int, nic: str, delay: str = "500 ns") -> dict[str, Any]:
    """Two iterations of a job alone on servers of one GPU below one switch."""
    clos = {
        "racks": 1,
        "servers_per_rack": gpus,
        "gpus_per_server": 1,
        "spines": 0,
        "nic": nic,
        "delay": delay,
    }
    return {"fabric": {"clos": clos}, "jobs": [{"name": "a", "iterations": 2, "training": training}]}


@pytest.mark.parametrize(
    ("training", "gpus"),
    [
        ({"model": "ResNet50"}, 4),
        ({"model": "GPT-1", "parallel": {"tensor": 2}}, 4),
        ({"model": "GPT-1", "parallel": {"pipeline": 4}, "microbatches": 8}, 4),
        ({"model": "GPT-1", "parallel": {"pipeline": 4}, "microbatches": 8, "schedule": "gpipe"}, 8),
        ({"model": "GPT-1", "parallel": {"tensor": 2, "pipeline": 2}, "microbatches": 4}, 8),
        ({"model": "DLRM (HOTI'22)"}, 8),
    ],
)
def test_on_a_network_that_takes_no_time_an_iteration_is_as_long_as_the_oracle_says(
    replay: Callable[..., list[Any]], training: dict[str, Any], gpus: int
) -> None:
    plan = alone(training, gpus, "1000 Tbps", "0 ns")
    expected_ps = max(each.end_ps for each in replay(workload_of(parse_plan(plan), 0)))
    found = simulate(plan).tables["iterations"]
    assert found["iteration_s"][0] * 1e12 == pytest.approx(expected_ps, rel=1e-4)


@pytest.mark.parametrize("entry", MEASURED, ids=lambda entry: entry.name)
def test_a_measured_job_alone_takes_the_period_of_the_papers_tables(entry: Any) -> None:
    found = simulate(alone({"model": entry.name}, 2, "50 Gbps")).tables["iterations"]
    period_s = profile(entry.measured, entry.batch_size, 2).period_ps / 1e12
    # BERT and RoBERTa end with two all-reduces that nothing overlaps with.
    assert found["iteration_s"].to_list() == pytest.approx([period_s] * 2, rel=0.035)


def test_the_all_reduces_of_hoti22_leave_nothing_but_compute_on_a_network_that_takes_no_time() -> None:
    found = simulate(alone({"model": "DLRM (HOTI'22)"}, 16, "1000 Tbps", "0 ns")).tables["iterations"]
    assert found["communication_s"][0] < 1e-3 * found["compute_s"][0]


def test_the_ranks_of_a_stage_of_a_language_model_do_the_same_and_are_computed_once() -> None:
    run = simulate(load_plan(EXAMPLES / "llm_1024.toml"))
    stages = run.tables["ranks"].group_by(pl.col("rank") // 64).agg(pl.col("end_s", "exposed_s").n_unique())
    assert stages.height == 16
    assert stages.select(pl.col("end_s", "exposed_s").max()).row(0) == (1, 1)
    # Two million operations, each with an event or more, if all 64 ranks of each stage were computed.
    assert run.manifest["counts"]["events"] < 500_000
    assert run.manifest["not_recorded"] == {"operations": 2_116_864}


def test_one_slow_rank_of_a_language_model_is_not_computed_with_others() -> None:
    plan = load_plan(EXAMPLES / "llm_1024.toml")
    (job,) = plan.jobs
    slow = plan.replace(jobs=[job.replace(stragglers=[Straggler(rank=70, slowdown=1.5)])])
    computed = simulate(slow).tables["ranks"].filter(pl.col("rank") // 64 == 1)["compute_s"]
    *others, slowest = computed.sort().to_list()
    assert len(set(others)) == 1
    assert slowest == pytest.approx(1.5 * others[0])
