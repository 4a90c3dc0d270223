//! What the ranks of a training job do in one iteration: a graph of operations for each, repeated every
//! iteration. When each operation happens is left to `execution`.

mod order;

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration};
use thiserror::Error;

use crate::collective::CollectiveKind;

/// The most operations that all ranks together have in an iteration: some gigabytes of state.
pub const MAX_OPERATIONS: u64 = 1 << 28;

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// For people: in tables and messages.
    pub name: String,
    /// What it does.
    pub kind: OperationKind,
    /// The operations of its program, all before it, that must be done before it starts.
    pub after: Vec<u32>,
}

/// What an operation does. What it communicates goes over one of its rank's communicators, named by its place in the rank's
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Keeps the GPU busy. A rank does one compute at a time: of those that may start, the first of the program.
    Compute(Duration),
    /// Moves data among all members. Those of one communicator run one after another, in the order of the program.
    Collective {
        /// Place in the rank's list.
        communicator: u32,
        /// Which.
        kind: CollectiveKind,
        /// How much, as nccl-tests counts it.
        bytes: Bytes,
    },
    /// Sends to one member; done when all is acknowledged.
    Send(Exchange),
    /// Takes what a member sends; done when it has arrived.
    Recv(Exchange),
}

/// One end of a message between two ranks. The n-th send of a rank to another one with a tag goes to the other's n-th
/// receive from it with that tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Place in the rank's list.
    pub communicator: u32,
    /// The other one: its place in the group.
    pub peer: u32,
    /// How much.
    pub bytes: Bytes,
    /// Tells messages between the same two ranks apart.
    pub tag: u64,
}

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
    programs: Vec<Program>,
    groups: Vec<Vec<u32>>,
    ranks: Vec<Rank>,
    /// By rank and operation: how many sends, or receives, with the same other end and tag come before it. Of a rank that
    /// exchanges nothing there are none.
    turns: Vec<Vec<u32>>,
}

/// Operations, and what follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    operations: Vec<Operation>,
    /// By operation: those that wait for it.
    then: Vec<Vec<u32>>,
    /// By place of communicator: its collectives, in order.
    collectives: Vec<Vec<u32>>,
}

/// Why programs, groups and ranks are not a workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum WorkloadError {
    #[error("no rank; a workload has at least one")]
    NoRank,
    #[error("{found} operations of all ranks together; at most {MAX_OPERATIONS} are possible")]
    TooManyOperations { found: u64 },
    #[error("rank {rank} runs program {program}; there are {programs}, counted from 0")]
    UnknownProgram { rank: usize, program: u32, programs: usize },
    #[error("rank {rank} is in group {group}; there are {groups}, counted from 0")]
    UnknownGroup { rank: usize, group: u32, groups: usize },
    #[error("rank {rank} has group {group} among its communicators but is not in it")]
    NotAMember { rank: usize, group: u32 },
    #[error("rank {rank} has group {group} twice among its communicators")]
    CommunicatorTwice { rank: usize, group: u32 },
    #[error("group {group} has no rank; it has at least one")]
    EmptyGroup { group: usize },
    #[error("group {group} has rank {rank} twice")]
    MemberTwice { group: usize, rank: u32 },
    #[error("group {group} has rank {rank}, which does not have it among its communicators")]
    NotItsCommunicator { group: usize, rank: u32 },
    #[error(
        "program {program}, operation {operation:?}: waits for operation {after}, which does not come before it"
    )]
    NotBefore { program: usize, operation: String, after: u32 },
    #[error("program {program}, operation {operation:?}: 0 bytes; a message has at least 1")]
    NoBytes { program: usize, operation: String },
    #[error(
        "rank {rank}, operation {operation:?}: communicator {communicator}; the rank has {communicators}, counted from 0"
    )]
    UnknownCommunicator { rank: usize, operation: String, communicator: u32, communicators: usize },
    #[error(
        "rank {rank}, operation {operation:?}: peer {peer}; the group has {members}, counted from 0"
    )]
    UnknownPeer { rank: usize, operation: String, peer: u32, members: usize },
    #[error("rank {rank}, operation {operation:?}: its peer is the rank itself")]
    ToItself { rank: usize, operation: String },
    #[error(
        "rank {rank}, operation {operation:?}: {what}, where rank {other} of the same group has {other_what}"
    )]
    Disagreement { rank: u32, operation: String, what: String, other: u32, other_what: String },
    #[error(
        "rank {rank}, operation {operation:?}: {what} rank {peer}, which has no {missing} for it"
    )]
    Unmatched { rank: u32, operation: String, what: &'static str, peer: u32, missing: &'static str },
    #[error(
        "rank {rank}, operation {operation:?}: {bytes} bytes, where rank {peer} has {peer_bytes} in {peer_operation:?}"
    )]
    OtherBytes {
        rank: u32,
        operation: String,
        bytes: u64,
        peer: u32,
        peer_operation: String,
        peer_bytes: u64,
    },
    #[error("ranks wait for each other: {}", shown(waits))]
    Deadlock { waits: Vec<Wait> },
}

