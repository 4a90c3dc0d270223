"""From samples of what a training job sends in an iteration to Up phases, as few as tell samples apart."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hocket.profiles import PhaseSpec

Floats = npt.NDArray[np.float64]

# Rates that differ by less than this share of the highest one are one rate: steps of a collective with their
# latencies between them, seen in samples, differ by as much.
_SAME_RATE = 0.05
# Two neighbouring segments become one if that moves rates by no more than this share of the highest one, root
# mean square over the iteration.
_NEGLIGIBLE = 0.01
# What the solver is quick with; a pipeline of eight microbatches has fewer.
_MOST_SEGMENTS = 64
# Below this share of what the link carries a job is Down; what is left are acknowledgements far apart.
_SILENT = 0.005


@dataclass
class _Segment:
    """A stretch of constant rate; `length` in samples."""

    length: float
    rate_bps: float

    def joined(self, other: "_Segment") -> "_Segment":
        length = self.length + other.length
        return _Segment(length, (self.length * self.rate_bps + other.length * other.rate_bps) / length)

    def loss(self, other: "_Segment") -> float:
        """What the sum over samples of squared errors grows by if both become one."""
        weight = self.length * other.length / (self.length + other.length)
        return weight * (self.rate_bps - other.rate_bps) ** 2


def phases_of(rates_bps: Floats, period_ps: int, capacity_bps: int) -> tuple[PhaseSpec, ...]:
    """The Up phases of an iteration of `period_ps` whose samples, equally long, had these mean rates.

    A sample in which a phase begins or ends is split so that its bytes stay what they were. What is shorter
    than a sample is part of its mean. No rate is above `capacity_bps`.
    """
    highest = float(rates_bps.max(initial=0.0))
    if highest <= _SILENT * capacity_bps:
        return ()
    segments = _merged(
        _runs(_split(rates_bps, _SAME_RATE * highest), _SAME_RATE * highest), rates_bps.size, highest
    )
    phases = []
    sample_ps = Fraction(period_ps, rates_bps.size)
    until = 0.0
    start_ps = 0
    for number, segment in enumerate(segments):
        until += segment.length
        end_ps = period_ps if number == len(segments) - 1 else round(Fraction(until) * sample_ps)
        rate_bps = min(round(segment.rate_bps), capacity_bps)
        if segment.rate_bps > _SILENT * capacity_bps and end_ps > start_ps:
            phases.append(PhaseSpec(start_ps, end_ps - start_ps, rate_bps))
        start_ps = end_ps
    return tuple(phases)


def _split(rates_bps: Floats, alike_bps: float) -> list[_Segment]:
    """The samples; one between rates that hold before and after it is cut where one follows the other."""
    before, after = np.roll(rates_bps, 1), np.roll(rates_bps, -1)
    holds_before = np.abs(before - np.roll(rates_bps, 2)) <= alike_bps
    holds_after = np.abs(after - np.roll(rates_bps, -2)) <= alike_bps
    low, high = np.minimum(before, after), np.maximum(before, after)
    between = (low < rates_bps) & (rates_bps < high) & (high - low > alike_bps)
    segments: list[_Segment] = []
    for rate, first, last, cut in zip(
        rates_bps, before, after, holds_before & holds_after & between, strict=True
    ):
        if cut:
            share = float((rate - last) / (first - last))
            segments += [_Segment(share, float(first)), _Segment(1 - share, float(last))]
        else:
            segments.append(_Segment(1.0, float(rate)))
    return segments


def _runs(segments: list[_Segment], alike_bps: float) -> list[_Segment]:
    found = segments[:1]
    for segment in segments[1:]:
        if abs(segment.rate_bps - found[-1].rate_bps) <= alike_bps:
            found[-1] = found[-1].joined(segment)
        else:
            found.append(segment)
    return found


def _merged(segments: list[_Segment], samples: int, highest_bps: float) -> list[_Segment]:
    """Neighbours as one, those first that lose least, while that is negligible or there are too many."""
    least = samples * (_NEGLIGIBLE * highest_bps) ** 2
    while len(segments) > 1:
        losses = [one.loss(other) for one, other in pairwise(segments)]
        index = min(range(len(losses)), key=losses.__getitem__)
        if losses[index] > least and len(segments) <= _MOST_SEGMENTS:
            break
        segments[index : index + 2] = [segments[index].joined(segments[index + 1])]
    return segments
