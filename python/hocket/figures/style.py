"""What all figures have in common: sizes, bare axes, and round ticks."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

MS_PER_S = 1e3
PS_PER_MS = 10**9
BPS_PER_GBPS = 10**9

# Steps that people count in; 25 is one, 0.25 is not.
_ROUND_STEPS = (1.0, 2.0, 5.0, 10.0)
_LONGEST_NAME = 24
# Around each axes, and between them and the title.
_PAD_IN = 0.08


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure of this size in inches, laid out so that labels do not overlap."""
    layout = ConstrainedLayoutEngine(h_pad=_PAD_IN, w_pad=_PAD_IN)
    return Figure(figsize=(width_in, height_in), layout=layout, dpi=120)


def label(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Names the axes, units included, and takes away the frame that carries no data."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)


def legend_above(axes: Axes) -> None:
    """A legend in one row above the axes, on the right, where it covers neither data nor the title."""
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


def legend_below(figure: Figure, columns: int) -> None:
    """One legend below all panels, in which what several of them show stands once."""
    found = {
        text: handle
        for axes in figure.axes
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside lower center",
        ncols=min(len(found), columns),
        frameon=False,
        fontsize="small",
    )


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """`name`, without its end if it is longer than so many characters.

    >>> short("vgg"), short("a" * 30, 5)
    ('vgg', 'aaaa…')
    """
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def round_step(length: float, most: int) -> float:
    """The smallest of 1, 2, 5, 10, … that divides `length` into at most `most` parts, the last one shorter.

    >>> round_step(330, 8), round_step(0.6, 6), round_step(1000, 10)
    (50.0, 0.1, 100.0)
    """
    exponent = math.floor(math.log10(length / most))
    steps = (float(f"{step:g}e{exponent}") for step in _ROUND_STEPS)
    # What floating point adds to a quotient is no part.
    return next(step for step in steps if length / step <= most * (1 + 1e-9))
