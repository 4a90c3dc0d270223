//! Links of a candidate that carry the same jobs: which of them decide the time-shifts, and when two
//! such sets of links pose the same problem.

use std::collections::BTreeMap;

use hocket_des::Rate;

use crate::problem::JointLink;

/// Links of one candidate that carry the same jobs.
pub(super) struct Group {
    /// Ascending.
    pub(super) jobs: Vec<usize>,
    pub(super) variants: Vec<Variant>,
}

/// Links of a group that differ in nothing.
pub(super) struct Variant {
    pub(super) capacity: Rate,
    /// By position in the group's jobs.
    pub(super) flows: Vec<u32>,
    pub(super) links: Vec<usize>,
    /// What the variant counts when the group is solved; 0 if another variant dominates it.
    pub(super) weight: u32,
}

/// What decides the answer for a group, with its jobs in an order of their own.
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
        let binding: Vec<usize> = (0..variants.len())
            .filter(|own| {
                let dominated = |other: usize| variants[other].dominates(&variants[*own]);
                (0..variants.len()).all(|other| other == *own || !dominated(other))
            })
            .collect();
        for &variant in &binding {
            // Alone, its weight changes nothing, and links that differ in number share their answer.
            let links = u32::try_from(variants[variant].links.len()).unwrap_or(u32::MAX);
            variants[variant].weight = if binding.len() == 1 { 1 } else { links };
        }
        Self { jobs, variants }
    }

    /// Positions of jobs in the order of the key.
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

    /// The link that stands for all of the group.
    pub(super) fn tightest_link(&self) -> usize {
        let binding = self.variants.iter().find(|variant| variant.weight > 0);
        binding.expect("of finitely many variants, one is not dominated").links[0]
    }
}
