//! Training jobs on the network: a step of a collective is one stream, which starts when all ranks of the group have joined.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_scenario::execution::{Command, Execution};
use hocket_scenario::{Collective, Folded, JobId, LinkRow, MAX_RATE, Records, Scenario, Training};

use crate::error::FlowError;
use crate::network::{Network, Owner, Timer};
use crate::plan::{Planner, StepPlan, UNIT};
use crate::sender::PICOBITS_PER_BYTE;

/// One training job.
pub(crate) struct TrainingRun<'a> {
    /// Its index among the training jobs.
    number: usize,
    id: JobId,
    training: &'a Training,
    execution: Execution<'a>,
    /// New commands of the execution, and those in the queue to be executed.
    commands: Vec<Command>,
    queued: VecDeque<Command>,
    /// Plans depend on nothing that changes during a run, and serve all its iterations.
    plans: Plans,
    /// By plan: the number of its streams that have ended.
    ended: Vec<u64>,
    runs: Vec<CollectiveRun>,
    unused_runs: Vec<usize>,
    /// By group and sequence number: the open collectives.
    open: BTreeMap<(u32, u64), usize>,
    messages: BTreeMap<u32, MessageRun>,
    /// The number of streams that send, since when there have been any, and how long there were any before.
    streams: u64,
    busy_since: Time,
    busy: Duration,
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PlanKey {
    /// A step of a collective in a group.
    Step { group: u32, collective: u32, step: u32 },
    /// A message.
    Message { from: u32, to: u32, bytes: u64 },
}

/// The plans of a job, each with a number.
#[derive(Default)]
pub(crate) struct Plans {
    all: Vec<StepPlan>,
    /// A hash map is safe here: it is never iterated.
    numbers: HashMap<PlanKey, usize>,
}

impl Plans {
    /// Adds the plan for `key` and returns its number.
    pub(crate) fn add(&mut self, key: PlanKey, plan: StepPlan) -> usize {
        self.all.push(plan);
        self.numbers.insert(key, self.all.len() - 1);
        self.all.len() - 1
    }

    fn number(&self, key: PlanKey) -> Option<usize> {
        self.numbers.get(&key).copied()
    }
}

/// A collective that some rank has joined.
struct CollectiveRun {
    group: u32,
    collective: u32,
    sequence: u64,
    joined: u32,
    chunks: Vec<Chunk>,
    chunks_done: u32,
    /// By lane: the chunks that are ready for a step there. Only the first one sends, because messages of one lane follow each
    /// other on the same queue pairs. Repeated steps have no queue: all chunks in flight send in turns.
    queues: BTreeMap<(u32, u32), VecDeque<u32>>,
    /// When all messages that have arrived are acknowledged.
    acknowledged: Time,
}

struct Chunk {
    step: u32,
    /// When its present step started.
    started: Time,
    /// If it sends: its stream and its plan.
    sending: Option<(usize, usize)>,
}

#[derive(Clone, Copy)]
struct MessageRun {
    stream: usize,
    plan: usize,
}

impl CollectiveRun {
    /// The present step of a chunk.
    fn step_key(&self, chunk: u32) -> PlanKey {
        let step = self.chunks[chunk as usize].step;
        PlanKey::Step { group: self.group, collective: self.collective, step }
    }
}

impl<'a> TrainingRun<'a> {
    /// `plans` are those that are known already; others are made when they are needed. With `folded`, they are those of its
    /// representatives.
    pub(crate) fn new(
        scenario: &'a Scenario,
        (id, number): (JobId, usize),
        (folded, plans): (Option<&'a Folded>, Plans),
        recorded: u64,
        records: &mut Records,
    ) -> Result<Self, FlowError> {
        let mut commands = Vec::new();
        let execution = Execution::new(scenario, id, folded, recorded, records, &mut commands)?;
        Ok(Self {
            number,
            id,
            training: execution.training(),
            execution,
            queued: commands.drain(..).collect(),
            commands,
            ended: vec![0; plans.all.len()],
            plans,
            runs: Vec::new(),
            unused_runs: Vec::new(),
            open: BTreeMap::new(),
            messages: BTreeMap::new(),
            streams: 0,
            busy_since: Time::ZERO,
            busy: Duration::ZERO,
        })
    }

    /// The state of its ranks.
    pub(crate) fn execution(&self) -> &Execution<'a> {
        &self.execution
    }

