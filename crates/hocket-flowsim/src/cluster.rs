//! A run of periodic jobs that a scheduler starts, moves and stops. Jobs on links that can become full are run by the events of
//! the network; a job without such links cannot be slowed down, and is run alone in a loop without events.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use hocket_des::{Duration, Time};
use hocket_scenario::closed_loop::{ClosedLoop, Slots};
use hocket_scenario::{
    AdjustmentRow, Crossing, Fabric, Job, JobCounters, JobId, LinkId, Profile, Share,
};
use rayon::prelude::*;

use crate::allocation::Load;
use crate::cluster::alone::Alone;
use crate::cluster::component::{Cluster, Component};
use crate::cluster::groups::Groups;
use crate::cluster::journal::Journal;
use crate::cluster::part::Part;
use crate::cluster::running::Running;
use crate::cluster::skip_ahead::Rows;
use crate::cluster::summaries::Summaries;
use crate::cluster::tally::{Tally, Work};
use crate::error::FlowError;
use crate::marks::{LinkMarks, MarkModel};
use crate::network::Policy;

mod alone;
mod component;
mod cycle;
mod distribution;
mod groups;
mod journal;
mod part;
mod running;
mod settings;
mod similar_iterations;
mod skip_ahead;
mod summaries;
mod tally;
mod traffic;

pub use crate::contention::Encounter;
pub use distribution::Distribution;
pub use settings::{Record, Settings};
pub use similar_iterations::SimilarIterations;
pub use skip_ahead::{Fewest, SkipAhead};
pub use summaries::{JobSummary, ModelSummary};
pub use tally::Totals;
pub use traffic::Traffic;

/// Steps of simulated time that are longer than this are worth a thread for each core.
const WORTH_A_THREAD: Duration = Duration::from_secs(10);

/// A run of arriving, moving and departing jobs, which the caller advances.
///
/// ```
/// use hocket_des::{Duration, Rate, Time};
/// use hocket_flowsim::cluster::{ClusterRun, Ended, Settings, Start};
/// use hocket_scenario::{Crossing, Fabric, LinkId, Phase, Profile};
///
/// let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO)?;
/// let mut run = ClusterRun::new(&fabric, Settings::default());
/// let job = run.add("job");
///
/// // 60 ms of computation, then 40 ms at 30 Gbps.
/// let (start, duration) = (Duration::from_ms(60), Duration::from_ms(40));
/// let up = Phase { start, duration, rate: Rate::from_gbps(30) };
/// let profile = Profile::new(Duration::from_ms(100), vec![up])?;
/// let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
/// run.start(job, Start { iterations: 3, ..Start::new(profile, crossings) })?;
///
/// let at = |ms| Time::ZERO + Duration::from_ms(ms);
/// assert_eq!(run.advance(at(250))?, []);
/// assert_eq!(run.advance(at(1_000))?, [(job, Ended::Done)]);
/// assert_eq!(run.now(), at(300));
/// assert_eq!(run.take_iterations()[0].count, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ClusterRun {
    settings: Settings,
    model: Option<Arc<MarkModel>>,
    fabric: Fabric,
    now: Time,
    /// By job.
    names: Vec<String>,
    members: Vec<Member>,
    /// The number of starts so far.
    starts: u64,
    parts: Vec<Part>,
    /// By link: the sum of the peak demands of all running jobs. A link with at least this capacity is never full.
    peak_demand_bps: Vec<u128>,
    /// Whether jobs have started or left, so that other links may become full.
    moved: bool,
    /// What parts that are no more have left to be taken.
    rows: Rows,
    /// Of jobs that are done.
    summaries: Summaries,
    delays: BTreeMap<Encounter, f64>,
    /// By link of the fabric: its marks, while no component has it.
    marks: BTreeMap<usize, LinkMarks>,
    /// The traffic of past placements.
    traffic: BTreeMap<(LinkId, JobId), Traffic>,
}

