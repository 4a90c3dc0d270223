//! Jobs that share links, directly or through others, and nothing with the rest of the cluster: a network of their own, on a
//! clock of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use hocket_des::{Duration, Time};
use hocket_scenario::closed_loop::{Next, Slots, TooLong};
use hocket_scenario::{Fabric, JobId, LinkId, Records, Share};
use num_integer::Integer;

use crate::allocation::Load;
use crate::cluster::cycle::{Compared, CycleSearch, JobState};
use crate::cluster::running::Running;
use crate::cluster::settings::Settings;
use crate::cluster::skip_ahead::{Rows, Skip, Watch};
use crate::contention::{Contention, Encounter, StreamContention};
use crate::engine::FlowOptions;
use crate::error::FlowError;
use crate::marks::{LinkMarks, MarkModel};
use crate::network::{Network, Owner, Stream, Timer};
use crate::sender::Sender;

pub(super) struct Component {
    /// In order of their numbers. Its position is the number of a job, and of its stream, in the network.
    pub(super) jobs: Vec<Running>,
    /// Has only the shared links.
    network: Network,
    pub(super) rows: Rows,
    /// The seconds that jobs have lost to each other, as far as the network has them no more.
    pub(super) delays: BTreeMap<Encounter, f64>,
    records: Records,
    /// The time that it has skipped, by which its clock is behind that of the run.
    behind: Duration,
    watch: Option<Watch>,
    /// If its jobs do nothing at random: the search for the time after which they repeat themselves.
    cycle: Option<CycleSearch>,
    /// Whether the first job has finished an iteration since states were last compared.
    compares: bool,
    /// What the network counted while jobs were watched.
    watched: Account,
}

/// What a network counted while its jobs were watched.
#[derive(Default)]
struct Account {
    /// By job: the time in which it sent; during the watch, that in which it had sent before.
    busy: Vec<Duration>,
    /// By job, and by link of the fabric.
    contended: Vec<BTreeMap<usize, StreamContention>>,
    delays: BTreeMap<Encounter, f64>,
}

/// What components have in common.
pub(super) struct Cluster<'c> {
    pub(super) fabric: &'c Fabric,
    pub(super) settings: &'c Settings,
    pub(super) model: &'c Option<Arc<MarkModel>>,
}

/// With fewer jobs, computing all rates takes less time than finding those that can change: two thirds of it with two jobs,
/// four fifths with four.
const WORTH_KEEPING: usize = 16;

// Whether all jobs are of one queue, and have weights that stay the same.
fn share_alike(jobs: &[(Running, Vec<Load>)]) -> bool {
    let queue = jobs[0].0.policy.queue;
    let policies = &mut jobs.iter().map(|(job, _)| &job.policy);
    policies.all(|policy| policy.queue == queue && !matches!(policy.share, Share::Adaptive(_)))
}

impl Account {
    fn new(busy: impl Iterator<Item = Duration>) -> Self {
        let busy: Vec<_> = busy.collect();
        let contended = busy.iter().map(|_| BTreeMap::new()).collect();
        Self { busy, contended, delays: BTreeMap::new() }
    }
}

