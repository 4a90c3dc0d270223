//! A training job in which one rank stands for all that behave alike, and one group for all that do. Which ones do is left to
//! the engine: it depends on the network.

use std::collections::BTreeSet;

use super::{Training, TrainingSpec};
use crate::workload::classes::Classes;

/// Classes of ranks and groups of a training job, and the job of their representatives.
#[derive(Clone, Debug)]
pub struct Folded {
    training: Training,
    /// By class: its ranks, in ascending order.
    ranks: Vec<Vec<u32>>,
    /// By class: its groups, in ascending order.
    groups: Vec<Vec<u32>>,
    /// By class of groups and member: the number of ranks of one group for which the member stands.
    weights: Vec<Vec<u32>>,
    all_ranks: usize,
}

impl Folded {
    /// The job in which the first rank and the first group of each class stand for the class. `rank_classes` has the class of
    /// each rank and `group_classes` that of each group, numbered in the order in which they first appear.
    ///
    /// `None` if that would be another job: if members of a class run other programs, communicate in other groups or with other
    /// classes, or compute at other speeds; and if a rank has two groups, or exchanges messages with two ranks, of one class.
    pub fn new(training: &Training, rank_classes: &[u32], group_classes: &[u32]) -> Option<Self> {
        let spec = &training.spec;
        let classes = Classes { ranks: rank_classes, groups: group_classes };
        let workload = spec.workload.folded(&classes)?;
        let (ranks, groups) = (members_of(rank_classes), members_of(group_classes));
        let firsts = |classes: &[Vec<u32>]| classes.iter().map(|all| all[0]).collect::<Vec<u32>>();
        let (first_ranks, first_groups) = (firsts(&ranks), firsts(&groups));
        let slowdown = |rank: &u32| training.slowdown(*rank).to_bits();
        let collectives = |group: &u32| &training.collectives[*group as usize];
        let is_alike =
            ranks.iter().all(|all| all.iter().all(|rank| slowdown(rank) == slowdown(&all[0])))
                && groups
                    .iter()
                    .all(|all| all.iter().all(|group| collectives(group) == collectives(&all[0])));
        if !is_alike {
            return None;
        }
        let members: Vec<Vec<u32>> = first_groups
            .iter()
            .map(|&group| {
                let mut seen = BTreeSet::new();
                let classes = training.members(group).iter();
                let classes = classes.map(|&rank| rank_classes[rank as usize]);
                classes.filter(|&class| seen.insert(class)).collect()
            })
            .collect();
        let weight = |(all, class): (&Vec<u32>, &u32)| {
            all.iter().filter(|&each| each == class).count() as u32
        };
        let weights = workload.groups().iter().zip(&members);
        let weights = weights
            .map(|(all, members)| members.iter().map(|class| weight((all, class))).collect())
            .collect();
        let of_first = |rank: &u32| *rank as usize;
        let mut folded = Training {
            members,
            collectives: first_groups
                .iter()
                .map(|&group| training.collectives[group as usize].clone())
                .collect(),
            table: training.table.clone(),
            algorithms: training.algorithms.clone(),
            places: Vec::new(),
            slowdowns: first_ranks.iter().map(|rank| training.slowdowns[of_first(rank)]).collect(),
            spec: TrainingSpec {
                workload,
                hosts: first_ranks.iter().map(|rank| spec.hosts[of_first(rank)]).collect(),
                localities: Vec::new(),
                system: spec.system.clone(),
                stragglers: Vec::new(),
                path: spec.path.clone(),
                scale_up: spec.scale_up.clone(),
                framing: spec.framing,
                scale_up_framing: spec.scale_up_framing,
            },
        };
        folded.number_members();
        Some(Self { training: folded, ranks, groups, weights, all_ranks: rank_classes.len() })
    }

    /// The job of the representatives, whose ranks and groups are the classes. A group's list of ranks has as many entries as
    /// each group of its class, its [`members`](Training::members) are the classes among them.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// The ranks of a class, in ascending order.
    pub fn ranks(&self, class: u32) -> &[u32] {
        &self.ranks[class as usize]
    }

    /// The groups of a class, in ascending order.
    pub fn groups(&self, class: u32) -> &[u32] {
        &self.groups[class as usize]
    }

    /// The number of ranks of one group of the class for which a member stands.
    pub fn weight(&self, class: u32, member: u32) -> u32 {
        self.weights[class as usize][member as usize]
    }

    /// The number of ranks of the whole job.
    pub fn all_ranks(&self) -> usize {
        self.all_ranks
    }
}

fn members_of(classes: &[u32]) -> Vec<Vec<u32>> {
    let count = classes.iter().max().map_or(0, |last| *last as usize + 1);
    let mut members = vec![Vec::new(); count];
    for (&class, member) in classes.iter().zip(0_u32..) {
        members[class as usize].push(member);
    }
    members
}
