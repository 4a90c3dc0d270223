"""The iterations of a run: their times, and when jobs communicate at the end of the run."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.errors import InputError
from hocket.figures.names import name_series
from hocket.figures.palette import JOB_COLOURS, job_colour
from hocket.figures.style import label, new_figure, short
from hocket.results import Run

# No two of the jobs shown have the same colour.
_MOST_JOBS = len(JOB_COLOURS)
# A line of more points looks the same and makes files larger.
_MOST_POINTS = 400
# Up to this number of iterations, each one has a marker.
_FEW_POINTS = 60
_ITERATIONS_SHOWN = 5
_NAMES_BELOW = 4
_MS_PER_S = 1e3


def iterations_figure(run: Run, title: str = "") -> Figure:
    """Iteration times (ms) of the first jobs over the time of the run (s); below, if the run recorded phases,
    when each job communicates in the last five iterations (ms).

    Lines that coincide have different widths, so that all are visible. Raises `InputError` if no iteration
    was finished.
    """
    table = run.tables.get("iterations")
    if table is None or table.is_empty():
        raise InputError("the run has no finished iteration to draw")
    shown, jobs = shown_jobs(run)
    phases = run.tables.get("phases")
    if phases is not None:
        phases = phases.filter(pl.col("job").is_in(list(shown)))
    has_phases = phases is not None and not phases.is_empty()
    figure = new_figure(8.0, 2.6 + (0.9 + 0.35 * len(shown) if has_phases else 0.0))
    if title:
        figure.suptitle(title)
    ratios = (2.6, 0.9 + 0.35 * len(shown)) if has_phases else (1,)
    panels = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
    draw_times(panels[0], table, shown, jobs)
    if phases is not None and has_phases:
        # The lanes of this panel name the jobs, so lines need no names.
        _draw_phases(panels[1], table, phases, shown)
    else:
        name_series(figure, _NAMES_BELOW)
    return figure


def shown_jobs(run: Run) -> tuple[dict[str, str], int]:
    """The colours, by job, of the first jobs of `run` that finished an iteration, at most one job for each
    colour; and the number of all jobs that finished one.
    """
    # The colour depends on the position among all jobs, so that a job has the same one in every figure.
    finished = set(run.tables["iterations"]["job"].unique())
    colours = {
        job: job_colour(place) for place, job in enumerate(run.tables["jobs"]["job"]) if job in finished
    }
    return dict(list(colours.items())[:_MOST_JOBS]), len(colours)


def draw_times(axes: Axes, table: pl.DataFrame, shown: Mapping[str, str], jobs: int) -> None:
    """Draws the iteration times in `table` as a line for each job of `shown`, colours by job; `jobs` is the
    number of all jobs.
    """
    # Lower lines are wider, so that lines that coincide are all visible.
    step = min(1.2, 5.0 / len(shown))
    for index, (job, colour) in enumerate(shown.items()):
        width = 1.2 + step * (len(shown) - 1 - index)
        times = table.filter(pl.col("job") == job).select("start_s", "iteration_s").sort("start_s")
        times = times.gather_every(-(-times.height // _MOST_POINTS))
        axes.plot(
            times["start_s"].to_numpy(),
            times["iteration_s"].to_numpy() * _MS_PER_S,
            color=colour,
            linewidth=width,
            marker="o" if times.height <= _FEW_POINTS else "",
            markersize=width + 2.0,
            label=job,
        )
    axes.set_xlim(left=0)
    # The axis starts at 0 and leaves room for the legend above.
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])
    some = f", {len(shown)} of {jobs} jobs" if len(shown) < jobs else ""
    label(axes, "time in the run (s)", "iteration (ms)", f"iteration times{some}")


def _draw_phases(axes: Axes, table: pl.DataFrame, phases: pl.DataFrame, shown: Mapping[str, str]) -> None:
    """Draws a lane for each job, with its Up phases in the last iterations as bars."""
    recorded = table.filter(pl.col("job").is_in(list(shown)))
    longest_s = recorded.group_by("job").agg(pl.col("iteration_s").mean())["iteration_s"].max()
    assert isinstance(longest_s, float), "a job has finished an iteration"
    # The window ends when the first job leaves: afterwards fewer jobs share the links.
    end_s = float(recorded.group_by("job").agg(pl.col("end_s").max())["end_s"].to_numpy().min())
    begin_s = max(0.0, end_s - _ITERATIONS_SHOWN * longest_s)
    seen = phases.filter(pl.col("end_s") > begin_s, pl.col("start_s") < end_s)
    for index, (job, colour) in enumerate(shown.items()):
        of_job = seen.filter(pl.col("job") == job)
        bars = [
            ((start_s - begin_s) * _MS_PER_S, (until_s - start_s) * _MS_PER_S)
            for start_s, until_s in of_job.select("start_s", "end_s").iter_rows()
        ]
        axes.broken_barh(bars, (index - 0.35, 0.7), color=colour, linewidth=0)
    axes.set_yticks(range(len(shown)), [short(job) for job in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, (end_s - begin_s) * _MS_PER_S)
    label(axes, f"time (ms) from {begin_s:.6g} s on", "", "when each job communicates, at the end")
