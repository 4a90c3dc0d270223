//! What the ranks of a training job do next: operations start when those that they wait for are done, and an iteration
//! starts when the rank's last one ended. How long a message or a collective takes is the network's business; this state
//! machine has no clock and is told `now`.

mod checks;
mod groups;
mod iterations;
mod rank;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Stream, Time, stream};

use crate::closed_loop::{TooLong, later, spread};
use crate::training::Training;
use crate::workload::{Channel, OperationKind, Workload};
use crate::{CollectiveRow, Job, JobId, OperationRow, RankRow, Records, Scenario};

use groups::{GroupState, OpenCollective};
use iterations::Tallies;
use rank::{DONE, RankState};

pub use checks::FailedCheck;

/// What a rank asks of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Call [`Execution::wake`] for the rank at this time. A rank has one such wait at a time.
    Wake {
        /// Who.
        rank: u32,
        /// When.
        at: Time,
    },
    /// A rank takes part in the next collective of a group from now on: call [`Execution::collective_done`] when its part is done.
    Join {
        /// Which group.
        group: u32,
        /// The rank's place among the [`members`](Training::members).
        member: u32,
        /// How: its number among the [`collectives`](Training::collectives).
        collective: u32,
        /// How many collectives the group began before.
        sequence: u64,
    },
    /// Send from one rank to another: call [`Execution::delivered`] when all has arrived, and [`Execution::acknowledged`] when
    /// the sender knows that.
    Send {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// How much.
        bytes: Bytes,
        /// What to call the message.
        message: u32,
    },
}

/// The ranks of one job in their iterations. Both engines drive it: each call says what has happened and when, and adds what the
/// engine must do to `commands`; the rows of what was finished go to [`Records`].
#[derive(Clone, Debug)]
pub struct Execution<'a> {
    job: &'a Job,
    training: &'a Training,
    id: JobId,
    iterations: Option<u64>,
    /// Of so many iterations the operations are recorded.
    recorded: u64,
    ranks: Vec<RankState>,
    /// By rank, if computes vary.
    jitter: Vec<Stream>,
    groups: Vec<GroupState>,
    /// By channel and turn.
    mailboxes: BTreeMap<(Channel, u32), Mailbox>,
    messages: Vec<Message>,
    unused_messages: Vec<u32>,
    tallies: Tallies,
    gone: usize,
    /// By group: what the links of one of its ranks carry at most.
    limits_bps: Vec<u64>,
    /// The first collective that was faster than that.
    too_fast: Option<FailedCheck>,
    /// Operations that are done and whose followers do not know yet.
    finished: Vec<(u32, u32)>,
    /// Ranks that something was finished of.
    touched: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Mailbox {
    /// So many messages have come, each in another iteration.
    Arrived(u32),
    /// The receive waits.
    Awaited(u32),
}

#[derive(Clone, Copy, Debug)]
struct Message {
    from: u32,
    operation: u32,
    to: u32,
    tag: u64,
    is_delivered: bool,
}

impl<'a> Execution<'a> {
    /// The ranks of a training job before their first iteration, and in `commands` when that starts; its time-shift is drawn and
    /// recorded. The operations of the first `recorded` iterations will be.
    ///
    /// # Errors
    /// If the first iteration would start after the end of time.
    ///
    /// # Panics
    /// If the job is not a training job.
    pub fn new(
        scenario: &'a Scenario,
        id: JobId,
        recorded: u64,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<Self, TooLong> {
        let index = u64::from(id.code());
        let job = &scenario.jobs()[id.index()];
        let training = job.training().expect("only training jobs have operations");
        let workload = training.workload();
        let delayed = job.time_shift.map_or(Duration::ZERO, |shift| {
            let mut clock = stream(scenario.seed(), "clock", index);
            spread(shift, job.clock_error, &mut clock)
        });
        records.jobs[id.index()].time_shift = delayed;
        let start = later(job, job.arrival, delayed)?;
        let ranks = workload.ranks().iter().zip(0_u32..);
        let ranks = ranks.map(|(rank, number)| {
            commands.push(Command::Wake { rank: number, at: start });
            RankState::new(rank.communicators.len(), start, delayed)
        });
        let ranks: Vec<_> = ranks.collect();
        let jittery = if job.jitter == 0.0 { 0 } else { ranks.len() as u64 };
        // Ranks of other jobs have other streams: there are fewer than 2^32 of either.
        let jitter = (0..jittery).map(|rank| stream(scenario.seed(), "jitter", index << 32 | rank));
        Ok(Self {
            job,
            training,
            id,
            iterations: scenario.iterations(id),
            recorded,
            jitter: jitter.collect(),
            groups: vec![GroupState::default(); workload.groups().len()],
            ranks,
            mailboxes: BTreeMap::new(),
            messages: Vec::new(),
            unused_messages: Vec::new(),
            tallies: Tallies::default(),
            gone: 0,
            limits_bps: checks::limits_bps(training, scenario.fabric()),
            too_fast: None,
            finished: Vec::new(),
            touched: Vec::new(),
        })
    }

    /// The job.
    pub fn training(&self) -> &'a Training {
        self.training
    }

