"""Crux (SIGCOMM'24): paths and priorities for the traffic of jobs, wherever a scheduler has placed them.

Jobs with the most GPU time for each second of their communication go first: they choose their paths first,
and links serve them first. Crux reads the placement of a decision and leaves it as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from hocket.engines.network import Crossings, Network
from hocket.schedulers.crux.compression import compress
from hocket.schedulers.crux.correction import Corrections
from hocket.schedulers.crux.intensity import Communication, contending_pairs
from hocket.schedulers.crux.paths import route
from hocket.schedulers.job_routes import Routes
from hocket.schedulers.state import Candidate, Gpus, State

__all__ = ["Crux", "Traffic", "TrafficDecision"]


@dataclass(frozen=True)
class Traffic:
    """How a job uses the network at a placement."""

    gpus: Gpus
    """The placement for which it holds."""
    priority: int
    """0 is the highest."""
    crossings: Crossings


@dataclass(frozen=True)
class TrafficDecision:
    """The traffic of all jobs with GPUs, by name."""

    traffic: Mapping[str, Traffic]
    why: Mapping[str, Any]
    """Notes for the table of decisions: GPU intensity, correction and queue of each job that uses links."""


class Crux:
    """Chooses paths and priorities at each decision."""

    def __init__(self, network: Network, routes: Routes, queues: int, seed: int) -> None:
        """`queues` is the number of priorities that links have; `seed` determines the orders that the
        compression of priorities samples.
        """
        self._rates_bps = [rate_bps for _, rate_bps in network.links]
        self._routes = routes
        self._queues = queues
        self._draws = Random(f"crux orders {seed}")
        self._corrections = Corrections()

    def decide(self, state: State, candidate: Candidate) -> TrafficDecision:
        """Paths and priorities of the jobs that `candidate` places."""
        placed = [
            Communication.of(
                each.job.name,
                gpus,
                each.job.profile(len(gpus), candidate.batch_sizes.get(each.job.name, each.batch_size)),
                self._routes.crossings(each.job.name, gpus),
                self._rates_bps,
            )
            for each in state.jobs
            if (gpus := tuple(candidate.placement.get(each.job.name, ())))
        ]
        sending = [each for each in placed if each.time_s > 0]
        # Spread flows have no paths to choose from.
        if not self._routes.spread:
            sending = route(sending, self._routes, self._rates_bps)
        corrections = self._corrections.of(sending)
        # A stable sort: of equal jobs, the one that arrived first goes first.
        ranked = sorted(sending, key=lambda each: -corrections[each.name] * each.intensity)
        pairs = contending_pairs(ranked, self._rates_bps)
        queues = compress([each.intensity for each in ranked], pairs, self._queues, self._draws)
        priorities = dict(zip((each.name for each in ranked), queues, strict=True))
        # Jobs that send nothing have no priority to speak of.
        traffic = {each.name: Traffic(each.gpus, 0, each.crossings) for each in placed}
        traffic |= {each.name: Traffic(each.gpus, priorities[each.name], each.crossings) for each in sending}
        why = {
            "intensity": {each.name: each.intensity for each in ranked},
            "correction": {each.name: corrections[each.name] for each in ranked},
            "queue": priorities,
        }
        return TrafficDecision(traffic, why)
