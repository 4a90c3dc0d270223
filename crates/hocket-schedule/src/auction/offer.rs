//! GPUs on offer, counted by region, and the selection of some of them.

use std::cmp::Reverse;
use std::ops::Range;

use crate::auction::regions::Regions;

/// GPUs that nobody holds.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    pub(crate) regions: &'a Regions,
    /// By GPU: whether it is on offer.
    offered: Vec<bool>,
    /// By GPU: whether a job had it until now and may want it back.
    claimed: Vec<bool>,
    /// By region: the number of GPUs on offer in it.
    pub(crate) counts: Vec<usize>,
    /// By region: the number of them that no job may reclaim.
    pub(crate) unclaimed: Vec<usize>,
}

impl<'a> Offer<'a> {
    /// An offer of `gpus`; `claimed` are GPUs that a job had until now and may want back.
    ///
    /// # Panics
    ///
    /// If a GPU is offered twice or does not exist.
    pub fn new(regions: &'a Regions, gpus: &[usize], claimed: &[usize]) -> Self {
        let mut offer = Self {
            regions,
            offered: vec![false; regions.gpus()],
            claimed: vec![false; regions.gpus()],
            counts: vec![0; regions.whole() + 1],
            unclaimed: vec![0; regions.whole() + 1],
        };
        for gpu in claimed {
            offer.claimed[*gpu] = true;
        }
        offer.add(gpus);
        offer
    }

    /// The number of GPUs on offer.
    pub fn total(&self) -> usize {
        self.counts[self.regions.whole()]
    }

    /// The most GPUs on offer in one of `regions`; 0 without any.
    pub(crate) fn most_in(&self, regions: Range<usize>) -> usize {
        self.counts[regions].iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn has(&self, gpu: usize) -> bool {
        self.offered[gpu]
    }

    pub(crate) fn add(&mut self, gpus: &[usize]) {
        for gpu in gpus {
            assert!(!self.offered[*gpu], "a GPU is offered once");
            self.offered[*gpu] = true;
            let unclaimed = usize::from(!self.claimed[*gpu]);
            for region in self.regions.of(*gpu) {
                self.counts[*region] += 1;
                self.unclaimed[*region] += unclaimed;
            }
        }
    }

    /// Removes GPUs that are on offer.
    pub fn remove(&mut self, gpus: &[usize]) {
        for gpu in gpus {
            assert!(self.offered[*gpu], "a GPU is removed only from an offer that has it");
            self.offered[*gpu] = false;
            let unclaimed = usize::from(!self.claimed[*gpu]);
            for region in self.regions.of(*gpu) {
                self.counts[*region] -= 1;
                self.unclaimed[*region] -= unclaimed;
            }
        }
    }

    /// `needed` GPUs in `region`, ascending, for a job that holds `held` and had `former`, both ascending.
    ///
    /// Racks, and the servers of a rack, are preferred in this order: those with most of its former GPUs; those in
    /// which it holds some; those that have enough without GPUs that other jobs may reclaim; those that have enough; of
    /// these, the one with the fewest, so that others stay whole. If none has enough, the one with the most comes first,
    /// so that the job is spread over few. Ties go to the lowest number.
    ///
    /// # Panics
    ///
    /// If the region has too few GPUs.
    pub fn packed(
        &self,
        needed: usize,
        region: usize,
        held: &[usize],
        former: &[usize],
    ) -> Vec<usize> {
        self.check(needed, region);
        let near = Near {
            former: self.by_region(former.iter().filter(|gpu| self.has(**gpu))),
            held: self.by_region(held.iter()),
        };
        let mut picked = Vec::with_capacity(needed);
        let mut racks = self.racks(region);
        while picked.len() < needed {
            let rack = self.take_best(&mut racks, needed - picked.len(), &near);
            let mut servers = self.servers(rack, region);
            while !servers.is_empty() && picked.len() < needed {
                let server = self.take_best(&mut servers, needed - picked.len(), &near);
                let gpus = self.regions.gpus_in(server).iter().copied();
                let mut gpus: Vec<usize> = gpus.filter(|gpu| self.has(*gpu)).collect();
                gpus.sort_by_key(|gpu| self.preference(*gpu, former));
                gpus.truncate(needed - picked.len());
                picked.append(&mut gpus);
            }
        }
        picked.sort_unstable();
        picked
    }

    /// As [`Self::packed`], but in an order that `shuffle` draws: only the former GPUs of the job come first, and
    /// those that other jobs may reclaim last.
    ///
    /// # Panics
    ///
    /// If the region has too few GPUs.
    pub fn drawn(
        &self,
        needed: usize,
        region: usize,
        former: &[usize],
        shuffle: &mut dyn FnMut(&mut Vec<usize>),
    ) -> Vec<usize> {
        self.check(needed, region);
        let inside = |gpu: &usize| self.has(*gpu) && self.regions.of(*gpu).contains(&region);
        let mut gpus: Vec<usize> = (0..self.regions.gpus()).filter(inside).collect();
        shuffle(&mut gpus);
        // The sort is stable, so GPUs of one kind stay shuffled.
        gpus.sort_by_key(|gpu| self.preference(*gpu, former));
        gpus.truncate(needed);
        gpus.sort_unstable();
        gpus
    }

    fn check(&self, needed: usize, region: usize) {
        assert!(needed <= self.counts[region], "a region must have the GPUs that are picked in it");
    }

    /// Former GPUs first, and those that other jobs may reclaim last.
    fn preference(&self, gpu: usize, former: &[usize]) -> (bool, bool) {
        (former.binary_search(&gpu).is_err(), self.claimed[gpu])
    }

    /// By region: the number of `gpus` in it.
    fn by_region<'b>(&self, gpus: impl Iterator<Item = &'b usize>) -> Vec<usize> {
        let mut counts = vec![0; self.counts.len()];
        for region in gpus.flat_map(|gpu| self.regions.of(*gpu)) {
            counts[*region] += 1;
        }
        counts
    }

    /// Removes the best region from `places` and returns it, in the order that [`Self::packed`] describes.
    fn take_best(&self, places: &mut Vec<usize>, needed: usize, near: &Near) -> usize {
        let order = |place: usize| {
            let count = self.counts[place];
            let (crowded, short) = (self.unclaimed[place] < needed, count < needed);
            let fit = if short { usize::MAX - count } else { count };
            (Reverse(near.former[place]), near.held[place] == 0, crowded, short, fit, place)
        };
        let best = (0..places.len()).min_by_key(|index| order(places[*index]));
        places.swap_remove(best.expect("a region with enough GPUs has a place that is left"))
    }

    /// The racks in `region`, or around it.
    fn racks(&self, region: usize) -> Vec<usize> {
        match self.regions.around(region) {
            [.., rack, _] => vec![*rack],
            _ => (self.regions.servers()..self.regions.whole()).collect(),
        }
    }

    /// The servers of `rack` in `region`.
    fn servers(&self, rack: usize, region: usize) -> Vec<usize> {
        if region < self.regions.servers() {
            vec![region]
        } else {
            self.regions.servers_in(rack).to_vec()
        }
    }
}

/// By region: the former GPUs of a job that are on offer, and those that it holds.
struct Near {
    former: Vec<usize>,
    held: Vec<usize>,
}
