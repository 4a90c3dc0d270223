"""GPU intensity, its correction, and the paths of jobs."""

from itertools import combinations

import pytest

from hocket.engines.network import network_of
from hocket.fabrics import Topology, clos
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.schedulers import Cluster
from hocket.schedulers.crux.correction import Corrections
from hocket.schedulers.crux.intensity import Communication, contending_pairs
from hocket.schedulers.crux.paths import route
from hocket.schedulers.job_routes import Routes

MS, GBPS = 10**9, 10**9


def profile(compute_ms: int, up_ms: int, gbps: int) -> WorkloadProfile:
    """Computation followed by communication."""
    up = PhaseSpec(compute_ms * MS, up_ms * MS, gbps * GBPS)
    return WorkloadProfile((compute_ms + up_ms) * MS, (up,), ())


def on_one_link(name: str, workers: int, given: WorkloadProfile, flows: int = 1) -> Communication:
    """A job with `flows` on link 0, of 50 Gbps."""
    return Communication.of(name, tuple(range(workers)), given, [(0, flows)], [50 * GBPS])


def test_gpu_intensity_is_gpu_time_over_the_time_of_the_slowest_link() -> None:
    # 250 MB take 40 ms at 50 Gbps; two flows of them take 100 ms on a link of 40.
    rates_bps = [50 * GBPS, 40 * GBPS]
    job = Communication.of("a", (0, 1), profile(50, 50, 40), [(0, 1), (1, 2)], rates_bps)
    assert (job.flows, job.rate_bps) == (2, 40 * GBPS)
    assert job.time_s == pytest.approx(0.1)
    assert job.intensity == pytest.approx(2 * 0.1 / 0.1)
    assert on_one_link("b", 3, profile(50, 50, 40)).intensity == pytest.approx(3 * 0.1 / 0.04)


def test_jobs_contend_only_on_links_that_all_their_peaks_exceed() -> None:
    jobs = [
        Communication.of(name, (0, 1), profile(50, 50, gbps), crossings, [50 * GBPS] * 2)
        for name, gbps, crossings in (("a", 30, [(0, 1)]), ("b", 30, [(0, 1), (1, 1)]), ("c", 10, [(1, 1)]))
    ]
    assert contending_pairs(jobs, [50 * GBPS] * 2) == [(0, 1)]


def test_jobs_that_fit_beside_each_other_need_no_correction() -> None:
    jobs = [on_one_link(name, 2, profile(50, 50, 25)) for name in ("a", "b")]
    assert Corrections().of(jobs) == {"a": 1.0, "b": 1.0}


def test_equal_jobs_have_equal_corrections() -> None:
    jobs = [on_one_link(name, 2, profile(20, 80, 50)) for name in ("a", "b")]
    assert Corrections().of(jobs) == {"a": 1.0, "b": 1.0}


def test_of_two_jobs_of_one_intensity_the_one_that_loses_more_gpu_time_gains() -> None:
    # Both compute as long as they communicate. Behind the long job, the short one stands still for 500 ms in
    # each second and loses half of its GPU time; behind the short one, the long one sends in its gaps, so
    # that an iteration takes 1,500 ms instead of 1,000.
    short = on_one_link("short", 2, profile(5, 5, 50))
    long = on_one_link("long", 2, profile(500, 500, 50))
    assert short.intensity == long.intensity
    corrections = Corrections().of([short, long])
    assert corrections["long"] == 1.0
    # 1/2 against 1/3 of the GPU time.
    assert corrections["short"] == pytest.approx(1.5, rel=0.05)


def test_a_correction_is_at_least_a_sixteenth() -> None:
    # Behind the heavy job, the light one waits up to 50 ms for a link that it needs for 1 ms in a second: it
    # loses about 25 times as much as the heavy one behind it. Its intensity is 500 times as high.
    light, heavy = on_one_link("light", 2, profile(999, 1, 50)), on_one_link("heavy", 2, profile(50, 50, 50))
    assert Corrections().of([light, heavy])["light"] == 1 / 16


@pytest.fixture(scope="module")
def fabric() -> Topology:
    return clos(
        racks=2,
        servers_per_rack=2,
        gpus_per_server=1,
        spines=2,
        cables_per_spine=1,
        nic_bps=50 * GBPS,
        uplink_bps=50 * GBPS,
        delay_ps=0,
    )


def test_jobs_whose_flows_ecmp_puts_on_one_link_choose_different_ones(fabric: Topology) -> None:
    network = network_of(fabric)
    hosts = tuple(fabric.gpus)
    cluster = Cluster(hosts, hosts, (0, 1, 2, 3), (0, 0, 1, 1))
    names = [f"job {number}" for number in range(20)]
    routes = Routes(network, cluster, names)
    rates_bps = [rate_bps for _, rate_bps in network.links]

    def shared(one: Communication, other: Communication) -> set[int]:
        return {link for link, _ in one.crossings} & {link for link, _ in other.crossings}

    collisions = 0
    for first, second in combinations(names, 2):
        pair = [
            Communication.of(name, gpus, profile(50, 50, 40), routes.crossings(name, gpus), rates_bps)
            for name, gpus in ((first, (0, 2)), (second, (1, 3)))
        ]
        collisions += bool(shared(*pair))
        assert not shared(*route(pair, routes, rates_bps))
    # Each of two directions collides with a probability of one half.
    assert 0 < collisions < 190


def test_a_job_without_rivals_keeps_the_paths_of_ecmp(fabric: Topology) -> None:
    network = network_of(fabric)
    hosts = tuple(fabric.gpus)
    routes = Routes(network, Cluster(hosts, hosts, (0, 1, 2, 3), (0, 0, 1, 1)), ["a"])
    rates_bps = [rate_bps for _, rate_bps in network.links]
    crossings = routes.crossings("a", (0, 2))
    job = Communication.of("a", (0, 2), profile(50, 50, 40), crossings, rates_bps)
    assert route([job], routes, rates_bps)[0].crossings == crossings
