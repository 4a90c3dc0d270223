"""A run at a glance: link use without and with time-shifts, and iteration times."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from hocket.engines.link_use import LinkUse
from hocket.figures.iterations import draw_times, shown_jobs
from hocket.figures.link_use import draw_use, which_link
from hocket.figures.names import name_series
from hocket.figures.style import new_figure
from hocket.results import Run

_PANEL_IN = (5.0, 2.3)


def run_figure(run: Run, uses: Mapping[str, LinkUse], title: str = "") -> Figure:
    """Link use by job, with a panel for each of `uses`, by title, side by side; below, the iteration times of
    the run, if it has any. `uses` are from `hocket.engines.link_use.link_use`.
    """
    iterations = run.tables["iterations"]
    rows = 1 if iterations.is_empty() else 2
    width_in, height_in = _PANEL_IN
    width_in = max(7.5, width_in * len(uses))
    figure = new_figure(width_in, rows * height_in + 0.9)
    if title:
        figure.suptitle(title)
    grid = figure.add_gridspec(rows, len(uses))
    for column, (name, use) in enumerate(uses.items()):
        draw_use(figure.add_subplot(grid[0, column]), use, _title(name if len(uses) > 1 else "link use", use))
    if rows == 2:
        draw_times(figure.add_subplot(grid[1, :]), iterations, *shown_jobs(run))
    name_series(figure, max(2, int(width_in / 2)))
    return figure


def _title(name: str, use: LinkUse) -> str:
    if not which_link(use):
        return name
    shared = f", one of {use.shared_links} shared links" if use.shared_links > 1 else ""
    alone = "; no link is shared" if len(use.jobs) > 1 and use.shared_links == 0 else ""
    return f"{name} {which_link(use)}{shared}{alone}"
