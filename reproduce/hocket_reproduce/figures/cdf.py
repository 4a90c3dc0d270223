"""Distributions as cumulative steps, for comparing whole runs at a glance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.figures.palette import styles
from hocket.figures.style import label, legend_above, new_figure


@dataclass(frozen=True)
class CdfPanel:
    """Samples by the name of their line."""

    title: str
    samples: Mapping[str, Sequence[float]]


def cdf_figure(panels: Sequence[CdfPanel], quantity: str, title: str = "") -> Figure:
    """The share of samples up to each value; `quantity` names the horizontal axis with its unit.

    Panels stand side by side on the same scale.
    """
    figure = new_figure(4.6 * len(panels), 3.6)
    if title:
        figure.suptitle(title)
    first = None
    for position, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), position + 1, sharex=first)
        first = first or axes
        draw_cdf(axes, panel, quantity)
        legend_above(axes)
    return figure


def draw_cdf(axes: Axes, panel: CdfPanel, quantity: str) -> None:
    """One panel of it, without a legend."""
    for name, style in styles(panel.samples).items():
        axes.ecdf(panel.samples[name], label=name, color=style.colour, linestyle=style.line, linewidth=1.8)
    axes.set_ylim(0, 1.02)
    label(axes, quantity, "share of iterations", panel.title)
