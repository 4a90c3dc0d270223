"""B1 at a smaller size: 64 GPUs, one seed."""

from dataclasses import replace
from statistics import mean

import pytest

from hocket.cluster.trace import parse_trace
from hocket_reproduce.targets import b1
from hocket_reproduce.targets.b1 import (
    FIFO,
    MONKEYTREE,
    PERFECT,
    POLICIES,
    RANDOM,
    RANDOM_MONKEYTREE,
    UNCONTENDED,
    Case,
    Outcome,
    Setting,
)

SMALL = Setting(64, 16, 1.0)
NAMES = (FIFO, PERFECT, MONKEYTREE, RANDOM, RANDOM_MONKEYTREE)


@pytest.fixture(scope="module")
def outcomes() -> dict[Case, Outcome]:
    return {case: case.run() for case in b1.cases({SMALL: NAMES}, [1])}


def test_a_setting_has_the_over_subscription_that_it_names() -> None:
    for ratio, cables in ((1, 16), (4, 4), (16, 1)):
        clos = Setting(256, ratio).trace(1)["fabric"]["clos"]
        assert clos["spines"] * clos["cables_per_spine"] == cables
        assert len(parse_trace(Setting(256, ratio).trace(1)).cluster.gpus) == 256


def test_the_settings_vary_one_thing_at_a_time_and_each_has_what_it_is_compared_with() -> None:
    compared = b1.grid()
    for setting in compared:
        changed = sum(getattr(setting, key) != getattr(b1.BASE, key) for key in ("gpus", "ratio", "load"))
        assert changed <= 1 or setting == b1.LARGEST
    assert set(compared[b1.SMALLEST]) == set(POLICIES) - {UNCONTENDED}
    runs = b1.cases(compared, [1, 2])
    assert len(set(runs)) == len(runs)
    assert all(Case(case.setting.uncontended, UNCONTENDED, case.seed) in runs for case in runs)


def test_no_two_jobs_contend_without_over_subscription(outcomes: dict[Case, Outcome]) -> None:
    alone = outcomes[Case(SMALL.uncontended, UNCONTENDED, 1)]
    assert alone.contending == 0
    assert alone.slowdown == pytest.approx(1, abs=1e-3)


def test_migration_relieves_a_small_cluster(outcomes: dict[Case, Outcome]) -> None:
    fifo, migrating = (outcomes[Case(SMALL, name, 1)] for name in (FIFO, MONKEYTREE))
    assert fifo.slowdown > 1.001
    assert migrating.slowdown < fifo.slowdown
    assert (fifo.migrated, migrating.migrated > 0) == (0, True)


def test_every_quantity_appears_once_and_differences_are_explained(
    outcomes: dict[Case, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    # All settings of the claims and of the figure are the small one, or have its outcomes.
    for name in ("BASE", "SMALLEST", "LARGEST"):
        monkeypatch.setattr(b1, name, SMALL)
    for name in ("RATIOS", "LOADS", "SIZES"):
        monkeypatch.setattr(b1, name, (SMALL,))
    every = {
        Case(replace(case.setting, load=load), case.scheduler, 1): outcome
        for case, outcome in outcomes.items()
        for load in (0.7, 0.8, 1.0)
    }
    reproduction = b1.reproduction(every, [1])
    quantities = [each.quantity for each in reproduction.rows]
    assert len(set(quantities)) == len(quantities)
    assert [each.quantity for each in reproduction.rows if each.differs and not each.comment] == []
    assert reproduction.figure is not None
    assert all(axes.has_data() for axes in reproduction.figure().axes)


def test_the_next_best_is_placed_alike_and_does_not_migrate(outcomes: dict[Case, Outcome]) -> None:
    found = b1.Measured(outcomes, [1])
    best, gain = b1.over_next_best(found, SMALL, RANDOM, RANDOM_MONKEYTREE)
    assert best == RANDOM
    over, under = (outcomes[Case(SMALL, name, 1)].completions_s for name in (RANDOM, RANDOM_MONKEYTREE))
    assert gain.mean == pytest.approx(mean(over) / mean(under))
    assert gain.mean > 1.05


def test_runs_in_processes_of_their_own_are_the_same(outcomes: dict[Case, Outcome]) -> None:
    case = Case(SMALL, MONKEYTREE, 1)
    assert b1.measured([case], lambda doing: None) == {case: outcomes[case]}
