//! Detects deadlocks by a trial iteration in which nothing takes time. Which operations can run does not depend on times, so a
//! workload that gets stuck here does so on every network.

use std::collections::BTreeMap;

use super::error::Wait;
use super::program::OperationKind;
use super::ranks::{Channel, Workload};

/// A cycle of ranks in which each waits for the next, and the last for the first; `None` if an iteration ends.
pub(super) fn wait_cycle(workload: &Workload) -> Option<Vec<Wait>> {
    let mut trial = Trial::new(workload);
    trial.run();
    if trial.left == 0 { None } else { Some(trial.cycle()) }
}

const DONE: u32 = u32::MAX;
const JOINED: u32 = u32::MAX - 1;

struct Trial<'a> {
    workload: &'a Workload,
    /// By rank and operation: the number of operations that it waits for, or [`JOINED`] or [`DONE`].
    waiting: Vec<Vec<u32>>,
    /// By rank and communicator: the number of finished collectives.
    collectives_done: Vec<Vec<usize>>,
    /// By group: the number of its different members, and of those that have joined its next collective.
    members: Vec<usize>,
    joined: Vec<usize>,
    /// By channel and turn. With turns, a message can only go to its own receive, in whatever order they become ready.
    mailboxes: BTreeMap<(Channel, u32), Mailbox>,
    ready: Vec<(u32, u32)>,
    left: usize,
}

/// The end of a message that came first.
enum Mailbox {
    Sent,
    /// The receive operation that waits.
    Awaited(u32),
}

impl<'a> Trial<'a> {
    fn new(workload: &'a Workload) -> Self {
        let mut seen = vec![usize::MAX; workload.ranks.len()];
        let groups = workload.groups.iter().enumerate();
        let different = groups.map(|(group, members)| {
            let is_new =
                |rank: &&u32| std::mem::replace(&mut seen[**rank as usize], group) != group;
            members.iter().filter(is_new).count()
        });
        let mut trial = Self {
            workload,
            members: different.collect(),
            waiting: Vec::with_capacity(workload.ranks.len()),
            collectives_done: Vec::with_capacity(workload.ranks.len()),
            joined: vec![0; workload.groups.len()],
            mailboxes: BTreeMap::new(),
            ready: Vec::new(),
            left: 0,
        };
        for (rank, id) in workload.ranks.iter().zip(0_u32..) {
            let operations = workload.program(id).operations();
            trial.waiting.push(operations.iter().map(|each| each.after.len() as u32).collect());
            trial.collectives_done.push(vec![0; rank.communicators.len()]);
            trial.left += operations.len();
            let free = (0_u32..).zip(operations).filter(|(_, each)| each.after.is_empty());
            trial.ready.extend(free.map(|(operation, _)| (id, operation)));
        }
        trial
    }

    fn run(&mut self) {
        while let Some((rank, operation)) = self.ready.pop() {
            match self.workload.program(rank).operations()[operation as usize].kind {
                OperationKind::Compute(_) => self.finish(rank, operation),
                OperationKind::Collective { communicator, .. } => {
                    let is_next =
                        self.next_collective(rank, communicator as usize) == Some(operation);
                    // It can be in the list twice: since it was ready, and since its turn came.
                    if is_next && self.is_ready(rank, operation) {
                        self.waiting[rank as usize][operation as usize] = JOINED;
                        self.join(self.workload.group(rank, communicator));
                    }
                }
                // A send finishes without its receive: in a run, the message is acknowledged when it arrives.
                OperationKind::Send(exchange) => {
                    self.finish(rank, operation);
                    let to = self.workload.peer(rank, &exchange);
                    let turn = self.workload.turn(rank, operation);
                    let key = (Channel { from: rank, to, tag: exchange.tag }, turn);
                    match self.mailboxes.insert(key, Mailbox::Sent) {
                        Some(Mailbox::Awaited(receiver)) => self.finish(to, receiver),
                        Some(Mailbox::Sent) => unreachable!("each send has a turn of its own"),
                        None => {}
                    }
                }
                OperationKind::Recv(exchange) => {
                    let from = self.workload.peer(rank, &exchange);
                    let turn = self.workload.turn(rank, operation);
                    let key = (Channel { from, to: rank, tag: exchange.tag }, turn);
                    if self.mailboxes.insert(key, Mailbox::Awaited(operation)).is_some() {
                        self.finish(rank, operation);
                    }
                }
            }
        }
    }

