"""Link use: the rates of jobs over time as stacked areas, with the link's capacity."""

from matplotlib.axes import Axes

from hocket.engines.link_use import LinkUse
from hocket.figures.palette import LINE_COLOUR
from hocket.figures.style import rate_unit
from hocket.figures.timeline import TimelinePanel, draw_areas
from hocket.units import format_rate


def draw_use(axes: Axes, use: LinkUse, title: str, highest_bps: int | None = None) -> None:
    """Draws `use`, with the capacity as a dashed line. The axis fits a capacity of `highest_bps`, by default
    that of the link.
    """
    highest_bps = highest_bps or use.capacity_bps
    panel = TimelinePanel(title, use.jobs, use.rates, use.begin_s, use.end_s)
    draw_areas(axes, panel, use.capacity_bps, highest_bps)
    axes.set_xlabel(f"time (ms), from {use.begin_s:.3g} s into the run" if use.begin_s else "time (ms)")
    axes.annotate(
        format_rate(use.capacity_bps),
        (1.0, use.capacity_bps / rate_unit(highest_bps)[0]),
        (-2, 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize="x-small",
        color=LINE_COLOUR,
    )


def which_link(use: LinkUse) -> str:
    """`on NAME` for a title; empty if the plan has only one link."""
    # "link" is the name of a plan's [link], which has no other.
    return "" if use.link == "link" else f"on {use.link}"
