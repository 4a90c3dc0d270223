"""Jobs on their unified circle without and with time-shifts, and the demand that exceeds the link's capacity.

Time runs clockwise from 12 o'clock, unlike the circles of HotNets'22 Fig 3 and NSDI'24 Fig 3, whose angles
grow counter-clockwise from the x-axis. The perimeter is the least common multiple of the periods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, degrees, pi, sin

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes

from hocket.compat import Compatibility
from hocket.compat.answer import CircleJob, printed_score, written_score
from hocket.errors import InputError
from hocket.figures.palette import EXCESS_COLOUR, LINE_COLOUR, TOTAL_COLOUR, job_colour
from hocket.figures.style import BPS_PER_GBPS, PS_PER_MS, legend_below, new_figure, round_step, short

Floats = npt.NDArray[np.float64]

# Radii in units of the link's capacity. The hole keeps the innermost ring from shrinking to a point.
_HOLE = 0.9
_RING_GAP = 0.25
# Between points three degrees apart, a straight line is less than a tenth of a pixel off the arc; more points
# only make files larger.
_POINTS_PER_TURN = 120
_MOST_TICKS = 12
_TICK_POINTS = 4
_PANEL_IN = 4.6


@dataclass(frozen=True)
class Demand:
    """The step function of each job's rate around the circle.

    Step k runs from `edges_ps[k]` to `edges_ps[k + 1]`; `rates_bps` has a row per job and a column per step.
    """

    edges_ps: npt.NDArray[np.int64]
    rates_bps: npt.NDArray[np.int64]


def demand(jobs: Sequence[CircleJob], *, shifted: bool) -> Demand:
    """The demand of `jobs` around their circle, each delayed by its time-shift if `shifted` (Equation 3)."""
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


def compatibility_figure(result: Compatibility, title: str = "") -> Figure:
    """The circles of `result` without and with its time-shifts; `title` is the plan's name.

    From inside to outside: a ring for each job, on which Up phases are as high as their rates, then the sum
    of all jobs, with the capacity as a dashed circle; demand above it is the excess that the score counts. An
    arrow along a job's ring is its time-shift. If no job is shifted, or no demand exceeds the capacity
    without shifts, there is one panel. On a fabric, the circles are those of the shared link with the lowest
    score. Raises `InputError` if jobs share no link.
    """
    if not result.links:
        raise InputError("figure: no link is shared, so there is no circle to draw")
    if result.candidates:
        # The jobs of the chosen link keep their colours of the whole plan, as in the picture of the fabric.
        colours = {job.name: job_colour(index) for index, job in enumerate(result.jobs)}
        result = result.on_link(min(result.links, key=lambda link: link.score))
        return circles_figure(result.jobs, result.capacity_bps, _title(result, title), colours)
    return circles_figure(result.jobs, result.capacity_bps, _title(result, title))


def circles_figure(
    jobs: Sequence[CircleJob], capacity_bps: int, title: str, colours: Mapping[str, str] | None = None
) -> Figure:
    """The circles of `jobs` on a link, as in `compatibility_figure`; `colours` by job default to the colours
    of the first jobs of a plan.
    """
    colours = colours or {job.name: job_colour(index) for index, job in enumerate(jobs)}
    perimeter_ps = jobs[0].profile.period_ps * jobs[0].rounds
    # A shift by whole periods changes nothing.
    moved = any(job.time_shift_ps % job.profile.period_ps for job in jobs)
    demands = [demand(jobs, shifted=shifted) for shifted in ((False, True) if moved else (False,))]
    if _mean_excess(demands[0], capacity_bps) == 0:
        demands = demands[:1]
    panels = {"sharing": False, "shifted": True} if len(demands) > 1 else {"without shifts": False}
    # Both panels get the radius of the higher demand, so that their circles can be compared.
    highest_bps = max(int(each.rates_bps.sum(axis=0).max()) for each in demands)
    named = {job.name: (colours[job.name], _named(job, shifted=len(demands) > 1)) for job in jobs}
    # Two longer entries side by side would be wider than a panel.
    columns = 1 if max(len(text) for _, text in named.values()) > 36 else 2
    # Besides the jobs, the legend has the sum, the excess and the capacity.
    lines = -(-(len(jobs) + 3) // (columns * len(panels)))
    width_in = max(_PANEL_IN * len(panels), 6.0)
    figure = new_figure(width_in, _PANEL_IN + 0.8 + 0.19 * lines)
    for column, (name, each) in enumerate(zip(panels, demands, strict=True), start=1):
        polar = figure.add_subplot(1, len(panels), column, projection="polar")
        assert isinstance(polar, PolarAxes), "the projection asked for is polar"
        _draw(polar, each, list(named.values()), capacity_bps, highest_bps)
        if panels[name]:
            _draw_shifts(polar, each, jobs, capacity_bps, perimeter_ps)
        excess = f"mean excess {_mean_excess(each, capacity_bps):.1%} of the link"
        polar.set_title(f"{name}: {excess}", pad=24, fontsize="medium")
    figure.suptitle(title)
    # One legend for both circles: an excess may be visible in only one of them.
    legend_below(figure, columns * len(panels))
    return figure


def _named(job: CircleJob, *, shifted: bool) -> str:
    """The legend entry of a job: its name, its period and, if `shifted`, its time-shift (ms)."""
    shift = f", shifted by {job.time_shift_ps / PS_PER_MS:.4g} ms" if shifted and job.time_shift_ps else ""
    return f"{short(job.name)}: {job.profile.period_ps / PS_PER_MS:.6g} ms{shift}"


def _arcs(job: CircleJob, perimeter_ps: int, shift_ps: int) -> list[tuple[int, int, int]]:
    """(begin, end, rate) of every Up phase on the circle; a phase across angle 0 is cut in two."""
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
    """The mean excess demand as a share of the capacity (NSDI'24 Equation 2), rounded so that it and the
    printed score add up to 1.
    """
    excess_bps = np.maximum(each.rates_bps.sum(axis=0) - capacity_bps, 0)
    steps_ps = np.diff(each.edges_ps)
    return 1 - printed_score(1 - float(np.average(excess_bps, weights=steps_ps)) / capacity_bps)


def _title(result: Compatibility, name: str) -> str:
    where = "" if result.links[0].name == "link" else f" on {result.links[0].name}"
    description = (
        f"score {written_score(result.score)}{where}, capacity {result.capacity_bps / BPS_PER_GBPS:g} Gbps, "
        f"circle of {result.perimeter_s * 1e3:.6g} ms"
    )
    return f"{name}\n{description}" if name else description


def _draw(
    axes: PolarAxes,
    each: Demand,
    rings: Sequence[tuple[str, str]],
    capacity_bps: int,
    highest_bps: int,
) -> None:
    """`rings` are colours and labels of the jobs."""
    perimeter_ps = int(each.edges_ps[-1])
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    bases = _bases(each, capacity_bps)
    for base, rates_bps, (colour, text) in zip(bases, each.rates_bps, rings, strict=False):
        _fill(axes, each.edges_ps, base, rates_bps / capacity_bps, colour, text)
        _circle(axes, base, LINE_COLOUR, 0.8)
    outer = bases[-1]
    total = each.rates_bps.sum(axis=0) / capacity_bps
    _fill(axes, each.edges_ps, outer, np.minimum(total, 1.0), TOTAL_COLOUR, "sum of all jobs")
    if total.max() > 1.0:
        _fill(axes, each.edges_ps, outer, total, EXCESS_COLOUR, "above the capacity", 1.0)
    _circle(axes, outer, LINE_COLOUR, 0.8)
    _circle(axes, outer + 1.0, LINE_COLOUR, 1.2, "--", f"capacity {capacity_bps / BPS_PER_GBPS:g} Gbps")
    rim = outer + max(1.0, highest_bps / capacity_bps) + 0.1
    axes.set_ylim(0, rim)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.grid(False)
    axes.spines["polar"].set_visible(False)
    _draw_ticks(axes, rim, perimeter_ps / PS_PER_MS)


def _bases(each: Demand, capacity_bps: int) -> list[float]:
    """The base radius of each job's ring, and last that of their sum."""
    # A ring keeps a height of 0.2, so that a slow job is still a ring and not a line.
    bases = [_HOLE]
    for rates_bps in each.rates_bps:
        bases.append(bases[-1] + max(float(rates_bps.max(initial=0)) / capacity_bps, 0.2) + _RING_GAP)
    return bases


def _draw_ticks(axes: PolarAxes, rim: float, perimeter_ms: float) -> None:
    """Draws round times in ms around the rim."""
    step_ms = round_step(perimeter_ms, _MOST_TICKS)
    # No tick in the last half step: its label would touch the one at 0.
    for number in range(int(perimeter_ms / step_ms - 0.5) + 1):
        angle = 2 * pi * number * step_ms / perimeter_ms
        across, up = sin(angle), cos(angle)
        place = (angle, rim)
        axes.annotate(
            "",
            place,
            xytext=(_TICK_POINTS * across, _TICK_POINTS * up),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
        )
        axes.annotate(
            f"{number * step_ms:g}" if number else "0 ms",
            place,
            xytext=(2 * _TICK_POINTS * across, 2 * _TICK_POINTS * up),
            textcoords="offset points",
            ha="center" if abs(across) < 0.15 else "left" if across > 0 else "right",
            va="bottom" if up > 0.85 else "top" if up < -0.85 else "center",
            fontsize="small",
        )


def _draw_shifts(
    axes: PolarAxes, each: Demand, jobs: Sequence[CircleJob], capacity_bps: int, perimeter_ps: int
) -> None:
    """Draws an arrow inside each job's ring, from zero to its time-shift."""
    # The last base, that of the sum, has no job.
    for base, job in zip(_bases(each, capacity_bps), jobs, strict=False):
        angle = 2 * pi * job.time_shift_ps / perimeter_ps
        if angle == 0:
            continue
        angles = np.linspace(0, angle, max(2, round(_POINTS_PER_TURN * angle / (2 * pi))))
        axes.plot(angles, np.full(angles.size, base - 0.1), color=LINE_COLOUR, linewidth=1.0)
        # (sides, style, degrees): a triangle, turned clockwise from pointing up to point along the ring.
        head = (3, 0, -90 - degrees(angle))
        axes.plot([angle], [base - 0.1], marker=head, color=LINE_COLOUR, markersize=5)


def _fill(
    axes: PolarAxes,
    edges_ps: npt.NDArray[np.int64],
    base: float,
    heights: Floats,
    colour: str,
    label: str,
    above: float = 0.0,
) -> None:
    """Draws steps of `heights` on the circle at `base`; with `above`, only the part above that height."""
    perimeter_ps = float(edges_ps[-1])
    grid_ps = np.linspace(0, perimeter_ps, _POINTS_PER_TURN + 1)
    # Each edge occurs twice, with the height before it and with the height after it.
    points_ps = np.sort(np.concatenate([edges_ps, edges_ps, grid_ps]))
    # The height of a span is taken at its middle, where rounding cannot put it into the next step.
    middles_ps = 0.5 * (points_ps[:-1] + points_ps[1:])
    steps = np.clip(np.searchsorted(edges_ps, middles_ps, side="right") - 1, 0, heights.size - 1)
    outline = np.maximum(heights[steps], above)
    angles = 2 * np.pi * np.stack([points_ps[:-1], points_ps[1:]], axis=1).ravel() / perimeter_ps
    radii = base + np.repeat(outline, 2)
    # Where the height stays, a span ends at the point where the next begins.
    moves = np.append(True, (np.diff(angles) != 0) | (np.diff(radii) != 0))
    angles, radii, foot = angles[moves], radii[moves], base + above
    # Without `where`, the outline would also be drawn where nothing is sent.
    axes.fill_between(angles, foot, radii, where=radii > foot, color=colour, linewidth=0, label=label)


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
