"""Jobs that are drawn keep the load, and suit the models that they train."""

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.cluster.trace import Trace, parse_trace
from hocket.workloads import CATALOGUE

PS_PER_MIN = 60 * 10**12


def poisson(seed: int = 1, **keys: Any) -> Trace:
    table = {"load": 0.9, "duration": "100 min", **keys}
    return parse_trace({"seed": seed, "fabric": {"testbed": "cassini"}, "poisson": table})


def work_ps(trace: Trace) -> int:
    """GPUs × picoseconds of all jobs, each alone and as submitted."""
    return sum(
        job.requested * job.iterations(job.samples, job.requested) * job.profile(job.requested).period_ps
        for job in trace.jobs
    )


@pytest.mark.parametrize("load", [0.8, 0.9, 1.0])
def test_the_work_drawn_for_a_duration_matches_the_load_to_the_nearest_job(load: float) -> None:
    trace = poisson(load=load)
    largest_ps = max(
        job.requested * job.iterations(job.samples, job.requested) * job.profile(job.requested).period_ps
        for job in trace.jobs
    )
    assert abs(work_ps(trace) - load * 24 * 100 * PS_PER_MIN) <= largest_ps
    assert all(0 <= job.arrival_ps < 100 * PS_PER_MIN for job in trace.jobs)


def test_the_time_over_which_a_number_of_jobs_arrives_follows_from_the_load() -> None:
    half = parse_trace({"fabric": {"testbed": "cassini"}, "poisson": {"load": 0.5, "jobs": 300}})
    full = parse_trace({"fabric": {"testbed": "cassini"}, "poisson": {"load": 1.0, "jobs": 300}})
    assert len(half.jobs) == 300
    assert work_ps(half) == work_ps(full)
    # The same uniform draws over half the time, to the picosecond that each is rounded down to.
    assert all(abs(a.arrival_ps - 2 * b.arrival_ps) <= 3 for a, b in zip(half.jobs, full.jobs, strict=True))
    span_ps = Fraction(work_ps(full), 24)
    assert 0.97 * span_ps < full.jobs[-1].arrival_ps <= span_ps


def test_a_higher_load_brings_the_same_jobs_and_more() -> None:
    def drawn(trace: Trace) -> Counter[tuple[str, int, int, int]]:
        return Counter((job.model, job.batch_size, job.requested, job.samples) for job in trace.jobs)

    assert drawn(poisson(load=0.8)) < drawn(poisson(load=1.0))


def test_another_seed_draws_other_jobs() -> None:
    assert poisson(seed=1).jobs != poisson(seed=2).jobs


def test_all_models_are_equally_likely() -> None:
    counts = Counter(job.model for job in poisson(duration="200 h").jobs)
    expected = counts.total() / len(CATALOGUE)
    assert set(counts) == set(CATALOGUE)
    assert counts.total() > 1_000
    # Five standard deviations of a binomial count.
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), low=st.integers(1, 2), high=st.integers(12, 24))
def test_drawn_jobs_are_valid_for_their_models(seed: int, low: int, high: int) -> None:
    for job in poisson(seed=seed, workers=[low, high], models="model-parallel", batch_sizes="uniform").jobs:
        model = CATALOGUE[job.model]
        smallest, largest = model.batch_sizes.value
        assert smallest <= job.batch_size <= largest
        assert low <= job.requested <= high
        assert job.requested in model.strategies[job.strategy or ""].workers.value
        assert 200 <= job.iterations(job.samples, job.requested) <= 1_000


def test_data_parallel_jobs_may_grow_to_twelve_workers() -> None:
    trace = poisson(models=["data-parallel"])
    assert {job.sizes for job in trace.jobs} == {tuple(range(1, 13))}


def test_reference_batch_sizes_are_those_of_the_catalogue() -> None:
    trace = poisson()
    assert all(job.batch_size == CATALOGUE[job.model].reference[0] for job in trace.jobs)


def test_run_times_are_within_their_range_to_half_an_iteration() -> None:
    for job in poisson(run_time=["10 min", "20 min"], models="VGG16").jobs:
        period_ps = job.profile(job.requested).period_ps
        run_ps = job.iterations(job.samples, job.requested) * period_ps
        assert 10 * PS_PER_MIN - period_ps <= run_ps <= 20 * PS_PER_MIN + period_ps


def test_several_of_a_model_have_letters_and_one_has_none() -> None:
    jobs = [{"name": "VGG16-A", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 1}]
    dynamic = {
        "running": [{"model": "VGG16", "count": 2}],
        "arriving": [{"model": "DLRM"}],
    }
    trace = parse_trace({"fabric": {"testbed": "cassini"}, "jobs": jobs, "dynamic": dynamic})
    assert [job.name for job in trace.jobs] == ["VGG16-A", "VGG16-B", "VGG16-C", "DLRM"]


def test_many_of_a_model_have_two_letters() -> None:
    dynamic = {"running": [{"model": "VGG16", "count": 28}], "arriving": [{"model": "DLRM"}]}
    trace = parse_trace({"fabric": {"testbed": "cassini"}, "dynamic": dynamic})
    assert [job.name for job in trace.jobs[25:28]] == ["VGG16-Z", "VGG16-AA", "VGG16-AB"]


def test_a_set_arrives_together_while_others_run() -> None:
    dynamic = {
        "running": [{"model": "VGG16", "workers": 5, "iterations": 7, "batch_size": 1400}],
        "arriving": [{"model": "DLRM", "workers": 3}, {"model": "ResNet50", "workers": 3}],
        "arrival": "90 s",
    }
    trace = parse_trace({"fabric": {"testbed": "cassini"}, "dynamic": dynamic})
    assert [(job.name, job.requested, job.arrival_ps) for job in trace.jobs] == [
        ("VGG16", 5, 0),
        ("DLRM", 3, 90 * 10**12),
        ("ResNet50", 3, 90 * 10**12),
    ]
    assert trace.jobs[0].samples == 7 * 5 * 1400
