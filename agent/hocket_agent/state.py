"""Decides how long a job's next iteration is delayed: a state machine without clock or network.

It follows the rules of the simulated agent in `crates/hocket-scenario/src/closed_loop.rs`, with two
differences. A simulated job knows when its iteration will communicate; here that is learnt. And a job that
reaches its first slot late, but within tolerance, starts at once, where the simulated one waits for the next.
"""

from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import NamedTuple

from hocket_agent.offset import Offset
from hocket_agent.slots import Slot

# Hocket: the number of iterations whose median counts as usual. Few enough to follow changes of the batch
# size, yet the median is an outlier only if five of nine are.
_RECENT = 9
# Hocket: twice the longest pause between two requests (30 s), so that one lost request does not end a slot.
# With a longer lease, a job would wait for jobs that left long ago.
LEASE_NS = 60_000_000_000
# Hocket: padding that doubles an iteration never pays, so such a slot was made for another profile.
_LONGEST_PERIOD = 2
# Hocket: if adjustments took more than this share of the last iterations, the iterations do not fit the slot,
# for example because they are longer than its period. NSDI'24 section 5.7 reports under two adjustments a
# minute.
_COSTLY_SHARE = 0.2
_COSTLY_WINDOW = 50


class Iteration(NamedTuple):
    """A finished iteration; times are on our monotonic clock."""

    number: int
    start_ns: int
    communication_start_ns: int | None
    end_ns: int
    delay_ns: int
    """The delay before it started."""
    adjusted: bool
    communication_ns: int | None
    """The time in communication, if its ends were observed."""


class Answer(NamedTuple):
    """The service's last answer, and when it arrived."""

    slot: Slot | None
    reason: str
    offset: Offset | None
    at_ns: int


class Delay(NamedTuple):
    """The delay of an iteration; `adjusted` if it corrects for drift."""

    wait_ns: int
    adjusted: bool


_NONE = Delay(0, False)


