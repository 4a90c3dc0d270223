"""The evidence for a job's profile: some of its readings, and the fold of all iterations."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.figures.palette import COMMUNICATION_COLOUR, LINE_COLOUR
from hocket.figures.style import label, legend_above, new_figure
from hocket.figures.timeline_evidence import timeline_evidence_figure
from hocket.profiling import JobProfile
from hocket.profiling.job import CounterEvidence, TimelineEvidence

# Enough to show differences between iterations, and few enough to show their phases.
_PERIODS_SHOWN = 5


def evidence_figure(profile: JobProfile) -> Figure:
    """Rates (Gbps) over five iterations with their Up phases, above the folded iteration (ms); for a profile
    from a profiler trace, the figure of `hocket.figures.timeline_evidence`.

    Everything drawn is in `profile`; nothing is recomputed.
    """
    if isinstance(profile.evidence, TimelineEvidence):
        return timeline_evidence_figure(profile, profile.evidence)
    figure = new_figure(8.0, 5.6)
    readings, fold = figure.subplots(2, 1)
    figure.suptitle(
        f"{profile.name}: period {profile.period_s * 1e3:.2f} ms, "
        f"{profile.bytes_per_iteration / 1e6:.3g} MB per iteration, confidence {profile.confidence:.2f}"
    )
    _draw_readings(readings, profile, profile.evidence)
    _draw_fold(fold, profile, profile.evidence)
    for axes in (readings, fold):
        axes.set_ylim(bottom=0)
        legend_above(axes)
    return figure


def _draw_readings(axes: Axes, profile: JobProfile, evidence: CounterEvidence) -> None:
    """Draws readings from the middle of the series, where the tracking of iterations has settled."""
    starts_s = profile.iteration_start_s
    first = max(0, (starts_s.size - _PERIODS_SHOWN) // 2)
    shown_s = starts_s[first : first + _PERIODS_SHOWN]
    begin_s = shown_s[0] - 0.1 * profile.period_s
    end_s = shown_s[-1] + profile.period_s
    low, high = np.searchsorted(evidence.time_s, (begin_s, end_s))
    # One reading more on the left, so that the line begins at the axis.
    low, high = max(0, int(low) - 1), min(int(high), evidence.rate_bps.size)
    axes.stairs(
        evidence.rate_bps[low:high] * 1e-9,
        evidence.time_s[low : high + 1],
        color=LINE_COLOUR,
        label="readings",
    )
    for iteration, start_s in enumerate(shown_s):
        _draw_phases(axes, profile, float(start_s), 1.0, labelled=iteration == 0)
    axes.set_xlim(begin_s, end_s)
    title = f"{shown_s.size} of {profile.iterations_seen} iterations"
    label(axes, "time in the series (s)", "rate (Gbps)", title)


def _draw_fold(axes: Axes, profile: JobProfile, evidence: CounterEvidence) -> None:
    """Draws the mean iteration, finer than readings are apart."""
    half_s = 0.5 * profile.period_s / evidence.fold_s.size
    # Bins are in the order of the fold, which may begin anywhere in the iteration.
    order = np.argsort(evidence.fold_s)
    edges_s = np.append(evidence.fold_s[order] - half_s, evidence.fold_s[order][-1] + half_s)
    axes.stairs(
        evidence.fold_rate_bps[order] * 1e-9, edges_s * 1e3, color=LINE_COLOUR, label="folded readings"
    )
    _draw_phases(axes, profile, 0.0, 1e3, labelled=True)
    axes.set_xlim(0, profile.period_s * 1e3)
    title = f"all {profile.iterations_seen} iterations folded, jitter {profile.jitter_s * 1e3:.2g} ms"
    label(axes, "time in the iteration (ms)", "rate (Gbps)", title)


def _draw_phases(axes: Axes, profile: JobProfile, start_s: float, scale: float, *, labelled: bool) -> None:
    """Draws the Up phases of the iteration from `start_s`, on an axis of `scale` units per second."""
    for index, phase in enumerate(profile.phases):
        begin_s = start_s + phase.start_s
        axes.stairs(
            [phase.rate_bps * 1e-9],
            [begin_s * scale, (begin_s + phase.duration_s) * scale],
            color=COMMUNICATION_COLOUR,
            fill=True,
            alpha=0.3,
            label="Up phase" if labelled and index == 0 else None,
        )
