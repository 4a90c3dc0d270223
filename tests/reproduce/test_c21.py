"""C21: the counter as a poller reads it, and profiles from these readings."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from hocket.engines.run import simulate
from hocket_reproduce.targets import Reproduction
from hocket_reproduce.targets.c21 import (
    INTERVAL_S,
    LIFESPAN_S,
    Setting,
    counter,
    measure,
    reading_times_s,
    refreshed_s,
)
from hocket_reproduce.targets.setting import link_plan


def test_a_value_is_kept_for_its_lifespan() -> None:
    readings_s = reading_times_s(1.0)
    refreshed = refreshed_s(readings_s)
    assert len(readings_s) == 199
    assert np.all(np.diff(readings_s) > 0)
    assert np.all(readings_s - refreshed < LIFESPAN_S)
    assert all(later - earlier >= LIFESPAN_S for earlier, later in pairwise(np.unique(refreshed).tolist()))


def test_the_counter_counts_sent_bytes_in_words_of_four() -> None:
    job = {**Setting("VGG16", "data", 1400, 2).job, "arrival": "0 s"}
    frame = counter(simulate(link_plan("alone", [job], iterations=10, rates_until="10 s")))
    # VGG16 sends 536.5 MB in each of ten iterations; the last refresh may be one lifespan before the end.
    missing = 10 * 536.5e6 - 4 * int(frame["port_xmit_data"][-1])
    assert 0 <= missing <= 29e9 / 8 * (LIFESPAN_S + 2 * INTERVAL_S)


def test_a_measured_profile_matches_the_catalogue() -> None:
    measured = measure(Setting("VGG19", "data", 1400, 2))
    assert measured.sure
    assert max(measured.errors()) < 0.01


@pytest.fixture
def rows(rerun: Callable[[str], Reproduction]) -> dict[str, float | str]:
    return {row.quantity: row.ours for row in rerun("C21").rows}


def test_no_sure_profile_is_wrong(rows: dict[str, float | str]) -> None:
    assert rows["sure profiles whose period is off by more than 1.0%"] == 0
    assert float(rows["profiles that are sure"]) >= 40


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_shifts_from_measured_profiles_score_as_well_as_those_from_true_ones(
    rows: dict[str, float | str], rerun: Callable[[str], Reproduction], number: int
) -> None:
    truth = {row.quantity: row.paper for row in rerun("C21").rows}
    quantity = f"snapshot {number}: score of the shifts"
    assert rows[quantity] == pytest.approx(truth[quantity], abs=0.005)
