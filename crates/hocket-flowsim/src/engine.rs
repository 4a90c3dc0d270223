//! The event loop of a scenario: advances jobs from event to event, has links shared anew when a job starts or stops to
//! send, and records rows.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU64};
use std::ops::ControlFlow;

use hocket_des::{Duration, Time};
use hocket_scenario::closed_loop::{ClosedLoop, Next};
use hocket_scenario::observer::{BATCH, hand_on};
use hocket_scenario::{
    Crossing, Folded, Job, JobId, LinkId, LinkRow, Observer, Progress, Records, Scenario, Table,
    Tables, Work,
};

use crate::allocation::Load;
use crate::counters::FlowCounters;
use crate::error::FlowError;
use crate::goodput::Goodput;
use crate::network::{Network, Owner, Policy, Timer};
use crate::plan::Planner;
use crate::sampling::Sampler;
use crate::sender::bytes_of;
use crate::symmetry::{Prepared, prepare};
use crate::training::TrainingRun;

// The largest number of events between two counts of rows. Counting at each event would slow all of them down; in this many,
// few rows accumulate compared with a batch.
const EVENTS_BETWEEN_COUNTS: u64 = 1 << 12;

/// How a scenario is run and what is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// The goodput of links for which jobs contend.
    pub goodput: Goodput,
    /// The number of steps in which an adaptive weight changes during an Up phase. Within a step it has the value of the
    /// step's middle.
    pub adaptive_steps: NonZeroU16,
    /// Rates are recorded up to this time: a long run has millions of changes.
    pub rates_until: Time,
    /// The number of iterations of training jobs whose operations are recorded.
    pub recorded_iterations: u64,
    /// The interval in which traffic is sampled; `None` for no samples.
    pub sample_every: Option<Duration>,
    /// The number of events between two progress callbacks.
    pub progress_every: NonZeroU64,
    /// Whether ranks, groups and links of training jobs that provably behave alike are computed once. This changes the cost of
    /// a run and none of its rows.
    pub fold_symmetry: bool,
}

/// Whether a run reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStatus {
    /// All jobs have left, or the end of the scenario was reached.
    Complete,
    /// The observer stopped the run: the tables contain what was finished by then.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// The cost of the run.
    pub counters: FlowCounters,
    /// Whether it reached its end.
    pub status: FlowStatus,
    /// The simulated time at which it ended.
    pub ended: Time,
}

/// The result of a run without an observer.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowOutcome {
    /// The tables that both engines record.
    pub tables: Tables,
    /// If traffic was sampled: `at_s, link, job, bytes`, the bytes since the last sample, including headers and
    /// acknowledgements of training jobs. There are no rows of 0 bytes.
    pub utilisation: Option<Table>,
    /// How the run ended.
    pub end: FlowEnd,
}

/// Runs `scenario` to its end and keeps all rows. The same scenario and options give the same outcome. Without jitter and clock
/// error, the names and the order of jobs affect only the order of rows.
///
/// ```
/// use hocket_des::{Duration, Rate};
/// use hocket_flowsim::{FlowOptions, run};
/// use hocket_scenario::{
///     Column, Crossing, Fabric, Job, LinkId, Phase, Profile, Scenario, Stop,
/// };
///
/// // Two jobs that demand 40 Gbps for half of 240 ms share a link of 50 Gbps, half a period apart.
/// let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::from_ns(500))?;
/// let (start, duration) = (Duration::ZERO, Duration::from_ms(120));
/// let up = Phase { start, duration, rate: Rate::from_gbps(40) };
/// let profile = Profile::new(Duration::from_ms(240), vec![up])?;
/// let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
/// let first = Job::new("first", profile, crossings);
/// let time_shift = Some(Duration::from_ms(120));
/// let second = Job { name: "second".to_owned(), time_shift, ..first.clone() };
/// let stop = Stop { iterations: Some(1_000), until: None };
/// let scenario = Scenario::new(fabric, vec![first, second], 1, 1, stop)?;
///
/// let outcome = run(&scenario, &FlowOptions::default())?;
/// let Some(Column::MaybeF64(p99_s)) = outcome.tables.jobs.column("p99_iteration_s") else { panic!() };
/// assert_eq!(p99_s, &[Some(0.240), Some(0.240)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the scenario has transfers, which this engine does not support; if a job can never finish; if the run exceeds 213 days
/// of simulated time; or if a self-check fails: a link exceeds its rate, a job does not send all its bytes, a rank waits for
/// ever, or a collective is faster than the links of its ranks.
pub fn run(scenario: &Scenario, options: &FlowOptions) -> Result<FlowOutcome, FlowError> {
    check_transfers(scenario)?;
    let (folded, prepared) = prepare(scenario, options.folds())?;
    let mut engine = Engine::new(scenario, options, &folded, prepared)?;
    let end = engine.run(None)?;
    let utilisation = engine.take_samples();
    Ok(FlowOutcome { tables: engine.records.into_tables(scenario), utilisation, end })
}

