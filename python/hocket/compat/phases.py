"""Turns samples of a training job's rate over an iteration into the fewest Up phases that describe them."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hocket.profiles import PhaseSpec

Floats = npt.NDArray[np.float64]

# Rates that differ by less than this share of the highest one count as equal: the samples of a collective
# differ by as much, because of the latencies between its steps.
_SAME_RATE = 0.05
# Two neighbouring segments are joined if that changes rates by at most this share of the highest one, as the
# root mean square over the iteration.
_NEGLIGIBLE = 0.01
# The solver is quick with as many; a pipeline of eight microbatches has fewer.
_MAX_SEGMENTS = 64
# Below this share of the link's rate a job is Down: such rates are those of sparse acknowledgements.
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
        """The increase of the sum of squared errors over samples if the two are joined."""
        weight = self.length * other.length / (self.length + other.length)
        return weight * (self.rate_bps - other.rate_bps) ** 2


def phases_of(rates_bps: Floats, period_ps: int, capacity_bps: int) -> tuple[PhaseSpec, ...]:
    """The Up phases of an iteration of `period_ps`, from its mean rates in equally long samples.

    A sample in which a phase begins or ends is split so that its bytes stay the same. Phases shorter than a
    sample only show in its mean. No rate is above `capacity_bps`.
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
        # The floating-point sum of lengths may miss the end of the period by a picosecond.
        end_ps = period_ps if number == len(segments) - 1 else round(Fraction(until) * sample_ps)
        # A measured rate may be slightly above that of the link, which would count as excess demand.
        rate_bps = min(round(segment.rate_bps), capacity_bps)
        if segment.rate_bps > _SILENT * capacity_bps and end_ps > start_ps:
            phases.append(PhaseSpec(start_ps, end_ps - start_ps, rate_bps))
        start_ps = end_ps
    return tuple(phases)


def _split(rates_bps: Floats, alike_bps: float) -> list[_Segment]:
    """The samples as segments; a sample in which one steady rate changes to another becomes two, one of each
    rate.
    """
    # Iterations repeat: the last sample comes before the first one.
    before, after = np.roll(rates_bps, 1), np.roll(rates_bps, -1)
    steady_before = np.abs(before - np.roll(rates_bps, 2)) <= alike_bps
    steady_after = np.abs(after - np.roll(rates_bps, -2)) <= alike_bps
    low, high = np.minimum(before, after), np.maximum(before, after)
    between = (low < rates_bps) & (rates_bps < high) & (high - low > alike_bps)
    segments: list[_Segment] = []
    for rate, first, last, cut in zip(
        rates_bps, before, after, steady_before & steady_after & between, strict=True
    ):
        if cut:
            # rate = share × first + (1 − share) × last, so that the sample keeps its bytes.
            share = float((rate - last) / (first - last))
            segments += [_Segment(share, float(first)), _Segment(1 - share, float(last))]
        else:
            segments.append(_Segment(1.0, float(rate)))
    return segments


def _runs(segments: list[_Segment], alike_bps: float) -> list[_Segment]:
    """The segments with each run of neighbours of about one rate joined."""
    runs = segments[:1]
    for segment in segments[1:]:
        if abs(segment.rate_bps - runs[-1].rate_bps) <= alike_bps:
            runs[-1] = runs[-1].joined(segment)
        else:
            runs.append(segment)
    return runs


def _merged(segments: list[_Segment], samples: int, highest_bps: float) -> list[_Segment]:
    """Joins neighbours, least loss first, while the loss is negligible or there are too many segments."""
    negligible = samples * (_NEGLIGIBLE * highest_bps) ** 2
    while len(segments) > 1:
        losses = [one.loss(other) for one, other in pairwise(segments)]
        index = min(range(len(losses)), key=losses.__getitem__)
        if losses[index] > negligible and len(segments) <= _MAX_SEGMENTS:
            break
        segments[index : index + 2] = [segments[index].joined(segments[index + 1])]
    return segments
