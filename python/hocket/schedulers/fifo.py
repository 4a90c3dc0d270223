"""FIFO: jobs start in the order of their arrival, on as few servers and racks as possible."""

from random import Random

from hocket.errors import InputError
from hocket.schedulers.state import Candidate, Cluster, Decision, Gpus, State
from hocket.schedulers.themis.candidates import EqualPlacements, Placement

_TRIED = 4
"""Placements drawn for each requested candidate: some draws spread a job over more servers or racks."""


class Fifo:
    """Every job runs on the workers that it was submitted with, and keeps its GPUs until it is done.

    There is no backfilling: if the first of the waiting jobs does not fit, all others wait as well.
    """

    def __init__(self, seed: int) -> None:
        """`seed` determines the candidates beside its own choice."""
        self._draws = Random(f"fifo candidates {seed}")

    def schedule(self, state: State, candidates: int) -> Decision:
        """Packed places for jobs in order of arrival, and others on as many servers and racks.

        Raises `InputError` if a job needs more GPUs than the cluster has.
        """
        waiting = [each.job for each in state.jobs if not each.gpus]
        for job in waiting:
            if job.requested > len(state.cluster.gpus):
                raise InputError(
                    f"{job.name}: needs {job.requested} workers, but the cluster has "
                    f"{len(state.cluster.gpus)} GPUs"
                )
        places = state.cluster.regions.packed(state.free, [job.requested for job in waiting])
        before = {each.job.name: each.gpus for each in state.jobs}
        own = before | {job.name: gpus for job, gpus in zip(waiting, places, strict=False)}
        widest = {name: state.cluster.span(gpus) for name, gpus in own.items() if gpus}
        equal = EqualPlacements(state.cluster, before, own, state.free, widest)
        # The first is its own.
        drawn = equal.sample(1 + _TRIED * (candidates - 1), self._draws)
        packed = [each for each in drawn if _extents(each, state.cluster) == _extents(own, state.cluster)]
        return Decision([Candidate(each) for each in packed[:candidates]])


def _extents(placement: Placement, cluster: Cluster) -> dict[str, tuple[int, int]]:
    """The number of servers and of racks of each job."""
    return {name: _extent(gpus, cluster) for name, gpus in placement.items()}


def _extent(gpus: Gpus, cluster: Cluster) -> tuple[int, int]:
    return len({cluster.server_of[gpu] for gpu in gpus}), len({cluster.rack(gpu) for gpu in gpus})
