"""No profile is confident and wrong, even if jobs begin and end within the series, jitter and stall, and the
poller reads late or misses readings.
"""

import numpy as np
import polars as pl
import pytest

from hocket.profiling import profile_counters


def traffic(seed: int) -> tuple[float, pl.DataFrame]:
    """The period of a random job, and the readings of its port by a poller on a busy machine.

    Up phases of a job differ by a third in rate, so that no iteration consists of equal parts: other tests
    cover those.
    """
    random = np.random.default_rng(seed)
    period_s = float(random.uniform(0.08, 0.6))
    phases = int(random.integers(1, 4))
    rates = random.uniform(2e7, 3e7) * 1.33 ** np.arange(phases)
    parts = random.dirichlet(np.full(2 * phases, 8.0)) * period_s
    jitter = float(random.choice([0.0, 0.003, 0.01, 0.03]))
    stalls = random.random() < 0.3
    times_s, totals = [0.0], [0.0]

    def send(length_s: float, rate: float) -> None:
        times_s.append(times_s[-1] + length_s)
        totals.append(totals[-1] + length_s * rate)

    send(float(random.choice([0.0, random.uniform(0, 3)])), 0.0)
    for _ in range(int(random.integers(12, 80))):
        for down_s, up_s, rate in zip(parts[::2], parts[1::2], rates, strict=True):
            send(down_s * max(0.2, 1 + random.normal(0, jitter)), 0.0)
            send(up_s * max(0.5, 1 + random.normal(0, jitter / 2)), float(rate))
        if stalls and random.random() < 0.05:
            send(random.uniform(0.1, 1.0) * period_s, 0.0)
    send(float(random.choice([0.0, random.uniform(0, 3)])), 0.0)
    read_s = reading_times_s(times_s[-1], random)
    counted = np.interp(read_s, times_s, totals).astype(np.uint64)
    return period_s, pl.DataFrame({"time_s": read_s, "tx_bytes": counted})


def reading_times_s(end_s: float, random: np.random.Generator) -> list[float]:
    """When a poller reads that is sometimes late by a fifth of its interval and sometimes misses readings."""
    interval_s = float(random.choice([0.005, 0.01]))
    wanted = np.arange(0.0, end_s, interval_s)
    late = np.abs(random.normal(0.0, interval_s * random.choice([0.01, 0.2]), wanted.size))
    missed = np.zeros(wanted.size, dtype=bool)
    for first in np.flatnonzero(random.random(wanted.size) < random.choice([0.0, 0.01])):
        missed[first : first + int(random.integers(1, 8))] = True
    return sorted({*(wanted + late)[~missed].tolist()})


@pytest.mark.parametrize("seed", range(24))
def test_a_confident_profile_has_the_period_and_not_a_multiple_or_a_part(seed: int) -> None:
    period_s, frame = traffic(seed)
    profile = profile_counters(frame)
    assert profile.confidence < 0.5 or profile.period_s == pytest.approx(period_s, rel=0.02)


def test_most_profiles_are_confident() -> None:
    confidences = [profile_counters(traffic(seed)[1]).confidence for seed in range(24)]
    assert sum(confidence >= 0.5 for confidence in confidences) >= 16


def test_two_iterations_are_not_taken_for_one_if_the_job_begins_and_ends_within_the_series() -> None:
    # As read on a live machine: 40 iterations of 303 ms, with idle time before and after.
    random = np.random.default_rng(7)
    starts_s = 0.6 + np.cumsum(0.303 + random.normal(0, 0.0015, 40))
    edges_s = np.column_stack([starts_s, starts_s + 0.12]).ravel()
    totals = np.repeat(np.arange(41), 2)[1:-1] * 6e6
    read_s = np.arange(0.0, 13.4, 0.01)
    frame = pl.DataFrame({"time_s": read_s, "tx_bytes": np.interp(read_s, edges_s, totals).astype(np.uint64)})
    profile = profile_counters(frame)
    assert profile.period_s == pytest.approx(0.303, rel=0.005)
    assert len(profile.phases) == 1
    assert profile.confidence > 0.8
