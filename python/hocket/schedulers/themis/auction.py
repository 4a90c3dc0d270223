"""One auction: the worst off jobs bid for what is on offer, and what they leave goes to who can use it."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hocket.schedulers.state import Gpus, Span
from hocket.schedulers.themis.arbiter import AuctionResult, Bid, best_outcome, payments
from hocket.schedulers.themis.fairness import FinishTime
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
    """What it has for sure: by a lease that goes on, or because it won them."""

    @property
    def name(self) -> str:
        """Of the job."""
        return self.estimate.state.job.name

    @property
    def former(self) -> Gpus:
        """Where it runs as the auction begins."""
        return self.estimate.state.gpus

    @cached_property
    def rho_now(self) -> float:
        """ρ where it runs as the auction begins."""
        return self.rho(self.former)

    def rho(self, gpus: Gpus) -> float:
        """ρ on `gpus`."""
        return self.estimate.rho(len(gpus), self.span(gpus), in_place=gpus == self.former)

    @property
    def widest(self) -> Span:
        """The widest span at which ρ is as good as on what it holds."""
        return self.estimate.widest(len(self.held), self.span(self.held))

    def span(self, gpus: Gpus) -> Span:
        """That of `gpus`, remembered, as most of an auction asks for that of the same."""
        if gpus not in self._spans:
            self._spans[gpus] = self.regions.cluster.span(gpus)
        return self._spans[gpus]

    @cached_property
    def _spans(self) -> dict[Gpus, Span]:
        return {}

    def usable(self, count: int) -> int:
        """The most workers it can run on with `count` GPUs; 0 if there are too few."""
        sizes = self.estimate.state.job.sizes
        fitting = bisect_right(sizes, count)
        return sizes[fitting - 1] if fitting else 0

    def affordable(self, bid: Bid, share: float) -> int:
        """How many workers are left of a `bid` that won with a `share` of its GPUs, after hidden payments.

        Hocket: NSDI'20 shares divisible goods. Here the nearest number of GPUs, half a GPU counting as one,
        and of these as many as make a size; at least the next size, as else nobody could win few GPUs.
        """
        paid = self.usable(len(self.held) + math.floor(share * bid.needed + 0.5))
        return max(paid, min(size for size in self.estimate.state.job.sizes if size > len(self.held)))

    def reduced(self) -> Gpus:
        """The GPUs it runs on if it wins nothing: what it holds, less those that no size of it can use."""
        usable = self.usable(len(self.held))
        if usable == len(self.held):
            return self.held
        return Offer(self.regions, self.held).pick(usable, self.regions.whole)

    def bids(self, offer: Offer) -> list[Bid]:
        """Its table: per number of workers the regions in which ρ is best, and wider ones where it is worse.

        No bid that does not improve ρ, nor one that the offer cannot meet.
        """
        without = self.rho(self.reduced())
        return [*self._stay(offer, without), *self._move(offer, without)]

    def _stay(self, offer: Offer, without: float) -> list[Bid]:
        """The bid for all the GPUs that it had, which costs no restart."""
        lost = tuple(gpu for gpu in self.former if gpu not in self.held)
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
        for workers in self.sizes:
            needed = workers - len(self.held)
            if not 0 < needed <= offer.total:
                continue
            best = without
            for span in _WIDEST_FIRST:  # a narrower one is bid for only if it is worth more
                rho = self.estimate.rho(workers, span)
                regions = offer.regions.at(span, self.held)
                if rho < best and any(offer.counts[region] >= needed for region in regions):
                    found.append(Bid(workers, needed, span, rho, math.log(without / rho), regions))
                    best = rho
        return found


@dataclass
class Auction:
    """What was offered, what was bid for, and who got what, by job in the order in which it happened."""

    offer: Offer
    """What nobody has so far."""
    asked: list[str] = field(default_factory=list)
    """Who saw the offer, worst off first."""
    tables: dict[str, list[Bid]] = field(default_factory=dict)
    won: dict[str, tuple[Bid, float]] = field(default_factory=dict)
    """The winning bid, and the share of its GPUs that hidden payments leave."""
    leftovers: dict[str, int] = field(default_factory=dict)
    """How many GPUs were handed out afterwards."""
    proven: bool = True

    def explained(self) -> dict[str, Any]:
        """The auction as JSON holds it: bids by number of workers and where, with their valuations 1 ÷ ρ."""
        return {
            "asked": self.asked,
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


def hold(ranked: Sequence[Bidder], offer: Offer, visible: int, hidden_payment: bool) -> Auction:
    """Auctions `offer` among `ranked`, worst off first, `visible` at a time until somebody bids.

    What is left is work-conserving and placement-aware: the arbiter gives it to those who did not see the
    offer, then to those who did, by the same product of valuations and without payments (Hocket: the paper
    does not say how). Each bidder ends with a size that it can run on in `held`; what nobody can use stays in
    `offer`.
    """
    auction = Auction(offer)
    if offer.total == 0:
        return auction
    last, given_up = 0, False
    while last < len(ranked) and not auction.won:
        asked, last = ranked[last : last + visible], last + visible
        given_up |= _first_round(auction, asked, hidden_payment)
    groups = ranked[last:], ranked[:last]
    again = given_up or bool(auction.won)
    while again:  # what a job gave up on the way is left over as well
        again = False
        for group in groups:
            again |= _hand_out_leftovers(auction, group)
    return auction


def _first_round(auction: Auction, bidders: Sequence[Bidder], hidden_payment: bool) -> bool:
    """Returns whether one of `bidders` gave up GPUs that it cannot use without those that it lost."""
    tables = [bidder.bids(auction.offer) for bidder in bidders]
    outcome = best_outcome(tables, auction.offer)
    shares = payments(tables, auction.offer, outcome) if hidden_payment else {}
    auction.asked += [bidder.name for bidder in bidders]
    auction.tables |= {bidder.name: table for bidder, table in zip(bidders, tables, strict=True)}
    auction.won = {
        bidders[index].name: (bid, shares.get(index, 1.0)) for index, (bid, _) in sorted(outcome.wins.items())
    }
    auction.proven = auction.proven and outcome.proven
    return _settle(auction.offer, bidders, outcome, shares)


def _hand_out_leftovers(auction: Auction, bidders: Sequence[Bidder]) -> bool:
    """Returns what `_first_round` does."""
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
    """Gives the winners their GPUs and takes from all what they cannot use; returns whether that is any."""
    # Narrow regions first: wide ones take what is left, as the arbiter counted.
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
        lost = Offer(offer.regions, (gpu for gpu in bidder.former if gpu not in bidder.held))
        gpus = lost.pick(kept, offer.regions.whole, bidder.held)
    else:
        gpus = offer.pick(kept, region, bidder.held, frozenset(bidder.former))
    offer.remove(gpus)
    bidder.held = tuple(sorted((*bidder.held, *gpus)))


def _title(bid: Bid) -> str:
    """Number of GPUs and where they are, such as `4 in one rack`."""
    return f"{bid.workers} {'in place' if bid.exact else _WITHIN[bid.span]}"


def rounded(value: float) -> float:
    """To six significant digits, which is what a decision says of its numbers."""
    return float(f"{value:.6g}")
