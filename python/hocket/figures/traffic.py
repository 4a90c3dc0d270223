"""The traffic of single jobs over a few iterations, alone on the network."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from hocket.figures.style import BPS_PER_GBPS, PS_PER_S, job_colour, label, new_figure
from hocket.workloads import WorkloadProfile

# NSDI'24 Fig 1 shows three iterations.
_ITERATIONS = 3


def traffic_figure(profiles: Mapping[str, WorkloadProfile], title: str = "") -> Figure:
    """Three iterations of each profile: rate (Gbps) over time (s), one panel per job."""
    columns = min(2, len(profiles))
    rows = -(-len(profiles) // columns)
    figure = new_figure(5.2 * columns, 0.5 + 2.3 * rows)
    if title:
        figure.suptitle(title)
    for position, (name, profile) in enumerate(profiles.items()):
        axes = figure.add_subplot(rows, columns, position + 1)
        for iteration in range(_ITERATIONS):
            start_s = iteration * profile.period_ps / PS_PER_S
            axes.axvline(start_s, color="#00000022", linewidth=0.8)
            for phase in profile.phases:
                begin_s = start_s + phase.start_ps / PS_PER_S
                edges_s = np.array([begin_s, begin_s + phase.duration_ps / PS_PER_S])
                axes.stairs([phase.rate_bps / BPS_PER_GBPS], edges_s, color=job_colour(position), fill=True)
        axes.set_xlim(0, _ITERATIONS * profile.period_ps / PS_PER_S)
        axes.set_ylim(0, 50)
        label(axes, "time (s)", "rate (Gbps)", name)
    return figure
