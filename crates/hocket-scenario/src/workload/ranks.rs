//! Ranks with their programs and groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::program::{Exchange, OperationKind, Program};

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The program that it runs.
    pub program: u32,
    /// The groups that it is in.
    pub communicators: Vec<u32>,
}

/// The operations of all ranks, valid by construction: every operation has its counterparts at the other ranks, and no ranks
/// deadlock. Ranks with the same operations share a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub(super) programs: Vec<Program>,
    pub(super) groups: Vec<Vec<u32>>,
    pub(super) ranks: Vec<Rank>,
    /// By rank and operation: the number of earlier sends, or receives, with the same peer and tag. Empty for a rank without
    /// sends and receives.
    pub(super) turns: Vec<Arc<[u32]>>,
}

/// The messages with one tag from one rank to another. The n-th send is matched with the n-th receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) tag: u64,
}

impl Workload {
    /// All programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The ranks of each group, in the order of the group.
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

    /// The group at a position of a rank's list of communicators.
    pub fn group(&self, rank: u32, communicator: u32) -> u32 {
        self.ranks[rank as usize].communicators[communicator as usize]
    }

    /// The rank at the other end of an exchange of `rank`.
    pub fn peer(&self, rank: u32, exchange: &Exchange) -> u32 {
        let group = self.group(rank, exchange.communicator);
        self.groups[group as usize][exchange.peer as usize]
    }

    /// The number of earlier sends, or receives, of `rank` with the same peer and tag.
    pub(crate) fn turn(&self, rank: u32, operation: u32) -> u32 {
        self.turns[rank as usize][operation as usize]
    }

    /// By rank: its turns. Ranks of one program share them, unless a program names one rank in several ways.
    pub(super) fn all_turns(&self) -> Vec<Arc<[u32]>> {
        let mut of_program: Vec<Option<Arc<[u32]>>> = vec![None; self.programs.len()];
        let exchanges: Vec<_> = self.programs.iter().map(Program::exchanges).collect();
        let turns = self.ranks.iter().zip(0_u32..).map(|(rank, id)| {
            let program = rank.program as usize;
            let peers = exchanges[program].iter().map(|&(communicator, peer)| {
                self.groups[self.group(id, communicator) as usize][peer as usize]
            });
            if peers.collect::<BTreeSet<_>>().len() < exchanges[program].len() {
                return self.turns_of(id);
            }
            Arc::clone(of_program[program].get_or_insert_with(|| self.turns_of(id)))
        });
        turns.collect()
    }

    fn turns_of(&self, rank: u32) -> Arc<[u32]> {
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
        let turns: Arc<[u32]> = turns.collect();
        // Most ranks have only collectives: they need no turns.
        if seen.is_empty() { Arc::new([]) } else { turns }
    }

    pub(super) fn rank_ids(&self) -> std::ops::Range<u32> {
        0..self.ranks.len() as u32
    }

    /// The position of a group in its member's list of communicators.
    pub(crate) fn place(&self, rank: u32, group: u32) -> usize {
        let communicators = &self.ranks[rank as usize].communicators;
        communicators.iter().position(|&each| each == group).expect("members have their group")
    }
}
