"""DCQCN of a plan's jobs as values for the mlx5 driver's `cc_params/`, in the units of NVIDIA's NICs.

Names, units and limits are declared with DCQCN's parameters in `hocket.plan.congestion`. The values of NICs
as shipped are the preset "mlx5", from NVIDIA, "DCQCN CC parameters" (DOCA 3.4, November 2026).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from hocket.engines.packet import PacketSetup
from hocket.errors import InputError
from hocket.plan import Job, Plan, PlanLike, as_plan
from hocket.plan.congestion import Congestion, Dcqcn
from hocket.plan.hardware import Host
from hocket.plan.names import NicFile, names_of, nic_microseconds
from hocket.plan.parameters import Parameter, values
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.units import format_duration

Profiles: TypeAlias = Callable[[], tuple[WorkloadProfile, ...]]
"""Returns the possible profiles of a job; see `Plan.profiles_of`."""

# HotNets'22 §2: with T of 100 and 125 µs, the aggressive job gets 30 Gbps and the other 15: a weight of 2.
_T_OF_WEIGHT = {2.0: "100 us", 1.0: "125 us"}
# The preset "mlx5" depends on neither the line rate nor the path.
_LINE_RATE_BPS = 100 * 10**9
_PATH_BYTES = 10**5
# `adaptive.sh` reads the counter every 10 ms and needs two quiet samples in half of a Down phase.
_LEAST_DOWN_PS = 40 * 10**9
# Hocket: a NIC is quiet if it sends at less than the rate of a phase divided by this.
_QUIET_PART = 100


SETTINGS: Mapping[str, NicFile] = {
    name: names.nic for name, names in names_of(Dcqcn).items() if names.nic is not None
}
"""The file of each parameter, by the engine's name of the parameter."""

# Not in `SETTINGS`: the receiver of data sends CNPs, and a plan sets their interval for all hosts.
_CNP_INTERVAL = nic_microseconds("np_min_time_between_cnps", least=0)


@dataclass(frozen=True)
class Write:
    """A value for a file of `cc_params/`, and the value of a NIC as shipped."""

    name: str
    value: int
    shipped: int
    unit: str


@dataclass(frozen=True)
class Adaptive:
    """R_AI and R_HAI × (1 + sent ÷ total) during each communication phase (HotNets'22 §4(i)).

    A NIC sends `total_bytes` in a phase. The phase is over after `gap_s` at less than `quiet_bps`.
    """

    total_bytes: int
    gap_s: float
    quiet_bps: int


@dataclass(frozen=True)
class NicSettings:
    """The settings of the NICs of a job; `reason` explains why there are none or some are missing."""

    job: str
    writes: tuple[Write, ...] = ()
    adaptive: Adaptive | None = None
    reason: str | None = None


def nic_settings(
    plan: PlanLike, placement: Mapping[str, Sequence[str]] | None = None
) -> tuple[NicSettings, ...]:
    """The settings of the NICs of each job of `plan` that make DCQCN behave as in the plan.

    They are the values that the plan gives and those of its preset that differ from NICs as shipped. A job
    without `congestion` is set up according to its `share`: a weight of 2 against 1 gets the timers of
    HotNets'22 §2.

    Raises `InputError` for a value that a NIC does not support, and for jobs on one NIC that need different
    settings of it: its parameters apply to all its traffic.

    >>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
    >>> jobs = [{"name": "a", **half, "share": {"weighted": 2.0}}, {"name": "b", **half}]
    >>> nics = nic_settings({"link": {"capacity": "50 Gbps"}, "jobs": jobs})
    >>> [(each.job, each.writes[0].name, each.writes[0].value) for each in nics]
    [('a', 'rp_time_reset', 100), ('b', 'rp_time_reset', 125)]
    """
    plan = as_plan(plan)
    # A weight has a meaning only relative to the others: the timers stand for 2 against 1.
    by_share = [job for job in plan.jobs if job.congestion is None]
    weights = {job.share.weight for job in by_share if job.share.kind != "adaptive"}
    found = tuple(
        _with_cnp_interval(
            plan, _settings_of(job, parameters, weights, partial(plan.profiles_of, job, placement))
        )
        for job, parameters in zip(plan.jobs, PacketSetup(plan, placement).congestion, strict=True)
    )
    _check_hosts(plan, placement, found)
    return found


def _with_cnp_interval(plan: Plan, settings: NicSettings) -> NicSettings:
    """Adds the plan's interval between CNPs, if it gives one and the NIC has other settings."""
    if not settings.writes or "cnp_interval_ps" not in plan.host.model_fields_set:
        return settings
    interval, shipped = (
        _in_units(settings.job, "cnp_interval", _CNP_INTERVAL, host.cnp_interval_ps)
        for host in (plan.host, Host())
    )
    write = Write(_CNP_INTERVAL.name, interval, shipped, _CNP_INTERVAL.unit)
    return replace(settings, writes=(*settings.writes, write))


