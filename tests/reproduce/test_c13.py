"""C13 and C14 at a smaller size, and the statistics that reproductions of NSDI'24 §5 share."""

from pathlib import Path

import numpy as np
import pytest
from tests.reproduce.conftest import quiet

from hocket.cluster.trace import load_trace, parse_trace
from hocket.schedulers.state import ClusterJob
from hocket_reproduce.targets import c13
from hocket_reproduce.targets.cluster import (
    IDEAL,
    RANDOM,
    TH_CASSINI,
    THEMIS,
    ConfiguredScheduler,
    Outcomes,
    Published,
    SchedulerRun,
    estimate,
    factor_rows,
    outcome,
    outcomes,
    over_time,
    overlaid,
    pair_rows,
    percentile,
    ratio,
    reading_rows,
    row,
    sensitivity_rows,
    single_row,
)
from hocket_reproduce.targets.setting import Tables

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
FACTORS = Published(1.6, 1.8)
SHORT = overlaid(c13.MIXED, {"poisson": {"duration": "20 min"}})


@pytest.fixture(scope="module")
def short() -> Outcomes:
    return outcomes(SHORT, [THEMIS, TH_CASSINI, RANDOM, IDEAL], quiet, seeds=[1])


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        (c13.MIXED, "poisson"),
        (c13.MODEL_PARALLEL, "poisson_model_parallel"),
        (c13.NO_WAY_OUT, "no_help"),
    ],
)
def test_the_traces_are_those_of_the_examples(tables: Tables, name: str) -> None:
    example, ours = load_trace(EXAMPLES / f"{name}.toml"), parse_trace(tables)
    assert ours.jobs == example.jobs
    assert ours.network.links == example.network.links


def test_ideal_has_no_slowdown_and_random_more_than_themis(short: Outcomes) -> None:
    (ideal,), (themis,), (random,) = (short[each.name] for each in (IDEAL, THEMIS, RANDOM))
    assert ideal.slowdown == pytest.approx(1, abs=0.01)
    assert 1 <= themis.slowdown < random.slowdown
    assert ideal.p99_slowdown < themis.p99_slowdown


def test_only_jobs_on_shared_links_are_slowed(short: Outcomes) -> None:
    (random,) = short[RANDOM.name]
    assert 0 < random.shared <= 1
    alone = outcome(c13.ONE_WORKER, THEMIS, 1)
    assert alone.shared == 0
    assert alone.slowdown == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("tables", [c13.ONE_WORKER, c13.NO_WAY_OUT], ids=["one worker", "no way out"])
def test_cassini_does_no_harm_where_it_cannot_help(tables: Tables) -> None:
    without, with_cassini = (outcome(tables, each, 1) for each in (THEMIS, TH_CASSINI))
    assert without.iterations.equals(with_cassini.iterations)


def test_two_jobs_that_no_placement_keeps_apart_share_a_link_nearly_all_the_time() -> None:
    both = outcome(c13.NO_WAY_OUT, THEMIS, 1)
    assert both.shared > 0.99
    # Each demands 40 of 50 Gbps in most of its iteration, and gets 25 while both send.
    assert 1.3 < both.slowdown < 1.6


def test_every_quantity_appears_once_and_differences_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        c13, "MODEL_PARALLEL", overlaid(c13.MODEL_PARALLEL, {"poisson": {"duration": "15 min"}})
    )
    monkeypatch.setattr(c13, "READINGS", {"longer jobs": {"poisson": {"iterations": [400, 2_000]}}})
    reproduction = c13.reproduce_c14(quiet, seeds=[1])
    quantities = [each.quantity for each in reproduction.rows]
    assert len(set(quantities)) == len(quantities)
    assert [each.quantity for each in reproduction.rows if each.differs and not each.comment] == []
    assert reproduction.figure is not None
    assert all(axes.has_data() for axes in reproduction.figure().axes)


@pytest.mark.parametrize("name", c13.SENSITIVITIES)
def test_every_sensitivity_changes_the_trace(name: str) -> None:
    changes, (_, augmented, *_) = c13.SENSITIVITIES[name]
    changed = parse_trace(augmented.trace(overlaid(c13.MIXED, changes), 1))
    usual = parse_trace(augmented.trace(c13.MIXED, 1))
    assert changed.resolved() != usual.resolved()


def run_time_min(job: ClusterJob) -> float:
    """The run time of a job alone, on the workers that it was submitted with."""
    workers = job.requested
    return job.iterations(job.samples, workers) * job.profile(workers).period_ps / 60e12


def test_jobs_of_the_second_reading_live_through_several_epochs_and_are_about_as_many() -> None:
    first, second = (parse_trace(overlaid(c13.MIXED, each)) for each in ({}, c13.LONG_JOBS))
    assert np.median([run_time_min(job) for job in first.jobs]) < 10, "an epoch of NSDI'24 §5.1"
    assert np.median([run_time_min(job) for job in second.jobs]) > 2 * 10
    assert abs(len(second.jobs) - len(first.jobs)) < 0.3 * len(first.jobs)


