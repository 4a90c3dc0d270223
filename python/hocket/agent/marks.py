"""When something happened, on the host's monotonic clock: on the host at once, on a GPU that the host runs
ahead of once the GPU has come there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

# Hocket: GPU and host clocks are crystals, at worst some 100 ppm apart: 3 ms in so long, a fraction of 5% of
# usual iterations. Elapsed times are 32-bit floats in ms: 2 µs fine at this length.
_CALIBRATION_NS = 30_000_000_000


class Marker(Protocol):
    """Where the times of an iteration come from."""

    def mark(self) -> Any:
        """A mark at what is done next."""

    def read_ns(self, mark: Any) -> int | None:
        """When the mark was passed; nothing if it was not yet. Marks are read in the order in which they
        were made.
        """

    def free(self, mark: Any) -> None:
        """Takes back a mark that nobody reads again."""

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

    def read_ns(self, mark: int) -> int:
        return mark

    def free(self, mark: int) -> None:
        """A time costs nothing."""

    def catch_up(self) -> None:
        """The host is where it is."""

    def calibrate(self) -> None:
        """There is but one clock."""

    def is_due(self, _: int) -> bool:
        return False


class CudaMarker:
    """For jobs on a GPU: marks are CUDA events in the stream that is current. None is made while that stream
    is captured into a graph, as an event that is timed may not be part of one.
    """

    def __init__(self, cuda: Any, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`cuda` is `torch.cuda`. Waits for the GPU once."""
        self._cuda = cuda
        self._clock = clock
        self._spare: list[Any] = []
        self._is_capturing = getattr(cuda, "is_current_stream_capturing", lambda: False)
        self.catch_up()
        self.calibrate()

    def mark(self) -> Any:
        if self._is_capturing():
            return None
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def read_ns(self, mark: Any) -> int | None:
        if mark is None or not mark.query():
            return None
        elapsed_ms: float = self._zero.elapsed_time(mark)
        return self._zero_ns + round(elapsed_ms * 1e6)

    def free(self, mark: Any) -> None:
        # Making an event costs more than recording it.
        if mark is not None:
            self._spare.append(mark)

    def catch_up(self) -> None:
        self._cuda.synchronize()

    def calibrate(self) -> None:
        self._zero = self._cuda.Event(enable_timing=True)
        self._zero.record()
        self._zero.synchronize()
        self._zero_ns = self._clock()

    def is_due(self, now_ns: int) -> bool:
        return now_ns - self._zero_ns >= _CALIBRATION_NS