def _settings_of(
    job: Job, parameters: Sequence[Parameter], weights: set[float], profiles: Profiles
) -> NicSettings:
    if job.congestion is not None:
        if job.congestion.policy != "dcqcn":
            return NicSettings(job.name, reason=f"cc_params/ has no parameters of {job.congestion.policy}")
        wants_adaptive = bool(values(parameters)["adaptive"])
        return _adapting(job, profiles, _writes(job.name, parameters), wants_adaptive)
    if job.share.kind == "adaptive":
        if job.share.weight != 1:
            why = f"a NIC has no counterpart of an adaptive weight of {job.share.weight:g}, only of 1"
            return NicSettings(job.name, reason=why)
        return _adapting(job, profiles, (), True)
    # All jobs share fairly, as they do with NICs as shipped.
    if weights == {1.0}:
        return NicSettings(job.name, reason="no congestion in the plan: its NICs stay as they are")
    if not weights <= set(_T_OF_WEIGHT):
        why = (
            f"weights {', '.join(f'{each:g}' for each in sorted(weights))}: HotNets'22 §2 has timers only "
            'for 2 against 1; give congestion = { dcqcn = { preset = "mlx5", increase_timer = … } }'
        )
        return NicSettings(job.name, reason=why)
    timer = Congestion.model_validate({"dcqcn": {"preset": "mlx5", "T": _T_OF_WEIGHT[job.share.weight]}})
    return NicSettings(job.name, _writes(job.name, timer.parameters(_LINE_RATE_BPS, _PATH_BYTES)))


def _writes(job: str, parameters: Sequence[Parameter]) -> tuple[Write, ...]:
    as_shipped = Congestion.model_validate({"dcqcn": {"preset": "mlx5"}})
    shipped = values(as_shipped.parameters(_LINE_RATE_BPS, _PATH_BYTES))
    by_name = {each.name: each for each in parameters}
    found = []
    for name, file in SETTINGS.items():
        parameter = by_name[name]
        # A value from the plan is written even if NICs are shipped with it: this NIC may have been changed.
        if parameter.source == "plan" or parameter.value != shipped[name]:
            # The plan's name of the parameter, for errors.
            key = Dcqcn.model_fields[name].alias or name
            found.append(
                Write(
                    file.name,
                    _in_units(job, key, file, parameter.value),
                    _in_units(job, key, file, shipped[name]),
                    file.unit,
                )
            )
    return tuple(found)


def _in_units(job: str, key: str, file: NicFile, value: Any) -> int:
    exact = file.write(value)
    # The value must be a whole number in the NIC's unit, up to the rounding of floats.
    nearest = round(exact)
    if abs(exact - nearest) > 1e-9 * max(1.0, abs(exact)) or not file.least <= nearest <= file.most:
        unit = f" ({file.unit})" if file.unit else ""
        raise InputError(
            f"job {job!r}: {key}: a NIC takes whole numbers from {file.least} to {file.most} in "
            f"{file.name}{unit}: got {exact:.6g}"
        )
    return nearest


def _adapting(job: Job, given: Profiles, writes: tuple[Write, ...], wanted: bool) -> NicSettings:
    if not wanted:
        return NicSettings(job.name, writes)
    if job.training is not None:
        return NicSettings(job.name, writes, reason="adaptive needs the bytes of a phase: give period and up")
    profiles = given()
    totals = {_bytes(phase) for profile in profiles for phase in profile.phases}
    if len(totals) != 1:
        why = f"adaptive needs phases of one size: this job has {len(totals)} different sizes"
        return NicSettings(job.name, writes, reason=why)
    shortest_ps = min(_shortest_down_ps(profile.period_ps, profile.phases) for profile in profiles)
    if shortest_ps < _LEAST_DOWN_PS:
        why = (
            f"adaptive needs {format_duration(_LEAST_DOWN_PS)} between two phases to separate them: "
            f"this job leaves {format_duration(shortest_ps)}"
        )
        return NicSettings(job.name, writes, reason=why)
    slowest_bps = min(phase.rate_bps for profile in profiles for phase in profile.phases)
    (total_bytes,) = totals
    # Half of the shortest Down phase, so that a short gap ends no phase, but every Down phase does.
    return NicSettings(
        job.name, writes, Adaptive(total_bytes, shortest_ps / 2e12, slowest_bps // _QUIET_PART)
    )


def _bytes(phase: PhaseSpec) -> int:
    return phase.rate_bps * phase.duration_ps // (8 * 10**12)


def _shortest_down_ps(period_ps: int, phases: Sequence[PhaseSpec]) -> int:
    """The shortest time between the end of a phase and the start of the next; `phases` in order of start."""
    starts = [*(phase.start_ps for phase in phases[1:]), phases[0].start_ps + period_ps]
    ends = [phase.start_ps + phase.duration_ps for phase in phases]
    return min(start - end for start, end in zip(starts, ends, strict=True))


def _check_hosts(
    plan: Plan, placement: Mapping[str, Sequence[str]] | None, nics: Sequence[NicSettings]
) -> None:
    # Jobs on one link have hosts of their own.
    if plan.fabric is None:
        return
    first: dict[str, NicSettings] = {}
    for job, each in zip(plan.jobs, nics, strict=True):
        for host in plan.hosts_of(job, placement):
            # Comparing with the first job of a host is enough, as equality is transitive.
            earlier = first.setdefault(host, each)
            difference = _difference(earlier, each)
            if difference is not None:
                raise InputError(
                    f"host {host!r}: jobs {earlier.job!r} and {each.job!r} need different settings of its "
                    f"NIC: {difference}; the parameters of a NIC apply to all its traffic"
                )


def _difference(one: NicSettings, other: NicSettings) -> str | None:
    """The first setting in which the two differ, as text; None if they agree."""
    wanted = [{write.name: write.value for write in each.writes} for each in (one, other)]
    for name in (*(file.name for file in SETTINGS.values()), _CNP_INTERVAL.name):
        values = [str(each.get(name, "unchanged")) for each in wanted]
        if values[0] != values[1]:
            return f"{name} {values[0]} and {values[1]}"
    if one.adaptive != other.adaptive:
        return (
            "adaptive with different phases"
            if one.adaptive and other.adaptive
            else "adaptive and not adaptive"
        )
    return None