/// A rank that cannot go on: in a circle of such, each waits for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "its message says what it is")]
pub struct Wait {
    pub rank: u32,
    pub kind: &'static str,
    pub operation: String,
    pub for_rank: u32,
}

fn shown(waits: &[Wait]) -> String {
    let each = |Wait { rank, kind, operation, for_rank }: &Wait| {
        format!("rank {rank} in {kind} {operation:?} for rank {for_rank}")
    };
    waits.iter().map(each).collect::<Vec<_>>().join(", ")
}

impl Program {
    /// All operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations that wait for this one.
    pub fn then(&self, operation: u32) -> &[u32] {
        &self.then[operation as usize]
    }

    /// The collectives on the communicator at this place of the rank's list, in order.
    pub fn collectives(&self, communicator: usize) -> &[u32] {
        self.collectives.get(communicator).map_or(&[], |all| all)
    }

    fn new(number: usize, operations: Vec<Operation>) -> Result<Self, WorkloadError> {
        let mut then = vec![Vec::new(); operations.len()];
        let mut collectives: Vec<Vec<u32>> = Vec::new();
        for (index, operation) in (0_u32..).zip(&operations) {
            for &after in &operation.after {
                if after >= index {
                    let operation = operation.name.clone();
                    return Err(WorkloadError::NotBefore { program: number, operation, after });
                }
                then[after as usize].push(index);
            }
            match operation.kind {
                OperationKind::Compute(_) => {}
                OperationKind::Collective { communicator, .. } => {
                    let place = communicator as usize;
                    if collectives.len() <= place {
                        collectives.resize(place + 1, Vec::new());
                    }
                    collectives[place].push(index);
                }
                OperationKind::Send(exchange) | OperationKind::Recv(exchange) => {
                    if exchange.bytes == Bytes::ZERO {
                        let operation = operation.name.clone();
                        return Err(WorkloadError::NoBytes { program: number, operation });
                    }
                }
            }
            if operation.kind.is_empty_collective() {
                let operation = operation.name.clone();
                return Err(WorkloadError::NoBytes { program: number, operation });
            }
        }
        Ok(Self { operations, then, collectives })
    }
}

impl OperationKind {
    /// As tables name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compute(_) => "compute",
            Self::Collective { kind, .. } => kind.name(),
            Self::Send(_) => "send",
            Self::Recv(_) => "recv",
        }
    }

    /// The communicator that it needs.
    pub fn communicator(&self) -> Option<u32> {
        match *self {
            Self::Compute(_) => None,
            Self::Collective { communicator, .. } => Some(communicator),
            Self::Send(exchange) | Self::Recv(exchange) => Some(exchange.communicator),
        }
    }

    fn is_empty_collective(&self) -> bool {
        matches!(self, Self::Collective { bytes, .. } if *bytes == Bytes::ZERO)
    }
}

