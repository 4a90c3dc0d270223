"""The evidence for a profile from a profiler trace: operations over time, one iteration with its phases, and
exposed communication.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.figures.palette import (
    COMMUNICATION_COLOUR,
    COMPUTATION_COLOUR,
    IDLE_COLOUR,
    LINE_COLOUR,
    OVERLAP_COLOUR,
)
from hocket.figures.style import label, legend_above, new_figure
from hocket.profiling.counters import FloatArray
from hocket.profiling.job import JobProfile, TimelineEvidence

# Enough to show differences between iterations, and few enough to show their operations.
_ITERATIONS_SHOWN = 4
# The time of these iterations is cut into spans, and a bar shows how much of a span is busy: kernels are
# so short that as bars of a visible width they would fill most of the time.
_SPANS = 600
_MS_PER_S = 1e3


def timeline_evidence_figure(profile: JobProfile, evidence: TimelineEvidence) -> Figure:
    """Three panels: communication and computation over four iterations, the operations of one iteration with
    the rates (Gbps) of its Up phases, and the parts of its time. All times are in ms.

    Everything drawn is in `profile` and `evidence`; nothing is recomputed.
    """
    figure = new_figure(8.0, 6.4)
    several, iteration, shares = figure.subplots(3, 1, height_ratios=(2, 3, 1))
    size = profile.bytes_per_iteration
    # Not every format of profiler trace has the sizes of messages.
    amount = "" if math.isnan(size) else f"{size / 1e6:.3g} MB per iteration, "
    figure.suptitle(
        f"{profile.name}: period {profile.period_s * _MS_PER_S:.2f} ms, {amount}"
        f"confidence {profile.confidence:.2f}"
    )
    _draw_iterations(several, profile, evidence)
    _draw_iteration(iteration, profile, evidence)
    _draw_shares(shares, profile)
    return figure


def _draw_iterations(axes: Axes, profile: JobProfile, evidence: TimelineEvidence) -> None:
    """Draws what ran in iterations from the middle of the profiler trace, and where these begin."""
    starts_s = profile.iteration_start_s
    first = max(0, (starts_s.size - _ITERATIONS_SHOWN) // 2)
    shown_s = starts_s[first : first + _ITERATIONS_SHOWN]
    begin_s, end_s = shown_s[0] - 0.1 * profile.period_s, shown_s[-1] + 1.1 * profile.period_s
    lanes = [("communicates", evidence.communication_s, COMMUNICATION_COLOUR)]
    if evidence.compute_s.size > 0:
        lanes.append(("computes", evidence.compute_s, COMPUTATION_COLOUR))
    for row, (_, intervals_s, colour) in enumerate(lanes):
        edges_s = np.linspace(begin_s, end_s, _SPANS + 1)
        tops = row + 0.1 + 0.8 * busy_shares(intervals_s, edges_s)
        axes.stairs(tops, edges_s * _MS_PER_S, baseline=row + 0.1, fill=True, color=colour)
    for number, start_s in enumerate(shown_s):
        text = "iterations begin" if number == 0 else None
        axes.axvline(start_s * _MS_PER_S, color=LINE_COLOUR, linewidth=1.2, label=text)
    steps_s = evidence.steps_s[(evidence.steps_s >= begin_s) & (evidence.steps_s <= end_s)]
    for number, step_s in enumerate(steps_s):
        text = "annotated steps" if number == 0 else None
        axes.axvline(step_s * _MS_PER_S, color=LINE_COLOUR, linewidth=0.8, linestyle=":", label=text)
    axes.set_xlim(begin_s * _MS_PER_S, end_s * _MS_PER_S)
    axes.set_yticks([row + 0.5 for row in range(len(lanes))], [name for name, _, _ in lanes])
    axes.set_ylim(0, len(lanes))
    title = f"{shown_s.size} of {profile.iterations_seen} iterations, height: share of the time"
    label(axes, "time in the profiler trace (ms)", "", title)
    legend_above(axes)


def _draw_iteration(axes: Axes, profile: JobProfile, evidence: TimelineEvidence) -> None:
    """Draws the Up phases of an iteration, and below them its operations at their usual times."""
    known = not any(math.isnan(phase.rate_bps) for phase in profile.phases)
    heights = [phase.rate_bps * 1e-9 if known else 1.0 for phase in profile.phases]
    top = max(heights, default=1.0)
    for number, (phase, height) in enumerate(zip(profile.phases, heights, strict=True)):
        edges_ms = [phase.start_s * _MS_PER_S, (phase.start_s + phase.duration_s) * _MS_PER_S]
        text = "Up phase" if number == 0 else None
        axes.stairs([height], edges_ms, color=COMMUNICATION_COLOUR, fill=True, alpha=0.3, label=text)
    _draw_intervals(axes, evidence.fold_s, (-0.15 * top, 0.1 * top), COMMUNICATION_COLOUR, "operations")
    axes.set_xlim(0, profile.period_s * _MS_PER_S)
    axes.set_ylim(-0.2 * top, 1.08 * top)
    # Below 0 the axis has operations instead of rates.
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.08 * top] if known else [])
    label(
        axes,
        "time in the iteration (ms)",
        "rate (Gbps)" if known else "rate not known",
        f"one iteration, jitter {profile.jitter_s * _MS_PER_S:.2f} ms",
    )
    legend_above(axes)


def _draw_shares(axes: Axes, profile: JobProfile) -> None:
    """Draws the parts of an iteration's time as one bar."""
    begin_ms = 0.0
    for name, length_s, colour in shares_of(profile):
        axes.barh(0, length_s * _MS_PER_S, left=begin_ms, color=colour, label=name)
        begin_ms += length_s * _MS_PER_S
    axes.set_xlim(0, profile.period_s * _MS_PER_S)
    axes.set_yticks([])
    label(axes, "time of an iteration (ms)", "")
    legend_above(axes)