    /// Starts what waited for the events of this time, and executes the commands of the ranks, including those that result
    /// from executing others.
    pub(crate) fn execute_commands(
        &mut self,
        network: &mut Network,
        planner: &mut Planner<'_>,
        records: &mut Records,
    ) -> Result<(), FlowError> {
        loop {
            self.execution.settle(network.now, records, &mut self.commands)?;
            self.queued.extend(self.commands.drain(..));
            if self.queued.is_empty() {
                return Ok(());
            }
            self.execute_queued(network, planner, records)?;
        }
    }

    fn execute_queued(
        &mut self,
        network: &mut Network,
        planner: &mut Planner<'_>,
        records: &mut Records,
    ) -> Result<(), FlowError> {
        while let Some(command) = self.queued.pop_front() {
            match command {
                Command::Wake { rank, at } => {
                    let training = self.number;
                    network.timers.schedule(at, Timer::Rank { training, rank });
                }
                Command::Join { group, collective, sequence, .. } => {
                    self.join(group, collective, sequence, network, planner, records)?;
                }
                Command::Send { from, to, bytes, message } => {
                    self.send([from, to], bytes, message, network, planner)?;
                }
            }
        }
        Ok(())
    }

    /// A wait of a rank is over.
    pub(crate) fn wake(&mut self, rank: u32, now: Time) {
        self.execution.wake(rank, now, &mut self.commands);
    }

    /// All of a step is sent. It has arrived when the receivers have the last byte and have added it.
    pub(crate) fn sent_step(&mut self, run: usize, chunk: u32, network: &mut Network) {
        let state = &mut self.runs[run].chunks[chunk as usize];
        let (stream, number) = state.sending.take().expect("its stream has ended");
        let (step, started) = (state.step, state.started);
        self.count(number, network.now);
        network.remove(stream);
        let plan = &self.plans.all[number];
        // Receivers add messages while others still arrive: only the slower of the two counts.
        let added = (started + plan.reduction).max(network.now);
        let training = self.number;
        let at = added + plan.latency;
        network.timers.schedule(at, Timer::Step { training, run, chunk });
        let (acknowledged, is_repeated) = (at + plan.acknowledgement, plan.steps > 1);
        let lane = self.collective(run).lane(step);
        let collective = &mut self.runs[run];
        collective.acknowledged = collective.acknowledged.max(acknowledged);
        // Repeated steps have no queue.
        if is_repeated {
            return;
        }
        // The queue pairs are free as soon as all is sent, before it has arrived.
        let queue = collective.queues.get_mut(&lane).expect("the chunk was in it");
        queue.pop_front();
        if let Some(&next) = queue.front() {
            self.start_step(run, next, network);
        }
    }

    /// All messages of a chunk's step have arrived: it enters its next step or is done.
    pub(crate) fn arrived_step(
        &mut self,
        run: usize,
        chunk: u32,
        network: &mut Network,
        planner: &mut Planner<'_>,
    ) -> Result<(), FlowError> {
        let collective = &mut self.runs[run];
        let number = self.plans.number(collective.step_key(chunk)).expect("it was sent");
        let state = &mut collective.chunks[chunk as usize];
        state.step += self.plans.all[number].steps;
        if state.step < self.collective(run).steps() {
            return self.enter_step(run, chunk, network, planner);
        }
        let in_flight = self.training.spec().system.in_flight;
        let collective = &mut self.runs[run];
        collective.chunks_done += 1;
        // Chunks start in order, so that as many have started as are done or in flight.
        let next = collective.chunks_done + in_flight - 1;
        if (next as usize) < collective.chunks.len() {
            return self.enter_step(run, next, network, planner);
        }
        if collective.chunks_done as usize == collective.chunks.len() {
            let (at, training) = (collective.acknowledged, self.number);
            network.timers.schedule(at, Timer::Collective { training, run });
        }
        Ok(())
    }

    /// All messages of a collective are acknowledged: it is done for all ranks.
    pub(crate) fn finished(&mut self, run: usize, now: Time, records: &mut Records) {
        let CollectiveRun { group, sequence, .. } = self.runs[run];
        self.open.remove(&(group, sequence));
        self.unused_runs.push(run);
        for member in 0..self.training.members(group).len() as u32 {
            let commands = &mut self.commands;
            self.execution.collective_done(group, member, now, records, commands);
        }
    }

