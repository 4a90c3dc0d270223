//! Placements that follow from a given one by exchanging GPUs between jobs at random (NSDI'24 section 4.2, step 1).
//!
//! Every job keeps its number of workers and does not span more than it may.

use std::collections::{BTreeMap, BTreeSet};

use crate::auction::{Regions, Span};
use crate::twister::Twister;

/// Hocket: the most exchanges between two jobs in a placement; in the example of NSDI'24 section 4.2, four workers change
/// jobs.
const MOST_DEALS: usize = 4;

/// Hocket: the number of random placements tried per requested one before the search for more ends.
const ATTEMPTS: usize = 10;

/// A job whose GPUs change. Lists of GPUs are ascending.
#[derive(Clone, Debug)]
pub struct Mover {
    /// Its GPUs in the given placement.
    pub own: Vec<usize>,
    /// The GPUs that it runs on, on all of which it must not be again, as it then would not restart.
    pub running: Vec<usize>,
    /// Those of them of which it keeps some; empty if it may change all of them.
    pub former: Vec<usize>,
    /// Leased GPUs, which it keeps.
    pub fixed: Vec<usize>,
    /// The number of `former` GPUs that it keeps besides.
    pub stay: usize,
    /// The number of GPUs that are new to it.
    pub fresh: usize,
    /// The widest span that it may have.
    pub widest: Span,
}

/// The jobs that exchange GPUs, and those that do not.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    regions: &'a Regions,
    movers: Vec<Mover>,
    /// By GPU: whether no job has it and movers may get it.
    spare: Vec<bool>,
    /// By server: the jobs of GPUs that keep their job, by number after those of the movers.
    settled: Vec<Vec<usize>>,
}

/// By rack, then by server of a rack, each sorted so that their numbers do not matter: the number of GPUs, and their jobs.
type Shape = Vec<Vec<(usize, Vec<usize>)>>;

impl<'a> Exchange<'a> {
    /// An exchange between `movers`, which may also get `spare` GPUs, beside jobs that stay on their GPUs.
    pub fn new(
        regions: &'a Regions,
        movers: Vec<Mover>,
        spare: &[usize],
        staying: &[Vec<usize>],
    ) -> Self {
        let mut settled = vec![Vec::new(); regions.servers()];
        for (job, gpus) in (movers.len()..).zip(staying) {
            for gpu in gpus {
                settled[regions.server_of(*gpu)].push(job);
            }
        }
        let spare = mask(regions, spare);
        Self { regions, movers, spare, settled }
    }

    /// Up to `count` placements besides the given one, no two of which differ only in the numbering of racks, servers in
    /// a rack, or GPUs in a server. Each has the GPUs of the movers, in their order.
    pub fn sample(&self, count: usize, draws: &mut Twister) -> Vec<Vec<Vec<usize>>> {
        let own: Vec<Vec<usize>> = self.movers.iter().map(|mover| mover.own.clone()).collect();
        let mut seen = BTreeSet::from([self.shape(&own)]);
        let mut found = Vec::new();
        // A single job without spare GPUs has only one placement.
        let alone = self.movers.len() + usize::from(self.spare.contains(&true)) <= 1;
        for _ in 0..if alone { 0 } else { ATTEMPTS * count } {
            if found.len() == count {
                break;
            }
            let placement = self.dealt_again(&own, draws);
            if seen.insert(self.shape(&placement)) {
                found.push(placement);
            }
        }
        found
    }

    fn dealt_again(&self, own: &[Vec<usize>], draws: &mut Twister) -> Vec<Vec<usize>> {
        let (mut placement, mut spare) = (own.to_vec(), self.spare.clone());
        for _ in 0..1 + draws.below(MOST_DEALS) {
            let group = draws.sample(self.movers.len(), self.movers.len().min(2));
            let mut available = spare.clone();
            for mover in &group {
                placement[*mover].iter().for_each(|gpu| available[*gpu] = true);
            }
            for mover in &group {
                self.movers[*mover].fixed.iter().for_each(|gpu| available[*gpu] = false);
            }
            let Some(dealt) = self.deal(&group, &available, draws) else {
                continue;
            };
            // A job that returns to its current GPUs would not restart, and so be better off than in the given placement.
            if dealt.iter().all(|(mover, gpus)| *gpus != self.movers[*mover].running) {
                for (mover, gpus) in dealt {
                    gpus.iter().for_each(|gpu| available[*gpu] = false);
                    placement[mover] = gpus;
                }
                spare = available;
            }
        }
        placement
    }

