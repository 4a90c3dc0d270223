"""Whether time-shifts help, as one of four verdicts: the only place that turns a speed-up, predicted or
measured, into a verdict.
"""

from dataclasses import dataclass
from enum import StrEnum

NOISE = 0.01
"""A change of up to 1% counts as none: iteration times of a job alone vary by as much (see
`hocket.compat.measured.STEADY`)."""

WORTHWHILE = 0.05
"""From this gain on, shifts help; below it they help little. An agent moves a job back to its slot only when
it is off by more than 5% of an iteration (NSDI'24 §4.2), so that drift may use up a smaller gain."""


class Verdict(StrEnum):
    """What time-shifts do to the iteration times of jobs that share links.

    >>> f"shifting {Verdict.HELPS_LITTLE}"
    'shifting helps little'
    """

    HELPS = "helps"
    HELPS_LITTLE = "helps little"
    DOES_NOT_HELP = "does not help"
    HARMS = "harms"


@dataclass(frozen=True)
class Speedup:
    """The factor by which time-shifts make iterations faster; below 1 they are slower."""

    mean: float
    """The speed-up of the mean iteration time, on average over jobs."""
    p99: float
    """The speed-up of the 99th percentile of iteration times, on average over jobs."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on these numbers as they are printed, with two decimals.

        | | mean faster by `WORTHWHILE` | mean faster by more than `NOISE` | mean the same | mean slower |
        |---|---|---|---|---|
        | p99 faster | helps | helps little | helps little | harms |
        | p99 the same | helps | helps little | does not help | harms |
        | p99 slower | helps little | helps little | harms | harms |

        The mean iteration time determines how long training takes, so a slower mean always harms.

        >>> [str(Speedup(*each).verdict) for each in ((1.25, 1.21), (1.25, 0.98), (1.0, 0.99), (1.0, 0.98))]
        ['helps', 'helps little', 'does not help', 'harms']
        """
        mean, p99 = (_change(each) for each in (self.mean, self.p99))
        if mean < 0 or (mean == 0 and p99 < 0):
            return Verdict.HARMS
        if mean == 0 and p99 == 0:
            return Verdict.DOES_NOT_HELP
        if mean >= WORTHWHILE and p99 >= 0:
            return Verdict.HELPS
        return Verdict.HELPS_LITTLE

    def __str__(self) -> str:
        """The text in which reports print it.

        >>> print(Speedup(1.25, 1.207))
        speed-up 1.25 on average, 1.21 at p99
        """
        return f"speed-up {self.mean:.2f} on average, {self.p99:.2f} at p99"


def _change(speedup: float) -> float:
    """The gain of a speed-up as printed; 0 if it is noise."""
    # In whole hundredths, because 1.05 - 1 is not exactly 0.05 in floating point.
    hundredths = round(speedup * 100) - 100
    return 0.0 if abs(hundredths) <= NOISE * 100 else hundredths / 100
