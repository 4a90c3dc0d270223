"""H5: adaptively unfair sharing interleaves compatible jobs, and is fair to others (HotNets'22 §4(i))."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from hocket.engines.run import simulate
from hocket.results import Run
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets import h3
from hocket_reproduce.targets.measure import by_job, overlaps
from hocket_reproduce.targets.setting import (
    JITTER,
    Tables,
    each_with,
    link_plan,
    snapshot,
    workload,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row
from hocket_reproduce.targets.testbed import T_US, run_packets, with_timers

# A weight of 1 + 1.0 × sent/total, the factor of §4(i) on R_AI.
ADAPTIVE = {"adaptive": 1.0}
# By then the slide is over: it took fewer than 20 iterations in every pair.
_STEADY_FROM = 500
_SHOWN = 40
# Not the DLRMs, whose iterations of a second take too long on packets.
ON_PACKETS = ("WideResNet101 + VGG16", "RoBERTa ×2")
PACKET_ITERATIONS = 100


@dataclass(frozen=True)
class Pair:
    """Runs of two jobs on a link: with fair and with adaptive shares."""

    jobs: tuple[str, str]
    fair: Run
    adaptive: Run


def pairs() -> dict[str, list[Tables]]:
    """Compatible and incompatible pairs of HotNets'22 Table 1 and NSDI'24 Table 2."""
    return {
        "DLRM ×2": [workload(member.name, member.model, member.batch_size) for member in h3.GROUPS[1][0]],
        "WideResNet101 + VGG16": snapshot(1),
        "RoBERTa ×2": snapshot(4),
    }


def measure(jobs: Sequence[Tables]) -> Pair:
    """Runs a pair of jobs that start at once, with both shares."""
    jittered = each_with(jobs, jitter=JITTER)
    return Pair(
        (jobs[0]["name"], jobs[1]["name"]),
        simulate(link_plan("fair", jittered)),
        simulate(link_plan("adaptive", each_with(jittered, share=ADAPTIVE))),
    )


def reproduce(progress: Progress) -> Reproduction:
    """Overlap, speed and fairness of three pairs under adaptive unfairness."""
    measured = {}
    for name, jobs in pairs().items():
        progress(name)
        measured[name] = measure(jobs)
    rows = [
        row
        for name, pair in measured.items()
        for row in (_compatible_rows(name, pair) if name != "RoBERTa ×2" else _incompatible_rows(name, pair))
    ]
    for name in ON_PACKETS:
        progress(f"{name} on packets")
        rows.extend(_packet_rows(name, measure_packets(pairs()[name])))
    return Reproduction(
        "H5",
        "Adaptively unfair sharing (HotNets'22 §4(i))",
        tuple(rows),
        partial(_figure, measured),
        (
            f"Weights are 1 + sent/total of the phase. 1,000 iterations with {JITTER:.0%} jitter on 50 "
            "Gbps, both jobs starting at once; without jitter two equal jobs would overlap for ever.",
            f"Overlap: the share of the first job's Up phase in which the other sends, from iteration "
            f"{_STEADY_FROM} on. The paper gives no numbers.",
            f"On packets: {PACKET_ITERATIONS} iterations under DCQCN with T of {T_US} µs for both, R_AI and "
            "R_HAI of an adaptive job × (1 + sent/total of the phase); overlap in the last third.",
        ),
    )


def steady_overlap(pair: Pair, run: Run) -> float:
    """The mean overlap once the slide is over."""
    return float(np.mean(overlaps(run, *pair.jobs)[_STEADY_FROM:]))


def sent_rates_gbps(run: Run) -> dict[str, float]:
    """The mean rate of each job over the whole run, in Gbps."""
    phases = run.tables["phases"].group_by("job", maintain_order=True)
    sums = phases.agg(gbps=pl.col("bytes").sum() * 8 / pl.col("end_s").max() / 1e9)
    return dict(zip(sums["job"].to_list(), sums["gbps"].to_list(), strict=True))


def measure_packets(jobs: Sequence[Tables], iterations: int = PACKET_ITERATIONS) -> Pair:
    """Runs a pair on packets, with both shares."""
    jittered = each_with(jobs, jitter=JITTER)
    fair, adaptive = (
        run_packets(with_timers(jittered, (T_US, T_US), adaptive=adaptive), iterations=iterations)
        for adaptive in (False, True)
    )
    return Pair((jobs[0]["name"], jobs[1]["name"]), fair, adaptive)


def _packet_rows(name: str, pair: Pair) -> Iterator[Row]:
    def late(run: Run) -> float:
        shares = overlaps(run, *pair.jobs)
        return float(np.mean(shares[-(shares.size // 3) :]))

    comment = f"overlap {late(pair.fair):.0%} when fair, {late(pair.adaptive):.0%} when adaptive"
    if name == "RoBERTa ×2":
        first, second = (sent_rates_gbps(pair.adaptive)[job] for job in pair.jobs)
        yield Row(f"packets, {name}: ratio of mean rates", 1.0, first / second, "", comment)
        return
    # The paper has no number for "interleave": here, less than half of the overlap under fair shares.
    halved = late(pair.adaptive) < 0.5 * late(pair.fair)
    fair, adaptive = (by_job(run, "mean_iteration_s") for run in (pair.fair, pair.adaptive))
    yield Row(
        f"packets, {name}: jobs interleave by themselves",
        "yes",
        "yes" if halved else "no",
        "",
        f"{comment}; R_AI of 5 Mbps, doubled or not, is a small step: they slide slowly",
    )
    for job in pair.jobs:
        yield Row(f"packets, {name}: speed-up of {job} over fair", None, fair[job] / adaptive[job], "×")


def _compatible_rows(name: str, pair: Pair) -> list[Row]:
    fair, adaptive = (by_job(run, "mean_iteration_s") for run in (pair.fair, pair.adaptive))
    overlap = steady_overlap(pair, pair.adaptive)
    # As on packets: less than half of the overlap under fair shares.
    halved = overlap < 0.5 * steady_overlap(pair, pair.fair)
    return [
        Row(
            f"{name}: jobs interleave by themselves",
            "yes",
            "yes" if halved else "no",
            "",
            f"overlap {steady_overlap(pair, pair.fair):.0%} when fair, {overlap:.1%} when adaptive",
        ),
        *(
            Row(f"{name}: speed-up of {job} over fair", None, fair[job] / adaptive[job], "×")
            for job in pair.jobs
        ),
    ]


def _incompatible_rows(name: str, pair: Pair) -> list[Row]:
    rates = sent_rates_gbps(pair.adaptive)
    first, second = (rates[job] for job in pair.jobs)
    return [
        Row(f"{name}: ratio of mean rates", 1.0, first / second, "", "the paper: they share fairly"),
        Row(
            f"{name}: overlap that remains",
            None,
            steady_overlap(pair, pair.adaptive),
            "",
            f"phases of 160 in 200 ms must overlap; {steady_overlap(pair, pair.fair):.0%} when fair",
        ),
    ]


def _figure(measured: Mapping[str, Pair]) -> Figure:
    panels = [
        LinesPanel(
            name,
            "iteration",
            "overlap (%)",
            list(range(1, _SHOWN + 1)),
            {
                label: [100 * share for share in overlaps(run, *pair.jobs)[:_SHOWN]]
                for label, run in (("fair", pair.fair), ("adaptive", pair.adaptive))
            },
            y_limits=(0, 103),
        )
        for name, pair in measured.items()
    ]
    return lines_figure(panels, "Overlap of the communication phases")
