"""Converts an iteration measured with one NIC to another NIC: the same bytes, in another time."""

from dataclasses import replace
from fractions import Fraction

from hocket.profiles import PS_PER_S, PhaseSpec, WorkloadProfile
from hocket.units import format_rate


def with_nic(
    profile: WorkloadProfile, nic_bps: int, measured_bps: int, speed: Fraction | int = 1
) -> WorkloadProfile:
    """`profile`, measured with a NIC of `measured_bps`, for one of `nic_bps` and GPUs `speed` times as fast.

    Each Up phase keeps its bytes. Its duration is split into the time to send these at the rate of the NIC,
    and the rest, which counts as compute (NSDI'24 §2.1: Up is backpropagation and all-reduce). The first part
    scales with the rate of the NIC; the second, like all Down time, with the speed of the GPU. So no phase
    sends faster than the NIC, a faster NIC never lengthens a phase, and with the measured NIC and GPU the
    profile stays the same.

    >>> vgg16 = WorkloadProfile(270, (PhaseSpec(120, 150, 30 * 10**12),), ("plan",))
    >>> with_nic(vgg16, 100 * 10**12, 50 * 10**12).phases
    (PhaseSpec(start_ps=120, duration_ps=105, rate_bps=42857142857142),)
    """
    if nic_bps == measured_bps and speed == 1:
        return profile
    speed = Fraction(speed)
    now = end = Fraction(0)
    before_ps = 0
    phases = []
    for phase in profile.phases:
        down = (phase.start_ps - before_ps) / speed
        bits = Fraction(phase.rate_bps * phase.duration_ps, PS_PER_S)
        # A rate measured above the NIC's nominal one means that the phase has no compute, not less than none.
        between = max(Fraction(0), phase.duration_ps - bits * PS_PER_S / measured_bps)
        now = end + down
        end = now + between / speed + bits * PS_PER_S / nic_bps
        # Borders are rounded, not lengths, so that rounding errors do not add up over the phases.
        start_ps, duration_ps = round(now), max(1, round(end) - round(now))
        # Rounded down, and never above the NIC: a demand above the capacity of its link is refused.
        rate_bps = max(1, min(nic_bps, int(bits * PS_PER_S / duration_ps)))
        phases.append(PhaseSpec(start_ps, duration_ps, rate_bps))
        before_ps = phase.start_ps + phase.duration_ps
    period = end + (profile.period_ps - before_ps) / speed
    nics = f"{format_rate(nic_bps)} instead of {format_rate(measured_bps)}"
    why = f"calculation: the same bytes with a NIC of {nics}"
    if speed != 1:
        why += f" and GPUs {float(speed):g} times as fast"
    last_ps = phases[-1].start_ps + phases[-1].duration_ps if phases else 1
    return replace(
        profile,
        period_ps=max(last_ps, round(period)),
        phases=tuple(phases),
        sources=(*profile.sources, why),
    )
