"""When something happened, on the host's monotonic clock: on the host at once, on a GPU that the host runs
ahead of once the GPU has come there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

# Hocket: GPU and host clocks are crystals, at worst some 100 ppm apart: 3 ms in so long, a fraction of 5% of
# usual iterations. Elapsed times are 32-bit floats in ms: 2 µs fine at this length.
_CALIBRATION_NS = 30_000_000_000


class Marker(Protocol):
    """Where the times of an iteration come from."""

    def mark(self) -> Any:
        """A mark at what is done next."""

    def read_ns(self, mark: Any) -> int | None:
        """When the mark was passed; nothing if it was not yet, or if there is no mark."""

    def free(self, marks: Iterable[Any]) -> None:
        """Takes back marks that nobody reads again; the same may come twice, and there may be none."""

    def catch_up(self) -> None:
        """Returns when all that was asked of the device is done."""

    def calibrate(self) -> None:
        """Relates the device's clock to the host's; right after `catch_up`, with all marks read."""

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time to calibrate."""


class HostMarker:
    """For jobs that compute on the host."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.mark = clock

    def read_ns(self, mark: int | None) -> int | None:
        return mark

    def free(self, _: Iterable[int | None]) -> None:
        """A time costs nothing."""

    def catch_up(self) -> None:
        """The host is where it is."""

    def calibrate(self) -> None:
        """There is but one clock."""

    def is_due(self, _: int) -> bool:
        return False


class CudaMarker:
    """For jobs on a GPU: marks are CUDA events in the stream that is current. While that stream is captured
    into a graph the agent asks nothing of CUDA, as that would spoil the capture.
    """

    def __init__(self, cuda: Any, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`cuda` is `torch.cuda`."""
        self._cuda = cuda
        self._clock = clock
        self._spare: list[Any] = []
        self._is_capturing = getattr(cuda, "is_current_stream_capturing", lambda: False)
        self._zero: Any = None
        """A mark, and what the host's clock was when it was passed."""
        self._zero_ns = 0

    def mark(self) -> Any:
        if self._is_capturing():
            return None
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def read_ns(self, mark: Any) -> int | None:
        if mark is None or self._zero is None or self._is_capturing() or not mark.query():
            return None
        elapsed_ms: float = self._zero.elapsed_time(mark)
        return self._zero_ns + round(elapsed_ms * 1e6)

    def free(self, marks: Iterable[Any]) -> None:
        # Making an event costs more than recording it.
        self._spare += {id(mark): mark for mark in marks if mark is not None}.values()

    def catch_up(self) -> None:
        if not self._is_capturing():
            self._cuda.synchronize()

    def calibrate(self) -> None:
        if self._is_capturing():
            return
        self._zero = self._cuda.Event(enable_timing=True)
        self._zero.record()
        self._zero.synchronize()
        self._zero_ns = self._clock()

    def is_due(self, now_ns: int) -> bool:
        return self._zero is None or now_ns - self._zero_ns >= _CALIBRATION_NS
