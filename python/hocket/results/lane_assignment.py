"""Assigns overlapping spans of time to lanes, so that no two in a lane overlap."""

import heapq


class Lanes:
    """Lanes numbered from 0. A span takes the first lane in which all earlier spans have ended.

    >>> lanes = Lanes()
    >>> [lanes.take(start, end) for start, end in [(0, 10), (4, 6), (6, 9), (10, 11)]]
    [0, 1, 1, 0]
    """

    def __init__(self) -> None:
        self._busy: list[tuple[float, int]] = []
        self._free: list[int] = []

    def take(self, start: float, end: float) -> int:
        """The lane for the span from `start` to `end`. Spans must come in the order of their starts."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        # If no lane is free, the lanes from 0 on are all busy, and the next number is their count.
        lane = heapq.heappop(self._free) if self._free else len(self._busy)
        heapq.heappush(self._busy, (end, lane))
        return lane
