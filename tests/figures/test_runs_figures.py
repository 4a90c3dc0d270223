"""Bars of runs and timelines of operations are as long as what they stand for."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hocket import InputError, Run
from hocket.compare import compare
from hocket.figures import save
from hocket.figures.bars import GroupedBars, StackedBars, bars_figure
from hocket.figures.operations import operations_figure
from hocket.figures.palette import JOB_COLOURS, TOTAL_COLOUR
from hocket.figures.runs import runs_figure

TrainingRun = Callable[..., Run]


def bars(axes: Axes) -> list[Rectangle]:
    """In the order in which they were drawn."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def lengths(axes: Axes) -> list[float]:
    return [round(bar.get_width(), 6) for bar in bars(axes)]


def written(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def ticks(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_groups_have_a_bar_per_series_and_a_dash_where_nothing_was_measured() -> None:
    times: dict[str, list[float | None]] = {"dcqcn": [1.0, 2.5], "hpcc": [3.0, None]}
    figure = bars_figure([GroupedBars("collectives", "time (ms)", ("1D", "2D"), times)])
    (axes,) = figure.axes
    assert np.allclose(lengths(axes), [1.0, 2.5, 3.0, float("nan")], equal_nan=True)
    # Each series is named in its first bar.
    assert written(axes) == ["1", "2.5", "3", "–", "dcqcn", "hpcc"]
    assert ticks(axes) == ["1D", "2D"]
    assert legend(figure) == []


def test_parts_of_a_bar_follow_each_other_and_the_sum_is_written() -> None:
    parts = {"compute": [3.0, 3.0], "exposed": [2.0, 1_500.0]}
    figure = bars_figure([StackedBars("iteration", "time (ms)", ("a", "b"), parts)])
    (axes,) = figure.axes
    assert [bar.get_x() for bar in bars(axes)] == [0.0, 0.0, 3.0, 3.0]
    assert written(axes) == ["5", "1,503"]


def test_counts_of_zero_have_no_bar_on_a_logarithmic_axis() -> None:
    counts = {"dcqcn": [0], "pfc-only": [20_000]}
    figure = bars_figure([GroupedBars("PFC", "PAUSE frames", ("",), counts, log=True)])
    (axes,) = figure.axes
    assert axes.get_xlim()[0] == 0.5
    assert axes.get_xscale() == "log"
    assert written(axes) == ["0", "20,000"]
    assert (ticks(axes), legend(figure)) == (["dcqcn", "pfc-only"], [])


def test_a_series_has_the_same_colour_in_all_panels() -> None:
    one = GroupedBars("x", "ms", ("g", "h"), {"a": [1, 1], "b": [2, 2]})
    other = GroupedBars("y", "ms", ("g", "h"), {"b": [2, 2]})
    first, second = bars_figure([one, other]).axes
    colours = [[to_hex(bar.get_facecolor()) for bar in bars(axes)] for axes in (first, second)]
    assert colours == [[JOB_COLOURS[0]] * 2 + [JOB_COLOURS[1]] * 2, [JOB_COLOURS[1]] * 2]


def test_runs_are_drawn_by_iteration_collective_and_pause_frames(
    training_run: TrainingRun, tmp_path: Path
) -> None:
    runs = {"a": training_run(all_reduce_ms=4, pauses=0), "b": training_run(engine="flow", all_reduce_ms=9)}
    figure = runs_figure(compare(runs), "two engines")
    iteration, collectives, pauses, _ = figure.axes
    assert lengths(iteration) == [3.0, 3.0, 2.0, 7.0]
    assert lengths(collectives) == [4.0, 9.0]
    assert ticks(collectives) == ["all-reduce\n100 MB, 4 ranks"]
    assert written(pauses) == ["0", "–"]
    # The one of 2 ms has no room for the name.
    assert written(iteration) == ["5", "10", "compute", "exposed communication"]
    assert legend(figure) == []
    assert save(figure, tmp_path / "runs.svg").exists()


def test_runs_without_anything_to_draw_are_refused() -> None:
    empty = Run({}, {"status": "failed"})
    with pytest.raises(InputError, match="no jobs, collectives or flows to draw"):
        runs_figure(compare({"a": empty, "b": empty}))


def test_runs_without_jobs_show_flow_completion_times(training_run: TrainingRun) -> None:
    run = training_run()
    study = Run({name: run.tables[name] for name in ("flows", "ports")}, run.manifest)
    times, pauses = runs_figure(compare({"a": study, "b": study})).axes
    # Flows of 1 and 3 ms in either run.
    assert lengths(times) == [2.0, 3.0, 2.0, 3.0]
    assert written(pauses) == ["7", "7"]


def test_operations_of_a_rank_are_drawn_beside_its_compute(training_run: TrainingRun) -> None:
    figure = operations_figure(training_run(all_reduce_ms=4), "dlrm", ranks=(2, 0))
    above, below = figure.axes
    assert (above.get_ylabel(), below.get_ylabel()) == ("rank 2", "rank 0")
    assert lengths(above) == [1.0, 2.0, 4.0]
    lanes = [round(bar.get_y() + bar.get_height() / 2, 6) for bar in bars(above)]
    assert lanes == [0.0, 0.0, 1.0]
    assert to_hex(bars(above)[0].get_facecolor()) == TOTAL_COLOUR
    assert legend(figure) == ["compute", "all-reduce"]
    assert {"forward", "backward", "gradients"} <= set(written(above))


def test_a_name_is_written_only_where_it_fits(training_run: TrainingRun) -> None:
    run = training_run(all_reduce_ms=1_000)
    (axes,) = operations_figure(run, "dlrm", ranks=(0,)).axes
    assert written(axes) == ["gradients"]


def test_operations_that_were_not_recorded_are_refused(training_run: TrainingRun) -> None:
    run = training_run()
    with pytest.raises(InputError, match="job 'dlrm': no operations of rank 4 were recorded in iteration 0"):
        operations_figure(run, "dlrm", ranks=(4,))
    with pytest.raises(InputError, match="job 'dlrm': no operations of iteration 1 were recorded"):
        operations_figure(run, "dlrm", iteration=1)
    with pytest.raises(InputError, match="job 'bert': no operations of iteration 0"):
        operations_figure(run, "bert")
    without = Run({name: table for name, table in run.tables.items() if name != "operations"}, run.manifest)
    with pytest.raises(InputError, match="no operations"):
        operations_figure(without, "dlrm")
    one = run.tables["operations"].filter(pl.col("rank") == 1)
    (axes,) = operations_figure(Run({"operations": one}, run.manifest), "dlrm").axes
    assert axes.get_ylabel() == "rank 1"