    /// All of a message is sent.
    pub(crate) fn sent_message(&mut self, message: u32, network: &mut Network) {
        let MessageRun { stream, plan } = self.messages[&message];
        network.remove(stream);
        let (at, training) = (network.now + self.plans.all[plan].latency, self.number);
        network.timers.schedule(at, Timer::Delivery { training, message });
        self.count(plan, network.now);
    }

    /// A message has arrived.
    pub(crate) fn delivered(&mut self, message: u32, network: &mut Network) {
        let plan = &self.plans.all[self.messages[&message].plan];
        let (at, training) = (network.now + plan.acknowledgement, self.number);
        network.timers.schedule(at, Timer::Acknowledgement { training, message });
        self.execution.delivered(message, network.now);
    }

    /// A message is acknowledged.
    pub(crate) fn acknowledged(&mut self, message: u32, now: Time) {
        self.messages.remove(&message);
        self.execution.acknowledged(message, now);
    }

    /// The job's traffic on each link up to now.
    pub(crate) fn link_rows(&self, network: &Network) -> Vec<LinkRow> {
        // By link: the data sent, in bytes.
        let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
        for (plan, ended) in self.plans.all.iter().zip(&self.ended).filter(|(_, ended)| **ended > 0)
        {
            for &(link, messages) in &*plan.messages {
                *bytes.entry(link).or_default() += ended * plan.bytes * messages;
            }
        }
        let steps = self.open.values().flat_map(|&run| &self.runs[run].chunks);
        let sending = steps.filter_map(|chunk| chunk.sending);
        let messages = self.messages.values().map(|each| (each.stream, each.plan));
        for (stream, plan) in sending.chain(messages) {
            let (sender, plan) = (&network.streams[stream].sender, &self.plans.all[plan]);
            // Streams that have ended are counted already.
            if !sender.active {
                continue;
            }
            let sent = sender.sent() * u128::from(UNIT) / PICOBITS_PER_BYTE;
            for &(link, messages) in &*plan.messages {
                let each = u64::try_from(sent).unwrap_or(u64::MAX) / u64::from(plan.steps);
                *bytes.entry(link).or_default() += each * messages;
            }
        }
        let open =
            if self.streams > 0 { network.now.since(self.busy_since) } else { Duration::ZERO };
        let busy = self.busy + open;
        let elapsed_s = network.now.as_secs_f64();
        let row = |(place, bytes): (usize, u64)| {
            let most = network.capacity_bps(place) as f64 / 8.0 * elapsed_s;
            let utilisation = if most > 0.0 { bytes as f64 / most } else { 0.0 };
            LinkRow {
                link: network.link(place),
                job: self.id,
                bytes: Bytes::new(bytes),
                utilisation,
                busy,
            }
        };
        bytes.into_iter().map(row).collect()
    }

