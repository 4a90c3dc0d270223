"""Slots: the times at which communication may start, one period apart, on the service's clock."""

from __future__ import annotations

from typing import NamedTuple


class Slot(NamedTuple):
    """The starts of a job's communication phases: `origin_ns`, and whole periods before and after it.

    >>> slot = Slot(version=1, origin_ns=1_000, period_ns=100, ideal_ns=100, iteration=0, tolerance_ns=5)
    >>> slot.late_ns(1_310), slot.wait_ns(1_310), slot.late_ns(1_390)
    (10, 90, -10)
    """

    version: int
    origin_ns: int
    period_ns: int
    ideal_ns: int
    """The duration of an iteration without contention."""
    iteration: int
    """The first iteration that follows this slot, at every rank."""
    tolerance_ns: int
    """How far from its slot communication may start."""

    @property
    def waits(self) -> bool:
        """Whether an early iteration waits for its slot. It does where the period was padded to fit those of
        other jobs, since every iteration is then shorter than the period.
        """
        return self.period_ns > self.ideal_ns

    def late_ns(self, time_ns: int) -> int:
        """How late a time is relative to the nearest slot: more than −½ and at most ½ of the period."""
        late_ns = (time_ns - self.origin_ns) % self.period_ns
        return late_ns - self.period_ns if 2 * late_ns > self.period_ns else late_ns

    def wait_ns(self, time_ns: int) -> int:
        """The time until the next slot: 0 at a slot, and always less than a period."""
        return (self.origin_ns - time_ns) % self.period_ns
