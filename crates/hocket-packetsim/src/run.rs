//! A run from its first event to its last: what is sent when, what is recorded, when it ends.

use std::ops::ControlFlow;

use hocket_des::{Duration, Rate, Stream, Time};
use hocket_scenario::execution::Execution;
use hocket_scenario::observer::{BATCH, hand_on};
use hocket_scenario::{Observer, Progress, Table};

use crate::build;
use crate::changes::{Change, LinkChange};
use crate::checks;
use crate::engine::{Engine, Step};
use crate::error::PacketRunError;
use crate::jobs::{Jobs, ParcelEvent};
use crate::network::Network;
use crate::network::hosts::Due;
use crate::options::PacketOptions;
use crate::outcome::{PacketCounters, PacketOutcome, PacketStatus};
use crate::owners::Owners;
use crate::parts::event::Task;
use crate::parts::messages::Poster;
use crate::recurrence::{Moment, Plan, Recurrence, Rows, later};
use crate::sampling::Sampler;
use crate::setup::Setup;
use crate::usage::Usage;
use crate::workload::PacketWorkload;

// After so many events, at the latest, rows are counted and a deadlock is looked for.
const ROUND: u64 = 1 << 16;

/// Runs `work` on `setup`. Tables go to `observer` as they fill; the same setup, workload and options give the same
/// rows in the same order.
///
/// | table | columns | rows |
/// |---|---|---|
/// | `flows` | `flow, job, src, dst, bytes, start_s, end_s, fct_s, marks, cnps, rate_cuts, retransmissions` | one for each complete message, in order of end; the last four count since the flow's message before |
/// | `pauses` | `at_s, link, priority, pause` | one for each frame as received by the port that must stop, or (`pause` is false) may go on |
/// | `queues` | `at_s, link, bytes` | sampled: what waits at the port that feeds the link |
/// | `switch_queues` | `at_s, switch, bytes` | sampled: what waits in all ports of a switch |
/// | `rates` | `at_s, flow, job, rate_bps` | sampled: what a flow's congestion control allows, 0 while nothing is left to send or to be acknowledged |
/// | `utilisation` | `at_s, link, job, bytes` | sampled: bytes on the wire that began to leave since the last sample, acknowledgements included; PAUSE frames excluded |
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
/// With [`PacketOptions::skip`] all tables hold what is repeated as if it had been simulated, in the order of events, and peaks are those of
/// what was simulated. One more says which rows these are: `repeated` (`job, first_iteration, iterations, start_s, end_s, cycles, exact,
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
    work: &PacketWorkload<'_>,
    options: &PacketOptions,
    observer: &mut dyn Observer,
) -> Result<PacketOutcome, PacketRunError> {
    options.check()?;
    work.check(setup)?;
    let later_rate = |change: &LinkChange| match change.change {
        Change::Rate(rate) => Some(rate),
        Change::Down | Change::Up => None,
    };
    let later_rates: Vec<Rate> = work.changes.iter().filter_map(later_rate).collect();
    let engine = build::engine(setup, &later_rates)?;
    let mut run = Run::new(setup, work, options, engine)?;
    let status = run.go(observer);
    run.finish(status, observer)
}

