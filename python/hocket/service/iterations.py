"""How long iterations took, as counts by class: what a histogram of Prometheus shows."""

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS_S = tuple(mantissa * 10.0**exponent for exponent in range(-3, 2) for mantissa in (1, 2, 5))
"""Upper ends of the classes: from a millisecond to a minute, three in each decade."""

_NS_PER_S = 1_000_000_000


@dataclass
class IterationTimes:
    """Counts of iterations by how long they took."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Of each class alone, one more for what is above all bounds."""
    total_ns: int = 0

    def add(self, count: int, total_ns: int, min_ns: int, max_ns: int) -> None:
        """So many iterations more, of which only sum and extremes are known: the others count as their mean.

        >>> times = IterationTimes()
        >>> times.add(4, 4_000_000, 500_000, 1_900_000)
        >>> times.counts[:3]
        [3, 1, 0]
        """
        self.total_ns += total_ns
        if count > 0:
            self._count(min_ns, 1)
        if count > 1:
            self._count(max_ns, 1)
        if count > 2:
            self._count((total_ns - min_ns - max_ns) // (count - 2), count - 2)

    def _count(self, each_ns: int, count: int) -> None:
        self.counts[bisect_left(BOUNDS_S, each_ns / _NS_PER_S)] += count