impl Component {
    /// Jobs by the clock of the run, which is at `now`, in order of their numbers, each with the links that it shares. Takes what
    /// is known of the marks of these links out of `marks`.
    pub(super) fn new(
        jobs: Vec<(Running, Vec<Load>)>,
        cluster: &Cluster<'_>,
        now: Time,
        marks: &mut BTreeMap<usize, LinkMarks>,
    ) -> Result<Self, FlowError> {
        let Cluster { fabric, settings, model } = cluster;
        let mut links: Vec<usize> =
            jobs.iter().flat_map(|(_, loads)| loads).map(|load| load.link).collect();
        links.sort_unstable();
        links.dedup();
        let shared = links.len();
        let place = |link: usize| links.binary_search(&link).ok();
        // Only marks need the links before the shared ones.
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        for &(link, earlier) in jobs.iter().flat_map(|(job, _)| &job.inputs) {
            if place(link).is_some() && place(earlier).is_none() {
                let next = shared + before.len();
                before.entry(earlier).or_insert(next);
            }
        }
        let place_before = |link: usize| place(link).unwrap_or_else(|| before[&link]);

        let steps = FlowOptions::default().adaptive_steps;
        let ids = links.iter().map(|&link| LinkId::from_index(link));
        let mut network = Network::new(fabric, ids, settings.goodput.clone(), steps, false);
        network.now = now;
        network.divide_flows(settings.flow_parts);
        if jobs.len() >= WORTH_KEEPING && settings.goodput.is_lossless() && share_alike(&jobs) {
            network.keep_rates();
        }
        let mut ordered = links.clone();
        ordered.resize(shared + before.len(), 0);
        before.iter().for_each(|(&link, &place)| ordered[place] = link);
        let rated =
            ordered.iter().map(|&link| (LinkId::from_index(link), fabric.links()[link].rate));
        network.contention = Some(Contention::new(rated, (*model).clone()));
        for (place, link) in links.iter().enumerate() {
            if let Some(marks) = marks.remove(link) {
                network.resume_marks(place, marks);
            }
        }

        let mut component = Self {
            jobs: Vec::with_capacity(jobs.len()),
            records: Records::of_jobs(jobs.len()),
            network,
            rows: Rows::default(),
            delays: BTreeMap::new(),
            behind: Duration::ZERO,
            watch: None,
            cycle: None,
            compares: false,
            watched: Account::default(),
        };
        for (number, (mut job, loads)) in jobs.into_iter().enumerate() {
            let network = &mut component.network;
            network.policies.push(job.policy.clone());
            let here =
                |load: &Load| Load { link: place(load.link).expect("it is shared"), ..*load };
            let loads: Arc<[Load]> = loads.iter().map(here).collect();
            let owner = Owner::Job { job: number };
            let stream = network.add(owner, JobId::from_index(number), loads, (1, 1));
            let state = &mut network.streams[stream];
            state.sender = std::mem::replace(&mut job.sender, Sender::new());
            let inputs = job.inputs.iter();
            state.inputs = inputs
                .filter_map(|&(link, earlier)| Some((place(link)?, place_before(earlier))))
                .collect();
            // An Up phase continues at the rate that the network allocates.
            if state.sender.active {
                job.wake = None;
                network.attach(stream);
            } else if let Some(wake) = job.wake {
                network.timers.schedule(wake, Timer::Job { job: number });
            }
            component.jobs.push(job);
        }
        let varies = component.jobs.iter().any(|job| job.varies);
        // Weights that grow while a job sends move jobs apart over many iterations, which are not alike.
        let adapts = |job: &Running| matches!(job.policy.share, Share::Adaptive(_));
        let is_steady = !varies || !component.jobs.iter().any(adapts);
        let skip_ahead = settings.skip_ahead.filter(|_| is_steady);
        component.watch = skip_ahead.map(|settings| Watch::new(settings, component.jobs.len()));
        component.cycle = skip_ahead.filter(|_| !varies).map(|_| CycleSearch::default());
        component.share_links()?;
        component.network.end_idle_marks();
        Ok(component)
    }

    /// Its jobs by the clock of the run, which is at `now`. Adds what is known of the marks of its links to `marks`.
    pub(super) fn dissolve(
        mut self,
        now: Time,
        marks: &mut BTreeMap<usize, LinkMarks>,
    ) -> (Vec<Running>, Rows, BTreeMap<Encounter, f64>) {
        self.settle(now);
        for (link, mut state) in self.network.marks() {
            state.postpone(self.behind);
            marks.insert(link.index(), state);
        }
        let streams = self.network.streams.iter_mut();
        for (job, stream) in self.jobs.iter_mut().zip(streams) {
            job.sender = std::mem::replace(&mut stream.sender, Sender::new());
            job.postpone(self.behind);
        }
        (self.jobs, self.rows, self.delays)
    }

