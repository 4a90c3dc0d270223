"""The scheduler: runs the search at a fixed period, and places jobs that arrive in between."""

from random import Random
from typing import Any

from hocket import _hocket
from hocket.errors import InputError, located
from hocket.schedulers.pollux.allocation import Row, gpus_by_job, row_of
from hocket.schedulers.pollux.candidates import EqualAllocations
from hocket.schedulers.pollux.options import PolluxOptions
from hocket.schedulers.pollux.speedups import Best, Goodputs, goodputs
from hocket.schedulers.state import Candidate, Cluster, ClusterJob, Decision, JobState, State

# Factor on a job's speedup if it restarts, in adaptdl 0.2.11.
_ADAPTDL_RESTART = 0.9


class Pollux:
    """A `Scheduler` that reallocates all GPUs once per period, as in OSDI'21 §4.2.

    In the paper an arriving job waits for the next round. Here, as in the authors' release, it starts at once
    if GPUs are free: between rounds a search places waiting jobs, and running ones stay.
    """

    def __init__(self, options: PolluxOptions, seed: int) -> None:
        """`seed` determines the search and the drawn candidates."""
        self._options = options
        self._search = _hocket.PolluxSearch(options.population, options.generations, seed)
        # A separate stream, so that the search gives the same result with and without CASSINI, which requests
        # more candidates.
        self._draw = Random(f"pollux candidates {seed}")
        self._next_round_ps = 0
        self._numbers: dict[str, int] = {}
        self._most_workers: dict[str, int] = {}

    def schedule(self, state: State, candidates: int) -> Decision:
        """The best allocation found by the search first, and up to `candidates` equivalent ones in total.

        Raises `InputError` if a job does not fit in the cluster, a server has more than 255 GPUs, or
        `candidates` is below 1.
        """
        if candidates < 1:
            raise InputError(f"candidates: {candidates} is below 1")
        for each in state.jobs:
            _check_fit(each.job, state.cluster)
            most = self._most_workers.get(each.job.name, 0)
            self._most_workers[each.job.name] = max(most, len(each.gpus))
        is_round = state.now_ps >= self._next_round_ps
        if is_round:
            self._next_round_ps = state.now_ps + self._options.period_ps
        if not state.jobs:
            return Decision([Candidate({})])
        jobs = [_Contender(each, state, self._options) for each in state.jobs]
        result = self._run_search(state.cluster, jobs, is_round)
        return self._decision(state.cluster, jobs, result, candidates)

    def _run_search(
        self, cluster: Cluster, jobs: list["_Contender"], is_round: bool
    ) -> "_hocket._RoundResult":
        specs: list[_hocket._PolluxJob] = [
            {
                # Never reused: the search matches the rows of its last population to jobs by it.
                "key": self._numbers.setdefault(job.name, len(self._numbers)),
                "sizes": job.sizes(self._largest(job)),
                "cells": job.row,
                "restart_factor": job.restart_factor,
                "pinned": not is_round and bool(job.row),
            }
            for job in jobs
        ]
        osdi21 = self._options.policy == "pollux-osdi21"
        gpus = [len(server) for server in cluster.gpus_of]
        with located(None):
            return self._search.round(gpus, specs, self._options.fairness if osdi21 else None)

    def _largest(self, job: "_Contender") -> int:
        """The most workers that a job may have in this round."""
        if self._options.scale_up == "any":
            return job.state.job.sizes[-1]
        # A job that has had no workers starts on the fewest, or it could never start.
        return max(2 * self._most_workers[job.name], job.state.job.sizes[0])

    def _decision(
        self, cluster: Cluster, jobs: list["_Contender"], result: "_hocket._RoundResult", candidates: int
    ) -> Decision:
        before = {job.name: job.row for job in jobs}
        after = {job.name: tuple(row) for job, row in zip(jobs, result["rows"], strict=True)}
        equal = EqualAllocations(cluster, before, after).sample(candidates, self._draw)
        gpus = {job.name: job.state.gpus for job in jobs}
        batch_sizes = _batch_sizes(jobs, after)
        placed = [Candidate(gpus_by_job(cluster, gpus, rows), batch_sizes) for rows in equal]
        why: dict[str, Any] = {
            "fitness": result["fitness"],
            "fitness_before": result["fitness_before"],
            "generations": result["generations"],
            "jobs": {
                job.name: job.explained(after[job.name], worth)
                for job, worth in zip(jobs, result["worths"], strict=True)
            },
        }
        return Decision(placed, self._next_round_ps, why)


