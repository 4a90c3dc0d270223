//! A training job on the network: collectives become messages on queue pairs between its ranks. Each message is sent once
//! the messages on which it depends have arrived.

use std::collections::VecDeque;
use std::ops::Range;

use hocket_des::{Bytes, Duration, Time};
use hocket_scenario::closed_loop::TooLong;
use hocket_scenario::execution::{Command, Execution};
use hocket_scenario::{Collective, JobId, Records, Scenario, Training};

use crate::engine::Engine;
use crate::parts::event::Task;
use crate::parts::messages::Poster;

/// One training job.
pub(crate) struct TrainingState<'a> {
    job: u32,
    /// The number of its first rank; ranks are numbered over all jobs.
    first_rank: u32,
    training: &'a Training,
    execution: Execution<'a>,
    /// New commands of the execution, and those in the queue to be executed.
    commands: Vec<Command>,
    given: VecDeque<Command>,
    queue_pairs: QueuePairs,
    runs: Vec<CollectiveRun<'a>>,
    unused_runs: Vec<u32>,
    /// By group: the sequence numbers and runs of collectives that have begun and not ended.
    open: Vec<VecDeque<(u64, u32)>>,
    /// By rank: when it finishes the reduction of what has arrived, if reductions take time.
    adding_until: Vec<Time>,
    /// The number of unacknowledged messages, since when it is above 0, and the total time before that it was.
    under_way: u64,
    busy_since: Time,
    busy: Duration,
}

/// The numbers of a training job's flows and ranks among those of all jobs.
pub(crate) struct Numbers {
    /// Its queue pairs, in the order of [`Training::pairs`].
    pub(crate) flows: Range<usize>,
    pub(crate) first_rank: u32,
}

/// The flow of each pair of ranks.
struct QueuePairs {
    /// Sorted.
    pairs: Vec<(u32, u32)>,
    /// By sending rank: where its pairs begin; then the number of pairs.
    starts: Vec<u32>,
    first_flow: u32,
}

/// The parts of a run that a training job acts on.
pub(crate) struct TrainingContext<'e, 'a> {
    pub(crate) engine: &'e mut Engine<'a>,
    pub(crate) parcels: &'e mut Parcels,
    pub(crate) records: &'e mut Records,
}

/// The messages in flight of all training jobs.
#[derive(Default)]
pub(crate) struct Parcels {
    all: Vec<Parcel>,
    unused: Vec<u32>,
}

/// A message and its purpose.
#[derive(Clone, Copy)]
pub(crate) struct Parcel {
    pub(crate) job: u32,
    purpose: Purpose,
    to: u32,
    bytes: u64,
    is_noticed: bool,
    is_acknowledged: bool,
}

#[derive(Clone, Copy)]
enum Purpose {
    /// A send of the workload.
    Message(u32),
    /// A part of a collective, between two of its members.
    Part { run: u32, chunk: u32, step: u32, from: u32, to: u32 },
}

/// A collective that at least one rank has reached.
struct CollectiveRun<'a> {
    group: u32,
    sequence: u64,
    collective: &'a Collective,
    members: Vec<Member>,
    /// By member, then chunk.
    chunks: Vec<Chunk>,
    done: u32,
}

#[derive(Clone, Copy, Default)]
struct Member {
    has_joined: bool,
    /// The number of chunks that it has begun, and of those that have completed all steps.
    begun: u32,
    done: u32,
    unacknowledged: u32,
}

/// A chunk of a collective at one of its members.
#[derive(Clone, Copy)]
struct MemberChunk {
    run: u32,
    chunk: u32,
    member: u32,
}

/// The progress of a member with a chunk.
#[derive(Clone, Default)]
struct Chunk {
    has_begun: bool,
    step: u32,
    /// The number of messages of this step that have not arrived.
    missing: u32,
    /// By later step: the number of its messages that have arrived early.
    early: Vec<(u32, u32)>,
}

impl<'a> TrainingState<'a> {
    /// The job before its first iteration.
    pub(crate) fn new(
        scenario: &'a Scenario,
        id: JobId,
        Numbers { flows, first_rank }: Numbers,
        recorded: u64,
        records: &mut Records,
    ) -> Result<Self, TooLong> {
        let mut commands = Vec::new();
        let execution = Execution::new(scenario, id, None, recorded, records, &mut commands)?;
        let training = execution.training();
        let ranks = training.workload().ranks().len();
        Ok(Self {
            job: id.code(),
            first_rank,
            training,
            execution,
            commands,
            given: VecDeque::new(),
            queue_pairs: QueuePairs::new(training, &flows),
            runs: Vec::new(),
            unused_runs: Vec::new(),
            open: vec![VecDeque::new(); training.workload().groups().len()],
            adding_until: vec![Time::ZERO; ranks],
            under_way: 0,
            busy_since: Time::ZERO,
            busy: Duration::ZERO,
        })
    }

