"""H7: time-shifts, and the effect of clock errors on them (HotNets'22 §4(iii), NSDI'24 §5.7)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from hocket.compat import Compatibility, compatibility
from hocket.engines.run import simulate
from hocket.results import Run
from hocket.workloads import figure_3_profile
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets.measure import (
    by_job,
    cost_s,
    iteration_times_s,
    overlaps,
)
from hocket_reproduce.targets.setting import (
    JITTER,
    Tables,
    each_with,
    in_time,
    link_plan,
    shifted,
    snapshot,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row
from hocket_reproduce.targets.testbed import ITERATIONS, run_packets

# Up to more than the 13.5 ms that two of these jobs have between their Up phases.
CLOCK_ERRORS_MS = (0, 1, 2, 5, 10, 15, 20)
# Fig 17 shows snapshots 1 to 3.
FIG_17 = (1, 2, 3)
CLOCK_ERRORS_ON_PACKETS_MS = (0, 10, 20)
_WHY_MORE = (
    "slots an ideal iteration apart are too short: phases overlap a little in every iteration, so each ends "
    "late for its slot; see the next row"
)


@dataclass(frozen=True)
class Point:
    """Iterations of both jobs at one clock error: times in ms, waits included."""

    mean_ms: float
    p99_ms: float
    adjustments_per_minute: float
    overlap: float


def fig_3_jobs() -> list[Tables]:
    """Two VGG16 jobs of HotNets'22 Fig 3: each is Up for 114 of 255 ms, so both leave 27 ms free."""
    profile = figure_3_profile()
    up = profile.phases[0]
    phase = {
        "start": in_time(up.start_ps / 1e12),
        "duration": in_time(up.duration_ps / 1e12),
        "rate": f"{up.rate_bps} bps",
    }
    return [
        {"name": name, "period": in_time(profile.period_ps / 1e12), "up": [phase]} for name in ("J1", "J2")
    ]


def reproduce(progress: Progress) -> Reproduction:
    """Overlap without and with shifts; iteration times and adjustments as clock errors grow."""
    jobs = fig_3_jobs()
    shifts_s = compatibility(link_plan("Fig 3, twice", jobs)).time_shifts_s
    progress("without shifts")
    unshifted = point(simulate(link_plan("sharing", each_with(jobs, jitter=JITTER))))
    progress("clock errors")
    alone = [measure(jobs, shifts_s, error_ms, readjust=False) for error_ms in CLOCK_ERRORS_MS]
    kept = [measure(jobs, shifts_s, error_ms, readjust=True) for error_ms in CLOCK_ERRORS_MS]
    rows = [
        Row("overlap without shifts", None, unshifted.overlap, "", f"mean {unshifted.mean_ms:.1f} ms"),
        Row("overlap with shifts and agent", "none", "none" if kept[0].overlap < 0.01 else "some", ""),
        Row("mean iteration with shifts and agent", 255.0, kept[0].mean_ms, "ms", "paper: the time alone"),
        *_clock_rows(alone, kept),
    ]
    progress("on packets")
    rows.extend(_packet_rows(jobs, shifts_s))
    for number in FIG_17:
        progress(f"adjustments of snapshot {number}")
        rows.extend(_adjustment_rows(number))
    return Reproduction(
        "H7",
        "Time-shifts and clock errors (HotNets'22 §4(iii), NSDI'24 Fig 17)",
        tuple(rows),
        partial(_figure, alone, kept),
        (
            f"Two VGG16 jobs of HotNets'22 Fig 3, 1,000 iterations with {JITTER:.0%} jitter on 50 Gbps. A "
            "shift is applied with a normal error of the given standard deviation.",
            "The agent delays a job's next iteration to its next slot once its communication starts 5% of "
            "an iteration away from it (NSDI'24 §5.7). A late job has to wait for its next slot, almost a "
            "whole iteration: the 99th percentile shows it.",
            f"On packets: {ITERATIONS} iterations under DCQCN as in H1.",
            "Slots that last are as far apart as the slowest job's predicted iteration under these shifts "
            f"takes, plus {JITTER:.0%} for jitter; an early job waits for its slot.",
        ),
    )


def measure(jobs: Sequence[Tables], shifts_s: dict[str, float], error_ms: int, *, readjust: bool) -> Point:
    """Runs the jobs with time-shifts whose normal clock error has the standard deviation `error_ms`."""
    policy = each_with(
        shifted(jobs, shifts_s, readjust=readjust), clock_error=f"{error_ms} ms", jitter=JITTER
    )
    return point(simulate(link_plan("shifted", policy)))


def point(run: Run) -> Point:
    """The statistics of a run of two jobs."""
    first, second = run.tables["jobs"]["job"].to_list()
    times_s = np.concatenate([iteration_times_s(run, first), iteration_times_s(run, second)])
    return Point(
        mean_ms=1e3 * float(times_s.mean()),
        p99_ms=1e3 * float(np.quantile(times_s, 0.99, method="inverted_cdf")),
        adjustments_per_minute=max(adjustments_per_minute(run).values()),
        overlap=float(np.mean(overlaps(run, first, second))),
    )