    /// Whether all ranks have left.
    pub fn is_gone(&self) -> bool {
        self.gone == self.ranks.len()
    }

    /// Iterations that all ranks have finished.
    pub fn iterations_done(&self) -> u64 {
        self.tallies.done()
    }

    /// A wait that was commanded is over: a compute is done, or an iteration starts.
    ///
    /// # Errors
    /// If a wait would end after the end of time.
    pub fn wake(
        &mut self,
        rank: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let state = &mut self.ranks[rank as usize];
        match state.computing {
            Some(operation) => {
                state.account(now);
                state.computing = None;
                self.finished.push((rank, operation));
            }
            None => self.begin(rank, now, commands),
        }
        self.settle(now, records, commands)
    }

    /// A member's part of the collective that it joined last in this group is done.
    ///
    /// # Errors
    /// As [`wake`](Self::wake).
    pub fn collective_done(
        &mut self,
        group: u32,
        member: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let rank = self.training.members(group)[member as usize];
        let place = self.workload().place(rank, group);
        let program = self.workload().program(rank);
        let state = &mut self.ranks[rank as usize];
        state.account(now);
        state.communicating -= 1;
        let its = &mut state.communicators[place];
        let operation = program.collectives(place)[its.done as usize];
        its.done += 1;
        its.is_busy = false;
        let sequence = its.joined - 1;
        self.note_done(group, sequence, now, records);
        self.finished.push((rank, operation));
        self.join_next(rank, place, now, commands);
        self.settle(now, records, commands)
    }

    /// All of a message has arrived.
    ///
    /// # Errors
    /// As [`wake`](Self::wake).
    pub fn delivered(
        &mut self,
        message: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let its = &mut self.messages[message as usize];
        assert!(!its.is_delivered, "a message arrives once");
        its.is_delivered = true;
        let Message { from, operation, to, tag, .. } = *its;
        let turn = self.workload().turn(from, operation);
        let key = (Channel { from, to, tag }, turn);
        match self.mailboxes.remove(&key) {
            Some(Mailbox::Awaited(receiver)) => {
                let state = &mut self.ranks[to as usize];
                state.account(now);
                state.communicating -= 1;
                self.finished.push((to, receiver));
                self.settle(now, records, commands)
            }
            Some(Mailbox::Arrived(before)) => {
                self.mailboxes.insert(key, Mailbox::Arrived(before + 1));
                Ok(())
            }
            None => {
                self.mailboxes.insert(key, Mailbox::Arrived(1));
                Ok(())
            }
        }
    }

    /// The sender of a message knows that it has arrived.
    ///
    /// # Errors
    /// As [`wake`](Self::wake).
    pub fn acknowledged(
        &mut self,
        message: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let its = self.messages[message as usize];
        assert!(its.is_delivered, "what is acknowledged has arrived before");
        self.unused_messages.push(message);
        let state = &mut self.ranks[its.from as usize];
        state.account(now);
        state.communicating -= 1;
        self.finished.push((its.from, its.operation));
        self.settle(now, records, commands)
    }

    /// With nothing left to happen: all ranks have left.
    ///
    /// # Errors
    /// The first rank that has not.
    pub fn check_nobody_waits(&self, time: Time) -> Result<(), FailedCheck> {
        let has_left = |iteration| self.iterations == Some(iteration);
        let mut ranks = (0_u32..).zip(&self.ranks);
        let Some((rank, state)) = ranks.find(|(_, state)| !has_left(state.iteration)) else {
            return Ok(());
        };
        let operations = self.workload().program(rank).operations();
        // Between iterations nothing is left of the last one.
        let operation = state.first_left().map_or("", |first| &operations[first as usize].name);
        Err(FailedCheck::WaitsForEver {
            job: self.job.name.clone(),
            rank,
            operation: operation.to_owned(),
            iteration: state.iteration,
            time,
        })
    }

    /// No collective was faster than the links of its ranks, scale-up and NICs together, as long as these keep their rates.
    ///
    /// # Errors
    /// The first one that was.
    pub fn check_speeds(&self) -> Result<(), FailedCheck> {
        self.too_fast.clone().map_or(Ok(()), Err)
    }

