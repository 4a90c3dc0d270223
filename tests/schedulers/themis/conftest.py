"""Clusters and jobs for tests of Themis."""

from collections.abc import Callable

import pytest

from hocket.schedulers import Cluster, ClusterJob, Gpus, JobState, State

S = 10**12
MakeCluster = Callable[[int, int, int], Cluster]
MakeJob = Callable[..., JobState]
MakeState = Callable[..., State]


@pytest.fixture(scope="session")
def make_cluster() -> MakeCluster:
    """Makes a cluster of so many racks, of so many servers each, of so many GPUs each."""

    def make(racks: int, servers: int, gpus: int) -> Cluster:
        names = tuple(f"s{s}:{gpu}" for s in range(racks * servers) for gpu in range(gpus))
        return Cluster(
            names,
            tuple(name.partition(":")[0] for name in names),
            tuple(gpu // gpus for gpu in range(len(names))),
            tuple(server // servers for server in range(racks * servers)),
        )

    return make


@pytest.fixture(scope="session")
def make_job() -> MakeJob:
    """Makes a VGG16 job of 1,000 iterations on one GPU of 274 ms each, so 274 s of serial work, on `gpus`."""

    def make(
        name: str,
        gpus: Gpus = (),
        *,
        requested: int = 4,
        sizes: tuple[int, ...] = (1, 2, 3, 4),
        arrival_ps: int = 0,
        done: int = 0,
        started: bool | None = None,
        model: tuple[str, int] = ("VGG16", 1400),
    ) -> JobState:
        name_of_model, batch_size = model
        job = ClusterJob(
            name, name_of_model, batch_size, None, arrival_ps, requested, sizes, 1_000 * batch_size
        )
        has_run = bool(gpus) if started is None else started
        return JobState(job, done, gpus, batch_size, arrival_ps if has_run else None, 0, 0)

    return make


@pytest.fixture(scope="session")
def make_state() -> MakeState:
    """Makes a state with each GPU of a job given to it at `given_ps`, or at the time that `given` says."""

    def make(
        now_ps: int, cluster: Cluster, *jobs: JobState, given_ps: int = 0, given: dict[int, int] | None = None
    ) -> State:
        given_to = {gpu: given_ps for each in jobs for gpu in each.gpus} | (given or {})
        return State(now_ps, cluster, jobs, tuple(given_to.get(gpu, 0) for gpu in range(len(cluster.gpus))))

    return make