    pub(super) fn behind(&self) -> Duration {
        self.behind
    }

    /// The links that a job shares, by their index in the fabric.
    pub(super) fn shared(&self, job: usize) -> impl Iterator<Item = Load> {
        let loads = self.network.streams[job].loads.iter();
        loads.map(|load| Load { link: self.network.link(load.link).index(), ..*load })
    }

    pub(super) fn sender(&self, job: usize) -> &Sender {
        &self.network.streams[job].sender
    }

    /// Checks that a job has sent exactly what its phases had to send by now.
    pub(super) fn check_sent(&self, job: usize) -> Result<(), FlowError> {
        self.network.check_sent(job)
    }

    /// Moves a job to another queue from now on.
    pub(super) fn set_queue(&mut self, job: usize, queue: u8) -> Result<(), FlowError> {
        self.network.set_queue(job, queue);
        self.share_links()
    }

    /// Assigns slots to a job, or removes them. Its next iteration starts at the next slot.
    pub(super) fn align(
        &mut self,
        job: usize,
        now: Time,
        slots: Option<Slots>,
    ) -> Result<(), TooLong> {
        let Running { closed_loop, wake, .. } = &mut self.jobs[job];
        closed_loop.align(now - self.behind, slots.map(|slots| slots.earlier_by(self.behind)))?;
        if let Some(start) = closed_loop.first_start()
            && *wake != Some(start)
            && closed_loop.done() == 0
        {
            *wake = Some(start);
            // The timer of the earlier start becomes stale: it does not match `wake`.
            self.network.timers.schedule(start, Timer::Job { job });
        }
        Ok(())
    }

    /// Begins to watch its jobs anew, since one of them has changed.
    pub(super) fn disturb(&mut self) {
        self.watch.iter_mut().for_each(Watch::restart);
        self.cycle.iter_mut().for_each(CycleSearch::restart);
    }

    /// A time before which no job leaves.
    pub(super) fn earliest_departure(&self, now: Time) -> Time {
        let Some(next) = self.network.timers.peek_time() else {
            return Time::from_ps(u64::MAX);
        };
        let soonest = self.jobs.iter().map(|job| job.earliest_end(now)).min();
        (next + self.behind).max(soonest.unwrap_or(now))
    }

    /// Advances to `until`, before which no job leaves. Returns the jobs that leave then.
    pub(super) fn advance(&mut self, until: Time) -> Result<Vec<usize>, FlowError> {
        let mut ended = Vec::new();
        self.skip_ahead(until);
        while let Some(time) =
            self.network.timers.peek_time().filter(|&time| time <= until - self.behind)
        {
            self.handle_all(time, &mut ended)?;
            if std::mem::take(&mut self.compares) && self.closes_cycle() {
                self.skip_ahead(until);
            } else if self.cycle.is_none() && self.watch.as_ref().is_some_and(Watch::is_due) {
                self.turn();
                self.skip_ahead(until);
            }
        }
        self.network.now = until - self.behind;
        Ok(ended)
    }

    // Handles all events of a time.
    fn handle_all(&mut self, time: Time, ended: &mut Vec<usize>) -> Result<(), FlowError> {
        self.network.now = time;
        while self.network.timers.peek_time() == Some(time) {
            let (_, timer) = self.network.timers.pop().expect("a timer was just seen");
            ended.extend(self.handle(timer)?);
        }
        self.share_links()
    }

    fn share_links(&mut self) -> Result<(), FlowError> {
        self.network.share_links(Time::ZERO, &mut self.records)
    }