    fn collective(&self, run: usize) -> &'a Collective {
        &self.training.collectives()[self.runs[run].collective as usize]
    }

    // A rank joins a collective, which starts when the last one has.
    fn join(
        &mut self,
        group: u32,
        collective: u32,
        sequence: u64,
        network: &mut Network,
        planner: &mut Planner<'_>,
        records: &mut Records,
    ) -> Result<(), FlowError> {
        let run = match self.open.get(&(group, sequence)) {
            Some(&run) => run,
            None => self.open_run(group, collective, sequence),
        };
        let joined = &mut self.runs[run].joined;
        *joined += 1;
        if (*joined as usize) < self.training.members(group).len() {
            return Ok(());
        }
        // A group of one rank has nothing to send.
        if self.collective(run).steps() == 0 {
            self.finished(run, network.now, records);
            return Ok(());
        }
        let chunks = self.runs[run].chunks.len() as u32;
        for chunk in 0..self.training.spec().system.in_flight.min(chunks) {
            self.enter_step(run, chunk, network, planner)?;
        }
        Ok(())
    }

    fn open_run(&mut self, group: u32, collective: u32, sequence: u64) -> usize {
        let chunks = self.training.collectives()[collective as usize].chunks();
        let chunk = || Chunk { step: 0, started: Time::ZERO, sending: None };
        let opened = CollectiveRun {
            group,
            collective,
            sequence,
            joined: 0,
            chunks: std::iter::repeat_with(chunk).take(chunks as usize).collect(),
            chunks_done: 0,
            queues: BTreeMap::new(),
            acknowledged: Time::ZERO,
        };
        let run = match self.unused_runs.pop() {
            Some(run) => {
                self.runs[run] = opened;
                run
            }
            None => {
                self.runs.push(opened);
                self.runs.len() - 1
            }
        };
        self.open.insert((group, sequence), run);
        run
    }

    // Plans a chunk's step on its first use, and starts it when its lane is free.
    fn enter_step(
        &mut self,
        run: usize,
        chunk: u32,
        network: &mut Network,
        planner: &mut Planner<'_>,
    ) -> Result<(), FlowError> {
        let CollectiveRun { group, chunks, .. } = &self.runs[run];
        let (group, step, key) =
            (*group, chunks[chunk as usize].step, self.runs[run].step_key(chunk));
        let number = match self.plans.number(key) {
            Some(number) => number,
            None => {
                let job = (self.training, self.id);
                let plan = planner.step(job, group, self.collective(run), step)?;
                self.add_plan(key, plan)
            }
        };
        if self.plans.all[number].steps > 1 {
            self.start_step(run, chunk, network);
            return Ok(());
        }
        let lane = self.collective(run).lane(step);
        let queue = self.runs[run].queues.entry(lane).or_default();
        queue.push_back(chunk);
        if queue.len() == 1 {
            self.start_step(run, chunk, network);
        }
        Ok(())
    }

    fn start_step(&mut self, run: usize, chunk: u32, network: &mut Network) {
        let collective = &mut self.runs[run];
        let plan = self.plans.number(collective.step_key(chunk)).expect("entering a step plans it");
        collective.chunks[chunk as usize].started = network.now;
        let owner = Owner::Step { training: self.number, run, chunk };
        let stream = self.stream(owner, plan, network);
        self.runs[run].chunks[chunk as usize].sending = Some((stream, plan));
    }

    fn send(
        &mut self,
        ends: [u32; 2],
        bytes: Bytes,
        message: u32,
        network: &mut Network,
        planner: &mut Planner<'_>,
    ) -> Result<(), FlowError> {
        let key = PlanKey::Message { from: ends[0], to: ends[1], bytes: bytes.get() };
        let plan = match self.plans.number(key) {
            Some(number) => number,
            None => {
                let plan = planner.message((self.training, self.id), ends, bytes.get())?;
                self.add_plan(key, plan)
            }
        };
        let owner = Owner::Message { training: self.number, message };
        let stream = self.stream(owner, plan, network);
        self.messages.insert(message, MessageRun { stream, plan });
        Ok(())
    }

    fn add_plan(&mut self, key: PlanKey, plan: StepPlan) -> usize {
        self.ended.push(0);
        self.plans.add(key, plan)
    }

    // Starts a stream for all messages of a plan.
    fn stream(&mut self, owner: Owner, plan: usize, network: &mut Network) -> usize {
        let plan = &self.plans.all[plan];
        if self.streams == 0 {
            self.busy_since = network.now;
        }
        self.streams += 1;
        let loads = Arc::clone(&plan.loads);
        // Chunks that send in turns on the same queue pairs together have the weight of one flow.
        let in_turns = plan.steps > 1;
        let split = if in_turns { u64::from(self.training.spec().system.in_flight) } else { 1 };
        let stream = network.add(owner, self.id, loads, (UNIT, split));
        // No demand below the rate of links: a message is sent as fast as they permit.
        let cap = Rate::from_bps(MAX_RATE.as_bps() / UNIT);
        let bytes = u128::from(plan.bytes) * u128::from(plan.steps);
        network.start(stream, cap, bytes * (PICOBITS_PER_BYTE / u128::from(UNIT)));
        stream
    }

    // Counts a stream of a plan that has ended.
    fn count(&mut self, plan: usize, now: Time) {
        self.streams -= 1;
        if self.streams == 0 {
            self.busy += now.since(self.busy_since);
        }
        self.ended[plan] += 1;
    }
}
