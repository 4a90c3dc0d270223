"""A small cluster for tests of schedulers."""

from collections.abc import Callable

import pytest

from hocket.schedulers import Cluster, ClusterJob, Gpus, JobState, State

MakeState = Callable[..., State]


@pytest.fixture
def make_state() -> MakeState:
    """Makes a state at 1 s with jobs in order of arrival, each given as `name=(GPUs, workers submitted)`.

    There are eight servers of one GPU, two in each rack; jobs run on one to four workers.
    """
    names = tuple(f"s{number}" for number in range(8))
    cluster = Cluster(names, names, tuple(range(8)), tuple(number // 2 for number in range(8)))

    def make(**jobs: tuple[Gpus, int]) -> State:
        states = tuple(_state(name, *job) for name, job in jobs.items())
        return State(10**12, cluster, states, (0,) * len(names))

    return make


def _state(name: str, gpus: Gpus, requested: int) -> JobState:
    job = ClusterJob(name, "VGG16", 1400, None, 0, requested, (1, 2, 3, 4), 1_400_000)
    return JobState(job, 0, gpus, job.batch_size, 0 if gpus else None, 0, 0)
