"""Profiles of synthetic traffic with a known period, and of traffic without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hocket.errors import InputError
from hocket.profiling import JobProfile, period, profile_counters
from hocket.profiling.counters import CounterSeries
from hocket.profiling.phases import is_up

Phase = tuple[float, float, float]
"""Start and duration in seconds, rate in bits/s."""


@dataclass(frozen=True)
class Traffic:
    """A job and how its traffic is read: times in seconds, `jitter`, `noise` and `uneven` as shares."""

    period_s: float
    phases: tuple[Phase, ...]
    length_s: float
    interval_s: float
    jitter: float = 0.0
    noise: float = 0.0
    uneven: float = 0.02
    seed: int = 1

    def read(self) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
        """Times of readings, bytes counted until each, and the mean length of the iterations."""
        rng = np.random.default_rng(self.seed)
        count = int(self.length_s / self.period_s / (1 - 3 * self.jitter)) + 3
        lengths_s = self.period_s * (1 + self.jitter * rng.standard_normal(count))
        starts_s = np.concatenate([[0.0], np.cumsum(lengths_s)]) - rng.uniform(0, self.period_s)
        corners = [
            corner
            for start, duration, rate in self.phases
            for corner in ((start, rate), (start + duration, 0.0))
        ]
        at_s = (starts_s[:, None] + np.array([start for start, _ in corners])).ravel()
        rate = np.tile([rate for _, rate in corners], starts_s.size)
        order = np.argsort(at_s, kind="stable")
        total = np.concatenate([[0.0], np.cumsum(rate[order][:-1] * np.diff(at_s[order]))]) / 8
        time_s = np.arange(0, self.length_s, self.interval_s)
        time_s = np.sort(time_s + self.uneven * self.interval_s * rng.uniform(-1, 1, time_s.size))
        steps = np.diff(np.interp(time_s, at_s[order], total))
        # The factors have a mean of 1, so that noise does not bias the byte count.
        steps *= np.exp(self.noise * rng.standard_normal(steps.size) - self.noise**2 / 2)
        counted = np.concatenate([[0.0], np.cumsum(np.maximum(steps, 0.0))]).astype(np.int64)
        whole = int(self.length_s / self.period_s)
        return time_s - time_s[0], counted, float(lengths_s[:whole].mean())

    def frame(self) -> pl.DataFrame:
        """The readings of a 64-bit counter of bytes."""
        time_s, counted, _ = self.read()
        return pl.DataFrame({"time_s": time_s, "tx_bytes": counted})

    def bytes_per_iteration(self) -> float:
        """Bytes that the phases send."""
        return sum(duration * rate for _, duration, rate in self.phases) / 8


def misplaced(profile: JobProfile, traffic: Traffic) -> float:
    """Share of the true bytes that the profile has at another time or not at all, at the best rotation.

    It is 0 for a correct profile, and 2 for one with every byte in a wrong place. A profile of a fraction of
    the iteration is repeated first: if all phases are alike, one of them is a correct iteration.
    """
    bins = 1000
    repeats = max(1, round(traffic.period_s / profile.period_s))
    found = [
        (
            (repeat + phase.start_s / profile.period_s) / repeats,
            phase.duration_s / profile.period_s / repeats,
            phase.rate_bps,
        )
        for repeat in range(repeats)
        for phase in profile.phases
    ]
    true = [
        (start / traffic.period_s, duration / traffic.period_s, rate)
        for start, duration, rate in traffic.phases
    ]
    ours, theirs = demand(found, bins), demand(true, bins)
    wrong = min(float(np.abs(np.roll(ours, turn) - theirs).sum()) for turn in range(0, bins, 2))
    return wrong / float(theirs.sum())


def demand(phases: list[Phase], bins: int) -> NDArray[np.float64]:
    """Mean rate in each bin of an iteration of length 1."""
    borders = np.arange(bins + 1) / bins
    filled = np.zeros(bins)
    for start, duration, rate in phases:
        filled += np.diff(np.clip(borders, start, start + duration)) * rate * bins
    return filled


VGG = Traffic(0.255, ((0.0, 0.114, 30e9),), length_s=20, interval_s=0.01)
# Three transfers of different length and rate, as in pipelined jobs.
HYBRID = Traffic(0.4, ((0.0, 0.06, 40e9), (0.1, 0.05, 15e9), (0.24, 0.1, 25e9)), length_s=30, interval_s=0.01)


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    """Jobs of one to three phases, read 6 to several hundred times per iteration for 10 to 100 iterations."""
    period_s = draw(st.floats(0.08, 0.6))
    count = draw(st.integers(1, 3))
    parts = np.array(draw(st.lists(st.floats(0.1, 1.0), min_size=2 * count, max_size=2 * count)))
    cuts = np.concatenate([[0.0], np.cumsum(parts / parts.sum())]) * period_s
    rates = draw(st.lists(st.floats(5e9, 45e9), min_size=count, max_size=count))
    phases = tuple(
        (float(cuts[2 * index]), float(cuts[2 * index + 1] - cuts[2 * index]), rate)
        for index, rate in enumerate(rates)
    )
    return Traffic(
        period_s,
        phases,
        length_s=period_s * draw(st.integers(10, 100)),
        interval_s=min(draw(st.floats(0.001, 0.02)), period_s / 6),
        jitter=draw(st.sampled_from([0.0, 0.005, 0.02])),
        noise=draw(st.sampled_from([0.0, 0.02, 0.1])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


# Of all possible jobs, a few get a wrong profile with a confidence just above 0.5, mostly with hardly ten
# readings per iteration. The same 60 jobs are drawn each time: another outcome means another profiler.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(traffics(), st.booleans())
def test_a_profile_is_correct_or_has_low_confidence(traffic: Traffic, infiniband: bool) -> None:
    time_s, counted, mean_period_s = traffic.read()
    if infiniband:
        # 32-bit counters of 4 octets wrap every 17 GB.
        frame = pl.DataFrame({"time_s": time_s, "port_xmit_data": (counted // 4) % 2**32})
    else:
        frame = pl.DataFrame({"time_s": time_s, "tx_bytes": counted})
    try:
        profile = profile_counters(frame)
    except InputError:
        return
    if profile.confidence >= 0.5:
        repeats = max(1, round(mean_period_s / profile.period_s))
        assert profile.period_s * repeats == pytest.approx(mean_period_s, rel=0.02)
        assert misplaced(profile, traffic) < 0.3


@pytest.mark.parametrize("traffic", [VGG, HYBRID])
def test_clean_traffic_is_resolved_far_below_the_time_between_readings(traffic: Traffic) -> None:
    profile = profile_counters(traffic.frame())
    assert profile.period_s == pytest.approx(traffic.period_s, rel=1e-4)
    assert misplaced(profile, traffic) < 0.02
    assert profile.bytes_per_iteration == pytest.approx(traffic.bytes_per_iteration(), rel=0.01)
    assert profile.confidence > 0.9


def test_two_phases_that_differ_slightly_are_not_taken_for_two_iterations() -> None:
    traffic = Traffic(0.3, ((0.0, 0.06, 30e9), (0.15, 0.06, 24e9)), length_s=20, interval_s=0.005)
    assert profile_counters(traffic.frame()).period_s == pytest.approx(0.3, rel=1e-3)


def test_jitter_that_adds_up_to_whole_iterations_leaves_the_phases_sharp() -> None:
    traffic = Traffic(0.2, ((0.0, 0.08, 30e9),), length_s=200, interval_s=0.01, jitter=0.05)
    profile = profile_counters(traffic.frame())
    assert profile.period_s == pytest.approx(traffic.read()[2], rel=0.005)
    assert profile.phases[0].duration_s == pytest.approx(0.08, rel=0.05)
    assert profile.jitter_s == pytest.approx(0.05 * 0.2, rel=0.3)


def test_a_counter_of_words_counts_four_times_the_bytes() -> None:
    time_s, counted, _ = VGG.read()
    as_bytes = profile_counters(pl.DataFrame({"time_s": time_s, "port_xmit_data": counted}), unit="bytes")
    as_words = profile_counters(pl.DataFrame({"time_s": time_s, "port_xmit_data": counted}))
    assert as_words.bytes_per_iteration == pytest.approx(4 * as_bytes.bytes_per_iteration)


@pytest.mark.parametrize("wrap_bits", [None, 32])
def test_a_counter_that_wraps_at_32_bits_gives_the_same_profile(wrap_bits: Literal[32] | None) -> None:
    time_s, counted, _ = VGG.read()
    assert counted[-1] > 2 * 2**32
    wrapped = pl.DataFrame({"time_s": time_s, "tx_bytes": counted % 2**32})
    found = profile_counters(wrapped, wrap_bits=wrap_bits)
    assert found.to_job() == profile_counters(VGG.frame()).to_job()


def test_a_counter_that_wraps_at_64_bits_gives_the_same_profile() -> None:
    time_s, counted, _ = VGG.read()
    high = counted.astype(np.uint64) + np.uint64(2**64 - 2**33)
    found = profile_counters(pl.DataFrame({"time_s": time_s, "tx_bytes": high}), wrap_bits=64)
    assert found.to_job() == profile_counters(VGG.frame()).to_job()


def test_a_reset_of_the_counter_does_not_change_the_profile() -> None:
    time_s, counted, _ = VGG.read()
    reset = np.where(np.arange(counted.size) < 1000, counted + 2**40, counted - counted[1000])
    profile = profile_counters(pl.DataFrame({"time_s": time_s, "tx_bytes": reset}))
    assert profile.period_s == pytest.approx(VGG.period_s, rel=1e-3)
    assert misplaced(profile, VGG) < 0.03


def test_a_gap_in_the_series_does_not_change_the_profile() -> None:
    frame = VGG.frame()
    kept = frame.filter((pl.col("time_s") < 7.0) | (pl.col("time_s") > 9.13))
    profile = profile_counters(kept)
    assert profile.period_s == pytest.approx(VGG.period_s, rel=1e-3)
    assert misplaced(profile, VGG) < 0.03


@pytest.mark.parametrize("lifespan_s", [None, 0.01])
def test_cached_readings_are_not_taken_for_idle_time(lifespan_s: float | None) -> None:
    fast = Traffic(VGG.period_s, VGG.phases, length_s=20, interval_s=0.002, uneven=0.0)
    time_s, counted, _ = fast.read()
    cached = counted[np.arange(counted.size) // 5 * 5]
    profile = profile_counters(pl.DataFrame({"time_s": time_s, "tx_bytes": cached}), lifespan_s=lifespan_s)
    assert profile.period_s == pytest.approx(VGG.period_s, rel=1e-3)
    assert misplaced(profile, VGG) < 0.03
    assert profile.confidence > 0.9


def test_times_in_seconds_milliseconds_or_dates_give_the_same_period() -> None:
    time_s, counted, _ = VGG.read()
    start_ns = 1_790_000_000_000_000_000
    time_ns = (time_s * 1e9).astype(np.int64) + start_ns
    frames = [
        pl.DataFrame({"time_ns": time_ns, "tx_bytes": counted}),
        pl.DataFrame({"timestamp": time_ns, "tx_bytes": counted}),
        pl.DataFrame({"time_ms": time_ns / 1e6 - start_ns / 1e6, "tx_bytes": counted}),
        pl.DataFrame({"timestamp": time_ns, "tx_bytes": counted}).with_columns(
            pl.col("timestamp").cast(pl.Datetime("ns"))
        ),
        pl.DataFrame({"timestamp": time_ns, "tx_bytes": counted}).with_columns(
            pl.col("timestamp").cast(pl.Datetime("ns")).dt.strftime("%Y-%m-%dT%H:%M:%S%.9f")
        ),
    ]
    for frame in frames:
        assert profile_counters(frame).period_s == pytest.approx(VGG.period_s, rel=1e-4)


def test_one_port_of_several_is_chosen_by_its_name() -> None:
    rows = pl.concat(
        [
            VGG.frame().with_columns(pl.lit("mlx5_0").alias("device")),
            HYBRID.frame().with_columns(pl.lit("mlx5_1").alias("device")),
        ]
    ).sort("time_s")
    profile = profile_counters(rows, interface="mlx5_1")
    assert profile.name == "mlx5_1"
    assert profile.period_s == pytest.approx(HYBRID.period_s, rel=1e-3)


def noise(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return rng.uniform(0, 1e7, count)


def nearly_constant(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return 1e7 + 1e4 * rng.standard_normal(count)


def random_bursts(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    lengths = rng.geometric(1 / 12, size=count)
    busy: NDArray[np.bool_] = np.repeat(np.arange(count) % 2 == 1, lengths)[:count]
    return np.where(busy, 1e7, 0.0)


def one_burst(_: np.random.Generator, count: int) -> NDArray[np.float64]:
    burst: NDArray[np.float64] = np.zeros(count)
    burst[count // 3 : count // 2] = 1e7
    return burst


@pytest.mark.parametrize("steps", [noise, nearly_constant, random_bursts, one_burst])
@pytest.mark.parametrize("count", [200, 5000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_traffic_without_iterations_gets_no_confidence(
    steps: Callable[[np.random.Generator, int], NDArray[np.float64]], count: int, seed: int
) -> None:
    counted = np.concatenate([[0], np.cumsum(steps(np.random.default_rng(seed), count))]).astype(np.int64)
    frame = pl.DataFrame({"time_s": np.arange(count + 1) * 0.01, "tx_bytes": counted})
    assert confidence_in(frame) < 0.5


def confidence_in(frame: pl.DataFrame) -> float:
    """Confidence of the profile, 0 if the traffic is refused."""
    try:
        return profile_counters(frame).confidence
    except InputError:
        return 0.0


def test_a_few_iterations_are_trusted_less_than_many() -> None:
    few = Traffic(VGG.period_s, VGG.phases, length_s=5 * VGG.period_s, interval_s=0.01)
    assert profile_counters(few.frame()).confidence < profile_counters(VGG.frame()).confidence - 0.2


def test_the_same_series_gives_the_same_profile() -> None:
    frame = HYBRID.frame()
    assert profile_counters(frame).to_job() == profile_counters(frame).to_job()


def test_a_million_readings_take_seconds() -> None:
    long = Traffic(
        0.25, ((0.0, 0.06, 30e9), (0.1, 0.05, 20e9)), length_s=10_000, interval_s=0.01, jitter=0.02
    )
    frame = long.frame()
    assert frame.height == 1_000_000
    start = time.process_time()
    profile = profile_counters(frame)
    # Measured: 1.7 s on one core. A quadratic step would take minutes.
    assert time.process_time() - start < 5
    assert profile.iterations_seen > 39_900


def test_a_segment_that_sends_nothing_is_not_up_if_another_has_a_negative_fit() -> None:
    assert is_up(np.array([-500.0, 0.0, 1000.0, 20.0])).tolist() == [False, False, True, False]


def test_iterations_found_in_the_middle_alone_are_counted_from_the_first_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = 2 * period.SEARCH_READINGS
    time_s = 0.01 * np.arange(readings, dtype=np.float64)
    is_sending = (time_s % 0.25) < 0.1
    total_bytes = np.concatenate([[0.0], np.cumsum(is_sending[:-1] * 1e7)])
    series = CounterSeries("test", "tx_bytes", time_s, total_bytes, np.ones(readings - 1, dtype=np.bool_))
    track = period.track

    def track_the_middle_alone(
        section: CounterSeries, grid: period.Grid, period_s: float
    ) -> period.Iterations | None:
        return None if section is series else track(section, grid, period_s)

    monkeypatch.setattr(period, "track", track_the_middle_alone)
    iterations = period.find_iterations(series)
    begin_s, end_s = time_s[readings // 4], time_s[readings * 3 // 4]
    assert begin_s <= iterations.start_s[0] <= begin_s + 0.5
    assert end_s - 0.75 <= iterations.start_s[-1] <= end_s
    # Bursts begin at whole multiples of 0.25 s; borders are at the same phase of each.
    phase_s = (iterations.start_s - iterations.start_s[0]) % 0.25
    assert np.minimum(phase_s, 0.25 - phase_s).max() < 0.01
