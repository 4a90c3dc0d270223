"""The figure of a trace: the GPUs that jobs request, and a bar for each job or the number of arrivals."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from hocket.cluster.description import jobs_frame
from hocket.cluster.trace import Trace, parse_trace
from hocket.figures.palette import JOB_COLOURS, TOTAL_COLOUR
from hocket.figures.trace import trace_figure
from hocket.workloads.table_3 import MODELS

VGG16 = {"model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 1000}


def rectangles(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def trace_of(*jobs: dict[str, object], **tables: object) -> Trace:
    file: dict[str, Any] = {"name": "mine", "fabric": {"testbed": "cassini"}, "jobs": list(jobs), **tables}
    return parse_trace(file)


def jobs(count: int) -> list[dict[str, object]]:
    return [{"name": f"job {number}", "arrival": f"{number} s", **VGG16} for number in range(count)]


def highest(axes: Axes) -> float:
    """Of the areas of a panel."""
    areas = [each for each in axes.collections if isinstance(each, PolyCollection)]
    return max(float(np.asarray(path.vertices)[:, 1].max()) for area in areas for path in area.get_paths())


def test_few_jobs_are_bars_from_their_arrival_below_their_total_demand_for_gpus() -> None:
    trace = trace_of({"name": "a", **VGG16}, {"name": "b", "arrival": "60 s", **VGG16, "workers": 4})
    demand, bars = trace_figure(trace).axes
    minutes = (jobs_frame(trace)["run_time_s"] / 60).to_list()
    assert [bar.get_width() for bar in rectangles(bars)] == pytest.approx(minutes)
    assert [bar.get_x() for bar in rectangles(bars)] == [0.0, 1.0]
    assert [text.get_text() for text in bars.get_yticklabels()] == ["a, 2 GPUs", "b, 4 GPUs"]
    assert highest(demand) == 6
    # 24 GPUs are shown, however few are demanded.
    assert demand.get_ylim()[1] > 24
    assert "24 GPUs\nin the\ncluster" in [text.get_text() for text in demand.texts]


def test_of_many_jobs_arrivals_are_counted() -> None:
    demand, arrivals = trace_figure(trace_of(*jobs(41))).axes
    assert sum(bar.get_height() for bar in rectangles(arrivals)) == 41
    assert "jobs that arrive in each" in arrivals.get_title(loc="left")
    # They last for some minutes, so that all have come before the first one ends.
    assert highest(demand) == pytest.approx(82, rel=0.01)


def test_a_trace_that_is_cut_ends_there() -> None:
    demand, bars = trace_figure(trace_of({"name": "a", **VGG16}, until="2 min")).axes
    assert demand.get_xlim() == bars.get_xlim() == (0, 2)


def test_models_beyond_the_colours_are_one_group() -> None:
    figure = trace_figure(
        parse_trace({"fabric": {"testbed": "cassini"}, "poisson": {"load": 0.9, "jobs": 60}})
    )
    assert len(MODELS) > len(JOB_COLOURS)
    demand = figure.axes[0]
    groups = {
        str(area.get_label()): to_hex(np.asarray(area.get_facecolor())[0]) for area in demand.collections
    }
    assert len(groups) == len(JOB_COLOURS)
    (others,) = (colour for name, colour in groups.items() if name.endswith("other models"))
    assert others == TOTAL_COLOUR
    assert figure.get_suptitle().startswith("trace: ")
