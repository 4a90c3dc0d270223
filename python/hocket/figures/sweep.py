"""A sweep at a glance: how long iterations take by the value of a key."""

import math

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hocket.errors import InputError
from hocket.figures.palette import LINE_COLOUR, job_colour
from hocket.figures.style import MS_PER_S, label, new_figure, short
from hocket.sweeps import Sweep

_MOST_PANELS = 6
_ABREAST = 3
_SEED = "seed"
_ROOM_ABOVE = 1.12


def sweep_figure(sweep: Sweep, title: str = "") -> Figure:
    """The mean iteration of each job (ms) by the values of the first axis, its 99th percentile dashed, in a
    panel for each combination of the others: the first six.

    Means are over seeds. Raises `InputError` if no run is complete.
    """
    axes = [axis for axis in sweep.axes if axis != _SEED]
    means = sweep.over_seeds()
    if means.is_empty():
        raise InputError("a figure: no run of the sweep is complete")
    first, others = (axes[0] if axes else "engine"), axes[1:]
    parts = means.partition_by(others, maintain_order=True) if others else [means]
    if len(parts) > _MOST_PANELS:
        title = f"{title}: {_MOST_PANELS} of {len(parts)} combinations".removeprefix(": ")
        parts = parts[:_MOST_PANELS]
    jobs = means["job"].unique(maintain_order=True).to_list()
    abreast = min(_ABREAST, len(parts))
    rows = -(-len(parts) // abreast)
    figure = new_figure(max(6.0, 4.4 * abreast), 2.9 * rows + 0.8)
    if title:
        figure.suptitle(title)
    for place, part in enumerate(parts):
        panel = figure.add_subplot(rows, abreast, place + 1)
        _draw_means(panel, part, first, jobs)
        settings = ", ".join(f"{key} = {part[key][0]}" for key in others)
        label(panel, first, "iteration (ms)", settings)
    handles = [
        Line2D([], [], color=job_colour(n), marker="o", label=short(job)) for n, job in enumerate(jobs)
    ]
    handles.append(Line2D([], [], color=LINE_COLOUR, linestyle="--", label="99th percentile"))
    columns = min(len(handles), 2 * abreast + 1)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
    return figure


def _draw_means(axes: Axes, part: pl.DataFrame, key: str, jobs: list[str]) -> None:
    numeric = part.schema[key].is_numeric()
    values = part[key].unique(maintain_order=True).to_list()
    for number, job in enumerate(jobs):
        rows = part.filter(pl.col("job") == job)
        places = rows[key].to_list() if numeric else [values.index(value) for value in rows[key].to_list()]
        # Jobs that take equally long stay visible: the first ones are wider.
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
            )
    if not numeric:
        axes.set_xticks(range(len(values)), [short("not given" if v is None else str(v), 14) for v in values])
        axes.margins(x=0.12)
    axes.set_ylim(0, _ROOM_ABOVE * axes.dataLim.y1)
    axes.grid(True, alpha=0.25)
