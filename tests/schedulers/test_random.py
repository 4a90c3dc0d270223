"""Random puts jobs on free GPUs and leaves them there."""

from collections.abc import Callable
from itertools import chain

from hocket.schedulers import State
from hocket.schedulers.random_placement import RandomPlacement

MakeState = Callable[..., State]


def test_new_jobs_get_the_requested_gpus_and_others_stay(make_state: MakeState) -> None:
    decision = RandomPlacement(seed=1).schedule(make_state(old=((0, 5), 2), a=((), 3), b=((), 2)), 1)
    (choice,) = decision.candidates
    assert choice.placement["old"] == (0, 5)
    assert [len(choice.placement[name]) for name in ("a", "b")] == [3, 2]
    used = list(chain.from_iterable(choice.placement.values()))
    assert len(used) == len(set(used)) == 7


def test_a_job_that_does_not_fit_lets_later_ones_pass(make_state: MakeState) -> None:
    state = make_state(old=((0, 1, 2, 3), 4), older=((4,), 1), wide=((), 4), narrow=((), 2))
    (choice,) = RandomPlacement(seed=1).schedule(state, 1).candidates
    assert "wide" not in choice.placement
    assert len(choice.placement["narrow"]) == 2


def test_candidates_differ_in_new_jobs_alone_and_change_no_own_choice(make_state: MakeState) -> None:
    state = make_state(old=((0,), 1), new=((), 2))
    alone = RandomPlacement(seed=7).schedule(state, 1)
    several = RandomPlacement(seed=7).schedule(state, 10)
    assert several.candidates[0] == alone.candidates[0]
    assert len({each.placement["new"] for each in several.candidates}) > 1
    assert {each.placement["old"] for each in several.candidates} == {(0,)}


def test_places_depend_on_the_seed_alone(make_state: MakeState) -> None:
    state = make_state(a=((), 4))
    places = [RandomPlacement(seed).schedule(state, 1).candidates[0].placement["a"] for seed in (1, 1, 2, 3)]
    assert places[0] == places[1]
    assert len(set(places)) > 1


def test_every_gpu_is_equally_likely(make_state: MakeState) -> None:
    state = make_state(a=((), 2))
    drawn = [RandomPlacement(seed).schedule(state, 1).candidates[0].placement["a"] for seed in range(800)]
    counts = [sum(gpu in gpus for gpus in drawn) for gpu in range(8)]
    # Each is in 800 × 2/8 = 200 of them, with a standard deviation of √(800 × 1/4 × 3/4) = 12.
    assert all(abs(count - 200) < 4 * 12.3 for count in counts)
