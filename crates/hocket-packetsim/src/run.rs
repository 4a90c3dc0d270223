//! A run from its first event to its last: what is sent when, what is recorded, when it ends.

use std::num::NonZeroU64;
use std::ops::ControlFlow;

use hocket_des::{Duration, Rate, Stream, Time};
use hocket_scenario::Table;
use hocket_scenario::execution::Execution;

use crate::RunError;
use crate::build::Setup;
use crate::changes::{self, Change, LinkChange};
use crate::checks;
use crate::engine::Engine;
use crate::event::{Step, Work};
use crate::host::ARRIVED;
use crate::jobs::{Jobs, ParcelEvent, ScenarioJobs};
use crate::messages::Owner;
use crate::records::{Owners, last_tables};
use crate::recurrence::{Moment, Plan, Recurrence, Skip, Skipping, later};
use crate::sampling::{Sampler, Usage};

// Rows are handed over when there are so many: some megabytes.
const BATCH: usize = 1 << 16;
// After so many events, at the latest, rows are counted and a deadlock is looked for.
const ROUND: u64 = 1 << 16;

/// Bytes that a flow has to send once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSpec {
    /// Which flow.
    pub flow: usize,
    /// How much.
    pub bytes: u64,
    /// From when on.
    pub start: Time,
}

/// What happens on the fabric of a [`Setup`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Workload<'a> {
    /// Messages; those of one flow are sent one after another.
    pub messages: &'a [MessageSpec],
    /// Jobs that compute and send in turn.
    pub jobs: Option<ScenarioJobs<'a>>,
    /// Links that fail or change.
    pub changes: &'a [LinkChange],
}

/// How a run is done and what it records; what is simulated is left to setup and workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The run ends then, with all events of that time. Without it, when everything is sent.
    pub until: Option<Time>,
    /// Queues, rates and traffic are sampled in such intervals. Without it, not at all.
    pub sample_every: Option<Duration>,
    /// Which rows are kept.
    pub record: Record,
    /// The observer hears of the progress after so many events.
    pub progress_every: NonZeroU64,
    /// Periodic jobs skip ahead once they do the same again and again. Without it, every packet is simulated.
    pub skip: Option<Skip>,
}

/// Which rows are kept; `ports`, `paused` and `switches` always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// A row of `flows` for each message.
    pub messages: bool,
    /// A row of `pauses` for each PAUSE or resume frame.
    pub pauses: bool,
    /// Samples in `queues` and `switch_queues`.
    pub queues: bool,
    /// Samples in `rates`.
    pub rates: bool,
    /// Samples in `utilisation`.
    pub utilisation: bool,
    /// Rows of `operations`, of so many iterations of each training job.
    pub operations: u64,
}

/// Who hears of a run while it goes on.
pub trait Observer {
    /// Takes rows of one table, never none; a table of the same name can come again and again.
    fn on_table(&mut self, rows: Table);