class Shifter:
    """Follows the service's slots: given answers and finished iterations, it returns the delay of the next
    iteration.
    """

    def __init__(self, communication_after_ns: int | None = None) -> None:
        """`communication_after_ns`: the time from an iteration's start to its communication, for jobs whose
        communication is not observed.
        """
        self.adjustments = 0
        self.deviation_ns: int | None = None
        self.applied: int | None = None
        """The version of the slot in force."""
        self.reason = "the service has not answered yet"
        """Why no slot is followed; empty while one is."""
        self._answer: Answer | None = None
        self._given_after_ns = communication_after_ns
        self._after_ns: deque[int] = deque(maxlen=_RECENT)
        self._durations_ns: deque[int] = deque(maxlen=_RECENT)
        self._spent_ns: deque[tuple[int, int]] = deque(maxlen=_COSTLY_WINDOW)
        self._drifted = False
        # The version of the slot that the job was last aligned to. It is kept when the slot is lost for a
        # while, so that the drift until it is back counts as an adjustment.
        self._aligned: int | None = None
        self._abandoned: int | None = None
        """The version of a slot that cost too many adjustments."""

    def answered(self, answer: Answer) -> None:
        """Takes an answer of the service. If its slot has the same version as before, this only renews the
        lease.
        """
        self._answer = answer

    def completed(self, iteration: Iteration) -> int | None:
        """Takes a finished iteration. Returns the deviation of its communication from the slot that it
        followed, or None if it followed none.
        """
        took_ns = iteration.end_ns - iteration.start_ns
        self._durations_ns.append(took_ns)
        self._spent_ns.append((took_ns + iteration.delay_ns, iteration.delay_ns if iteration.adjusted else 0))
        if iteration.adjusted and self._is_costly():
            self._abandoned = self.applied
        after_ns = self._given_after_ns
        if iteration.communication_start_ns is not None:
            after_ns = iteration.communication_start_ns - iteration.start_ns
        if after_ns is None:
            return None
        self._after_ns.append(after_ns)
        return self._deviate(iteration.start_ns + after_ns)

    def needs_start(self, number: int, now_ns: int) -> bool:
        """Whether the delay of iteration `number` depends on when exactly it could start. Only then does the
        host have to wait for its GPU.
        """
        slot, _, _ = self._in_force(number, now_ns)
        return slot is not None and (slot.waits or self._drifted or slot.version != self._aligned)

    def delay(self, number: int, now_ns: int) -> Delay:
        """The delay of iteration `number`, which could start now: less than a period of its slot."""
        slot, offset, self.reason = self._in_force(number, now_ns)
        if slot is None or offset is None:
            self.applied, self.deviation_ns, self._drifted = None, None, False
            return _NONE
        # median_low is an observed time in whole nanoseconds; a mean would follow a single straggler.
        begins_ns = now_ns + offset.offset_ns + median_low(self._after_ns)
        late_ns = slot.late_ns(begins_ns)
        aligns = slot.version != self._aligned
        drifted = self._drifted
        self.applied, self._aligned, self._drifted = slot.version, slot.version, False
        if aligns:
            self.deviation_ns = None
            # The costs of adjustments to another slot do not count against this one.
            self._spent_ns.clear()
        if 0 <= late_ns <= slot.tolerance_ns:
            return _NONE
        # Not adjustments: the job goes to a new slot, or is early where slots are longer than iterations.
        if aligns or (late_ns < 0 and slot.waits):
            return Delay(slot.wait_ns(begins_ns), False)
        if drifted:
            self.adjustments += 1
            return Delay(slot.wait_ns(begins_ns), True)
        return _NONE

    def _deviate(self, communication_start_ns: int) -> int | None:
        answer = self._answer
        if answer is None or answer.slot is None or answer.offset is None:
            return None
        if answer.slot.version != self.applied:
            return None
        self.deviation_ns = answer.slot.late_ns(communication_start_ns + answer.offset.offset_ns)
        self._drifted = abs(self.deviation_ns) > answer.slot.tolerance_ns
        return self.deviation_ns

    def _in_force(self, number: int, now_ns: int) -> tuple[Slot | None, Offset | None, str]:
        """The slot of iteration `number` and the clock's offset, or the reason why there is none."""
        answer = self._answer
        if answer is None:
            return None, None, "the service has not answered yet"
        slot, offset = answer.slot, answer.offset
        if slot is None or offset is None:
            return None, None, answer.reason
        reason = self._why_unusable(slot, offset, now_ns)
        if now_ns - answer.at_ns > LEASE_NS:
            reason = f"the service has not answered for {LEASE_NS // 10**9} s"
        elif number < slot.iteration:
            reason = f"slot {slot.version} begins at iteration {slot.iteration}"
        return (None, None, reason) if reason else (slot, offset, "")

    def _why_unusable(self, slot: Slot, offset: Offset, now_ns: int) -> str:
        """Why the job cannot follow the slot; empty if it can."""
        uncertainty_ns = offset.uncertainty_at(now_ns)
        if uncertainty_ns > slot.tolerance_ns:
            return (
                f"the service's clock is known only to within {_ms(uncertainty_ns)}, "
                f"but slots allow {_ms(slot.tolerance_ns)}"
            )
        if not self._after_ns:
            return "no start of communication has been observed yet"
        usual_ns = median_low(self._durations_ns)
        if slot.period_ns > _LONGEST_PERIOD * usual_ns:
            return (
                f"the slot's period of {_ms(slot.period_ns)} is more than {_LONGEST_PERIOD} times the usual "
                f"iteration of {_ms(usual_ns)}"
            )
        if slot.version == self._abandoned:
            return (
                f"adjustments took more than {_COSTLY_SHARE:.0%} of the last {_COSTLY_WINDOW} iterations, "
                f"which do not fit the slot's period of {_ms(slot.period_ns)}"
            )
        return ""

    def _is_costly(self) -> bool:
        if len(self._spent_ns) < _COSTLY_WINDOW:
            return False
        took_ns = sum(took for took, _ in self._spent_ns)
        return sum(adjusting for _, adjusting in self._spent_ns) > _COSTLY_SHARE * took_ns


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.3f} ms"
