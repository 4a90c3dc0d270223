"""One auction: the jobs with the worst ρ bid for the GPUs on offer; leftover GPUs go to any jobs.

`hocket_schedule::auction` holds it: bids, the arbiter, payments, and places for the winners.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hocket import _hocket
from hocket.schedulers.state import Cluster, Gpus, Span
from hocket.schedulers.themis.fairness import FinishTime

_WITHIN = {
    Span.SERVER: "in one server",
    Span.RACK: "in one rack",
    Span.RACKS: "anywhere",
    None: "in place",
}


@dataclass
class Bidder:
    """A job in an auction."""

    estimate: FinishTime
    cluster: Cluster
    most: int
    """The most workers that it may bid for."""
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
        return self.estimate.rho(len(self.former), self.cluster.span(self.former), in_place=True)

    @property
    def widest(self) -> Span:
        """The widest span at which ρ is as good as on the GPUs that it holds."""
        return self.estimate.widest(len(self.held), self.cluster.span(self.held))

    def row(self) -> "_hocket._Bidder":
        """The bidder as the auction takes it."""
        sizes = self.estimate.state.job.sizes
        fitting = bisect_right(sizes, max(self.most, len(self.former)))
        return {
            "sizes": sizes[:fitting],
            "most": self.most,
            "rho": self.estimate.rhos(fitting).astype("<f8").tobytes(),
            "rho_in_place": self.rho_now,
            "rho_waiting": self.estimate.rho(0, Span.SERVER),
            "former": self.former,
            "held": self.held,
        }


@dataclass(frozen=True)
class Auction:
    """The record of an auction."""

    ranked: Sequence[Bidder]
    """Worst ρ first."""
    record: "_hocket._AuctionRecord"

    def explained(self) -> dict[str, Any]:
        """The auction ready for JSON: bids by number of workers and span, with their valuations 1 ÷ ρ."""
        tables, names = self.record["tables"], [bidder.name for bidder in self.ranked]
        return {
            "asked": names[: len(tables)],
            "bids": {
                name: {_title(workers, span): rounded(1 / rho) for workers, span, rho in table}
                for name, table in zip(names, tables, strict=False)
            },
            "won": {
                names[number]: {"bid": _title(*tables[number][bid][:2]), "share": rounded(share)}
                for number, bid, share in self.record["won"]
            },
            "leftovers": {names[number]: count for number, count in self.record["leftovers"]},
            "proven": not self.record["cut_short"],
        }


def hold_auction(
    ranked: Sequence[Bidder],
    cluster: Cluster,
    offered: Sequence[int],
    claimed: Collection[int],
    visible: int,
    hidden_payment: bool,
    shuffle: Callable[[list[int]], object] | None,
) -> Auction:
    """Auction the GPUs `offered` among `ranked`, worst ρ first, showing them to `visible` jobs at a time
    until one of them wins (NSDI'20). Each bidder ends with a valid size in `held`.

    Jobs had those `claimed` until now, and may want them back. With `shuffle`, which shuffles GPUs in place,
    winners get drawn GPUs of the region that they won; without it, compact ones.
    """
    record = cluster.regions.auction(
        [bidder.row() for bidder in ranked],
        offered=offered,
        claimed=sorted(claimed),
        visible=visible,
        hidden_payment=hidden_payment,
        shuffle=shuffle,
    )
    for bidder, held in zip(ranked, record["held"], strict=True):
        bidder.held = held
    return Auction(ranked, record)


def _title(workers: int, span: int | None) -> str:
    """The total workers of a bid and their span, such as `4 in one rack`."""
    return f"{workers} {_WITHIN[None if span is None else Span(span)]}"


def rounded(value: float) -> float:
    """`value` to six significant digits, the precision of numbers in the notes on decisions."""
    return float(f"{value:.6g}")
