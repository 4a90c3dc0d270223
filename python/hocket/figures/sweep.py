"""A sweep at a glance: iteration times by the value of a key, and link use."""

import math
from collections.abc import Mapping

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.engines.link_use import LinkUse
from hocket.errors import InputError
from hocket.figures.link_use import draw_use, which_link
from hocket.figures.names import name_series
from hocket.figures.palette import LINE_COLOUR, job_colour
from hocket.figures.style import MS_PER_S, label, new_figure, short
from hocket.sweeps import Sweep

_MOST_PANELS = 6
_ABREAST = 3
_SEED = "seed"
_ROOM_ABOVE = 1.12
_APART = 1.01
"""A percentile below this multiple of the mean cannot be distinguished from it in the figure."""
_PANEL_IN = (4.4, 2.9)
_USE_IN = 2.3
_LINE_IN = 0.2
"""The height of a line of a title."""


def sweep_figure(sweep: Sweep, title: str = "", uses: Mapping[str, LinkUse] | None = None) -> Figure:
    """The mean iteration time (ms) of each job over the values of the sweep's first axis, with the 99th
    percentile dashed; a panel for each of the first six combinations of the other axes. Below, link use by
    job, a panel for each of `uses` (from `hocket.sweeps.link_use.uses_of_combinations`), all on one scale.

    Times are means over seeds. Raises `InputError` if no run is complete.
    """
    axes = [axis for axis in sweep.axes if axis != _SEED]
    means = sweep.over_seeds()
    if means.is_empty():
        raise InputError("figure: no run of the sweep is complete")
    first, others = (axes[0] if axes else "engine"), axes[1:]
    parts = means.partition_by(others, maintain_order=True) if others else [means]
    if len(parts) > _MOST_PANELS:
        title = f"{title}: {_MOST_PANELS} of {len(parts)} combinations".removeprefix(": ")
        parts = parts[:_MOST_PANELS]
    jobs = sweep.table["job"].drop_nulls().unique(maintain_order=True).to_list()
    uses = uses or {}
    columns, columns_of_uses = _abreast(len(parts)), _abreast(len(uses))
    rows, rows_of_uses = -(-len(parts) // columns), -(-len(uses) // columns_of_uses)
    most = max(columns, columns_of_uses)
    width_in, height_in = _PANEL_IN
    use_in = _USE_IN + _LINE_IN * (len(axes) + 1)
    heights_in = [height_in * rows, use_in * rows_of_uses][: 2 if uses else 1]
    figure = new_figure(max(6.0, width_in * most), sum(heights_in) + 0.8)
    if title:
        figure.suptitle(title)
    grid = figure.add_gridspec(len(heights_in), 1, height_ratios=heights_in)
    above = grid[0].subgridspec(rows, columns)
    for place, part in enumerate(parts):
        panel = figure.add_subplot(above[place])
        _draw_means(panel, part, first, jobs)
        label(panel, first, "iteration (ms)", ", ".join(f"{key} = {part[key][0]}" for key in others))
    if uses:
        below = grid[1].subgridspec(rows_of_uses, columns_of_uses)
        _draw_uses([figure.add_subplot(below[place]) for place in range(len(uses))], uses)
    name_series(figure, 2 * most + 1)
    return figure


def _abreast(count: int) -> int:
    """The number of panels in a row: at most three, and so that all rows are about equally long."""
    rows = max(1, -(-count // _ABREAST))
    return max(1, -(-count // rows))


def _draw_uses(panels: list[Axes], uses: Mapping[str, LinkUse]) -> None:
    """Draws each of `uses` in one of `panels`, all with the same scales of time and rate."""
    longest_s = max(use.end_s - use.begin_s for use in uses.values())
    most_bps = max(use.capacity_bps for use in uses.values())
    for panel, (settings, use) in zip(panels, uses.items(), strict=True):
        lines = [*settings.split(", "), which_link(use)]
        draw_use(panel, use, "\n".join(filter(None, lines)) or "link use", most_bps)
        panel.set_xlim(0, MS_PER_S * longest_s)


def _draw_means(axes: Axes, part: pl.DataFrame, key: str, jobs: list[str]) -> None:
    # Numbers keep their distances on the axis; other values are evenly spaced, in the order of the sweep.
    numeric = part.schema[key].is_numeric()
    values = part[key].unique(maintain_order=True).to_list()
    for number, job in enumerate(jobs):
        rows = part.filter(pl.col("job") == job)
        places = rows[key].to_list() if numeric else [values.index(value) for value in rows[key].to_list()]
        # The first lines are wider, so that jobs with equal times stay visible.
        width = 1.4 + min(1.2, 5.0 / len(jobs)) * (len(jobs) - 1 - number)
        for quantity, line, thickness in (("mean", "-", width), ("p99", "--", 1.0)):
            times_ms = [
                math.nan if time_s is None else MS_PER_S * time_s
                for time_s in rows[f"{quantity}_iteration_s"]
            ]
            axes.plot(
                places,
                times_ms,
                line,
                color=job_colour(number),
                linewidth=thickness,
                marker="o" if quantity == "mean" else "",
                markersize=thickness + 2.5,
                label=job if quantity == "mean" else None,
            )
    if not numeric:
        axes.set_xticks(range(len(values)), [short("not given" if v is None else str(v), 14) for v in values])
        axes.margins(x=0.12)
    # From 0, so that heights are in proportion to times.
    axes.set_ylim(0, _ROOM_ABOVE * axes.dataLim.y1)
    if (part["p99_iteration_s"] > _APART * part["mean_iteration_s"]).any():
        axes.text(
            1.0,
            1.0,
            "dashed: 99th percentile",
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize="x-small",
            color=LINE_COLOUR,
        )
    axes.grid(True, alpha=0.25)
