//! The arbiter on auctions that can be checked by hand, and against trying everything.

use std::collections::BTreeMap;

use hocket_schedule::auction::{
    Bid, Bidder, Offer, Place, Regions, Rules, Shuffle, Span, best_outcome, hold_auction, payments,
};
use proptest::prelude::*;

/// Racks of servers of GPUs, as many of each as `shape` says.
fn regions([racks, servers, gpus]: [usize; 3]) -> Regions {
    let server_of = (0..racks * servers * gpus).map(|gpu| gpu / gpus).collect();
    let rack_of: Vec<usize> = (0..racks * servers).map(|server| server / servers).collect();
    Regions::new(server_of, &rack_of)
}

fn all(regions: &Regions, count: usize) -> Offer<'_> {
    Offer::new(regions, &(0..count).collect::<Vec<_>>(), &[])
}

/// A bid for `needed` GPUs within `span` that makes the valuation `factor` times as large.
fn bid(regions: &Regions, needed: usize, factor: f64, span: Span) -> Bid {
    let place = Place::Within(span, regions.at(span, &[]));
    Bid { workers: needed, needed, rho: 1.0 / factor, gain: factor.ln(), place }
}

fn stay(servers: &[(usize, usize)], factor: f64) -> Bid {
    let needed = servers.iter().map(|(_, count)| count).sum();
    let place = Place::InPlace(servers.to_vec());
    Bid { workers: needed, needed, rho: 1.0 / factor, gain: factor.ln(), place }
}

fn assert_close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

/// The winning bid of each winner.
fn won<'a>(tables: &'a [Vec<Bid>], offer: &Offer<'_>) -> BTreeMap<usize, &'a Bid> {
    let wins = best_outcome(tables, offer).wins;
    wins.into_iter().map(|(job, win)| (job, &tables[job][win.bid])).collect()
}

#[test]
fn two_jobs_that_double_on_half_share_the_gpus() {
    let regions = regions([1, 1, 4]);
    let table = vec![bid(&regions, 2, 2.0, Span::Racks), bid(&regions, 4, 3.0, Span::Racks)];
    let tables = [table.clone(), table];
    let offer = all(&regions, 4);
    // 2 × 2 = 4 is more than 3 × 1.
    let workers: Vec<usize> = won(&tables, &offer).values().map(|bid| bid.workers).collect();
    assert_eq!(workers, [2, 2]);
    let outcome = best_outcome(&tables, &offer);
    assert_close(outcome.gain.exp(), 4.0);
    assert!(outcome.proven);
}

#[test]
fn each_pays_what_it_costs_the_other() {
    let regions = regions([1, 1, 4]);
    let table =
        |most| vec![bid(&regions, 2, 2.0, Span::Racks), bid(&regions, 4, most, Span::Racks)];
    let (tables, offer) = ([table(3.0), table(2.5)], all(&regions, 4));
    let shares = payments(&tables, &offer, &best_outcome(&tables, &offer));
    // Without the first the second would be worth 2.5 and not 2; without the second the first 3 and not 2.
    assert_close(shares[&0], 2.0 / 2.5);
    assert_close(shares[&1], 2.0 / 3.0);
}

#[test]
fn a_winner_that_costs_nobody_anything_pays_nothing() {
    let regions = regions([1, 1, 4]);
    let tables = [2.0, 5.0].map(|factor| vec![bid(&regions, 2, factor, Span::Racks)]);
    let offer = all(&regions, 4);
    let shares = payments(&tables, &offer, &best_outcome(&tables, &offer));
    assert_eq!(shares, BTreeMap::from([(0, 1.0), (1, 1.0)]));
}

#[test]
fn a_contested_rack_goes_to_the_job_that_gains_more() {
    // Rack 0 has two servers on offer, racks 1 and 2 one each.
    let regions = regions([3, 2, 1]);
    let offer = Offer::new(&regions, &[0, 1, 2, 4], &[]);
    let table = |anywhere, in_rack| {
        vec![bid(&regions, 2, anywhere, Span::Racks), bid(&regions, 2, in_rack, Span::Rack)]
    };
    let tables = [table(1.4, 2.0), table(1.1, 2.1)];
    let won = won(&tables, &offer);
    // 1.4 × 2.1 = 2.94 is more than 2.0 × 1.1 = 2.2.
    assert_close(won[&0].gain.exp(), 1.4);
    assert_close(won[&1].gain.exp(), 2.1);
}

