"""Jobs on their unified circle before and after rotation, with the demand that exceeds the link.

Time runs counter-clockwise from the x-axis, as in HotNets'22 Fig 3 and NSDI'24 Fig 3; once around is the
least common multiple of the periods.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes

from hocket.compat import CircleJob, Compatibility
from hocket.errors import InputError
from hocket.figures.style import (
    BPS_PER_GBPS,
    EXCESS_COLOUR,
    LINE_COLOUR,
    PS_PER_MS,
    TOTAL_COLOUR,
    job_colour,
    new_figure,
)

Floats = npt.NDArray[np.float64]

# Radii in units of the link's capacity: a hole, one ring per job, and outside them the sum.
_HOLE = 0.9
_RING_GAP = 0.25
# Straight lines between points a degree apart look round.
_POINTS_PER_TURN = 360
_TIME_LABELS = 8
_MOST_NAMED_SHIFTS = 4


@dataclass(frozen=True)
class Demand:
    """The step function of each job's rate around the circle.

    Step k runs from `edges_ps[k]` to `edges_ps[k + 1]`; `rates_bps` has a row per job and a column per step.
    """

    edges_ps: npt.NDArray[np.int64]
    rates_bps: npt.NDArray[np.int64]


def demand(jobs: Sequence[CircleJob], *, shifted: bool) -> Demand:
    """What `jobs` ask for around their circle, each delayed by its time-shift if `shifted` (Equation 3)."""
    perimeter_ps = jobs[0].profile.period_ps * jobs[0].rounds
    arcs = [_arcs(job, perimeter_ps, job.time_shift_ps if shifted else 0) for job in jobs]
    edges = {0, perimeter_ps} | {edge for each in arcs for begin, end, _ in each for edge in (begin, end)}
    edges_ps = np.array(sorted(edges), dtype=np.int64)
    rates_bps = np.zeros((len(jobs), edges_ps.size - 1), dtype=np.int64)
    for row, each in enumerate(arcs):
        for begin, end, rate_bps in each:
            first, last = np.searchsorted(edges_ps, (begin, end))
            rates_bps[row, first:last] += rate_bps
    return Demand(edges_ps, rates_bps)


def compatibility_figure(result: Compatibility) -> Figure:
    """The circles of `result` as the jobs are, and rotated by the time-shifts found.

    From inside to outside: one ring per job whose Up phases are as high as their rates, then the sum of all
    with the capacity as a dashed circle; what is above it is the excess that the score counts. On a fabric,
    that is the shared link with the lowest score. Raises `InputError` if jobs share no link.
    """
    if not result.links:
        raise InputError("no link is shared: there is no circle to draw")
    if result.candidates:
        result = result.on_link(min(result.links, key=lambda link: link.score))
    return circles_figure(result.jobs, result.capacity_bps, _title(result))


def circles_figure(jobs: Sequence[CircleJob], capacity_bps: int, title: str) -> Figure:
    """The circles of `jobs` on a link as `compatibility_figure` has them."""
    figure = new_figure(10.5, 6.8)
    axes = [figure.add_subplot(1, 2, column, projection="polar") for column in (1, 2)]
    outcomes = [demand(jobs, shifted=shifted) for shifted in (False, True)]
    highest_bps = max(int(each.rates_bps.sum(axis=0).max()) for each in outcomes)
    for polar, each, which in zip(axes, outcomes, ("as they are", "rotated"), strict=True):
        assert isinstance(polar, PolarAxes), "the projection asked for is polar"
        _draw(polar, each, jobs, capacity_bps, highest_bps)
        polar.set_title(f"{which}: mean excess {_mean_excess(each, capacity_bps):.1%} of the link", pad=14)
    figure.suptitle(title)
    handles, labels = axes[0].get_legend_handles_labels()
    # An excess may show on one side only, and is explained once.
    for handle, text in zip(*axes[1].get_legend_handles_labels(), strict=True):
        if text not in labels:
            handles.append(handle)
            labels.append(text)
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _arcs(job: CircleJob, perimeter_ps: int, shift_ps: int) -> list[tuple[int, int, int]]:
    """(begin, end, rate) of every Up phase on the circle; one across the zero angle is cut there."""
    arcs = []
    for turn in range(job.rounds):
        for phase in job.profile.phases:
            begin = (turn * job.profile.period_ps + phase.start_ps + shift_ps) % perimeter_ps
            end = begin + phase.duration_ps
            arcs.append((begin, min(end, perimeter_ps), phase.rate_bps))
            if end > perimeter_ps:
                arcs.append((0, end - perimeter_ps, phase.rate_bps))
    return arcs


def _mean_excess(each: Demand, capacity_bps: int) -> float:
    """What the demand form takes off a score of 1 (NSDI'24 Equation 2), as a share of the capacity."""
    excess_bps = np.maximum(each.rates_bps.sum(axis=0) - capacity_bps, 0)
    steps_ps = np.diff(each.edges_ps)
    return float(np.average(excess_bps, weights=steps_ps)) / capacity_bps


def _title(result: Compatibility) -> str:
    shifts = [f"{name} {shift_s * 1e3:.4g} ms" for name, shift_s in result.time_shifts_s.items()]
    shown = ", ".join(shifts[:_MOST_NAMED_SHIFTS])
    more = f" and {len(shifts) - _MOST_NAMED_SHIFTS} more" if len(shifts) > _MOST_NAMED_SHIFTS else ""
    where = "" if result.links[0].name == "link" else f"{result.links[0].name}, "
    return (
        f"Compatibility score {result.score:.3f} on {where}{result.capacity_bps / BPS_PER_GBPS:g} Gbps, "
        f"circle of {result.perimeter_s * 1e3:.6g} ms\ntime-shifts: {shown}{more}"
    )


def _draw(
    axes: PolarAxes, each: Demand, jobs: Sequence[CircleJob], capacity_bps: int, highest_bps: int
) -> None:
    perimeter_ps = int(each.edges_ps[-1])
    base = _HOLE
    for index, job in enumerate(jobs):
        rates = each.rates_bps[index] / capacity_bps
        label = f"{job.name}: {job.profile.period_ps / PS_PER_MS:.6g} ms"
        _fill(axes, each.edges_ps, base, rates, job_colour(index), label)
        _circle(axes, base, LINE_COLOUR, 0.8)
        base += max(float(rates.max(initial=0.0)), 0.2) + _RING_GAP
    total = each.rates_bps.sum(axis=0) / capacity_bps
    _fill(axes, each.edges_ps, base, np.minimum(total, 1.0), TOTAL_COLOUR, "sum of all jobs")
    if total.max() > 1.0:
        _fill(axes, each.edges_ps, base, total, EXCESS_COLOUR, "above the capacity", 1.0)
    _circle(axes, base, LINE_COLOUR, 0.8)
    _circle(axes, base + 1.0, LINE_COLOUR, 1.2, "--", f"capacity {capacity_bps / BPS_PER_GBPS:g} Gbps")
    axes.set_ylim(0, base + max(1.0, highest_bps / capacity_bps) + 0.15)
    axes.set_yticks([])
    axes.grid(False)
    axes.spines["polar"].set_visible(False)
    angles = np.arange(_TIME_LABELS) * 2 * np.pi / _TIME_LABELS
    times_ms = np.arange(_TIME_LABELS) * perimeter_ps / _TIME_LABELS / PS_PER_MS
    axes.set_xticks(angles, [f"{time_ms:.4g} ms" for time_ms in times_ms])
    axes.tick_params(axis="x", pad=12, labelsize="small")


def _fill(
    axes: PolarAxes,
    edges_ps: npt.NDArray[np.int64],
    base: float,
    heights: Floats,
    colour: str,
    label: str,
    above: float = 0.0,
) -> None:
    """Steps of `heights` on the circle at `base`; with `above`, only their part above that height."""
    perimeter_ps = float(edges_ps[-1])
    grid_ps = np.linspace(0, perimeter_ps, _POINTS_PER_TURN + 1)
    # Each edge twice, once with the height before it and once with the one after.
    points_ps = np.sort(np.concatenate([edges_ps, edges_ps, grid_ps]))
    middles_ps = 0.5 * (points_ps[:-1] + points_ps[1:])
    steps = np.clip(np.searchsorted(edges_ps, middles_ps, side="right") - 1, 0, heights.size - 1)
    outline = np.maximum(heights[steps], above)
    angles = 2 * np.pi * np.stack([points_ps[:-1], points_ps[1:]], axis=1).ravel() / perimeter_ps
    axes.fill_between(
        angles, base + above, base + np.repeat(outline, 2), color=colour, linewidth=0, label=label
    )


def _circle(
    axes: PolarAxes, radius: float, colour: str, width: float, line: str = "-", label: str = ""
) -> None:
    angles = np.linspace(0, 2 * np.pi, _POINTS_PER_TURN + 1)
    axes.plot(
        angles,
        np.full(angles.size, radius),
        line,
        color=colour,
        linewidth=width,
        label=label or "_nolegend_",
    )
