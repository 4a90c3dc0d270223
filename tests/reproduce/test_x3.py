"""X3 at a smaller size: the model agrees with the packet engine, also where it was not fitted."""

import pytest

from hocket.cluster.marks import FITTED
from hocket_reproduce.targets import x3

CASES = {case.name: case for case in x3.cases()}


@pytest.mark.parametrize("name", ["snapshot 3, at once", "testbed, one of three meets two"])
def test_marks_of_jobs_that_share_a_link_are_within_a_factor_of_two_of_packets(name: str) -> None:
    model, packets = x3.modelled(CASES[name]), x3.counted(CASES[name])
    assert sum(packets.values()) / 2 < sum(model.values()) < 2 * sum(packets.values())


def test_a_job_that_shares_no_link_is_not_marked_on_either_engine() -> None:
    apart = x3.Case("apart", CASES["snapshot 1, at once"].fabric, CASES["snapshot 1, at once"].jobs[:1])
    assert x3.modelled(apart) == x3.counted(apart) == {"wideresnet101": 0.0}


def test_a_new_fit_to_two_and_three_flows_is_near_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x3, "MOST_FLOWS", 3)
    fitted = x3.fit(lambda _: None, caps=("35 Gbps",), seeds=(4,))
    assert fitted.per_second == pytest.approx(FITTED.per_second[:2], rel=0.25)
    assert fitted.per_join == pytest.approx(FITTED.per_join[:2], rel=0.4)
