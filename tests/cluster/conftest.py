"""Small traces, and schedulers that follow a script."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hocket.cluster.trace import Trace, parse_trace
from hocket.schedulers import Candidate, Decision, Gpus, State

MakeTrace = Callable[..., Trace]

_S = 10**12


@dataclass
class Scripted:
    """Places jobs by a script: at each time in seconds, a placement that holds from then on."""

    placements: Mapping[float, Mapping[str, Gpus]]

    def schedule(self, state: State, candidates: int) -> Decision:
        """What holds now, and when the next placement does."""
        times = sorted(self.placements)
        now_s = state.now_ps / _S
        scripted = self.placements[max(time for time in times if time <= now_s)]
        here = {each.job.name for each in state.jobs}
        ahead = [round(time * _S) for time in times if time > now_s]
        placement = {name: gpus for name, gpus in scripted.items() if name in here}
        return Decision([Candidate(placement)], min(ahead, default=None))


@pytest.fixture
def scripted() -> Callable[[Mapping[float, Mapping[str, Gpus]]], Scripted]:
    """Makes a scheduler that places jobs by a script."""
    return Scripted


@pytest.fixture
def make_trace() -> MakeTrace:
    """Makes a trace of jobs on eight servers of one GPU, two in each rack, with uplinks of 50 Gbps.

    Each job is a table; what it does not say is 100 iterations of VGG16 with 1,400 samples per GPU on 2
    workers, or any number up to 4. Nothing varies unless `cluster` says so.
    """

    def make(jobs: Sequence[Mapping[str, Any]], **tables: Any) -> Trace:
        usual = {"model": "VGG16", "batch_size": 1400, "workers": 2, "max_workers": 4, "iterations": 100}
        cluster = {"jitter": 0, **tables.pop("cluster", {})}
        clos = {
            "racks": 4,
            "servers_per_rack": 2,
            "gpus_per_server": 1,
            "spines": 1,
            "cables_per_spine": 1,
            "nic": "50 Gbps",
            "uplink": "50 Gbps",
        }
        return parse_trace(
            {
                "fabric": tables.pop("fabric", {"clos": clos}),
                "cluster": cluster,
                "jobs": [{**usual, **job} for job in jobs],
                **tables,
            }
        )

    return make
