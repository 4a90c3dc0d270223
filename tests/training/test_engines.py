"""The catalogue on the flow engine: it agrees with the oracle, and with the periods of the papers."""

from collections.abc import Callable
from typing import Any

import pytest

from hocket import parse_plan, simulate
from hocket.engines.workload import workload_of
from hocket.training.catalogue import ENTRIES
from hocket.workloads import profile

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