/// How a job starts on a placement.
#[derive(Clone, Debug)]
pub struct Start {
    /// One iteration on an idle network.
    pub profile: Profile,
    /// The links that its flows cross; empty for a job on one host.
    pub crossings: Vec<Crossing>,
    /// For marks: pairs (link, link before it) on the paths of its flows, each once.
    pub inputs: Vec<(LinkId, LinkId)>,
    /// When its first iteration starts; not before [`ClusterRun::now`].
    pub at: Time,
    /// The number of iterations after which it is done; at least 1.
    pub iterations: u64,
    /// How it shares a link within its queue.
    pub share: Share,
    /// 0 is the highest.
    pub priority: u8,
    /// As [`Job::jitter`].
    pub jitter: f64,
    /// The number of the model that it trains, for distributions by model.
    pub model: usize,
    /// The samples that an iteration processes, for totals.
    pub samples: u64,
}

/// Why a job left its placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has done its iterations.
    Done,
    /// It was stopped, and its iteration has ended.
    Stopped,
}

/// The remaining work of a running job.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// The job.
    pub job: JobId,
    /// The remainder of its iteration on an idle network, or of the wait for its next iteration; `None` if an iteration begins
    /// now.
    pub rest: Option<Profile>,
    /// The number of iterations left, including the present one.
    pub iterations: u64,
    /// Whether it is between two iterations or before the first.
    pub waits: bool,
    /// Its slots, if it has any.
    pub slots: Option<Slots>,
}

struct Member {
    /// The number of its starts so far.
    starts: u64,
    /// The number of iterations done before the last start.
    done_before: u64,
    /// Where it runs, if it does: the number of the part, and its own in it.
    place: Option<(usize, usize)>,
    model: usize,
    /// What is recorded of it, while it does not run and is not done.
    journal: Option<Journal>,
}

impl Start {
    /// One iteration of one sample from the start of the run on, without jitter, with a fair share.
    pub fn new(profile: Profile, crossings: Vec<Crossing>) -> Self {
        Self {
            profile,
            crossings,
            inputs: Vec::new(),
            at: Time::ZERO,
            iterations: 1,
            share: Share::Fair,
            priority: 0,
            jitter: 0.0,
            model: 0,
            samples: 1,
        }
    }
}

impl ClusterRun {
    /// A fabric without jobs.
    pub fn new(fabric: &Fabric, settings: Settings) -> Self {
        Self {
            model: settings.marks.clone().map(Arc::new),
            settings,
            fabric: fabric.clone(),
            now: Time::ZERO,
            names: Vec::new(),
            members: Vec::new(),
            starts: 0,
            parts: Vec::new(),
            peak_demand_bps: vec![0; fabric.links().len()],
            moved: false,
            rows: Rows::default(),
            summaries: Summaries::default(),
            delays: BTreeMap::new(),
            marks: BTreeMap::new(),
            traffic: BTreeMap::new(),
        }
    }

    /// The time up to which the run has advanced.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Adds a job, which does not run yet.
    pub fn add(&mut self, name: impl Into<String>) -> JobId {
        let id = JobId::from_index(self.members.len());
        let journal = Some(Journal::new(id, &self.settings));
        self.names.push(name.into());
        self.members.push(Member { starts: 0, done_before: 0, place: None, model: 0, journal });
        id
    }

    /// Starts a job that does not run. Returns the number of this start, counted from 0 over all jobs.
    ///
    /// # Errors
    /// If its first iteration starts after the end of time.
    ///
    /// # Panics
    /// If the job is running or done, its start lies in the past, it has no iterations, or its crossings have unknown links.
    pub fn start(&mut self, id: JobId, start: Start) -> Result<u64, FlowError> {
        assert!(start.at >= self.now, "a job starts at {}, now or later", start.at);
        assert!(start.iterations > 0, "a job that starts has something to do");
        let member = &mut self.members[id.index()];
        assert!(member.place.is_none(), "a job runs in one place at a time");
        let name = self.names[id.index()].clone();
        let queue = self.settings.queue_of(start.priority);
        let policy = Policy { name: name.clone(), queue, share: start.share };
        let loads = loads_of(&start.crossings);
        let input = |(link, before): (LinkId, LinkId)| (link.index(), before.index());
        let inputs = start.inputs.into_iter().map(input).collect();
        let job = Job {
            arrival: start.at,
            jitter: start.jitter,
            ..Job::new(name, start.profile, start.crossings)
        };
        // Each start has its own random streams; those of the first are the same as in a run of a scenario.
        let streams = (self.settings.seed, u64::from(id.code()) | member.starts << 32);
        let iterations = Some(start.iterations);
        let counters = &mut JobCounters::default();
        let closed_loop = ClosedLoop::begin(Cow::Owned(job), id, iterations, streams, counters)?;
        let mut journal = member.journal.take().expect("a job that is done does not start again");
        journal.begin(self.starts, Work { ideal: closed_loop.period(), samples: start.samples });
        let running = Running::new(
            (id, policy),
            member.done_before,
            closed_loop,
            (loads, inputs),
            (start.iterations, start.jitter),
            journal,
        );
        for (link, bps) in running.peak_demands_bps() {
            self.peak_demand_bps[link] += bps;
        }
        member.starts += 1;
        member.model = start.model;
        member.place = Some((self.parts.len(), 0));
        // Alone only until the run advances, which finds out with whom it shares links.
        self.parts.push(self.alone(running));
        self.moved = true;
        self.starts += 1;
        Ok(self.starts - 1)
    }

