"""Goodput by hand, and against Pollux's released code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hocket.schedulers import ClusterJob
from hocket.schedulers.pollux.fitting import fitted_throughput
from hocket.schedulers.pollux.goodput import Goodput, Throughput
from hocket.schedulers.pollux.speedups import goodputs
from hocket.workloads import find_model

ORACLE: list[dict[str, Any]] = json.loads((Path(__file__).parent / "oracle.json").read_text(encoding="utf-8"))

# 1 ms for each sample, 100 ms between nodes and 40 ms on one, 10 and 4 ms more for each worker beyond two.
PLAIN = Throughput(0.0, 0.001, 0.1, 0.01, 0.04, 0.004, overlap=1.0)


def iteration_ms(throughput: Throughput, nodes: int, workers: int, batch_size: int) -> float:
    """An iteration, in ms."""
    found = throughput.iteration_s(np.array([nodes]), np.array([workers]), np.array([batch_size]))
    return 1_000 * float(found[0])


def from_oracle(case: dict[str, Any]) -> Goodput:
    """The job of a case; its noise scale is M_0 × variance / square of the gradient."""
    sqr, var = case["grad_params"]
    throughput = Throughput(*case["perf_params"])
    return Goodput(throughput, case["first_batch"] * var / sqr, case["first_batch"])


def test_network_time_is_paid_by_several_workers_and_grows_beyond_two() -> None:
    assert iteration_ms(PLAIN, 1, 1, 100) == pytest.approx(100)
    assert iteration_ms(PLAIN, 1, 2, 100) == pytest.approx(140)
    assert iteration_ms(PLAIN, 2, 2, 100) == pytest.approx(200)
    assert iteration_ms(PLAIN, 2, 5, 100) == pytest.approx(230)
    assert iteration_ms(PLAIN, 5, 5, 100) == pytest.approx(230), (
        "the number of nodes does not matter beyond two"
    )


def test_an_overlap_of_two_adds_compute_and_network_time_like_the_sides_of_a_triangle() -> None:
    overlapping = Throughput(0.0, 0.001, 0.4, 0.0, 0.4, 0.0, overlap=2.0)
    assert iteration_ms(overlapping, 2, 2, 300) == pytest.approx(500)


def test_goodput_is_throughput_times_efficiency() -> None:
    job = Goodput(PLAIN, noise_scale=1_000, first_batch=100)
    # 4 × 300 samples in 420 ms, each worth half: (1000 + 100) / (1000 + 1200).
    found = job.of(np.array([2]), np.array([4]), np.array([300]))
    assert found.tolist() == pytest.approx([1_200 / 0.42 * 0.5])


@pytest.mark.parametrize("case", ORACLE, ids=lambda case: str(case["first_batch"]))
def test_goodput_of_a_batch_size_is_that_of_the_released_code(case: dict[str, Any]) -> None:
    nodes, workers, batch_size, expected = np.array(case["given"]).T
    found = from_oracle(case).of(nodes, workers, batch_size)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("case", ORACLE, ids=lambda case: str(case["first_batch"]))
def test_best_goodput_batch_size_and_speedup_are_those_of_the_released_code(case: dict[str, Any]) -> None:
    nodes, workers, expected, batch_sizes, speedups = np.array(case["best"]).T
    found, chosen = from_oracle(case).best(
        nodes.astype(int), workers.astype(int), case["largest_batch"], tuple(case["limits"])
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(chosen, batch_sizes)
    alone = found[(nodes == 1) & (workers == 1)]
    np.testing.assert_allclose(found / alone, speedups, rtol=1e-9)


def test_no_batch_size_within_the_limits_is_worth_nothing() -> None:
    job = Goodput(PLAIN, noise_scale=1_000, first_batch=100)
    found, _ = job.best(np.array([1]), np.array([1]), 1_600, (200, 400))
    assert found.tolist() == [0.0]


def test_compute_time_of_a_profile_that_is_linear_in_the_batch_size_is_found_exactly() -> None:
    # The catalogue's DLRM computes for 0.25 ms a sample, and sends nothing on one worker.
    throughput = fitted_throughput(find_model("DLRM"), None, 1_000, (1, 2, 4))
    assert throughput.compute_s == pytest.approx(0, abs=1e-9)
    assert throughput.compute_per_sample_s == pytest.approx(0.000_25)


@pytest.mark.parametrize(
    ("model", "batch_size"), [("VGG16", 1_400), ("BERT", 8), ("GPT1", 32), ("DLRM", 1_000)]
)
def test_the_fitted_model_is_within_a_fifth_of_the_profile(model: str, batch_size: int) -> None:
    sizes = tuple(range(1, 13))
    throughput = fitted_throughput(find_model(model), None, batch_size, sizes)
    job = ClusterJob("job", model, batch_size, None, 0, 1, sizes, 1)
    for workers in sizes:
        profiled_ms = job.profile(workers).period_ps / 10**9
        assert iteration_ms(throughput, workers, workers, batch_size) == pytest.approx(profiled_ms, rel=0.2)


def test_batch_sizes_stay_within_the_catalogue_or_where_they_were_submitted() -> None:
    job = ClusterJob("job", "VGG16", 1_400, None, 0, 1, tuple(range(1, 13)), 1)
    tuned, kept = goodputs(job, 11_388, True), goodputs(job, 11_388, False)
    for workers in job.sizes:
        assert 512 <= tuned.on(workers, workers).batch_size <= 1_800
        assert kept.on(workers, workers).batch_size == 1_400
        assert tuned.on(workers, workers).goodput >= 0.99 * kept.on(workers, workers).goodput


def test_a_job_that_cannot_run_on_one_worker_starts_with_a_batch_of_its_fewest() -> None:
    job = ClusterJob("job", "GPT2", 48, "pipeline", 0, 2, (2,), 1)
    best = goodputs(job, 11_388, False).on(2, 2)
    # The first batch, 2 × 48 samples, is worth one a sample.
    assert best.goodput == pytest.approx(96 / (job.profile(2).period_ps / 10**12), rel=0.03)
