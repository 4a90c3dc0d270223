"""Pictures of runs and sweeps: who uses the link when, with shifts beside without, and iterations by key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

from hocket import InputError, Plan, parse_plan, simulate, sweep
from hocket.engines.link_use import link_use
from hocket.figures.run import run_figure
from hocket.figures.sweep import sweep_figure
from hocket.plan import Engine

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


def test_numbers_of_an_axis_keep_their_distances() -> None:
    swept = sweep(two_jobs().to_dict(), {"jobs[0].priority": [0, 1, 5]}, cache=False, workers=1)
    (panel,) = sweep_figure(swept).axes
    assert np.asarray(panel.lines[0].get_xdata()).tolist() == [0, 1, 5]


def test_run_and_sweep_write_the_picture_that_is_asked_for(hocket: Command, tmp_path: Path) -> None:
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
    assert "--figure: is for plans" in outcome.err


def test_a_run_without_an_iteration_is_refused() -> None:
    plan = two_jobs()
    run = simulate(plan)
    empty = {**run.tables, "jobs": run.tables["jobs"].with_columns(mean_iteration_s=pl.lit(None, pl.Float64))}
    with pytest.raises(InputError, match="no job of the run has finished an iteration"):
        link_use(plan, run.__class__(empty, run.manifest))