    /// Hears how far the run is, and may end it.
    fn on_progress(&mut self, _at: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Keeps all tables, in the order in which they came.
impl Observer for Vec<Table> {
    fn on_table(&mut self, rows: Table) {
        self.push(rows);
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub time: Time,
    /// Messages and iterations that are done.
    pub done: u64,
    /// Messages and iterations in all, if they have a number.
    pub total: Option<u64>,
    /// Events so far.
    pub events: u64,
}

/// Whether a run reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything was sent and acknowledged, and all jobs have left.
    Complete,
    /// The time given as its end came first.
    Stopped,
    /// The observer ended it.
    Interrupted,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that began to cross a link, of every kind.
    pub packet_hops: u64,
    /// Events, samples among them.
    pub events: u64,
    /// Complete messages of the workload; what jobs send is counted in their tables.
    pub messages: u64,
    /// PAUSE frames received.
    pub pauses: u64,
    /// Marked packets of data received.
    pub marks: u64,
    /// Congestion notification packets sent; none where acknowledgements carry the marks.
    pub cnps: u64,
    /// How often each policy of the setup cut a rate.
    pub rate_cuts: Vec<u64>,
    /// How often a sender went back to what had not arrived.
    pub retransmissions: u64,
    /// Packets that found no room in a buffer.
    pub losses: u64,
    /// Packets that were lost to the failure of a link.
    pub lost_to_failures: u64,
}

/// What came out of a run, besides its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What the run did, together with what it stands for if it skipped ahead.
    pub counters: Counters,
    /// Whether it reached its end.
    pub status: Status,
    /// The simulated time of its end: of a complete run, when the last message was complete.
    pub ended: Time,
    /// What was not simulated, if the run was allowed to skip ahead.
    pub skipping: Option<Skipping>,
}

/// Runs `work` on `setup`. Tables go to `observer` as they fill; the same setup, workload and options give the same
/// rows in the same order.
///
/// | table | columns | rows |
/// |---|---|---|
/// | `flows` | `flow, job, src, dst, bytes, start_ps, end_ps, fct_s, marks, cnps, rate_cuts, retransmissions` | one for each complete message, in order of end; the last four count since the flow's message before |
/// | `pauses` | `time_ps, link, priority, pause` | one for each frame as received by the port that must stop (1) or may go on (0) |
/// | `queues` | `time_ps, link, bytes` | sampled: what waits at the port that feeds the link |
/// | `switch_queues` | `time_ps, switch, bytes` | sampled: what waits in all ports of a switch |
/// | `rates` | `time_ps, flow, job, rate_bps` | sampled: what a flow's congestion control allows, 0 while nothing is left to send or to be acknowledged |
/// | `utilisation` | `time_ps, link, job, bytes` | sampled: bytes on the wire that began to leave since the last sample, acknowledgements included; PAUSE frames excluded |
/// | `ports` | `link, packets, bytes, marked, peak_bytes, pauses, paused_s` | at the end, each link that carried something; `paused_s` is time with some priority paused |
/// | `paused` | `link, priority, pauses, paused_s` | at the end, each port and priority that received a PAUSE |
/// | `switches` | `switch, peak_bytes` | at the end |
///
/// With jobs also `iterations`, `phases`, `adjustments`, and at the end `links` and `jobs`, in the columns of the flow engine
/// ([`Tables`](hocket_scenario::Tables)): a phase ends when its last byte is acknowledged, `links` counts the data that arrived over
/// each, and `policy_acted` is how often congestion controls cut a rate of the job.
///
/// Sampled tables are step functions that start at 0: there is a row only where the value is not that of the last
/// sample; `utilisation` has a row where bytes are not 0. The last sample is taken at the end. Sampling changes nothing else.
///
/// With [`Options::skip`] all tables hold what is repeated as if it had been simulated, in the order of events, and peaks are those of
/// what was simulated. One more says which rows these are: `repeated` (`job, first_iteration, iterations, start_ps, end_ps, cycles, exact,
/// deviation, drift_bound`), of one row for each job whenever the run skips ahead, with the error as in [`Repeat`](crate::Repeat). Nothing is
/// skipped before all messages are complete and all changes of links have happened, and never the iteration in which a job leaves.
/// Samples of what is repeated keep their distance to the events, not to the start of the run.
///
/// # Errors
/// If setup, workload or options make no sense, or one of the run's own checks fails: nothing lost while PFC is on, no
/// flow left behind by a deadlock or otherwise, no rank left waiting, no collective faster than the links of its ranks, all bytes of
/// every flow accounted for, no link above its rate, all buffers empty at the end of a complete run. What was recorded by then has been handed over.
///
/// # Panics
/// If the jobs of the workload name other flows than there are, or not as many jobs as their scenario has.
pub fn run(
    setup: &Setup<'_>,
    work: &Workload<'_>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    options.check()?;
    work.check(setup)?;
    let later_rate = |change: &LinkChange| match change.change {
        Change::Rate(rate) => Some(rate),
        Change::Down | Change::Up => None,
    };
    let later_rates: Vec<Rate> = work.changes.iter().filter_map(later_rate).collect();
    let engine = Engine::new(setup, &later_rates)?;
    let mut run = Run::new(setup, work, options, engine)?;
    let status = run.go(observer);
    run.finish(status, observer)
}

impl Default for Options {
    /// Until everything is sent, without samples, progress every 262,144 events.
    fn default() -> Self {
        Self {
            until: None,
            sample_every: None,
            record: Record::default(),
            progress_every: NonZeroU64::new(1 << 18).expect("262,144 is not zero"),
            skip: None,
        }
    }
}

impl Default for Record {
    /// Everything, but operations of the first iteration alone.
    fn default() -> Self {
        Self {
            messages: true,
            pauses: true,
            queues: true,
            rates: true,
            utilisation: true,
            operations: 1,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), RunError> {
        if self.sample_every == Some(Duration::ZERO) {
            return Err(RunError::NoInterval { interval: Duration::ZERO });
        }
        self.skip.as_ref().map_or(Ok(()), Skip::check)
    }
}

impl Counters {
    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    /// With `others` happening so many `times` besides.
    pub(crate) fn plus(&self, others: &Self, times: u64) -> Self {
        self.with(others, |one, other| one + other * times)
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        let cuts = |of: &Self, policy: usize| of.rate_cuts.get(policy).copied().unwrap_or(0);
        let policies = self.rate_cuts.len().max(other.rate_cuts.len());
        let rate_cuts = (0..policies).map(|policy| both(cuts(self, policy), cuts(other, policy)));
        Self {
            packet_hops: both(self.packet_hops, other.packet_hops),
            events: both(self.events, other.events),
            messages: both(self.messages, other.messages),
            pauses: both(self.pauses, other.pauses),
            marks: both(self.marks, other.marks),
            cnps: both(self.cnps, other.cnps),
            rate_cuts: rate_cuts.collect(),
            retransmissions: both(self.retransmissions, other.retransmissions),
            losses: both(self.losses, other.losses),
            lost_to_failures: both(self.lost_to_failures, other.lost_to_failures),
        }
    }
}

impl Workload<'_> {
    fn check(&self, setup: &Setup<'_>) -> Result<(), RunError> {
        for (index, flow) in setup.flows.iter().enumerate() {
            if flow.policy >= setup.policies.len() {
                let (policy, policies) = (flow.policy, setup.policies.len());
                return Err(RunError::UnknownPolicy { flow: index, policy, policies });
            }
        }
        for (index, message) in self.messages.iter().enumerate() {
            let number = index + 1;
            if message.flow >= setup.flows.len() {
                let (flow, flows) = (message.flow, setup.flows.len());
                return Err(RunError::UnknownFlow { message: number, flow, flows });
            }
            if message.bytes == 0 {
                return Err(RunError::EmptyMessage { message: number, flow: message.flow });
            }
        }
        if let Some(jobs) = &self.jobs {
            jobs.check(setup.flows.len());
        }
        changes::check(self.changes, setup.fabric)
    }
}

/// A run that is under way.
struct Run<'a> {
    setup: &'a Setup<'a>,
    work: &'a Workload<'a>,
    options: &'a Options,
    engine: Engine<'a>,
    owners: Owners,
    sampler: Sampler,
    jobs: Option<Jobs<'a>>,
    /// Messages of jobs that something has happened to, for whom they were sent.
    told: Vec<(Owner, ParcelEvent)>,
    /// Complete messages of the workload.
    done: u64,
    /// Where skipping ahead is allowed.
    recurrence: Option<Recurrence<'a>>,
    /// When something of the workload last was done, in the engine's time.
    ended: Time,
    /// When a deadlock was last looked for.
    looked: Time,
    report_at: u64,
    /// The observer wants no more.
    is_interrupted: bool,
    /// The number of events after which something besides the network may be due.
    look_at: u64,
}

