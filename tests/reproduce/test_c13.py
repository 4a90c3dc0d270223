"""C13 and C14 at a smaller size, and the statistics that reproductions of NSDI'24 §5 share."""

from pathlib import Path

import numpy as np
import pytest
from tests.reproduce.conftest import quiet

from hocket.cluster.trace import load_trace, parse_trace
from hocket_reproduce.targets import c13
from hocket_reproduce.targets.cluster import (
    IDEAL,
    RANDOM,
    TH_CASSINI,
    THEMIS,
    ConfiguredScheduler,
    Outcomes,
    SchedulerRun,
    estimate,
    outcome,
    outcomes,
    over_time,
    overlaid,
    percentile,
    ratio,
    row,
)
from hocket_reproduce.targets.setting import Tables

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
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
    reproduction = c13.reproduce_c14(quiet, seeds=[1])
    quantities = [each.quantity for each in reproduction.rows]
    assert len(set(quantities)) == len(quantities)
    assert [each.quantity for each in reproduction.rows if each.differs and not each.comment] == []
    assert reproduction.figure is not None
    assert all(axes.has_data() for axes in reproduction.figure().axes)


@pytest.mark.parametrize("name", c13.SENSITIVITIES)
def test_every_sensitivity_changes_the_trace(name: str) -> None:
    changes, (_, augmented) = c13.SENSITIVITIES[name]
    changed = parse_trace(augmented.trace(overlaid(c13.MIXED, changes), 1))
    usual = parse_trace(augmented.trace(c13.MIXED, 1))
    assert changed.resolved() != usual.resolved()


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
