"""C9: agents in cluster runs of the snapshots."""

from pathlib import Path

import pytest

from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import load_trace, parse_trace
from hocket_reproduce.targets import c9
from hocket_reproduce.targets.cluster import TH_CASSINI, THEMIS, outcome

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.mark.parametrize("number", c9.FIG_17)
def test_agents_adjust_less_than_twice_a_minute_and_slots_reduce_slowdowns(number: int) -> None:
    tables = c9.snapshot_trace(number)
    run = simulate_cluster(parse_trace(TH_CASSINI.trace(tables, 1)), TH_CASSINI.policy)
    assert max(c9.adjustments_per_minute(run).values()) < c9.LIMIT
    sharing, interleaved = (outcome(tables, each, 1) for each in (THEMIS, TH_CASSINI))
    assert interleaved.slotted == 1
    assert interleaved.slowdown < sharing.slowdown


def test_without_jitter_no_job_drifts() -> None:
    run = simulate_cluster(parse_trace(TH_CASSINI.trace(c9.snapshot_trace(1, 0.0), 1)), TH_CASSINI.policy)
    assert set(c9.adjustments_per_minute(run).values()) == {0.0}


def test_snapshot_2_is_that_of_the_example() -> None:
    example, ours = load_trace(EXAMPLES / "snapshot.toml"), parse_trace(c9.snapshot_trace(2))
    assert [job.model for job in ours.jobs] == [job.model for job in example.jobs]
    assert list(ours.placement.values()) == list(example.placement.values())
    assert ours.network.links == example.network.links