impl<'a> Run<'a> {
    fn new(
        setup: &'a Setup<'a>,
        work: &'a Workload<'a>,
        options: &'a Options,
        mut engine: Engine<'a>,
    ) -> Result<Self, RunError> {
        let owners = match &work.jobs {
            Some(jobs) => jobs.owners(),
            None => Owners::new(Vec::new(), setup.flows.iter().map(|_| None)),
        };
        let jobs = work.jobs.as_ref();
        let recorded = options.record.operations;
        let jobs = jobs.map(|jobs| Jobs::new(jobs, recorded, &mut engine)).transpose()?;
        let record = &options.record;
        engine.records.keeps_messages = record.messages;
        engine.records.keeps_pauses = record.pauses;
        if record.utilisation && options.sample_every.is_some() {
            engine.usage = Some(Usage::new(owners.clone(), engine.ports.len()));
        }
        for (message, index) in work.messages.iter().zip(0..) {
            engine.schedule_work(message.start, Work::Message(index));
        }
        for (change, index) in work.changes.iter().zip(0..) {
            engine.schedule_work(change.at, Work::Change(index));
        }
        if let Some(interval) = options.sample_every {
            engine.schedule_work(Time::ZERO + interval, Work::Sample);
        }
        let report_at = options.progress_every.get();
        let sampler = Sampler::new(&engine, *record);
        let (done, ended, look_at) = (0, Time::ZERO, report_at.min(ROUND));
        let scenario = work.jobs.as_ref().map(|jobs| jobs.scenario);
        let recurrence = options.skip.map(|skip| Recurrence::new(skip, scenario, options.until));
        let mut run = Self {
            setup,
            work,
            options,
            engine,
            owners,
            sampler,
            jobs,
            told: Vec::new(),
            done,
            recurrence,
            ended,
            looked: Time::ZERO,
            report_at,
            is_interrupted: false,
            look_at,
        };
        run.schedule_end();
        Ok(run)
    }