impl Workload {
    /// A workload of `programs`, run by `ranks` that communicate in `groups`.
    ///
    /// # Errors
    /// If something is not there or not the same for all who take part, or ranks would wait for each other for ever: the
    /// first such thing, with rank and operation.
    pub fn new(
        programs: Vec<Vec<Operation>>,
        groups: Vec<Vec<u32>>,
        ranks: Vec<Rank>,
    ) -> Result<Self, WorkloadError> {
        let programs = (0..).zip(programs).map(|(number, each)| Program::new(number, each));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let mut its = Self { programs, groups, ranks, turns: Vec::new() };
        its.check_ranks()?;
        its.check_groups()?;
        its.check_operations()?;
        its.turns = its.rank_ids().map(|rank| its.turns_of(rank)).collect();
        its.check_collectives()?;
        its.check_exchanges()?;
        its.check_order()?;
        Ok(its)
    }

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

    fn turns_of(&self, rank: u32) -> Vec<u32> {
        let operations = &self.program(rank).operations;
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

    fn rank_ids(&self) -> std::ops::Range<u32> {
        0..self.ranks.len() as u32
    }

    fn check_ranks(&self) -> Result<(), WorkloadError> {
        if self.ranks.is_empty() {
            return Err(WorkloadError::NoRank);
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            if rank.program as usize >= self.programs.len() {
                let (program, programs) = (rank.program, self.programs.len());
                return Err(WorkloadError::UnknownProgram { rank: number, program, programs });
            }
            for (place, &group) in rank.communicators.iter().enumerate() {
                let Some(members) = self.groups.get(group as usize) else {
                    let groups = self.groups.len();
                    return Err(WorkloadError::UnknownGroup { rank: number, group, groups });
                };
                if rank.communicators[..place].contains(&group) {
                    return Err(WorkloadError::CommunicatorTwice { rank: number, group });
                }
                if members.is_empty() {
                    return Err(WorkloadError::EmptyGroup { group: group as usize });
                }
            }
        }
        let operations = |rank: &Rank| self.programs[rank.program as usize].operations.len() as u64;
        let found = self.ranks.iter().map(operations).sum();
        if found > MAX_OPERATIONS {
            return Err(WorkloadError::TooManyOperations { found });
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), WorkloadError> {
        // By rank: the last group that it was seen in, counted from 1.
        let mut seen = vec![0; self.ranks.len()];
        let mut memberships = vec![0; self.ranks.len()];
        for (group, members) in self.groups.iter().enumerate() {
            if members.is_empty() {
                return Err(WorkloadError::EmptyGroup { group });
            }
            for &rank in members {
                let Some(seen) = seen.get_mut(rank as usize) else {
                    return Err(WorkloadError::NotItsCommunicator { group, rank });
                };
                if *seen == group + 1 {
                    return Err(WorkloadError::MemberTwice { group, rank });
                }
                *seen = group + 1;
                if !self.ranks[rank as usize].communicators.contains(&(group as u32)) {
                    return Err(WorkloadError::NotItsCommunicator { group, rank });
                }
                memberships[rank as usize] += 1;
            }
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            if memberships[number] == rank.communicators.len() {
                continue;
            }
            let is_out = |group: &&u32| !self.groups[**group as usize].contains(&(number as u32));
            let group = *rank.communicators.iter().find(is_out).expect("it is in fewer groups");
            return Err(WorkloadError::NotAMember { rank: number, group });
        }
        Ok(())
    }

    fn check_operations(&self) -> Result<(), WorkloadError> {
        for (rank, id) in self.rank_ids().enumerate() {
            let communicators = &self.ranks[rank].communicators;
            for operation in &self.program(id).operations {
                let Some(communicator) = operation.kind.communicator() else { continue };
                let name = || operation.name.clone();
                let Some(&group) = communicators.get(communicator as usize) else {
                    return Err(WorkloadError::UnknownCommunicator {
                        rank,
                        operation: name(),
                        communicator,
                        communicators: communicators.len(),
                    });
                };
                let members = &self.groups[group as usize];
                if let OperationKind::Send(exchange) | OperationKind::Recv(exchange) =
                    operation.kind
                {
                    let peer = exchange.peer;
                    match members.get(peer as usize) {
                        Some(&other) if other == id => {
                            return Err(WorkloadError::ToItself { rank, operation: name() });
                        }
                        Some(_) => {}
                        None => {
                            let (operation, members) = (name(), members.len());
                            return Err(WorkloadError::UnknownPeer {
                                rank,
                                operation,
                                peer,
                                members,
                            });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    // All members of a group must ask for the same, one after another.
    fn check_collectives(&self) -> Result<(), WorkloadError> {
        for (group, members) in (0_u32..).zip(&self.groups) {
            let first = members[0];
            let known = (self.ranks[first as usize].program, self.place(first, group));
            for &rank in &members[1..] {
                let its = (self.ranks[rank as usize].program, self.place(rank, group));
                if its != known {
                    self.check_same_collectives(first, known, rank, its)?;
                }
            }
        }
        Ok(())
    }

    fn check_same_collectives(
        &self,
        other: u32,
        (other_program, other_place): (u32, usize),
        rank: u32,
        (program, place): (u32, usize),
    ) -> Result<(), WorkloadError> {
        let [one, two] = [(other_program, other_place), (program, place)]
            .map(|(program, place)| (&self.programs[program as usize], place))
            .map(|(program, place)| {
                let all = program.collectives(place).iter();
                all.map(|&each| &program.operations[each as usize]).collect::<Vec<_>>()
            });
        let asked = |operation: Option<&&Operation>| match operation.map(|each| each.kind) {
            Some(OperationKind::Collective { kind, bytes, .. }) => {
                format!("{} of {} bytes", kind.name(), bytes.get())
            }
            _ => "no further collective".to_owned(),
        };
        for number in 0..one.len().max(two.len()) {
            let (theirs, its) = (one.get(number), two.get(number));
            let (other_what, what) = (asked(theirs), asked(its));
            if what != other_what {
                let named = its.or(theirs).expect("one of the two goes on");
                let operation = named.name.clone();
                return Err(WorkloadError::Disagreement {
                    rank,
                    operation,
                    what,
                    other,
                    other_what,
                });
            }
        }
        Ok(())
    }

    /// The place of a group in its member's list of communicators.
    pub(crate) fn place(&self, rank: u32, group: u32) -> usize {
        let communicators = &self.ranks[rank as usize].communicators;
        communicators.iter().position(|&each| each == group).expect("members have their group")
    }

    // Every send has its receive, of the same size.
    fn check_exchanges(&self) -> Result<(), WorkloadError> {
        type Ends<'a> = Vec<(&'a Operation, Bytes)>;
        // By from, to and tag: sends and receives.
        let mut pairs: BTreeMap<(u32, u32, u64), [Ends<'_>; 2]> = BTreeMap::new();
        for rank in self.rank_ids() {
            for operation in &self.program(rank).operations {
                let (end, exchange) = match operation.kind {
                    OperationKind::Send(exchange) => (0, exchange),
                    OperationKind::Recv(exchange) => (1, exchange),
                    _ => continue,
                };
                let peer = self.peer(rank, &exchange);
                let (from, to) = if end == 0 { (rank, peer) } else { (peer, rank) };
                let pair = pairs.entry((from, to, exchange.tag)).or_default();
                pair[end].push((operation, exchange.bytes));
            }
        }
        for ((from, to, _), [sends, receives]) in pairs {
            for number in 0..sends.len().max(receives.len()) {
                match (sends.get(number), receives.get(number)) {
                    (Some((operation, bytes)), Some((other, other_bytes))) => {
                        if bytes != other_bytes {
                            return Err(WorkloadError::OtherBytes {
                                rank: from,
                                operation: operation.name.clone(),
                                bytes: bytes.get(),
                                peer: to,
                                peer_operation: other.name.clone(),
                                peer_bytes: other_bytes.get(),
                            });
                        }
                    }
                    (Some((operation, _)), None) => {
                        return Err(WorkloadError::Unmatched {
                            rank: from,
                            operation: operation.name.clone(),
                            what: "sends to",
                            peer: to,
                            missing: "receive",
                        });
                    }
                    (None, found) => {
                        let (operation, _) = found.expect("one of the two goes on");
                        return Err(WorkloadError::Unmatched {
                            rank: to,
                            operation: operation.name.clone(),
                            what: "receives from",
                            peer: from,
                            missing: "send",
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_order(&self) -> Result<(), WorkloadError> {
        order::circle(self).map_or(Ok(()), |waits| Err(WorkloadError::Deadlock { waits }))
    }
}
