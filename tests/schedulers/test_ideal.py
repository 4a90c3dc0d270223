"""Ideal gives every job what it asked for, whatever the others have."""

from collections.abc import Callable

from hocket.schedulers import State
from hocket.schedulers.checks import checked
from hocket.schedulers.ideal import Ideal


def test_jobs_never_wait_and_may_have_more_gpus_than_there_are(make_state: Callable[..., State]) -> None:
    state = make_state(**dict.fromkeys("abc", ((), 4)))
    decision = checked(Ideal().schedule(state, 1), state, dedicated=True)
    assert {name: len(gpus) for name, gpus in decision.candidates[0].placement.items()} == dict.fromkeys(
        "abc", 4
    )