    // What is due at the end still happens. An end that cannot be reached is none.
    fn schedule_end(&mut self) {
        if let Some(after) = self.options.until.and_then(|until| until.as_ps().checked_add(1)) {
            let at = Time::from_ps(after - self.skipped().as_ps());
            self.engine.schedule_work(at, Work::End);
        }
    }

    /// How much later everything is said to happen than it happens in the engine.
    fn skipped(&self) -> Duration {
        self.recurrence.as_ref().map_or(Duration::ZERO, |recurrence| recurrence.offset)
    }

    fn go(&mut self, observer: &mut dyn Observer) -> Result<Status, RunError> {
        while let Some(step) = self.engine.step() {
            if let Step::Work(work) = step
                && self.do_work(work, observer)?.is_break()
            {
                let until = self.options.until.expect("only a given end ends a run");
                self.ended = Time::from_ps(until.as_ps() - self.skipped().as_ps());
                self.engine.now = self.ended;
                checks::no_deadlock(&self.engine, self.setup)?;
                return Ok(Status::Stopped);
            }
            if !self.engine.completed.is_empty() {
                self.settle()?;
            }
            if self.engine.lost.is_some() {
                self.check_loss()?;
            }
            if self.engine.events >= self.look_at && self.look_around(observer)?.is_break() {
                self.ended = self.engine.now;
                return Ok(Status::Interrupted);
            }
        }
        checks::none_left_behind(&self.engine, self.setup)?;
        for execution in self.jobs.iter().flat_map(Jobs::executions) {
            execution.check_nobody_waits(self.engine.now)?;
        }
        Ok(Status::Complete)
    }

