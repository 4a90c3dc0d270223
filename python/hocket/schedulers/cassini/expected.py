"""The expected score of a link without time-shifts: the mean over all relative shifts of its jobs."""

from collections.abc import Sequence

from hocket.profiles import WorkloadProfile

# Demands are rounded to one of this number of parts of the capacity, which bounds the work; a score is off by
# at most half a part per job.
_PARTS = 1_000


def expected_score(capacity_bps: int, jobs: Sequence[tuple[WorkloadProfile, int]]) -> float:
    """1 less the mean of NSDI'24 Equation 1 over all shifts of `jobs`, given as (profile, flows).

    At a random shift, the probability that a job demands one of its rates is the fraction of its period at
    that rate, independently of the other jobs.

    >>> from hocket.profiles import PhaseSpec
    >>> half = WorkloadProfile(200, (PhaseSpec(0, 100, 40),), ())
    >>> expected_score(50, [(half, 1), (half, 1)])  # (40 + 40 - 50) ÷ 50 for a quarter of the time
    0.85
    """
    # The distribution of total demand is kept only up to the capacity: above it, excess grows by the mean
    # demand of each further job, so the probability of being there is enough.
    below = {0: 1.0}
    excess = 0.0
    above = 0.0
    for profile, flows in jobs:
        rates = _rates(profile, flows, capacity_bps)
        excess += above * sum(rate * share for rate, share in rates)
        sums: dict[int, float] = {}
        for earlier, probability in below.items():
            for rate, share in rates:
                demand = earlier + rate
                if demand > _PARTS:
                    excess += probability * share * (demand - _PARTS)
                    above += probability * share
                else:
                    sums[demand] = sums.get(demand, 0.0) + probability * share
        below = sums
    return round(1 - excess / _PARTS, 12)


def _rates(profile: WorkloadProfile, flows: int, capacity_bps: int) -> list[tuple[int, float]]:
    """Rates in parts of the capacity, and the fraction of the period at each."""
    idle = 1 - profile.up_ps / profile.period_ps
    rates = [(0, idle)]
    for phase in profile.phases:
        parts = round(phase.rate_bps * flows * _PARTS / capacity_bps)
        rates.append((parts, phase.duration_ps / profile.period_ps))
    return rates
