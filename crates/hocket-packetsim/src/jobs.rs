//! Jobs on the network. An Up phase of a periodic job is one message on each of its flows and ends when the last one is
//! acknowledged. Training jobs are in `training`.

use std::collections::BTreeMap;
use std::ops::Range;

use hocket_des::{Bytes, Duration, Time};
use hocket_scenario::closed_loop::{ClosedLoop, Next, TooLong};
use hocket_scenario::execution::Execution;
use hocket_scenario::{JobId, LinkId, LinkRow, Phase, Records, Scenario, Table, Work};

use crate::engine::Engine;
use crate::error::PacketRunError;
use crate::faults::Carried;
use crate::owners::Owners;
use crate::parts::event::Task;
use crate::parts::messages::Poster;
use crate::training::{Numbers, Parcels, TrainingContext, TrainingState};

/// The jobs of a scenario, and their flows in the setup.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioJobs<'a> {
    /// The scenario that defines the jobs.
    pub scenario: &'a Scenario,
    /// By job: the flows on which it sends; those of a training job are in the order of its pairs of ranks.
    pub flows: &'a [Range<usize>],
    /// By flow: the job to which tables attribute it.
    pub owners: &'a [Option<JobId>],
}

impl ScenarioJobs<'_> {
    /// Asserts that jobs and flows belong together.
    pub(crate) fn check(&self, flows: usize) {
        assert_eq!(self.flows.len(), self.scenario.jobs().len(), "each job has its flows");
        assert_eq!(self.owners.len(), flows, "each flow has an entry for its job");
        assert!(self.flows.iter().all(|each| each.end <= flows), "jobs send on flows of the setup");
    }

    /// The job of each flow, by name.
    pub(crate) fn owners(&self) -> Owners {
        let names = self.scenario.jobs().iter().map(|job| job.name.clone()).collect();
        Owners::new(names, self.owners.iter().map(|owner| owner.map(JobId::code)))
    }
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Finished iterations.
    pub(crate) done: u64,
    pub(crate) is_sending: bool,
    pub(crate) is_gone: bool,
}

/// An event of a training job's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParcelEvent {
    /// All of it has arrived.
    Delivered,
    /// The receiver has noticed it, after its endpoint delay.
    Noticed,
    /// Its acknowledgement has reached the sender.
    Acknowledged,
}

/// Counts of all jobs at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobCounts {
    bytes_by_link: BTreeMap<(LinkId, JobId), u64>,
    /// By job: time spent sending, and number of rate cuts.
    busy: Vec<Duration>,
    cuts: Vec<u64>,
}

/// All jobs of a run.
pub(crate) struct Jobs<'a> {
    spec: ScenarioJobs<'a>,
    jobs: Vec<JobState<'a>>,
    /// Messages of training jobs.
    parcels: Parcels,
    /// The job of each rank; ranks are numbered over all training jobs.
    job_of_rank: Vec<u32>,
    /// Their rows.
    pub(crate) records: Records,
    iterations_done: u64,
    /// The number of jobs that have not left.
    left: usize,
    /// When an event last concerned any of them.
    last_event: Time,
    /// Simulated time that was skipped.
    skipped: Duration,
    /// Bytes that arrived during repeated cycles.
    repeated_bytes: BTreeMap<(LinkId, JobId), u64>,
}

enum JobState<'a> {
    Periodic(Box<PeriodicState<'a>>),
    Training(Box<TrainingState<'a>>),
}

struct PeriodicState<'a> {
    closed_loop: ClosedLoop<'a>,
    flows: Range<usize>,
    /// The number of messages of the current Up phase that are not complete.
    unfinished: usize,
    phase_start: Option<Time>,
    busy: Duration,
    /// Finished iterations.
    done: u64,
    is_gone: bool,
}