/// Runs `scenario` as [`run`] does, but passes rows to `observer` during the run, so that they need not fit into memory. Each
/// table has the same rows in the same order; `links` and `jobs` come last. `observer` can stop the run.
///
/// # Errors
/// As [`run`]. `observer` keeps the rows that it received before an error.
pub fn run_observed(
    scenario: &Scenario,
    options: &FlowOptions,
    observer: &mut dyn Observer,
) -> Result<FlowEnd, FlowError> {
    check_transfers(scenario)?;
    let (folded, prepared) = prepare(scenario, options.folds())?;
    let mut engine = Engine::new(scenario, options, &folded, prepared)?;
    let end = engine.run(Some(observer))?;
    engine.hand_over(observer);
    hand_on(engine.records.last_tables(scenario), observer);
    Ok(end)
}

impl FlowOptions {
    // Whether symmetry is looked for. Samples are by link, and lost goodput depends on what is demanded of links, also of those
    // that are not full.
    fn folds(&self) -> bool {
        self.fold_symmetry && self.sample_every.is_none() && self.goodput.is_lossless()
    }
}

impl Default for FlowOptions {
    /// No goodput lost, 64 steps of an adaptive weight, no rates, operations of one iteration, no samples, progress every 4,096 events,
    /// symmetry used.
    fn default() -> Self {
        Self {
            goodput: Goodput::default(),
            adaptive_steps: NonZeroU16::new(64).expect("64 is not zero"),
            rates_until: Time::ZERO,
            recorded_iterations: 1,
            sample_every: None,
            progress_every: NonZeroU64::new(4_096).expect("4,096 is not zero"),
            fold_symmetry: true,
        }
    }
}

struct Engine<'a> {
    scenario: &'a Scenario,
    options: &'a FlowOptions,
    network: Network,
    planner: Planner<'a>,
    periodic: Vec<PeriodicJob<'a>>,
    trainings: Vec<TrainingRun<'a>>,
    sampler: Option<Sampler>,
    /// When the next sample is due, if one was taken at the present time.
    next_sample: Option<Time>,
    records: Records,
    /// Scratch space: events of one time, and the training jobs that continue after them.
    simultaneous: Vec<Timer>,
    continuing: Vec<usize>,
    /// The number of events at which the next progress callback is due.
    report_at: u64,
    /// The number of events at which rows are counted next.
    count_at: u64,
}

struct PeriodicJob<'a> {
    id: JobId,
    closed_loop: ClosedLoop<'a>,
    stream: usize,
}

impl<'a> Engine<'a> {
    fn new(
        scenario: &'a Scenario,
        options: &'a FlowOptions,
        folded: &'a [Option<Folded>],
        prepared: Prepared<'a>,
    ) -> Result<Self, FlowError> {
        let Prepared { mut planner, plans } = prepared;
        let mut plans = plans.into_iter();
        let links = crossed_links(scenario);
        let places: BTreeMap<LinkId, usize> = links.iter().copied().zip(0..).collect();
        let mut network = Network::new(
            scenario.fabric(),
            links,
            options.goodput.clone(),
            options.adaptive_steps,
            options.sample_every.is_some(),
        );
        network.policies = policies(scenario);
        let mut records = Records::new(scenario);
        let (mut periodic, mut trainings) = (Vec::new(), Vec::new());
        for (job, id) in scenario.jobs().iter().zip(scenario.job_ids()) {
            match &job.work {
                Work::Periodic(work) => {
                    let closed_loop = ClosedLoop::new(scenario, id, &mut records)?;
                    let (job, load) = (periodic.len(), |crossing: &Crossing| Load {
                        link: places[&crossing.link],
                        flows: u64::from(crossing.flows),
                    });
                    if let Some(start) = closed_loop.first_start() {
                        network.timers.schedule(start, Timer::Job { job });
                    }
                    let loads = work.crossings.iter().map(load).collect();
                    let stream = network.add(Owner::Job { job }, id, loads, (1, 1));
                    periodic.push(PeriodicJob { id, closed_loop, stream });
                }
                Work::Training(_) => {
                    let (number, recorded) = (trainings.len(), options.recorded_iterations);
                    let known = plans.next().expect("each training job has a list of plans");
                    let planned = (folded[number].as_ref(), known);
                    let id = (id, number);
                    trainings.push(TrainingRun::new(
                        scenario,
                        id,
                        planned,
                        recorded,
                        &mut records,
                    )?);
                }
            }
        }
        for training in &mut trainings {
            training.execute_commands(&mut network, &mut planner, &mut records)?;
        }
        let sampler = options.sample_every.map(Sampler::new);
        if let Some(sampler) = &sampler {
            network.timers.schedule(Time::ZERO + sampler.interval, Timer::Sample);
        }
        let report_at = options.progress_every.get();
        Ok(Self {
            scenario,
            options,
            network,
            planner,
            periodic,
            trainings,
            sampler,
            next_sample: None,
            records,
            simultaneous: Vec::new(),
            continuing: Vec::new(),
            report_at,
            count_at: report_at.min(EVENTS_BETWEEN_COUNTS),
        })
    }

