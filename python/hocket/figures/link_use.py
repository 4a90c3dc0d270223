"""Who uses a link when: the rates of jobs over time as stacked areas, below the link's capacity."""

from matplotlib.axes import Axes

from hocket.engines.link_use import LinkUse
from hocket.figures.palette import LINE_COLOUR
from hocket.figures.style import BPS_PER_GBPS
from hocket.figures.timeline import TimelinePanel, draw_areas


def draw_use(axes: Axes, use: LinkUse, title: str) -> None:
    """`use`, with the capacity as a dashed line."""
    draw_areas(axes, TimelinePanel(title, use.jobs, use.rates, use.begin_s, use.end_s), use.capacity_bps)
    axes.set_xlabel(f"time (ms), from {use.begin_s:.3g} s into the run" if use.begin_s else "time (ms)")
    axes.annotate(
        f"{use.capacity_bps / BPS_PER_GBPS:g} Gbps",
        (1.0, use.capacity_bps / BPS_PER_GBPS),
        (-2, 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize="x-small",
        color=LINE_COLOUR,
    )


def which_link(use: LinkUse) -> str:
    """The link of `use` for a title; empty where there is but one."""
    return "" if use.link == "link" else f"on {use.link}"
