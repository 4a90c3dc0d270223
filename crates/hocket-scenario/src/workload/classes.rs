//! Classes of ranks and groups that are alike, of which one can stand for all: thousands of ranks usually run a few programs.

use std::collections::{BTreeSet, HashMap};

use super::program::Program;
use super::ranks::{Rank, Workload};

/// The class of each rank and of each group, numbered in the order in which they first appear.
#[derive(Clone, Debug)]
pub(crate) struct Classes<'a> {
    pub(crate) ranks: &'a [u32],
    pub(crate) groups: &'a [u32],
}

impl Workload {
    /// The workload of the first rank and the first group of each class. Groups keep their length, so that peers keep their
    /// positions.
    ///
    /// `None` if that would be another workload: if members of a class run other programs, or communicate in other groups or
    /// with other classes; and if a rank has two groups, or exchanges messages with two ranks, of one class.
    pub(crate) fn folded(&self, classes: &Classes<'_>) -> Option<Self> {
        let (ranks, groups) = (first_members(classes.ranks), first_members(classes.groups));
        let alike = Alike::new(self, classes);
        let mut rank_ids = self.rank_ids();
        let mut group_ids = 0..self.groups.len() as u32;
        let is_valid = rank_ids.all(|rank| alike.ranks(ranks[alike.class(rank)], rank))
            && group_ids.all(|group| alike.groups(groups[alike.class_of_group(group)], group))
            && ranks.iter().all(|&rank| alike.is_plain(rank));
        if !is_valid {
            return None;
        }
        let members = |&group: &u32| {
            let members = self.groups[group as usize].iter();
            members.map(|&rank| classes.ranks[rank as usize]).collect()
        };
        let rank = |&rank: &u32| {
            let Rank { program, communicators } = &self.ranks[rank as usize];
            let communicators = communicators.iter().map(|&group| classes.groups[group as usize]);
            Rank { program: *program, communicators: communicators.collect() }
        };
        Some(Self {
            programs: self.programs.clone(),
            groups: groups.iter().map(members).collect(),
            ranks: ranks.iter().map(rank).collect(),
            turns: ranks.iter().map(|&rank| self.turns[rank as usize].clone()).collect(),
        })
    }

    /// This workload folded by the classes of colour refinement: ranks are alike if they run one program, and their groups and
    /// the ranks with which they exchange messages are alike. `None` if that folds nothing.
    pub(super) fn folded_by_itself(&self) -> Option<Self> {
        let exchanges: Vec<_> = self.programs.iter().map(Program::exchanges).collect();
        let mut ranks = numbered(self.ranks.iter().map(|rank| rank.program));
        let mut groups = numbered(self.groups.iter().map(Vec::len));
        let mut count = 0;
        while count < count_of(&ranks) + count_of(&groups) {
            count = count_of(&ranks) + count_of(&groups);
            let classes = Classes { ranks: &ranks, groups: &groups };
            let alike = Alike { workload: self, classes: &classes, exchanges: exchanges.clone() };
            // By group: the classes of its members, each with the group's position in their lists of communicators.
            let mut members = vec![Vec::new(); self.groups.len()];
            for (rank, class) in self.ranks.iter().zip(&ranks) {
                for (place, &group) in rank.communicators.iter().enumerate() {
                    members[group as usize].push((*class, place));
                }
            }
            members.iter_mut().for_each(|members| members.sort_unstable());
            let next = groups.iter().copied().zip(members);
            let next = numbered(next);
            let next_ranks = self.rank_ids().map(|rank| {
                let groups: Vec<u32> = alike.groups_of(rank).collect();
                let peers: Vec<usize> = alike.peers(rank).map(|peer| alike.class(peer)).collect();
                (alike.class(rank), groups, peers)
            });
            let next_ranks = numbered(next_ranks);
            (ranks, groups) = (next_ranks, next);
        }
        if count_of(&ranks) == self.ranks.len() {
            return None;
        }
        let classes = Classes { ranks: &ranks, groups: &groups };
        let alike = Alike { workload: self, classes: &classes, exchanges };
        // Two ranks exchange messages with each other, or the receives of one would have no sends.
        let is_mutual =
            |rank| alike.peers(rank).all(|peer| alike.peers(peer).any(|each| each == rank));
        if self.rank_ids().all(is_mutual) { self.folded(&classes) } else { None }
    }
}

