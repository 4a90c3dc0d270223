"""Spans of time that overlap, in lanes beside each other."""

import heapq


class Lanes:
    """Lanes from 0 on; a span takes the first in which those before it have ended.

    >>> lanes = Lanes()
    >>> [lanes.take(start, end) for start, end in [(0, 10), (4, 6), (6, 9), (10, 11)]]
    [0, 1, 1, 0]
    """

    def __init__(self) -> None:
        self._busy: list[tuple[float, int]] = []
        self._free: list[int] = []

    def take(self, start: float, end: float) -> int:
        """The lane for a span from `start` to `end`. Spans are given in the order of their starts."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        lane = heapq.heappop(self._free) if self._free else len(self._busy)
        heapq.heappush(self._busy, (end, lane))
        return lane
