"""What a scheduler may not answer: each mistake is named with candidate, job, GPU and value."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hocket.errors import InputError
from hocket.schedulers import Candidate, Decision, State
from hocket.schedulers.checks import checked

MakeState = Callable[..., State]


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ({"a": (0, 1), "b": (1,)}, "candidates[0]: GPU s1 is assigned twice: to 'a' and 'b'"),
        ({"a": (3, 3)}, "candidates[0]: GPU s3 is assigned twice: to 'a' and 'a'"),
        ({"a": (0, 8)}, "candidates[0]: job 'a': there is no GPU 8; they are numbered from 0 to 7"),
        ({"a": (-1,)}, "candidates[0]: job 'a': there is no GPU -1; they are numbered from 0 to 7"),
        ({"a": ("s0",)}, "candidates[0]: job 'a': its GPUs must be numbers: got ('s0',)"),
        ({"a": tuple(range(5))}, "candidates[0]: job 'a' gets 5 workers; it runs on 1, 2, 3, 4"),
        ({"c": (0,)}, "candidates[0]: job 'c' is not in the cluster now"),
    ],
)
def test_an_invalid_placement_is_refused(
    make_state: MakeState, placement: Mapping[str, Any], message: str
) -> None:
    state = make_state(a=((), 2), b=((), 1))
    with pytest.raises(InputError) as error:
        checked(Decision([Candidate(placement)]), state)
    assert str(error.value) == message


def test_a_candidate_with_a_missing_worker_is_named(make_state: MakeState) -> None:
    candidates = [Candidate({"a": (0, 1)}), Candidate({"a": (2, 3)}), Candidate({"a": (4,)})]
    with pytest.raises(InputError, match=r"candidates\[2\]: job 'a' gets 1 workers here and 2 in the sched"):
        checked(Decision(candidates), make_state(a=((), 2)))


def test_candidates_keep_batch_sizes(make_state: MakeState) -> None:
    candidates = [Candidate({"a": (0,)}, {"a": 1500}), Candidate({"a": (1,)})]
    with pytest.raises(InputError, match=r"candidates\[1\]: job 'a' gets batch size 1400 here and 1500 in"):
        checked(Decision(candidates), make_state(a=((), 2)))


def test_a_batch_size_is_one_of_the_catalogue(make_state: MakeState) -> None:
    with pytest.raises(InputError, match=r"job 'a': batch size 99999 is outside the catalogue's"):
        checked(Decision([Candidate({"a": (0,)}, {"a": 99_999})]), make_state(a=((), 2)))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned NoneType; it must return a Decision"),
        (Decision([]), "returned no candidates; a Decision needs at least one, the scheduler's own choice"),
        (
            Decision([Candidate({})], ask_again_ps=10**12),
            "ask_again_ps is 1000000000000 ps; it must be later than now, 1000000000000 ps",
        ),
    ],
)
def test_an_invalid_decision_is_refused(make_state: MakeState, answer: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        checked(answer, make_state(a=((), 2)))
    assert str(error.value) == message


def test_gpus_come_out_ascending(make_state: MakeState) -> None:
    decision = checked(Decision([Candidate({"a": (5, 0, 3)})]), make_state(a=((), 3)))
    assert decision.candidates[0].placement["a"] == (0, 3, 5)
