//! Branch and bound over the bids of an auction.
//!
//! It only counts GPUs per region, because the GPUs of a server are interchangeable. As regions are nested, bids that
//! leave no region with a negative count can all be satisfied.

use std::collections::BTreeSet;
use std::vec::IntoIter;

use crate::auction::bids::{Bid, Place};
use crate::auction::offer::Offer;

/// Sums of logarithms that differ by less than this differ only by rounding.
const SAME: f64 = 1e-12;

/// The bid of a job that wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    /// Its place in the table of the job.
    pub bid: usize,
    /// The region in which the job gets the GPUs; for a bid in place, which names its servers, the whole cluster.
    pub region: usize,
}

/// Depth-first search over the bidding jobs, most promising bids first.
///
/// The bound is the optimum of the same problem without regions, by job and number of GPUs left.
pub(crate) struct Search<'a> {
    tables: &'a [&'a [Bid]],
    offer: &'a Offer<'a>,
    /// By job: the highest gain of it and all later ones, by number of GPUs left. The last row is that of no jobs.
    bounds: &'a [&'a [f64]],
    /// By region: a number that regions share if no bid distinguishes them. There are fewer numbers than regions.
    names: &'a [usize],
    /// By region: the number of GPUs that the choices so far leave.
    left: Vec<usize>,
    /// By job: the win of the choice so far, if any.
    chosen: Vec<Option<Win>>,
    /// By job: its win in the best outcome so far.
    pub(crate) best: Vec<Option<Win>>,
    pub(crate) best_gain: f64,
    steps: usize,
    most_steps: usize,
}

/// The choices for one job, on top of those for the jobs before it.
struct Level {
    /// The gain of the choices for the jobs before it.
    gain: f64,
    /// A bid, or none, with a bound on the gain of this job and all later ones; bounds fall.
    choices: Vec<(f64, Option<usize>)>,
    /// The number of the current choice.
    choice: usize,
    /// Regions for the current choice; known once it is tried.
    places: Option<Places>,
}

/// Regions for a bid.
struct Places {
    /// Those still to try.
    regions: IntoIter<usize>,
    /// The names of those tried.
    tried: BTreeSet<[usize; 3]>,
}

