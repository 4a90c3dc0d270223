"""R8: windows set once from the pattern, for one job and for two: HOTI'22's future work (§IV-E, §VI)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from hocket.figures.bars import GroupedBars, bars_figure
from hocket_reproduce.targets import (
    packets,
    platform,
    r6,
    r7,
)
from hocket_reproduce.targets.platform import (
    STATIC,
    TWO_D,
    Algorithm,
    PlatformRun,
)
from hocket_reproduce.targets.setting import Tables, in_time
from hocket_reproduce.targets.target import Progress, Reproduction, Row

RACKS = 8
ITERATIONS = 2
"""Per job of a pair. Few, as packets of 1,000 bytes make runs of minutes."""

CONTROLS = (packets.PFC_ONLY, STATIC)

Measured = Mapping[tuple[str, str], PlatformRun]
"""Results by case and congestion control."""


@dataclass(frozen=True)
class Case:
    """Jobs on the platform."""

    name: str
    jobs: Sequence[Tables]


def alone(size: str) -> tuple[Case, ...]:
    """Cases with one job: the collectives of R6 with `size`, and DLRM."""
    collectives = (Case(case.name, [case.job(size)]) for case in r6.CASES)
    return (*collectives, Case(f"DLRM {TWO_D.name}", [r7.job(TWO_D)]))


def half(racks: int, which: int) -> list[str]:
    """One server of each of `racks` racks: the first where `which` is 0, the second where it is 1."""
    return [f"s{platform.SERVERS_PER_RACK * rack + which}" for rack in range(racks)]


def dlrm_on_half(name: str, algorithm: Algorithm, racks: int, which: int, **keys: object) -> Tables:
    """DLRM on one server of each rack; see `half`."""
    placed = {"placement": half(racks, which), "iterations": ITERATIONS}
    return r7.job(algorithm, **placed, **keys) | {"name": name}


def pairs(racks: int, size: str, shift_ms: float) -> tuple[Case, ...]:
    """Two jobs with one server of each rack each, so that they share all links between racks: two DLRMs, and
    DLRM beside consecutive All-Reduces of `size`. The second job starts with the first, or `shift_ms`
    later."""
    first = dlrm_on_half("DLRM", TWO_D, racks, 0)
    second = dlrm_on_half("second DLRM", TWO_D, racks, 1)
    reducing = {
        **platform.training_job("All-Reduce", {"collective": "all-reduce", "bytes": size}, TWO_D),
        "placement": half(racks, 1),
        "iterations": ITERATIONS,
    }
    later = {"time_shift": in_time(shift_ms / 1e3)}
    return (
        Case("two DLRM", [first, second]),
        Case("two DLRM, shifted", [first, {**second, **later}]),
        Case("DLRM + All-Reduce", [first, reducing]),
        Case("DLRM + All-Reduce, shifted", [first, {**reducing, **later}]),
    )


def measure(cases: Sequence[Case], racks: int, progress: Progress) -> dict[tuple[str, str], PlatformRun]:
    """Each of `cases` under PFC alone and with static windows."""
    plans = {
        (case.name, control.name): platform.plan(control, racks, case.jobs)
        for case in cases
        for control in CONTROLS
    }
    return platform.measure(plans, progress)


def measure_pairs(racks: int, size: str, progress: Progress) -> dict[tuple[str, str], PlatformRun]:
    """One DLRM on half of the servers, then `pairs`, shifted by half of that job's iteration."""
    # Half an iteration puts the exposed communication of one DLRM into the compute of the other.
    one = measure([Case("one DLRM on half", [dlrm_on_half("DLRM", TWO_D, racks, 0)])], racks, progress)
    shift_ms = one["one DLRM on half", packets.PFC_ONLY.name].alone.iteration_ms / 2
    return one | measure(pairs(racks, size, shift_ms), racks, lambda doing: progress(f"two jobs: {doing}"))


