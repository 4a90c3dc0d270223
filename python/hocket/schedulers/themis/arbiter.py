"""The arbiter of an auction: selects the winning bid of each job by branch and bound, and computes the
payments.

It only counts GPUs per region, because the GPUs of a server are interchangeable. As regions are nested, bids
that leave no region with a negative count can all be satisfied.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from hocket.schedulers.state import Span
from hocket.schedulers.themis.regions import Offer

Demand = tuple[tuple[int, int], ...]
"""GPUs in regions, as (region, number)."""

_Row = npt.NDArray[np.float64]
_Name = tuple[object, ...]

MOST_STEPS = 2_000
"""Hocket: few jobs are visible, and an optimum is mostly proven within hundreds of steps; otherwise the best
outcome found so far wins, and the notes on the decision say so. A limit on steps, unlike one on time, gives
the same result on every machine."""

# Sums of logarithms that differ by less than this differ only by rounding.
_SAME = 1e-12


@dataclass(frozen=True)
class Bid:
    """An allocation that a job bids for: one row of its table."""

    workers: int
    """In total, including those that it holds."""
    needed: int
    """GPUs from the offer."""
    span: Span
    rho: float
    gain: float
    """Logarithm of its valuation 1 ÷ ρ, minus that of winning nothing; positive."""
    regions: Sequence[int]
    """All of `needed` must be within one of these regions, no matter which."""
    exact: Demand = ()
    """Instead of `regions`: the servers that the job had, on which it can stay."""


@dataclass(frozen=True)
class AuctionResult:
    """The winning bids of an auction."""

    wins: dict[int, tuple[Bid, Demand]]
    """By number of the job, in the order of the given tables."""
    gain: float
    """Sum of gains: logarithm of the product of valuations, minus that without any wins."""
    proven: bool
    """Whether the search proved that no other outcome has a larger product."""


def best_outcome(tables: Sequence[Sequence[Bid]], offer: Offer) -> AuctionResult:
    """At most one bid of each of `tables`, such that the product of valuations is maximal.

    This is the 0/1 program of NSDI'20, solved exactly if `MOST_STEPS` suffice. Between equal products the
    order of tables and bids decides.
    """
    jobs, bidding = _bidding(tables)
    if not jobs:
        return AuctionResult({}, 0.0, True)
    bounds = _bounds(bidding, np.zeros(offer.total + 1))
    search = _Search(bidding, offer, bounds, _interchangeable(bidding, offer), MOST_STEPS)
    search.run()
    wins = {jobs[index]: win for index, win in sorted(search.best.items())}
    return AuctionResult(wins, search.best_gain, search.steps < search.most_steps)


def payments(tables: Sequence[Sequence[Bid]], offer: Offer, outcome: AuctionResult) -> dict[int, float]:
    """c_i of every winner: the product of the others' valuations with winner i ÷ without it (NSDI'20).

    It is 1 if the winner costs the others nothing. The searches share `MOST_STEPS`; a search that is cut
    short can only underestimate that cost.
    """
    jobs, bidding = _bidding(tables)
    bounds = _bounds(bidding, np.zeros(offer.total + 1))
    names = _interchangeable(bidding, offer)
    shares = {}
    for index, winner in enumerate(jobs):
        if winner not in outcome.wins:
            continue
        others = [*bidding[:index], *bidding[index + 1 :]]
        # Without the winner, only the bounds of the jobs before it change. Reusing the others reduced a
        # decision on 1,000 jobs that wait for 1,024 free GPUs from 2 s to 0.6 s.
        before = _bounds(bidding[:index], bounds[index + 1])[:-1]
        most_steps = MOST_STEPS // len(outcome.wins)
        search = _Search(others, offer, [*before, *bounds[index + 1 :]], names, most_steps)
        theirs = outcome.gain - outcome.wins[winner][0].gain
        # The gain of the others cannot fall when the winner is removed.
        search.best_gain = theirs
        search.run()
        shares[winner] = math.exp(theirs - search.best_gain)
    return shares


class _Search:
    """Depth-first search over the bidding jobs, most promising bids first.

    The bound is the optimum of the same problem without regions, by job and number of GPUs left.
    """

    def __init__(
        self,
        tables: Sequence[Sequence[Bid]],
        offer: Offer,
        bounds: Sequence[_Row],
        names: Sequence[_Name],
        most_steps: int,
    ) -> None:
        """`bounds` come from `_bounds`, `names` from `_interchangeable`."""
        self.tables = tables
        self.offer = offer
        self.bounds = bounds
        self.names = names
        self.left = list(offer.counts)
        """By region: the number of GPUs that the choices so far leave."""
        self.chosen: dict[int, tuple[Bid, Demand]] = {}
        self.best: dict[int, tuple[Bid, Demand]] = {}
        self.best_gain = 0.0
        self.steps = 0
        # Enough to complete the first descent through all jobs, so that every search finds an outcome.
        self.most_steps = len(tables) + most_steps

    def run(self) -> None:
        """Search the choices of all jobs; not recursive, as many jobs would exceed the recursion limit."""
        levels = [self._choices(0, 0.0)]
        while levels:
            gain = next(levels[-1], None)
            if gain is None:
                levels.pop()
                continue
            if gain > self.best_gain + _SAME:
                self.best, self.best_gain = dict(self.chosen), gain
            levels.append(self._choices(len(levels), gain))

    def _choices(self, depth: int, gain: float) -> Iterator[float]:
        """Apply each choice for the job at `depth` in turn, on top of the earlier choices, whose gain is
        `gain`.

        Yields the total gain with each choice, and undoes the choice when resumed.
        """
        if depth == len(self.tables):
            return
        self.steps += 1
        for promise, bid in self._promising(depth):
            for demand in self._places(bid) if bid else [()]:
                # Bids are sorted by promise, so no later bid can improve the best outcome either.
                if gain + promise <= self.best_gain + _SAME or self.steps >= self.most_steps:
                    return
                if bid is None:
                    yield gain
                    continue
                self._take(demand, 1)
                self.chosen[depth] = bid, demand
                yield gain + bid.gain
                del self.chosen[depth]
                self._take(demand, -1)

    def _promising(self, depth: int) -> list[tuple[float, Bid | None]]:
        """The bids of the job at `depth`, and None for no win, by falling bound on the gain of this job and
        all later ones.
        """
        bound, total = self.bounds[depth + 1], self.left[-1]
        choices: list[tuple[float, Bid | None]] = [
            (bid.gain + bound[total - bid.needed], bid) for bid in self.tables[depth] if bid.needed <= total
        ]
        choices.append((bound[total], None))
        return sorted(choices, key=lambda each: -each[0])

    def _places(self, bid: Bid) -> Iterator[Demand]:
        """Demands that satisfy `bid` with the GPUs left, one for each kind of interchangeable region: those
        with the fewest GPUs left first, but regions last in which the bid would take GPUs that others may
        reclaim.
        """
        if bid.exact:
            if self._fits(bid.exact):
                yield bid.exact
            return
        tried = set()
        # Best fit: regions with many GPUs left stay open for bids that need many.
        enough = [region for region in bid.regions if self.left[region] >= bid.needed]
        left, unclaimed, needed = self.left, self.offer.unclaimed, bid.needed
        for _, _, region in sorted([(unclaimed[each] < needed, left[each], each) for each in enough]):
            demand = ((region, bid.needed),)
            if self._fits(demand) and (name := self._name(region)) not in tried:
                tried.add(name)
                yield demand

    def _fits(self, demand: Demand) -> bool:
        # The servers of an exact bid may be in one rack, whose GPUs only their sum can exceed.
        self._take(demand, 1)
        around = self.offer.regions.around
        fits = all(self.left[each] >= 0 for region, _ in demand for each in around[region])
        self._take(demand, -1)
        return fits

    def _take(self, demand: Demand, sign: int) -> None:
        for region, count in demand:
            for around in self.offer.regions.around[region]:
                self.left[around] -= sign * count

    def _name(self, region: int) -> _Name:
        """A name that is equal for regions that were interchangeable at the start and are still untouched."""
        around = self.offer.regions.around[region]
        return tuple(
            self.names[each] if self.left[each] == self.offer.counts[each] else each for each in around
        )


def _bidding(tables: Sequence[Sequence[Bid]]) -> tuple[list[int], list[Sequence[Bid]]]:
    """The numbers of the jobs that bid, and their tables."""
    jobs = [job for job, table in enumerate(tables) if table]
    return jobs, [tables[job] for job in jobs]


def _bounds(tables: Sequence[Sequence[Bid]], last: _Row) -> list[_Row]:
    """For each job, the highest gain of it and all later ones regardless of regions, by number of GPUs left.

    `last` is the row of the jobs after `tables`, and ends the list.
    """
    rows = [last]
    for table in reversed(tables):
        # Of several bids for as many GPUs, only the best matters here.
        best: dict[int, float] = {}
        for bid in table:
            if bid.needed < len(last):
                best[bid.needed] = max(bid.gain, best.get(bid.needed, 0.0))
        if not best:
            rows.append(rows[-1])
            continue
        # By bid, the row of the later jobs with the GPUs that the bid leaves.
        most = max(best)
        shifted = sliding_window_view(np.concatenate([np.full(most, -np.inf), rows[-1]]), len(last))
        with_bids = shifted[[most - needed for needed in best]] + np.array([*best.values()])[:, np.newaxis]
        rows.append(np.maximum(rows[-1], with_bids.max(axis=0)))
    return rows[::-1]


def _interchangeable(tables: Sequence[Sequence[Bid]], offer: Offer) -> list[_Name]:
    """By region: a name that regions share if no bid distinguishes them."""
    regions = offer.regions
    named: set[int] = set()
    for bid in (bid for table in tables for bid in table):
        # A bid with several regions is for any server or any rack, and every region is part of the whole
        # cluster: neither distinguishes regions.
        single = [region for region, _ in bid.exact] or (bid.regions if len(bid.regions) == 1 else ())
        named.update(
            around for region in single if region != regions.whole for around in regions.around[region]
        )
    names: list[_Name] = []
    for region, count in enumerate(offer.counts):
        if region in named:
            names.append(("named", region))
        elif region < regions.servers or region == regions.whole:
            names.append((count,))
        else:
            inside = regions.servers_in(region)
            names.append(tuple(sorted(offer.counts[server] for server in inside)))
    return names