    /// The state of its ranks.
    pub(crate) fn execution(&self) -> &Execution<'a> {
        &self.execution
    }

    /// The number of its ranks.
    pub(crate) fn ranks(&self) -> u32 {
        self.training.workload().ranks().len() as u32
    }

    /// Whether all ranks have left.
    pub(crate) fn is_gone(&self) -> bool {
        self.execution.is_gone()
    }

    /// The number of iterations that all ranks have finished.
    pub(crate) fn done(&self) -> u64 {
        self.execution.iterations_done()
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.under_way > 0
    }

    /// The total time that it has had messages in flight.
    pub(crate) fn busy_until(&self, now: Time) -> Duration {
        let open = if self.is_sending() { now.since(self.busy_since) } else { Duration::ZERO };
        self.busy + open
    }

    /// Continues a rank whose wait is over; ranks are numbered over all jobs.
    pub(crate) fn wake(
        &mut self,
        rank: u32,
        context: &mut TrainingContext<'_, '_>,
    ) -> Result<(), TooLong> {
        let (rank, now) = (rank - self.first_rank, context.engine.now());
        self.execution.wake(rank, now, &mut self.commands);
        self.settle(context)?;
        self.execute_commands(context)
    }

    /// Handles the arrival of a whole message: its receiver notices it after the endpoint delay and any reduction.
    pub(crate) fn delivered(
        &mut self,
        parcel: u32,
        context: &mut TrainingContext<'_, '_>,
    ) -> Result<(), TooLong> {
        let at = self.noticed_at(context.parcels.get(parcel), context.engine.now());
        if at > context.engine.now() {
            context.engine.schedule_task(at, Task::Notice(parcel));
            return Ok(());
        }
        self.notice(parcel, context)
    }

    /// Handles a message that its receiver has noticed, after any reduction.
    pub(crate) fn notice(
        &mut self,
        parcel: u32,
        context: &mut TrainingContext<'_, '_>,
    ) -> Result<(), TooLong> {
        let known = context.parcels.note(parcel, |parcel| parcel.is_noticed = true);
        match known.purpose {
            Purpose::Message(message) => {
                let now = context.engine.now();
                self.execution.delivered(message, now);
                self.settle(context)?;
                if known.is_acknowledged {
                    self.execution.acknowledged(message, now);
                    self.settle(context)?;
                }
            }
            Purpose::Part { run, chunk, step, to, .. } => {
                self.arrive(MemberChunk { run, chunk, member: to }, step, context);
                self.finish_if_done(run, to, context)?;
            }
        }
        self.execute_commands(context)
    }

    /// Handles the acknowledgement of a message at its sender.
    pub(crate) fn acknowledged(
        &mut self,
        parcel: u32,
        context: &mut TrainingContext<'_, '_>,
    ) -> Result<(), TooLong> {
        let now = context.engine.now();
        self.under_way -= 1;
        if self.under_way == 0 {
            self.busy += now.since(self.busy_since);
        }
        let known = context.parcels.note(parcel, |parcel| parcel.is_acknowledged = true);
        match known.purpose {
            Purpose::Message(message) if known.is_noticed => {
                self.execution.acknowledged(message, now);
                self.settle(context)?;
            }
            // The execution learns of the acknowledgement only after the receiver has noticed the message.
            Purpose::Message(_) => {}
            Purpose::Part { run, from, .. } => {
                self.runs[run as usize].members[from as usize].unacknowledged -= 1;
                self.finish_if_done(run, from, context)?;
            }
        }
        self.execute_commands(context)
    }

    /// Executes the commands of the ranks, including those that result from executing others.
    pub(crate) fn execute_commands(
        &mut self,
        context: &mut TrainingContext<'_, '_>,
    ) -> Result<(), TooLong> {
        self.given.extend(self.commands.drain(..));
        while let Some(command) = self.given.pop_front() {
            match command {
                Command::Wake { rank, at } => {
                    context.engine.schedule_task(at, Task::Rank(self.first_rank + rank));
                }
                Command::Join { group, member, collective, sequence } => {
                    let run = self.run_of(group, collective, sequence);
                    self.runs[run as usize].members[member as usize].has_joined = true;
                    self.begin_chunks(run, member, context);
                    self.finish_if_done(run, member, context)?;
                }
                Command::Send { from, to, bytes, message } => {
                    self.post([from, to], bytes.get(), Purpose::Message(message), context);
                }
            }
            self.given.extend(self.commands.drain(..));
        }
        Ok(())
    }

    fn noticed_at(&mut self, parcel: Parcel, now: Time) -> Time {
        let system = &self.training.spec().system;
        let at = now + system.endpoint_delay;
        let (Purpose::Part { run, step, .. }, Some(rate)) = (parcel.purpose, system.reduction)
        else {
            return at;
        };
        if !self.runs[run as usize].collective.reduces(step) {
            return at;
        }
        // A rank reduces one message after another.
        let adding_until = &mut self.adding_until[parcel.to as usize];
        *adding_until = at.max(*adding_until) + rate.transmission_time(Bytes::new(parcel.bytes));
        *adding_until
    }

    fn run_of(&mut self, group: u32, collective: u32, sequence: u64) -> u32 {
        // Members of a group can be a few collectives apart: few are open, and a search of all is short.
        let open = &self.open[group as usize];
        if let Some(&(_, run)) = open.iter().find(|(known, _)| *known == sequence) {
            return run;
        }
        let collective = &self.training.collectives()[collective as usize];
        let (ranks, chunks) = (collective.ranks() as usize, collective.chunks() as usize);
        let run_state = CollectiveRun {
            group,
            sequence,
            collective,
            members: vec![Member::default(); ranks],
            chunks: vec![Chunk::default(); ranks * chunks],
            done: 0,
        };
        let run = match self.unused_runs.pop() {
            Some(run) => {
                self.runs[run as usize] = run_state;
                run
            }
            None => {
                self.runs.push(run_state);
                self.runs.len() as u32 - 1
            }
        };
        self.open[group as usize].push_back((sequence, run));
        run
    }

    // Begins as many chunks as the limit of chunks in flight allows.
    fn begin_chunks(&mut self, run: u32, member: u32, context: &mut TrainingContext<'_, '_>) {
        let in_flight = self.training.spec().system.in_flight;
        loop {
            let run_state = &mut self.runs[run as usize];
            let state = &mut run_state.members[member as usize];
            let is_full = state.begun - state.done == in_flight;
            if state.begun == run_state.collective.chunks() || is_full {
                return;
            }
            let chunk = state.begun;
            state.begun += 1;
            run_state.chunk(member, chunk).has_begun = true;
            self.take_steps(MemberChunk { run, chunk, member }, context);
        }
    }

    // Counts a message of a step that has arrived, and continues if the step is complete.
    fn arrive(
        &mut self,
        MemberChunk { run, chunk, member }: MemberChunk,
        step: u32,
        context: &mut TrainingContext<'_, '_>,
    ) {
        let state = self.runs[run as usize].chunk(member, chunk);
        if !state.has_begun || step != state.step {
            match state.early.iter_mut().find(|(early, _)| *early == step) {
                Some((_, messages)) => *messages += 1,
                None => state.early.push((step, 1)),
            }
            return;
        }
        state.missing -= 1;
        if state.missing == 0 {
            state.step += 1;
            self.take_steps(MemberChunk { run, chunk, member }, context);
            self.begin_chunks(run, member, context);
        }
    }

    // Sends the messages of the current step, and continues with the next step as long as no message is missing.
    fn take_steps(
        &mut self,
        MemberChunk { run, chunk, member }: MemberChunk,
        context: &mut TrainingContext<'_, '_>,
    ) {
        let run_state = &mut self.runs[run as usize];
        let (collective, group) = (run_state.collective, run_state.group);
        let mut step = run_state.chunk(member, chunk).step;
        loop {
            step = collective.active_from(step, member);
            if step == collective.steps() {
                self.runs[run as usize].members[member as usize].done += 1;
                return;
            }
            for send in collective.sends(step, member) {
                let ends =
                    [member, send.to].map(|each| self.training.members(group)[each as usize]);
                // A queue pair never sends an empty message, so each has at least one byte.
                let bytes = collective.message_bytes(chunk, step, member, &send).get().max(1);
                let purpose = Purpose::Part { run, chunk, step, from: member, to: send.to };
                self.runs[run as usize].members[member as usize].unacknowledged += 1;
                self.post(ends, bytes, purpose, context);
            }
            let state = self.runs[run as usize].chunk(member, chunk);
            let place = state.early.iter().position(|(early, _)| *early == step);
            let early = place.map_or(0, |place| state.early.swap_remove(place).1);
            (state.step, state.missing) = (step, collective.due(step, member) - early);
            if state.missing > 0 {
                return;
            }
            step += 1;
        }
    }

    // Reports to a member that its part of a collective is done, if it is; frees the run after the last member.
    fn finish_if_done(
        &mut self,
        run: u32,
        member: u32,
        context: &mut TrainingContext<'_, '_>,
    ) -> Result<(), TooLong> {
        let run_state = &mut self.runs[run as usize];
        let state = &mut run_state.members[member as usize];
        let has_all = state.done == run_state.collective.chunks();
        if !state.has_joined || state.unacknowledged > 0 || !has_all {
            return Ok(());
        }
        // Each member is notified once.
        state.has_joined = false;
        run_state.done += 1;
        let (group, sequence) = (run_state.group, run_state.sequence);
        if run_state.done == run_state.collective.ranks() {
            self.open[group as usize].retain(|(known, _)| *known != sequence);
            self.unused_runs.push(run);
        }
        let (now, commands) = (context.engine.now(), &mut self.commands);
        self.execution.collective_done(group, member, now, context.records, commands);
        self.settle(context)
    }

    fn settle(&mut self, context: &mut TrainingContext<'_, '_>) -> Result<(), TooLong> {
        let now = context.engine.now();
        self.execution.settle(now, context.records, &mut self.commands)
    }

    fn post(
        &mut self,
        [from, to]: [u32; 2],
        bytes: u64,
        purpose: Purpose,
        context: &mut TrainingContext<'_, '_>,
    ) {
        let flow = self.queue_pairs.flow(from, to);
        let (job, is_noticed, is_acknowledged) = (self.job, false, false);
        let parcel = Parcel { job, purpose, to, bytes, is_noticed, is_acknowledged };
        let parcel = context.parcels.add(parcel);
        if self.under_way == 0 {
            self.busy_since = context.engine.now();
        }
        self.under_way += 1;
        // For adaptive controls, which depend on the progress of a phase: the messages of a queue pair form one phase until
        // all of them are acknowledged.
        context.engine.network.hosts.extend_phase(flow, bytes);
        context.engine.network.post(flow, bytes, Poster::Parcel(parcel));
    }
}

