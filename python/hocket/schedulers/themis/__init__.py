"""Themis (NSDI'20) as in NSDI'24 §4.2: auctions of leased GPUs by finish-time fairness, and candidate
placements that are equally fair.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from math import ceil
from random import Random

import numpy as np
import numpy.typing as npt

from hocket.errors import InputError
from hocket.schedulers.state import Candidate, Decision, Gpus, JobState, State
from hocket.schedulers.themis.auction import Bidder, hold_auction, rounded
from hocket.schedulers.themis.candidates import EqualPlacements, Placement
from hocket.schedulers.themis.fairness import Competition, FinishTime, Speedups
from hocket.schedulers.themis.options import ThemisOptions

__all__ = ["Themis", "ThemisOptions"]


class Themis:
    """A `Scheduler` that auctions all free GPUs and those whose lease has ended, at each call."""

    def __init__(self, options: ThemisOptions, seed: int) -> None:
        """`seed` determines the order of equally unfair jobs, drawn places and drawn candidates."""
        self._options = options
        # Separate streams, so that ties are resolved equally with and without CASSINI, which requests more
        # candidates.
        self._ties = Random(f"themis ties {seed}")
        self._draws = Random(f"themis candidates {seed}")
        self._places = Random(f"themis places {seed}") if options.placement == "drawn" else None
        self._competition = Competition()
        # By GPU: when its lease started.
        self._leased_ps = np.zeros(0, np.int64)
        self._speedups: dict[str, Speedups] = {}

    def schedule(self, state: State, candidates: int) -> Decision:
        """The placement after an auction first, and up to `candidates` equally fair ones in total.

        Raises `InputError` if a job needs more GPUs than the cluster has, or `candidates` is below 1.
        """
        if candidates < 1:
            raise InputError(f"candidates: {candidates} is below 1")
        self._competition.observe(state)
        taken = _numbers(each.gpus for each in state.jobs)
        leased_ps = self._lease_starts_ps(state)
        expired = taken[leased_ps[taken] <= state.now_ps - self._options.lease_ps]
        is_offered = np.ones(len(state.cluster.gpus), np.bool_)
        is_offered[taken] = False
        is_offered[expired] = True
        auctioned = np.flatnonzero(is_offered).tolist()
        # A job can bid for all GPUs that it ran on, in place, so other wins avoid GPUs whose lease expired.
        claimed = frozenset(expired.tolist())
        ranked = self._worst_first([self._bidder(state, each, claimed) for each in state.jobs])
        auction = hold_auction(
            ranked,
            state.cluster,
            auctioned,
            claimed,
            self._visible(len(ranked)),
            self._options.hidden_payment,
            None if self._places is None else self._places.shuffle,
        )
        leased_ps[auctioned] = state.now_ps
        self._leased_ps = leased_ps

        held = {bidder.name: bidder.held for bidder in ranked}
        own = {each.job.name: held[each.job.name] for each in state.jobs}
        placements: Sequence[Placement] = [own]
        if candidates > 1:
            before = {each.job.name: each.gpus for each in state.jobs}
            widest = {each.name: each.widest for each in ranked if each.held != each.former}
            equal = EqualPlacements(state.cluster, before, own, auctioned, widest, self._options.exchange)
            placements = equal.sample(candidates, self._draws)
        why = {"offered": auctioned, "rho": _unfairness(ranked), **auction.explained()}
        return Decision([Candidate(each) for each in placements], self._ask_again_ps(state, own), why)

    def _lease_starts_ps(self, state: State) -> npt.NDArray[np.int64]:
        """When the lease of each GPU started; winning a GPU again in an auction renews its lease."""
        starts_ps = np.array(state.given_ps, np.int64)
        if len(self._leased_ps) == len(starts_ps):
            np.maximum(starts_ps, self._leased_ps, out=starts_ps)
        return starts_ps

    def _ask_again_ps(self, state: State, own: dict[str, Gpus]) -> int | None:
        """When the first lease or the epoch ends; None without jobs."""
        if not state.jobs:
            return None
        # At least one auction per bidding period (NSDI'24 §5.1), however long leases still last.
        epoch_ends_ps = state.now_ps + self._options.epoch_ps
        taken = _numbers(own.values())
        if not len(taken):
            return epoch_ends_ps
        first_ps = int(self._leased_ps[taken].min()) + self._options.lease_ps
        return min(first_ps + self._options.batch_ps, epoch_ends_ps)

    def _bidder(self, state: State, job: JobState, expired: frozenset[int]) -> Bidder:
        cluster_gpus = len(state.cluster.gpus)
        smallest = job.job.sizes[0]
        if smallest > cluster_gpus:
            raise InputError(
                f"{job.job.name}: needs at least {smallest} workers, but the cluster has {cluster_gpus} GPUs"
            )
        most = cluster_gpus
        # NSDI'24 §5.1: a job starts on the workers that it requested, and Themis tunes their number later.
        if job.first_start_ps is None or self._options.workers == "requested":
            most = min(most, max(job.job.requested, smallest))
        if job.job.name not in self._speedups:
            self._speedups[job.job.name] = Speedups(job.job, self._options.slowdown)
        competing = self._competition.average(job.job.name) if self._options.competing_jobs else 1.0
        return Bidder(
            FinishTime(
                job,
                state.now_ps,
                cluster_gpus,
                competing,
                self._options,
                self._speedups[job.job.name],
            ),
            state.cluster,
            most,
            job.gpus if expired.isdisjoint(job.gpus) else tuple(g for g in job.gpus if g not in expired),
        )

    def _worst_first(self, bidders: list[Bidder]) -> list[Bidder]:
        """Sorted by falling ρ, ties shuffled; jobs without GPUs come first, as their T_sh is unbounded."""
        # The sort is stable, so jobs of equal ρ keep the order in which they were shuffled.
        shuffled = self._ties.sample(bidders, len(bidders))
        return sorted(shuffled, key=lambda each: (bool(each.former), -each.rho_now))

    def _visible(self, jobs: int) -> int:
        """The number of jobs that see an offer: 1 − f of `jobs`, rounded up, and at least one."""
        # In floating point, 1 - 0.7 is slightly more than 0.3, and 4 of 10 jobs would see the offer.
        share = 1 - Fraction(str(self._options.fairness_knob))
        return max(1, ceil(share * jobs))


def _numbers(gpus: Iterable[Gpus]) -> npt.NDArray[np.int64]:
    """All `gpus` one after another."""
    return np.fromiter(chain.from_iterable(gpus), np.int64)


def _unfairness(bidders: list[Bidder]) -> dict[str, float | None]:
    """ρ of each job at the start of the auction, worst first; None for jobs without GPUs."""
    return {each.name: rounded(each.rho_now) if each.former else None for each in bidders}
