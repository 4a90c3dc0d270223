"""Cluster runs under several schedulers, as in NSDI'24 Figures 11 to 14, 16 and 19; the circle of a link
that jobs share, and the replay of a window of a run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.cluster.replay import Replay, whole_iterations
from hocket.compat.answer import CircleJob
from hocket.compat.ranking import on_circle
from hocket.engines.link_use import LinkUse
from hocket.errors import InputError, check_choice
from hocket.figures.circles import circles_figure
from hocket.figures.names import name_series
from hocket.figures.palette import Style, styles
from hocket.figures.run import run_figure
from hocket.figures.style import BPS_PER_GBPS, label, new_figure
from hocket.profiles import WorkloadProfile
from hocket.results import Run

Quantity = Literal["slowdown", "iteration", "marks"]
"""Of an iteration. `iteration`: its time, including the wait before it. `slowdown`: this time ÷ the time of
the same iteration on an idle network; only slowdowns can be compared between models. `marks`: its packets
with an ECN mark.
"""

_LABELS: Mapping[Quantity, str] = {
    "slowdown": "slowdown (iteration ÷ ideal)",
    "iteration": "iteration time (ms)",
    "marks": "ECN marks per iteration",
}
# The number of scheduler names that fit side by side below a panel.
_NAMES_BELOW_PANEL = 3


def schedulers_figure(runs: Mapping[str, pl.DataFrame], title: str = "") -> Figure:
    """The slowdown of iterations under each scheduler: the mean of each minute, and the distribution.

    `runs` are tables of iterations by scheduler. Raises `InputError` if there is no iteration.
    """
    figure = new_figure(9.6, 3.9)
    if title:
        figure.suptitle(title)
    tables = {run: _with_value(run, table, "slowdown") for run, table in runs.items() if table.height}
    if not tables:
        raise InputError("figure: no run has an iteration of any job")
    over_time, distribution = figure.subplots(1, 2)
    _draw_over_time(over_time, tables, styles(runs), "slowdown", 60.0, "mean of each minute")
    _draw_distribution(distribution, tables, styles(runs), "slowdown", "all iterations")
    name_series(figure, _NAMES_BELOW_PANEL * len(figure.axes))
    return figure


def over_time_figure(
    runs: Mapping[str, pl.DataFrame],
    quantity: Quantity,
    models: Sequence[str] = (),
    every_s: float = 60.0,
    title: str = "",
) -> Figure:
    """The mean `quantity` of the iterations that begin in each interval of `every_s` seconds, by run.

    `runs` are tables of iterations by name of the run. Each of `models` has a panel; without any, all jobs
    share one. Raises `InputError` for an unknown quantity, a model without an iteration in any run, and marks
    that a run did not record.
    """
    figure, panels = _panels(runs, quantity, models, title)
    for axes, tables, name in panels:
        _draw_over_time(axes, tables, styles(runs), quantity, every_s, name)
    name_series(figure, _NAMES_BELOW_PANEL * len(figure.axes))
    return figure


def distribution_figure(
    runs: Mapping[str, pl.DataFrame], quantity: Quantity, models: Sequence[str] = (), title: str = ""
) -> Figure:
    """The cumulative distribution of iterations by value, by run; arguments as in `over_time_figure`."""
    figure, panels = _panels(runs, quantity, models, title)
    for axes, tables, name in panels:
        _draw_distribution(axes, tables, styles(runs), quantity, name)
    name_series(figure, _NAMES_BELOW_PANEL * len(figure.axes))
    return figure


def _draw_over_time(
    axes: Axes,
    tables: Mapping[str, pl.DataFrame],
    drawn: Mapping[str, Style],
    quantity: Quantity,
    every_s: float,
    title: str,
) -> None:
    for run, rows in tables.items():
        # A row stands for `count` equal iterations.
        means = (
            rows.group_by((pl.col("start_s") / every_s).floor().alias("window"))
            .agg((pl.col("value") * pl.col("count")).sum() / pl.col("count").sum())
            .sort("window")
        )
        axes.plot(
            (means["window"] + 0.5) * every_s / 60,
            means["value"],
            label=run,
            color=drawn[run].colour,
            linestyle=drawn[run].line,
        )
    label(axes, "time (min)", _LABELS[quantity], title)
    axes.set_xlim(left=0)
    if quantity != "slowdown":
        axes.set_ylim(bottom=0)
    axes.grid(True, alpha=0.25)


def _draw_distribution(
    axes: Axes,
    tables: Mapping[str, pl.DataFrame],
    drawn: Mapping[str, Style],
    quantity: Quantity,
    title: str,
) -> None:
    for run, rows in tables.items():
        axes.ecdf(
            rows["value"].to_numpy(),
            weights=rows["count"].to_numpy().astype(float),
            label=run,
            color=drawn[run].colour,
            linestyle=drawn[run].line,
            linewidth=1.8,
        )
    label(axes, _LABELS[quantity], "share of iterations", title)
    # With jitter, an iteration may also be shorter than the ideal one.
    least = min(rows["value"].to_numpy().min() for rows in tables.values())
    axes.set_xlim(left=min(1.0, least) if quantity == "slowdown" else 0)
    axes.set_ylim(0, 1.02)
    axes.grid(True, alpha=0.25)


def replay_figure(replay: Replay, use: LinkUse, title: str = "") -> Figure:
    """Link use in a replay, above its iteration times; `use` is from `replay.link_use()`."""
    # An iteration under way when the window begins is replayed only in part and would look too short.
    tables = {**replay.run.tables, "iterations": whole_iterations(replay.run)}
    return run_figure(Run(tables, replay.run.manifest), {"replay": use}, title)


def link_circle_figure(
    why: Mapping[str, Any],
    profiles: Mapping[str, WorkloadProfile],
    capacities_bps: Mapping[str, int],
    link: str | None = None,
    title: str = "",
) -> Figure:
    """The circle of a link under a decision, without time-shifts and with the decision's; `title` names the
    run.

    `why` is the attribute of `hocket.schedulers.cassini.Choice`; `profiles` has one flow's profile of each
    job, by name; `capacities_bps` is by link. The default `link` is the one with the lowest score that has a
    circle. Raises `InputError` if no link has one, if no jobs contend for `link`, or if its jobs are on no
    common circle: their periods fit on none, or only some of them have slots.
    """
    # Periods are fitted per component or for some of its jobs; all others are on no circle.
    circles = {name: place for each in why["components"] for name, place in each["circle"].items()}
    shared = [row for row in why["links"] if row["after"] is not None]
    if link is None:
        drawable = [row for row in shared if circles.keys() >= set(row["jobs"])]
        if not drawable:
            raise InputError("figure: under this decision no link is shared by jobs that fit on a circle")
        row = min(drawable, key=lambda row: float(row["after"]))
    else:
        row = next((row for row in shared if row["link"] == link), None)
        if row is None:
            names = ", ".join(row["link"] for row in shared)
            raise InputError(
                f"link {link!r}: no jobs contend for it; links with contention: {names or 'none'}"
            )
        if not circles.keys() >= set(row["jobs"]):
            raise InputError(f"link {link!r}: {', '.join(row['jobs'])} are on no common circle")
    jobs = _circle_jobs(row, circles, profiles)
    capacity_bps = capacities_bps[row["link"]]
    description = f"{row['link']}, capacity {capacity_bps / BPS_PER_GBPS:g} Gbps"
    return circles_figure(jobs, capacity_bps, f"{title}\n{description}" if title else description)


def _circle_jobs(
    row: Mapping[str, Any],
    circles: Mapping[str, Mapping[str, int]],
    profiles: Mapping[str, WorkloadProfile],
) -> list[CircleJob]:
    """The jobs of a link on its circle, whose perimeter divides that of their component."""
    places = [circles[name] for name in row["jobs"]]
    perimeter_ps = math.lcm(*(place["period_ps"] for place in places))
    demands = [_times(profiles[name], flows) for name, flows in zip(row["jobs"], row["flows"], strict=True)]
    on_it = on_circle(demands, [place["period_ps"] for place in places])
    return [
        CircleJob(name, given, profile, perimeter_ps // profile.period_ps, place["shift_ps"], batch_size=None)
        for name, given, profile, place in zip(row["jobs"], demands, on_it, places, strict=True)
    ]


def _times(profile: WorkloadProfile, flows: int) -> WorkloadProfile:
    """The profile of `flows` equal flows together."""
    phases = (replace(phase, rate_bps=phase.rate_bps * flows) for phase in profile.phases)
    return replace(profile, phases=tuple(phases))


def _panels(
    runs: Mapping[str, pl.DataFrame], quantity: Quantity, models: Sequence[str], title: str
) -> tuple[Figure, list[tuple[Axes, dict[str, pl.DataFrame], str]]]:
    """A figure with a panel for each model, side by side: its axes, the iterations of each run that has any,
    and its name. Without models, a single panel has all iterations and an empty name.
    """
    check_choice("quantity", quantity, get_args(Quantity))
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
            raise InputError(f"figure: no run has an iteration of {model or 'any job'}")
        panels.append((figure.add_subplot(1, len(names), place + 1), shown, model))
    return figure, panels


def _with_value(run: str, iterations: pl.DataFrame, quantity: Quantity) -> pl.DataFrame:
    """The iterations, with `quantity` in a column `value`: a ratio, milliseconds, or marks per iteration."""
    if quantity == "slowdown":
        return iterations.with_columns(value=pl.col("iteration_s") / pl.col("ideal_s"))
    if quantity == "iteration":
        return iterations.with_columns(value=1e3 * pl.col("iteration_s"))
    if iterations["marks"].null_count():
        raise InputError(f"marks: run {run!r} did not record them")
    return iterations.with_columns(value=pl.col("marks") / pl.col("count"))
