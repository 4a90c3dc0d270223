"""A small cluster for tests of CASSINI: four racks of two servers below one spine, all links of 50 Gbps."""

from collections.abc import Callable, Mapping

import pytest

from hocket import _hocket
from hocket.engines.network import Network
from hocket.fabrics.shapes import clos
from hocket.schedulers import Candidate, Cluster, ClusterJob, Decision, Gpus, JobState, State
from hocket.schedulers.cassini import Cassini, CassiniOptions
from hocket.schedulers.job_routes import Routes

RATE_BPS = 50 * 10**9

Models = Mapping[str, tuple[str, int]]
MakeState = Callable[..., State]
MakeCassini = Callable[..., Cassini]
MakeDecision = Callable[..., Decision]

# NSDI'24 Table 2. W and V of snapshot 1 can take turns; two R of snapshot 4 can do so in part.
MODELS: Models = {
    "W": ("WideResNet101", 800),
    "V": ("VGG16", 1400),
    "U": ("VGG16", 1400),
    "R": ("RoBERTa", 12),
    "S": ("RoBERTa", 12),
    "T": ("RoBERTa", 12),
    "B": ("BERT", 8),
    "C": ("BERT", 8),
}


@pytest.fixture(scope="session")
def network() -> Network:
    """Cables between racks are 8 to 11, in the order of the racks; up is even, down is odd."""
    topology = clos(
        racks=4,
        servers_per_rack=2,
        gpus_per_server=1,
        spines=1,
        nic_bps=RATE_BPS,
        uplink_bps=RATE_BPS,
        cables_per_spine=1,
        delay_ps=0,
    )
    nodes = {name: number for number, name in enumerate(topology.nodes)}
    cables: list[_hocket._Cable] = [
        {"a": nodes[cable.ends[0]], "b": nodes[cable.ends[1]], "rate_bps": RATE_BPS, "delay_ps": 0}
        for cable in topology.cables
    ]
    fabric = _hocket.Fabric(list(topology.nodes.items()), cables)
    return Network(fabric, tuple(fabric.links()), nodes, (0,) * len(cables))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """GPU 2r and 2r + 1 are in rack r."""
    names = tuple(f"s{number}" for number in range(8))
    return Cluster(names, names, tuple(range(8)), tuple(number // 2 for number in range(8)))


@pytest.fixture(scope="session")
def make_cassini(network: Network, cluster: Cluster) -> MakeCassini:
    """Makes a module with these options."""

    def make(*, jitter: float = 0.01, **options: object) -> Cassini:
        routes = Routes(network, cluster, list(MODELS))
        chosen = CassiniOptions.model_validate(options)
        return Cassini(chosen, network, routes.crossings, jitter=jitter, seed=1)

    return make


@pytest.fixture(scope="session")
def make_state(cluster: Cluster) -> MakeState:
    """Makes a state with jobs of `MODELS`, each given as `name=GPUs that it has`, in order of arrival."""

    def state_of(name: str, gpus: Gpus) -> JobState:
        model, batch_size = MODELS[name]
        job = ClusterJob(name, model, batch_size, None, 0, 2, (1, 2, 3, 4), 1_000_000)
        return JobState(job, 0, gpus, batch_size, 0 if gpus else None, 0, 0)

    def make(now_ps: int = 10**12, **jobs: Gpus) -> State:
        states = tuple(state_of(name, gpus) for name, gpus in jobs.items())
        return State(now_ps, cluster, states, (0,) * len(cluster.gpus))

    return make


@pytest.fixture(scope="session")
def make_decision() -> MakeDecision:
    """Makes a decision of placements, the own choice of the scheduler first."""

    def make(*placements: Mapping[str, Gpus]) -> Decision:
        return Decision([Candidate(placement) for placement in placements])

    return make
