"""Figures of cluster runs: means by hand, weights, and the circle of a link."""

import numpy as np
import polars as pl
import pytest

from hocket.errors import InputError
from hocket.figures.cluster import (
    distribution_figure,
    link_circle_figure,
    over_time_figure,
    schedulers_figure,
)
from hocket.profiles import PhaseSpec, WorkloadProfile

MS = 10**9
GBPS = 10**9

# Two iterations of 200 ms in the first minute with one of 500 ms, one of 100 ms in the third.
ITERATIONS = pl.DataFrame(
    {
        "job": ["a", "b", "a"],
        "model": ["VGG16", "DLRM", "VGG16"],
        "count": [2, 1, 1],
        "start_s": [0.0, 30.0, 130.0],
        "iteration_s": [0.2, 0.5, 0.1],
        "marks": [40.0, 0.0, 8.0],
    }
)

HALF = WorkloadProfile(100 * MS, (PhaseSpec(0, 50 * MS, 40 * GBPS),), ())
PROFILES = {"a": HALF, "b": WorkloadProfile(200 * MS, (PhaseSpec(0, 50 * MS, 40 * GBPS),), ()), "c": HALF}
CAPACITIES_BPS = {"up": 50 * GBPS, "down": 50 * GBPS}
LINKS = [
    {"link": "up", "jobs": ["a", "b"], "flows": [1, 1], "after": 1.0},
    {"link": "down", "jobs": ["b", "c"], "flows": [1, 1], "after": 0.85},
]
ON_CIRCLE = {"a": {"period_ps": 100 * MS, "shift_ps": 0}, "b": {"period_ps": 200 * MS, "shift_ps": 50 * MS}}
WHY = {"links": LINKS, "components": [{"circle": ON_CIRCLE}, {"circle": {}}]}


def test_means_over_time_count_every_iteration_once() -> None:
    (axes,) = over_time_figure({"themis": ITERATIONS}, "iteration").axes
    (line,) = axes.lines
    assert line.get_label() == "themis"
    assert np.asarray(line.get_xydata()).tolist() == [[0.5, (2 * 200 + 500) / 3], [2.5, 100]]


def test_each_model_has_a_panel_of_its_own() -> None:
    figure = over_time_figure({"themis": ITERATIONS}, "marks", ["VGG16", "DLRM"])
    vgg, dlrm = (np.asarray(axes.lines[0].get_ydata()).tolist() for axes in figure.axes)
    assert vgg == [20, 8]
    assert dlrm == [0]


def test_a_run_keeps_its_colour_in_panels_without_other_runs() -> None:
    without = ITERATIONS.filter(pl.col("model") != "DLRM")
    figure = over_time_figure({"pollux": without, "themis": ITERATIONS}, "iteration", ["VGG16", "DLRM"])
    vgg, dlrm = figure.axes
    assert [line.get_label() for line in dlrm.lines] == ["themis"]
    assert vgg.lines[1].get_color() == dlrm.lines[0].get_color()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["pollux", "themis"]


def test_the_distribution_weighs_rows_with_their_iterations() -> None:
    (axes,) = distribution_figure({"themis": ITERATIONS, "themis+cassini": ITERATIONS}, "iteration").axes
    assert [line.get_label() for line in axes.lines] == ["themis", "themis+cassini"]
    steps = {x: y for x, y in np.asarray(axes.lines[0].get_xydata()).tolist() if np.isfinite(x)}
    assert steps == pytest.approx({100.0: 0.25, 200.0: 0.75, 500.0: 1.0})


def test_schedulers_are_compared_by_slowdown() -> None:
    # Twice 200 ms and 500 ms are ideal, and 100 ms could have been 80.
    ideal = ITERATIONS.with_columns(ideal_s=pl.Series([0.2, 0.5, 0.08]))
    over_time, distribution = schedulers_figure({"themis": ideal, "random": ideal}).axes
    assert np.asarray(over_time.lines[0].get_ydata()).tolist() == pytest.approx([1, 1.25])
    steps = {x: y for x, y in np.asarray(distribution.lines[0].get_xydata()).tolist() if np.isfinite(x)}
    assert steps == pytest.approx({1.0: 0.75, 1.25: 1.0})


def test_what_was_not_recorded_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="no run has an iteration of GPT1"):
        over_time_figure({"themis": ITERATIONS}, "iteration", ["GPT1"])
    uncounted = ITERATIONS.with_columns(marks=pl.lit(None, pl.Float64))
    with pytest.raises(InputError, match="run 'themis' did not record them"):
        distribution_figure({"themis": uncounted}, "marks")


def test_the_circle_of_a_link_shows_shifts_and_the_remaining_excess() -> None:
    figure = link_circle_figure(WHY, PROFILES, CAPACITIES_BPS)
    before, after = (axes.get_title() for axes in figure.axes)
    # Both start at once: 30 of 50 Gbps too much for 50 of 200 ms.
    assert "mean excess 15.0% of the link" in before
    assert "mean excess 0.0% of the link" in after
    assert "up, capacity 50 Gbps" in figure.get_suptitle()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "b: 200 ms, shifted by 50 ms" in legend


def test_flows_of_a_job_on_a_link_add_up_on_its_circle() -> None:
    twice = {**WHY, "links": [{"link": "up", "jobs": ["a", "b"], "flows": [2, 1], "after": 0.7}]}
    figure = link_circle_figure(twice, PROFILES, CAPACITIES_BPS, "up")
    # Two flows of a ask for 80 of 50 Gbps half of the time, and beside b for 120 a quarter of the time.
    before, after = (axes.get_title() for axes in figure.axes)
    assert "mean excess 50.0% of the link" in before
    assert "mean excess 30.0% of the link" in after


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("down", "link 'down': b, c are on no common circle"),
        ("side", "link 'side': no jobs contend for it; links with contention: up, down"),
    ],
)
def test_a_link_without_a_circle_is_refused_with_the_reason(link: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        link_circle_figure(WHY, PROFILES, CAPACITIES_BPS, link)


def test_a_decision_without_contention_has_no_circle_to_draw() -> None:
    with pytest.raises(InputError, match="no link is shared by jobs that fit"):
        link_circle_figure({"links": [], "components": []}, PROFILES, CAPACITIES_BPS)