def measure_packets(
    jobs: Sequence[Tables],
    shifts_s: dict[str, float] | None,
    error_ms: int = 0,
    iterations: int = ITERATIONS,
) -> Point:
    """Runs the jobs on packets: unshifted, or with the agent and time-shifts that have a clock error."""
    placed = each_with(jobs, jitter=JITTER)
    if shifts_s is not None:
        placed = each_with(shifted(placed, shifts_s, readjust=True), clock_error=f"{error_ms} ms")
    return point(run_packets(placed, iterations=iterations))


def _packet_rows(jobs: Sequence[Tables], shifts_s: dict[str, float]) -> Iterator[Row]:
    free = measure_packets(jobs, None)
    yield Row("packets: overlap without shifts", None, free.overlap, "", f"mean {free.mean_ms:.1f} ms")
    for error_ms in CLOCK_ERRORS_ON_PACKETS_MS:
        kept = measure_packets(jobs, shifts_s, error_ms)
        yield Row(
            f"packets, clock error of {error_ms} ms: mean iteration with the agent",
            255.0 if error_ms == 0 else None,
            kept.mean_ms,
            "ms",
            f"overlap {kept.overlap:.1%}, p99 {kept.p99_ms:.0f} ms",
        )


def adjustments_per_minute(run: Run) -> dict[str, float]:
    """Adjustments of each job's agent per simulated minute."""
    minutes = run.manifest["simulated_s"] / 60
    return {job: count / minutes for job, count in by_job(run, "adjustments").items()}


def _clock_rows(alone: Sequence[Point], kept: Sequence[Point]) -> Iterator[Row]:
    for error_ms, free, agent in zip(CLOCK_ERRORS_MS, alone, kept, strict=True):
        yield Row(
            f"clock error of {error_ms} ms: mean iteration with the agent",
            None,
            agent.mean_ms,
            "ms",
            f"p99 {agent.p99_ms:.0f} ms, {agent.adjustments_per_minute:.1f} adjustments per minute; "
            f"without the agent mean {free.mean_ms:.1f} ms, p99 {free.p99_ms:.0f} ms",
        )


def _adjustment_rows(number: int) -> Iterator[Row]:
    jobs = snapshot(number)
    answer = compatibility(link_plan(f"snapshot {number}", jobs))

    def run(jobs: Sequence[Tables], *, readjust: bool) -> Run:
        policy = each_with(shifted(jobs, answer.time_shifts_s, readjust=readjust), jitter=JITTER)
        return simulate(link_plan(f"snapshot {number}", policy))

    free = cost_s(run(jobs, readjust=False))
    slots_s = lasting_slots_s(answer)
    in_slots = [{**job, "pad_to": in_time(slots_s[job["name"]])} for job in jobs]
    for label, placed, why in (
        ("slots an ideal iteration apart", jobs, f"{_WHY_MORE}; "),
        ("slots that last", in_slots, ""),
    ):
        kept = run(placed, readjust=True)
        communication_s = by_job(kept, "mean_communication_s")
        times = ", ".join(
            f"{job} {1e3 * cost:.0f} ms ({1e3 * free[job]:.0f} without the agent), "
            f"{1e3 * communication_s[job]:.0f} of them communication"
            for job, cost in cost_s(kept).items()
        )
        yield Row(
            f"snapshot {number}, {label}: most adjustments per minute",
            "below 2",
            _below(2, max(adjustments_per_minute(kept).values())),
            "",
            f"{why}iterations take {times}",
        )


def lasting_slots_s(answer: Compatibility) -> dict[str, float]:
    """By job, in seconds, the distance between slots that the job can keep.

    It is the slowest job's predicted time for one turn of the circle, divided by the job's own rounds, plus a
    margin for jitter.
    """
    shifted_s = dict(answer.prediction.select("job", "shifted_mean_s").iter_rows())
    # All jobs get the slowest one's turn: with different turns, their relative shifts would drift.
    lap_s = max(shifted_s[job.name] * job.rounds for job in answer.jobs)
    return {job.name: lap_s / job.rounds * (1 + JITTER) for job in answer.jobs}


def _below(limit: float, value: float) -> str:
    return f"below {limit:g}" if value < limit else f"{value:.1f}"


def _figure(alone: Sequence[Point], kept: Sequence[Point]) -> Figure:
    def series(value: str) -> dict[str, list[float]]:
        runs = {"no agent": alone, "agent": kept}
        return {name: [getattr(each, value) for each in points] for name, points in runs.items()}

    errors = list(CLOCK_ERRORS_MS)
    x_label = "clock error, standard deviation (ms)"
    return lines_figure(
        [
            LinesPanel("mean", x_label, "iteration time (ms)", errors, series("mean_ms")),
            LinesPanel("99th percentile", x_label, "iteration time (ms)", errors, series("p99_ms")),
            LinesPanel(
                "adjustments", x_label, "per minute and job", errors, series("adjustments_per_minute")
            ),
        ],
        "Two shifted VGG16 jobs with clock errors",
    )
