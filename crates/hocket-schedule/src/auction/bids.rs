//! Bidders, and the allocations that they bid for.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::auction::offer::Offer;
use crate::auction::regions::{Regions, Span};

/// An allocation that a job bids for: one row of its table.
#[derive(Clone, Debug, PartialEq)]
pub struct Bid {
    /// In total, including those that it holds.
    pub workers: usize,
    /// GPUs from the offer.
    pub needed: usize,
    /// Its unfairness on them.
    pub rho: f64,
    /// The logarithm of its valuation 1 ÷ ρ, minus that of winning nothing; positive.
    pub gain: f64,
    /// Where the GPUs have to be.
    pub place: Place,
}

/// Where the GPUs of a bid have to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All within one of these regions, no matter which, so that the job spans no more than this.
    Within(Span, Range<usize>),
    /// On the servers that the job had, as (server, number), ascending: it stays in place.
    InPlace(Vec<(usize, usize)>),
}

/// A job in an auction.
#[derive(Clone, Debug)]
pub struct Bidder {
    /// Numbers of workers with which it can run, ascending: those up to `most` and up to its former GPUs.
    pub sizes: Vec<usize>,
    /// The most workers that it may bid for.
    pub most: usize,
    /// By size, then by span: its unfairness ρ there, other than on its former GPUs.
    pub rho: Vec<[f64; 3]>,
    /// Its unfairness on its former GPUs.
    pub rho_in_place: f64,
    /// Its unfairness without GPUs.
    pub rho_waiting: f64,
    /// The GPUs that it runs on at the start of the auction, ascending.
    pub former: Vec<usize>,
    /// The GPUs that it keeps, ascending: those with a running lease, and those that it won.
    pub held: Vec<usize>,
}

impl Bidder {
    /// Its table: for each number of workers, bids for regions of each span at which ρ differs.
    ///
    /// Bids that do not improve ρ, or that the offer cannot satisfy, are left out.
    pub(crate) fn bids(&self, offer: &Offer<'_>) -> Vec<Bid> {
        let without = match self.reduced(offer.regions) {
            None => self.rho(&self.held, offer.regions),
            Some(kept) => self.rho(&kept, offer.regions),
        };
        let mut found: Vec<Bid> = self.stay(offer, without).into_iter().collect();
        self.add_moves(offer, without, &mut found);
        found
    }

    /// The most workers that it can run on with `count` GPUs; 0 if there are too few.
    pub(crate) fn usable(&self, count: usize) -> usize {
        let fitting = self.sizes.partition_point(|size| *size <= count);
        if fitting == 0 { 0 } else { self.sizes[fitting - 1] }
    }

    /// The number of workers after a won bid for `needed` GPUs if hidden payments leave a `share` of them.
    ///
    /// Hocket: NSDI'20 divides continuous goods. Here the share is rounded to the nearest number of GPUs, halves
    /// upwards, and then down to a size of the job; but at least to its next size, as otherwise no job could win a small
    /// number of GPUs.
    pub(crate) fn affordable(&self, needed: usize, share: f64) -> usize {
        let held = self.held.len();
        let paid = (share * needed as f64 + 0.5).floor() as usize;
        let next = self.sizes[self.sizes.partition_point(|size| *size <= held)];
        self.usable(held + paid).max(next)
    }

    /// The GPUs that it runs on if it wins nothing: those that it holds, down to the next of its sizes. `None` if it
    /// runs on all that it holds.
    pub(crate) fn reduced(&self, regions: &Regions) -> Option<Vec<usize>> {
        let usable = self.usable(self.held.len());
        let kept =
            || Offer::new(regions, &self.held, &[]).packed(usable, regions.whole(), &[], &[]);
        (usable < self.held.len()).then(kept)
    }

    /// ρ on `gpus`, of which there are none or as many as one of its sizes.
    fn rho(&self, gpus: &[usize], regions: &Regions) -> f64 {
        if gpus == self.former {
            return self.rho_in_place;
        }
        match self.sizes.binary_search(&gpus.len()) {
            Ok(size) => self.rho[size][regions.span(gpus) as usize],
            Err(_) => self.rho_waiting,
        }
    }

    /// Its former GPUs that it does not hold.
    pub(crate) fn lost(&self) -> Vec<usize> {
        let former = self.former.iter().copied();
        former.filter(|gpu| self.held.binary_search(gpu).is_err()).collect()
    }

    /// The bid for all its former GPUs, which needs no restart.
    fn stay(&self, offer: &Offer<'_>, without: f64) -> Option<Bid> {
        let lost = self.lost();
        // A job that won other GPUs before has to restart anyway, so staying is no option any more.
        let keeps_others = lost.len() + self.held.len() > self.former.len();
        if lost.is_empty() || keeps_others || !lost.iter().all(|gpu| offer.has(*gpu)) {
            return None;
        }
        let rho = self.rho_in_place;
        if rho >= without {
            return None;
        }
        let mut by_server: BTreeMap<usize, usize> = BTreeMap::new();
        for gpu in &lost {
            *by_server.entry(offer.regions.server_of(*gpu)).or_insert(0) += 1;
        }
        Some(Bid {
            workers: self.former.len(),
            needed: lost.len(),
            rho,
            gain: (without / rho).ln(),
            place: Place::InPlace(by_server.into_iter().collect()),
        })
    }

    fn add_moves(&self, offer: &Offer<'_>, without: f64, found: &mut Vec<Bid>) {
        let held = self.held.len();
        let places = Span::FALLING.map(|span| {
            let regions = offer.regions.at(span, &self.held);
            (span, regions.clone(), offer.most_in(regions))
        });
        let most = self.most.min(held + offer.total());
        let first = self.sizes.partition_point(|size| *size <= held);
        for (workers, rho) in self.sizes.iter().copied().zip(&self.rho).skip(first) {
            if workers > most {
                break;
            }
            let needed = workers - held;
            // A bid for a narrower span is worth listing only if its ρ is better.
            let mut best = without;
            for (span, regions, most) in &places {
                let rho = rho[*span as usize];
                if needed <= *most && rho < best {
                    let place = Place::Within(*span, regions.clone());
                    found.push(Bid { workers, needed, rho, gain: (without / rho).ln(), place });
                    best = rho;
                }
            }
        }
    }
}
