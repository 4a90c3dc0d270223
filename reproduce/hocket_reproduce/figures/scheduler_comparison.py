"""Schedulers compared: iterations of all jobs over time, and distributions side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hocket.figures.palette import Style, styles
from hocket.figures.style import label, new_figure

_MOST_ABREAST = 3
# Start of a logarithmic axis of counts: below 1, so that a count of 1 is not on the frame.
_LEAST_COUNT = 0.5


@dataclass(frozen=True)
class SeriesPanel:
    """One run; `rows` have the columns `job`, `model`, `minute` (ascending for each job) and
    `iteration_s`."""

    title: str
    rows: pl.DataFrame


@dataclass(frozen=True)
class Distribution:
    """Samples by the name of their line; `quantity` names the horizontal axis, with its unit."""

    title: str
    quantity: str
    samples: Mapping[str, npt.NDArray[np.float64]]
    samples_are: str = "iterations"
    log: bool = False
    """Whether the axis is logarithmic, for counts. The line starts at the share of zeros."""
    legend: Literal["lower right", "upper left"] = "lower right"
    """The corner without lines."""


def scheduler_comparison_figure(
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
    models = _styles(series)
    for place, panel in enumerate(series):
        axes = figure.add_subplot(grid[place, 0], sharex=first, sharey=first)
        first = first or axes
        _draw_series(axes, panel, models)
        label(axes, "time (min)" if panel is series[-1] else "", "iteration (ms)", panel.title)
    if series:
        lines = [
            Line2D([], [], color=drawn.colour, linestyle=drawn.line, label=model)
            for model, drawn in models.items()
        ]
        figure.legend(handles=lines, loc="outside right upper", frameon=False, fontsize="small")
    for row in range(rows):
        shown = distributions[row * _MOST_ABREAST : (row + 1) * _MOST_ABREAST]
        parts = grid[len(series) + row, 0].subgridspec(1, len(shown))
        for place, each in enumerate(shown):
            _draw_distribution(figure.add_subplot(parts[0, place]), each)
    return figure


def _styles(panels: Sequence[SeriesPanel]) -> dict[str, Style]:
    """How to draw each model, by name."""
    return styles(sorted({model for panel in panels for model in panel.rows["model"].to_list()}))


def _draw_series(axes: Axes, panel: SeriesPanel, models: Mapping[str, Style]) -> None:
    for rows in panel.rows.partition_by("job", maintain_order=True):
        drawn = models[rows["model"][0]]
        # A line ends where a job waits, and a job that ran within one minute is a dot.
        minutes = np.arange(rows["minute"].to_numpy()[0], rows["minute"].to_numpy()[-1] + 1)
        times_ms = np.full(minutes.size, np.nan)
        times_ms[np.searchsorted(minutes, rows["minute"].to_numpy())] = 1e3 * rows["iteration_s"].to_numpy()
        axes.plot(
            minutes,
            times_ms,
            color=drawn.colour,
            linestyle=drawn.line,
            linewidth=1.1,
            marker=".",
            markersize=2,
        )
    # Iteration times of models differ by a factor of fifty.
    axes.set_yscale("log")
    axes.grid(True, alpha=0.25)


def _draw_distribution(axes: Axes, panel: Distribution) -> None:
    for name, style in styles(panel.samples).items():
        # Equal samples are one step; `compress` of ecdf would draw it only as high as the first of them.
        values, counts = np.unique(panel.samples[name], return_counts=True)
        axes.ecdf(values, counts, label=name, color=style.colour, linestyle=style.line, linewidth=1.6)
    if panel.log:
        axes.set_xscale("log", nonpositive="clip")
        axes.set_xlim(left=_LEAST_COUNT)
    axes.set_ylim(0, 1.02)
    axes.grid(True, alpha=0.25)
    label(axes, panel.quantity, f"share of {panel.samples_are}", panel.title)
    axes.legend(loc=panel.legend, frameon=False, fontsize="small")