    /// Does what is due besides the network; breaks if the run has reached its given end with work left.
    #[cold]
    fn do_work(
        &mut self,
        work: Work,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, RunError> {
        match work {
            Work::Message(index) => {
                let message = &self.work.messages[index as usize];
                self.engine.post(message.flow as u32, message.bytes, Owner::Nobody);
            }
            Work::Change(index) => self.engine.apply(&self.work.changes[index as usize]),
            Work::Job(_) | Work::Rank(_) | Work::Notice(_) => {
                self.look_for_recurrence(observer);
                let jobs = self.jobs.as_mut().expect("a job that is scheduled is there");
                let engine = &mut self.engine;
                match work {
                    Work::Rank(rank) => jobs.wake(rank, engine)?,
                    Work::Notice(parcel) => {
                        jobs.on_parcel(parcel, ParcelEvent::Noticed, engine)?;
                    }
                    Work::Job(job) => jobs.go_on(job, engine)?,
                    _ => unreachable!("only jobs get here"),
                }
                self.ended = self.engine.now;
            }
            Work::Sample => self.sample(observer),
            Work::End if !self.is_done() => return Ok(ControlFlow::Break(())),
            Work::End => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether everything that the workload asks for is done.
    fn is_done(&self) -> bool {
        self.done == self.work.messages.len() as u64
            && self.jobs.as_ref().is_none_or(Jobs::are_done)
    }

    /// Tells of messages that have arrived, and of complete ones.
    fn settle(&mut self) -> Result<(), RunError> {
        while let Some(entry) = self.engine.completed.pop() {
            let (done, told) = (&mut self.done, &mut self.told);
            if entry & ARRIVED != 0 {
                let arrived = ParcelEvent::Delivered;
                self.engine.arrived(entry & !ARRIVED, |owner| told.push((owner, arrived)));
                continue;
            }
            let before = *done + told.len() as u64;
            self.engine.complete(entry, |owner| match owner {
                Owner::Nobody => *done += 1,
                _ => told.push((owner, ParcelEvent::Acknowledged)),
            });
            if *done + told.len() as u64 > before {
                self.ended = self.engine.now;
            }
        }
        for (owner, event) in self.told.drain(..) {
            let jobs = self.jobs.as_mut().expect("a job that sent something is there");
            match owner {
                Owner::Job(job) => jobs.on_message(job, &mut self.engine)?,
                Owner::Parcel(parcel) => jobs.on_parcel(parcel, event, &mut self.engine)?,
                Owner::Nobody => {}
            }
        }
        Ok(())
    }

    /// A job is about to go on: if all have been quiet for long, what they did may be what they did before.
    fn look_for_recurrence(&mut self, observer: &mut dyn Observer) {
        let (Some(recurrence), Some(jobs)) = (&mut self.recurrence, &self.jobs) else { return };
        let now = self.engine.now;
        if self.done < self.work.messages.len() as u64
            || self.work.changes.iter().any(|change| change.at > now)
        {
            return recurrence.forget();
        }
        let standings = jobs.standings();
        if !recurrence.is_moment(jobs.quiet_for(now), &standings) {
            return;
        }
        let job_counts = jobs.counts(&self.engine);
        self.hand_over(observer);
        let moment = Moment {
            at: now,
            jobs: standings,
            rates_bps: self.engine.steering.iter().map(|its| its.control.rate_bps()).collect(),
            draws: self.draws(),
            counters: self.simulated(),
            ports: self.engine.records.port_counts(&self.engine.ports, now),
            job_counts,
        };
        let plan = self.recurrence.as_mut().and_then(|recurrence| recurrence.on_moment(moment));
        if let Some(plan) = plan {
            self.repeat(&plan, observer);
        }
    }

    /// The random streams of the network where they now are.
    fn draws(&self) -> Vec<Stream> {
        let marking = self.engine.marking.iter().flatten().map(|marker| &marker.draws);
        marking.chain([&self.engine.telemetry.draws]).cloned().collect()
    }

    /// Hands over the rows of what is not simulated, and counts it.
    fn repeat(&mut self, plan: &Plan, observer: &mut dyn Observer) {
        let (Some(recurrence), Some(jobs)) = (&mut self.recurrence, &mut self.jobs) else { return };
        let iterations = recurrence.iterations(plan);
        let now = self.engine.now + recurrence.offset;
        let mut times = 0;
        while times < plan.times && !self.is_interrupted {
            times += 1;
            let (iteration_rows, phase_rows, tables) = recurrence.repetition(plan, times);
            hand(tables, observer);
            jobs.records.iterations.extend(iteration_rows);
            jobs.records.phases.extend(phase_rows);
            hand(
                jobs.take_tables().into_iter().map(|rows| later(rows, recurrence.offset)),
                observer,
            );
            let (done, planned) = jobs.iterations();
            let progress = Progress {
                time: now + plan.span * times,
                done: self.done + done + iterations.iter().sum::<u64>() * times,
                total: planned.map(|planned| self.done + planned),
                events: self.engine.events,
            };
            self.is_interrupted = observer.on_progress(&progress).is_break();
        }
        let (from, to) = recurrence.ends(plan);
        self.engine.records.repeat(&to.ports.since(&from.ports), times);
        let counts = (&from.job_counts, &to.job_counts);
        jobs.repeat(counts, &iterations, times, plan.span * times);
        hand([recurrence.done(plan, times)], observer);
        self.schedule_end();
        if self.is_interrupted {
            self.look_at = 0;
        }
    }

    fn sample(&mut self, observer: &mut dyn Observer) {
        self.sampler.sample(&mut self.engine);
        if self.sampler.rows() >= BATCH {
            self.hand_over(observer);
        }
        // Where nothing else will happen there is nothing to see, and the run could not end.
        if let Some(interval) = self.options.sample_every
            && !self.is_done()
            && !self.engine.calendar.is_empty()
        {
            self.engine.schedule_work(self.engine.now + interval, Work::Sample);
        }
    }

    #[cold]
    fn check_loss(&mut self) -> Result<(), RunError> {
        let lost = self.engine.lost.take();
        match lost.filter(|_| self.setup.model.switching.pfc) {
            Some(lost) => Err(RunError::LostDespitePfc {
                time: self.engine.now,
                link: self.setup.fabric.links()[lost.link as usize].name.clone(),
                flow: lost.flow as usize,
            }),
            None => Ok(()),
        }
    }

    #[cold]
    fn look_around(&mut self, observer: &mut dyn Observer) -> Result<ControlFlow<()>, RunError> {
        if self.is_interrupted {
            return Ok(ControlFlow::Break(()));
        }
        let job_rows = self.jobs.as_ref().map_or(0, |jobs| jobs.records.rows());
        if self.engine.records.rows() + job_rows >= BATCH {
            self.hand_over(observer);
        }
        checks::no_deadlock_for_long(&self.engine, self.setup, &mut self.looked)?;
        let mut flow = ControlFlow::Continue(());
        if self.engine.events >= self.report_at {
            self.report_at = self.engine.events + self.options.progress_every.get();
            flow = observer.on_progress(&self.progress());
        }
        self.look_at = self.report_at.min(self.engine.events + ROUND);
        Ok(flow)
    }

    fn progress(&self) -> Progress {
        let (iterations, planned) = self.jobs.as_ref().map_or((0, Some(0)), Jobs::iterations);
        Progress {
            time: self.engine.now + self.skipped(),
            done: self.done + iterations,
            total: planned.map(|planned| self.work.messages.len() as u64 + planned),
            events: self.engine.events,
        }
    }

    /// Hands over the rows that there are.
    fn hand_over(&mut self, observer: &mut dyn Observer) {
        let (fabric, flows) = (self.setup.fabric, self.setup.flows);
        let events = self.engine.records.take_tables(fabric, flows, &self.owners);
        let samples = self.sampler.take_tables(fabric, &self.owners);
        let skipped = self.skipped();
        let rows = events.into_iter().chain(samples).map(|rows| later(rows, skipped));
        let mut rows: Vec<Table> = rows.collect();
        if let Some(jobs) = &mut self.jobs {
            if let Some(recurrence) = &mut self.recurrence {
                recurrence.keep(&jobs.records, &rows);
            }
            rows.extend(jobs.take_tables().into_iter().map(|rows| later(rows, skipped)));
        }
        hand(rows, observer);
    }

    /// The end, however it came: hands all rows over, then checks what a run that did not fail must hold to.
    fn finish(
        mut self,
        status: Result<Status, RunError>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        if self.options.sample_every.is_some() {
            self.sampler.sample(&mut self.engine);
        }
        self.hand_over(observer);
        hand(last_tables(&self.engine, self.setup.fabric), observer);
        if let Some(jobs) = &mut self.jobs {
            hand(jobs.last_tables(&self.engine, self.ended), observer);
        }
        let skipped = self.skipped();
        let checked = status.and_then(|status| {
            checks::at_the_end(&self.engine, self.setup, self.work.changes, status)?;
            let has_rate = |change: &LinkChange| matches!(change.change, Change::Rate(_));
            if !self.work.changes.iter().any(has_rate) {
                let executions = self.jobs.iter().flat_map(Jobs::executions);
                executions.into_iter().try_for_each(Execution::check_speeds)?;
            }
            Ok(status)
        });
        let status = checked.map_err(|error| error.later(skipped))?;
        let simulated = self.simulated();
        let skipping = self.recurrence.map(Recurrence::into_skipping);
        let counters = match &skipping {
            Some(skipping) => simulated.plus(&skipping.counters, 1),
            None => simulated,
        };
        Ok(Outcome { counters, status, ended: self.ended + skipped, skipping })
    }

    /// What was done by simulation.
    fn simulated(&self) -> Counters {
        let engine = &self.engine;
        let repeated_pauses =
            self.recurrence.as_ref().map_or(0, |recurrence| recurrence.repeated().pauses);
        let mut counters = Counters {
            packet_hops: engine.packet_hops,
            events: engine.events,
            messages: self.done,
            pauses: engine.records.pauses_received() - repeated_pauses,
            rate_cuts: vec![0; self.setup.policies.len()],
            losses: engine.records.losses,
            lost_to_failures: engine.faults.lost_packets,
            ..Counters::default()
        };
        for (flow, id) in engine.flows.iter().zip(0..) {
            let seen = engine.seen(id);
            counters.marks += u64::from(seen.marks);
            counters.cnps += u64::from(seen.cnps);
            counters.retransmissions += u64::from(seen.retransmissions);
            // Flows inside servers have a policy of their own, which cuts nothing.
            if let Some(cuts) = counters.rate_cuts.get_mut(usize::from(flow.policy)) {
                *cuts += seen.rate_cuts;
            }
        }
        counters
    }
}

fn hand(tables: impl IntoIterator<Item = Table>, observer: &mut dyn Observer) {
    for table in tables {
        if table.rows() > 0 {
            observer.on_table(table);
        }
    }
}
