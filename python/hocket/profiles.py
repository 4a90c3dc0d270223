"""What a job sends in one iteration on an idle network: its period and its Up phases.

Other names with that word, such as the profiler's, are about how such a profile is found."""

from dataclasses import dataclass
from fractions import Fraction

PS_PER_MS = 10**9


PS_PER_S = 10**12


BPS_PER_GBPS = 10**9


BITS_PER_BYTE = 8


@dataclass(frozen=True)
class PhaseSpec:
    """An Up phase on an idle network: from `start_ps` in the iteration, `rate_bps` for `duration_ps`."""

    start_ps: int
    duration_ps: int
    rate_bps: int

    @property
    def size_bytes(self) -> int:
        """What the phase sends, to the nearest byte."""
        return round(Fraction(self.rate_bps * self.duration_ps, BITS_PER_BYTE * PS_PER_S))


@dataclass(frozen=True)
class WorkloadProfile:
    """One iteration on an idle network; `phases` in order of start, apart, and inside the period.

    `sources` says where the numbers are from, one sentence each.
    """

    period_ps: int
    phases: tuple[PhaseSpec, ...]
    sources: tuple[str, ...]
    notes: str = ""

    @property
    def up_ps(self) -> int:
        """The time in an iteration in which the job sends, in picoseconds."""
        return sum(phase.duration_ps for phase in self.phases)

    @property
    def size_bytes(self) -> int:
        """What one worker's NIC sends in an iteration, in bytes."""
        return sum(phase.size_bytes for phase in self.phases)
