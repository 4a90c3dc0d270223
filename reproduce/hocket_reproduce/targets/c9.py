"""C9: how often agents in a cluster run move jobs back to their slots (NSDI'24 §5.7 and Fig 17)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import mean

from matplotlib.figure import Figure

from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import parse_trace
from hocket.figures.bars import GroupedBars, bars_figure
from hocket.results import Run
from hocket.workloads import calibrated_workers
from hocket_reproduce.targets.cluster import (
    SEEDS,
    TH_CASSINI,
    THEMIS,
    ConfiguredScheduler,
    SchedulerRun,
    estimate,
    row,
)
from hocket_reproduce.targets.setting import (
    CAPACITY,
    ITERATIONS,
    JITTER,
    SNAPSHOTS,
    Tables,
    across_one_link,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row

FIG_17 = (1, 2, 3)
"""The snapshots that Fig 17 shows."""
LIMIT = 2.0
"""NSDI'24 §5.7: less than two adjustments per minute in all cases."""
JITTERS = (JITTER, 0.02, 0.05)
"""No paper says how much compute times vary. 1% is the default of traces."""

_NO_AGENT = ConfiguredScheduler("Th+CASSINI without agents", "themis+cassini", {"cassini": {"adjust": False}})


def snapshot_trace(number: int, jitter: float = JITTER) -> Tables:
    """A snapshot of Table 2 as a trace: the ring of each job crosses one link once in each direction."""
    workers = [calibrated_workers(model, batch_size) for _, model, batch_size in SNAPSHOTS[number]]
    fabric, hosts = across_one_link(workers)
    jobs = [
        {
            "name": name,
            "model": model,
            "batch_size": batch_size,
            "workers": len(placement),
            "min_workers": len(placement),
            "iterations": ITERATIONS,
            "placement": placement,
        }
        for (name, model, batch_size), placement in zip(SNAPSHOTS[number], hosts, strict=True)
    ]
    return {"fabric": fabric, "cluster": {"jitter": jitter}, "jobs": jobs}


def reproduce(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """Adjustments per minute of snapshots 1 to 3 in a cluster run, and slowdowns with and without slots."""
    rows = []
    rates: dict[float, list[float]] = {jitter: [] for jitter in JITTERS}
    for number in FIG_17:
        for jitter in JITTERS:
            progress(f"snapshot {number}, {jitter:.0%} jitter")
            runs = [_run(snapshot_trace(number, jitter), TH_CASSINI, seed) for seed in seeds]
            rates[jitter].append(mean(_most(each) for each in runs))
            rows.append(_adjustment_row(number, jitter, runs))
        progress(f"snapshot {number}, slowdowns")
        rows.extend(_slowdown_rows(number, seeds))
    return Reproduction(
        "C9",
        "Agents that bring jobs back to their slots (NSDI'24 Fig 17)",
        tuple(rows),
        partial(_figure, rates),
        (
            "Each job of a snapshot has as many workers as the catalogue is calibrated with, two or three, "
            f"one of them on the other side of a link of {CAPACITY}. It runs {ITERATIONS:,} iterations under "
            f"Themis with CASSINI, which gives it slots. Seeds {seeds[0]} to {seeds[-1]}.",
            "A rate is that of one job while it runs; for a snapshot, that of the job adjusted most often.",
            "H7 does the same on one link with slots as far apart as an ideal iteration, and clock errors.",
        ),
    )


def adjustments_per_minute(run: Run) -> Mapping[str, float]:
    """Adjustments per minute by job, over the time from its first iteration to its end."""
    # Not over the whole run: a job that ended early cannot be adjusted any more, and would seem steadier.
    return {
        each["job"]: 60 * each["adjustments"] / (each["end_s"] - each["first_start_s"])
        for each in run.tables["jobs"].iter_rows(named=True)
    }


def _run(tables: Tables, scheduler: ConfiguredScheduler, seed: int) -> Run:
    return simulate_cluster(parse_trace(scheduler.trace(tables, seed)), scheduler.policy)


def _most(run: Run) -> float:
    return max(adjustments_per_minute(run).values())


def _adjustment_row(number: int, jitter: float, runs: Sequence[Run]) -> Row:
    rates = estimate([_most(each) for each in runs])
    by_job = ", ".join(
        f"{job} {mean(adjustments_per_minute(each)[job] for each in runs):.2g}"
        for job in adjustments_per_minute(runs[0])
    )
    quantity = f"snapshot {number}, {jitter:.0%} jitter: most adjustments per minute"
    slotted = mean(SchedulerRun(each).slotted for each in runs)
    comment = f"{rates.mean:.2g} ({rates}); by job {by_job}; {slotted:.0%} of sets of jobs get slots"
    if jitter != JITTER:
        return Row(quantity, None, rates.mean, "", comment)
    limit = f"below {LIMIT:g}"
    return Row(quantity, limit, limit if rates.mean < LIMIT else f"{rates.mean:.1f}", "", comment)


def _slowdown_rows(number: int, seeds: Sequence[int]) -> Iterator[Row]:
    """Slowdowns without slots, with slots but no agents, and with both."""
    for scheduler in (THEMIS, _NO_AGENT, TH_CASSINI):
        runs = [SchedulerRun(_run(snapshot_trace(number), scheduler, seed)) for seed in seeds]
        tail = mean(each.p99_slowdown for each in runs)
        yield row(
            f"snapshot {number}: slowdown, {scheduler.name}",
            None,
            estimate([each.slowdown for each in runs]),
            "×",
            f"99th percentile {tail:.3g}×",
        )


def _figure(rates: Mapping[float, Sequence[float]]) -> Figure:
    groups = [f"snapshot {number}" for number in FIG_17]
    values = {f"{jitter:.0%} jitter": of_snapshots for jitter, of_snapshots in rates.items()}
    return bars_figure(
        [GroupedBars("of the job with most of them", "adjustments per minute", groups, values)],
        "Adjustments in a cluster run",
    )