    fn alone(&self, job: Running) -> Part {
        Part::Alone(Box::new(Alone::new(job, self.now, self.settings.skip_ahead)))
    }

    /// Assigns slots to a running job, whose next iteration starts at the next slot, or removes them.
    ///
    /// # Errors
    /// If that start lies after the end of time.
    ///
    /// # Panics
    /// If the job does not run.
    pub fn align(&mut self, id: JobId, slots: Option<Slots>) -> Result<(), FlowError> {
        let (part, number) = self.place(id);
        let (now, part) = (self.now, &mut self.parts[part]);
        part.disturb();
        match part {
            Part::Alone(alone) => alone.align(now, slots)?,
            Part::Sharing(component) => component.align(number, now, slots)?,
        }
        Ok(())
    }

    /// Moves a running job to another queue and to other links from now on, in the middle of a phase if it is sending.
    ///
    /// # Errors
    /// If a self-check fails: a link exceeds its rate.
    ///
    /// # Panics
    /// If the job does not run, its crossings have unknown links, or marks are counted: their model knows no queues.
    pub fn reroute(
        &mut self,
        id: JobId,
        priority: u8,
        crossings: &[Crossing],
    ) -> Result<(), FlowError> {
        assert!(self.settings.marks.is_none(), "marks are not modelled for jobs that are rerouted");
        let (queue, loads) = (self.settings.queue_of(priority), loads_of(crossings));
        let (part, number) = self.place(id);
        let running = self.parts[part].job_mut(number);
        let queue_before = std::mem::replace(&mut running.policy.queue, queue);
        if loads == running.loads {
            if queue != queue_before {
                self.parts[part].disturb();
                if let Part::Sharing(component) = &mut self.parts[part] {
                    component.set_queue(number, queue)?;
                }
            }
            return Ok(());
        }
        let mut job = self.take(id);
        job.count_traffic(&job.sender, self.settings.flow_parts, &mut self.traffic);
        job.forget_links();
        for (link, bps) in job.peak_demands_bps() {
            self.peak_demand_bps[link] -= bps;
        }
        (job.loads, job.inputs) = (loads, Vec::new());
        for (link, bps) in job.peak_demands_bps() {
            self.peak_demand_bps[link] += bps;
        }
        let alone = self.alone(job);
        self.parts.push(alone);
        self.find_places();
        Ok(())
    }

    /// Lets a job leave at the end of its iteration, or at once if it is between two iterations or before the first. Returns
    /// whether it has left.
    ///
    /// # Errors
    /// If a self-check fails: the job has not sent all bytes of its phases.
    ///
    /// # Panics
    /// If the job does not run.
    pub fn stop(&mut self, id: JobId) -> Result<bool, FlowError> {
        let (part, number) = self.place(id);
        let running = self.parts[part].job_mut(number);
        if running.closed_loop.iteration_start().is_none() {
            self.leave(id)?;
            return Ok(true);
        }
        running.closed_loop.leave_after_this();
        Ok(false)
    }

