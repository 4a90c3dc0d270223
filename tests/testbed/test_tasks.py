"""The tasks of workers, and what they send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.testbed.tasks import FRAME_BYTES, PAYLOAD_BYTES, downs_s, elements, phase_bytes

MS = 10**9


@st.composite
def profiles(draw: st.DrawFn) -> WorkloadProfile:
    """Phases of one rate that do not overlap."""
    borders = draw(st.lists(st.integers(0, 1000), min_size=2, max_size=12, unique=True).map(sorted))
    phases = [
        PhaseSpec(start * MS, (end - start) * MS, 10**9)
        for start, end in zip(borders[::2], borders[1::2], strict=False)
    ]
    return WorkloadProfile(period_ps=borders[-1] * MS, phases=tuple(phases), sources=(), notes="")


@given(profiles())
def test_computation_and_communication_fill_the_period(profile: WorkloadProfile) -> None:
    downs = downs_s(profile)
    assert len(downs) == len(profile.phases) + 1
    assert min(downs) >= 0
    ups_s = sum(phase.duration_ps for phase in profile.phases) / 1e12
    assert sum(downs) + ups_s == pytest.approx(profile.period_ps / 1e12)


@given(st.integers(10_000, 10**9), st.integers(2, 64))
def test_a_ring_sends_what_the_phase_has_on_the_wire(wire_bytes: int, workers: int) -> None:
    # Each worker sends 2(n-1) of n parts, in full segments with their headers.
    size = 4 * elements(wire_bytes, workers)
    sent = size * 2 * (workers - 1) / workers * FRAME_BYTES / PAYLOAD_BYTES
    assert sent == pytest.approx(wire_bytes, rel=1e-3)


def test_a_phase_of_40_ms_at_400_mbps_is_2_mb() -> None:
    assert phase_bytes(400 * 10**6, 40 * MS) == 2_000_000
