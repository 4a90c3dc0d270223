"""A quantity against a parameter that was swept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from hocket.figures.palette import styles
from hocket.figures.style import label, legend_above, new_figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class LinesPanel:
    """Series over a common `x`; `reference` is drawn as a dashed line where the paper gives a value."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    reference: float | None = None
    log_x: bool = False
    """Whether the horizontal axis is logarithmic."""
    y_limits: tuple[float, float] | None = None
    """The ends of the vertical axis; by default those of the data."""


def lines_figure(panels: Sequence[LinesPanel], title: str = "") -> Figure:
    """Panels side by side, each with its own axes, and a marker at every measured value."""
    figure = new_figure(4.8 * len(panels), 3.7)
    if title:
        figure.suptitle(title)
    for position, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), position + 1)
        paper = styles(["paper"])["paper"]
        for index, (name, style) in enumerate(styles(panel.series).items()):
            axes.plot(
                panel.x,
                panel.series[name],
                color=style.colour,
                linestyle=style.line,
                marker=_MARKERS[index % len(_MARKERS)],
                markersize=4,
                label=name,
            )
        if panel.reference is not None:
            axes.axhline(panel.reference, color=paper.colour, linestyle="--", linewidth=1.6, label="paper")
        if panel.log_x:
            axes.set_xscale("log")
            axes.set_xticks(panel.x, [f"{value:g}" for value in panel.x])
            axes.minorticks_off()
        axes.grid(True, alpha=0.25)
        label(axes, panel.x_label, panel.y_label, panel.title)
        if panel.y_limits is not None:
            axes.set_ylim(panel.y_limits)
        legend_above(axes)
    return figure
