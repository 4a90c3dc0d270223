"""Runs of a cluster under several schedulers, in the manner of NSDI'24 Figures 11 to 14, 16 and 19; and the
circle of a link that jobs share there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.compat import CircleJob
from hocket.errors import InputError
from hocket.figures.circles import circles_figure
from hocket.figures.style import BPS_PER_GBPS, PS_PER_MS, job_colour, label, new_figure
from hocket.solving import on_circle
from hocket.workloads import WorkloadProfile

Quantity = Literal["iteration", "marks"]
"""The time of an iteration with the wait before it, or the packets of it that links marked."""

_LABELS: Mapping[Quantity, str] = {"iteration": "iteration time (ms)", "marks": "ECN marks per iteration"}
_LINES = ("-", "--", ":", "-.")
# As many names of schedulers as fit below a panel, beside each other.
_NAMES_BELOW_PANEL = 2


def over_time_figure(
    runs: Mapping[str, pl.DataFrame],
    quantity: Quantity,
    models: Sequence[str] = (),
    every_s: float = 60.0,
    title: str = "",
) -> Figure:
    """The mean over all iterations that begin in each `every_s` seconds, of each run by its name.

    `runs` are tables of iterations. Each of `models` has a panel of its own; without, all jobs share one.
    Raises `InputError` for a model of which no run has an iteration, and for marks that a run did not count.
    """
    figure, panels = _panels(runs, quantity, models, title)
    names = list(runs)
    for axes, tables, name in panels:
        for run, rows in tables.items():
            index = names.index(run)
            means = (
                rows.group_by((pl.col("start_s") / every_s).floor().alias("window"))
                .agg((pl.col("value") * pl.col("count")).sum() / pl.col("count").sum())
                .sort("window")
            )
            axes.plot(
                (means["window"] + 0.5) * every_s / 60,
                means["value"],
                label=run,
                color=job_colour(index),
                linestyle=_LINES[index % len(_LINES)],
            )
        label(axes, "time (min)", _LABELS[quantity], name)
        axes.set_ylim(bottom=0)
    _legend_below(figure)
    return figure


def distribution_figure(
    runs: Mapping[str, pl.DataFrame], quantity: Quantity, models: Sequence[str] = (), title: str = ""
) -> Figure:
    """The share of iterations up to each value, of each run by its name; otherwise as `over_time_figure`."""
    figure, panels = _panels(runs, quantity, models, title)
    names = list(runs)
    for axes, tables, name in panels:
        for run, rows in tables.items():
            index = names.index(run)
            axes.ecdf(
                rows["value"].to_numpy(),
                weights=rows["count"].to_numpy().astype(float),
                label=run,
                color=job_colour(index),
                linestyle=_LINES[index % len(_LINES)],
                linewidth=1.8,
            )
        label(axes, _LABELS[quantity], "share of iterations", name)
        axes.set_ylim(0, 1.02)
    _legend_below(figure)
    return figure


def link_circle_figure(
    why: Mapping[str, Any],
    profiles: Mapping[str, WorkloadProfile],
    capacities_bps: Mapping[str, int],
    link: str | None = None,
) -> Figure:
    """The circle of a link under a decision, without shifts and with the best that were found.

    `why` is that of `hocket.schedulers.cassini.Chosen`, `profiles` are those of one flow of each job, and
    links go by their names. Without a `link`, the one with the lowest score that has a circle. Raises
    `InputError` if there is none, or the periods of its jobs fit on none.
    """
    circles = {name: place for each in why["components"] for name, place in each["circle"].items()}
    shared = [row for row in why["links"] if row["after"] is not None]
    if link is None:
        drawable = [row for row in shared if circles.keys() >= set(row["jobs"])]
        if not drawable:
            raise InputError("a figure: under this decision no link is shared by jobs that fit on a circle")
        row = min(drawable, key=lambda row: float(row["after"]))
    else:
        row = next((row for row in shared if row["link"] == link), None)
        if row is None:
            names = ", ".join(row["link"] for row in shared)
            raise InputError(
                f"link {link!r}: no jobs contend for it; links with contention: {names or 'none'}"
            )
        if not circles.keys() >= set(row["jobs"]):
            raise InputError(f"link {link!r}: the periods of {', '.join(row['jobs'])} fit on no circle")
    jobs = _circle_jobs(row, circles, profiles)
    capacity_bps = capacities_bps[row["link"]]
    shifts = ", ".join(f"{job.name} {job.time_shift_ps / PS_PER_MS:.4g} ms" for job in jobs)
    title = f"{row['link']}, {capacity_bps / BPS_PER_GBPS:g} Gbps\ntime-shifts: {shifts}"
    return circles_figure(jobs, capacity_bps, title)


def _circle_jobs(
    row: Mapping[str, Any],
    circles: Mapping[str, Mapping[str, int]],
    profiles: Mapping[str, WorkloadProfile],
) -> list[CircleJob]:
    """The jobs of a link on its circle, which is a part of that of their component."""
    places = [circles[name] for name in row["jobs"]]
    perimeter_ps = math.lcm(*(place["period_ps"] for place in places))
    asked = [_times(profiles[name], flows) for name, flows in zip(row["jobs"], row["flows"], strict=True)]
    on_it = on_circle(asked, [place["period_ps"] for place in places])
    return [
        CircleJob(name, given, profile, perimeter_ps // profile.period_ps, place["shift_ps"], batch_size=None)
        for name, given, profile, place in zip(row["jobs"], asked, on_it, places, strict=True)
    ]


def _times(profile: WorkloadProfile, flows: int) -> WorkloadProfile:
    """What so many flows ask for together."""
    phases = (replace(phase, rate_bps=phase.rate_bps * flows) for phase in profile.phases)
    return replace(profile, phases=tuple(phases))


def _panels(
    runs: Mapping[str, pl.DataFrame], quantity: Quantity, models: Sequence[str], title: str
) -> tuple[Figure, list[tuple[Axes, dict[str, pl.DataFrame], str]]]:
    """A figure with axes for each model side by side, what runs have of it, and its name."""
    tables = {run: _with_value(run, table, quantity) for run, table in runs.items()}
    names = list(models) or [""]
    figure = new_figure(4.8 * len(names), 3.7)
    if title:
        figure.suptitle(title)
    panels = []
    for place, model in enumerate(names):
        of_model = {
            run: rows.filter(pl.col("model") == model) if model else rows for run, rows in tables.items()
        }
        shown = {run: rows for run, rows in of_model.items() if rows.height}
        if not shown:
            raise InputError(f"a figure: no run has an iteration of {model or 'any job'}")
        panels.append((figure.add_subplot(1, len(names), place + 1), shown, model))
    return figure, panels


def _legend_below(figure: Figure) -> None:
    """One legend for all panels, with each run once; its colour is the same in those that it is in."""
    found = {
        text: handle
        for axes in figure.axes
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside lower center",
        ncols=min(len(found), _NAMES_BELOW_PANEL * len(figure.axes)),
        frameon=False,
    )


def _with_value(run: str, iterations: pl.DataFrame, quantity: Quantity) -> pl.DataFrame:
    """Rows of iterations with the quantity of one of them as `value`."""
    if quantity == "iteration":
        return iterations.with_columns(value=1e3 * pl.col("iteration_s"))
    if iterations["marks"].null_count():
        raise InputError(f"marks: run {run!r} did not count them")
    return iterations.with_columns(value=pl.col("marks") / pl.col("count"))