    // A member joins the group's next collective, which the last member finishes for all.
    fn join(&mut self, group: u32) {
        self.joined[group as usize] += 1;
        if self.joined[group as usize] < self.members[group as usize] {
            return;
        }
        self.joined[group as usize] = 0;
        for &member in &self.workload.groups[group as usize] {
            let place = self.workload.place(member, group);
            let next = self.next_collective(member, place);
            let Some(collective) = next.filter(|&next| self.is_joined(member, next)) else {
                continue; // A rank of a folded workload is listed for each of its class.
            };
            self.collectives_done[member as usize][place] += 1;
            // The next collective may have been ready before its turn.
            let next = self.next_collective(member, place);
            if let Some(next) = next.filter(|&next| self.is_ready(member, next)) {
                self.ready.push((member, next));
            }
            self.finish(member, collective);
        }
    }

    fn next_collective(&self, rank: u32, place: usize) -> Option<u32> {
        let done = self.collectives_done[rank as usize][place];
        self.workload.program(rank).collectives(place).get(done).copied()
    }

    fn is_joined(&self, rank: u32, operation: u32) -> bool {
        self.waiting[rank as usize][operation as usize] == JOINED
    }

    fn is_ready(&self, rank: u32, operation: u32) -> bool {
        self.waiting[rank as usize][operation as usize] == 0
    }

    fn finish(&mut self, rank: u32, operation: u32) {
        self.left -= 1;
        self.waiting[rank as usize][operation as usize] = DONE;
        for &follower in self.workload.program(rank).followers(operation) {
            let waiting = &mut self.waiting[rank as usize][follower as usize];
            *waiting -= 1;
            if *waiting == 0 {
                self.ready.push((rank, follower));
            }
        }
    }

    // Follows the waits from any stuck rank until a rank repeats. Every stuck rank waits for a stuck one, so one does.
    fn cycle(&self) -> Vec<Wait> {
        let is_stuck = |&rank: &u32| self.first_left(rank).is_some();
        let mut rank = self.workload.rank_ids().find(is_stuck).expect("something is left");
        let mut waits: Vec<Wait> = Vec::new();
        while !waits.iter().any(|wait| wait.rank == rank) {
            let wait = self.wait_of(rank);
            rank = wait.for_rank;
            waits.push(wait);
        }
        // Ranks before the repeated one only wait for the cycle.
        let start = waits.iter().position(|wait| wait.rank == rank).expect("it was repeated");
        waits.split_off(start)
    }

    fn first_left(&self, rank: u32) -> Option<u32> {
        let waiting = self.waiting[rank as usize].iter();
        waiting.zip(0_u32..).find(|(waiting, _)| **waiting != DONE).map(|(_, operation)| operation)
    }

    // Operations only wait for earlier ones, so the first one left waits for another rank.
    fn wait_of(&self, rank: u32) -> Wait {
        let first = self.first_left(rank).expect("nobody waits for a rank that is done");
        let operation = &self.workload.program(rank).operations()[first as usize];
        let for_rank = match operation.kind {
            OperationKind::Recv(exchange) => self.workload.peer(rank, &exchange),
            OperationKind::Collective { communicator, .. } => {
                let group = self.workload.group(rank, communicator);
                let members = self.workload.groups[group as usize].iter();
                *members
                    .clone()
                    .find(|&&each| !self.has_joined(each, group))
                    .expect("one is missing")
            }
            OperationKind::Compute(_) | OperationKind::Send(_) => {
                unreachable!("nothing delays {:?}", operation.name)
            }
        };
        Wait { rank, kind: operation.kind.name(), operation: operation.name.clone(), for_rank }
    }

    fn has_joined(&self, rank: u32, group: u32) -> bool {
        let next = self.next_collective(rank, self.workload.place(rank, group));
        next.is_some_and(|next| self.is_joined(rank, next))
    }
}

#[cfg(test)]
mod tests {
    use hocket_des::{Bytes, Duration};

