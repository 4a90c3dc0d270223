"""Figures of cluster runs: means by hand, weights, and the circle of a link."""

import numpy as np
import polars as pl
import pytest

from hocket.errors import InputError
from hocket.figures.cluster import distribution_figure, link_circle_figure, over_time_figure
from hocket.schedulers.cassini import Component, LinkScore
from hocket.schedulers.cassini.chosen import OnCircle
from hocket.workloads import PhaseSpec, WorkloadProfile

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
LINK = LinkScore(0, "tor0->spine0", ("a", "b"), 0.85, ("a", "b"), (1, 1), 1.0)
COMPONENT = Component(
    jobs=("a", "b"),
    links=(0,),
    reference="a",
    score=1.0,
    origin="loop-free",
    circle={"a": OnCircle(100 * MS, 0), "b": OnCircle(200 * MS, 50 * MS)},
    gain=None,
    why_none=None,
    kept=False,
)


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


def test_the_distribution_weighs_rows_with_their_iterations() -> None:
    (axes,) = distribution_figure({"themis": ITERATIONS, "themis+cassini": ITERATIONS}, "iteration").axes
    assert [line.get_label() for line in axes.lines] == ["themis", "themis+cassini"]
    steps = {x: y for x, y in np.asarray(axes.lines[0].get_xydata()).tolist() if np.isfinite(x)}
    assert steps == pytest.approx({100.0: 0.25, 200.0: 0.75, 500.0: 1.0})


def test_what_was_not_recorded_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="no run has an iteration of GPT1"):
        over_time_figure({"themis": ITERATIONS}, "iteration", ["GPT1"])
    uncounted = ITERATIONS.with_columns(marks=pl.lit(None, pl.Float64))
    with pytest.raises(InputError, match="run 'themis' did not count them"):
        distribution_figure({"themis": uncounted}, "marks")


def test_the_circle_of_a_link_shows_shifts_and_what_they_leave() -> None:
    profiles = {"a": HALF, "b": WorkloadProfile(200 * MS, (PhaseSpec(0, 50 * MS, 40 * GBPS),), ())}
    figure = link_circle_figure(COMPONENT, LINK, profiles, 50 * GBPS)
    before, after = (axes.get_title() for axes in figure.axes)
    # Both start at once: 30 of 50 Gbps too much for 50 of 200 ms.
    assert "mean excess 15.0% of the link" in before
    assert "mean excess 0.0% of the link" in after
    assert "b 50 ms" in figure.get_suptitle()


def test_a_link_without_a_circle_says_why() -> None:
    alone = Component(
        jobs=("a", "b"),
        links=(0,),
        reference="a",
        score=0.9,
        origin=None,
        circle={},
        gain=None,
        why_none="periods have no common multiple",
        kept=False,
    )
    with pytest.raises(InputError, match="no common multiple"):
        link_circle_figure(alone, LINK, {"a": HALF, "b": HALF}, 50 * GBPS)
