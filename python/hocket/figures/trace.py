"""A trace before it runs: the GPUs that its jobs request over time, and arrivals of jobs."""

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.cluster.description import headline, jobs_frame, time_unit
from hocket.cluster.trace import Trace
from hocket.figures.names import name_series
from hocket.figures.palette import JOB_COLOURS, LINE_COLOUR, TOTAL_COLOUR, job_colour
from hocket.figures.style import label, new_figure, round_step, short

Floats = npt.NDArray[np.float64]

_WIDTH_IN, _DEMAND_IN, _ARRIVALS_IN, _JOB_IN = 9.0, 3.0, 2.0, 0.18
_MOST_BARS = 40
"""The limit on jobs with a bar each; for more, the number of arrivals is drawn."""
_MOST_SPANS = 400
"""The limit on steps of the demand: with more changes than this, means of equal spans are drawn."""
_MOST_INTERVALS = 60
"""The limit on bars of arrivals."""
_NAMES_BELOW = 7
_ROOM_ABOVE = 1.12


def trace_figure(trace: Trace) -> Figure:
    """The GPUs that jobs request over time (h or min), by model, with the cluster's GPUs as a dashed line;
    below, a bar for each job or, for more than 40 jobs, the number of arrivals.

    The models with the most GPU-hours are at the bottom. Jobs run as in `hocket.cluster.description`: alone
    on an idle network, from their arrival on.
    """
    jobs, colours = _grouped(jobs_frame(trace))
    end_s = float((jobs["arrival_s"] + jobs["run_time_s"]).to_numpy().max())
    end_s = end_s if trace.until_s is None else trace.until_s
    unit, unit_s = time_unit(end_s)
    has_bars = jobs.height <= _MOST_BARS
    heights_in = (_DEMAND_IN, _JOB_IN * jobs.height + 0.7 if has_bars else _ARRIVALS_IN)
    figure = new_figure(_WIDTH_IN, sum(heights_in) + 0.7)
    figure.suptitle(f"{trace.name}: {headline(trace)}")
    demand, below = figure.subplots(2, 1, height_ratios=heights_in)
    _draw_demand(demand, jobs, colours, end_s, unit_s)
    _draw_capacity(demand, len(trace.cluster.gpus))
    label(demand, f"time ({unit})", "GPUs", "GPUs demanded, as if no job had to wait")
    if has_bars:
        _draw_jobs(below, jobs, colours, unit_s)
        label(below, f"time ({unit})", "", "each job from its arrival on, alone on an idle network")
    else:
        interval = round_step(end_s / unit_s, _MOST_INTERVALS)
        _draw_arrivals(below, jobs, colours, np.arange(0, end_s / unit_s + interval, interval), unit_s)
        label(below, f"time ({unit})", "jobs", f"jobs that arrive in each {interval:g} {unit}")
    for axes in (demand, below):
        axes.set_xlim(0, end_s / unit_s)
    name_series(figure, _NAMES_BELOW)
    return figure


def _grouped(jobs: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]]:
    """`jobs` with a column `group`, and the colours of groups, by decreasing GPU-hours. A group is a model;
    beyond the number of colours, the models with the fewest GPU-hours share a grey group.
    """
    hours = jobs.group_by("model").agg(pl.col("gpu_hours").sum())
    # The name decides between equal GPU-hours, since `group_by` keeps no order.
    models = hours.sort("gpu_hours", "model", descending=[True, False])["model"].to_list()
    alone = models if len(models) <= len(JOB_COLOURS) else models[: len(JOB_COLOURS) - 1]
    colours = {model: job_colour(place) for place, model in enumerate(alone)}
    rest = f"{len(models) - len(alone)} other models"
    if len(alone) < len(models):
        colours[rest] = TOTAL_COLOUR
    groups = {model: model if model in colours else rest for model in models}
    return jobs.with_columns(group=pl.col("model").replace_strict(groups)), colours


def _draw_demand(axes: Axes, jobs: pl.DataFrame, colours: dict[str, str], end_s: float, unit_s: int) -> None:
    """Draws the GPUs of all jobs of each group as stacked areas."""
    starts_s, ends_s = jobs["arrival_s"].to_numpy(), (jobs["arrival_s"] + jobs["run_time_s"]).to_numpy()
    edges_s = np.unique(np.clip(np.concatenate([[0.0, end_s], starts_s, ends_s]), 0.0, end_s))
    if edges_s.size > _MOST_SPANS:
        edges_s = np.linspace(0.0, end_s, _MOST_SPANS + 1)
    base = np.zeros(edges_s.size)
    for group, colour in colours.items():
        of_group = (jobs["group"] == group).to_numpy()
        gpus = _means(edges_s, starts_s[of_group], ends_s[of_group], jobs["workers"].to_numpy()[of_group])
        top = base + np.append(gpus, gpus[-1])
        if gpus.any():
            axes.fill_between(
                edges_s / unit_s, base, top, step="post", color=colour, linewidth=0, label=group
            )
        base = top
    axes.set_ylim(0, _ROOM_ABOVE * base.max())


def _means(edges_s: Floats, starts_s: Floats, ends_s: Floats, gpus: Floats) -> Floats:
    """The mean number of GPUs in use between consecutive edges, by jobs that run from `starts_s` to `ends_s`.

    >>> _means(np.array([0.0, 2.0, 4.0]), np.array([1.0]), np.array([4.0]), np.array([6.0])).tolist()
    [3.0, 6.0]
    """
    # GPU-seconds used until each edge.
    used = np.zeros(edges_s.size)
    for start_s, end_s, count in zip(starts_s, ends_s, gpus, strict=True):
        used += count * (np.clip(edges_s, start_s, end_s) - start_s)
    means: Floats = np.diff(used) / np.diff(edges_s)
    return means


def _draw_capacity(axes: Axes, gpus: int) -> None:
    """Draws the number of GPUs, inside the panel even if jobs request far fewer."""
    axes.set_ylim(0, max(axes.get_ylim()[1], _ROOM_ABOVE * gpus))
    axes.axhline(gpus, color=LINE_COLOUR, linestyle="--", linewidth=1.0)
    axes.annotate(
        f"{gpus:,} GPUs\nin the\ncluster",
        (1.0, gpus),
        (4, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize="x-small",
        color=LINE_COLOUR,
    )


def _draw_jobs(axes: Axes, jobs: pl.DataFrame, colours: dict[str, str], unit_s: int) -> None:
    """Draws a bar for each job, the first at the top."""
    axes.barh(
        range(jobs.height),
        jobs["run_time_s"].to_numpy() / unit_s,
        0.7,
        left=jobs["arrival_s"].to_numpy() / unit_s,
        color=[colours[group] for group in jobs["group"]],
    )
    names = [f"{short(job)}, {workers} GPUs" for job, workers in jobs.select("job", "workers").iter_rows()]
    axes.set_yticks(range(jobs.height), names, fontsize="small")
    axes.set_ylim(jobs.height - 0.4, -0.6)


def _draw_arrivals(
    axes: Axes, jobs: pl.DataFrame, colours: dict[str, str], edges: Floats, unit_s: int
) -> None:
    """Draws the arrivals of each group between consecutive edges, as stacked bars."""
    base = np.zeros(edges.size - 1)
    for group, colour in colours.items():
        arrivals = jobs.filter(group=group)["arrival_s"].to_numpy() / unit_s
        counts, _ = np.histogram(arrivals, edges)
        axes.bar(edges[:-1], counts, np.diff(edges), base, align="edge", color=colour, linewidth=0)
        base = base + counts
