"""The rates of jobs on a link over time, as stacked areas."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.figures.names import name_series
from hocket.figures.palette import LINE_COLOUR, job_colour
from hocket.figures.style import label, new_figure, rate_unit
from hocket.results import Run

# The limit on panels side by side, so that each is wide enough to read.
_MOST_COLUMNS = 2


@dataclass(frozen=True)
class TimelinePanel:
    """Part of one run: its `rates` table (`job, start_s, rate_bps`) from `begin_s` to `end_s`."""

    title: str
    jobs: tuple[str, ...]
    """From bottom to top."""
    rates: pl.DataFrame
    begin_s: float
    end_s: float


def panel_of(run: Run, title: str, begin_s: float, end_s: float) -> TimelinePanel:
    """A panel for part of `run`, with its jobs in the plan's order; the run must have recorded rates until
    `end_s`.
    """
    return TimelinePanel(title, tuple(run.tables["jobs"]["job"]), run.tables["rates"], begin_s, end_s)


def timeline_figure(panels: Sequence[TimelinePanel], capacity_bps: int, title: str = "") -> Figure:
    """Stacked rates (Gbps, or Mbps on a link below 1 Gbps) over time (ms since `begin_s` of each panel), with
    the capacity as a dashed line; two panels in a row.

    Every job must cross the link with exactly one flow: rates are those of a flow.
    """
    columns = min(_MOST_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.4 * columns, 0.5 + 2.4 * rows)
    if title:
        figure.suptitle(title)
    for position, panel in enumerate(panels):
        draw_areas(figure.add_subplot(rows, columns, position + 1), panel, capacity_bps)
    name_series(figure, 2 * columns)
    return figure


def rates_over(
    rates: pl.DataFrame, jobs: Sequence[str], begin_s: float, end_s: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The step functions of `rates` from `begin_s` to `end_s`: edges (k + 1) in seconds, and rates in bits/s
    (len(jobs), k).

    Column k is valid from edge k to edge k + 1. A job has rate 0 before its first row.

    >>> table = pl.DataFrame({"job": ["a", "a"], "start_s": [1.0, 3.0], "rate_bps": [5, 0]})
    >>> edges, steps = rates_over(table, ["a"], 0.0, 4.0)
    >>> edges.tolist(), steps.tolist()
    ([0.0, 1.0, 3.0, 4.0], [[0.0, 5.0, 0.0]])
    """
    starts = rates.filter(pl.col("start_s").is_between(begin_s, end_s, closed="none"))["start_s"]
    edges_s = np.array(sorted({begin_s, end_s, *starts.to_list()}), dtype=np.float64)
    steps = np.zeros((len(jobs), edges_s.size - 1))
    for row, job in enumerate(jobs):
        of_job = rates.filter(pl.col("job") == job)
        # A job may change its rate twice at one instant: `side="right"` finds the last row of that instant.
        last = np.searchsorted(of_job["start_s"].to_numpy(), edges_s[:-1], side="right") - 1
        values = of_job["rate_bps"].to_numpy()
        if values.size:
            steps[row] = np.where(last >= 0, values[np.maximum(last, 0)], 0)
    return edges_s, steps


def draw_areas(axes: Axes, panel: TimelinePanel, capacity_bps: int, highest_bps: int | None = None) -> None:
    """Draws the jobs of one panel that send anything; their names are left to the caller. The axis fits a
    capacity of `highest_bps`, by default that of the link.
    """
    unit_bps, unit = rate_unit(highest_bps or capacity_bps)
    edges_s, steps = rates_over(panel.rates, panel.jobs, panel.begin_s, panel.end_s)
    times_ms = (edges_s - panel.begin_s) * 1e3
    # `step="post"` needs a value at the last edge too.
    closed = np.concatenate([steps, steps[:, -1:]], axis=1) / unit_bps
    base = np.zeros(times_ms.size)
    for index, job in enumerate(panel.jobs):
        top = base + closed[index]
        # A job that sends nothing still has its colour, so that the others keep theirs.
        if steps[index].any():
            colour = job_colour(index)
            axes.fill_between(times_ms, base, top, step="post", color=colour, linewidth=0, label=job)
        base = top
    axes.axhline(capacity_bps / unit_bps, color=LINE_COLOUR, linestyle="--", linewidth=1.0)
    axes.set_xlim(0, times_ms[-1])
    axes.set_ylim(0, 1.08 * (highest_bps or capacity_bps) / unit_bps)
    label(axes, "time (ms)", f"rate ({unit})", panel.title)