    use super::super::{Exchange, Operation, Rank, WorkloadError};
    use super::*;
    use crate::collective::CollectiveKind;

    fn operation(name: &str, kind: OperationKind, after: &[u32]) -> Operation {
        Operation { name: name.to_owned(), kind, after: after.to_vec() }
    }

    fn all_reduce(name: &str, communicator: u32) -> Operation {
        let (kind, bytes) = (CollectiveKind::AllReduce, Bytes::new(8));
        operation(name, OperationKind::Collective { communicator, kind, bytes }, &[])
    }

    fn exchange(peer: u32, tag: u64) -> Exchange {
        Exchange { communicator: 0, peer, bytes: Bytes::new(1), tag }
    }

    fn two_ranks(programs: [Vec<Operation>; 2], groups: u32) -> Result<Workload, WorkloadError> {
        let rank = |program| Rank { program, communicators: (0..groups).collect() };
        let groups = vec![vec![0, 1]; groups as usize];
        Workload::new(programs.into(), groups, vec![rank(0), rank(1)])
    }

    fn message(result: Result<Workload, WorkloadError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn two_ranks_that_receive_before_they_send_wait_for_each_other() {
        let program = |peer| {
            let recv = operation("get", OperationKind::Recv(exchange(peer, 0)), &[]);
            let send = operation("give", OperationKind::Send(exchange(peer, 0)), &[0]);
            vec![recv, send]
        };
        assert_eq!(
            message(two_ranks([program(1), program(0)], 1)),
            "ranks wait for each other: rank 0 in recv \"get\" for rank 1, rank 1 in recv \"get\" for rank 0"
        );
        let sent_first = |peer| {
            program(peer).into_iter().rev().map(|mut each| {
                each.after.clear();
                each
            })
        };
        assert!(two_ranks([sent_first(1).collect(), sent_first(0).collect()], 1).is_ok());
    }

    #[test]
    fn dependent_collectives_of_two_groups_in_opposite_order_wait_for_each_other() {
        let chained = |first, second| {
            let mut then = all_reduce("then", second);
            then.after = vec![0];
            vec![all_reduce("first", first), then]
        };
        assert!(message(two_ranks([chained(0, 1), chained(1, 0)], 2)).starts_with("ranks wait"));
        let side_by_side = |one, other| vec![all_reduce("one", one), all_reduce("other", other)];
        assert!(two_ranks([side_by_side(0, 1), side_by_side(1, 0)], 2).is_ok());
    }

    #[test]
    fn a_receive_takes_the_message_of_its_turn_however_early_it_is_ready() {
        // The second receive is ready first. If it took the first message, rank 0 would never get its answer.
        let (send, recv) = (OperationKind::Send, OperationKind::Recv);
        let first = vec![
            operation("one", send(exchange(1, 0)), &[]),
            operation("answer", recv(exchange(1, 1)), &[]),
            operation("two", send(exchange(1, 0)), &[1]),
        ];
        let compute = operation("step", OperationKind::Compute(Duration::from_ms(1)), &[]);
        let second = vec![
            compute,
            operation("get one", recv(exchange(0, 0)), &[0]),
            operation("get two", recv(exchange(0, 0)), &[]),
            operation("answer", send(exchange(0, 1)), &[1]),
        ];
        assert!(two_ranks([first, second], 1).is_ok());
    }

    #[test]
    fn ranks_that_disagree_are_named_with_their_operations() {
        let compute = operation("step", OperationKind::Compute(Duration::from_ms(1)), &[]);
        assert_eq!(
            message(two_ranks([vec![all_reduce("sum", 0)], vec![compute]], 1)),
            "rank 1, operation \"sum\": no further collective, where rank 0 of the same group has all-reduce of 8 bytes"
        );
        let send = operation("give", OperationKind::Send(exchange(1, 7)), &[]);
        let get = |tag| operation("get", OperationKind::Recv(exchange(0, tag)), &[]);
        assert_eq!(
            message(two_ranks([vec![send.clone()], vec![get(8)]], 1)),
            "rank 0, operation \"give\": sends to rank 1, which has no receive for it"
        );
        assert!(two_ranks([vec![send], vec![get(7)]], 1).is_ok());
    }
}
