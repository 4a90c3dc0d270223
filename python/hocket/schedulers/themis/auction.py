"""One auction: the jobs with the worst ρ bid for the GPUs on offer; leftover GPUs go to any jobs."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hocket.schedulers.state import Gpus, Span
from hocket.schedulers.themis.arbiter import AuctionResult, Bid, best_outcome, payments
from hocket.schedulers.themis.fairness import FinishTime, depends_on_span
from hocket.schedulers.themis.regions import Offer, Regions

_WIDEST_FIRST = tuple(sorted(Span, reverse=True))
_WITHIN = {Span.SERVER: "in one server", Span.RACK: "in one rack", Span.RACKS: "anywhere"}


@dataclass
class Bidder:
    """A job in an auction."""

    estimate: FinishTime
    regions: Regions
    sizes: tuple[int, ...]
    """Numbers of workers that it may bid for, ascending."""
    held: Gpus
    """The GPUs that it keeps: those with a running lease, and those that it won."""

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.estimate.state.job.name

    @property
    def former(self) -> Gpus:
        """The GPUs that it runs on at the start of the auction."""
        return self.estimate.state.gpus

    @cached_property
    def rho_now(self) -> float:
        """ρ on the GPUs that it runs on at the start of the auction."""
        return self.rho(self.former)

    def rho(self, gpus: Gpus) -> float:
        """ρ on `gpus`."""
        return self.estimate.rho(len(gpus), self.span(gpus), in_place=gpus == self.former)

    @property
    def widest(self) -> Span:
        """The widest span at which ρ is as good as on the GPUs that it holds."""
        return self.estimate.widest(len(self.held), self.span(self.held))

    def span(self, gpus: Gpus) -> Span:
        """The span of `gpus`, cached because an auction computes it for the same GPUs many times."""
        if gpus not in self._spans:
            self._spans[gpus] = self.regions.cluster.span(gpus)
        return self._spans[gpus]

    @cached_property
    def _spans(self) -> dict[Gpus, Span]:
        return {}

    def usable(self, count: int) -> int:
        """The most workers that it can run on with `count` GPUs; 0 if there are too few."""
        sizes = self.estimate.state.job.sizes
        fitting = bisect_right(sizes, count)
        return sizes[fitting - 1] if fitting else 0

    def affordable(self, bid: Bid, share: float) -> int:
        """The number of workers after a won `bid` if hidden payments leave a `share` of its GPUs.

        Hocket: NSDI'20 divides continuous goods. Here the share is rounded to the nearest number of GPUs,
        halves upwards, and then down to a size of the job; but at least to its next size, as otherwise no job
        could win a small number of GPUs.
        """
        paid = self.usable(len(self.held) + math.floor(share * bid.needed + 0.5))
        return max(paid, min(size for size in self.estimate.state.job.sizes if size > len(self.held)))

    def reduced(self) -> Gpus:
        """The GPUs that it runs on if it wins nothing: those that it holds, down to the next of its sizes."""
        usable = self.usable(len(self.held))
        if usable == len(self.held):
            return self.held
        return Offer(self.regions, self.held).pick(usable, self.regions.whole)

    def bids(self, offer: Offer) -> list[Bid]:
        """Its table: for each number of workers, bids for regions of each span at which ρ differs.

        Bids that do not improve ρ, or that the offer cannot satisfy, are left out.
        """
        without = self.rho(self.reduced())
        return [*self._stay(offer, without), *self._move(offer, without)]

    def _stay(self, offer: Offer, without: float) -> list[Bid]:
        """The bid for all its former GPUs, which needs no restart."""
        lost = tuple(gpu for gpu in self.former if gpu not in self.held)
        # A job that won other GPUs before has to restart anyway, so staying is no option any more.
        if not lost or len(lost) + len(self.held) > len(self.former) or any(gpu not in offer for gpu in lost):
            return []
        rho = self.rho(self.former)
        if rho >= without:
            return []
        exact = tuple(sorted(Counter(self.regions.cluster.server_of[gpu] for gpu in lost).items()))
        return [
            Bid(len(self.former), len(lost), self.span(self.former), rho, math.log(without / rho), (), exact)
        ]

    def _move(self, offer: Offer, without: float) -> list[Bid]:
        found = []
        held = len(self.held)
        # A narrower span without a better ρ is no bid of its own.
        matter = depends_on_span(self.estimate.state.job, self.estimate.options.slowdown)
        spans_in_question = _WIDEST_FIRST if matter else _WIDEST_FIRST[:1]
        places = [(span, offer.regions.at(span, self.held)) for span in spans_in_question]
        spans = [(span, regions, offer.most_in(regions)) for span, regions in places]
        # Sizes ascend.
        sizes = self.sizes[bisect_right(self.sizes, held) : bisect_right(self.sizes, held + offer.total)]
        for workers in sizes:
            needed = workers - held
            best = without
            # A bid for a narrower span is worth listing only if its ρ is better.
            for span, regions, most in spans:
                if needed > most:
                    continue
                rho = self.estimate.rho(workers, span)
                if rho < best:
                    found.append(Bid(workers, needed, span, rho, math.log(without / rho), regions))
                    best = rho
        return found


@dataclass
class Auction:
    """The record of an auction: offer, bids and wins, by job in the order in which they occurred."""

    offer: Offer
    """The GPUs that no job has won so far."""
    offered_to: list[str] = field(default_factory=list)
    """The jobs that saw the offer, worst ρ first."""
    tables: dict[str, list[Bid]] = field(default_factory=dict)
    won: dict[str, tuple[Bid, float]] = field(default_factory=dict)
    """The winning bid, and the share of its GPUs that hidden payments leave."""
    leftovers: dict[str, int] = field(default_factory=dict)
    """The number of leftover GPUs given out after the bidding, by job."""
    proven: bool = True

    def explained(self) -> dict[str, Any]:
        """The auction ready for JSON: bids by number of workers and span, with their valuations 1 ÷ ρ."""
        return {
            "asked": self.offered_to,
            "bids": {
                name: {_title(bid): rounded(1 / bid.rho) for bid in table}
                for name, table in self.tables.items()
            },
            "won": {
                name: {"bid": _title(bid), "share": rounded(share)} for name, (bid, share) in self.won.items()
            },
            "leftovers": self.leftovers,
            "proven": self.proven,
        }


def hold_auction(ranked: Sequence[Bidder], offer: Offer, visible: int, hidden_payment: bool) -> Auction:
    """Auction `offer` among `ranked`, worst ρ first, showing it to `visible` jobs at a time until one of them
    wins (NSDI'20).

    Leftover GPUs are allocated in a work-conserving and placement-aware manner: the arbiter gives them to the
    jobs that did not see the offer, then to those that did, by the same product of valuations but without
    payments (Hocket: the paper does not specify it). Each bidder ends with a valid size in `held`; GPUs that
    no job can use remain in `offer`.
    """
    auction = Auction(offer)
    if offer.total == 0:
        return auction
    last, given_up = 0, False
    while last < len(ranked) and not auction.won:
        bidders, last = ranked[last : last + visible], last + visible
        given_up |= _first_round(auction, bidders, hidden_payment)
    groups = ranked[last:], ranked[:last]
    # Without a win, every job has seen the offer and none could use it.
    again = given_up or bool(auction.won)
    # GPUs that a job gives up meanwhile are left over as well.
    while again:
        again = False
        for group in groups:
            again |= _hand_out_leftovers(auction, group)
    return auction


def _first_round(auction: Auction, bidders: Sequence[Bidder], hidden_payment: bool) -> bool:
    """Hold the bidding; return whether a bidder gave up GPUs that are useless without those it lost."""
    tables = [bidder.bids(auction.offer) for bidder in bidders]
    outcome = best_outcome(tables, auction.offer)
    shares = payments(tables, auction.offer, outcome) if hidden_payment else {}
    auction.offered_to += [bidder.name for bidder in bidders]
    auction.tables |= {bidder.name: table for bidder, table in zip(bidders, tables, strict=True)}
    auction.won = {
        bidders[index].name: (bid, shares.get(index, 1.0)) for index, (bid, _) in sorted(outcome.wins.items())
    }
    auction.proven = auction.proven and outcome.proven
    return _settle(auction.offer, bidders, outcome, shares)


def _hand_out_leftovers(auction: Auction, bidders: Sequence[Bidder]) -> bool:
    """Give leftover GPUs to `bidders`; the result is that of `_first_round`."""
    before = {bidder.name: len(bidder.held) for bidder in bidders}
    outcome = best_outcome([bidder.bids(auction.offer) for bidder in bidders], auction.offer)
    given_up = _settle(auction.offer, bidders, outcome, {})
    for bidder in bidders:
        if (more := len(bidder.held) - before[bidder.name]) > 0:
            auction.leftovers[bidder.name] = auction.leftovers.get(bidder.name, 0) + more
    return given_up


def _settle(
    offer: Offer, bidders: Sequence[Bidder], outcome: AuctionResult, shares: dict[int, float]
) -> bool:
    """Give the winners their GPUs, and take unusable ones from all bidders; return whether any were taken."""
    # Narrow regions come first: a wide one could otherwise take the GPUs that a narrow one needs, as the
    # arbiter only counts.
    for index, (bid, demand) in sorted(
        outcome.wins.items(), key=lambda win: (not win[1][0].exact, win[1][0].span, win[0])
    ):
        _give(offer, bidders[index], bid, demand[0][0], shares.get(index, 1.0))
    given_up = False
    for bidder in bidders:
        kept = bidder.reduced()
        if kept != bidder.held:
            offer.add(gpu for gpu in bidder.held if gpu not in kept)
            bidder.held, given_up = kept, True
    return given_up


def _give(offer: Offer, bidder: Bidder, bid: Bid, region: int, share: float) -> None:
    kept = bidder.affordable(bid, share) - len(bidder.held)
    if bid.exact:
        # With a hidden payment, the job may get back only some of them.
        lost = Offer(offer.regions, (gpu for gpu in bidder.former if gpu not in bidder.held))
        gpus = lost.pick(kept, offer.regions.whole, bidder.held)
    else:
        gpus = offer.pick(kept, region, bidder.held, frozenset(bidder.former))
    offer.remove(gpus)
    bidder.held = tuple(sorted((*bidder.held, *gpus)))


def _title(bid: Bid) -> str:
    """The total workers of a bid and their span, such as `4 in one rack`."""
    return f"{bid.workers} {'in place' if bid.exact else _WITHIN[bid.span]}"


def rounded(value: float) -> float:
    """`value` to six significant digits, the precision of numbers in the notes on decisions."""
    return float(f"{value:.6g}")