def reproduce(progress: Progress) -> Reproduction:
    """Iterations, PAUSE frames and longest queues under PFC alone and with static windows."""
    by_itself = measure(alone(r6.SIZE), RACKS, progress)
    together = measure_pairs(RACKS, r6.SIZE, progress)
    measured = {**by_itself, **together}
    return Reproduction(
        "R8",
        "Windows set once from the pattern (HOTI'22 §IV-E and §VI), alone and with two jobs",
        tuple(rows(measured)),
        partial(_figure, measured),
        (
            "The paper proposes windows that are set once from the repeating pattern and prevent PAUSE "
            "frames, and so deadlocks, at the speed of PFC alone, and leaves open how several jobs share "
            "the network. Here a window is the largest with which no buffer can fill up to a PAUSE frame, "
            "whichever flows coincide: each pattern of a job (the collectives of one kind and "
            "communicator) has an equal part of each buffer, and each of its queue pairs an equal part of "
            "that.",
            note_on_single_jobs(by_itself),
            "Alone: 128 GPUs, as in R6 and R7. Two jobs: 64 GPUs each, with one server of each rack, so "
            f"that they share the links between racks but no NIC, both in 2D, {ITERATIONS} iterations of "
            "each, averaged; shifted: the second one starts later by half an iteration of DLRM alone.",
            platform.OVERSUBSCRIBED,
        ),
        (packets.PFC_ONLY.name, STATIC.name),
    )


def note_on_single_jobs(by_itself: Measured) -> str:
    """A note on the effect of static windows on jobs that have the network to themselves."""
    pauses = sum(ran.pauses for (_, control), ran in by_itself.items() if control == STATIC.name)
    longer = [
        by_itself[case, STATIC.name].alone.iteration_ms / ran.alone.iteration_ms - 1
        for (case, control), ran in by_itself.items()
        if control == packets.PFC_ONLY.name
    ]
    return (
        f"With static windows, jobs alone cause {pauses or 'no'} PAUSE frames, and their iterations change "
        f"by {min(longer):+.1%} to {max(longer):+.1%}. Of two jobs, windows also decide who gets how much "
        "of a link: each pattern has an equal part of the buffers. Shifting one of two DLRMs by half an "
        "iteration does more than any window: they take turns, and no PAUSE frame is sent under PFC alone "
        "either."
    )


def rows(measured: Measured) -> Iterator[Row]:
    """Each job's iteration, PAUSE frames and the longest queue, side by side."""
    for case in dict.fromkeys(case for case, _ in measured):
        free, bound = (measured[case, control.name] for control in CONTROLS)
        for job, times in free.jobs.items():
            other = bound.jobs[job]
            what = "iteration" if len(free.jobs) == 1 else f"iteration of {job}"
            yield Row(
                f"{case}: {what}",
                times.iteration_ms,
                other.iteration_ms,
                "ms",
                f"exposed communication {times.exposed_ms:.2f} and {other.exposed_ms:.2f} ms",
            )
        yield Row(
            f"{case}: PAUSE frames",
            free.pauses,
            bound.pauses,
            "",
            f"at most {free.peak_mb:.1f} and {bound.peak_mb:.1f} MB in a switch",
        )


def _figure(measured: Measured) -> Figure:
    runs = [
        (case if len(ran.jobs) == 1 else f"{case}:\n{job}", case, job)
        for (case, control), ran in measured.items()
        if control == packets.PFC_ONLY.name
        for job in ran.jobs
    ]
    times = {
        control.name: [measured[case, control.name].jobs[job].iteration_ms for _, case, job in runs]
        for control in CONTROLS
    }
    cases = list(dict.fromkeys(case for case, _ in measured))
    pauses = {
        control.name: [float(measured[case, control.name].pauses) for case in cases] for control in CONTROLS
    }
    return bars_figure(
        [
            GroupedBars("Mean iteration", "time (ms)", [name for name, _, _ in runs], times),
            GroupedBars("PAUSE frames of ToRs and spines", "frames", cases, pauses, log=True),
        ],
        "Windows set once against PFC alone",
    )
