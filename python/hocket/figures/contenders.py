"""Schedulers against each other: iterations of all jobs over the hours, and distributions side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hocket.figures.style import JOB_COLOURS, job_colour, label, new_figure

_Line = Literal["-", "--", ":", "-."]
_LINES: tuple[_Line, ...] = ("-", "--", ":", "-.")
_MOST_ABREAST = 3


@dataclass(frozen=True)
class SeriesPanel:
    """One run: `rows` have the columns job, model, minute (ascending for each job) and iteration_s."""

    title: str
    rows: pl.DataFrame


@dataclass(frozen=True)
class Distribution:
    """Samples by the name of what they were measured on; `quantity` names the axis, with its unit."""

    title: str
    quantity: str
    samples: Mapping[str, npt.NDArray[np.float64]]
    of_what: str = "iterations"
    log: bool = False
    """Whether the axis is logarithmic, down to zero: for counts."""
    legend: Literal["lower right", "upper left"] = "lower right"
    """The corner that the steps leave free."""


def contenders_figure(
    series: Sequence[SeriesPanel], distributions: Sequence[Distribution], title: str = ""
) -> Figure:
    """Iteration times (ms) over time (min), a line per job in the colour of its model, one panel below the
    other on the same axes; then the distributions as cumulative steps, three abreast.
    """
    rows = -(-len(distributions) // _MOST_ABREAST)
    heights = [2.5] * len(series) + [3.4] * rows
    figure = new_figure(11.0, sum(heights) + (0.9 if series else 0.4))
    if title:
        figure.suptitle(title)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    first: Axes | None = None
    styles = _styles(series)
    for place, panel in enumerate(series):
        axes = figure.add_subplot(grid[place, 0], sharex=first, sharey=first)
        first = first or axes
        _draw_series(axes, panel, styles)
        label(axes, "time (min)" if panel is series[-1] else "", "iteration (ms)", panel.title)
    if series:
        lines = [
            Line2D([], [], color=colour, linestyle=line, label=model)
            for model, (colour, line) in styles.items()
        ]
        figure.legend(handles=lines, loc="outside right upper", frameon=False, fontsize="small")
    for row in range(rows):
        shown = distributions[row * _MOST_ABREAST : (row + 1) * _MOST_ABREAST]
        parts = grid[len(series) + row, 0].subgridspec(1, len(shown))
        for place, each in enumerate(shown):
            _draw_distribution(figure.add_subplot(parts[0, place]), each)
    return figure


def _styles(panels: Sequence[SeriesPanel]) -> dict[str, tuple[str, _Line]]:
    """Colour and line of each model, by name."""
    models = sorted({model for panel in panels for model in panel.rows["model"].to_list()})
    return {
        model: (job_colour(index), _LINES[index // len(JOB_COLOURS) % len(_LINES)])
        for index, model in enumerate(models)
    }


def _draw_series(axes: Axes, panel: SeriesPanel, styles: Mapping[str, tuple[str, _Line]]) -> None:
    for rows in panel.rows.partition_by("job", maintain_order=True):
        colour, line = styles[rows["model"][0]]
        # A line ends where a job waits, and a job that ran within one minute is a dot.
        minutes = np.arange(rows["minute"].to_numpy()[0], rows["minute"].to_numpy()[-1] + 1)
        times_ms = np.full(minutes.size, np.nan)
        times_ms[np.searchsorted(minutes, rows["minute"].to_numpy())] = 1e3 * rows["iteration_s"].to_numpy()
        axes.plot(minutes, times_ms, color=colour, linestyle=line, linewidth=1.1, marker=".", markersize=2)
    # Models differ by a factor of fifty.
    axes.set_yscale("log")
    axes.grid(True, alpha=0.25)


def _draw_distribution(axes: Axes, panel: Distribution) -> None:
    for index, (name, samples) in enumerate(panel.samples.items()):
        # `compress` of ecdf would draw equal samples as high as the first of them.
        values, counts = np.unique(samples, return_counts=True)
        axes.ecdf(
            values,
            counts,
            label=name,
            color=job_colour(index),
            linestyle=_LINES[index % len(_LINES)],
            linewidth=1.6,
        )
    if panel.log:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.4)
    axes.set_ylim(0, 1.02)
    axes.grid(True, alpha=0.25)
    label(axes, panel.quantity, f"share of {panel.of_what}", panel.title)
    axes.legend(loc=panel.legend, frameon=False, fontsize="small")
