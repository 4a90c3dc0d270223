//! A run from its first event to its last: it starts messages, jobs and changes of links, records rows, checks itself, and
//! ends.

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

// At least once in this number of events, rows are counted and the network is searched for deadlocks: seldom enough to cost
// nothing beside the events.
const CHECK_EVERY: u64 = 1 << 16;

/// Runs `work` on `setup`. Tables go to `observer` as they fill; the same setup, workload and options give the same
/// rows in the same order.
///
/// | table | columns | rows |
/// |---|---|---|
/// | `flows` | `flow, job, src, dst, bytes, start_s, end_s, fct_s, marks, cnps, rate_cuts, retransmissions` | one for each complete message, in order of end; the last four count since the flow's previous message |
/// | `pauses` | `at_s, link, priority, pause` | one for each frame as received by the port that must stop, or (`pause` is false) may continue |
/// | `queues` | `at_s, link, bytes` | sampled: bytes queued at the port that feeds the link |
/// | `switch_queues` | `at_s, switch, bytes` | sampled: bytes queued at all ports of a switch |
/// | `rates` | `at_s, flow, job, rate_bps` | sampled: the rate that a flow's congestion control allows, 0 while nothing is left to send or to be acknowledged |
/// | `utilisation` | `at_s, link, job, bytes` | sampled: bytes on the wire whose transmission began since the last sample, acknowledgements included; PAUSE frames excluded |
/// | `ports` | `link, packets, bytes, marked, peak_bytes, pauses, paused_s` | at the end, each link that carried something; `paused_s` is the time in which some priority was paused |
/// | `paused` | `link, priority, pauses, paused_s` | at the end, each port and priority that received a PAUSE |
/// | `switches` | `switch, peak_bytes` | at the end |
///
/// With jobs also `iterations`, `phases`, `adjustments`, and at the end `links` and `jobs`, in the columns of the flow engine
/// ([`Tables`](hocket_scenario::Tables)): a phase ends when its last byte is acknowledged, `links` counts the data that arrived over
/// each, and `policy_acted` is how often congestion controls cut a rate of the job.
///
/// Sampled tables are step functions that start at 0: there is a row only where the value differs from the last
/// sample; `utilisation` has a row where bytes are not 0. The last sample is taken at the end. Sampling changes nothing else.
///
/// With [`PacketOptions::skip`], all tables contain repeated rows as if they had been simulated, in the order of events; peaks are
/// those of the simulated part. One more table lists these rows: `repeated` (`job, first_iteration, iterations, start_s, end_s,
/// cycles, exact, deviation, drift_bound`) has one row for each job whenever the run skips ahead, with the error as in
/// [`Repeat`](crate::Repeat). Nothing is skipped before all messages are complete and all changes of links have happened, and never
/// the iteration in which a job leaves. Repeated samples keep their distance to the events, not to the start of the run.
///
/// # Errors
/// If setup, workload or options are invalid, or a self-check fails: nothing is lost while PFC is on, no
/// flow is left behind by a deadlock or otherwise, no rank is left waiting, no collective is faster than the links of its ranks, all
/// bytes of every flow are accounted for, no link exceeds its rate, all buffers are empty at the end of a complete run. What was
/// recorded by then has been handed over.
///
/// # Panics
/// If the jobs of the workload name flows that do not exist, or their number differs from that of their scenario.
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
    let status = run.simulate(observer);
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
    /// Message events that jobs have not been notified of yet: the poster of the message, and the event.
    notices: Vec<(Poster, ParcelEvent)>,
    /// The number of complete messages of the workload.
    done: u64,
    /// Present if skipping ahead is allowed.
    recurrence: Option<Recurrence<'a>>,
    /// When a part of the workload was last completed, in the engine's time.
    ended: Time,
    /// When the network was last searched for deadlocks.
    deadlock_check: Time,
    /// The number of events at which progress is reported next.
    report_at: u64,
    /// Whether the observer has ended the run.
    is_interrupted: bool,
    /// The number of events at which [`Self::check_regularly`] is called next.
    next_check: u64,
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
        // Events of the same time happen in the order in which they are scheduled: jobs, messages, changes, samples, the end.
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
        let (done, ended, next_check) = (0, Time::ZERO, report_at.min(CHECK_EVERY));
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
            notices: Vec::new(),
            done,
            recurrence,
            ended,
            deadlock_check: Time::ZERO,
            report_at,
            is_interrupted: false,
            next_check,
        };
        run.schedule_end();
        Ok(run)
    }

    // One picosecond later, so that all events of the end's own time still happen. An end at the last representable time is
    // none.
    fn schedule_end(&mut self) {
        if let Some(after) = self.options.until.and_then(|until| until.as_ps().checked_add(1)) {
            let at = Time::from_ps(after - self.skipped().as_ps());
            self.engine.schedule_task(at, Task::End);
        }
    }

    /// The simulated time that was skipped: by this much, simulated time is ahead of the engine's time.
    fn skipped(&self) -> Duration {
        self.recurrence.as_ref().map_or(Duration::ZERO, |recurrence| recurrence.offset)
    }

    /// Handles events until none is left, the run reaches its given end, or the observer ends it.
    fn simulate(&mut self, observer: &mut dyn Observer) -> Result<PacketStatus, PacketRunError> {
        while let Some(step) = self.engine.step() {
            if let Step::Task(work) = step
                && self.do_task(work, observer)?.is_break()
            {
                // The event of the end is one picosecond late.
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
            if self.engine.network.medium.clock.events >= self.next_check
                && self.check_regularly(observer)?.is_break()
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

    /// Handles an event outside the network; breaks if the run has reached its given end with work left.
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
                // Before the event, which ends a time without events of jobs.
                self.look_for_recurrence(observer);
                let jobs = self.jobs.as_mut().expect("a job that is scheduled is there");
                let engine = &mut self.engine;
                match work {
                    Task::Rank(rank) => jobs.wake(rank, engine)?,
                    Task::Notice(parcel) => {
                        jobs.on_parcel(parcel, ParcelEvent::Noticed, engine)?;
                    }
                    Task::Job(job) => jobs.continue_job(job, engine)?,
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

    /// Whether all messages are complete and all jobs have left.
    fn is_done(&self) -> bool {
        self.done == self.work.messages.len() as u64
            && self.jobs.as_ref().is_none_or(Jobs::are_done)
    }

    /// Records complete messages, and notifies jobs of their messages that have arrived or are complete.
    fn settle(&mut self) -> Result<(), PacketRunError> {
        let Network { medium, hosts, .. } = &mut self.engine.network;
        while let Some(due) = hosts.take_due() {
            let (done, notices) = (&mut self.done, &mut self.notices);
            let before = *done + notices.len() as u64;
            match due {
                Due::Arrival(flow) => {
                    hosts.arrived(flow, |poster| notices.push((poster, ParcelEvent::Delivered)));
                    continue;
                }
                Due::Completion(flow) => {
                    let (now, recorder) = (medium.clock.now, &mut medium.recorder);
                    hosts.complete(now, recorder, flow, |poster| match poster {
                        Poster::Nobody => *done += 1,
                        _ => notices.push((poster, ParcelEvent::Acknowledged)),
                    });
                }
            }
            if *done + notices.len() as u64 > before {
                self.ended = medium.clock.now;
            }
        }
        // Only now: a job that is notified may post new messages and so change the lists that were just read.
        for (poster, event) in self.notices.drain(..) {
            let jobs = self.jobs.as_mut().expect("a job that sent something is there");
            match poster {
                Poster::Job(job) => jobs.on_message(job, &mut self.engine)?,
                Poster::Parcel(parcel) => jobs.on_parcel(parcel, event, &mut self.engine)?,
                Poster::Nobody => {}
            }
        }
        Ok(())
    }

    /// Before an event of a job: if all jobs have been quiet for a long time, compares the cycle that ends here with earlier
    /// ones, and repeats it if they agree.
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
        // All rows before this moment belong to the stretch that ends here.
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

    /// The random streams of the network in their current state.
    fn draws(&self) -> Vec<Stream> {
        let Network { medium, switches, .. } = &self.engine.network;
        switches.draws().chain([&medium.telemetry.draws]).cloned().collect()
    }

    /// Repeats stretches instead of simulating them: hands over their rows with later times, and adds their counts.
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
        // In the engine's time, the end has moved closer. The event of the former end comes later and has no effect.
        self.schedule_end();
        if self.is_interrupted {
            // The loop over events ends at its next check.
            self.next_check = 0;
        }
    }

    fn sample(&mut self, observer: &mut dyn Observer) {
        self.sampler.sample(&mut self.engine.network);
        // The regular checks do not count samples, and a single sample can add thousands of rows.
        if self.sampler.rows() >= BATCH {
            self.hand_over(observer);
        }
        // With no other event left, all further samples would be equal, and the run would never end.
        if let Some(interval) = self.options.sample_every
            && !self.is_done()
            && !self.engine.network.medium.clock.is_idle()
        {
            self.engine.schedule_task(self.engine.now() + interval, Task::Sample);
        }
    }

    /// Ends the run if a full buffer has refused a packet although PFC is on.
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

    /// Hands over rows if there are many, searches for deadlocks, and reports progress; breaks if the observer ends the run.
    #[cold]
    fn check_regularly(
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
        checks::no_deadlock_for_long(&self.engine, self.setup, &mut self.deadlock_check)?;
        let mut flow = ControlFlow::Continue(());
        if self.engine.network.medium.clock.events >= self.report_at {
            self.report_at =
                self.engine.network.medium.clock.events + self.options.progress_every.get();
            flow = observer.on_progress(&self.progress());
        }
        self.next_check = self.report_at.min(self.engine.network.medium.clock.events + CHECK_EVERY);
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

    /// Hands over all rows so far.
    fn hand_over(&mut self, observer: &mut dyn Observer) {
        let (fabric, flows) = (self.setup.fabric, self.setup.flows);
        let events = self.engine.network.medium.recorder.take_tables(fabric, flows, &self.owners);
        let samples = self.sampler.take_tables(fabric, &self.owners);
        let skipped = self.skipped();
        let rows = events.into_iter().chain(samples).map(|rows| later(rows, skipped));
        let mut rows: Vec<Table> = rows.collect();
        if let Some(jobs) = &mut self.jobs {
            // Rows of jobs are kept in the engine's time, in which cycles are compared.
            if let Some(recurrence) = &mut self.recurrence {
                recurrence.keep(&jobs.records, &rows);
            }
            rows.extend(jobs.take_tables().into_iter().map(|rows| later(rows, skipped)));
        }
        hand_on(rows, observer);
    }

    /// Ends the run, also after a failed check: hands over all rows, then makes the final checks unless one has failed before.
    fn finish(
        mut self,
        status: Result<PacketStatus, PacketRunError>,
        observer: &mut dyn Observer,
    ) -> Result<PacketOutcome, PacketRunError> {
        if self.options.sample_every.is_some() {
            self.sampler.sample(&mut self.engine.network);
        }
        // Before the final checks: their failure must not lose rows, which show its cause.
        self.hand_over(observer);
        hand_on(self.last_tables(), observer);
        if let Some(jobs) = &mut self.jobs {
            hand_on(jobs.last_tables(&self.engine, self.ended), observer);
        }
        let skipped = self.skipped();
        let checked = status.and_then(|status| {
            checks::at_the_end(&self.engine, self.setup, self.work.changes, status)?;
            // Collectives are compared with the rates that links have at the start.
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

    /// The counts of the simulated part of the run.
    fn simulated(&self) -> PacketCounters {
        let Network { medium, hosts, .. } = &self.engine.network;
        // For the table `ports`, the recorder also counts the PAUSE frames of repeated cycles.
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
            let counts = hosts.flow_counts(&medium.recorder, id);
            counters.marks += u64::from(counts.marks);
            counters.cnps += u64::from(counts.cnps);
            counters.retransmissions += u64::from(counts.retransmissions);
            // Flows inside servers have a policy that is not in the setup and cuts nothing.
            if let Some(cuts) = counters.rate_cuts.get_mut(usize::from(flow.policy)) {
                *cuts += counts.rate_cuts;
            }
        }
        counters
    }
}
