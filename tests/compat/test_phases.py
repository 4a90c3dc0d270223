"""Samples of a job's rate become its Up phases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.compat.phases import phases_of
from hocket.profiles import PhaseSpec

GBPS = 10**9
SAMPLES = 720
# Samples of one microsecond.
PERIOD_PS = SAMPLES * 10**6


def sampled(*phases: PhaseSpec) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Mean rates in equal samples of the period."""
    edges = np.arange(SAMPLES + 1) * 10.0**6
    rates = np.zeros(SAMPLES)
    for phase in phases:
        covered = np.clip(edges[1:], phase.start_ps, phase.start_ps + phase.duration_ps) - np.clip(
            edges[:-1], phase.start_ps, phase.start_ps + phase.duration_ps
        )
        rates += covered / 10.0**6 * phase.rate_bps
    return rates


def bits(phases: tuple[PhaseSpec, ...]) -> float:
    return sum(phase.duration_ps * phase.rate_bps / 1e12 for phase in phases)


def test_phases_that_begin_or_end_within_a_sample_are_found_to_the_nanosecond() -> None:
    sent = (
        PhaseSpec(100_300_000, 50_900_000, 40 * GBPS),
        PhaseSpec(300_000_000, 100_250_000, 10 * GBPS),
        PhaseSpec(400_250_000, 20_000_000, 30 * GBPS),
    )
    found = phases_of(sampled(*sent), PERIOD_PS, 50 * GBPS)
    assert len(found) == 3
    for each, expected in zip(found, sent, strict=True):
        assert each.start_ps == pytest.approx(expected.start_ps, abs=1_000)
        assert each.duration_ps == pytest.approx(expected.duration_ps, abs=1_000)
        assert each.rate_bps == pytest.approx(expected.rate_bps, rel=1e-6)


def test_bursts_shorter_than_a_sample_become_one_phase_of_their_mean_rate() -> None:
    # Half of every microsecond at 40 Gbps, for 100 of them.
    sent = [PhaseSpec(200_000_000 + i * 10**6, 500_000, 40 * GBPS) for i in range(100)]
    (found,) = phases_of(sampled(*sent), PERIOD_PS, 50 * GBPS)
    assert found == PhaseSpec(200_000_000, 100_000_000, 20 * GBPS)


def test_a_job_that_never_pauses_is_up_for_all_of_its_period() -> None:
    assert phases_of(np.full(SAMPLES, 50.0 * GBPS), PERIOD_PS, 50 * GBPS) == (
        PhaseSpec(0, PERIOD_PS, 50 * GBPS),
    )


def test_a_rate_near_zero_counts_as_down() -> None:
    assert phases_of(np.full(SAMPLES, 0.2 * GBPS), PERIOD_PS, 50 * GBPS) == ()


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, SAMPLES))
def test_phases_are_few_and_in_order_and_keep_the_bytes_of_any_samples(seed: int, stretches: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.choice(rng.uniform(0.0, 50.0 * GBPS, stretches), SAMPLES)
    found = phases_of(samples, PERIOD_PS, 50 * GBPS)
    assert len(found) <= 64
    ends = [0, *(phase.start_ps + phase.duration_ps for phase in found)]
    assert all(end <= phase.start_ps for end, phase in zip(ends, found, strict=False))
    assert ends[-1] <= PERIOD_PS
    # Rates below half a percent of the link's are left out.
    assert bits(found) == pytest.approx(
        samples.mean() * PERIOD_PS / 1e12, abs=0.005 * 50 * GBPS * PERIOD_PS / 1e12 + 1
    )
