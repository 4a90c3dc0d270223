"""Durations of iterations: a histogram for Prometheus, and mean and 99th percentile of the latest."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hocket.service.models import MeasuredTimes, Report

BOUNDS_S = tuple(mantissa * 10.0**exponent for exponent in range(-3, 2) for mantissa in (1, 2, 5))
"""Upper bounds of the buckets: from a millisecond to 50 s, three in each decade."""

LATEST = 300
"""Reports in a measurement. Hocket: five minutes, as agents report every second."""

_NS_PER_S = 1_000_000_000


@dataclass
class IterationTimes:
    """Histogram of iterations by duration."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Per bucket, not cumulative; the last is for durations above all bounds."""
    total_ns: int = 0

    def add(self, report: Report) -> None:
        """Adds the iterations of a report."""
        self.total_ns += report.total_ns
        for each_ns, count in _spread(report):
            self.counts[bisect_left(BOUNDS_S, each_ns / _NS_PER_S)] += count


class LatestTimes:
    """The iterations of the latest reports."""

    def __init__(self) -> None:
        self._reports: deque[Report] = deque(maxlen=LATEST)

    def add(self, report: Report) -> None:
        """Adds the iterations of a report, and drops those of the oldest."""
        # A report without iterations must not displace one that has some.
        if report.count > 0:
            self._reports.append(report)

    def measured(self) -> MeasuredTimes | None:
        """Mean and 99th percentile; None before the first iteration."""
        count = sum(report.count for report in self._reports)
        if count == 0:
            return None
        total_ns = sum(report.total_ns for report in self._reports)
        # By nearest rank: at most one iteration in a hundred is slower.
        slower = count // 100
        for each_ns, number in sorted(
            (each for report in self._reports for each in _spread(report)), reverse=True
        ):
            p99_ns = each_ns
            slower -= number
            if slower < 0:
                break
        return MeasuredTimes(iterations=count, mean_ns=total_ns // count, p99_ns=p99_ns)


def _spread(report: Report) -> Iterator[tuple[int, int]]:
    """Durations in a report, with the number of iterations of each. A report has only the sum and the
    extremes, so the others count as their mean.
    """
    count, min_ns, max_ns = report.count, report.min_ns, report.max_ns
    if count > 0:
        yield min_ns, 1
    if count > 1:
        yield max_ns, 1
    if count > 2:
        yield (report.total_ns - min_ns - max_ns) // (count - 2), count - 2