/// A run that is under way.
struct Run<'a> {
    setup: &'a Setup<'a>,
    work: &'a PacketWorkload<'a>,
    options: &'a PacketOptions,
    engine: Engine<'a>,
    owners: Owners,
    sampler: Sampler,
    jobs: Option<Jobs<'a>>,
    /// Messages of jobs that something has happened to, for whom they were sent.
    told: Vec<(Poster, ParcelEvent)>,
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
        work: &'a PacketWorkload<'a>,
        options: &'a PacketOptions,
        mut engine: Engine<'a>,
    ) -> Result<Self, PacketRunError> {
        let owners = match &work.jobs {
            Some(jobs) => jobs.owners(),
            None => Owners::new(Vec::new(), setup.flows.iter().map(|_| None)),
        };
        let jobs = work.jobs.as_ref();
        let recorded = options.record.operations;
        let jobs = jobs.map(|jobs| Jobs::new(jobs, recorded, &mut engine)).transpose()?;
        let record = &options.record;
        engine.network.medium.recorder.keeps_messages = record.messages;
        engine.network.medium.recorder.keeps_pauses = record.pauses;
        if record.utilisation && options.sample_every.is_some() {
            engine.network.medium.wires.usage =
                Some(Usage::new(owners.clone(), setup.fabric.links().len()));
        }
        for (message, index) in work.messages.iter().zip(0..) {
            engine.schedule_task(message.start, Task::Message(index));
        }
        for (change, index) in work.changes.iter().zip(0..) {
            engine.schedule_task(change.at, Task::Change(index));
        }
        if let Some(interval) = options.sample_every {
            engine.schedule_task(Time::ZERO + interval, Task::Sample);
        }
        let report_at = options.progress_every.get();
        let sampler = Sampler::new(&engine.network, *record);
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
            self.engine.schedule_task(at, Task::End);
        }
    }

    /// How much later everything is said to happen than it happens in the engine.
    fn skipped(&self) -> Duration {
        self.recurrence.as_ref().map_or(Duration::ZERO, |recurrence| recurrence.offset)
    }

    fn go(&mut self, observer: &mut dyn Observer) -> Result<PacketStatus, PacketRunError> {
        while let Some(step) = self.engine.step() {
            if let Step::Task(work) = step
                && self.do_task(work, observer)?.is_break()
            {
                let until = self.options.until.expect("only a given end ends a run");
                self.ended = Time::from_ps(until.as_ps() - self.skipped().as_ps());
                self.engine.network.medium.clock.now = self.ended;
                checks::no_deadlock(&self.engine, self.setup)?;
                return Ok(PacketStatus::Stopped);
            }
            if self.engine.network.hosts.has_due() {
                self.settle()?;
            }
            if self.engine.lost.is_some() {
                self.check_loss()?;
            }
            if self.engine.network.medium.clock.events >= self.look_at
                && self.look_around(observer)?.is_break()
            {
                self.ended = self.engine.now();
                return Ok(PacketStatus::Interrupted);
            }
        }
        checks::none_left_behind(&self.engine, self.setup)?;
        for execution in self.jobs.iter().flat_map(Jobs::executions) {
            execution.check_nobody_waits(self.engine.now())?;
        }
        Ok(PacketStatus::Complete)
    }

    /// Does what is due besides the network; breaks if the run has reached its given end with work left.
    #[cold]
    fn do_task(
        &mut self,
        work: Task,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, PacketRunError> {
        match work {
            Task::Message(index) => {
                let message = &self.work.messages[index as usize];
                self.engine.network.post(message.flow as u32, message.bytes, Poster::Nobody);
            }
            Task::Change(index) => self.engine.apply(&self.work.changes[index as usize]),
            Task::Job(_) | Task::Rank(_) | Task::Notice(_) => {
                self.look_for_recurrence(observer);
                let jobs = self.jobs.as_mut().expect("a job that is scheduled is there");
                let engine = &mut self.engine;
                match work {
                    Task::Rank(rank) => jobs.wake(rank, engine)?,
                    Task::Notice(parcel) => {
                        jobs.on_parcel(parcel, ParcelEvent::Noticed, engine)?;
                    }
                    Task::Job(job) => jobs.go_on(job, engine)?,
                    _ => unreachable!("only jobs get here"),
                }
                self.ended = self.engine.now();
            }
            Task::Sample => self.sample(observer),
            Task::End if !self.is_done() => return Ok(ControlFlow::Break(())),
            Task::End => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether everything that the workload asks for is done.
    fn is_done(&self) -> bool {
        self.done == self.work.messages.len() as u64
            && self.jobs.as_ref().is_none_or(Jobs::are_done)
    }

    /// Tells of messages that have arrived, and of complete ones.
    fn settle(&mut self) -> Result<(), PacketRunError> {
        let Network { medium, hosts, .. } = &mut self.engine.network;
        while let Some(due) = hosts.take_due() {
            let (done, told) = (&mut self.done, &mut self.told);
            let before = *done + told.len() as u64;
            match due {
                Due::Arrival(flow) => {
                    hosts.arrived(flow, |poster| told.push((poster, ParcelEvent::Delivered)));
                    continue;
                }
                Due::Completion(flow) => {
                    let (now, recorder) = (medium.clock.now, &mut medium.recorder);
                    hosts.complete(now, recorder, flow, |poster| match poster {
                        Poster::Nobody => *done += 1,
                        _ => told.push((poster, ParcelEvent::Acknowledged)),
                    });
                }
            }
            if *done + told.len() as u64 > before {
                self.ended = medium.clock.now;
            }
        }
        for (poster, event) in self.told.drain(..) {
            let jobs = self.jobs.as_mut().expect("a job that sent something is there");
            match poster {
                Poster::Job(job) => jobs.on_message(job, &mut self.engine)?,
                Poster::Parcel(parcel) => jobs.on_parcel(parcel, event, &mut self.engine)?,
                Poster::Nobody => {}
            }
        }
        Ok(())
    }

    /// A job is about to go on: if all have been quiet for long, what they did may be what they did before.
    fn look_for_recurrence(&mut self, observer: &mut dyn Observer) {
        let (Some(recurrence), Some(jobs)) = (&mut self.recurrence, &self.jobs) else { return };
        let now = self.engine.now();
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
        let medium = &self.engine.network.medium;
        let moment = Moment {
            at: now,
            jobs: standings,
            rates_bps: self.engine.network.hosts.rates_bps(),
            draws: self.draws(),
            counters: self.simulated(),
            ports: medium.recorder.port_counts(&medium.wires.ports, now),
            job_counts,
        };
        let plan = self.recurrence.as_mut().and_then(|recurrence| recurrence.on_moment(moment));
        if let Some(plan) = plan {
            self.repeat(&plan, observer);
        }
    }

    /// The random streams of the network where they now are.
    fn draws(&self) -> Vec<Stream> {
        let Network { medium, switches, .. } = &self.engine.network;
        switches.draws().chain([&medium.telemetry.draws]).cloned().collect()
    }

    /// Hands over the rows of what is not simulated, and counts it.
    fn repeat(&mut self, plan: &Plan, observer: &mut dyn Observer) {
        let (Some(recurrence), Some(jobs)) = (&mut self.recurrence, &mut self.jobs) else { return };
        let iterations = recurrence.iterations(plan);
        let now = self.engine.now() + recurrence.offset;
        let mut times = 0;
        while times < plan.times && !self.is_interrupted {
            times += 1;
            let Rows { iterations: iteration_rows, phases, tables } =
                recurrence.repetition(plan, times);
            hand_on(tables, observer);
            jobs.records.iterations.extend(iteration_rows);
            jobs.records.phases.extend(phases);
            hand_on(
                jobs.take_tables().into_iter().map(|rows| later(rows, recurrence.offset)),
                observer,
            );
            let (done, planned) = jobs.iterations();
            let progress = Progress {
                time: now + plan.span * times,
                done: self.done + done + iterations.iter().sum::<u64>() * times,
                total: planned.map(|planned| self.done + planned),
                events: self.engine.network.medium.clock.events,
            };
            self.is_interrupted = observer.on_progress(&progress).is_break();
        }
        let (from, to) = recurrence.ends(plan);
        self.engine.network.medium.recorder.repeat(&to.ports.since(&from.ports), times);
        let counts = (&from.job_counts, &to.job_counts);
        jobs.repeat(counts, &iterations, times, plan.span * times);
        hand_on([recurrence.done(plan, times)], observer);
        self.schedule_end();
        if self.is_interrupted {
            self.look_at = 0;
        }
    }

    fn sample(&mut self, observer: &mut dyn Observer) {
        self.sampler.sample(&mut self.engine.network);
        if self.sampler.rows() >= BATCH {
            self.hand_over(observer);
        }
        // Where nothing else will happen there is nothing to see, and the run could not end.
        if let Some(interval) = self.options.sample_every
            && !self.is_done()
            && !self.engine.network.medium.clock.is_idle()
        {
            self.engine.schedule_task(self.engine.now() + interval, Task::Sample);
        }
    }

    #[cold]
    fn check_loss(&mut self) -> Result<(), PacketRunError> {
        let lost = self.engine.lost.take();
        match lost.filter(|_| self.setup.model.switching.pfc) {
            Some(lost) => Err(PacketRunError::LostDespitePfc {
                time: self.engine.now(),
                link: self.setup.fabric.links()[lost.link as usize].name.clone(),
                flow: lost.flow as usize,
            }),
            None => Ok(()),
        }
    }

    #[cold]
    fn look_around(
        &mut self,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, PacketRunError> {
        if self.is_interrupted {
            return Ok(ControlFlow::Break(()));
        }
        let job_rows = self.jobs.as_ref().map_or(0, |jobs| jobs.records.rows());
        if self.engine.network.medium.recorder.rows() + job_rows >= BATCH {
            self.hand_over(observer);
        }
        checks::no_deadlock_for_long(&self.engine, self.setup, &mut self.looked)?;
        let mut flow = ControlFlow::Continue(());
        if self.engine.network.medium.clock.events >= self.report_at {
            self.report_at =
                self.engine.network.medium.clock.events + self.options.progress_every.get();
            flow = observer.on_progress(&self.progress());
        }
        self.look_at = self.report_at.min(self.engine.network.medium.clock.events + ROUND);
        Ok(flow)
    }

    fn progress(&self) -> Progress {
        let (iterations, planned) = self.jobs.as_ref().map_or((0, Some(0)), Jobs::iterations);
        Progress {
            time: self.engine.now() + self.skipped(),
            done: self.done + iterations,
            total: planned.map(|planned| self.work.messages.len() as u64 + planned),
            events: self.engine.network.medium.clock.events,
        }
    }

    /// Hands over the rows that there are.
    fn hand_over(&mut self, observer: &mut dyn Observer) {
        let (fabric, flows) = (self.setup.fabric, self.setup.flows);
        let events = self.engine.network.medium.recorder.take_tables(fabric, flows, &self.owners);
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
        hand_on(rows, observer);
    }

    /// The end, however it came: hands all rows over, then checks what a run that did not fail must hold to.
    fn finish(
        mut self,
        status: Result<PacketStatus, PacketRunError>,
        observer: &mut dyn Observer,
    ) -> Result<PacketOutcome, PacketRunError> {
        if self.options.sample_every.is_some() {
            self.sampler.sample(&mut self.engine.network);
        }
        self.hand_over(observer);
        hand_on(self.last_tables(), observer);
        if let Some(jobs) = &mut self.jobs {
            hand_on(jobs.last_tables(&self.engine, self.ended), observer);
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
        Ok(PacketOutcome { counters, status, ended: self.ended + skipped, skipping })
    }

    /// The tables that come last: `ports`, `paused` and `switches`.
    fn last_tables(&self) -> [Table; 3] {
        let (fabric, now) = (self.setup.fabric, self.engine.now());
        let Network { medium, switches, .. } = &self.engine.network;
        [
            medium.recorder.port_table(&medium.wires.ports, now, fabric),
            medium.recorder.paused_table(now, fabric),
            switches.table(fabric),
        ]
    }

    /// What was done by simulation.
    fn simulated(&self) -> PacketCounters {
        let Network { medium, hosts, .. } = &self.engine.network;
        let repeated_pauses =
            self.recurrence.as_ref().map_or(0, |recurrence| recurrence.repeated().pauses);
        let mut counters = PacketCounters {
            packet_hops: medium.wires.packet_hops,
            events: medium.clock.events,
            messages: self.done,
            pauses: medium.recorder.pauses_received() - repeated_pauses,
            rate_cuts: vec![0; self.setup.policies.len()],
            losses: medium.recorder.losses,
            lost_to_failures: self.engine.faults.lost_packets,
            ..PacketCounters::default()
        };
        for (flow, id) in hosts.flows.iter().zip(0..) {
            let seen = hosts.seen(&medium.recorder, id);
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
