//! One auction of Themis (NSDI'20): the jobs with the worst ρ bid for the GPUs on offer; leftover GPUs go to any jobs.

mod arbiter;
mod bids;
mod offer;
mod regions;
mod search;

use std::collections::BTreeMap;
use std::ops::Range;

pub use arbiter::{Outcome, best_outcome, payments};
pub use bids::{Bid, Bidder, Place};
pub use offer::Offer;
pub use regions::{Regions, Span};
pub use search::Win;

/// Draws an order of GPUs.
pub type Shuffle<'a> = dyn FnMut(&mut Vec<usize>) + 'a;

/// The rules of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The number of jobs that see the offer at a time; at least 1.
    pub visible: usize,
    /// Whether a winner pays with a share of its win for the cost that it causes the others.
    pub hidden_payment: bool,
}

/// The record of an auction; bidders are named by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The bids of the jobs that saw the offer, which are the first bidders.
    pub tables: Vec<Vec<Bid>>,
    /// The winner, its bid as a place in its table, and the share of its GPUs that hidden payments leave.
    pub won: Vec<(usize, usize, f64)>,
    /// The number of leftover GPUs given to jobs after the bidding, in the order in which they first got any.
    pub leftovers: Vec<(usize, usize)>,
    /// Whether some outcome of the bidding may not have been the best, as its search was cut short.
    pub cut_short: bool,
}

/// Auctions `offer` among `bidders`, worst ρ first, showing it to some at a time until one of them wins (NSDI'20).
///
/// Leftover GPUs are allocated in a work-conserving and placement-aware manner: the arbiter gives them to the jobs that
/// did not see the offer, then to those that did, by the same product of valuations but without payments (Hocket: the
/// paper does not specify it). Each bidder ends with a valid size in `held`; GPUs that no job can use remain in `offer`.
///
/// Within the region that it won, a job gets compact places, or with `shuffle` drawn ones.
pub fn hold_auction(
    bidders: &mut [Bidder],
    offer: &mut Offer<'_>,
    rules: Rules,
    shuffle: Option<&mut Shuffle<'_>>,
) -> Record {
    let mut auction = Auction { bidders, offer, shuffle, record: Record::default() };
    if auction.offer.total() > 0 {
        auction.hold(rules);
    }
    auction.record
}

struct Auction<'a, 'b, 'c> {
    bidders: &'a mut [Bidder],
    offer: &'a mut Offer<'b>,
    shuffle: Option<&'a mut Shuffle<'c>>,
    record: Record,
}

impl Auction<'_, '_, '_> {
    fn hold(&mut self, rules: Rules) {
        let (mut last, mut given_up) = (0, false);
        while last < self.bidders.len() && self.record.won.is_empty() {
            let first = last;
            last = self.bidders.len().min(first + rules.visible);
            given_up |= self.first_round(first..last, rules.hidden_payment);
        }
        let groups = [last..self.bidders.len(), 0..last];
        // Without a win, every job has seen the offer and none could use it.
        let mut again = given_up || !self.record.won.is_empty();
        // GPUs that a job gives up meanwhile are left over as well.
        while again {
            again = false;
            for group in groups.clone() {
                again |= self.hand_out_leftovers(group);
            }
        }
    }

    /// Holds the bidding; returns whether a bidder gave up GPUs that are useless without those it lost.
    fn first_round(&mut self, group: Range<usize>, hidden_payment: bool) -> bool {
        let tables = self.tables(group.clone());
        let outcome = best_outcome(&tables, self.offer);
        let shares =
            if hidden_payment { payments(&tables, self.offer, &outcome) } else { BTreeMap::new() };
        let share = |index: &usize| shares.get(index).copied().unwrap_or(1.0);
        let won = outcome.wins.iter();
        self.record.won =
            won.map(|(index, win)| (group.start + index, win.bid, share(index))).collect();
        self.record.cut_short |= !outcome.proven;
        let given_up = self.settle(group, &tables, &outcome, &shares);
        self.record.tables.extend(tables);
        given_up
    }

    /// Gives leftover GPUs to bidders; the result is that of [`Self::first_round`].
    fn hand_out_leftovers(&mut self, group: Range<usize>) -> bool {
        let before: Vec<usize> =
            self.bidders[group.clone()].iter().map(|bidder| bidder.held.len()).collect();
        let tables = self.tables(group.clone());
        let outcome = best_outcome(&tables, self.offer);
        let given_up = self.settle(group.clone(), &tables, &outcome, &BTreeMap::new());
        for (bidder, before) in group.zip(before) {
            let more = self.bidders[bidder].held.len().saturating_sub(before);
            if more > 0 {
                self.add_leftovers(bidder, more);
            }
        }
        given_up
    }

    fn add_leftovers(&mut self, bidder: usize, more: usize) {
        let leftovers = &mut self.record.leftovers;
        match leftovers.iter_mut().find(|(each, _)| *each == bidder) {
            Some((_, count)) => *count += more,
            None => leftovers.push((bidder, more)),
        }
    }

    fn tables(&self, group: Range<usize>) -> Vec<Vec<Bid>> {
        self.bidders[group].iter().map(|bidder| bidder.bids(self.offer)).collect()
    }

    /// Gives the winners of a group their GPUs, and takes unusable ones from all of the group; returns whether any were
    /// taken. `shares` have those of winners that pay.
    fn settle(
        &mut self,
        group: Range<usize>,
        tables: &[Vec<Bid>],
        outcome: &Outcome,
        shares: &BTreeMap<usize, f64>,
    ) -> bool {
        let mut wins: Vec<(usize, &Bid, usize)> = outcome
            .wins
            .iter()
            .map(|(index, win)| (*index, &tables[*index][win.bid], win.region))
            .collect();
        // Narrow regions come first: a wide one could otherwise take the GPUs that a narrow one needs, as the arbiter
        // only counts. The sort is stable.
        wins.sort_by_key(|(_, bid, _)| match bid.place {
            Place::InPlace(_) => None,
            Place::Within(span, _) => Some(span),
        });
        for (index, bid, region) in wins {
            let share = shares.get(&index).copied().unwrap_or(1.0);
            self.give(group.start + index, bid, region, share);
        }
        let mut given_up = false;
        for bidder in &mut self.bidders[group] {
            if let Some(kept) = bidder.reduced(self.offer.regions) {
                let lost: Vec<usize> = bidder
                    .held
                    .iter()
                    .copied()
                    .filter(|gpu| kept.binary_search(gpu).is_err())
                    .collect();
                self.offer.add(&lost);
                bidder.held = kept;
                given_up = true;
            }
        }
        given_up
    }

    fn give(&mut self, bidder: usize, bid: &Bid, region: usize, share: f64) {
        let bidder = &mut self.bidders[bidder];
        let kept = bidder.affordable(bid.needed, share) - bidder.held.len();
        let gpus = match (&bid.place, &mut self.shuffle) {
            (Place::InPlace(_), _) => {
                // With a hidden payment, the job may get back only some of them.
                let lost = bidder.lost();
                let whole = self.offer.regions.whole();
                Offer::new(self.offer.regions, &lost, &[]).packed(kept, whole, &bidder.held, &[])
            }
            (Place::Within(..), None) => {
                self.offer.packed(kept, region, &bidder.held, &bidder.former)
            }
            (Place::Within(..), Some(shuffle)) => {
                self.offer.drawn(kept, region, &bidder.former, *shuffle)
            }
        };
        self.offer.remove(&gpus);
        bidder.held.extend(gpus);
        bidder.held.sort_unstable();
    }
}
