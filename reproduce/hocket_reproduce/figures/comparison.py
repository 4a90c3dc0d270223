"""The paper's values beside ours, as bars."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from hocket.figures.palette import styles
from hocket.figures.style import label, legend_above, new_figure


@dataclass(frozen=True)
class Pair:
    """The paper's value of a quantity and ours, in the same unit."""

    name: str
    paper: float
    ours: float


def comparison_figure(groups: Sequence[tuple[str, Sequence[Pair]]], quantity: str, title: str = "") -> Figure:
    """Bars in pairs, one panel per group from top to bottom; `quantity` names the axis with its unit."""
    figure = new_figure(9.0, 0.7 + sum(0.9 + 0.42 * len(pairs) for _, pairs in groups))
    if title:
        figure.suptitle(title)
    heights = [1.0 + 0.5 * len(pairs) for _, pairs in groups]
    panels = figure.subplots(len(groups), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    drawn = styles(["paper", "Hocket"])
    for axes, (name, pairs) in zip(panels, groups, strict=True):
        rows = np.arange(len(pairs), dtype=float)
        axes.barh(
            rows - 0.2, [pair.paper for pair in pairs], 0.38, color=drawn["paper"].colour, label="paper"
        )
        axes.barh(
            rows + 0.2, [pair.ours for pair in pairs], 0.38, color=drawn["Hocket"].colour, label="Hocket"
        )
        axes.set_yticks(rows, [pair.name for pair in pairs])
        axes.invert_yaxis()
        label(axes, quantity if axes is panels[-1] else "", "", name)
    legend_above(panels[0])
    return figure
