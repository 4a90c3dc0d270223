"""Marks: points in the program whose times are read on the host's monotonic clock. A mark on the host can be
read at once, a mark on a GPU once the GPU, which runs behind its host, has passed it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

# Hocket: GPU and host clocks drift apart by about 100 ppm at worst, 3 ms in this interval: well below 5% of a
# usual iteration. Elapsed times are 32-bit floats in ms, with a resolution of 2 µs at this length.
_CALIBRATION_NS = 30_000_000_000


class Marker(Protocol):
    """Source of the times of an iteration."""

    def mark(self) -> Any:
        """Places a mark after all work submitted so far."""

    def read_ns(self, mark: Any) -> int | None:
        """When the mark was passed; None if it has not been passed yet, or if `mark` is None."""

    def free(self, marks: Iterable[Any]) -> None:
        """Recycles marks that will not be read again; duplicates and None are allowed."""

    def catch_up(self) -> None:
        """Returns when the device has finished all submitted work."""

    def calibrate(self) -> None:
        """Relates the device's clock to the host's. Call it right after `catch_up`, with all marks read."""

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time to calibrate."""


class HostMarker:
    """For jobs that compute on the host."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.mark = clock

    def read_ns(self, mark: int | None) -> int | None:
        return mark

    def free(self, _: Iterable[int | None]) -> None:
        """Does nothing: a mark is a plain number."""

    def catch_up(self) -> None:
        """Does nothing: the host is never behind itself."""

    def calibrate(self) -> None:
        """Does nothing: there is only one clock."""

    def is_due(self, _: int) -> bool:
        return False


class CudaMarker:
    """For jobs on a GPU: marks are CUDA events on the current stream. While that stream is captured into a
    graph, the agent does not call CUDA, since that would invalidate the capture.
    """

    def __init__(self, cuda: Any, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`cuda` is `torch.cuda`."""
        self._cuda = cuda
        self._clock = clock
        self._spare: list[Any] = []
        # Older versions of PyTorch lack it.
        self._is_capturing = getattr(cuda, "is_current_stream_capturing", lambda: False)
        self._zero: Any = None
        """The event that other events are timed against."""
        self._zero_ns = 0
        """The host's clock when `_zero` was passed."""

    def mark(self) -> Any:
        if self._is_capturing():
            return None
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def read_ns(self, mark: Any) -> int | None:
        # `elapsed_time` fails for an event that has not been passed.
        if mark is None or self._zero is None or self._is_capturing() or not mark.query():
            return None
        elapsed_ms: float = self._zero.elapsed_time(mark)
        return self._zero_ns + round(elapsed_ms * 1e6)

    def free(self, marks: Iterable[Any]) -> None:
        # Creating an event costs more than recording it.
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
