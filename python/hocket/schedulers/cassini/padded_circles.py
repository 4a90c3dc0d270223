"""Circles for jobs whose iterations wait until their periods fit: fewer rounds for more padding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LAPS = 3
"""The most iterations of the longest job in one turn. Hocket: with more, jobs are at so many relative
positions in a turn that hardly any shift is better than another."""
_MOST_ROUNDS = 36
"""The most iterations of a job in one turn: half of what fits steps of 5° (Equation 4)."""


@dataclass(frozen=True)
class PaddedCircle:
    """A common multiple of padded periods; tuples are in the order of the jobs."""

    rounds: tuple[int, ...]
    """Iterations per turn."""
    perimeter_ps: int
    """A multiple of all rounds."""
    padding: float
    """By how much iterations are longer than the given periods, relative to these; the mean over jobs."""

    @property
    def periods_ps(self) -> tuple[int, ...]:
        """The padded periods."""
        return tuple(self.perimeter_ps // rounds for rounds in self.rounds)


def padded_circles(periods_ps: Sequence[int], most: float) -> list[PaddedCircle]:
    """The circles on which no period is padded by more than the fraction `most`, least padding first.

    On each, one job is not padded, but for the rounding of the perimeter to a multiple of all rounds.

    >>> [each.rounds for each in padded_circles([100, 190], most=0.1)]
    [(2, 1)]
    >>> [each.rounds for each in padded_circles([100, 190], most=0.3)]
    [(2, 1), (5, 3), (7, 3), (3, 2)]
    """
    found: dict[tuple[int, ...], PaddedCircle] = {}
    longest_ps = _LAPS * max(periods_ps)
    for period_ps in periods_ps:
        # Between multiples of the periods, rounds stay the same and padding only grows.
        for multiple in range(1, int(longest_ps * (1 + most)) // period_ps + 1):
            rounds = tuple(multiple * period_ps // each for each in periods_ps)
            if min(rounds) == 0 or max(rounds) > _MOST_ROUNDS or math.gcd(*rounds) > 1:
                continue
            paddings = [
                multiple * period_ps / (count * each) - 1
                for count, each in zip(rounds, periods_ps, strict=True)
            ]
            if max(paddings) <= most and rounds not in found:
                step = math.lcm(*rounds)
                perimeter_ps = -(-multiple * period_ps // step) * step
                found[rounds] = PaddedCircle(rounds, perimeter_ps, sum(paddings) / len(paddings))
    return sorted(found.values(), key=lambda each: (each.padding, each.rounds))
