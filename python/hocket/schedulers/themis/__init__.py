"""Themis (NSDI'20) as in NSDI'24 §4.2: auctions of leased GPUs by finish-time fairness, and candidate
placements that are equally fair.
"""

from fractions import Fraction
from math import ceil
from random import Random

from hocket.errors import InputError
from hocket.schedulers.state import Candidate, Cluster, Decision, Gpus, JobState, Span, State
from hocket.schedulers.themis.auction import Bidder, hold_auction, rounded
from hocket.schedulers.themis.candidates import EqualPlacements
from hocket.schedulers.themis.fairness import Competition, FinishTime
from hocket.schedulers.themis.options import ThemisOptions
from hocket.schedulers.themis.regions import Offer, Regions

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
        self._auctioned_ps: dict[int, int] = {}
        self._regions: Regions | None = None
        self._speedups: dict[str, dict[tuple[int, Span], float]] = {}

    def schedule(self, state: State, candidates: int) -> Decision:
        """The placement after an auction first, and up to `candidates` equally fair ones in total.

        Raises `InputError` if a job needs more GPUs than the cluster has, or `candidates` is below 1.
        """
        if candidates < 1:
            raise InputError(f"candidates: {candidates} is below 1")
        self._competition.observe(state)
        ends_ps = self._lease_ends_ps(state)
        expired = {gpu for gpu, end_ps in ends_ps.items() if end_ps <= state.now_ps}
        auctioned = sorted({*state.free, *expired})
        regions = self._regions_of(state.cluster)
        ranked = self._worst_first([self._bidder(state, each, regions, expired) for each in state.jobs])
        # A job can bid for all GPUs that it ran on, in place, so other wins avoid GPUs whose lease expired.
        offer = Offer(regions, auctioned, claimed=frozenset(expired), draws=self._places)
        auction = hold_auction(ranked, offer, self._visible(len(ranked)), self._options.hidden_payment)
        self._auctioned_ps |= dict.fromkeys(auctioned, state.now_ps)
        ends_ps |= dict.fromkeys(auctioned, state.now_ps + self._options.lease_ps)

        held = {bidder.name: bidder.held for bidder in ranked}
        own = {each.job.name: held[each.job.name] for each in state.jobs}
        before = {each.job.name: each.gpus for each in state.jobs}
        widest = {each.name: each.widest for each in ranked}
        equal = EqualPlacements(regions, before, own, auctioned, widest, self._options.exchange)
        placements = equal.sample(candidates, self._draws)
        why = {"offered": auctioned, "rho": _unfairness(ranked), **auction.explained()}
        return Decision(
            [Candidate(each) for each in placements], self._ask_again_ps(state, own, ends_ps), why
        )

    def _regions_of(self, cluster: Cluster) -> Regions:
        # A run passes the same object at every call; comparing thousands of GPUs each time would be a waste.
        if self._regions is None or self._regions.cluster is not cluster:
            self._regions = Regions(cluster)
        return self._regions

    def _lease_ends_ps(self, state: State) -> dict[int, int]:
        """When the lease of each allocated GPU ends; winning a GPU again in an auction renews its lease."""
        auctioned_ps, lease_ps = self._auctioned_ps, self._options.lease_ps
        return {
            gpu: max(state.given_ps[gpu], auctioned_ps.get(gpu, 0)) + lease_ps
            for each in state.jobs
            for gpu in each.gpus
        }

    def _ask_again_ps(self, state: State, own: dict[str, Gpus], ends_ps: dict[int, int]) -> int | None:
        """When the first lease or the epoch ends; None without jobs."""
        if not state.jobs:
            return None
        # At least one auction per bidding period (NSDI'24 §5.1), however long leases still last.
        epoch_ends_ps = state.now_ps + self._options.epoch_ps
        first_ps = min((ends_ps[gpu] for gpus in own.values() for gpu in gpus), default=epoch_ends_ps)
        return min(first_ps + self._options.batch_ps, epoch_ends_ps)

    def _bidder(self, state: State, job: JobState, regions: Regions, expired: set[int]) -> Bidder:
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
        competing = self._competition.average(job.job.name) if self._options.competing_jobs else 1.0
        return Bidder(
            FinishTime(
                job,
                state.now_ps,
                cluster_gpus,
                competing,
                self._options,
                self._speedups.setdefault(job.job.name, {}),
            ),
            regions,
            tuple(size for size in job.job.sizes if size <= most),
            tuple(gpu for gpu in job.gpus if gpu not in expired),
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


def _unfairness(bidders: list[Bidder]) -> dict[str, float | None]:
    """ρ of each job at the start of the auction, worst first; None for jobs without GPUs."""
    return {each.name: rounded(each.rho_now) if each.former else None for each in bidders}
