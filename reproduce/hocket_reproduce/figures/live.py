"""Live runs beside their predictions: iteration times, and the rates of jobs on the link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from hocket.figures.style import legend_above, new_figure
from hocket.figures.timeline import TimelinePanel, draw_areas
from hocket_reproduce.figures.cdf import CdfPanel, draw_cdf


@dataclass(frozen=True)
class LivePanels:
    """Panels of one plan by place, live or an engine; all have the same keys in the same order."""

    times_ms: Mapping[str, CdfPanel]
    """Iteration times by case."""
    links: Sequence[Mapping[str, TimelinePanel]]
    """Rates on the link, one mapping for each row of the figure."""


def live_figure(plans: Sequence[LivePanels], capacity_bps: int, title: str) -> Figure:
    """For each plan a row of distributions of iteration times, on one scale, and a row of stacked rates on
    the link for each stretch; a column for each place where it ran.
    """
    rows = sum(1 + len(plan.links) for plan in plans)
    columns = len(plans[0].times_ms)
    figure = new_figure(5.2 * columns, 0.4 + 2.5 * rows)
    figure.suptitle(title)
    row = 0
    for plan in plans:
        first = None
        for column, panel in enumerate(plan.times_ms.values()):
            axes = figure.add_subplot(rows, columns, row * columns + column + 1, sharex=first)
            first = first or axes
            draw_cdf(axes, panel, "iteration time (ms)")
            axes.legend(loc="lower right", frameon=False, fontsize="small")
        for offset, stretch in enumerate(plan.links, start=1):
            for column, timeline in enumerate(stretch.values()):
                axes = figure.add_subplot(rows, columns, (row + offset) * columns + column + 1)
                draw_areas(axes, timeline, capacity_bps)
                legend_above(axes)
        row += 1 + len(plan.links)
    return figure
