"""Counters that keep a value for 10 ms, read about as often: a repeated value does not mean an idle port."""

import numpy as np
import polars as pl
import pytest

from hocket.profiling import profile_counters

PERIOD_S = 0.274
UP_S = 0.148
BYTES_PER_S = 29e9 / 8
LIFESPAN_S = 0.01


def read_every(interval_s: float, lifespan_s: float) -> pl.DataFrame:
    """Readings, 1% early or late, of a counter that is refreshed if its value is older than its lifespan."""
    count = int(20.0 / interval_s)
    rng = np.random.default_rng(1)
    time_s = (np.arange(1, count) + rng.normal(0.0, 0.01, count - 1)) * interval_s
    refreshed_s = []
    last_s = -1.0
    for now_s in time_s.tolist():
        if now_s - last_s >= lifespan_s:
            last_s = now_s
        refreshed_s.append(last_s)
    iteration, phase_s = np.divmod(np.array(refreshed_s), PERIOD_S)
    total = (iteration * UP_S + np.minimum(phase_s, UP_S)) * BYTES_PER_S
    return pl.DataFrame({"time_s": time_s, "port_xmit_data": (total / 4).astype(np.uint64)})


@pytest.mark.parametrize("interval_s", [0.002, 0.005, 0.01])
@pytest.mark.parametrize("lifespan_s", [0.0, LIFESPAN_S])
def test_a_cache_does_not_change_the_profile(interval_s: float, lifespan_s: float) -> None:
    profile = profile_counters(read_every(interval_s, lifespan_s))
    assert profile.period_s == pytest.approx(PERIOD_S, rel=2e-3)
    up_s = sum(phase.duration_s for phase in profile.phases)
    assert up_s == pytest.approx(UP_S, rel=0.03)
    sent = sum(phase.duration_s * phase.rate_bps / 8 for phase in profile.phases)
    assert sent == pytest.approx(UP_S * BYTES_PER_S, rel=0.02)


def test_short_bursts_are_not_taken_for_a_cache() -> None:
    # 15 ms of every 180: one or two readings see traffic, and those between them none.
    time_s = np.arange(0.0, 20.0, 0.01)
    iteration, phase_s = np.divmod(time_s, 0.18)
    total = (iteration * 0.015 + np.minimum(phase_s, 0.015)) * BYTES_PER_S
    profile = profile_counters(pl.DataFrame({"time_s": time_s, "tx_bytes": total.astype(np.uint64)}))
    assert profile.period_s == pytest.approx(0.18, rel=2e-3)
    assert profile.phases[0].duration_s == pytest.approx(0.015, rel=0.1)