def test_a_reading_has_the_papers_factors_beside_its_rows_slowdowns_and_decisions_without_a_choice() -> None:
    tiny: Tables = {"poisson": {"duration": "10 min"}}
    rows = {each.quantity: each for each in reading_rows(c13.MIXED, {"tiny": tiny}, FACTORS, quiet, [1])}
    assert rows["tiny: Themis ÷ Th+CASSINI: mean iteration by time"].paper == FACTORS.mean
    assert rows["tiny: Themis ÷ Th+CASSINI (fabric): 99th percentile of iterations"].paper == FACTORS.p99
    assert list(rows)[-3:] == [
        "tiny: Th+CASSINI (fabric): slowdown",
        "tiny: Th+CASSINI: decisions with a single candidate",
        "tiny: Th+CASSINI (fabric): decisions with a single candidate",
    ]


def test_by_time_an_iteration_counts_as_long_as_it_takes(short: Outcomes) -> None:
    rows = {each.quantity: each.ours for each in factor_rows(short, THEMIS, TH_CASSINI, FACTORS)}
    (over,), (under,) = (short[each.name] for each in (THEMIS, TH_CASSINI))
    by_time = [(each.iteration_s**2).sum() / each.iteration_s.sum() for each in (over, under)]
    assert rows["Themis ÷ Th+CASSINI: mean iteration by time"] == pytest.approx(by_time[0] / by_time[1])
    # 99 iterations take 99 s, and the last one 101 of the 200 s.
    times_s = np.array([1.0] * 99 + [101.0])
    assert (percentile(times_s, 50), percentile(times_s, 50, weights=times_s)) == (1.0, 101.0)


def test_without_contention_the_mean_iteration_would_gain_the_slowdown(short: Outcomes) -> None:
    (first, *_) = factor_rows(short, THEMIS, TH_CASSINI, FACTORS, "a reason")
    (themis,) = short[THEMIS.name]
    assert first.comment == f"one seed; without any contention {themis.slowdown:.3g}×; a reason"


def test_a_decision_with_a_single_candidate_leaves_no_choice(short: Outcomes) -> None:
    (run,) = short[TH_CASSINI.name]
    single = single_row(short, TH_CASSINI)
    assert single.ours == pytest.approx(
        100 * run.decisions.filter(candidates=1).height / run.decisions.height
    )
    assert 0 < run.single < 1


def test_rows_of_a_pair_have_mean_and_tail_with_both_slowdowns(short: Outcomes) -> None:
    twice = {name: [*runs, *runs] for name, runs in short.items()}
    rows = list(pair_rows("same", twice, THEMIS, TH_CASSINI, RANDOM))
    assert [each.quantity for each in rows] == [
        f"same: Themis ÷ {other}, {what}"
        for other in ("Th+CASSINI", "Random")
        for what in ("mean slowdown", "99th percentile of slowdowns")
    ]
    (themis,), (random,) = short[THEMIS.name], short[RANDOM.name]
    mean, tail = f"{themis.slowdown:.4g}", f"{random.p99_slowdown:.4g}"
    assert f"slowdowns {mean}× ({mean} to {mean}) and " in rows[0].comment
    assert rows[3].comment.endswith(f" and {tail}× ({tail} to {tail})")


def test_options_of_cassini_do_not_rerun_the_scheduler_without_it(short: Outcomes) -> None:
    told: list[str] = []
    changed = {"no slots": ({"cassini": {"shift_threshold": 1.1}}, (THEMIS, TH_CASSINI))}
    list(sensitivity_rows(SHORT, changed, short, told.append, seeds=[1]))
    assert told == ["no slots: Th+CASSINI, seed 1"]


def test_settings_of_a_scheduler_override_those_of_the_trace() -> None:
    scheduler = ConfiguredScheduler("name", "themis", {"themis": {"workers": "requested"}})
    trace = scheduler.trace({"themis": {"workers": "tuned", "lease": "5 min"}, "seed": 9}, 3)
    assert trace == {"themis": {"workers": "requested", "lease": "5 min"}, "seed": 3}


def test_another_fabric_replaces_the_whole_table() -> None:
    assert overlaid({"fabric": {"testbed": "cassini"}}, {"fabric": {"clos": {}}}) == {"fabric": {"clos": {}}}


def test_an_interval_is_that_of_students_t() -> None:
    # Four values 1, 2, 3, 4: s² = 5/3, and t(97.5%, 3) = 3.182.
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.half == pytest.approx(3.182 * (5 / 3 / 4) ** 0.5)
    assert estimate([2.0]).half is None
    assert row("time", 200, estimate([1.0, 3.0]), "%", "why", scale=100).comment == "95%: -1071 to 1471; why"


def test_a_ratio_is_of_runs_with_the_same_seed(short: Outcomes) -> None:
    (themis,), (random,) = short[THEMIS.name], short[RANDOM.name]
    both = ratio([themis, random], [random, themis], lambda each: each.slowdown)
    one = themis.slowdown / random.slowdown
    assert both.mean == pytest.approx((one + 1 / one) / 2)


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile(np.arange(1.0, 201.0)) == 198.0
    assert percentile(np.array([5.0])) == 5.0


def test_each_minute_has_the_mean_of_the_iterations_that_begin_in_it(short: Outcomes) -> None:
    each: SchedulerRun = short[THEMIS.name][0]
    first = each.iterations["job"][0]
    rows = over_time(each).filter(job=first)
    begun = each.iterations.filter(job=first)
    in_first = begun.filter(begun["start_s"] < 60 * (rows["minute"][0] + 1))
    weights = in_first["count"].to_numpy()
    assert rows["iteration_s"][0] == pytest.approx(
        np.average(in_first["iteration_s"].to_numpy(), weights=weights)
    )
