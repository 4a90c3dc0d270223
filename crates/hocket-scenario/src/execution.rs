//! The state machine of a training job's ranks: operations start when the operations that they wait for are done, and a
//! rank's iteration starts when its last one has ended. It has no clock and receives `now`; how long a message or a
//! collective takes is left to the engine.

mod checks;
mod groups;
mod iterations;
mod rank;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Stream, Time, stream};

use crate::closed_loop::{TooLong, later, spread};
use crate::training::Training;
use crate::training::folded::Folded;
use crate::workload::{Channel, OperationKind, Workload};
use crate::{CollectiveRow, Job, JobId, OperationRow, RankRow, Records, Scenario};

use groups::{GroupState, OpenCollective};
use iterations::Tallies;
use rank::{DONE, RankState};

pub use checks::FailedCheck;

/// What the engine must do for a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Call [`Execution::wake`] for the rank at this time. A rank has one such wait at a time.
    Wake {
        /// The rank.
        rank: u32,
        /// The end of its wait.
        at: Time,
    },
    /// A rank takes part in the next collective of a group from now on: call [`Execution::collective_done`] when its part is done.
    Join {
        /// The group.
        group: u32,
        /// The rank's position among the [`members`](Training::members).
        member: u32,
        /// The number of the collective among [`Training::collectives`].
        collective: u32,
        /// The number of collectives that the group began before this one.
        sequence: u64,
    },
    /// Send a message to another rank: call [`Execution::delivered`] when all of it has arrived, and
    /// [`Execution::acknowledged`] when the sender has been notified.
    Send {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// The size.
        bytes: Bytes,
        /// The number by which the message is reported. It is reused after the acknowledgement.
        message: u32,
    },
}

