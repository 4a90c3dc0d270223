"""The profile of a job: its period and its Up phases in one iteration on an idle network.

`hocket.profiling` measures such profiles, and `hocket.workloads` derives them from models.
"""

from dataclasses import dataclass
from fractions import Fraction

PS_PER_MS = 10**9
PS_PER_S = 10**12
BPS_PER_GBPS = 10**9
BITS_PER_BYTE = 8


@dataclass(frozen=True)
class PhaseSpec:
    """An Up phase on an idle network: `rate_bps` for `duration_ps`, from `start_ps` in the iteration."""

    start_ps: int
    duration_ps: int
    rate_bps: int

    @property
    def size_bytes(self) -> int:
        """The bytes sent in the phase, to the nearest byte."""
        return round(Fraction(self.rate_bps * self.duration_ps, BITS_PER_BYTE * PS_PER_S))


@dataclass(frozen=True)
class WorkloadProfile:
    """One iteration on an idle network; `phases` are in order of start, disjoint and inside the period.

    `sources` has a sentence on the origin of each number.
    """

    period_ps: int
    phases: tuple[PhaseSpec, ...]
    sources: tuple[str, ...]
    notes: str = ""

    @property
    def up_ps(self) -> int:
        """The total time in Up phases per iteration, in picoseconds."""
        return sum(phase.duration_ps for phase in self.phases)

    @property
    def size_bytes(self) -> int:
        """The bytes that one worker's NIC sends per iteration."""
        return sum(phase.size_bytes for phase in self.phases)
