"""When communication may start: slots, a period apart, on the clock of the service."""

from __future__ import annotations

from typing import NamedTuple


class Slot(NamedTuple):
    """Where a job's communication phases start: at `origin_ns`, and whole periods before and after it.

    >>> slot = Slot(version=1, origin_ns=1_000, period_ns=100, ideal_ns=100, iteration=0, tolerance_ns=5)
    >>> slot.late_ns(1_310), slot.wait_ns(1_310), slot.late_ns(1_390)
    (10, 90, -10)
    """

    version: int
    origin_ns: int
    period_ns: int
    ideal_ns: int
    """An iteration that nobody disturbs."""
    iteration: int
    """The first that starts by it, at every rank."""
    tolerance_ns: int
    """How far from its slot communication may start."""

    @property
    def waits(self) -> bool:
        """Whether each iteration that is early waits: periods were padded until those of all jobs fit
        together, so all iterations are early.
        """
        return self.period_ns > self.ideal_ns

    def late_ns(self, time_ns: int) -> int:
        """How late a time is against the nearest slot: above minus a half and up to a half of the period."""
        late_ns = (time_ns - self.origin_ns) % self.period_ns
        return late_ns - self.period_ns if 2 * late_ns > self.period_ns else late_ns

    def wait_ns(self, time_ns: int) -> int:
        """From a time to the next slot: nothing at one, and always less than a period."""
        return (self.origin_ns - time_ns) % self.period_ns
