"""Panels of grouped or stacked horizontal bars, for example of times by run, policy or algorithm."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.figures.names import name_series
from hocket.figures.palette import styles
from hocket.figures.style import label, new_figure

_WIDTH_IN = 4.8
_BAR_IN = 0.2
_MARGINS_IN = 0.8
# The gap between groups, in widths of a bar.
_ROOM = 1.0
# The start of a logarithmic axis of counts, so that a count of 1 has a visible bar.
_LEAST_COUNT = 0.5
# The room for numbers beyond the longest bar, as a share of its length.
_ROOM_FOR_NUMBERS = 0.18


@dataclass(frozen=True)
class GroupedBars:
    """A panel of grouped bars: group `k` of `groups` has one bar per series, `values[series][k]`.

    `None` means not measured. A logarithmic axis is for counts; it begins below 1, so a count of 0 has no
    bar. If there is only one group, without a name, its bars have the names of their series instead.
    """

    title: str
    quantity: str
    """The label of the axis, with the unit."""
    groups: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    log: bool = False

    @property
    def names_its_bars(self) -> bool:
        """Whether bars are labelled with their series, so that no legend is needed."""
        return list(self.groups) == [""]


@dataclass(frozen=True)
class StackedBars:
    """A panel of stacked bars: bar `k` of `bars` has the parts `values[part][k]`, in this order."""

    title: str
    quantity: str
    bars: Sequence[str]
    values: Mapping[str, Sequence[float | None]]


Panel = GroupedBars | StackedBars


def bars_figure(panels: Sequence[Panel], title: str = "", columns: int = 2) -> Figure:
    """The panels in rows of `columns`; bars run from left to right, with the value at the end of each.

    A series has the same colour in all panels of grouped bars, a part in all panels of stacked bars.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    heights = [max(map(_height_in, panels[row * columns : (row + 1) * columns])) for row in range(rows)]
    # Two sets of colours, so that many runs do not use up those of parts.
    series = _colours(panels, GroupedBars)
    parts = _colours(panels, StackedBars)
    figure = new_figure(_WIDTH_IN * columns, sum(heights) + (0.8 if title else 0.5))
    if title:
        figure.suptitle(title)
    grid = figure.subplots(rows, columns, squeeze=False, height_ratios=heights)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        panel = panels[place]
        match panel:
            case GroupedBars():
                _draw_groups(axes, panel, series)
            case StackedBars():
                _draw_stacks(axes, panel, parts)
        # The first bar is at the top, in reading order.
        axes.invert_yaxis()
        label(axes, panel.quantity, "", panel.title)
    name_series(figure, 3 * columns)
    return figure


def _colours(panels: Sequence[Panel], kind: type[Panel]) -> dict[str, str]:
    names = (name for panel in panels if isinstance(panel, kind) for name in panel.values)
    return {name: style.colour for name, style in styles(names).items()}


def _height_in(panel: Panel) -> float:
    match panel:
        case GroupedBars():
            return _MARGINS_IN + _BAR_IN * len(panel.groups) * (len(panel.values) + _ROOM)
        case StackedBars():
            return _MARGINS_IN + _BAR_IN * len(panel.bars) * (1 + _ROOM)


def _draw_groups(axes: Axes, panel: GroupedBars, colours: Mapping[str, str]) -> None:
    height = 1 / (len(panel.values) + _ROOM)
    middles = np.arange(len(panel.groups), dtype=float)
    ticks: list[float] = []
    # A single series is named by the title.
    is_named = len(panel.values) > 1 and not panel.names_its_bars
    for place, (name, values) in enumerate(panel.values.items()):
        rows = middles + height * (place - (len(panel.values) - 1) / 2)
        ticks.extend(rows)
        lengths = [math.nan if value is None else value for value in values]
        axes.barh(rows, lengths, 0.9 * height, color=colours[name], label=name if is_named else None)
        least = _LEAST_COUNT if panel.log else 0.0
        for row, value in zip(rows, values, strict=True):
            at = least if value is None else max(value, least)
            _write(axes, at, row, "–" if value is None else _number(value))
    if panel.names_its_bars:
        axes.set_yticks(ticks, panel.values)
    else:
        axes.set_yticks(middles, panel.groups)
    axes.set_ylim(-0.5, len(panel.groups) - 0.5)
    # `filter` drops `None`, and zeros too, which do not matter for the maximum.
    longest = max(filter(None, itertools.chain(*panel.values.values())), default=0.0)
    if longest == 0:
        axes.set_xlim(0, 1)
    elif panel.log:
        axes.set_xscale("log")
        # The same share of the axis as on a linear one, but a power instead of a factor.
        axes.set_xlim(_LEAST_COUNT, longest * (longest / _LEAST_COUNT) ** _ROOM_FOR_NUMBERS)
    else:
        axes.set_xlim(0, longest * (1 + _ROOM_FOR_NUMBERS))


def _draw_stacks(axes: Axes, panel: StackedBars, colours: Mapping[str, str]) -> None:
    rows = np.arange(len(panel.bars), dtype=float)
    ends = np.zeros(len(panel.bars))
    for name, values in panel.values.items():
        lengths = np.array([0.0 if value is None else value for value in values])
        axes.barh(rows, lengths, 0.9 / (1 + _ROOM), left=ends, color=colours[name], label=name)
        ends += lengths
    for row, end, place in zip(rows, ends, range(len(panel.bars)), strict=True):
        unknown = any(values[place] is None for values in panel.values.values())
        _write(axes, end, row, "–" if unknown else _number(end))
    axes.set_yticks(rows, panel.bars)
    axes.set_ylim(-0.5, len(panel.bars) - 0.5)
    axes.margins(x=_ROOM_FOR_NUMBERS)
    axes.set_xlim(left=0)


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), (3, 0), textcoords="offset points", va="center", fontsize="x-small")


def _number(value: float) -> str:
    """The value with four digits, enough to distinguish bars that look alike."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
