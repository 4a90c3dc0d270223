"""Jobs whose host runs ahead of its GPU: times are the GPU's, and reading them does not wait for it."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.agent.conftest import SECOND, Clock

from hocket_agent import Agent, Settings
from hocket_agent.marks import CudaMarker
from hocket_agent.offset import Offset
from hocket_agent.slots import Slot
from hocket_agent.state import Answer

MS = 1_000_000


class FakeCuda:
    """The part of `torch.cuda` that the agent uses: a device that works in order."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.free_ns = 0
        self.capturing = False
        self.made = 0
        self.waits = 0

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def Event(self, enable_timing: bool) -> "FakeEvent":  # noqa: N802
        assert enable_timing
        self.made += 1
        return FakeEvent(self)

    def compute(self, ms: int) -> None:
        """Submits a kernel that takes `ms`; returns at once."""
        self.free_ns = max(self.free_ns, self.clock.now_ns) + ms * MS

    def synchronize(self) -> None:
        assert not self.capturing, "synchronizing during a capture is not allowed"
        self.waits += 1
        self.clock.now_ns = max(self.clock.now_ns, self.free_ns)


class FakeEvent:
    """A CUDA event: passed once the device has reached it, and timed on the device's clock."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda
        self._passed_ns = 0

    def record(self) -> None:
        assert not self._cuda.capturing, "a timed event must not be captured"
        self._cuda.compute(0)
        self._passed_ns = self._cuda.free_ns

    def query(self) -> bool:
        assert not self._cuda.capturing, "querying during a capture is not allowed"
        return self._passed_ns <= self._cuda.clock.now_ns

    def synchronize(self) -> None:
        self._cuda.clock.now_ns = max(self._cuda.clock.now_ns, self._passed_ns)

    def elapsed_time(self, end: "FakeEvent") -> float:
        assert end.query(), "an event must be passed before it is timed"
        return (end._passed_ns - self._passed_ns) / MS


@pytest.fixture
def cuda(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """A GPU that this process uses through PyTorch."""
    device = FakeCuda(clock)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=device))
    return device


def test_a_mark_is_read_once_the_gpu_has_passed_it(clock: Clock, cuda: FakeCuda) -> None:
    marker = CudaMarker(cuda, clock)
    marker.calibrate()
    cuda.compute(40)
    mark = marker.mark()
    assert marker.read_ns(mark) is None
    clock.now_ns += 100 * MS
    # The time at which the GPU reached it, neither when it was recorded nor when it was read.
    assert marker.read_ns(mark) == 1_000 * SECOND + 40 * MS


def test_marks_are_recycled(clock: Clock, cuda: FakeCuda) -> None:
    marker = CudaMarker(cuda, clock)
    made = cuda.made
    for _ in range(100):
        mark = marker.mark()
        marker.free([mark, None, mark])
    assert cuda.made == made + 1


def test_the_gpus_clock_is_due_for_calibration_after_half_a_minute(clock: Clock, cuda: FakeCuda) -> None:
    marker = CudaMarker(cuda, clock)
    assert marker.is_due(clock.now_ns)
    marker.calibrate()
    assert not marker.is_due(clock.now_ns + 29 * SECOND)
    clock.now_ns += 30 * SECOND
    assert marker.is_due(clock.now_ns)
    marker.catch_up()
    marker.calibrate()
    assert not marker.is_due(clock.now_ns)


def iterate(agent: Agent, clock: Clock, cuda: FakeCuda) -> int:
    """An iteration of 5 ms on the host and 180 ms on the GPU; returns when communication starts, after 60."""
    with agent.iteration():
        clock.now_ns += 5 * MS
        cuda.compute(60)
        communicates_ns = cuda.free_ns
        agent.communication_started()
        cuda.compute(120)
    return communicates_ns


def test_the_host_runs_ahead_of_the_gpu_while_nothing_is_shifted(clock: Clock, cuda: FakeCuda) -> None:
    agent = Agent(clock=clock, sleep=clock.sleep)
    iterate(agent, clock, cuda)
    waits = cuda.waits
    for _ in range(100):
        iterate(agent, clock, cuda)
    assert cuda.waits == waits
    assert clock.now_ns == 1_000 * SECOND + 101 * 5 * MS
    # The GPU has 18 s of work queued.
    assert cuda.free_ns == 1_000 * SECOND + 5 * MS + 101 * 180 * MS


def test_the_host_waits_for_the_gpu_before_a_delay_so_that_it_is_exact(clock: Clock, cuda: FakeCuda) -> None:
    agent = Agent(clock=clock, sleep=clock.sleep)
    # Half a second on the host, in which the GPU finishes two iterations.
    for _ in range(100):
        iterate(agent, clock, cuda)
    slot = Slot(1, 17 * MS, 190 * MS, 180 * MS, 0, 9 * MS)
    # As the agent's thread would set it.
    agent._reporter.answer = Answer(slot, "", Offset(0, 0, clock.now_ns), clock.now_ns)
    iterate(agent, clock, cuda)
    late_ns = [slot.late_ns(iterate(agent, clock, cuda)) for _ in range(10)]
    # A GPU that waits for its host starts 5 ms after it, which the agent learns.
    assert late_ns[0] == pytest.approx(5 * MS, abs=1_000)
    assert late_ns[-5:] == pytest.approx([0] * 5, abs=1_000)
    assert agent.status()["deviation_ns"] == pytest.approx(0, abs=1_000)
    assert agent.status()["adjustments"] == 0


def test_cuda_is_not_called_while_a_graph_is_captured(clock: Clock, cuda: FakeCuda) -> None:
    agent = Agent(clock=clock, sleep=clock.sleep)
    cuda.capturing = True
    for _ in range(3):
        iterate(agent, clock, cuda)
        clock.now_ns += 40 * SECOND
    cuda.capturing = False
    for _ in range(3):
        iterate(agent, clock, cuda)
    cuda.capturing = True
    iterate(agent, clock, cuda)
    assert agent.status()["iterations"] == 7
    assert "failed" not in agent.status()["reason"]


def test_time_in_communication_is_the_gpus(clock: Clock, cuda: FakeCuda, tmp_path: Path) -> None:
    log = tmp_path / "agent.jsonl"
    agent = Agent(Settings(log=str(log)), clock=clock, sleep=clock.sleep)
    for _ in range(20):
        with agent.iteration():
            cuda.compute(60)
            with agent.communication():
                cuda.compute(90)
            cuda.compute(30)
        clock.now_ns += 180 * MS
    agent.close()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) >= 19
    for line in lines:
        assert line["communication_ns"] == pytest.approx(90 * MS, abs=1_000)
        assert line["communication_start_ns"] - line["start_ns"] == pytest.approx(60 * MS, abs=1_000)
