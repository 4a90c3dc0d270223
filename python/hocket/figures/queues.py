"""What waits in switches, over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from hocket.figures.style import job_colour, label, new_figure

# One packet: below, a logarithmic axis is straight, and short.
_LINEAR_BELOW_MB = 1e-3
_WIDTH_IN = 3.9
_HEIGHT_IN = 2.1


@dataclass(frozen=True)
class QueuePanel:
    """Queue lengths in MB by name of their line, at `times_ms`; a name has the same colour in all panels."""

    title: str
    times_ms: npt.NDArray[np.float64]
    queues_mb: Mapping[str, npt.NDArray[np.float64]]


def queues_figure(
    panels: Sequence[QueuePanel], columns: int, title: str, *, log: bool = False, same_queues: bool = True
) -> Figure:
    """Panels in rows of `columns`; those below each other have the same time axis and the same queue axis,
    and with `same_queues` all have the same queue axis.

    With `log` lengths that multiply are as far apart as those that add, down to one packet.
    """
    rows = -(-len(panels) // columns)
    figure = new_figure(_WIDTH_IN * columns, _HEIGHT_IN * rows + 0.7)
    figure.suptitle(title)
    grid = figure.subplots(rows, columns, sharex="col", sharey=True if same_queues else "col", squeeze=False)
    names = list(dict.fromkeys(name for panel in panels for name in panel.queues_mb))
    lines = {}
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        axes = grid[row][column]
        for name, queue_mb in panel.queues_mb.items():
            colour = job_colour(names.index(name))
            (lines[name],) = axes.plot(panel.times_ms, queue_mb, color=colour, linewidth=1.0)
        label(
            axes,
            "time (ms)" if row == rows - 1 else "",
            "queue (MB)" if column == 0 or not same_queues else "",
            panel.title,
        )
        axes.set_xlim(0, max(each.times_ms[-1] for each in panels[column::columns]))
        axes.grid(True, alpha=0.25)
    if log:
        _make_logarithmic(grid[0][0], max(np.max(q) for panel in panels for q in panel.queues_mb.values()))
    else:
        for axes in grid[0]:
            axes.set_ylim(bottom=0)
    if len(names) > 1:
        figure.legend(
            lines.values(), lines.keys(), loc="outside lower center", ncols=len(names), frameon=False
        )
    return figure


def _make_logarithmic(axes: Axes, largest_mb: float) -> None:
    axes.set_yscale("symlog", linthresh=_LINEAR_BELOW_MB, linscale=0.25)
    axes.set_ylim(0, 2 * max(largest_mb, _LINEAR_BELOW_MB))
    decades = [10.0**power for power in range(-3, 3)]
    axes.set_yticks([0.0, *(each for each in decades if each <= 2 * largest_mb)])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
