"""The arbiter of an auction: which bid of each job wins, by branch and bound, and what the winners pay.

It counts GPUs in regions and names none: GPUs of a server are alike, and regions lie within each other, so
bids that leave no region with less than nothing can all be met.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hocket.schedulers.state import Span
from hocket.schedulers.themis.regions import Offer

Demand = tuple[tuple[int, int], ...]
"""(region, how many GPUs in it)."""

_Row = npt.NDArray[np.float64]
_Name = tuple[object, ...]

MOST_STEPS = 2_000
"""Hocket: visible jobs are few and an optimum is mostly proven within hundreds of steps; where it is not, the
best found so far wins and the decision says so. A count, so that it ends the same on every machine."""

_SAME = 1e-12  # sums of logarithms closer than this differ by rounding


@dataclass(frozen=True)
class Bid:
    """What a job offers to run on: one row of its table."""

    workers: int
    """In all, with those that it holds."""
    needed: int
    """GPUs of the offer."""
    span: Span
    rho: float
    gain: float
    """log of its valuation 1 ÷ ρ, less that of winning nothing; above 0."""
    regions: Sequence[int]
    """It wants all of `needed` within one of these, whichever."""
    exact: Demand = ()
    """Instead of `regions`: the very servers that it had, to stay where it is."""


@dataclass(frozen=True)
class AuctionResult:
    """Who wins."""

    wins: dict[int, tuple[Bid, Demand]]
    """By number of the job, in the order of the tables given."""
    gain: float
    """Sum of gains: log of the product of valuations, less that of everybody winning nothing."""
    proven: bool
    """Whether no other outcome has a larger product."""


def best_outcome(tables: Sequence[Sequence[Bid]], offer: Offer) -> AuctionResult:
    """At most one bid of each of `tables`, so that the product of valuations is largest.

    The 0/1 program of NSDI'20, solved exactly where `MOST_STEPS` are enough. Equal products are settled by
    the order of tables and bids.
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
    """c_i of every winner: the product of the others' valuations with i there ÷ without it (NSDI'20).

    It is 1 where a winner is in nobody's way. The searches share `MOST_STEPS`; one cut short can only find
    that a winner costs the others less than it does.
    """
    jobs, bidding = _bidding(tables)
    bounds = _bounds(bidding, np.zeros(offer.total + 1))
    names = _interchangeable(bidding, offer)
    shares = {}
    for index, winner in enumerate(jobs):
        if winner not in outcome.wins:
            continue
        others = [*bidding[:index], *bidding[index + 1 :]]
        before = _bounds(bidding[:index], bounds[index + 1])[:-1]
        most_steps = MOST_STEPS // len(outcome.wins)
        search = _Search(others, offer, [*before, *bounds[index + 1 :]], names, most_steps)
        theirs = outcome.gain - outcome.wins[winner][0].gain
        search.best_gain = theirs  # they get at least that without it
        search.run()
        shares[winner] = math.exp(theirs - search.best_gain)
    return shares


class _Search:
    """Depth first over jobs that bid, most promising bids first.

    Bounded by the same problem without regions: per job and number of GPUs the best bid there is.
    """

    def __init__(
        self,
        tables: Sequence[Sequence[Bid]],
        offer: Offer,
        bounds: Sequence[_Row],
        names: Sequence[_Name],
        most_steps: int,
    ) -> None:
        """`bounds` as `_bounds` makes them of `tables`, `names` as `_interchangeable` does."""
        self.tables = tables
        self.offer = offer
        self.bounds = bounds
        self.names = names
        self.rest = list(offer.counts)
        self.chosen: dict[int, tuple[Bid, Demand]] = {}
        self.best: dict[int, tuple[Bid, Demand]] = {}
        self.best_gain = 0.0
        self.steps = 0
        self.most_steps = len(tables) + most_steps  # the first way through all jobs comes to its end

    def run(self) -> None:
        """Goes through the choices of all jobs; not recursive, as a queue of jobs may be long."""
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
        """Makes one choice after another for a job, on top of what is chosen with `gain` in all.

        Yields the gain with each, and takes it back when resumed.
        """
        if depth == len(self.tables):
            return
        self.steps += 1
        for promise, bid in self._promising(depth):
            for demand in self._places(bid) if bid else [()]:
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
        bound, total = self.bounds[depth + 1], self.rest[-1]
        found: list[tuple[float, Bid | None]] = [
            (bid.gain + bound[total - bid.needed], bid) for bid in self.tables[depth] if bid.needed <= total
        ]
        found.append((bound[total], None))
        return sorted(found, key=lambda each: -each[0])

    def _places(self, bid: Bid) -> Iterator[Demand]:
        """Where `bid` can still be met, one of those that are alike; tightest first, and before those from
        which it would take what others may want back.
        """
        if bid.exact:
            if self._fits(bid.exact):
                yield bid.exact
            return
        alike = set()
        enough = [region for region in bid.regions if self.rest[region] >= bid.needed]
        unclaimed = self.offer.unclaimed
        for region in sorted(enough, key=lambda each: (unclaimed[each] < bid.needed, self.rest[each], each)):
            demand = ((region, bid.needed),)
            if self._fits(demand) and (name := self._name(region)) not in alike:
                alike.add(name)
                yield demand

    def _fits(self, demand: Demand) -> bool:
        self._take(demand, 1)
        around = self.offer.regions.around
        fits = all(self.rest[each] >= 0 for region, _ in demand for each in around[region])
        self._take(demand, -1)
        return fits

    def _take(self, demand: Demand, sign: int) -> None:
        for region, count in demand:
            for around in self.offer.regions.around[region]:
                self.rest[around] -= sign * count

    def _name(self, region: int) -> _Name:
        """The same for regions that are alike at the start and of which nothing was taken since."""
        around = self.offer.regions.around[region]
        return tuple(
            self.names[each] if self.rest[each] == self.offer.counts[each] else each for each in around
        )


def _bidding(tables: Sequence[Sequence[Bid]]) -> tuple[list[int], list[Sequence[Bid]]]:
    """The jobs that bid, by number, and their tables."""
    jobs = [job for job, table in enumerate(tables) if table]
    return jobs, [tables[job] for job in jobs]


def _bounds(tables: Sequence[Sequence[Bid]], last: _Row) -> list[_Row]:
    """By job, the most that it and later ones gain, wherever the GPUs are; by number of GPUs left.

    `last` is that of the jobs after `tables`, and ends the list.
    """
    rows = [last]
    for table in reversed(tables):
        row = rows[-1].copy()
        for bid in table:
            if bid.needed < len(row):
                with_bid = rows[-1][: len(row) - bid.needed] + bid.gain
                np.maximum(row[bid.needed :], with_bid, out=row[bid.needed :])
        rows.append(row)
    return rows[::-1]


def _interchangeable(tables: Sequence[Sequence[Bid]], offer: Offer) -> list[_Name]:
    """By region: a name that regions share if no bid tells them apart."""
    regions = offer.regions
    named: set[int] = set()
    for bid in (bid for table in tables for bid in table):
        told = [region for region, _ in bid.exact] or (bid.regions if len(bid.regions) == 1 else ())
        named.update(
            around for region in told if region != regions.whole for around in regions.around[region]
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