    // Handles an event. Returns the job that leaves, if one does.
    fn handle(&mut self, timer: Timer) -> Result<Option<usize>, FlowError> {
        let now = self.network.now;
        let job = match timer {
            Timer::Stream { stream, .. } if self.network.is_current(timer) => {
                match self.network.handle_stream(stream) {
                    Some(Owner::Job { job }) => job,
                    _ => return Ok(None),
                }
            }
            // A timer is stale if the job has got another start.
            Timer::Job { job } if self.jobs[job].wake == Some(now) => job,
            _ => return Ok(None),
        };
        let running = &mut self.jobs[job];
        running.wake = None;
        let next = running.closed_loop.proceed(now, &mut self.records)?;
        self.note_iterations(job);
        match next {
            Next::Wait(time) => {
                self.jobs[job].wake = Some(time);
                self.network.timers.schedule(time, Timer::Job { job });
            }
            Next::Send(_) => {
                self.network.start_phase(job, self.jobs[job].closed_loop.present_phases());
            }
            Next::Leave => return Ok(Some(job)),
        }
        Ok(None)
    }

    // Merges the iterations that a job has just finished into its rows.
    fn note_iterations(&mut self, job: usize) {
        // A cluster has no table of phases.
        self.records.phases.clear();
        let adjustment = self.rows.take_adjustments(&mut self.records, self.behind);
        if self.records.iterations.is_empty() {
            return;
        }
        self.compares |= job == 0 && self.cycle.is_some();
        let running = &mut self.jobs[job];
        let marks = self.network.streams[job].contention.values().map(|link| link.marks).sum();
        for row in self.records.iterations.drain(..) {
            let mut finished = running.iterations(&row, self.behind, 1);
            // If several iterations end at the same time, all but the first have no length, and the first gets all marks.
            finished.marks = marks - std::mem::replace(&mut running.marks_before, marks);
            if let Some(watch) = &mut self.watch {
                watch.note(job, &finished, adjustment);
            }
            running.journal.note(finished, &mut self.rows.iterations);
        }
    }

    // Whether all jobs are where they were before, so that what they did between can be repeated.
    fn closes_cycle(&mut self) -> bool {
        let now = self.network.now;
        let is_cycling = self.watch.as_ref().is_some_and(Watch::is_cycling);
        if is_cycling || !self.cycle.as_ref().is_some_and(CycleSearch::continues) {
            return false;
        }
        let Some(state) = self.state(now) else { return false };
        let Some(search) = &mut self.cycle else { return false };
        match search.compare(now, state) {
            Compared::Differs => false,
            Compared::Replaces => {
                let continues = search.continues();
                // What was counted before does not belong to the cycle.
                self.account();
                if let Some(watch) = &mut self.watch {
                    if continues { watch.begin_cycle(now) } else { watch.restart() }
                }
                self.begin_account();
                false
            }
            Compared::Closes(span) => {
                self.account();
                if let Some(watch) = &mut self.watch {
                    watch.close_cycle(span);
                }
                self.end_account();
                true
            }
        }
    }

    // Where all jobs are; `None` if that does not determine what they do.
    fn state(&mut self, now: Time) -> Option<Vec<JobState>> {
        let jobs = self.jobs.iter().zip(&mut self.network.streams);
        let state = |(job, stream): (&Running, &mut Stream)| {
            if stream.sender.active {
                stream.sender.advance(now);
            }
            Some(JobState {
                position: job.closed_loop.position(now)?,
                remaining: if stream.sender.active { stream.sender.remaining() } else { 0 },
                rate: stream.sender.rate,
                wake: job.wake.map(|wake| wake.since(now)),
            })
        };
        jobs.map(state).collect()
    }

    // Repeats what was watched, where that is before `until`.
    fn skip_ahead(&mut self, until: Time) {
        let Some(watch) = &self.watch else { return };
        let room = until.since(self.network.now + self.behind);
        let left = self.jobs.iter().map(|job| job.closed_loop.left().unwrap_or(0));
        let Some(skip) = watch.skip(room, self.cycle(), left) else { return };
        if !skip.by.is_zero() {
            for job in 0..self.jobs.len() {
                self.repeat(job, skip);
            }
            for (&encounter, lost_s) in &self.watched.delays {
                *self.delays.entry(encounter).or_default() += lost_s * skip.times();
            }
            self.behind += skip.by;
        }
        self.watch.iter_mut().for_each(|watch| watch.skipped(skip));
        if skip.ends {
            self.turn();
        }
    }