impl<'a> Search<'a> {
    /// A search for outcomes that gain more than `best_gain`.
    pub(crate) fn new(
        tables: &'a [&'a [Bid]],
        offer: &'a Offer<'a>,
        bounds: &'a [&'a [f64]],
        names: &'a [usize],
        best_gain: f64,
        most_steps: usize,
    ) -> Self {
        Self {
            tables,
            offer,
            bounds,
            names,
            left: offer.counts.clone(),
            chosen: vec![None; tables.len()],
            best: vec![None; tables.len()],
            best_gain,
            steps: 0,
            // Enough to complete the first descent through all jobs, so that every search finds an outcome.
            most_steps: tables.len() + most_steps,
        }
    }

    /// Whether the search ended before the limit on steps.
    pub(crate) fn proven(&self) -> bool {
        self.steps < self.most_steps
    }

    /// Searches the choices of all jobs; not recursive, as many jobs would exceed the stack.
    pub(crate) fn run(&mut self) {
        let mut levels: Vec<Level> = Vec::new();
        let mut deeper = self.level(0, 0.0);
        loop {
            let Some(mut level) = deeper.take().or_else(|| levels.pop()) else {
                return;
            };
            let depth = levels.len();
            self.undo(depth);
            let Some(gain) = self.next_choice(depth, &mut level) else {
                continue;
            };
            levels.push(level);
            if gain > self.best_gain + SAME {
                self.best.clone_from(&self.chosen);
                self.best_gain = gain;
            }
            deeper = self.level(depth + 1, gain);
        }
    }

    /// The choices of the job at `depth`, on top of choices that gain `gain`; `None` after the last job.
    fn level(&mut self, depth: usize, gain: f64) -> Option<Level> {
        let (table, bound) = (self.tables.get(depth)?, self.bounds[depth + 1]);
        self.steps += 1;
        let total = self.left[self.offer.regions.whole()];
        let mut choices: Vec<(f64, Option<usize>)> = (0..)
            .zip(*table)
            .filter(|(_, bid)| bid.needed <= total)
            .map(|(index, bid)| (bid.gain + bound[total - bid.needed], Some(index)))
            .collect();
        choices.push((bound[total], None));
        choices.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Some(Level { gain, choices, choice: 0, places: None })
    }

    /// Makes the next choice for the job at `depth`, for which none is made. Returns the gain with it, or `None` if no
    /// further choice can improve the best outcome.
    fn next_choice(&mut self, depth: usize, level: &mut Level) -> Option<f64> {
        while let Some((promise, bid)) = level.choices.get(level.choice).copied() {
            // Choices are sorted by promise, so no later one can improve the best outcome either.
            if level.gain + promise <= self.best_gain + SAME || !self.proven() {
                return None;
            }
            let Some(bid) = bid else {
                level.choice += 1;
                return Some(level.gain);
            };
            let wanted = &self.tables[depth][bid];
            let places = level.places.get_or_insert_with(|| self.places(wanted));
            if let Some(region) = self.take_next(wanted, places) {
                self.chosen[depth] = Some(Win { bid, region });
                return Some(level.gain + wanted.gain);
            }
            level.choice += 1;
            level.places = None;
        }
        None
    }

    /// Regions with enough GPUs left for `bid`: those with the fewest GPUs left first, but regions last in which the bid
    /// would take GPUs that others may reclaim.
    fn places(&self, bid: &Bid) -> Places {
        let regions = match &bid.place {
            Place::InPlace(_) => vec![self.offer.regions.whole()],
            Place::Within(_, regions) => {
                let mut enough: Vec<usize> =
                    regions.clone().filter(|region| self.left[*region] >= bid.needed).collect();
                // Best fit: regions with many GPUs left stay open for bids that need many.
                enough.sort_by_key(|region| {
                    (self.offer.unclaimed[*region] < bid.needed, self.left[*region], *region)
                });
                enough
            }
        };
        Places { regions: regions.into_iter(), tried: BTreeSet::new() }
    }

    /// Takes the GPUs of `bid` in the next of `places` that has them and differs from those tried; returns the region.
    fn take_next(&mut self, bid: &Bid, places: &mut Places) -> Option<usize> {
        for region in places.regions.by_ref() {
            let name = self.name(region);
            if !places.tried.contains(&name) && self.take(bid, region) {
                places.tried.insert(name);
                return Some(region);
            }
        }
        None
    }

    /// Takes the GPUs of `bid` in `region`; returns false and takes none if there are too few in a region around it.
    fn take(&mut self, bid: &Bid, region: usize) -> bool {
        // The servers of a bid in place may be in one rack, whose GPUs only their sum can exceed.
        for (taken, (part, count)) in demand(bid, region).enumerate() {
            let around = self.offer.regions.around(part);
            if around.iter().any(|each| self.left[*each] < count) {
                for (part, count) in demand(bid, region).take(taken) {
                    self.give_back(part, count);
                }
                return false;
            }
            for each in around {
                self.left[*each] -= count;
            }
        }
        true
    }

    /// Undoes the choice for the job at `depth`, if one is made.
    fn undo(&mut self, depth: usize) {
        if let Some(win) = self.chosen[depth].take() {
            for (part, count) in demand(&self.tables[depth][win.bid], win.region) {
                self.give_back(part, count);
            }
        }
    }

    fn give_back(&mut self, region: usize, count: usize) {
        for each in self.offer.regions.around(region) {
            self.left[*each] += count;
        }
    }

    /// A name that is equal for regions that were interchangeable at the start and are still untouched.
    fn name(&self, region: usize) -> [usize; 3] {
        let mut name = [usize::MAX; 3];
        for (part, each) in name.iter_mut().zip(self.offer.regions.around(region)) {
            let untouched = self.left[*each] == self.offer.counts[*each];
            *part = if untouched { self.names[*each] } else { self.names.len() + each };
        }
        name
    }
}

/// The GPUs that a bid takes in `region`, as (region, number).
fn demand(bid: &Bid, region: usize) -> impl Iterator<Item = (usize, usize)> {
    let (within, in_place): (_, &[(usize, usize)]) = match &bid.place {
        Place::Within(..) => (Some((region, bid.needed)), &[]),
        Place::InPlace(servers) => (None, servers),
    };
    within.into_iter().chain(in_place.iter().copied())
}