def shares_of(profile: JobProfile) -> list[tuple[str, float, str]]:
    """The parts of an iteration's time: name, seconds and colour.

    Without computation in the profiler trace, overlap is unknown, so there are only two parts.
    """
    communication_s = profile.communication_s or 0.0
    if profile.compute_s is None or profile.exposed_s is None:
        rest_s = max(profile.period_s - communication_s, 0.0)
        return [
            ("communicates", communication_s, COMMUNICATION_COLOUR),
            ("nothing known", rest_s, IDLE_COLOUR),
        ]
    # Exposed communication is the part without computation; medians over iterations need not fit together
    # exactly, hence the limits at 0.
    both_s = communication_s - profile.exposed_s
    return [
        ("computes", max(profile.compute_s - both_s, 0.0), COMPUTATION_COLOUR),
        ("both", both_s, OVERLAP_COLOUR),
        ("communicates only", profile.exposed_s, COMMUNICATION_COLOUR),
        ("neither", max(profile.period_s - profile.compute_s - profile.exposed_s, 0.0), IDLE_COLOUR),
    ]


def busy_shares(intervals_s: FloatArray, edges_s: FloatArray) -> FloatArray:
    """The share (k) of each span between consecutive edges (k + 1) that is inside `intervals_s` (n, 2), which
    are disjoint and in order.

    >>> busy_shares(np.array([[0.0, 1.0], [3.0, 3.5]]), np.array([0.0, 2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    if intervals_s.size == 0:
        return np.zeros(edges_s.size - 1)
    # Time within intervals grows from 0 at the first start, by each one's length, and not between them.
    lengths_s = np.diff(intervals_s, axis=1).ravel()
    grown_s = np.column_stack([np.cumsum(lengths_s) - lengths_s, np.cumsum(lengths_s)]).ravel()
    busy_s: FloatArray = np.interp(edges_s, intervals_s.ravel(), grown_s)
    return np.diff(busy_s) / np.diff(edges_s)


def _draw_intervals(
    axes: Axes, intervals_s: FloatArray, height: tuple[float, float], colour: str, name: str | None = None
) -> None:
    """Draws intervals (n, 2) as bars; the outline keeps the shortest ones visible."""
    lengths_s = np.diff(intervals_s, axis=1).ravel()
    bars = np.column_stack([intervals_s[:, 0], lengths_s]) * _MS_PER_S
    axes.broken_barh(bars.tolist(), height, color=colour, linewidth=0.3, label=name)
