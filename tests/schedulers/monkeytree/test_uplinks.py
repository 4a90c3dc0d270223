"""The uplinks of racks, and what jobs are predicted to lose on them."""

import pytest

from hocket.cluster.gpus import cluster_of
from hocket.fabrics import clos
from hocket.schedulers.monkeytree.contention import Rack, losses
from hocket.schedulers.monkeytree.ring_jobs import RingJob
from hocket.schedulers.monkeytree.uplinks import Uplinks, uplinks_of

GBPS = 10**9


def crossing(name: str, gbps: int, stake: float = 100.0) -> RingJob:
    return RingJob(name, 2, gbps * GBPS, stake, 0.0, running=True)


def test_the_uplinks_of_a_rack_are_all_cables_to_spines() -> None:
    fabric = clos(
        racks=3,
        servers_per_rack=2,
        gpus_per_server=4,
        spines=2,
        cables_per_spine=3,
        nic_bps=50 * GBPS,
        uplink_bps=25 * GBPS,
        delay_ps=0,
    )
    assert uplinks_of(cluster_of(fabric, 1), fabric) == (Uplinks(6, 150 * GBPS),) * 3


def test_a_job_in_one_rack_loses_nothing_and_loads_no_uplinks() -> None:
    jobs = [crossing("a", 50), crossing("b", 50), crossing("c", 50)]
    spreads = {"a": {0: 2}, "b": {0: 1, 1: 1}, "c": {1: 2}}
    assert losses(jobs, spreads, [Rack(1, 50 * GBPS, 1)] * 2) == {"b": 0.0}


def test_with_ecmp_any_two_flows_may_share_a_cable_and_with_balance_only_those_beyond_the_last() -> None:
    jobs = [crossing(name, 50) for name in "abc"]
    spreads = {name: {0: 1, 1: 1} for name in "abc"}
    for balanced, loss in ((False, 50.0), (True, 0.0)):
        racks = [Rack.of(Uplinks(4, 200 * GBPS), balanced=balanced)] * 2
        assert losses(jobs, spreads, racks) == dict.fromkeys("abc", pytest.approx(loss))


def test_a_ring_is_as_slow_as_its_slowest_flow() -> None:
    jobs = [crossing("a", 50), crossing("b", 50), crossing("c", 25, stake=10)]
    spreads = {"a": {0: 1, 1: 1}, "b": {1: 1, 2: 1}, "c": {2: 1, 3: 1}}
    # Racks 1 and 2 carry two and one and a half cables of load on one cable.
    assert losses(jobs, spreads, [Rack(1, 50 * GBPS, 1)] * 4) == {"a": 100.0, "b": 100.0, "c": 5.0}


def test_racks_without_uplinks_delay_nobody() -> None:
    assert Rack.of(Uplinks(0, 0), balanced=False).load([crossing("a", 50)]) == 0
