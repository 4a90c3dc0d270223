"""Comparison of runs: parts of iteration times, collectives, and PAUSE frames.

The panels follow HOTI'22 Figures 10, 8 and 9.
"""

import polars as pl
from matplotlib.figure import Figure

from hocket.compare import Comparison
from hocket.errors import InputError
from hocket.figures.bars import GroupedBars, Panel, StackedBars, bars_figure
from hocket.units import format_bytes

# With more groups of collectives, the panel would not fit on a page.
_MOST_COLLECTIVES = 6
# A nanosecond: smaller differences are rounding errors of the subtraction.
_LEAST_WAIT_MS = 1e-6


def runs_figure(comparison: Comparison, title: str = "") -> Figure:
    """A panel for each job's mean iteration (ms) and one for the collectives (ms); for runs of the packet
    engine also PAUSE frames and, if no run has jobs, flow completion times (ms).

    Only the six collectives that take the most time are shown. Raises `InputError` if the runs have none of
    these.
    """
    panels = [*_iterations(comparison), *_collectives(comparison), *_network(comparison)]
    if not panels:
        raise InputError("figure: the runs have no jobs, collectives or flows to draw")
    return bars_figure(panels, title)


def _iterations(comparison: Comparison) -> list[Panel]:
    return [
        StackedBars(
            title=f"{rows['job'][0]}: mean iteration",
            quantity="time (ms)",
            bars=rows["run"].to_list(),
            values={
                "compute": (1e3 * rows["compute_s"]).to_list(),
                _communication(rows["training"][0]): (1e3 * rows["communication_s"]).to_list(),
                **_waiting(rows),
            },
        )
        for rows in comparison.jobs.partition_by("job", maintain_order=True)
    ]


def _waiting(rows: pl.DataFrame) -> dict[str, list[float | None]]:
    """The remainder of iteration times, as a part: iterations of a cluster run include the wait for their
    slot. Empty if no run waits.
    """
    rest = 1e3 * (rows["mean_iteration_s"] - rows["compute_s"] - rows["communication_s"])
    return {"waiting for its slot": rest.to_list()} if (rest > _LEAST_WAIT_MS).any() else {}


def _communication(training: bool) -> str:
    """The name of communication: during an Up phase a job may also compute, so only training is exposed."""
    return "exposed communication" if training else "communication"


def _collectives(comparison: Comparison) -> list[Panel]:
    columns = ["job", "kind", "bytes", "ranks"]
    groups = comparison.collectives.partition_by(columns, maintain_order=True)
    if not groups:
        return []
    groups.sort(key=lambda rows: -float((rows["time_s"] * rows["count"]).sum()))
    shown = groups[:_MOST_COLLECTIVES]
    several = comparison.collectives["job"].n_unique() > 1
    names = []
    times: dict[str, list[float | None]] = {run: [] for run in comparison.names}
    for rows in shown:
        first = rows.row(0, named=True)
        job = f"{first['job']}: " if several else ""
        names.append(f"{job}{first['kind']}\n{format_bytes(first['bytes'])}, {first['ranks']:,} ranks")
        for run in comparison.names:
            took_s = rows.filter(run=run)["time_s"].mean()
            times[run].append(1e3 * took_s if isinstance(took_s, float) else None)
    return [GroupedBars("collectives", "mean time (ms)", names, times)]


def _network(comparison: Comparison) -> list[Panel]:
    runs = comparison.runs
    panels: list[Panel] = []
    if comparison.jobs.is_empty() and runs["mean_fct_s"].null_count() < runs.height:
        times = {
            run: [None if time_s is None else 1e3 * time_s for time_s in (mean_s, p99_s)]
            for run, mean_s, p99_s in runs.select("run", "mean_fct_s", "p99_fct_s").iter_rows()
        }
        panels.append(GroupedBars("flow completion time", "time (ms)", ("mean", "p99"), times))
    if runs["pauses"].null_count() < runs.height:
        counts = {run: [pauses] for run, pauses in runs.select("run", "pauses").iter_rows()}
        panels.append(GroupedBars("PFC", "PAUSE frames", ("",), counts, log=True))
    return panels
