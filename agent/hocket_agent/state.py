"""How long a job's next iteration is delayed: a state machine that knows neither clock nor network.

Its rules are those of the simulated agent in `crates/hocket-scenario/src/closed_loop.rs`, with two
differences. A simulated job knows when its iteration would communicate; here that is learnt. And a job that
comes to its first slot late, but within tolerance, goes on, where the simulated one waits for the next."""

from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import NamedTuple

from hocket_agent.offset import Offset
from hocket_agent.slots import Slot

# Hocket: of so many iterations, what is usual is their median. Few, as batches and stragglers change it; more
# than two outliers in a row do not show.
_RECENT = 9
# Hocket: twice the longest pause between two requests (30 s), so that one that is lost ends nothing. Longer,
# and a job waits for jobs that have left long ago.
LEASE_NS = 60_000_000_000
# Hocket: no padding that is worth it doubles iterations; a slot that would was made for another profile.
_LONGEST_PERIOD = 2
# Hocket: where more than this share of the last iterations went into adjustments, their iterations do not
# fit the slot, as they are longer than its period, say. NSDI'24 section 5.7 has under two adjustments a
# minute.
_COSTLY_SHARE = 0.2
_COSTLY_WINDOW = 50


class Iteration(NamedTuple):
    """One iteration that is over; times are those of our monotonic clock."""

    number: int
    start_ns: int
    communication_start_ns: int | None
    end_ns: int
    delay_ns: int
    """What it waited before it started."""
    adjusted: bool
    communication_ns: int | None
    """The time in communication, if its ends were seen."""


class Answer(NamedTuple):
    """What the service last said, and when it came."""

    slot: Slot | None
    reason: str
    offset: Offset | None
    at_ns: int


class Delay(NamedTuple):
    """What an iteration is to wait; `adjusted` if that brings a job back that had drifted."""

    wait_ns: int
    adjusted: bool


_NONE = Delay(0, False)


class Shifter:
    """Follows the service's slots: told of answers and of finished iterations, it says what the next one
    waits.
    """

    def __init__(self, communication_after_ns: int | None = None) -> None:
        """`communication_after_ns`: from an iteration's start to its communication, for jobs in which nothing
        tells of it.
        """
        self.adjustments = 0
        self.deviation_ns: int | None = None
        self.applied: int | None = None
        """The version of the slot in force."""
        self.reason = "the service has not answered yet"
        """Why nothing is shifted; empty while a slot is in force."""
        self._answer: Answer | None = None
        self._given_after_ns = communication_after_ns
        self._after_ns: deque[int] = deque(maxlen=_RECENT)
        self._took_ns: deque[int] = deque(maxlen=_RECENT)
        self._spent_ns: deque[tuple[int, int]] = deque(maxlen=_COSTLY_WINDOW)
        self._drifted = False
        # What a job that lost its slot for a while has drifted by then, it makes up for as for any drift.
        self._aligned: int | None = None
        self._let_go: int | None = None

    def answered(self, answer: Answer) -> None:
        """The service has answered. A slot of a version held already is the slot held, only its lease is
        renewed.
        """
        self._answer = answer

    def completed(self, iteration: Iteration) -> int | None:
        """An iteration is over. The deviation of its communication from the slot that it followed, if it
        followed one.
        """
        took_ns = iteration.end_ns - iteration.start_ns
        self._took_ns.append(took_ns)
        self._spent_ns.append((took_ns + iteration.delay_ns, iteration.delay_ns if iteration.adjusted else 0))
        if iteration.adjusted and self._is_costly():
            self._let_go = self.applied
        after_ns = self._given_after_ns
        if iteration.communication_start_ns is not None:
            after_ns = iteration.communication_start_ns - iteration.start_ns
        if after_ns is None:
            return None
        self._after_ns.append(after_ns)
        return self._deviate(iteration.start_ns + after_ns)

    def needs_start(self, number: int, now_ns: int) -> bool:
        """Whether what iteration `number` waits depends on when exactly it could start: only then must the
        host wait for a GPU that it runs ahead of.
        """
        slot, _, _ = self._in_force(number, now_ns)
        return slot is not None and (slot.waits or self._drifted or slot.version != self._aligned)

    def delay(self, number: int, now_ns: int) -> Delay:
        """What iteration `number`, which could start now, waits: less than a period of its slot."""
        slot, offset, self.reason = self._in_force(number, now_ns)
        if slot is None or offset is None:
            self.applied, self.deviation_ns, self._drifted = None, None, False
            return _NONE
        begins_ns = now_ns + offset.offset_ns + median_low(self._after_ns)
        late_ns = slot.late_ns(begins_ns)
        aligns = slot.version != self._aligned
        drifted = self._drifted
        self.applied, self._aligned, self._drifted = slot.version, slot.version, False
        if aligns:
            self.deviation_ns = None
            self._spent_ns.clear()
        if 0 <= late_ns <= slot.tolerance_ns:
            return _NONE
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
        """The slot by which iteration `number` starts and the clock's offset, or why there is none."""
        answer = self._answer
        if answer is None:
            return None, None, "the service has not answered yet"
        slot, offset = answer.slot, answer.offset
        if slot is None or offset is None:
            return None, None, answer.reason
        reason = self._unfit(slot, offset, now_ns)
        if now_ns - answer.at_ns > LEASE_NS:
            reason = f"the service has not answered for {LEASE_NS // 10**9} s"
        elif number < slot.iteration:
            reason = f"slot {slot.version} begins at iteration {slot.iteration}"
        return (None, None, reason) if reason else (slot, offset, "")

    def _unfit(self, slot: Slot, offset: Offset, now_ns: int) -> str:
        """Why the job cannot keep the slot; empty if it can."""
        uncertainty_ns = offset.uncertainty_at(now_ns)
        if uncertainty_ns > slot.tolerance_ns:
            return (
                f"the service's clock is known to {_ms(uncertainty_ns)}, "
                f"and a slot must be kept to {_ms(slot.tolerance_ns)}"
            )
        if not self._after_ns:
            return "no iteration has shown yet when its communication starts"
        usual_ns = median_low(self._took_ns)
        if slot.period_ns > _LONGEST_PERIOD * usual_ns:
            return (
                f"slots of {_ms(slot.period_ns)} are more than {_LONGEST_PERIOD} times as long as "
                f"iterations, of {_ms(usual_ns)}"
            )
        if slot.version == self._let_go:
            return (
                f"adjustments took more than {_COSTLY_SHARE:.0%} of {_COSTLY_WINDOW} iterations: they do not "
                f"fit slots of {_ms(slot.period_ns)}"
            )
        return ""

    def _is_costly(self) -> bool:
        if len(self._spent_ns) < _COSTLY_WINDOW:
            return False
        took_ns = sum(took for took, _ in self._spent_ns)
        return sum(adjusting for _, adjusting in self._spent_ns) > _COSTLY_SHARE * took_ns


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.3f} ms"
