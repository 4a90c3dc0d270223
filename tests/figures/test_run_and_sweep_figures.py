"""Figures of runs and sweeps: link use without and with time-shifts, and iteration times by key."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

from hocket import InputError, Plan, parse_plan, simulate, sweep
from hocket.engines.link_use import link_use
from hocket.figures.iterations import shown_jobs
from hocket.figures.palette import job_colour
from hocket.figures.run import run_figure
from hocket.figures.sweep import sweep_figure
from hocket.plan import Engine
from hocket.sweeps.link_use import MOST_COMBINATIONS, uses_of_combinations

Command = Callable[..., Any]
GBPS = 10**9

# Two jobs that send half of the time: at once they share the link, by turns each has all of it.
HALF = {"period": "100 ms", "up": [{"start": "0 ms", "duration": "50 ms", "rate": "40 Gbps"}]}


def two_jobs(**second: object) -> Plan:
    jobs = [{"name": "a", **HALF}, {"name": "b", **HALF, **second}]
    return parse_plan({"link": {"capacity": "40 Gbps"}, "run": {"iterations": 20}, "jobs": jobs})


def shifted_jobs() -> Plan:
    plan = two_jobs(time_shift="50 ms")
    return plan.replace(jobs=[plan.jobs[0].replace(time_shift="0 ms"), plan.jobs[1]])


def rates_gbps(rates: pl.DataFrame, job: str, begin_s: float) -> set[float]:
    shown = rates.filter(pl.col("job") == job, pl.col("start_s") >= begin_s)
    return set((shown["rate_bps"] / GBPS).round(1))


def test_jobs_without_shifts_halve_the_link_and_shifted_ones_take_turns() -> None:
    plan = shifted_jobs()
    uses = link_use(plan, simulate(plan))
    assert list(uses) == ["sharing", "shifted"]
    for job in ("a", "b"):
        assert {0.0, 20.0} <= rates_gbps(uses["sharing"].rates, job, uses["sharing"].begin_s)
        assert {0.0, 40.0} <= rates_gbps(uses["shifted"].rates, job, uses["shifted"].begin_s)
        assert 40.0 not in rates_gbps(uses["sharing"].rates, job, uses["sharing"].begin_s)


def test_either_engine_shows_what_iterations_carry() -> None:
    plan = two_jobs()
    for engine in get_args(Engine):
        run = simulate(plan, engine=engine)
        (use,) = link_use(plan, run, engine=engine).values()
        shown = use.rates.filter(pl.col("start_s").is_between(use.begin_s, use.end_s))
        carried = shown.group_by("start_s").agg(pl.col("rate_bps").sum())["rate_bps"] / use.capacity_bps
        # Both send 50 ms' worth of the link in each iteration.
        iteration_s = run.tables["jobs"]["mean_iteration_s"].to_numpy().mean()
        assert carried.to_numpy().mean() == pytest.approx(0.1 / iteration_s, rel=0.1), engine
        assert carried.to_numpy().max() <= 1.01, engine


def test_a_job_keeps_its_colour_if_another_finished_nothing() -> None:
    plan = two_jobs()
    run = simulate(plan)
    only_b = {**run.tables, "iterations": run.tables["iterations"].filter(job="b")}
    shown, count = shown_jobs(run.__class__(only_b, run.manifest))
    assert (shown, count) == ({"b": job_colour(1)}, 1)


def test_a_plan_without_shifts_has_one_panel_above_its_iterations() -> None:
    plan = two_jobs()
    run = simulate(plan)
    figure = run_figure(run, link_use(plan, run), "my plan")
    use, times = figure.axes
    assert figure.get_suptitle() == "my plan"
    assert use.get_title(loc="left") == "link use"
    assert {line.get_label() for line in times.lines} == {"a", "b"}
    assert np.asarray(times.lines[0].get_ydata()).tolist() == pytest.approx([150.0] * 20)


def test_on_a_fabric_the_link_that_most_jobs_share_is_drawn() -> None:
    plan = parse_plan(
        {
            "fabric": {"dumbbell": {"left": 2, "right": 2, "nic": "40 Gbps", "bottleneck": "40 Gbps"}},
            "run": {"iterations": 10},
            "jobs": [
                {"name": "a", **HALF, "placement": ["s0", "s2"]},
                {"name": "b", **HALF, "placement": ["s1", "s3"]},
            ],
        }
    )
    (use,) = link_use(plan, simulate(plan)).values()
    assert (use.link, use.capacity_bps, use.shared_links) == ("left->right", 40 * GBPS, 2)


def test_a_sweep_has_a_point_for_each_value_and_a_panel_for_each_other_key() -> None:
    axes: dict[str, list[object]] = {
        "jobs[1].time_shift": [None, "50 ms"],
        "link.capacity": ["40 Gbps", "80 Gbps"],
    }
    swept = sweep(two_jobs().to_dict(), axes, cache=False, workers=1)
    figure = sweep_figure(swept, "my sweep")
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "link.capacity = 40 Gbps",
        "link.capacity = 80 Gbps",
    ]
    narrow, wide = figure.axes
    assert [text.get_text() for text in narrow.get_xticklabels()] == ["not given", "50 ms"]
    assert np.asarray(narrow.lines[0].get_ydata()).tolist() == pytest.approx([150.0, 100.0], rel=0.06)
    assert np.asarray(wide.lines[0].get_ydata()).tolist() == pytest.approx([100.0, 100.0])
    assert narrow.get_ylim()[0] == 0
    assert narrow.get_ylim()[1] > 150


def test_a_sweep_of_few_combinations_shows_link_use_in_each() -> None:
    axes: dict[str, list[object]] = {
        "jobs[1].time_shift": ["0 ms", "50 ms"],
        "link.capacity": ["40 Gbps", "80 Gbps"],
    }
    swept = sweep(two_jobs().to_dict(), axes, seeds=2, cache=False, workers=1)
    uses = uses_of_combinations(swept)
    shared, half_wide, shifted, _ = uses
    assert shared == "jobs[1].time_shift = 0 ms, link.capacity = 40 Gbps"
    # At once, jobs halve a link of 40 Gbps, and both have all they want of one of 80; in turns, of either.
    for name, rate_gbps, together_gbps in ((shared, 20, 40), (half_wide, 40, 80), (shifted, 40, 40)):
        rates = uses[name].rates.filter(pl.col("start_s") > uses[name].begin_s)
        assert rate_gbps in rates_gbps(rates, "a", 0)
        sums = rates.group_by("start_s").agg(pl.col("rate_bps").sum())["rate_bps"] / GBPS
        assert sums.max() == pytest.approx(together_gbps, rel=0.01), name
    figure = sweep_figure(swept, "my sweep", uses)
    panels = figure.axes[2:]
    assert [panel.get_title(loc="left") for panel in panels] == [name.replace(", ", "\n") for name in uses]
    assert len({panel.get_xlim() for panel in panels}) == 1
    assert [panel.get_ylim()[1] for panel in panels] == pytest.approx([1.08 * 80] * 4)


def test_a_sweep_of_many_combinations_shows_no_link() -> None:
    shifts = [f"{number} ms" for number in range(MOST_COMBINATIONS + 1)]
    swept = sweep(two_jobs().to_dict(), {"jobs[1].time_shift": shifts}, cache=False, workers=1)
    assert uses_of_combinations(swept) == {}


def test_a_combination_that_failed_or_sends_nothing_has_no_panel() -> None:
    ups: list[object] = [HALF["up"], [], "what"]
    swept = sweep(two_jobs().to_dict(), {"jobs.*.up": ups}, cache=False, workers=1)
    failed = swept.table.select("combination", pl.lit("failed").alias("status"))
    assert uses_of_combinations(replace(swept, table=failed)) == {}
    (use,) = uses_of_combinations(swept).values()
    assert {20.0} <= rates_gbps(use.rates, "a", use.begin_s)
    assert swept.plans[2] is None


def test_a_percentile_is_named_where_it_is_visible() -> None:
    plan = two_jobs(time_shift="10 ms").to_dict()
    swept = sweep(plan, {"jobs.*.jitter": [0.0, 0.1]}, cache=False, workers=1)
    said = [text.get_text() for text in sweep_figure(swept).axes[0].texts]
    assert "dashed: 99th percentile" in said
    alike = sweep(plan, {"jobs.*.jitter": [0.0]}, cache=False, workers=1)
    table = alike.table.with_columns(p99_iteration_s=pl.col("mean_iteration_s"))
    same = sweep_figure(replace(alike, table=table))
    assert "dashed: 99th percentile" not in [text.get_text() for text in same.axes[0].texts]


def test_numbers_of_an_axis_keep_their_distances() -> None:
    swept = sweep(two_jobs().to_dict(), {"jobs[0].priority": [0, 1, 5]}, cache=False, workers=1)
    (panel,) = sweep_figure(swept).axes
    assert np.asarray(panel.lines[0].get_xdata()).tolist() == [0, 1, 5]


def test_run_and_sweep_write_the_requested_figure(hocket: Command, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(two_jobs(time_shift="50 ms").to_dict()))
    outcome = hocket("run", path, "--out", tmp_path / "run", "--figure", tmp_path / "run.png")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    figure = tmp_path / "sweep.svg"
    outcome = hocket("sweep", path, "--set", "seed=1,2", "--no-cache", "--workers", 1, "--figure", figure)
    assert outcome.code == 0, outcome.err
    assert figure.read_text().startswith("<?xml")


def test_a_study_has_no_plan_to_draw(hocket: Command, tmp_path: Path) -> None:
    study = Path(__file__).parents[2] / "examples" / "hpcc" / "config.txt"
    outcome = hocket("run", study, "--figure", tmp_path / "run.png")
    assert outcome.code == 2
    assert "--figure: works only with plans" in outcome.err


def test_a_run_without_an_iteration_is_refused() -> None:
    plan = two_jobs()
    run = simulate(plan)
    empty = {**run.tables, "jobs": run.tables["jobs"].with_columns(mean_iteration_s=pl.lit(None, pl.Float64))}
    with pytest.raises(InputError, match="no job of the run has finished an iteration"):
        link_use(plan, run.__class__(empty, run.manifest))
