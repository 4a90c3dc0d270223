"""C2: shifting one of two VGG19 jobs so that their Up and Down phases interleave (NSDI'24 Fig 2)."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from hocket.compat import Compatibility, compatibility
from hocket.engines.run import simulate
from hocket.results import Run
from hocket_reproduce.figures.cdf import CdfPanel, cdf_figure
from hocket_reproduce.targets.measure import contended_rates_gbps, iteration_times_s
from hocket_reproduce.targets.setting import (
    JITTER,
    Tables,
    each_with,
    link_plan,
    workload,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row

# §2.2: both jobs get roughly 22 Gbps, "half of l1's capacity"; the flow engine loses none of it.
CAPACITY = "44 Gbps"
# §2.2 shifts the start of j2 by this.
SHIFT_MS = 120
# §2.2 prints none; this is VGG19's in snapshot 3 of Table 2, where it shares a link with one job.
BATCH_SIZE = 1024


def reproduce(progress: Progress) -> Reproduction:
    """Rates without a shift, and 90th percentiles of iterations with and without one."""
    jobs = [workload(name, "VGG19", BATCH_SIZE) for name in ("j1", "j2")]
    progress("the shift")
    answer = compatibility(_plan(jobs))
    progress("with and without")
    shifts_ms = {"no shift": 0.0, "shift of 120 ms": float(SHIFT_MS), "our shift": _relative_shift_ms(answer)}
    runs = {name: simulate(_plan(_shifted(jobs, shift_ms))) for name, shift_ms in shifts_ms.items()}
    rates = contended_rates_gbps(runs["no shift"])
    rows = [
        *(
            Row(f"{job} without a shift", 22, rates[job], "Gbps", "half of 44 Gbps, an input")
            for job in rates
        ),
        _shift_row(answer),
        *(row for job in rates for row in _gain_rows(runs, job, _why_overlap(answer))),
    ]
    return Reproduction(
        "C2",
        "Interleaving two VGG19 jobs (NSDI'24 Fig 2)",
        tuple(rows),
        partial(_figure, runs),
        (
            f"The catalogue's VGG19 ({BATCH_SIZE}), calibrated on snapshot 3 of the same paper, on "
            f"{CAPACITY}; the paper gives no batch size. 1,000 iterations with {JITTER:.0%} jitter.",
        ),
    )


def _relative_shift_ms(answer: Compatibility) -> float:
    first, second = answer.jobs
    return (second.time_shift_ps - first.time_shift_ps) % first.profile.period_ps / 1e9


def _shift_row(answer: Compatibility) -> Row:
    profile = answer.jobs[0].profile
    least_ms, most_ms = (profile.period_ps - profile.up_ps) / 1e9, profile.up_ps / 1e9
    return Row(
        "shift of j2",
        SHIFT_MS,
        _relative_shift_ms(answer),
        "ms",
        f"the middle of the best range: from {least_ms:.0f} to {most_ms:.0f} ms the overlap is the same and "
        f"least (score {answer.score:.2f})",
    )


def _why_overlap(answer: Compatibility) -> str:
    profile = answer.jobs[0].profile
    up_ms, period_ms = profile.up_ps / 1e9, profile.period_ps / 1e9
    return f"Up phases of {up_ms:.0f} ms cannot avoid each other in {period_ms:.0f} ms"


def _gain_rows(runs: Mapping[str, Run], job: str, why: str) -> Iterator[Row]:
    slow_ms = _p90_ms(runs["no shift"], job)
    for name in ("shift of 120 ms", "our shift"):
        fast_ms = _p90_ms(runs[name], job)
        comment = f"{slow_ms:.0f} ms and {fast_ms:.0f} ms; {why}"
        yield Row(f"{job}: 90th percentile, gain by {name}", 1.26, slow_ms / fast_ms, "×", comment)


def _plan(jobs: list[Tables]) -> Tables:
    return link_plan("NSDI'24 Fig 2", jobs, capacity=CAPACITY, rates_until="0.5 s")


def _shifted(jobs: list[Tables], shift_ms: float) -> list[Tables]:
    first, second = each_with(jobs, jitter=JITTER)
    return [first, {**second, "time_shift": f"{round(shift_ms * 1e9)} ps"}]


def _p90_ms(run: Run, job: str) -> float:
    return 1e3 * float(np.quantile(iteration_times_s(run, job), 0.9, method="inverted_cdf"))


def _figure(runs: Mapping[str, Run]) -> Figure:
    panels = [
        CdfPanel(
            job, {name: [1e3 * time for time in iteration_times_s(run, job)] for name, run in runs.items()}
        )
        for job in ("j1", "j2")
    ]
    return cdf_figure(panels, "iteration time (ms)", "Two VGG19 jobs, together and interleaved")
