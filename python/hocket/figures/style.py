"""The common style of figures: sizes, axes, legends, and round ticks."""

import math
from collections.abc import Mapping

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

MS_PER_S = 1e3
PS_PER_MS = 10**9
BPS_PER_GBPS = 10**9
_BPS_PER_MBPS = 10**6

# Matplotlib's default steps include 2.5, with ticks such as 37.5.
_ROUND_STEPS = (1.0, 2.0, 5.0, 10.0)
_LONGEST_NAME = 24
_MOST_IN_LEGEND = 21
# Around axes, and between axes and title.
_PAD_IN = 0.08


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure of this size in inches, laid out so that labels do not overlap."""
    # Not from pyplot, which would keep each figure in memory until it is closed.
    layout = ConstrainedLayoutEngine(h_pad=_PAD_IN, w_pad=_PAD_IN)
    return Figure(figsize=(width_in, height_in), layout=layout, dpi=120)


def label(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Sets labels, which contain units, and round ticks; removes the frame at the top and on the right."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        locator = axis.get_major_locator()
        # Logarithmic axes and those with fixed ticks have other locators, without steps.
        if isinstance(locator, MaxNLocator):
            locator.set_params(steps=_ROUND_STEPS)


def legend_above(axes: Axes) -> None:
    """Adds a legend in one row above the axes, on the right, where it covers neither data nor the title."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(axes.get_legend_handles_labels()[1]),
        frameon=False,
        fontsize="small",
        borderaxespad=0.1,
        handlelength=1.4,
        columnspacing=0.9,
    )


def series(figure: Figure) -> dict[str, Artist]:
    """The series in the panels of `figure`, by name; a series in several panels occurs once."""
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    return handles


def legend_below(figure: Figure, columns: int, entries: Mapping[str, Artist] | None = None) -> None:
    """Adds one legend below all panels, of `entries` by text, by default of the panels' series.

    Of more than 21 entries, the legend has the first 21 and the number of the others.
    """
    every = dict(series(figure) if entries is None else entries)
    shown = dict(list(every.items())[:_MOST_IN_LEGEND])
    if len(shown) < len(every):
        shown[f"and {len(every) - len(shown)} more"] = Patch(color="none")
    if shown:
        figure.legend(
            list(shown.values()),
            list(shown),
            loc="outside lower center",
            ncols=min(len(shown), columns),
            frameon=False,
            fontsize="small",
            handlelength=1.4,
        )


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """`name`, cut to `longest` characters with an ellipsis.

    >>> short("vgg"), short("a" * 30, 5)
    ('vgg', 'aaaa…')
    """
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def rate_unit(highest_bps: int) -> tuple[int, str]:
    """The unit of an axis for rates up to `highest_bps`: its length in bits per second, and its name.

    >>> rate_unit(50_000_000_000), rate_unit(200_000_000)
    ((1000000000, 'Gbps'), (1000000, 'Mbps'))
    """
    return (BPS_PER_GBPS, "Gbps") if highest_bps >= BPS_PER_GBPS else (_BPS_PER_MBPS, "Mbps")


def round_step(length: float, most: int) -> float:
    """The smallest 1, 2 or 5 × 10^n that divides `length` into at most `most` parts; the last may be shorter.

    >>> round_step(330, 8), round_step(0.6, 6), round_step(1000, 10)
    (50.0, 0.1, 100.0)
    """
    exponent = math.floor(math.log10(length / most))
    steps = (float(f"{step:g}e{exponent}") for step in _ROUND_STEPS)
    # The tolerance is for rounding errors of the quotient.
    return next(step for step in steps if length / step <= most * (1 + 1e-9))
