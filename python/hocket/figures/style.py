"""What all figures have in common: colours that colour-blind readers can tell apart, sizes, and bare axes."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette (2008), made to be told apart with any colour vision; their vermilion is kept for
# what exceeds a limit, so no job has it.
JOB_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442", "#000000")
EXCESS_COLOUR = "#d55e00"
TOTAL_COLOUR = "#b4bcc2"
LINE_COLOUR = "#3d464d"

PS_PER_MS = 10**9
PS_PER_S = 10**12
BPS_PER_GBPS = 10**9


def job_colour(index: int) -> str:
    """The colour of the job at `index` of a plan; the eighth job has the first one's again.

    >>> job_colour(0) == job_colour(7)
    True
    """
    return JOB_COLOURS[index % len(JOB_COLOURS)]


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure of this size in inches, laid out so that labels do not overlap."""
    return Figure(figsize=(width_in, height_in), layout="constrained", dpi=120)


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