impl<'a> Jobs<'a> {
    /// The jobs before their first iterations; schedules these.
    pub(crate) fn new(
        spec: &ScenarioJobs<'a>,
        recorded: u64,
        engine: &mut Engine<'_>,
    ) -> Result<Self, PacketRunError> {
        let scenario = spec.scenario;
        let mut records = Records::new(scenario);
        let mut jobs = Vec::with_capacity(scenario.jobs().len());
        let (mut parcels, mut job_of_rank) = (Parcels::default(), Vec::new());
        for (id, flows) in scenario.job_ids().zip(spec.flows) {
            match &scenario.jobs()[id.index()].work {
                Work::Periodic(_) => {
                    let closed_loop = ClosedLoop::new(scenario, id, &mut records)?;
                    if let Some(start) = closed_loop.first_start() {
                        engine.schedule_task(start, Task::Job(id.code()));
                    }
                    jobs.push(JobState::Periodic(Box::new(PeriodicState {
                        closed_loop,
                        flows: flows.clone(),
                        unfinished: 0,
                        phase_start: None,
                        busy: Duration::ZERO,
                        done: 0,
                        is_gone: false,
                    })));
                }
                Work::Training(_) => {
                    engine.network.hosts.report_arrivals(flows.clone());
                    let first_rank = job_of_rank.len() as u32;
                    let numbers = Numbers { flows: flows.clone(), first_rank };
                    let mut state =
                        TrainingState::new(scenario, id, numbers, recorded, &mut records)?;
                    job_of_rank.extend((0..state.ranks()).map(|_| id.code()));
                    let (parcels, records) = (&mut parcels, &mut records);
                    state.execute_commands(&mut TrainingContext {
                        engine: &mut *engine,
                        parcels,
                        records,
                    })?;
                    jobs.push(JobState::Training(Box::new(state)));
                }
            }
        }
        let left = jobs.len();
        Ok(Self {
            spec: *spec,
            jobs,
            parcels,
            job_of_rank,
            records,
            iterations_done: 0,
            left,
            last_event: Time::ZERO,
            skipped: Duration::ZERO,
            repeated_bytes: BTreeMap::new(),
        })
    }

    /// Continues a periodic job whose wait is over or whose phase is complete.
    pub(crate) fn continue_job(
        &mut self,
        job: u32,
        engine: &mut Engine<'_>,
    ) -> Result<(), PacketRunError> {
        self.last_event = engine.now();
        let JobState::Periodic(state) = &mut self.jobs[job as usize] else {
            unreachable!("the ranks of a training job wait separately")
        };
        // Its last event may have begun a phase, which then ends here.
        if let Some(start) = state.phase_start.take() {
            state.busy += engine.now().since(start);
        }
        let before = self.records.iterations.len();
        let next = state.closed_loop.proceed(engine.now(), &mut self.records)?;
        // The closed loop records each iteration that it finishes.
        let finished = (self.records.iterations.len() - before) as u64;
        state.done += finished;
        self.iterations_done += finished;
        match next {
            // In simulated time, which is ahead of the engine's, the wait would end after the last time there is.
            Next::Wait(at) if at.as_ps().checked_add(self.skipped.as_ps()).is_none() => {
                return Err(self.too_long(job, engine.now()));
            }
            Next::Wait(at) => engine.schedule_task(at, Task::Job(job)),
            Next::Send(phase) => state.send(job, phase, engine),
            Next::Leave => {
                state.is_gone = true;
                self.left -= 1;
            }
        }
        Ok(())
    }

    /// Handles a complete message of a periodic job.
    pub(crate) fn on_message(
        &mut self,
        job: u32,
        engine: &mut Engine<'_>,
    ) -> Result<(), PacketRunError> {
        let JobState::Periodic(state) = &mut self.jobs[job as usize] else {
            unreachable!("messages of training jobs are parcels")
        };
        state.unfinished -= 1;
        if state.unfinished == 0 { self.continue_job(job, engine) } else { Ok(()) }
    }

