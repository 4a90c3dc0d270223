"""Jobs whose host runs ahead of their GPU: times are the GPU's, and are read without waiting for it."""

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
    """What the agent uses of `torch.cuda`: a device that does one thing after the other."""

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
        """Asks for a kernel that takes so long; returns at once."""
        self.free_ns = max(self.free_ns, self.clock.now_ns) + ms * MS

    def synchronize(self) -> None:
        assert not self.capturing, "nothing may be waited for in a capture"
        self.waits += 1
        self.clock.now_ns = max(self.clock.now_ns, self.free_ns)


class FakeEvent:
    """A CUDA event: passed once the device has come to it, and timed on a clock that is not the host's."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda
        self._passed_ns = 0

    def record(self) -> None:
        assert not self._cuda.capturing, "an event that is timed may not be captured"
        self._cuda.compute(0)
        self._passed_ns = self._cuda.free_ns

    def query(self) -> bool:
        assert not self._cuda.capturing, "nothing may be asked for in a capture"
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
    # When the GPU came to it, neither when it was made nor when it is read.
    assert marker.read_ns(mark) == 1_000 * SECOND + 40 * MS


def test_marks_are_used_again(clock: Clock, cuda: FakeCuda) -> None:
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
    """An iteration of 5 ms for the host and 180 ms for the GPU, with communication after 60: when that is."""
    with agent.iteration():
        clock.now_ns += 5 * MS
        cuda.compute(60)
        communicates_ns = cuda.free_ns
        agent.communication_started()
        cuda.compute(120)
    return communicates_ns


def test_the_host_goes_on_ahead_of_the_gpu_while_nothing_is_shifted(clock: Clock, cuda: FakeCuda) -> None:
    agent = Agent(clock=clock, sleep=clock.sleep)
    iterate(agent, clock, cuda)
    waits = cuda.waits
    for _ in range(100):
        iterate(agent, clock, cuda)
    assert cuda.waits == waits
    assert clock.now_ns == 1_000 * SECOND + 101 * 5 * MS
    # 18 s of work lie ahead of it.
    assert cuda.free_ns == 1_000 * SECOND + 5 * MS + 101 * 180 * MS


def test_the_gpu_is_caught_up_with_before_a_delay_which_is_right_for_it(clock: Clock, cuda: FakeCuda) -> None:
    agent = Agent(clock=clock, sleep=clock.sleep)
    # Half a second for the host, in which the GPU comes through two.
    for _ in range(100):
        iterate(agent, clock, cuda)
    slot = Slot(1, 17 * MS, 190 * MS, 180 * MS, 0, 9 * MS)
    # As the agent's thread would leave it.
    agent._reporter.answer = Answer(slot, "", Offset(0, 0, clock.now_ns), clock.now_ns)
    iterate(agent, clock, cuda)
    late_ns = [slot.late_ns(iterate(agent, clock, cuda)) for _ in range(10)]
    # A GPU that waits for its host starts 5 ms after it, which is learnt.
    assert late_ns[0] == pytest.approx(5 * MS, abs=1_000)
    assert late_ns[-5:] == pytest.approx([0] * 5, abs=1_000)
    assert agent.status()["deviation_ns"] == pytest.approx(0, abs=1_000)
    assert agent.status()["adjustments"] == 0


def test_nothing_is_asked_of_a_gpu_whose_work_is_captured_into_a_graph(clock: Clock, cuda: FakeCuda) -> None:
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