#[test]
fn a_job_that_stays_keeps_its_servers() {
    let regions = regions([2, 1, 2]);
    let others = vec![bid(&regions, 2, 1.5, Span::Server), bid(&regions, 2, 1.2, Span::Racks)];
    let tables = [vec![stay(&[(0, 1), (1, 1)], 3.0)], others];
    // With one GPU gone from each server, no server has two left: 3.0 × 1.2.
    assert_close(best_outcome(&tables, &all(&regions, 4)).gain.exp(), 3.6);
}

#[test]
fn a_queue_of_thousands_is_no_deeper_than_a_stack() {
    let regions = regions([1, 1, 2]);
    let tables: Vec<Vec<Bid>> = (0..3_000)
        .map(|job| vec![bid(&regions, 1, 1.0 + f64::from(job) / 10_000.0, Span::Racks)])
        .collect();
    let winners: Vec<usize> = won(&tables, &all(&regions, 2)).into_keys().collect();
    assert_eq!(winners, [2_998, 2_999]);
}

/// A job that has no GPUs, whose ρ falls with its workers wherever they are.
fn waiting(sizes: &[usize]) -> Bidder {
    Bidder {
        sizes: sizes.to_vec(),
        most: 100,
        rho: sizes.iter().map(|size| [1.0 / *size as f64; 3]).collect(),
        rho_in_place: 1_000.0,
        rho_waiting: 1_000.0,
        former: Vec::new(),
        held: Vec::new(),
    }
}

#[test]
fn drawn_places_follow_the_order_that_is_drawn() {
    let regions = regions([2, 2, 2]);
    let drawn = |shuffle: &mut Shuffle<'_>| {
        let mut bidders = [waiting(&[3])];
        let rules = Rules { visible: 1, hidden_payment: true };
        hold_auction(&mut bidders, &mut all(&regions, 8), rules, Some(shuffle));
        bidders[0].held.clone()
    };
    assert_eq!(drawn(&mut |_| {}), [0, 1, 2]);
    assert_eq!(drawn(&mut |gpus| gpus.reverse()), [5, 6, 7]);
}

#[test]
fn gpus_that_one_job_cannot_use_go_to_others() {
    let regions = regions([1, 1, 4]);
    let mut bidders = [waiting(&[3]), waiting(&[1, 2])];
    let rules = Rules { visible: 1, hidden_payment: true };
    let record = hold_auction(&mut bidders, &mut all(&regions, 4), rules, None);
    assert_eq!(bidders.map(|bidder| bidder.held.len()), [3, 1]);
    assert_eq!((record.tables.len(), record.leftovers), (1, vec![(1, 1)]));
}

/// A cluster, the GPUs on offer, and tables of (GPUs, kind of place, valuation); kind 3 is to stay.
type Instance = ([usize; 3], Vec<usize>, Vec<Vec<(usize, usize, f64)>>);

fn instances() -> impl Strategy<Value = Instance> {
    let shapes = prop::sample::select(vec![[2, 2, 1], [1, 2, 2], [2, 1, 2], [3, 2, 1]]);
    let row = (1..5usize, 0..4usize, 1.05..4.0f64);
    let tables = prop::collection::vec(prop::collection::vec(row, 0..5), 1..5);
    (shapes, tables).prop_flat_map(|(shape, tables)| {
        let gpus: Vec<usize> = (0..shape.iter().product()).collect();
        let count = 1..=gpus.len();
        (Just(shape), prop::sample::subsequence(gpus, count), Just(tables))
    })
}

