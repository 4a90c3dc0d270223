"""Queue lengths of switches over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from hocket.figures.palette import QUEUE_COLOUR, styles
from hocket.figures.style import label, new_figure

# One packet, where a logarithmic axis begins.
_LEAST_MB = 1e-3
_WIDTH_IN = 3.9
_HEIGHT_IN = 2.1


@dataclass(frozen=True)
class QueuePanel:
    """Queue lengths in MB at `times_ms` by name of the line; a name has one colour in all panels."""

    title: str
    times_ms: npt.NDArray[np.float64]
    queues_mb: Mapping[str, npt.NDArray[np.float64]]


def queues_figure(
    panels: Sequence[QueuePanel], columns: int, title: str, *, log: bool = False, same_queues: bool = True
) -> Figure:
    """Panels in rows of `columns`. Those of a column share their axes; with `same_queues` all panels share
    the queue axis.

    With `log` the queue axis is logarithmic from the length of one packet; shorter queues are not drawn.
    """
    rows = -(-len(panels) // columns)
    figure = new_figure(_WIDTH_IN * columns, _HEIGHT_IN * rows + 0.7)
    figure.suptitle(title)
    grid = figure.subplots(rows, columns, sharex="col", sharey=True if same_queues else "col", squeeze=False)
    names = list(dict.fromkeys(name for panel in panels for name in panel.queues_mb))
    drawn = styles(names)
    lines = {}
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        axes = grid[row][column]
        for name, queue_mb in panel.queues_mb.items():
            colour = drawn[name].colour if len(names) > 1 else QUEUE_COLOUR
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
    axes.set_yscale("log", nonpositive="clip")
    top_mb = 2 * max(largest_mb, _LEAST_MB)
    axes.set_ylim(_LEAST_MB, top_mb)
    axes.set_yticks([each for each in (10.0**power for power in range(-3, 3)) if each <= top_mb])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