    // From warming up to watching, or from watching to repeating.
    fn turn(&mut self) {
        self.account();
        let watch = self.watch.as_mut().expect("only a watch turns");
        if watch.turn(self.network.now) {
            self.end_account();
        } else {
            self.begin_account();
        }
    }

    fn begin_account(&mut self) {
        self.watched = Account::new(self.network.streams.iter().map(|stream| stream.sender.busy()));
    }

    fn end_account(&mut self) {
        let busy = self.watched.busy.iter_mut().zip(&self.network.streams);
        busy.for_each(|(busy, stream)| *busy = stream.sender.busy() - *busy);
    }

    // The shortest time after which all slots are at the same place again: a skip must not move jobs against their slots.
    fn cycle(&self) -> Duration {
        let slots = self.jobs.iter().filter_map(|job| job.closed_loop.slots());
        // Beyond 64 bits they never are.
        let together = slots
            .map(|slots| slots.period.as_ps())
            .try_fold(1_u64, |all, period| (all / all.gcd(&period)).checked_mul(period));
        Duration::from_ps(together.unwrap_or(u64::MAX))
    }

    // Repeats the rows of a job, and what was counted besides.
    fn repeat(&mut self, job: usize, skip: Skip) {
        let Running { closed_loop, journal, done_before, contended, .. } = &mut self.jobs[job];
        let rows = &mut self.rows;
        let (first, left) = (*done_before + closed_loop.done(), closed_loop.left().unwrap_or(0));
        let watch = self.watch.as_mut().expect("only a watch repeats");
        let repeated =
            watch.repeat(job, skip.by, left.saturating_sub(1), &mut |place, row, adjustment| {
                rows.adjustments.extend(adjustment);
                journal.note(row.numbered(first + place), &mut rows.iterations);
            });
        let busy = skip.part_of(self.watched.busy[job]);
        self.network.streams[job].sender.repeat(closed_loop.phases(), repeated, busy);
        closed_loop.skip(repeated);
        rows.repeated += repeated;
        for (&link, counted) in &self.watched.contended[job] {
            let (time, marks) = (skip.part_of(counted.contended), counted.marks * skip.times());
            contended.entry(link).or_default().add(StreamContention { contended: time, marks });
        }
    }

    /// Accounts for everything up to `now`, by the clock of the run.
    pub(super) fn settle(&mut self, now: Time) {
        self.network.now = now - self.behind;
        self.account();
    }

    // Moves what the network has counted to the accounts of its jobs and, while they are watched, to that of the watch.
    fn account(&mut self) {
        let is_watching = self.watch.as_ref().is_some_and(Watch::is_watching);
        for (number, job) in self.jobs.iter_mut().enumerate() {
            self.network.settle_links_of(number);
            let now = self.network.now;
            let state = &mut self.network.streams[number];
            if state.sender.active {
                state.sender.advance(now);
            }
            for (here, counted) in std::mem::take(&mut state.contention) {
                let link = self.network.link(here).index();
                job.marks_before -= counted.marks;
                job.contended.entry(link).or_default().add(counted);
                if is_watching {
                    self.watched.contended[number].entry(link).or_default().add(counted);
                }
            }
        }
        let contention = self.network.contention.as_mut().expect("a cluster records it");
        for (encounter, lost_s) in contention.take_delays() {
            let [job, other] =
                [encounter.job, encounter.other].map(|number| self.jobs[number.index()].id);
            let encounter = Encounter { job, other, ..encounter };
            *self.delays.entry(encounter).or_default() += lost_s;
            if is_watching {
                *self.watched.delays.entry(encounter).or_default() += lost_s;
            }
        }
    }
}