impl CollectiveRun<'_> {
    fn chunk(&mut self, member: u32, chunk: u32) -> &mut Chunk {
        &mut self.chunks[(member * self.collective.chunks() + chunk) as usize]
    }
}

impl Parcels {
    pub(crate) fn get(&self, parcel: u32) -> Parcel {
        self.all[parcel as usize]
    }

    fn add(&mut self, parcel: Parcel) -> u32 {
        match self.unused.pop() {
            Some(place) => {
                self.all[place as usize] = parcel;
                place
            }
            None => {
                self.all.push(parcel);
                self.all.len() as u32 - 1
            }
        }
    }

    // Records an event of a parcel and returns its new state; frees its place after its last event.
    fn note(&mut self, parcel: u32, happened: impl Fn(&mut Parcel)) -> Parcel {
        let state = &mut self.all[parcel as usize];
        happened(state);
        let state = *state;
        if state.is_noticed && state.is_acknowledged {
            self.unused.push(parcel);
        }
        state
    }
}

impl QueuePairs {
    fn new(training: &Training, flows: &Range<usize>) -> Self {
        let pairs = training.pairs();
        assert_eq!(pairs.len(), flows.len(), "each pair of ranks has its flow");
        let ranks = training.workload().ranks().len() as u32;
        let start = |rank| pairs.partition_point(|&(from, _)| from < rank) as u32;
        let starts = (0..=ranks).map(start).collect();
        Self { pairs, starts, first_flow: flows.start as u32 }
    }

    fn flow(&self, from: u32, to: u32) -> u32 {
        let [start, end] = [from, from + 1].map(|rank| self.starts[rank as usize] as usize);
        let of_rank = &self.pairs[start..end];
        let place = of_rank.binary_search(&(from, to)).expect("only pairs of ranks send");
        self.first_flow + (start + place) as u32
    }
}
