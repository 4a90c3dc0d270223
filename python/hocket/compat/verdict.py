"""Whether time-shifts are worth it, in one of four words: the one place where a speed-up, predicted or
measured, becomes a verdict.
"""

from dataclasses import dataclass
from enum import StrEnum

NOISE = 0.01
"""A change of up to one part in a hundred is none: iteration times of a job alone vary by as much (see
`hocket.compat.measured.STEADY`)."""

WORTHWHILE = 0.05
"""From this gain on shifts help; below it they help little. An agent moves a job back to its slot when it is
more than 5% of an iteration off (NSDI'24 §4.2), so that a smaller gain may be lost before anyone acts."""


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
    """How many times faster iterations are with time-shifts than without; below 1 they are slower."""

    mean: float
    """Of the mean iteration time, on average over jobs."""
    p99: float
    """Of the 99th percentile of iteration times, on average over jobs."""

    @property
    def verdict(self) -> Verdict:
        """What these numbers mean, as they are printed: with two decimals.

        | | mean faster by `WORTHWHILE` | mean faster by more than `NOISE` | mean the same | mean slower |
        |---|---|---|---|---|
        | p99 faster | helps | helps little | helps little | harms |
        | p99 the same | helps | helps little | does not help | harms |
        | p99 slower | helps little | helps little | harms | harms |

        The mean is what a training run takes, so nothing outweighs a slower one.

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
        """As it is printed everywhere.

        >>> print(Speedup(1.25, 1.207))
        speed-up 1.25 on average, 1.21 at p99
        """
        return f"speed-up {self.mean:.2f} on average, {self.p99:.2f} at p99"


def _change(speedup: float) -> float:
    """What is gained, of a printed speed-up; 0 if that is noise."""
    # Whole hundredths, so that 1.05 is 5 of them and not a little less.
    hundredths = round(speedup * 100) - 100
    return 0.0 if abs(hundredths) <= NOISE * 100 else hundredths / 100
