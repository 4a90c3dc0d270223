"""FIFO starts jobs in order of arrival, packed, and lets nobody pass."""

from collections.abc import Callable

import pytest

from hocket.errors import InputError
from hocket.schedulers import State
from hocket.schedulers.fifo import Fifo

MakeState = Callable[..., State]


def test_a_job_fills_the_rack_that_it_fits_best(make_state: MakeState) -> None:
    # Racks are 0–1, 2–3, 4–5 and 6–7.
    state = make_state(old=((0,), 1), pair=((), 2), single=((), 1))
    (choice,) = Fifo(seed=1).schedule(state, 1).candidates
    assert choice.placement == {"old": (0,), "pair": (2, 3), "single": (1,)}


def test_a_job_larger_than_a_rack_takes_whole_racks(make_state: MakeState) -> None:
    (choice,) = Fifo(seed=1).schedule(make_state(old=((0,), 1), wide=((), 4)), 1).candidates
    assert choice.placement["wide"] == (2, 3, 4, 5)


def test_a_job_that_does_not_fit_holds_up_all_later_ones(make_state: MakeState) -> None:
    state = make_state(old=((0, 1, 2, 3), 4), older=((4,), 1), wide=((), 4), narrow=((), 2))
    (choice,) = Fifo(seed=1).schedule(state, 1).candidates
    assert (choice.placement["wide"], choice.placement["narrow"]) == ((), ())


def test_candidates_have_as_many_servers_and_racks(make_state: MakeState) -> None:
    # A new job of one worker has a rack with `old`, a rack with `other`, or a rack to itself.
    state = make_state(old=((0,), 1), other=((2,), 1), new=((), 1))
    decision = Fifo(seed=1).schedule(state, 10)
    racks = {each.placement["new"][0] // 2 for each in decision.candidates}
    assert len(decision.candidates) == len(racks) == 3
    assert {0, 1} < racks
    # Four workers could as well be on one GPU in each of four racks, which is less packed.
    wide = Fifo(seed=1).schedule(make_state(old=((0,), 1), wide=((), 4)), 10)
    assert {len({gpu // 2 for gpu in each.placement["wide"]}) for each in wide.candidates} == {2}


def test_running_jobs_stay_in_all_candidates(make_state: MakeState) -> None:
    state = make_state(old=((0, 3), 2), a=((), 2), b=((), 2))
    decision = Fifo(seed=1).schedule(state, 10)
    assert {each.placement["old"] for each in decision.candidates} == {(0, 3)}


def test_a_job_larger_than_the_cluster_is_an_error(make_state: MakeState) -> None:
    with pytest.raises(InputError, match="huge: needs 9 workers, but the cluster has 8 GPUs"):
        Fifo(seed=1).schedule(make_state(huge=((), 9)), 1)