fn tables_of(regions: &Regions, gpus: &[usize], instance: &Instance) -> Vec<Vec<Bid>> {
    let [_, _, per_server] = instance.0;
    let placed = |(needed, kind, factor): &(usize, usize, f64)| {
        if let Some(span) = [Span::Server, Span::Rack, Span::Racks].get(*kind) {
            return Some(bid(regions, *needed, *factor, *span));
        }
        let mut servers = BTreeMap::new();
        for gpu in gpus.get(..*needed)? {
            *servers.entry(gpu / per_server).or_insert(0) += 1;
        }
        Some(stay(&servers.into_iter().collect::<Vec<_>>(), *factor))
    };
    instance.2.iter().map(|rows| rows.iter().filter_map(placed).collect()).collect()
}

/// Whether `gpus` meet a bid.
fn meets(bid: &Bid, gpus: &[usize], [_, servers, per_server]: [usize; 3]) -> bool {
    let same = |size: usize| gpus.iter().all(|gpu| gpu / size == gpus[0] / size);
    match &bid.place {
        Place::Within(Span::Server, _) => same(per_server),
        Place::Within(Span::Rack, _) => same(servers * per_server),
        Place::Within(Span::Racks, _) => true,
        Place::InPlace(wanted) => wanted.iter().all(|(server, count)| {
            gpus.iter().filter(|gpu| *gpu / per_server == *server).count() == *count
        }),
    }
}

/// All sets of `count` of `gpus`.
fn subsets(gpus: &[usize], count: usize) -> Vec<Vec<usize>> {
    match (count, gpus.split_first()) {
        (0, _) => vec![Vec::new()],
        (_, None) => Vec::new(),
        (_, Some((first, others))) => {
            let with_first = subsets(others, count - 1).into_iter();
            let with_first = with_first.map(|set| [&[*first], set.as_slice()].concat());
            with_first.chain(subsets(others, count)).collect()
        }
    }
}

/// The largest gain, by trying every set of GPUs for every bid of every job.
fn largest_gain(tables: &[&[Bid]], gpus: &[usize], shape: [usize; 3]) -> f64 {
    let Some((table, others)) = tables.split_first() else {
        return 0.0;
    };
    let mut best = largest_gain(others, gpus, shape);
    for bid in *table {
        for taken in subsets(gpus, bid.needed) {
            if meets(bid, &taken, shape) {
                let rest: Vec<usize> =
                    gpus.iter().copied().filter(|gpu| !taken.contains(gpu)).collect();
                best = best.max(bid.gain + largest_gain(others, &rest, shape));
            }
        }
    }
    best
}

proptest! {
    #[test]
    fn the_product_and_the_payments_equal_those_of_exhaustive_search(instance in instances()) {
        let (shape, gpus, _) = &instance;
        let regions = regions(*shape);
        let offer = Offer::new(&regions, gpus, &[]);
        let tables = tables_of(&regions, gpus, &instance);
        let rows: Vec<&[Bid]> = tables.iter().map(Vec::as_slice).collect();
        let outcome = best_outcome(&tables, &offer);
        prop_assert!(outcome.proven);
        assert_close(outcome.gain, largest_gain(&rows, gpus, *shape));
        let gain_of = |job: usize| tables[job][outcome.wins[&job].bid].gain;
        assert_close(outcome.gain, outcome.wins.keys().copied().map(gain_of).sum());
        let shares = payments(&tables, &offer, &outcome);
        prop_assert!(shares.keys().eq(outcome.wins.keys()));
        for (winner, share) in shares {
            let others = [&rows[..winner], &rows[winner + 1..]].concat();
            let without = largest_gain(&others, gpus, *shape);
            assert_close(share, (outcome.gain - gain_of(winner) - without).exp());
        }
    }

    #[test]
    fn the_order_of_jobs_changes_no_product(instance in instances()) {
        let regions = regions(instance.0);
        let offer = Offer::new(&regions, &instance.1, &[]);
        let mut tables = tables_of(&regions, &instance.1, &instance);
        let gain = best_outcome(&tables, &offer).gain;
        tables.reverse();
        assert_close(best_outcome(&tables, &offer).gain, gain);
    }
}
