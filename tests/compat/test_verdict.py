"""The verdict on time-shifts: which numbers mean which of its four values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.compat.verdict import NOISE, WORTHWHILE, Speedup, Verdict

TIMES_FASTER = st.floats(0.01, 100)


@pytest.mark.parametrize(
    ("mean", "p99", "verdict"),
    [
        (1.25, 1.21, "helps"),
        (1.05, 1.0, "helps"),
        (1.05, 0.99, "helps"),
        (1.25, 0.98, "helps little"),
        (1.04, 1.30, "helps little"),
        (1.02, 0.90, "helps little"),
        (1.0, 1.02, "helps little"),
        (1.0, 1.0, "does not help"),
        (1.01, 0.99, "does not help"),
        (0.99, 1.01, "does not help"),
        (1.01, 0.98, "harms"),
        (0.98, 1.50, "harms"),
    ],
)
def test_the_verdict_follows_from_the_mean_and_the_p99(mean: float, p99: float, verdict: str) -> None:
    assert Speedup(mean, p99).verdict == verdict


@given(TIMES_FASTER, TIMES_FASTER)
def test_the_verdict_follows_from_the_printed_numbers(mean: float, p99: float) -> None:
    speedup = Speedup(mean, p99)
    printed = [float(word) for word in str(speedup).split() if word[0].isdigit()]
    assert Speedup(*printed).verdict is speedup.verdict


@given(TIMES_FASTER, TIMES_FASTER, st.floats(1, 10))
def test_a_faster_mean_or_p99_never_makes_the_verdict_worse(mean: float, p99: float, faster: float) -> None:
    best_first = list(Verdict)
    verdict = best_first.index(Speedup(mean, p99).verdict)
    assert best_first.index(Speedup(mean * faster, p99).verdict) <= verdict
    assert best_first.index(Speedup(mean, p99 * faster).verdict) <= verdict


@given(TIMES_FASTER)
def test_a_mean_slower_by_more_than_noise_harms(p99: float) -> None:
    assert Speedup(1 - 2 * NOISE, p99).verdict is Verdict.HARMS
    assert Speedup(1 + WORTHWHILE, p99).verdict in (Verdict.HELPS, Verdict.HELPS_LITTLE)
