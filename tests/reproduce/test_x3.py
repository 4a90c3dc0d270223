"""X3 at a smaller size: the model is what the packet engine shows, also where it was not fitted."""

import pytest

from hocket.cluster.marks import FITTED
from hocket_reproduce.targets import x3

CASES = {case.name: case for case in x3.cases()}


@pytest.mark.parametrize("name", ["snapshot 3, at once", "testbed, one of three meets two"])
def test_jobs_that_meet_are_marked_as_often_as_on_packets_to_a_factor_of_two(name: str) -> None:
    model, packets = x3.modelled(CASES[name]), x3.counted(CASES[name])
    assert sum(packets.values()) / 2 < sum(model.values()) < 2 * sum(packets.values())


def test_who_meets_nobody_is_not_marked_on_either_engine() -> None:
    apart = x3.Case("apart", CASES["snapshot 1, at once"].fabric, CASES["snapshot 1, at once"].jobs[:1])
    assert x3.modelled(apart) == x3.counted(apart) == {"wideresnet101": 0.0}


def test_two_flows_that_stay_are_marked_as_often_as_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x3, "MOST_FLOWS", 3)
    fitted = x3.fit(lambda _: None, caps=("35 Gbps",), seeds=(4,))
    assert fitted.per_second == pytest.approx(FITTED.per_second[:2], rel=0.25)
    assert fitted.per_join == pytest.approx(FITTED.per_join[:2], rel=0.4)