class _Contender:
    """A job in a round, with its speedups by workers."""

    def __init__(self, state: JobState, cluster_state: State, options: PolluxOptions) -> None:
        self.state = state
        self.name = state.job.name
        self.row = row_of(cluster_state.cluster, state.gpus)
        self.goodputs = goodputs(state.job, options.noise_scale, options.tune_batch_size)
        if options.policy == "pollux-osdi21":
            self._reference_goodput = _fair_goodput(self.goodputs, state.job, cluster_state)
            self.restart_factor = _restart_factor(state, cluster_state.now_ps, options.restart_delay_ps)
        else:
            # Speedups are relative to one worker, or to the fewest that the job runs on.
            self._reference_goodput = self.goodputs.on(state.job.sizes[0], 1).goodput
            self.restart_factor = _ADAPTDL_RESTART

    def sizes(self, largest: int) -> "list[_hocket._PolluxWorth]":
        """The speedups on one server and across servers for each size up to `largest`."""
        # The model of OSDI'21 §3.2 knows only one node or several, so that two stand for any larger number.
        return [
            {
                "workers": workers,
                "on_one_node": self._speedup(workers, 1),
                "across_nodes": self._speedup(workers, 2),
            }
            for workers in self.state.job.sizes
            if workers <= largest
        ]

    def _speedup(self, workers: int, servers: int) -> float:
        return self.goodputs.on(workers, servers).goodput / self._reference_goodput

    def best(self, row: Row) -> Best:
        """The best goodput of the job on the workers of a row, with its batch size."""
        return self.goodputs.on(sum(workers for _, workers in row), len(row))

    def explained(self, row: Row, worth: float) -> dict[str, Any]:
        """The allocation of the job and its value, `worth`, which includes the restart factor."""
        if not row:
            return {"workers": 0}
        return {
            "workers": sum(workers for _, workers in row),
            "servers": len(row),
            "goodput": self.best(row).goodput,
            "speedup": self.best(row).goodput / self._reference_goodput,
            "worth": worth,
            "restarts": bool(self.row) and row != self.row,
        }


def _check_fit(job: ClusterJob, cluster: Cluster) -> None:
    if job.sizes[0] > len(cluster.gpus):
        raise InputError(
            f"job {job.name}: it needs at least {job.sizes[0]} workers, but the cluster has "
            f"{len(cluster.gpus)} GPUs"
        )


def _fair_goodput(goodputs: Goodputs, job: ClusterJob, state: State) -> float:
    """The goodput of `job` on its fair share: the GPUs divided by the jobs, rounded up as in the authors'
    simulator, on one server if they fit. A job that needs more than its share counts with its fewest workers.
    """
    share = -(-len(state.cluster.gpus) // len(state.jobs))
    workers = max([size for size in job.sizes if size <= share], default=job.sizes[0])
    largest_server = max(len(gpus) for gpus in state.cluster.gpus_of)
    return goodputs.on(workers, 1 if workers <= largest_server else 2).goodput


def _restart_factor(state: JobState, now_ps: int, delay_ps: int) -> float:
    """Factor on a job's speedup if it restarts: (age − restarts × delay) / (age + delay), at least 0.

    OSDI'21 §4.2. The authors' simulator applies it to a first start too, so that a job that has just arrived
    (age 0) has no benefit from GPUs and waits for a period; here a first start is not a restart.
    """
    if state.first_start_ps is None:
        return 1.0
    age_ps = now_ps - state.job.arrival_ps
    # 0 ÷ 0: a job that has only just arrived, and restarts that take no time.
    if age_ps + delay_ps == 0:
        return 1.0
    return max(age_ps - state.restarts * delay_ps, 0) / (age_ps + delay_ps)


def _batch_sizes(jobs: list[_Contender], rows: dict[str, Row]) -> dict[str, int]:
    """Batch sizes of placed jobs whose batch size changes."""
    best = {job.name: job.best(rows[job.name]).batch_size for job in jobs if rows[job.name]}
    before = {job.name: job.state.batch_size for job in jobs}
    return {name: batch_size for name, batch_size in best.items() if batch_size != before[name]}