    // Runs all events, then the checks of the whole run, and records the last sample and the rows of `links`.
    fn run(&mut self, observer: Option<&mut dyn Observer>) -> Result<FlowEnd, FlowError> {
        let status = self.handle_events(observer)?;
        self.network.check_bytes()?;
        for training in &self.trainings {
            training.execution().check_speeds()?;
        }
        self.record_links();
        if let Some(sampler) = &mut self.sampler {
            sampler.sample(&mut self.network);
        }
        Ok(FlowEnd { counters: self.network.counters, status, ended: self.network.now })
    }

    fn handle_events(
        &mut self,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<FlowStatus, FlowError> {
        let until = self.scenario.until();
        while let Some((time, timer)) = self.network.timers.pop() {
            // Stale timers are skipped before the time is looked at: they must not end the run or count as events.
            if !self.network.is_current(timer) {
                continue;
            }
            if let Some(until) = until.filter(|&until| time > until) {
                self.network.cut_off(until);
                return Ok(FlowStatus::Complete);
            }
            self.network.now = time;
            self.handle_simultaneous(timer)?;
            self.network.share_links(self.options.rates_until, &mut self.records)?;
            if self.network.counters.events >= self.count_at
                && let Some(observer) = &mut observer
                && self.pass_rows_and_report(*observer).is_break()
            {
                self.network.cut_off(self.network.now);
                return Ok(FlowStatus::Interrupted);
            }
        }
        self.network.check_none_stalled()?;
        for training in &self.trainings {
            training.execution().check_nobody_waits(self.network.now)?;
        }
        Ok(FlowStatus::Complete)
    }

    // All events of one time are handled before ranks continue and links are shared anew, so that the order of jobs and of
    // their ranks within that time does not matter. It matters only between chunks of one collective, which have numbers.
    fn handle_simultaneous(&mut self, first: Timer) -> Result<(), FlowError> {
        let mut timers = std::mem::take(&mut self.simultaneous);
        let rows = self.records.mark();
        timers.push(first);
        while !timers.is_empty() {
            while self.network.timers.peek_time() == Some(self.network.now) {
                let (_, timer) = self.network.timers.pop().expect("a timer was just seen");
                timers.push(timer);
            }
            timers.sort_by_key(|&timer| self.network.chunk_of(timer));
            for timer in timers.drain(..) {
                if self.network.is_current(timer) {
                    self.handle(timer)?;
                }
            }
            for training in self.continuing.drain(..) {
                let (network, records) = (&mut self.network, &mut self.records);
                self.trainings[training].execute_commands(network, &mut self.planner, records)?;
            }
            // Delays of 0 cause further events at this time.
            if self.network.timers.peek_time() == Some(self.network.now) {
                let (_, timer) = self.network.timers.pop().expect("a timer was just seen");
                timers.push(timer);
            }
        }
        self.simultaneous = timers;
        self.schedule_sample();
        self.records.sort_since(&rows);
        Ok(())
    }

    fn handle(&mut self, timer: Timer) -> Result<(), FlowError> {
        let (network, records) = (&mut self.network, &mut self.records);
        network.counters.events += 1;
        let now = network.now;
        let training = match timer {
            Timer::Stream { stream, .. } => match network.handle_stream(stream) {
                None => return Ok(()),
                Some(Owner::Job { job }) => return self.proceed(job),
                Some(Owner::Step { training, run, chunk }) => {
                    self.trainings[training].sent_step(run, chunk, network);
                    training
                }
                Some(Owner::Message { training, message }) => {
                    self.trainings[training].sent_message(message, network);
                    training
                }
            },
            Timer::Job { job } => return self.proceed(job),
            Timer::Sample => {
                self.sample();
                return Ok(());
            }
            Timer::Rank { training, rank } => {
                self.trainings[training].wake(rank, now);
                training
            }
            Timer::Step { training, run, chunk } => {
                let planner = &mut self.planner;
                self.trainings[training].arrived_step(run, chunk, network, planner)?;
                training
            }
            Timer::Collective { training, run } => {
                self.trainings[training].finished(run, now, records);
                training
            }
            Timer::Delivery { training, message } => {
                self.trainings[training].delivered(message, network);
                training
            }
            Timer::Acknowledgement { training, message } => {
                self.trainings[training].acknowledged(message, now);
                training
            }
        };
        // Jobs are few: a list without repetition costs less than a set.
        if !self.continuing.contains(&training) {
            self.continuing.push(training);
        }
        Ok(())
    }

    // A periodic job's wait or Up phase is over.
    fn proceed(&mut self, job: usize) -> Result<(), FlowError> {
        let state = &mut self.periodic[job];
        match state.closed_loop.proceed(self.network.now, &mut self.records)? {
            Next::Wait(time) => self.network.timers.schedule(time, Timer::Job { job }),
            Next::Send(_) => {
                self.network.start_phase(state.stream, state.closed_loop.present_phases());
            }
            Next::Leave => {}
        }
        Ok(())
    }

    fn sample(&mut self) {
        let Some(sampler) = &mut self.sampler else { return };
        sampler.sample(&mut self.network);
        // One sample can add rows for all jobs on all links, so they are counted after the present event.
        self.count_at = 0;
        self.next_sample = Some(self.network.now + sampler.interval);
    }

    // Schedules the sample after one at this time, all other events of which have been handled. Without further events and
    // streams there is nothing to sample, and further samples would keep the run from ending.
    fn schedule_sample(&mut self) {
        let next = self.next_sample.take();
        if !self.network.timers.is_empty() || self.network.is_sending() {
            next.into_iter().for_each(|at| self.network.timers.schedule(at, Timer::Sample));
        }
    }

    // Cold: few events in thousands get here, and the loop over the others stays small.
    #[cold]
    fn pass_rows_and_report(&mut self, observer: &mut dyn Observer) -> ControlFlow<()> {
        if self.records.rows() + self.sampler.as_ref().map_or(0, Sampler::rows) >= BATCH {
            self.hand_over(observer);
        }
        let events = self.network.counters.events;
        let mut flow = ControlFlow::Continue(());
        if events >= self.report_at {
            self.report_at = events + self.options.progress_every.get();
            flow = observer.on_progress(&self.progress());
        }
        self.count_at = self.report_at.min(events + EVENTS_BETWEEN_COUNTS);
        flow
    }

    /// Passes all rows so far to `observer`.
    fn hand_over(&mut self, observer: &mut dyn Observer) {
        hand_on(self.records.take_tables(self.scenario), observer);
        hand_on(self.take_samples(), observer);
    }

    fn take_samples(&mut self) -> Option<Table> {
        let (fabric, jobs) = (self.scenario.fabric(), self.scenario.jobs());
        self.sampler.as_mut().map(|sampler| sampler.take_table(fabric, jobs))
    }

    fn progress(&self) -> Progress {
        let scenario = self.scenario;
        Progress {
            time: self.network.now,
            done: self.records.iterations_done(),
            total: scenario.job_ids().map(|job| scenario.iterations(job)).sum(),
            events: self.network.counters.events,
        }
    }

    fn record_links(&mut self) {
        let network = &self.network;
        let elapsed_s = network.now.as_secs_f64();
        let mut rows = Vec::new();
        for job in &self.periodic {
            let stream = &network.streams[job.stream];
            for load in &*stream.loads {
                let bytes = bytes_of(stream.sender.sent(), load.flows);
                let most = network.capacity_bps(load.link) as f64 / 8.0 * elapsed_s;
                // A run can end at time 0, in which nothing could be sent.
                let utilisation = if most > 0.0 { bytes.get() as f64 / most } else { 0.0 };
                let (link, busy) = (network.link(load.link), stream.sender.busy());
                rows.push(LinkRow { link, job: job.id, bytes, utilisation, busy });
            }
        }
        rows.extend(self.trainings.iter().flat_map(|training| training.link_rows(network)));
        rows.sort_by_key(|row| (row.link, row.job));
        self.records.links = rows;
    }
}

fn check_transfers(scenario: &Scenario) -> Result<(), FlowError> {
    match scenario.transfers().len() {
        0 => Ok(()),
        transfers => Err(FlowError::Transfers { transfers }),
    }
}

fn policies(scenario: &Scenario) -> Vec<Policy> {
    let policy = |(job, id): (&Job, JobId)| Policy {
        name: job.name.clone(),
        queue: scenario.queue(id),
        share: job.share,
    };
    scenario.jobs().iter().zip(scenario.job_ids()).map(policy).collect()
}

// The links that the network must know: those that some job crosses, or all if there are training jobs, whose routes are
// only found when they communicate.
fn crossed_links(scenario: &Scenario) -> BTreeSet<LinkId> {
    if scenario.jobs().iter().any(|job| job.training().is_some()) {
        return (0..scenario.fabric().links().len()).map(LinkId::from_index).collect();
    }
    let periodic = scenario.jobs().iter().filter_map(Job::periodic);
    periodic.flat_map(|periodic| &periodic.crossings).map(|crossing| crossing.link).collect()
}
