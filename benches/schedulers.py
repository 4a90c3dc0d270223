"""Measures decisions of CASSINI, a trace of 24 servers under each scheduler and, if named, a week of 1,024
GPUs.

Times are of the processor, on which other work has little effect.

    python benches/schedulers.py [decision] [poisson] [week]
"""

import random
import statistics
import sys
import time
from collections.abc import Callable

from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import load_trace, parse_trace
from hocket.results import Run
from hocket.schedulers import Candidate, ClusterJob, Decision, Gpus, JobState, State
from hocket.schedulers.cassini import Cassini, CassiniOptions
from hocket.schedulers.job_routes import Routes
from hocket.workloads import CATALOGUE

DECISIONS = 100
POLICIES = ("ideal", "random", "themis", "themis+cassini", "pollux", "pollux+cassini")
TESTBED = {
    "fabric": {"testbed": "cassini"},
    "jobs": [{"name": "any", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 1}],
}


def decision() -> None:
    """A decision between ten random placements of random jobs on the testbed's 24 servers, first with empty
    caches, then again.
    """
    for title, options in (
        ("as NSDI'24 Algorithm 2", CassiniOptions(aggregate="mean", loops="discard")),
        ("by default", CassiniOptions()),
    ):
        cold, warm = [], []
        for seed in range(DECISIONS):
            choose = _decision(options, random.Random(seed))
            cold.append(_cpu_s(choose))
            warm.append(_cpu_s(choose))
        for state, times in (("all new", cold), ("nothing new", warm)):
            worst = statistics.quantiles(times, n=10)[-1]
            print(
                f"one decision, 10 candidates, 24 servers, {title}, {state}: "
                f"median {statistics.median(times) * 1e3:.1f} ms, 90th percentile {worst * 1e3:.1f} ms"
            )


def _decision(options: CassiniOptions, draws: random.Random) -> Callable[[], object]:
    trace = parse_trace(TESTBED)
    jobs = _jobs(draws, len(trace.cluster.gpus))
    candidates = [Candidate(_placement(draws, jobs, len(trace.cluster.gpus))) for _ in range(10)]
    states = tuple(JobState(job, 0, (), job.batch_size, None, 0, 0) for job in jobs)
    state = State(0, trace.cluster, states, (0,) * len(trace.cluster.gpus))
    routes = Routes(trace.network, trace.cluster, [job.name for job in jobs])
    cassini = Cassini(options, trace.network, routes.crossings, jitter=0.01, seed=1)
    # Paths and profiles are looked up once in a run, so they are no part of a decision.
    for candidate in candidates:
        for job in jobs:
            routes.crossings(job.name, candidate.placement[job.name])
            job.profile(job.requested)
    return lambda: cassini.choose(state, Decision(candidates), lambda _: None)


def _jobs(draws: random.Random, gpus: int) -> list[ClusterJob]:
    """Jobs of 2 to 12 workers, with models of the catalogue that support this number, until the cluster is
    full.
    """
    jobs: list[ClusterJob] = []
    while gpus > 1:
        workers = draws.randint(2, min(12, gpus))
        models = [
            each
            for each in CATALOGUE.values()
            if any(workers in s.workers.value for s in each.strategies.values())
        ]
        model = draws.choice(models)
        sizes = tuple(range(1, workers + 1))
        jobs.append(
            ClusterJob(f"job{len(jobs)}", model.name, model.reference[0], None, 0, workers, sizes, 10**6)
        )
        gpus -= workers
    return jobs


def _placement(draws: random.Random, jobs: list[ClusterJob], gpus: int) -> dict[str, Gpus]:
    free = list(range(gpus))
    draws.shuffle(free)
    placement = {}
    for job in jobs:
        placement[job.name] = tuple(sorted(free[: job.requested]))
        del free[: job.requested]
    return placement


def poisson() -> None:
    """The 100 minutes of `examples/cluster/poisson.toml`."""
    for policy in POLICIES:
        _run("examples/cluster/poisson.toml", policy)


def week() -> None:
    """The 2,000 jobs of `examples/cluster/week.toml`, which take minutes under each scheduler."""
    for policy in ("themis", "themis+cassini"):
        _run("examples/cluster/week.toml", policy)


def _run(path: str, policy: str) -> None:
    trace = load_trace(path)
    run: dict[str, Run] = {}
    took_s = _cpu_s(lambda: run.update(done=simulate_cluster(trace, policy)))
    manifest, iterations = run["done"].manifest, run["done"].tables["jobs"]["iterations"].sum()
    print(
        f"{path}, {policy}: {took_s:.1f} s for {manifest['counts']['done']:,} jobs, "
        f"{iterations:,} iterations, {manifest['counts']['decisions']:,} decisions",
        flush=True,
    )


def _cpu_s(call: Callable[[], object]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


if __name__ == "__main__":
    for name in sys.argv[1:] or ["decision", "poisson"]:
        {"decision": decision, "poisson": poisson, "week": week}[name]()