    /// Continues a rank of a training job whose wait is over.
    pub(crate) fn wake(
        &mut self,
        rank: u32,
        engine: &mut Engine<'_>,
    ) -> Result<(), PacketRunError> {
        let job = self.job_of_rank[rank as usize];
        self.train(job, engine, |state, context| state.wake(rank, context))
    }

    /// Handles an event of a training job's message.
    pub(crate) fn on_parcel(
        &mut self,
        parcel: u32,
        what: ParcelEvent,
        engine: &mut Engine<'_>,
    ) -> Result<(), PacketRunError> {
        let job = self.parcels.get(parcel).job;
        self.train(job, engine, |state, context| match what {
            ParcelEvent::Delivered => state.delivered(parcel, context),
            ParcelEvent::Noticed => state.notice(parcel, context),
            ParcelEvent::Acknowledged => state.acknowledged(parcel, context),
        })
    }

    fn train(
        &mut self,
        job: u32,
        engine: &mut Engine<'_>,
        what: impl FnOnce(&mut TrainingState<'a>, &mut TrainingContext<'_, '_>) -> Result<(), TooLong>,
    ) -> Result<(), PacketRunError> {
        self.last_event = engine.now();
        let JobState::Training(state) = &mut self.jobs[job as usize] else {
            unreachable!("periodic jobs have no ranks")
        };
        let before = state.done();
        let (parcels, records) = (&mut self.parcels, &mut self.records);
        what(state, &mut TrainingContext { engine, parcels, records })?;
        self.iterations_done += state.done() - before;
        if state.done() > before && state.is_gone() {
            self.left -= 1;
        }
        Ok(())
    }

    /// The progress of each job.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        self.jobs.iter().map(JobState::standing).collect()
    }

    /// The time since an event last concerned any job.
    pub(crate) fn quiet_for(&self, now: Time) -> Duration {
        now.since(self.last_event)
    }

    /// The counts so far.
    pub(crate) fn counts(&self, engine: &Engine<'_>) -> JobCounts {
        let mut counts = JobCounts {
            bytes_by_link: BTreeMap::new(),
            busy: self.jobs.iter().map(|state| state.busy_until(engine.now())).collect(),
            cuts: vec![0; self.jobs.len()],
        };
        for (owner, flow) in self.spec.owners.iter().zip(0..) {
            let Some(job) = *owner else { continue };
            counts.cuts[job.index()] += engine.network.hosts.rate_cuts(flow);
            for Carried { links, bytes } in engine.carried(flow) {
                for &link in links {
                    *counts.bytes_by_link.entry((LinkId::new(link), job)).or_default() += bytes;
                }
            }
        }
        counts
    }

    /// Adds `times` repetitions of what was counted between two moments, with `iterations` of each job every time. They
    /// replace a simulated time of `skipped` in all, which counts as past.
    pub(crate) fn repeat(
        &mut self,
        (from, to): (&JobCounts, &JobCounts),
        iterations: &[u64],
        times: u64,
        skipped: Duration,
    ) {
        for (&place, bytes) in &to.bytes_by_link {
            let before = from.bytes_by_link.get(&place).copied().unwrap_or_default();
            *self.repeated_bytes.entry(place).or_default() += (bytes - before) * times;
        }
        for (index, state) in self.jobs.iter_mut().enumerate() {
            let JobState::Periodic(state) = state else {
                unreachable!("a run with training jobs does not skip ahead")
            };
            state.busy += (to.busy[index] - from.busy[index]) * times;
            self.records.jobs[index].policy_acted += (to.cuts[index] - from.cuts[index]) * times;
            state.closed_loop.skip(iterations[index] * times);
            state.done += iterations[index] * times;
        }
        self.iterations_done += iterations.iter().sum::<u64>() * times;
        self.skipped += skipped;
    }

    /// Iterations of all jobs: the number finished, and the total if every job has a fixed number of them.
    pub(crate) fn iterations(&self) -> (u64, Option<u64>) {
        let scenario = self.spec.scenario;
        let total = scenario.job_ids().map(|job| scenario.iterations(job)).sum();
        (self.iterations_done, total)
    }