/// The ranks of one job in their iterations. Both engines drive it: each call reports an event, and adds to `commands` what the
/// engine must do next. Rows of finished operations and iterations are added to [`Records`].
#[derive(Clone, Debug)]
pub struct Execution<'a> {
    job: &'a Job,
    training: &'a Training,
    /// If each rank of `training` stands for several of the job.
    folded: Option<&'a Folded>,
    id: JobId,
    iterations: Option<u64>,
    /// The number of iterations whose operations are recorded.
    recorded: u64,
    ranks: Vec<RankState>,
    /// By rank; empty if computes do not vary.
    jitter: Vec<Stream>,
    groups: Vec<GroupState>,
    /// By channel and turn.
    mailboxes: BTreeMap<(Channel, u32), Mailbox>,
    /// By number. Numbers are reused, so that a long run does not keep all its messages.
    messages: Vec<Message>,
    unused_messages: Vec<u32>,
    tallies: Tallies,
    gone: usize,
    /// By group: the total rate of the links of its best connected rank.
    limits_bps: Vec<u64>,
    /// The first collective that was faster than this limit.
    too_fast: Option<FailedCheck>,
    /// Finished operations (rank, operation) whose followers have not been started yet.
    finished: Vec<(u32, u32)>,
    /// Ranks that may have a compute to start or an iteration to end.
    touched: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Mailbox {
    /// The number of messages that have arrived before their receive, each of another iteration: a sender may run ahead.
    Arrived(u32),
    /// The receive operation that waits.
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
    /// The ranks of a training job before their first iteration, whose start is added to `commands`. Draws the error of the
    /// job's time-shift and records the shift. Operations of the first `recorded` iterations will be recorded. With `folded`,
    /// ranks and groups in commands and calls are the classes of `folded`; rows are those of all ranks and groups.
    ///
    /// # Errors
    /// If the first iteration would start after the end of time.
    ///
    /// # Panics
    /// If the job is not a training job, or if it is folded and its computes vary.
    pub fn new(
        scenario: &'a Scenario,
        id: JobId,
        folded: Option<&'a Folded>,
        recorded: u64,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<Self, TooLong> {
        let index = u64::from(id.code());
        let job = &scenario.jobs()[id.index()];
        let whole = job.training().expect("only training jobs have operations");
        let training = folded.map_or(whole, Folded::training);
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
        assert!(folded.is_none() || job.jitter == 0.0, "ranks whose computes vary are not alike");
        let jittery = if job.jitter == 0.0 { 0 } else { ranks.len() as u64 };
        // Jobs and ranks are fewer than 2^32: no two ranks of a run have the same stream.
        let jitter = (0..jittery).map(|rank| stream(scenario.seed(), "jitter", index << 32 | rank));
        Ok(Self {
            job,
            training,
            folded,
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

    /// A wait of [`Command::Wake`] is over: a compute is done, or an iteration starts. What waited for it starts in
    /// [`settle`](Self::settle).
    pub fn wake(&mut self, rank: u32, now: Time, commands: &mut Vec<Command>) {
        let state = &mut self.ranks[rank as usize];
        match state.computing {
            Some(operation) => {
                state.account(now);
                state.computing = None;
                self.finished.push((rank, operation));
            }
            None => self.begin(rank, now, commands),
        }
    }

    /// A member has done its part of the collective that it joined last in this group. What waited for it starts in
    /// [`settle`](Self::settle).
    pub fn collective_done(
        &mut self,
        group: u32,
        member: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) {
        let rank = self.training.members(group)[member as usize];
        let place = self.workload().place(rank, group);
        let program = self.workload().program(rank);
        let state = &mut self.ranks[rank as usize];
        state.account(now);
        state.communicating -= 1;
        let communicator = &mut state.communicators[place];
        let operation = program.collectives(place)[communicator.done as usize];
        communicator.done += 1;
        communicator.is_busy = false;
        let sequence = communicator.joined - 1;
        self.note_done((group, member), sequence, now, records);
        self.finished.push((rank, operation));
        self.join_next(rank, place, now, commands);
    }

    /// All of a message has arrived. What waited for it starts in [`settle`](Self::settle).
    pub fn delivered(&mut self, message: u32, now: Time) {
        let state = &mut self.messages[message as usize];
        assert!(!state.is_delivered, "a message arrives once");
        state.is_delivered = true;
        let Message { from, operation, to, tag, .. } = *state;
        let turn = self.workload().turn(from, operation);
        let key = (Channel { from, to, tag }, turn);
        match self.mailboxes.remove(&key) {
            Some(Mailbox::Awaited(receiver)) => {
                let state = &mut self.ranks[to as usize];
                state.account(now);
                state.communicating -= 1;
                self.finished.push((to, receiver));
            }
            Some(Mailbox::Arrived(before)) => {
                self.mailboxes.insert(key, Mailbox::Arrived(before + 1));
            }
            None => {
                self.mailboxes.insert(key, Mailbox::Arrived(1));
            }
        }
    }

    /// The sender of a message has been notified of its arrival. What waited for it starts in [`settle`](Self::settle).
    pub fn acknowledged(&mut self, message: u32, now: Time) {
        let Message { from, operation, is_delivered, .. } = self.messages[message as usize];
        assert!(is_delivered, "a message arrives before it is acknowledged");
        self.unused_messages.push(message);
        let state = &mut self.ranks[from as usize];
        state.account(now);
        state.communicating -= 1;
        self.finished.push((from, operation));
    }

    /// Starts everything that waited for what was reported since the last call. A compute starts only when all of that has
    /// been handled, so that it is the first in the program among all that have become ready. An engine that reports all
    /// events of one time before it calls this makes their order irrelevant.
    ///
    /// # Errors
    /// If a wait would end after the end of time.
    pub fn settle(
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

    /// Checks that all ranks have left, once the engine has no events left.
    ///
    /// # Errors
    /// Names the first rank that has not, and the operation in which it waits.
    pub fn check_nobody_waits(&self, time: Time) -> Result<(), FailedCheck> {
        let has_left = |iteration| self.iterations == Some(iteration);
        let mut ranks = (0_u32..).zip(&self.ranks);
        let Some((rank, state)) = ranks.find(|(_, state)| !has_left(state.iteration)) else {
            return Ok(());
        };
        let operations = self.workload().program(rank).operations();
        // Between two iterations no operation is unfinished.
        let operation = state.first_left().map_or("", |first| &operations[first as usize].name);
        Err(FailedCheck::WaitsForEver {
            job: self.job.name.clone(),
            rank: alike(self.folded, &rank)[0],
            operation: operation.to_owned(),
            iteration: state.iteration,
            time,
        })
    }

    /// Checks that no collective was faster than the links of its ranks, scale-up and NICs together. Valid only if links kept
    /// their rates during the run.
    ///
    /// # Errors
    /// Names the first collective that was.
    pub fn check_speeds(&self) -> Result<(), FailedCheck> {
        self.too_fast.clone().map_or(Ok(()), Err)
    }

    fn workload(&self) -> &'a Workload {
        self.training.workload()
    }

    fn is_recorded(&self, rank: u32) -> bool {
        self.ranks[rank as usize].iteration < self.recorded
    }

    // Begins an iteration with the operations that wait for nothing.
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

    // Joins the communicator's next collective if the rank is in no other one there and it waits for no operation.
    // Collectives of a communicator run in the order of the program, as in NCCL: one that is ready early waits.
    fn join_next(&mut self, rank: u32, place: usize, now: Time, commands: &mut Vec<Command>) {
        let program = self.workload().program(rank);
        let state = &mut self.ranks[rank as usize];
        let communicator = &mut state.communicators[place];
        let next = program.collectives(place).get(communicator.done as usize);
        let Some(&operation) = next else { return };
        if communicator.is_busy || !state.is_running || state.waiting[operation as usize] > 0 {
            return;
        }
        let sequence = communicator.joined;
        communicator.joined += 1;
        communicator.is_busy = true;
        state.begin_communication(operation, now);
        let iteration = state.iteration;
        let OperationKind::Collective { kind, bytes, .. } =
            program.operations()[operation as usize].kind
        else {
            unreachable!("the list of collectives contains nothing else")
        };
        let rank_spec = &self.workload().ranks()[rank as usize];
        let (group, program) = (rank_spec.communicators[place], rank_spec.program);
        let group_state = &mut self.groups[group as usize];
        // The first rank to join opens the collective; ranks that run ahead may have opened several.
        if sequence == group_state.first + group_state.open.len() as u64 {
            group_state.open.push_back(OpenCollective {
                start: now,
                iteration,
                program,
                operation,
                done: 0,
                joined_ps: 0,
                done_ps: 0,
            });
        }
        let member = self.training.member(rank, place);
        let weight = self.folded.map_or(1, |folded| folded.weight(group, member));
        let open = &mut group_state.open[(sequence - group_state.first) as usize];
        open.joined_ps += u128::from(now.as_ps()) * u128::from(weight);
        // Of ranks that join first at the same time, the row names the lowest program: their order must not matter.
        if now == open.start && program < open.program {
            (open.program, open.operation) = (program, operation);
        }
        let (collective, _) = self.training.collective(group, kind, bytes);
        commands.push(Command::Join { group, member, collective, sequence });
    }

    fn note_done(
        &mut self,
        (group, member): (u32, u32),
        sequence: u64,
        now: Time,
        records: &mut Records,
    ) {
        let members = self.workload().groups()[group as usize].len() as u32;
        let weight = self.folded.map_or(1, |folded| folded.weight(group, member));
        let group_state = &mut self.groups[group as usize];
        let number = (sequence - group_state.first) as usize;
        group_state.open[number].done += weight;
        group_state.open[number].done_ps += u128::from(now.as_ps()) * u128::from(weight);
        while group_state.open.front().is_some_and(|open| open.done == members) {
            let done = group_state.open.pop_front().expect("it was just seen");
            group_state.first += 1;
            // A group of one rank moves nothing: it has no busbw, and no row.
            if members > 1 {
                if self.too_fast.is_none() {
                    self.too_fast = checks::too_fast(
                        (self.job, self.training),
                        (group, self.limits_bps[group as usize]),
                        &done,
                        now,
                    );
                }
                let row = CollectiveRow {
                    job: self.id,
                    iteration: done.iteration,
                    program: done.program,
                    operation: done.operation,
                    group,
                    start: done.start,
                    end: now,
                    mean: done.mean_time(),
                };
                let groups =
                    self.folded.map_or(std::slice::from_ref(&group), |folded| folded.groups(group));
                records
                    .collectives
                    .extend(groups.iter().map(|&group| CollectiveRow { group, ..row }));
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
            let (job, iteration) = (self.id, state.iteration);
            let row = |&rank| OperationRow { job, iteration, rank, operation, start, end: now };
            records.operations.extend(alike(self.folded, &rank).iter().map(row));
        }
        for &follower in self.workload().program(rank).followers(operation) {
            let waiting = &mut self.ranks[rank as usize].waiting[follower as usize];
            *waiting -= 1;
            if *waiting == 0 {
                self.make_ready(rank, follower, now, commands);
            }
        }
        // Compares only the last entry: a duplicate is harmless, as nothing is left to do for it.
        if self.touched.last() != Some(&rank) {
            self.touched.push(rank);
        }
    }

    // Ends an iteration of a rank and schedules the next one.
    fn end_iteration(
        &mut self,
        rank: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let state = &mut self.ranks[rank as usize];
        // The rank may have been noted twice.
        if !state.is_running {
            return Ok(());
        }
        state.account(now);
        state.is_running = false;
        let row = RankRow {
            job: self.id,
            iteration: state.iteration,
            rank,
            start: state.start,
            end: now,
            compute: state.compute,
            exposed: state.exposed,
        };
        let alike = alike(self.folded, &rank);
        records.ranks.extend(alike.iter().map(|&rank| RankRow { rank, ..row }));
        self.tallies.end(state.iteration, now, state.compute, alike.len() as u32);
        state.iteration += 1;
        let (iteration, began) = (state.iteration, state.start);
        let ranks = self.folded.map_or(self.ranks.len(), Folded::all_ranks);
        self.tallies.record_finished(self.id, ranks, records);
        if self.iterations == Some(iteration) {
            self.gone += 1;
            return Ok(());
        }
        let start = match self.job.pad_to {
            Some(pad_to) => later(self.job, began, pad_to)?.max(now),
            None => now,
        };
        self.ranks[rank as usize].delayed = start.since(now);
        // Even without a wait: iterations of no length must return to the engine, or this loop might never end.
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
        // Finished in the present call, which saves an event.
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
        // The only floating point: a compute's length is whole picoseconds from here on.
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

// The ranks for which a rank stands: itself, or those of its class.
fn alike<'a>(folded: Option<&'a Folded>, rank: &'a u32) -> &'a [u32] {
    folded.map_or(std::slice::from_ref(rank), |folded| folded.ranks(*rank))
}
