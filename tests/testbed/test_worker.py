"""A worker's computation between its phases, without PyTorch."""

import time
from typing import Any

import pytest

from hocket.testbed import worker
from hocket.testbed.worker import Phases, computing

MS = 10**6


class Clock:
    """A clock that advances only by sleeping or working."""

    def __init__(self) -> None:
        self.now_ns = 0

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def monotonic_ns(self) -> int:
        return self.now_ns


class AllReduce:
    """An all-reduce that takes `took_ms` from when it is waited for."""

    def __init__(self, clock: Clock, took_ms: int) -> None:
        self._clock, self._took_ms = clock, took_ms

    def wait(self) -> None:
        self._clock.now_ns += self._took_ms * MS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setattr(time, "monotonic_ns", clock.monotonic_ns)
    return clock


def iterate(phases: Phases, clock: Clock, sends_ms: list[int], optimizer_ms: int = 0) -> None:
    """Acts like the backward pass: computes before each bucket, and waits for it before continuing."""
    phases.begin(1.0)
    for number, took_ms in enumerate(sends_ms):
        phases.compute(number)
        phases.pending = AllReduce(clock, took_ms)
    phases.communicated()
    clock.now_ns += optimizer_ms * MS
    phases.compute(len(sends_ms))


def test_phases_follow_each_other_as_in_the_plan(clock: Clock) -> None:
    phases = Phases([0.03, 0.02, 0.01])
    iterate(phases, clock, [40, 25])
    assert phases.up_ns == [[30 * MS, 70 * MS], [90 * MS, 115 * MS]]
    assert clock.now_ns == 125 * MS


def test_the_optimizers_time_is_part_of_the_computation(clock: Clock) -> None:
    # 2 ms of its 5 ms fit into the last Down phase; the first of the next iteration is 3 ms shorter.
    phases = Phases([0.03, 0.002])
    iterate(phases, clock, [40], optimizer_ms=5)
    assert clock.now_ns == 75 * MS
    iterate(phases, clock, [40], optimizer_ms=0)
    assert clock.now_ns == (75 + 27 + 40 + 2) * MS


def test_jitter_is_the_same_for_all_workers_and_differs_from_iteration_to_iteration() -> None:
    task: dict[str, Any] = {"jitter": 0.01, "stream": "1 a"}
    factors = [computing(task, iteration) for iteration in range(1_000)]
    assert factors == [computing(dict(task), iteration) for iteration in range(1_000)]
    mean = sum(factors) / len(factors)
    deviation = (sum((factor - mean) ** 2 for factor in factors) / len(factors)) ** 0.5
    assert mean == pytest.approx(1, abs=1e-3)
    assert deviation == pytest.approx(0.01, rel=0.1)
    assert computing({**task, "jitter": 0.0}, 7) == 1.0


def test_the_module_can_be_imported_without_pytorch() -> None:
    assert worker.WARM_UP_ITERATIONS > 0
