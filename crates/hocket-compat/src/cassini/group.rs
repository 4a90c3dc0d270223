//! Groups of a candidate's links that carry the same jobs: the links that determine the
//! time-shifts, and a key by which equal problems of different groups are recognised.

use std::collections::BTreeMap;

use hocket_des::Rate;

use crate::problem::JointLink;

/// Links of one candidate that carry the same jobs.
pub(super) struct Group {
    /// Ascending.
    pub(super) jobs: Vec<usize>,
    pub(super) variants: Vec<Variant>,
}

/// Links of a group with equal capacity and equal flows of each job.
pub(super) struct Variant {
    pub(super) capacity: Rate,
    /// By position in the group's jobs.
    pub(super) flows: Vec<u32>,
    pub(super) links: Vec<usize>,
    /// Its weight in the mean score when the group is solved; 0 if another variant dominates it.
    pub(super) weight: u32,
}

/// Everything that determines the solution of a group, with its jobs in an order that does not
/// depend on their numbers: groups with equal keys share one solution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kinds: Vec<usize>,
    pub(super) variants: Vec<VariantKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VariantKey {
    capacity_bps: u64,
    flows: Vec<u32>,
    weight: u32,
}

impl Variant {
    /// Whether this variant has no more capacity than `other` and no fewer flows of any job.
    fn dominates(&self, other: &Self) -> bool {
        let flows = self.flows.iter().zip(&other.flows);
        self.capacity <= other.capacity && flows.into_iter().all(|(own, others)| own >= others)
    }

    pub(super) fn joint_link(
        &self,
        jobs: impl Iterator<Item = usize>,
        multiplicity: u32,
    ) -> JointLink {
        let crossings = jobs.zip(self.flows.iter().copied()).collect();
        JointLink { capacity: self.capacity, crossings, multiplicity }
    }
}

impl Group {
    pub(super) fn new(jobs: Vec<usize>, by_demand: BTreeMap<(Rate, Vec<u32>), Vec<usize>>) -> Self {
        let mut variants: Vec<Variant> = by_demand
            .into_iter()
            .map(|((capacity, flows), links)| Variant { capacity, flows, links, weight: 0 })
            .collect();
        // No two variants are equal, so dominance has no cycles and at least one variant remains.
        let binding: Vec<usize> = (0..variants.len())
            .filter(|own| {
                let dominated = |other: usize| variants[other].dominates(&variants[*own]);
                (0..variants.len()).all(|other| other == *own || !dominated(other))
            })
            .collect();
        for &variant in &binding {
            // The weight of a single variant does not change its optimum: with 1, groups of any
            // number of such links have equal keys.
            let links = u32::try_from(variants[variant].links.len()).unwrap_or(u32::MAX);
            variants[variant].weight = if binding.len() == 1 { 1 } else { links };
        }
        Self { jobs, variants }
    }

    /// The positions of the group's jobs, in the order of the key: by kind, then by flows.
    pub(super) fn key_order(&self, kinds: &[usize]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.sort_by_key(|position| {
            let flows: Vec<u32> = self.variants.iter().map(|v| v.flows[*position]).collect();
            (kinds[self.jobs[*position]], flows)
        });
        order
    }

    pub(super) fn key(&self, kinds: &[usize]) -> Key {
        let order = self.key_order(kinds);
        let in_order = |flows: &[u32]| order.iter().map(|position| flows[*position]).collect();
        Key {
            kinds: order.iter().map(|position| kinds[self.jobs[*position]]).collect(),
            variants: self
                .variants
                .iter()
                .map(|variant| VariantKey {
                    capacity_bps: variant.capacity.as_bps(),
                    flows: in_order(&variant.flows),
                    weight: variant.weight,
                })
                .collect(),
        }
    }

    /// The link that represents the group in messages.
    pub(super) fn tightest_link(&self) -> usize {
        let binding = self.variants.iter().find(|variant| variant.weight > 0);
        binding.expect("of finitely many variants, one is not dominated").links[0]
    }
}
