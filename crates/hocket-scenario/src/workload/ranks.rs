//! Who runs which program, and communicates in which groups.

use std::collections::BTreeMap;

use super::program::{Exchange, OperationKind, Program};

/// A GPU: which program it runs, and the groups that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its program.
    pub program: u32,
    /// Its groups.
    pub communicators: Vec<u32>,
}

/// What all ranks do, valid by construction: every operation finds its partners, in the same order at all of them, so that no
/// ranks wait for each other for ever. Ranks that do the same share a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub(super) programs: Vec<Program>,
    pub(super) groups: Vec<Vec<u32>>,
    pub(super) ranks: Vec<Rank>,
    /// By rank and operation: how many sends, or receives, with the same other end and tag come before it. Of a rank that
    /// exchanges nothing there are none.
    pub(super) turns: Vec<Vec<u32>>,
}

/// Messages of one tag from one rank to another: the n-th that is sent is the n-th that is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) tag: u64,
}

impl Workload {
    /// What ranks run.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Who communicates with whom: ranks, by place in the group.
    pub fn groups(&self) -> &[Vec<u32>] {
        &self.groups
    }

    /// All ranks.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The program of a rank.
    pub fn program(&self, rank: u32) -> &Program {
        &self.programs[self.ranks[rank as usize].program as usize]
    }

    /// The group behind a place in a rank's list of communicators.
    pub fn group(&self, rank: u32, communicator: u32) -> u32 {
        self.ranks[rank as usize].communicators[communicator as usize]
    }

    /// The rank at the other end of an exchange of `rank`.
    pub fn peer(&self, rank: u32, exchange: &Exchange) -> u32 {
        let group = self.group(rank, exchange.communicator);
        self.groups[group as usize][exchange.peer as usize]
    }

    /// How many sends, or receives, of `rank` with the same other end and tag come before this one.
    pub(crate) fn turn(&self, rank: u32, operation: u32) -> u32 {
        self.turns[rank as usize][operation as usize]
    }

    pub(super) fn turns_of(&self, rank: u32) -> Vec<u32> {
        let operations = self.program(rank).operations();
        let mut seen = BTreeMap::new();
        let turns = operations.iter().map(|operation| {
            let (is_send, exchange) = match operation.kind {
                OperationKind::Send(exchange) => (true, exchange),
                OperationKind::Recv(exchange) => (false, exchange),
                OperationKind::Compute(_) | OperationKind::Collective { .. } => return 0,
            };
            let next = seen.entry((is_send, self.peer(rank, &exchange), exchange.tag)).or_insert(0);
            *next += 1;
            *next - 1
        });
        let turns: Vec<u32> = turns.collect();
        if seen.is_empty() { Vec::new() } else { turns }
    }

    pub(super) fn rank_ids(&self) -> std::ops::Range<u32> {
        0..self.ranks.len() as u32
    }

    /// The place of a group in its member's list of communicators.
    pub(crate) fn place(&self, rank: u32, group: u32) -> usize {
        let communicators = &self.ranks[rank as usize].communicators;
        communicators.iter().position(|&each| each == group).expect("members have their group")
    }
}