    /// Random GPUs for each of `group` out of those `available`; `None` if the draw exceeds the span of a job.
    fn deal(
        &self,
        group: &[usize],
        available: &[bool],
        draws: &mut Twister,
    ) -> Option<Vec<(usize, Vec<usize>)>> {
        let mut rest = available.to_vec();
        let mut kept = Vec::new();
        for number in group {
            let mover = &self.movers[*number];
            let former: Vec<usize> =
                mover.former.iter().copied().filter(|gpu| rest[*gpu]).collect();
            if former.len() < mover.stay {
                return None;
            }
            let mut gpus = mover.fixed.clone();
            for place in draws.sample(former.len(), mover.stay) {
                rest[former[place]] = false;
                gpus.push(former[place]);
            }
            kept.push((*number, gpus));
        }
        // A job with a narrow span has fewer options, so it draws first. The sort is stable.
        kept.sort_by_key(|(number, _)| self.movers[*number].widest);
        for (number, gpus) in &mut kept {
            let mover = &self.movers[*number];
            let mut others = rest.clone();
            mover.former.iter().for_each(|gpu| others[*gpu] = false);
            let others: Vec<usize> = (0..others.len()).filter(|gpu| others[*gpu]).collect();
            let fresh = self.draw(mover, gpus, &others, draws);
            if fresh.len() < mover.fresh {
                return None;
            }
            fresh.iter().for_each(|gpu| rest[*gpu] = false);
            gpus.extend(fresh);
            gpus.sort_unstable();
            if self.regions.span(gpus) > mover.widest {
                return None;
            }
        }
        Some(kept)
    }

    /// The new GPUs of `mover`, which keeps `kept`, out of `gpus`, within a region of its widest span; none if no region
    /// has enough.
    ///
    /// Half of the draws scatter them over the region; the others fill its servers and racks one after another, starting
    /// with those in which the job has GPUs, as it then shares links with fewer others.
    fn draw(
        &self,
        mover: &Mover,
        kept: &[usize],
        gpus: &[usize],
        draws: &mut Twister,
    ) -> Vec<usize> {
        let places = if mover.fresh == 0 { Vec::new() } else { self.places(mover, kept, gpus) };
        if places.is_empty() {
            return Vec::new();
        }
        let place = places[draws.below(places.len())];
        let inside = |gpu: &usize| self.regions.of(*gpu).contains(&place);
        let mut within: Vec<usize> = gpus.iter().copied().filter(inside).collect();
        draws.shuffle(&mut within);
        if draws.unit() < 0.5 {
            // A turn for each server and rack, which changes no order within it: the last one drawn.
            let mut turns = BTreeMap::new();
            for gpu in &within {
                let [server, rack] = self.server_and_rack(*gpu);
                turns.insert(server, draws.unit());
                turns.insert(rack, draws.unit());
                // The turn of the whole cluster.
                draws.unit();
            }
            for gpu in kept {
                turns.extend(self.server_and_rack(*gpu).map(|region| (region, -1.0)));
            }
            let turn = |gpu: usize| {
                let [server, rack] = self.server_and_rack(gpu);
                (turns[&rack], turns[&server])
            };
            within.sort_by(|a, b| {
                let ((a_rack, a_server), (b_rack, b_server)) = (turn(*a), turn(*b));
                a_rack.total_cmp(&b_rack).then(a_server.total_cmp(&b_server))
            });
        }
        within.truncate(mover.fresh);
        within
    }

    /// The regions that have enough of `gpus` for `mover`, in the order in which GPUs appear in them.
    fn places(&self, mover: &Mover, kept: &[usize], gpus: &[usize]) -> Vec<usize> {
        let allowed = self.regions.at(mover.widest, kept);
        let mut counts = vec![0; self.regions.whole() + 1];
        let mut places = Vec::new();
        for region in gpus.iter().flat_map(|gpu| self.regions.of(*gpu)) {
            if counts[*region] == 0 {
                places.push(*region);
            }
            counts[*region] += 1;
        }
        places.retain(|place| allowed.contains(place) && counts[*place] >= mover.fresh);
        places
    }

    fn server_and_rack(&self, gpu: usize) -> [usize; 2] {
        let around = self.regions.of(gpu);
        [around[0], around[1]]
    }

    fn shape(&self, placement: &[Vec<usize>]) -> Shape {
        let mut jobs = self.settled.clone();
        for (mover, gpus) in placement.iter().enumerate() {
            for gpu in gpus {
                jobs[self.regions.server_of(*gpu)].push(mover);
            }
        }
        jobs.iter_mut().for_each(|each| each.sort_unstable());
        let in_rack = |rack| {
            let servers = self.regions.servers_in(rack).iter();
            let server = |server: &usize| {
                (self.regions.gpus_in(*server).len(), std::mem::take(&mut jobs[*server]))
            };
            let mut servers: Vec<(usize, Vec<usize>)> = servers.map(server).collect();
            servers.sort_unstable();
            servers
        };
        let mut racks: Shape =
            (self.regions.servers()..self.regions.whole()).map(in_rack).collect();
        racks.sort_unstable();
        racks
    }
}

/// By GPU: whether it is one of `gpus`.
fn mask(regions: &Regions, gpus: &[usize]) -> Vec<bool> {
    let mut mask = vec![false; regions.gpus()];
    gpus.iter().for_each(|gpu| mask[*gpu] = true);
    mask
}
