//! One iteration of a training job: a graph of operations for each rank, and the checks that make it valid. When each
//! operation runs is left to `execution`.

pub(crate) mod classes;
mod error;
mod order;
mod program;
mod ranks;

use std::collections::BTreeMap;

use hocket_des::Bytes;

pub use error::{MAX_OPERATIONS, Wait, WorkloadError};
pub use program::{Exchange, Operation, OperationKind, Program};
pub(crate) use ranks::Channel;
pub use ranks::{Rank, Workload};

impl Workload {
    /// A workload of `programs`, run by `ranks` that communicate in `groups`.
    ///
    /// # Errors
    /// If a reference is to nothing, if the ranks of a collective or a message disagree about it, or if ranks would
    /// deadlock. The first error is reported, with rank and operation.
    pub fn new(
        programs: Vec<Vec<Operation>>,
        groups: Vec<Vec<u32>>,
        ranks: Vec<Rank>,
    ) -> Result<Self, WorkloadError> {
        let programs = (0..).zip(programs).map(|(number, each)| Program::new(number, each));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let mut workload = Self { programs, groups, ranks, turns: Vec::new() };
        // In this order: each check indexes by what the ones before have checked.
        workload.check_ranks()?;
        workload.check_groups()?;
        workload.check_operations()?;
        workload.turns = workload.all_turns();
        workload.check_collectives()?;
        // What holds for one rank of each class holds for all. Only an error must name the rank that makes it.
        let folded = workload.folded_by_itself();
        let is_sound = |folded: Self| folded.check_exchanges().and(folded.check_order()).is_ok();
        if !folded.is_some_and(is_sound) {
            workload.check_exchanges()?;
            workload.check_order()?;
        }
        Ok(workload)
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
        let operations =
            |rank: &Rank| self.programs[rank.program as usize].operations().len() as u64;
        let found = self.ranks.iter().map(operations).sum();
        if found > MAX_OPERATIONS {
            return Err(WorkloadError::TooManyOperations { found });
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), WorkloadError> {
        // By rank: the last group in which it was seen, counted from 1. This finds repeated members without a set for
        // each group.
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
        // Every membership is among the rank's communicators, and both are without repetition: equal numbers mean equal sets.
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
            for operation in self.program(id).operations() {
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
                        Some(&peer) if peer == id => {
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

    // All members of a group must have the same collectives in the same order.
    fn check_collectives(&self) -> Result<(), WorkloadError> {
        for (group, members) in (0_u32..).zip(&self.groups) {
            let first = members[0];
            let known = (self.ranks[first as usize].program, self.place(first, group));
            for &rank in &members[1..] {
                let found = (self.ranks[rank as usize].program, self.place(rank, group));
                // The same program and place have the same collectives: thousands of ranks usually share one program.
                if found != known {
                    self.check_same_collectives(first, known, rank, found)?;
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
                all.map(|&each| &program.operations()[each as usize]).collect::<Vec<_>>()
            });
        let described = |operation: Option<&&Operation>| match operation.map(|each| each.kind) {
            Some(OperationKind::Collective { kind, bytes, .. }) => {
                format!("{} of {} bytes", kind.name(), bytes.get())
            }
            _ => "no further collective".to_owned(),
        };
        for number in 0..one.len().max(two.len()) {
            let (expected, found) = (one.get(number), two.get(number));
            let (other_what, what) = (described(expected), described(found));
            if what != other_what {
                let named = found.or(expected).expect("one of the two has more");
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

    // Every send has a receive of the same size.
    fn check_exchanges(&self) -> Result<(), WorkloadError> {
        type Ends<'a> = Vec<(&'a Operation, Bytes)>;
        // By channel: its sends and its receives. An ordered map, so that the error does not depend on hashing.
        let mut pairs: BTreeMap<Channel, [Ends<'_>; 2]> = BTreeMap::new();
        for rank in self.rank_ids() {
            for operation in self.program(rank).operations() {
                let (end, exchange) = match operation.kind {
                    OperationKind::Send(exchange) => (0, exchange),
                    OperationKind::Recv(exchange) => (1, exchange),
                    _ => continue,
                };
                let peer = self.peer(rank, &exchange);
                let (from, to) = if end == 0 { (rank, peer) } else { (peer, rank) };
                let pair = pairs.entry(Channel { from, to, tag: exchange.tag }).or_default();
                pair[end].push((operation, exchange.bytes));
            }
        }
        for (Channel { from, to, .. }, [sends, receives]) in pairs {
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
                    (None, receive) => {
                        let (operation, _) = receive.expect("one of the two has more");
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
        order::wait_cycle(self).map_or(Ok(()), |waits| Err(WorkloadError::Deadlock { waits }))
    }
}