    /// Whether all jobs have left.
    pub(crate) fn are_done(&self) -> bool {
        self.left == 0
    }

    /// The ranks of training jobs.
    pub(crate) fn executions(&self) -> impl Iterator<Item = &Execution<'a>> {
        self.jobs.iter().filter_map(|job| match job {
            JobState::Training(state) => Some(state.execution()),
            JobState::Periodic(_) => None,
        })
    }

    /// Removes and returns the rows so far.
    pub(crate) fn take_tables(&mut self) -> Vec<Table> {
        self.records.take_tables(self.spec.scenario)
    }

    /// The tables handed over at the end. In `jobs`, `policy_acted` is the number of rate cuts of a job's congestion
    /// controls; in `links`, bytes are the data that arrived over each link.
    pub(crate) fn last_tables(&mut self, engine: &Engine<'_>, ended: Time) -> [Table; 2] {
        let JobCounts { mut bytes_by_link, cuts, .. } = self.counts(engine);
        for (place, bytes) in &self.repeated_bytes {
            *bytes_by_link.entry(*place).or_default() += bytes;
        }
        for (job, cuts) in self.records.jobs.iter_mut().zip(cuts) {
            job.policy_acted += cuts;
        }
        let row = |((link, job), bytes)| self.link_row(link, job, bytes, ended);
        self.records.links = bytes_by_link.into_iter().map(row).collect();
        self.records.last_tables(self.spec.scenario)
    }

    fn link_row(&self, link: LinkId, job: JobId, bytes: u64, ended: Time) -> LinkRow {
        let rate = self.spec.scenario.fabric().links()[link.index()].rate;
        let could = rate.as_bps() as f64 / 8.0 * (ended + self.skipped).as_secs_f64();
        let utilisation = if could > 0.0 { bytes as f64 / could } else { 0.0 };
        let busy = self.jobs[job.index()].busy_until(ended);
        LinkRow { link, job, bytes: Bytes::new(bytes), utilisation, busy }
    }

    fn too_long(&self, job: u32, now: Time) -> PacketRunError {
        let job = self.spec.scenario.jobs()[job as usize].name.clone();
        TooLong { job, time: now + self.skipped }.into()
    }
}

impl PeriodicState<'_> {
    fn send(&mut self, job: u32, phase: Phase, engine: &mut Engine<'_>) {
        let bytes = phase.bytes().get();
        self.phase_start = Some(engine.now());
        if self.flows.is_empty() || bytes == 0 {
            // Without data on the network, the phase takes exactly its duration.
            engine.schedule_task(engine.now() + phase.duration, Task::Job(job));
            return;
        }
        self.unfinished = self.flows.len();
        for flow in self.flows.clone() {
            // Before the message is posted: the phase begins at the end of what was posted earlier.
            engine.network.hosts.begin_phase(flow, bytes, phase.rate);
            engine.network.post(flow as u32, bytes, Poster::Job(job));
        }
    }
}

impl JobState<'_> {
    fn standing(&self) -> Standing {
        match self {
            Self::Periodic(state) => Standing {
                done: state.done,
                is_sending: state.phase_start.is_some(),
                is_gone: state.is_gone,
            },
            Self::Training(state) => Standing {
                done: state.done(),
                is_sending: state.is_sending(),
                is_gone: state.is_gone(),
            },
        }
    }

    /// The total time that the job has been sending.
    fn busy_until(&self, now: Time) -> Duration {
        match self {
            Self::Periodic(state) => {
                state.busy + state.phase_start.map_or(Duration::ZERO, |start| now.since(start))
            }
            Self::Training(state) => state.busy_until(now),
        }
    }
}

impl JobCounts {
    /// The number of counts.
    pub(crate) fn size(&self) -> usize {
        self.bytes_by_link.len() + self.busy.len() + self.cuts.len()
    }
}
