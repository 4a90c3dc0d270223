"""Figures show what they are given: the arithmetic behind them by hand, and their labels."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes

from hocket import compatibility, simulate
from hocket.figures import save
from hocket.figures.circles import compatibility_figure, demand
from hocket.figures.palette import EXCESS_COLOUR, JOB_COLOURS, styles
from hocket.figures.timeline import panel_of, rates_over, timeline_figure
from hocket_reproduce.figures.affinity import affinity_figure
from hocket_reproduce.figures.cdf import CdfPanel, cdf_figure
from hocket_reproduce.figures.comparison import Pair, comparison_figure
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets.fabrics import chain, fig_7_jobs

MS = 10**9
GBPS = 10**9


def two_jobs(up_ms: int) -> dict[str, Any]:
    up = [{"start": "0 ms", "duration": f"{up_ms} ms", "rate": "40 Gbps"}]
    return {
        "link": {"capacity": "50 Gbps"},
        "run": {"iterations": 5, "record_rates_until": "1 s"},
        "jobs": [
            {"name": "first", "period": "40 ms", "up": up},
            {"name": "second", "period": "60 ms", "up": up},
        ],
    }


def texts(figure: Figure) -> str:
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        legend = axes.get_legend()
        legends += list(axes.texts) + (list(legend.get_texts()) if legend else [])
        legends += [axes.title, axes.xaxis.label, axes.yaxis.label, axes._left_title]  # type: ignore[attr-defined]
    return "\n".join([figure.get_suptitle(), *(text.get_text() for text in legends)])


def test_demand_around_the_circle_adds_every_iteration_of_every_job() -> None:
    around = demand(compatibility(two_jobs(10)).jobs, shifted=False)
    starts_ms, total_gbps = around.edges_ps[:-1] // MS, around.rates_bps.sum(axis=0) // GBPS
    steps = dict(zip(starts_ms.tolist(), total_gbps.tolist(), strict=True))
    assert steps == {0: 80, 10: 0, 40: 40, 50: 0, 60: 40, 70: 0, 80: 40, 90: 0}


def test_an_up_phase_across_the_zero_angle_is_cut_and_keeps_its_length() -> None:
    jobs = compatibility(two_jobs(10)).jobs
    late = [job.__class__(**{**job.__dict__, "time_shift_ps": 35 * MS}) for job in jobs[:1]]
    around = demand(late, shifted=True)
    sending = np.diff(around.edges_ps)[around.rates_bps[0] > 0].sum()
    assert around.rates_bps[0, 0] == 40 * GBPS
    assert sending == 3 * 10 * MS


def test_circles_name_the_jobs_the_score_and_the_excess() -> None:
    answer = compatibility(two_jobs(10))
    shown = texts(compatibility_figure(answer))
    assert "first: 40 ms" in shown
    assert "above the capacity" in shown
    assert "sharing: mean excess 5.0% of the link" in shown
    assert "shifted: mean excess 0.0% of the link" in shown
    shifts_ms = {name: 1e3 * shift_s for name, shift_s in answer.time_shifts_s.items() if shift_s}
    assert all(f"ms, shifted by {shift_ms:.4g} ms" in shown for shift_ms in shifts_ms.values())
    assert len(shifts_ms) == 1


def test_circles_of_jobs_that_fit_anyway_show_no_excess() -> None:
    plan = two_jobs(10)
    plan["link"] = {"capacity": "100 Gbps"}
    assert "above the capacity" not in texts(compatibility_figure(compatibility(plan)))


def test_circles_run_clockwise_with_round_times() -> None:
    (axes, _) = compatibility_figure(compatibility(two_jobs(10)), "my plan").axes
    assert isinstance(axes, PolarAxes)
    # Twelve o'clock is 90° from the x-axis, and a clock counts against angles.
    assert axes.get_theta_offset() == pytest.approx(np.pi / 2)
    assert axes.get_theta_direction() == -1
    times = [text.get_text() for text in axes.texts if text.get_text()]
    assert times == ["0 ms", "10", "20", "30", "40", "50", "60", "70", "80", "90", "100", "110"]


def test_the_title_of_circles_names_the_plan_and_the_score() -> None:
    title = compatibility_figure(compatibility(two_jobs(10)), "my plan").get_suptitle()
    assert title == "my plan\nscore 1.000, capacity 50 Gbps, circle of 120 ms"


def test_labels_around_a_circle_do_not_touch() -> None:
    for period_ms in (33, 100, 330, 997):
        plan = two_jobs(10)
        plan["jobs"] = [{**job, "period": f"{period_ms} ms"} for job in plan["jobs"]]
        figure = compatibility_figure(compatibility(plan))
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for axes in figure.axes for text in axes.texts if text.get_text()]
        boxes += [axes.title.get_window_extent() for axes in figure.axes]
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2)), period_ms


def test_jobs_without_time_shifts_have_one_circle() -> None:
    plan = two_jobs(10)
    plan["link"] = {"capacity": "100 Gbps"}
    figure = compatibility_figure(compatibility(plan))
    assert [axes.get_title() for axes in figure.axes] == ["without shifts: mean excess 0.0% of the link"]


def test_a_scheduler_has_the_same_colour_beside_any_other() -> None:
    alone, beside = styles(["themis"]), styles(["pollux", "random", "themis+cassini", "themis"])
    assert alone["themis"] == beside["themis"]
    assert beside["themis"].colour == beside["themis+cassini"].colour
    assert beside["themis"].line != beside["themis+cassini"].line
    assert len({(style.colour, style.line) for style in beside.values()}) == 4


def test_no_series_shares_its_style_with_another() -> None:
    names = ["themis", "Themis", "sharing", *"abcdefghijklmnop"]
    drawn = styles(names)
    others = [drawn[name] for name in names[3:]]
    assert len(set(others)) == len(others)
    assert drawn["themis"] == drawn["Themis"]
    assert not {style.colour for style in others} & {drawn["themis"].colour, drawn["sharing"].colour}


def test_no_job_has_the_colour_of_the_excess() -> None:
    assert EXCESS_COLOUR not in JOB_COLOURS
    assert len(set(JOB_COLOURS)) == len(JOB_COLOURS)


def test_circles_of_a_fabric_are_those_of_its_worst_link() -> None:
    answer = compatibility(chain(fig_7_jobs()))
    worst = min(answer.links, key=lambda link: link.score)
    figure = compatibility_figure(answer)
    shown = texts(figure)
    assert worst.name in figure.get_suptitle()
    others = {job.name for job in answer.jobs} - set(worst.jobs)
    assert others
    assert not any(text.startswith(f"{name}:") for text in shown for name in others)


def test_rates_hold_from_their_row_to_the_next_one() -> None:
    table = pl.DataFrame(
        {"job": ["a", "b", "a", "a"], "start_s": [0.0, 10.0, 20.0, 20.0], "rate_bps": [5, 7, 1, 2]}
    )
    edges, steps = rates_over(table, ["a", "b", "c"], 5, 30)
    assert edges.tolist() == [5, 10, 20, 30]
    assert steps.tolist() == [[5, 5, 2], [0, 7, 7], [0, 0, 0]]


def test_a_timeline_stacks_jobs_up_to_the_capacity() -> None:
    run = simulate(two_jobs(10))
    figure = timeline_figure([panel_of(run, "both", 0.0, 0.12)], 50 * GBPS, "rates")
    shown = texts(figure)
    assert "first" in shown
    assert "time (ms)" in shown
    assert "rate (Gbps)" in shown
    areas = [path for each in figure.axes[0].collections for path in each.get_paths()]
    highest = max(float(np.asarray(area.vertices)[:, 1].max()) for area in areas)
    assert highest == pytest.approx(50.0)


def test_other_figures_carry_their_labels_and_units() -> None:
    figures = {
        "iteration (ms)": cdf_figure(
            [CdfPanel("J1", {"fair": [1.0, 2.0], "unfair": [1.0]})], "iteration (ms)"
        ),
        "clock error (ms)": lines_figure(
            [LinesPanel("mean", "clock error (ms)", "time (ms)", [0, 1], {"agent": [1, 2]}, reference=1.5)]
        ),
        "time (ms)": comparison_figure([("group 1", [Pair("BERT", 183, 199.6)])], "time (ms)"),
        "140.8 ms": affinity_figure({"l1": {"j1": 0.0, "j2": 140.8}}, {"j1": 0.0, "j2": 140.8}),
    }
    for expected, figure in figures.items():
        assert expected in texts(figure)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_figures_are_written_in_the_format_of_the_suffix(tmp_path: Path, suffix: str) -> None:
    path = save(compatibility_figure(compatibility(two_jobs(10))), tmp_path / f"circles{suffix}")
    assert path.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")


def test_an_svg_has_its_text_as_text_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = (
        save(compatibility_figure(compatibility(two_jobs(10))), tmp_path / name)
        for name in ("first.svg", "second.svg")
    )
    assert first.read_bytes() == second.read_bytes()
    assert ">sum of all jobs</text>" in first.read_text(encoding="utf-8")
