"""The affinity graph: jobs, the links that they share, and each job's time-shift there (NSDI'24 Fig 8)."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from hocket.figures.palette import LINE_COLOUR, TOTAL_COLOUR, job_colour
from hocket.figures.style import new_figure


def affinity_figure(shifts_ms: Mapping[str, Mapping[str, float]], unique_ms: Mapping[str, float]) -> Figure:
    """Jobs on the left with their one time-shift, links on the right, and on each edge the link's own shift.

    `shifts_ms` gives, by link, the shifts of its jobs that were found for the link alone, in ms; `unique_ms`
    gives the shift of each job that keeps all of them relative to each other.
    """
    figure = new_figure(7.5, 1.2 + 0.9 * max(len(unique_ms), len(shifts_ms)))
    axes = figure.add_subplot()
    axes.set_axis_off()
    job_y = {name: -float(row) for row, name in enumerate(unique_ms)}
    offset = 0.5 * (len(unique_ms) - len(shifts_ms))
    for row, (link, shifts) in enumerate(shifts_ms.items()):
        link_y = -(row + offset)
        for job, shift_ms in shifts.items():
            axes.plot([0, 1], [job_y[job], link_y], color=LINE_COLOUR, linewidth=1.2, zorder=1)
            # Not the middle of the edge, where edges that cross would put their labels on top of each other.
            label_x = 0.42
            axes.text(
                label_x,
                job_y[job] + label_x * (link_y - job_y[job]),
                f"{shift_ms:.1f} ms",
                ha="center",
                va="center",
                backgroundcolor="white",
            )
        axes.scatter([1], [link_y], s=500, marker="s", color=TOTAL_COLOUR, zorder=2)
        axes.text(1, link_y, link, ha="center", va="center", zorder=3)
    for index, (name, shift_ms) in enumerate(unique_ms.items()):
        axes.scatter([0], [job_y[name]], s=500, color=job_colour(index), zorder=2)
        axes.text(0, job_y[name], name, ha="center", va="center", zorder=3, color="white")
        axes.text(-0.08, job_y[name], f"{shift_ms:.1f} ms", ha="right", va="center")
    axes.set_xlim(-0.3, 1.15)
    axes.set_ylim(min(job_y.values()) - 0.5, 0.5)
    axes.set_title("one time-shift per job, and on each edge the shift found for the link alone", loc="left")
    return figure