    /// When the present iteration of a job started; `None` between two iterations, and for a job that does not run.
    pub fn iteration_start(&self, id: JobId) -> Option<Time> {
        let (part, number) = self.members[id.index()].place?;
        let part = &self.parts[part];
        Some(part.jobs()[number].closed_loop.iteration_start()? + part.behind())
    }

    /// The number of iterations that a job has done, over all its starts.
    pub fn done(&self, id: JobId) -> u64 {
        let Member { done_before, place, .. } = self.members[id.index()];
        let running = |(part, number): (usize, usize)| &self.parts[part].jobs()[number];
        done_before + place.map_or(0, |place| running(place).closed_loop.done())
    }

    /// The number of iterations so far that were repeated instead of being simulated.
    pub fn repeated_iterations(&self) -> u64 {
        let parts = self.parts.iter().map(|part| match part {
            Part::Alone(alone) => alone.rows.repeated,
            Part::Sharing(component) => component.rows.repeated,
        });
        self.rows.repeated + parts.sum::<u64>()
    }

    /// The number of complete rows of iterations that have not been taken.
    pub fn rows(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            Part::Alone(alone) => alone.rows.iterations.len(),
            Part::Sharing(component) => component.rows.iterations.len(),
        });
        self.rows.iterations.len() + parts.sum::<usize>()
    }

    /// Summaries of all jobs that have done an iteration, over all their starts, in order of jobs.
    pub fn summaries(&self) -> Vec<JobSummary> {
        self.summaries.jobs(self.tallies().map(|(job, _, tally)| (job, tally)))
    }

    /// Percentiles over all iterations of all jobs, by the number of their model, and at the end for all models together.
    pub fn model_summaries(&self) -> Vec<ModelSummary> {
        self.summaries.models(self.tallies().map(|(_, model, tally)| (model, tally)))
    }

    // Jobs that are not done, each with its model and its tally.
    fn tallies(&self) -> impl Iterator<Item = (JobId, usize, &Tally)> {
        self.members.iter().enumerate().filter_map(|(number, member)| {
            let journal = match member.place {
                Some((part, place)) => &self.parts[part].jobs()[place].journal,
                None => member.journal.as_ref()?,
            };
            Some((JobId::from_index(number), member.model, journal.tally()))
        })
    }

    /// Advances the run to `until`, or to the first time at which jobs leave, or about until jobs have done
    /// [`Settings::most_iterations`]. Returns the jobs that leave then, in order.
    ///
    /// # Errors
    /// If a self-check fails: a link exceeds its rate, or a job does not send all its bytes; and if a job continues beyond the
    /// end of time.
    pub fn advance(&mut self, until: Time) -> Result<Vec<(JobId, Ended)>, FlowError> {
        assert!(until >= self.now, "time runs forward");
        self.update_sharing()?;
        let until = until.min(self.end_of_advance());
        let mut ended = Vec::new();
        while ended.is_empty() {
            // No part may advance beyond the first departure, after which the scheduler decides.
            let departures = self.parts.iter().map(|part| part.earliest_departure(self.now));
            let horizon = departures.min().map_or(until, |first| first.clamp(self.now, until));
            ended = self.advance_parts(horizon)?;
            self.now = horizon;
            if horizon == until {
                break;
            }
        }
        ended.sort_unstable();
        ended.into_iter().map(|id| Ok((id, self.leave(id)?))).collect()
    }

    // When all jobs, each alone, have done `most_iterations` from now on.
    fn end_of_advance(&self) -> Time {
        let Some(most) = self.settings.most_iterations else { return Time::from_ps(u64::MAX) };
        // Iterations in 10^18 ps: whole numbers, since they decide about a time.
        let long_ps = 10_u128.pow(18);
        let each = self.parts.iter().flat_map(Part::jobs);
        let done: u128 = each.map(|job| long_ps / u128::from(job.period().as_ps().max(1))).sum();
        let ps = (u128::from(most) * long_ps / done.max(1)).max(1);
        Time::from_ps(self.now.as_ps().saturating_add(u64::try_from(ps).unwrap_or(u64::MAX)))
    }

    // Advances all parts to `horizon`, on all cores if that takes long. Parts have nothing in common, so that their order
    // does not matter.
    fn advance_parts(&mut self, horizon: Time) -> Result<Vec<JobId>, FlowError> {
        let ended: Vec<Vec<JobId>> = if horizon.since(self.now) > WORTH_A_THREAD {
            let each = self.parts.par_iter_mut().map(|part| part.advance(horizon));
            each.collect::<Result<_, _>>()?
        } else {
            let each = self.parts.iter_mut().map(|part| part.advance(horizon));
            each.collect::<Result<_, _>>()?
        };
        Ok(ended.concat())
    }

    /// Takes the rows of finished iterations, in order of their end. The next iteration of a job begins a new row.
    pub fn take_iterations(&mut self) -> Vec<SimilarIterations> {
        let mut rows = std::mem::take(&mut self.rows.iterations);
        for part in &mut self.parts {
            rows.append(&mut part.rows().iterations);
            for number in 0..part.jobs().len() {
                rows.extend(part.job_mut(number).journal.take_open());
            }
        }
        rows.sort_by_key(|row| (row.end, row.job, row.iteration));
        rows
    }

    /// Takes the adjustments so far, in order of time.
    pub fn take_adjustments(&mut self) -> Vec<AdjustmentRow> {
        let mut rows = std::mem::take(&mut self.rows.adjustments);
        self.parts.iter_mut().for_each(|part| rows.append(&mut part.rows().adjustments));
        rows.sort_by_key(|row| (row.time, row.job));
        rows
    }

    /// Takes the seconds that each job has lost to each other job on each link since the last call: the time lost compared with
    /// an idle network, divided among the others in proportion to what they sent.
    pub fn take_delays(&mut self) -> BTreeMap<Encounter, f64> {
        for part in &mut self.parts {
            part.settle(self.now);
            if let Part::Sharing(component) = part {
                add_delays(&mut self.delays, std::mem::take(&mut component.delays));
            }
        }
        std::mem::take(&mut self.delays)
    }

    /// The traffic of each job on each link since the start of the run.
    pub fn traffic(&mut self) -> BTreeMap<(LinkId, JobId), Traffic> {
        let mut all = self.traffic.clone();
        for part in &mut self.parts {
            part.settle(self.now);
            for (number, job) in part.jobs().iter().enumerate() {
                job.count_traffic(part.sender(number), self.settings.flow_parts, &mut all);
            }
        }
        all
    }

    /// The remaining work of all running jobs.
    pub fn rests(&mut self) -> Vec<Rest> {
        let mut rests = Vec::new();
        for part in &mut self.parts {
            part.settle(self.now);
            let behind = part.behind();
            let now = self.now - behind;
            for (number, job) in part.jobs().iter().enumerate() {
                let (sender, closed_loop) = (part.sender(number), &job.closed_loop);
                let left = if sender.active {
                    sender.time_at_cap()
                } else {
                    job.wake.map_or(Duration::ZERO, |wake| wake.since(now))
                };
                rests.push(Rest {
                    job: job.id,
                    rest: closed_loop.remainder(left),
                    iterations: closed_loop
                        .left()
                        .expect("jobs of a cluster have a number of them"),
                    waits: closed_loop.iteration_start().is_none(),
                    slots: closed_loop.slots().map(|slots| slots.later_by(behind)),
                });
            }
        }
        rests.sort_unstable_by_key(|rest| rest.job);
        rests
    }

    // Determines which links can become full, and thus which jobs share links and which run alone. Most links of a cluster never
    // do, and jobs that have only such links need neither events nor rates.
    fn update_sharing(&mut self) -> Result<(), FlowError> {
        if !std::mem::take(&mut self.moved) {
            return Ok(());
        }
        let mut groups = self.groups();
        // Most placements stay: jobs that share what they shared before stay together.
        let mut loose: Vec<Running> = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            if groups.has(&part) {
                self.parts.push(part);
            } else {
                loose.extend(self.dissolve(part));
            }
        }
        loose.sort_unstable_by_key(|job| groups.key(job.id));
        let mut loose = loose.into_iter().peekable();
        while let Some(first) = loose.next() {
            let group = groups.key(first.id).0;
            let loads = groups.take_loads(first.id);
            if loads.is_empty() {
                self.parts.push(self.alone(first));
                continue;
            }
            let mut jobs = vec![(first, loads)];
            while let Some(next) = loose.next_if(|job| groups.key(job.id).0 == group) {
                let loads = groups.take_loads(next.id);
                jobs.push((next, loads));
            }
            let Self { fabric, settings, model, now, marks, .. } = self;
            let cluster = Cluster { fabric, settings, model };
            let component = Component::new(jobs, &cluster, *now, marks)?;
            self.parts.push(Part::Sharing(Box::new(component)));
        }
        if let Some(model) = &self.model {
            // Links that nobody shares any more hold back no flows.
            for marks in self.marks.values_mut().filter(|marks| marks.flows() > 0) {
                marks.hold(model, self.now, 0);
            }
        }
        self.find_places();
        Ok(())
    }

    // Which jobs share links from now on.
    fn groups(&self) -> Groups {
        let capacity_bps = |link: usize| {
            u128::from(self.fabric.links()[link].rate.as_bps())
                * u128::from(self.settings.flow_parts)
        };
        let can_be_full = |link: usize| self.peak_demand_bps[link] > capacity_bps(link);
        let jobs = self.parts.iter().flat_map(Part::jobs).map(|job| {
            let shared = job.loads.iter().filter(|load| can_be_full(load.link));
            (job.id, shared.copied().collect())
        });
        Groups::new(jobs)
    }

    // Takes the jobs out of a part, by the clock of the run.
    fn dissolve(&mut self, part: Part) -> Vec<Running> {
        let (jobs, mut rows) = match part {
            Part::Alone(alone) => {
                let (job, rows) = alone.into_job(self.now);
                (vec![job], rows)
            }
            Part::Sharing(component) => {
                let (jobs, rows, delays) = component.dissolve(self.now, &mut self.marks);
                add_delays(&mut self.delays, delays);
                (jobs, rows)
            }
        };
        self.rows.repeated += rows.repeated;
        self.rows.iterations.append(&mut rows.iterations);
        self.rows.adjustments.append(&mut rows.adjustments);
        jobs
    }

    fn leave(&mut self, id: JobId) -> Result<Ended, FlowError> {
        let (part, number) = self.place(id);
        self.parts[part].settle(self.now);
        if let Part::Sharing(component) = &self.parts[part] {
            component.check_sent(number)?;
        }
        let mut job = self.take(id);
        self.find_places();
        job.count_traffic(&job.sender, self.settings.flow_parts, &mut self.traffic);
        self.rows.iterations.extend(job.journal.take_open());
        for (link, bps) in job.peak_demands_bps() {
            self.peak_demand_bps[link] -= bps;
        }
        let member = &mut self.members[id.index()];
        member.place = None;
        member.done_before += job.closed_loop.done();
        if job.closed_loop.done() < job.planned {
            member.journal = Some(job.journal);
            return Ok(Ended::Stopped);
        }
        self.summaries.finish(id, member.model, &job.journal.into_tally());
        Ok(Ended::Done)
    }

    // Takes a job out of its part. The others run alone only until the run advances, which finds out with whom they share
    // links.
    fn take(&mut self, id: JobId) -> Running {
        let (part, number) = self.place(id);
        let part = self.parts.swap_remove(part);
        let mut jobs = self.dissolve(part);
        let job = jobs.remove(number);
        for other in jobs {
            let alone = self.alone(other);
            self.parts.push(alone);
        }
        self.moved = true;
        job
    }

    fn find_places(&mut self) {
        for (number, part) in self.parts.iter().enumerate() {
            for (place, job) in part.jobs().iter().enumerate() {
                self.members[job.id.index()].place = Some((number, place));
            }
        }
    }

    // Where a running job runs.
    fn place(&self, id: JobId) -> (usize, usize) {
        self.members[id.index()].place.expect("only running jobs are somewhere")
    }
}

fn loads_of(crossings: &[Crossing]) -> Vec<Load> {
    let load = |crossing: &Crossing| Load {
        link: crossing.link.index(),
        flows: u64::from(crossing.flows),
    };
    crossings.iter().map(load).collect()
}

fn add_delays(all: &mut BTreeMap<Encounter, f64>, more: BTreeMap<Encounter, f64>) {
    for (encounter, lost_s) in more {
        *all.entry(encounter).or_default() += lost_s;
    }
}