    fn workload(&self) -> &'a Workload {
        self.training.workload()
    }

    fn is_recorded(&self, rank: u32) -> bool {
        self.ranks[rank as usize].iteration < self.recorded
    }

    // The first operations of an iteration.
    fn begin(&mut self, rank: u32, now: Time, commands: &mut Vec<Command>) {
        let operations = self.workload().program(rank).operations();
        let recorded = self.is_recorded(rank);
        let state = &mut self.ranks[rank as usize];
        state.start = now;
        state.accounted = now;
        state.is_running = true;
        state.waiting.clear();
        state.waiting.extend(operations.iter().map(|each| each.after.len() as u32));
        state.unfinished = operations.len() as u32;
        (state.compute, state.exposed) = (Duration::ZERO, Duration::ZERO);
        state.started.clear();
        if recorded {
            state.started.resize(operations.len(), now);
        }
        for communicator in &mut state.communicators {
            communicator.done = 0;
        }
        self.tallies.begin(state.iteration, now, state.delayed);
        for (operation, each) in (0_u32..).zip(operations) {
            if each.after.is_empty() {
                self.make_ready(rank, operation, now, commands);
            }
        }
        self.touched.push(rank);
    }

    fn make_ready(&mut self, rank: u32, operation: u32, now: Time, commands: &mut Vec<Command>) {
        let kind = self.workload().program(rank).operations()[operation as usize].kind;
        let state = &mut self.ranks[rank as usize];
        match kind {
            OperationKind::Compute(_) => state.ready.push(Reverse(operation)),
            OperationKind::Collective { communicator, .. } => {
                self.join_next(rank, communicator as usize, now, commands);
            }
            OperationKind::Send(exchange) => {
                state.begin_communication(operation, now);
                let to = self.workload().peer(rank, &exchange);
                let (tag, is_delivered) = (exchange.tag, false);
                let message = Message { from: rank, operation, to, tag, is_delivered };
                let message = self.keep(message);
                commands.push(Command::Send { from: rank, to, bytes: exchange.bytes, message });
            }
            OperationKind::Recv(exchange) => {
                state.mark_start(operation, now);
                let from = self.workload().peer(rank, &exchange);
                let turn = self.workload().turn(rank, operation);
                let key = (Channel { from, to: rank, tag: exchange.tag }, turn);
                match self.mailboxes.remove(&key) {
                    Some(Mailbox::Arrived(messages)) => {
                        if messages > 1 {
                            self.mailboxes.insert(key, Mailbox::Arrived(messages - 1));
                        }
                        self.finished.push((rank, operation));
                    }
                    Some(Mailbox::Awaited(_)) => unreachable!("each receive has a turn of its own"),
                    None => {
                        self.mailboxes.insert(key, Mailbox::Awaited(operation));
                        self.ranks[rank as usize].begin_communication(operation, now);
                    }
                }
            }
        }
    }

    fn keep(&mut self, message: Message) -> u32 {
        match self.unused_messages.pop() {
            Some(place) => {
                self.messages[place as usize] = message;
                place
            }
            None => {
                self.messages.push(message);
                self.messages.len() as u32 - 1
            }
        }
    }

    // Joins the communicator's next collective if it is its turn and nothing holds it up.
    fn join_next(&mut self, rank: u32, place: usize, now: Time, commands: &mut Vec<Command>) {
        let program = self.workload().program(rank);
        let state = &mut self.ranks[rank as usize];
        let its = state.communicators[place];
        let Some(&operation) = program.collectives(place).get(its.done as usize) else { return };
        if its.is_busy || !state.is_running || state.waiting[operation as usize] > 0 {
            return;
        }
        let its = &mut state.communicators[place];
        let sequence = its.joined;
        its.joined += 1;
        its.is_busy = true;
        state.begin_communication(operation, now);
        let iteration = state.iteration;
        let OperationKind::Collective { kind, bytes, .. } =
            program.operations()[operation as usize].kind
        else {
            unreachable!("the list of collectives holds nothing else")
        };
        let rank_spec = &self.workload().ranks()[rank as usize];
        let (group, program) = (rank_spec.communicators[place], rank_spec.program);
        let groups = &mut self.groups[group as usize];
        if sequence == groups.first + groups.open.len() as u64 {
            groups.open.push_back(OpenCollective {
                start: now,
                iteration,
                program,
                operation,
                done: 0,
                joined_ps: 0,
                done_ps: 0,
            });
        }
        let open = &mut groups.open[(sequence - groups.first) as usize];
        open.joined_ps += u128::from(now.as_ps());
        let member = self.training.member(rank, place);
        let (collective, _) = self.training.collective(group, kind, bytes);
        commands.push(Command::Join { group, member, collective, sequence });
    }

    fn note_done(&mut self, group: u32, sequence: u64, now: Time, records: &mut Records) {
        let members = self.training.members(group).len() as u32;
        let its = &mut self.groups[group as usize];
        let number = (sequence - its.first) as usize;
        its.open[number].done += 1;
        its.open[number].done_ps += u128::from(now.as_ps());
        while its.open.front().is_some_and(|open| open.done == members) {
            let done = its.open.pop_front().expect("it was just seen");
            its.first += 1;
            if members > 1 {
                if self.too_fast.is_none() {
                    self.too_fast = checks::too_fast(
                        (self.job, self.training),
                        (group, self.limits_bps[group as usize]),
                        &done,
                        now,
                    );
                }
                records.collectives.push(CollectiveRow {
                    job: self.id,
                    iteration: done.iteration,
                    program: done.program,
                    operation: done.operation,
                    group,
                    start: done.start,
                    end: now,
                    mean: done.mean_time(),
                });
            }
        }
    }

    // Lets everything go on that waited for what is finished.
    fn settle(
        &mut self,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        loop {
            while let Some((rank, operation)) = self.finished.pop() {
                self.finish(rank, operation, now, records, commands);
            }
            let Some(rank) = self.touched.pop() else { return Ok(()) };
            if self.ranks[rank as usize].unfinished == 0 {
                self.end_iteration(rank, now, records, commands)?;
            } else {
                self.compute_next(rank, now, commands)?;
            }
        }
    }

    fn finish(
        &mut self,
        rank: u32,
        operation: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) {
        let state = &mut self.ranks[rank as usize];
        state.unfinished -= 1;
        state.waiting[operation as usize] = DONE;
        if let Some(&start) = state.started.get(operation as usize) {
            records.operations.push(OperationRow {
                job: self.id,
                iteration: state.iteration,
                rank,
                operation,
                start,
                end: now,
            });
        }
        for &then in self.workload().program(rank).then(operation) {
            let waiting = &mut self.ranks[rank as usize].waiting[then as usize];
            *waiting -= 1;
            if *waiting == 0 {
                self.make_ready(rank, then, now, commands);
            }
        }
        if self.touched.last() != Some(&rank) {
            self.touched.push(rank);
        }
    }

    // Where an iteration of a rank ends and the next one begins.
    fn end_iteration(
        &mut self,
        rank: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let state = &mut self.ranks[rank as usize];
        if !state.is_running {
            return Ok(());
        }
        state.account(now);
        state.is_running = false;
        records.ranks.push(RankRow {
            job: self.id,
            iteration: state.iteration,
            rank,
            start: state.start,
            end: now,
            compute: state.compute,
            exposed: state.exposed,
        });
        self.tallies.end(state.iteration, now, state.compute);
        state.iteration += 1;
        let (iteration, began) = (state.iteration, state.start);
        self.tallies.record_finished(self.id, self.ranks.len(), records);
        if self.iterations == Some(iteration) {
            self.gone += 1;
            return Ok(());
        }
        let start = match self.job.pad_to {
            Some(pad_to) => later(self.job, began, pad_to)?.max(now),
            None => now,
        };
        self.ranks[rank as usize].delayed = start.since(now);
        // Also where nothing is waited for: an iteration of no time must not go on for ever without the engine.
        commands.push(Command::Wake { rank, at: start });
        Ok(())
    }

    fn compute_next(
        &mut self,
        rank: u32,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let state = &mut self.ranks[rank as usize];
        if !state.is_running || state.computing.is_some() {
            return Ok(());
        }
        let Some(Reverse(operation)) = state.ready.pop() else { return Ok(()) };
        let kind = self.workload().program(rank).operations()[operation as usize].kind;
        let OperationKind::Compute(ideal) = kind else {
            unreachable!("only computes wait for the GPU")
        };
        let duration = self.duration(rank, ideal);
        let state = &mut self.ranks[rank as usize];
        state.mark_start(operation, now);
        if duration.is_zero() {
            self.finished.push((rank, operation));
            return Ok(());
        }
        state.account(now);
        state.computing = Some(operation);
        commands.push(Command::Wake { rank, at: later(self.job, now, duration)? });
        Ok(())
    }

    fn duration(&mut self, rank: u32, ideal: Duration) -> Duration {
        // A float decides the length of a compute, once; that length is whole from here on.
        let scaled = |duration: Duration, factor: f64| {
            Duration::from_ps((duration.as_ps() as f64 * factor).round() as u64)
        };
        let slowed = scaled(ideal, self.training.slowdown(rank));
        match self.jitter.get_mut(rank as usize) {
            None => slowed,
            Some(jitter) => spread(slowed, scaled(slowed, self.job.jitter), jitter),
        }
    }
}
