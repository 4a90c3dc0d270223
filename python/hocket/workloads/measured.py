"""A model of the user: measured iterations, by number of workers and batch size.

Between and beyond the measured batch sizes, times follow the batch size as in the catalogue's models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from hocket.profiles import PS_PER_S, PhaseSpec, WorkloadProfile
from hocket.workloads.sourced import Sourced


class Measurement(NamedTuple):
    """A measured iteration at `batch_size` samples per GPU."""

    batch_size: int
    profile: WorkloadProfile


class _Segment(NamedTuple):
    """Down time and the Up phase after it with its bits; the last segment of an iteration has no Up phase."""

    down_ps: Fraction
    up_ps: Fraction
    bits: Fraction


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements by number of workers: for each, in order of batch size and with the same number of phases.

    Between two batch sizes everything is linear in the batch size. Beyond them, Down is extrapolated from the
    nearest two, or is proportional to the batch size if only one was measured; Up stays the same, because
    gradients do not grow with the batch.
    """

    by_workers: Mapping[int, Sequence[Measurement]]
    name: str = "measured"

    @property
    def workers(self) -> Sourced[tuple[int, ...]]:
        """The numbers of workers that were measured."""
        return Sourced(tuple(sorted(self.by_workers)), "given", "[[models]]")

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`, one of those that `workers` lists."""
        measured = self.by_workers[workers]
        # Not interpolated: a measured profile keeps its exact times and its own sources.
        exact = [each.profile for each in measured if each.batch_size == batch_size]
        if exact:
            return exact[0]
        sizes = [Fraction(each.batch_size) for each in measured]
        by_phase = zip(*(_segments(each.profile) for each in measured), strict=True)
        segments = [_at(Fraction(batch_size), sizes, each) for each in by_phase]
        known = ", ".join(str(each.batch_size) for each in measured)
        source = f"calculation: batch size {batch_size} from those measured, {known}"
        return _profile(segments, (*measured[0].profile.sources, source))


def _segments(profile: WorkloadProfile) -> list[_Segment]:
    segments, reached_ps = [], 0
    for phase in profile.phases:
        bits = Fraction(phase.rate_bps * phase.duration_ps, PS_PER_S)
        segments.append(_Segment(Fraction(phase.start_ps - reached_ps), Fraction(phase.duration_ps), bits))
        reached_ps = phase.start_ps + phase.duration_ps
    return [*segments, _Segment(Fraction(profile.period_ps - reached_ps), Fraction(0), Fraction(0))]


def _at(batch_size: Fraction, sizes: Sequence[Fraction], measured: Sequence[_Segment]) -> _Segment:
    if len(sizes) == 1:
        return measured[0]._replace(down_ps=measured[0].down_ps * batch_size / sizes[0])
    pairs = list(pairwise(range(len(sizes))))
    # The first pair also serves smaller batches, the last pair larger ones: `share` is then outside 0 to 1.
    low, high = next((pair for pair in pairs if batch_size <= sizes[pair[1]]), pairs[-1])
    share = (batch_size - sizes[low]) / (sizes[high] - sizes[low])
    down_ps = measured[low].down_ps + share * (measured[high].down_ps - measured[low].down_ps)
    # Bits, not the rate, are linear in the batch: linear rates and durations would make their product curved.
    within = min(max(share, Fraction(0)), Fraction(1))
    up_ps, bits = (
        one + within * (other - one) for one, other in zip(measured[low][1:], measured[high][1:], strict=True)
    )
    # Steep measurements extrapolate to a negative time for small batches.
    return _Segment(max(Fraction(0), down_ps), up_ps, bits)


def _profile(segments: Sequence[_Segment], sources: tuple[str, ...]) -> WorkloadProfile:
    end, phases = Fraction(0), []
    for segment in segments:
        # Borders are rounded, not lengths, so that rounding errors do not add up over the phases.
        start_ps, end = round(end + segment.down_ps), end + segment.down_ps + segment.up_ps
        if segment.bits > 0:
            # A valid phase has a duration and a rate above 0.
            duration_ps = max(1, round(end) - start_ps)
            phases.append(
                PhaseSpec(start_ps, duration_ps, max(1, int(segment.bits * PS_PER_S / duration_ps)))
            )
    # The last phase may have been lengthened to 1 ps, beyond the rounded end.
    last_ps = phases[-1].start_ps + phases[-1].duration_ps if phases else 1
    return WorkloadProfile(max(last_ps, round(end)), tuple(phases), sources)
