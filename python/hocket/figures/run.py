"""A run at a glance: who uses the link when, without shifts and with them, and how long iterations take."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hocket.engines.link_use import LinkUse
from hocket.figures.iterations import draw_times, shown_jobs
from hocket.figures.palette import LINE_COLOUR, job_colour
from hocket.figures.style import BPS_PER_GBPS, new_figure, short
from hocket.figures.timeline import TimelinePanel, draw_areas
from hocket.results import Run

_PANEL_IN = (5.0, 2.3)
_MOST_IN_LEGEND = 21


def run_figure(run: Run, uses: Mapping[str, LinkUse], title: str = "") -> Figure:
    """Above, the use of the link by job over some iterations, a panel for each of `uses` (as
    `hocket.engines.link_use.link_use` finds them) beside the other; below, the iteration times of the run.
    """
    width_in, height_in = _PANEL_IN
    width_in = max(7.5, width_in * len(uses))
    figure = new_figure(width_in, 2 * height_in + 0.9)
    if title:
        figure.suptitle(title)
    grid = figure.add_gridspec(2, len(uses))
    _draw_uses([figure.add_subplot(grid[0, column]) for column in range(len(uses))], uses)
    draw_times(figure.add_subplot(grid[1, :]), run.tables["iterations"], *shown_jobs(run))
    _draw_legend(figure, next(iter(uses.values())).jobs, width_in)
    return figure


def _draw_uses(panels: list[Axes], uses: Mapping[str, LinkUse]) -> None:
    """Each of `uses` in one of `panels`, all on the scale of the first."""
    for axes, (name, use) in zip(panels, uses.items(), strict=True):
        draw_areas(axes, TimelinePanel(name, use.jobs, use.rates, use.begin_s, use.end_s), use.capacity_bps)
        title = name if len(uses) > 1 else "link use"
        if use.link != "link":
            title += f" on {use.link}"
            title += f", one of {use.shared_links} shared links" if use.shared_links > 1 else ""
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlabel(f"time (ms) from {use.begin_s:.4g} s on")
        axes.annotate(
            f"{use.capacity_bps / BPS_PER_GBPS:g} Gbps",
            (1.0, use.capacity_bps / BPS_PER_GBPS),
            (-2, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize="x-small",
            color=LINE_COLOUR,
        )


def _draw_legend(figure: Figure, jobs: tuple[str, ...], width_in: float) -> None:
    shown = jobs[:_MOST_IN_LEGEND]
    patches = [Patch(color=job_colour(index), label=short(job)) for index, job in enumerate(shown)]
    if len(shown) < len(jobs):
        patches.append(Patch(color="none", label=f"and {len(jobs) - len(shown)} more"))
    columns = min(len(patches), max(2, int(width_in / 2)))
    figure.legend(handles=patches, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
