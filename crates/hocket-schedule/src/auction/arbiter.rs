//! The arbiter of an auction: selects the winning bid of each job, and computes the payments.

use std::collections::BTreeMap;

use crate::auction::bids::{Bid, Place};
use crate::auction::offer::Offer;
use crate::auction::search::{Search, Win};

/// Hocket: few jobs are visible, and an optimum is mostly proven within hundreds of steps; otherwise the best outcome
/// found so far wins, and the notes on the decision say so. A limit on steps, unlike one on time, gives the same result
/// on every machine.
const MOST_STEPS: usize = 2_000;

/// The winning bids of an auction.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// By number of the job, in the order of the given tables.
    pub wins: BTreeMap<usize, Win>,
    /// Sum of gains: logarithm of the product of valuations, minus that without any wins.
    pub gain: f64,
    /// Whether the search proved that no other outcome has a larger product.
    pub proven: bool,
}

/// At most one bid of each of `tables`, such that the product of valuations is maximal.
///
/// This is the 0/1 program of NSDI'20, solved exactly if a limit of 2,000 steps suffices. Between equal products the
/// order of tables and bids decides.
pub fn best_outcome(tables: &[Vec<Bid>], offer: &Offer<'_>) -> Outcome {
    let (jobs, bidding) = bidding(tables);
    if jobs.is_empty() {
        return Outcome { wins: BTreeMap::new(), gain: 0.0, proven: true };
    }
    let none_left = vec![0.0; offer.total() + 1];
    let bounds = bounds(&bidding, &none_left);
    let rows = rows(&bounds, &none_left);
    let names = interchangeable(&bidding, offer);
    let mut search = Search::new(&bidding, offer, &rows, &names, 0.0, MOST_STEPS);
    search.run();
    let wins = jobs.iter().zip(&search.best).filter_map(|(job, win)| win.map(|win| (*job, win)));
    Outcome { wins: wins.collect(), gain: search.best_gain, proven: search.proven() }
}

/// c_i of every winner: the product of the others' valuations with winner i ÷ without it (NSDI'20).
///
/// It is 1 if the winner costs the others nothing. The searches share the limit on steps; a search that is cut short can
/// only underestimate that cost.
pub fn payments(tables: &[Vec<Bid>], offer: &Offer<'_>, outcome: &Outcome) -> BTreeMap<usize, f64> {
    let (jobs, bidding) = bidding(tables);
    let none_left = vec![0.0; offer.total() + 1];
    let all = bounds(&bidding, &none_left);
    let all = rows(&all, &none_left);
    let names = interchangeable(&bidding, offer);
    let mut shares = BTreeMap::new();
    for (index, winner) in jobs.iter().enumerate() {
        let Some(win) = outcome.wins.get(winner) else {
            continue;
        };
        let others = [&bidding[..index], &bidding[index + 1..]].concat();
        // Without the winner, only the bounds of the jobs before it change.
        let before = bounds(&bidding[..index], all[index + 1]);
        let mut bounds: Vec<&[f64]> = before.iter().map(Vec::as_slice).collect();
        bounds.extend(&all[index + 1..]);
        let theirs = outcome.gain - bidding[index][win.bid].gain;
        // The gain of the others cannot fall when the winner is removed.
        let most_steps = MOST_STEPS / outcome.wins.len();
        let mut search = Search::new(&others, offer, &bounds, &names, theirs, most_steps);
        search.run();
        shares.insert(*winner, (theirs - search.best_gain).exp());
    }
    shares
}

/// The numbers of the jobs that bid, and their tables.
fn bidding(tables: &[Vec<Bid>]) -> (Vec<usize>, Vec<&[Bid]>) {
    let bidding = tables.iter().map(Vec::as_slice).enumerate();
    bidding.filter(|(_, table)| !table.is_empty()).unzip()
}

/// For each job, the highest gain of it and all later ones regardless of regions, by number of GPUs left; `last` is the
/// row of the jobs after `tables`.
fn bounds(tables: &[&[Bid]], last: &[f64]) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(tables.len());
    for table in tables.iter().rev() {
        // Of several bids for as many GPUs, only the best matters here.
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        for bid in table.iter().filter(|bid| bid.needed < last.len()) {
            let gain = best.entry(bid.needed).or_insert(0.0);
            *gain = gain.max(bid.gain);
        }
        let later = rows.last().map_or(last, Vec::as_slice);
        let mut row = later.to_vec();
        for (needed, gain) in best {
            for (with_bid, left) in row[needed..].iter_mut().zip(later) {
                *with_bid = with_bid.max(left + gain);
            }
        }
        rows.push(row);
    }
    rows.reverse();
    rows
}

/// All rows of bounds, with the last one, which is that of no jobs.
fn rows<'a>(bounds: &'a [Vec<f64>], last: &'a [f64]) -> Vec<&'a [f64]> {
    bounds.iter().map(Vec::as_slice).chain([last]).collect()
}

/// By region: a number that regions share if no bid distinguishes them; lower than the number of regions.
fn interchangeable(tables: &[&[Bid]], offer: &Offer<'_>) -> Vec<usize> {
    let regions = offer.regions;
    let mut is_named = vec![false; offer.counts.len()];
    let mut name = |region: usize| {
        if region != regions.whole() {
            regions.around(region).iter().for_each(|each| is_named[*each] = true);
        }
    };
    for bid in tables.iter().copied().flatten() {
        match &bid.place {
            Place::InPlace(servers) => servers.iter().for_each(|(server, _)| name(*server)),
            // A bid with several regions is for any server or any rack, and every region is part of the whole cluster:
            // neither distinguishes regions.
            Place::Within(_, range) if range.len() == 1 => name(range.start),
            Place::Within(..) => {}
        }
    }
    // By whether it is a rack, and the GPUs on offer in it or in its servers: the first such region.
    let mut first: BTreeMap<(bool, Vec<usize>), usize> = BTreeMap::new();
    let first_like = |region: usize| {
        if is_named[region] {
            return region;
        }
        let is_rack = (regions.servers()..regions.whole()).contains(&region);
        let mut counts: Vec<usize> = if is_rack {
            regions.servers_in(region).iter().map(|server| offer.counts[*server]).collect()
        } else {
            vec![offer.counts[region]]
        };
        counts.sort_unstable();
        *first.entry((is_rack, counts)).or_insert(region)
    };
    (0..offer.counts.len()).map(first_like).collect()
}
