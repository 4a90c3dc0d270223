"""Which collective begins a communication phase, and when it did, on hosts and on GPUs."""

from collections.abc import Callable
from typing import Any

import pytest

from hocket.agent.communication import Communication, Lessons
from hocket.agent.marks import CudaMarker, HostMarker

MS = 1_000_000
SECOND = 1_000 * MS


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def learnt(iterations: list[list[tuple[int, int]]]) -> int | None:
    lessons = Lessons()
    for events in iterations:
        lessons.learn([(start, since) for start, since in events], 0)
    return lessons.outcome


def test_the_phase_begins_with_the_collective_after_the_longest_quiet() -> None:
    # 10 ms before the first of an iteration, 40 ms before the second.
    assert learnt([[(10, 0), (60, 20)]] * 11) == 1


def test_the_first_iterations_teach_nothing_as_buckets_are_cut_anew_after_them() -> None:
    assert learnt([[(50, 0)]] * 2 + [[(10, 0), (60, 20)]] * 8) is None
    assert learnt([[(50, 0)]] * 2 + [[(10, 0), (60, 20)]] * 9) == 1


def test_a_straggler_in_the_middle_of_a_phase_does_not_count() -> None:
    usual, straggler = [(40, 0), (60, 50)], [(40, 0), (500, 50)]
    assert learnt([usual, usual] + [usual, straggler, usual] * 3) == 0


def test_what_an_iteration_was_delayed_is_no_quiet() -> None:
    # 70 ms before the first collective, of which 60 ms were a delay, and 40 ms before the second.
    events: list[tuple[int | None, int | None]] = [(70, 0), (120, 80)]
    assert Lessons().learn(events, 60) == 1
    assert Lessons().learn(events, 0) == 0


def test_time_in_communication_is_that_with_any_collective_under_way() -> None:
    clock = Clock()
    communication = Communication(clock, clock)
    for now_ns, happens in [
        (10, communication.span_started),
        (15, communication.span_started),
        (20, communication.span_ended),
        (30, communication.span_ended),
        (70, communication.span_started),
        (75, communication.span_ended),
    ]:
        clock.now_ns = now_ns
        happens()
    seen = communication.take()
    assert seen.communication_ns == 20 + 5
    # The first has nothing before it, the second began while the first went on.
    assert [tuple(event) for event in seen.events] == [(10, 10), (15, 15), (70, 30)]


def test_time_in_communication_is_unknown_where_an_end_is_missing() -> None:
    communication = Communication(Clock(), Clock())
    communication.started()
    assert communication.take().communication_ns is None
    communication.span_started()
    assert communication.take().communication_ns is None
    # What ends late belongs to an iteration that is over.
    communication.span_ended()
    assert communication.take().communication_ns is None


def test_once_it_is_settled_only_the_first_collective_of_a_phase_is_marked() -> None:
    clock = Clock()
    marks: list[int] = []

    def mark() -> int:
        marks.append(clock.now_ns)
        return clock.now_ns

    communication = Communication(mark, clock)
    communication.settle(1)
    for now_ns in (1, 2, 3):
        clock.now_ns = now_ns
        communication.started()
    assert communication.take().start == 2
    assert marks == [2]


class FakeEvent:
    """A CUDA event as PyTorch has it: passed once the device has come to it, with times in ms between two."""

    def __init__(self, device: "FakeCuda") -> None:
        self._device = device

    def record(self) -> None:
        assert not self._device.capturing, "an event that is timed may not be captured"
        self._device.recorded += 1
        self._device.queue.append(self)
        self.at_ms: float | None = None

    def query(self) -> bool:
        return self.at_ms is not None

    def synchronize(self) -> None:
        self._device.run()

    def elapsed_time(self, end: "FakeEvent") -> float:
        assert self.at_ms is not None
        assert end.at_ms is not None
        return end.at_ms - self.at_ms


class FakeCuda:
    """What a `CudaMarker` uses of `torch.cuda`: a device behind its host, with a clock of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.queue: list[FakeEvent] = []
        self.capturing = False
        self.recorded = 0
        self.made = 0

    def Event(self, enable_timing: bool) -> FakeEvent:  # noqa: N802 (PyTorch's name)
        assert enable_timing
        self.made += 1
        return FakeEvent(self)

    def synchronize(self) -> None:
        self.run()

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def run(self) -> None:
        """The device comes to all that was asked of it, now."""
        for event in self.queue:
            event.at_ms = self._clock.now_ns / MS + 12_345.0
        self.queue.clear()


@pytest.fixture
def device() -> tuple[Clock, FakeCuda, CudaMarker]:
    clock = Clock()
    clock.now_ns = 5 * SECOND
    cuda = FakeCuda(clock)
    return clock, cuda, CudaMarker(cuda, clock)


def test_a_gpus_mark_is_read_once_the_gpu_has_passed_it(device: tuple[Clock, FakeCuda, CudaMarker]) -> None:
    clock, cuda, marker = device
    clock.now_ns += 10 * MS
    mark = marker.mark()
    assert marker.read_ns(mark) is None
    clock.now_ns += 30 * MS
    cuda.run()
    clock.now_ns += 100 * MS
    # When the device came to it, neither when it was made nor when it is read.
    assert marker.read_ns(mark) == pytest.approx(5 * SECOND + 40 * MS, abs=1_000)


def test_a_gpus_marks_are_used_again(device: tuple[Clock, FakeCuda, CudaMarker]) -> None:
    _, cuda, marker = device
    made = cuda.made
    for _ in range(100):
        marker.free(marker.mark())
    assert cuda.made == made + 1


def test_nothing_is_recorded_in_a_stream_that_is_captured(
    device: tuple[Clock, FakeCuda, CudaMarker],
) -> None:
    _, cuda, marker = device
    cuda.capturing = True
    assert marker.mark() is None
    assert marker.read_ns(None) is None


def test_a_gpus_clock_is_due_for_calibration_after_half_a_minute(
    device: tuple[Clock, FakeCuda, CudaMarker],
) -> None:
    clock, _, marker = device
    assert not marker.is_due(clock.now_ns + 29 * SECOND)
    clock.now_ns += 30 * SECOND
    assert marker.is_due(clock.now_ns)
    marker.catch_up()
    marker.calibrate()
    assert not marker.is_due(clock.now_ns)


def test_a_hosts_marks_are_times() -> None:
    clock: Callable[[], Any] = Clock()
    marker = HostMarker(clock)
    assert marker.read_ns(marker.mark()) == 0
    assert not marker.is_due(10**18)
