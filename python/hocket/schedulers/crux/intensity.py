"""GPU intensity (Crux, SIGCOMM'24 §3): GPU time ÷ time of the communication on its slowest link."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from hocket.engines.network import Crossings
from hocket.profiles import BITS_PER_BYTE, PS_PER_S, WorkloadProfile
from hocket.schedulers.state import Gpus


@dataclass(frozen=True)
class Communication:
    """The communication of a job at a placement."""

    name: str
    gpus: Gpus
    profile: WorkloadProfile
    crossings: Crossings
    flows: int
    """Flows on the bottleneck, the link that takes longest to carry the bytes of an iteration."""
    rate_bps: int
    """The rate of the bottleneck."""

    @classmethod
    def of(
        cls,
        name: str,
        gpus: Gpus,
        profile: WorkloadProfile,
        crossings: Crossings,
        rates_bps: Sequence[int],
    ) -> "Communication":
        """The communication over `crossings`; `rates_bps` are those of all links."""
        link, flows = max(crossings, key=lambda each: each[1] / rates_bps[each[0]], default=(0, 0))
        return cls(name, gpus, profile, crossings, flows, rates_bps[link])

    @property
    def time_s(self) -> float:
        """The seconds that the bottleneck alone takes for an iteration; 0 for a job that uses no links."""
        return BITS_PER_BYTE * self.profile.size_bytes * self.flows / self.rate_bps

    @property
    def gpu_s(self) -> float:
        """The GPU time of an iteration on an idle network, in GPU-seconds.

        The paper counts floating-point operations. A profile has none, nor does it tell how much computation
        its Up phases hide, so all of its period counts.
        """
        return len(self.gpus) * self.profile.period_ps / PS_PER_S

    @property
    def intensity(self) -> float:
        """GPU-seconds for each second of communication."""
        return self.gpu_s / self.time_s

    @property
    def peak_bps(self) -> int:
        """The highest rate of a flow."""
        return max(phase.rate_bps for phase in self.profile.phases)


def contending_pairs(jobs: Sequence[Communication], rates_bps: Sequence[int]) -> list[tuple[int, int]]:
    """The places of all two jobs that share a link on which the peaks of all jobs exceed its rate."""
    on_link: dict[int, list[int]] = {}
    peaks_bps: dict[int, int] = {}
    for place, job in enumerate(jobs):
        for link, flows in job.crossings:
            on_link.setdefault(link, []).append(place)
            peaks_bps[link] = peaks_bps.get(link, 0) + flows * job.peak_bps
    full = (places for link, places in on_link.items() if peaks_bps[link] > rates_bps[link])
    return sorted({pair for places in full for pair in combinations(places, 2)})
