"""The GPU time that jobs are predicted to lose on the uplinks of racks, by the number of workers per rack.

A ring enters and leaves each of its racks once (arXiv 2602.08296), so a job that spans racks has one flow on
the uplinks of each of them in either direction, however many workers it has there.

Hocket: the *load* of a rack is the sum of the peak rates of these flows, in cables. If all of them send, what
exceeds the first `free` cables waits. Over all cables, a flow then sends for longer by the fraction
(load − free) ÷ cables. If paths are chosen for balance, all cables are `free`; with ECMP, where any two flows
may share a cable, one is. A ring is as slow as its slowest flow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hocket.schedulers.monkeytree.ring_jobs import RingJob, Spread
from hocket.schedulers.monkeytree.uplinks import Uplinks


@dataclass(frozen=True)
class Rack:
    """The uplinks of a rack, as flows load them."""

    cables: int
    cable_bps: float
    free: int
    """The load in cables at which no flow is expected to wait."""

    @classmethod
    def of(cls, uplinks: Uplinks, *, balanced: bool) -> "Rack":
        """`balanced` if flows take paths that spread the load, and not those that ECMP draws."""
        cables = max(1, uplinks.cables)
        return cls(cables, uplinks.rate_bps / cables, cables if balanced else 1)

    def load(self, jobs: Iterable[RingJob]) -> float:
        """The load in cables of jobs that cross the uplinks."""
        return sum(job.peak_bps for job in jobs) / self.cable_bps if self.cable_bps else 0.0

    def lengthening(self, load: float) -> float:
        """The fraction by which communication takes longer.

        >>> Rack(cables=4, cable_bps=50e9, free=1).lengthening(3.0)
        0.5
        """
        return max(0.0, (load - self.free) / self.cables)


def losses(jobs: Iterable[RingJob], spreads: Mapping[str, Spread], racks: Sequence[Rack]) -> dict[str, float]:
    """The predicted loss of each job that spans racks, in GPU-seconds until it is done."""
    crossing: dict[int, list[RingJob]] = {}
    spanning = [job for job in jobs if len(spreads[job.name]) > 1 and job.peak_bps]
    for job in spanning:
        for rack in spreads[job.name]:
            crossing.setdefault(rack, []).append(job)
    longer = {rack: racks[rack].lengthening(racks[rack].load(each)) for rack, each in crossing.items()}
    return {job.name: job.stake_gpu_s * max(longer[rack] for rack in spreads[job.name]) for job in spanning}