/// Compares members of a class with its representative.
struct Alike<'a> {
    workload: &'a Workload,
    classes: &'a Classes<'a>,
    /// By program.
    exchanges: Vec<Vec<(u32, u32)>>,
}

impl<'a> Alike<'a> {
    fn new(workload: &'a Workload, classes: &'a Classes<'a>) -> Self {
        let exchanges = workload.programs.iter().map(Program::exchanges).collect();
        Self { workload, classes, exchanges }
    }

    fn class(&self, rank: u32) -> usize {
        self.classes.ranks[rank as usize] as usize
    }

    fn class_of_group(&self, group: u32) -> usize {
        self.classes.groups[group as usize] as usize
    }

    fn ranks(&self, one: u32, other: u32) -> bool {
        let program = |rank: u32| self.workload.ranks[rank as usize].program;
        let peers = |rank: u32| self.peers(rank).map(|peer| self.class(peer));
        one == other
            || (program(one) == program(other)
                && self.groups_of(one).eq(self.groups_of(other))
                && peers(one).eq(peers(other)))
    }

    fn groups(&self, one: u32, other: u32) -> bool {
        let classes = |group: u32| {
            let ranks = self.workload.groups[group as usize].iter();
            let mut classes: Vec<_> = ranks.map(|&rank| self.class(rank)).collect();
            classes.sort_unstable();
            classes
        };
        one == other || classes(one) == classes(other)
    }

    // Whether a rank's groups, and the ranks with which it exchanges messages, are of one class each, none of them its own.
    fn is_plain(&self, rank: u32) -> bool {
        let groups: BTreeSet<u32> = self.groups_of(rank).collect();
        let peers: BTreeSet<u32> = self.peers(rank).collect();
        let classes: BTreeSet<usize> = peers.iter().map(|&peer| self.class(peer)).collect();
        groups.len() == self.workload.ranks[rank as usize].communicators.len()
            && classes.len() == peers.len()
            && !classes.contains(&self.class(rank))
    }

    // The classes of a rank's groups, by communicator.
    fn groups_of(&self, rank: u32) -> impl Iterator<Item = u32> {
        let communicators = self.workload.ranks[rank as usize].communicators.iter();
        communicators.map(|&group| self.classes.groups[group as usize])
    }

    // The ranks with which a rank exchanges messages, in an order that its program fixes.
    fn peers(&self, rank: u32) -> impl Iterator<Item = u32> {
        let Rank { program, communicators } = &self.workload.ranks[rank as usize];
        self.exchanges[*program as usize].iter().map(move |&(communicator, peer)| {
            let group = communicators[communicator as usize];
            self.workload.groups[group as usize][peer as usize]
        })
    }
}

// Numbers for keys, in the order in which they first appear.
fn numbered<Key: Eq + std::hash::Hash>(keys: impl Iterator<Item = Key>) -> Vec<u32> {
    let mut numbers = HashMap::new();
    keys.map(|key| {
        let next = numbers.len() as u32;
        *numbers.entry(key).or_insert(next)
    })
    .collect()
}

fn count_of(classes: &[u32]) -> usize {
    classes.iter().max().map_or(0, |last| *last as usize + 1)
}

/// The first member of each class.
pub(crate) fn first_members(classes: &[u32]) -> Vec<u32> {
    let mut first = Vec::with_capacity(count_of(classes));
    for (&class, member) in classes.iter().zip(0_u32..) {
        if class as usize == first.len() {
            first.push(member);
        }
    }
    first
}
