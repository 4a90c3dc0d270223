//! A run that periodic jobs join, move in and leave while it goes on, as a scheduler says. Jobs on links that can be full are
//! run by the network's events; one that crosses none needs no events and is run in a loop of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use hocket_des::{Bytes, Duration, Time};
use hocket_scenario::closed_loop::{ClosedLoop, Next, Slots, TooLong};
use hocket_scenario::{
    AdjustmentRow, Crossing, Fabric, IterationRow, Job, JobCounters, JobId, Link, LinkId, Profile,
    Records, Share,
};

use crate::allocation::Load;
use crate::contention::Contention;
use crate::engine::FlowOptions;
use crate::error::FlowError;
use crate::goodput::Goodput;
use crate::marks::MarkModel;
use crate::network::{Network, Owner, Policy, Timer};
use crate::sender::{Sender, bytes_of, picobits};

mod similar_iterations;

pub use crate::contention::Encounter;
pub use similar_iterations::SimilarIterations;

/// A run that goes on as far as it is told to.
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
    network: Network,
    members: Vec<Member>,
    /// By link: what all that runs over it sends at most. A link that carries that is never full.
    asked_bps: Vec<u128>,
    /// Who runs where has changed, so that jobs may meet on other links.
    moved: bool,
    records: Records,
    stretches: Vec<SimilarIterations>,
    traffic: BTreeMap<(LinkId, JobId), Traffic>,
}

/// How a run is done and what it records.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Every random stream of the run comes from this.
    pub seed: u64,
    /// How many queues a link serves in strict order.
    pub priority_queues: u8,
    /// The goodput that links lose to contention.
    pub goodput: Goodput,
    /// Iterations one after another become one row if they differ by no more than this share of the first one's duration: 0
    /// joins only equal ones.
    pub merge: f64,
    /// How many packets full links mark, if that is asked for.
    pub marks: Option<MarkModel>,
}

/// How a job starts on a placement.
#[derive(Clone, Debug)]
pub struct Start {
    /// One iteration on an idle network.
    pub profile: Profile,
    /// The links that its flows take; none for a job on one host.
    pub crossings: Vec<Crossing>,
    /// For marks: by link those before it on the ways of its flows, each once.
    pub inputs: Vec<(LinkId, LinkId)>,
    /// When its first iteration starts, not before now.
    pub at: Time,
    /// After so many it is done; at least 1.
    pub iterations: u64,
    /// How it shares a link within its queue.
    pub share: Share,
    /// 0 goes first.
    pub priority: u8,
    /// As of [`Job`].
    pub jitter: f64,
}

/// How a job's stay on its placement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has done its iterations.
    Done,
    /// It was told to stop, and its iteration is over.
    Stopped,
}

/// What a job sent over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Data.
    pub bytes: Bytes,
    /// How long it was sending.
    pub busy: Duration,
    /// How long of that it met other flows there and the link was full.
    pub contended: Duration,
    /// Its packets that were marked there, on average over many such runs.
    pub marks: f64,
}

/// What a running job has still to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// The job.
    pub job: JobId,
    /// What is left of its iteration, as on an idle network, or of the wait for the next one. Nothing if it begins one now.
    pub rest: Option<Profile>,
    /// Iterations left, the one under way included.
    pub iterations: u64,
    /// Whether it is between iterations, or has not begun the first.
    pub waits: bool,
    /// Where its iterations start, if it has slots.
    pub slots: Option<Slots>,
}

struct Member {
    /// How often it has started.
    starts: u64,
    /// Iterations done before the last start.
    done_before: u64,
    running: Option<Running>,
}

struct Running {
    closed_loop: ClosedLoop<'static>,
    stream: usize,
    /// All links that it crosses; its stream has those that can be full.
    loads: Vec<Load>,
    inputs: Vec<(usize, usize)>,
    /// The end of its wait, or, of a job alone, of what it sends.
    wake: Option<Time>,
    shares: bool,
    /// Of a job alone: when it will end, if that was looked for.
    ends: Option<Time>,
    /// The iterations that it was to do.
    planned: u64,
    /// Packets marked in its iterations before this one.
    marks_before: f64,
    open: Option<SimilarIterations>,
}

impl Settings {
    fn queue_of(&self, priority: u8) -> u8 {
        priority.min(self.priority_queues - 1)
    }
}

impl Default for Settings {
    /// Seed 1, one queue, no goodput lost, no rows joined but equal ones, no marks.
    fn default() -> Self {
        Self { seed: 1, priority_queues: 1, goodput: Goodput::default(), merge: 0.0, marks: None }
    }
}

impl Start {
    /// One iteration from the start of the run on, without jitter, with a fair share.
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
        }
    }
}

impl Running {
    /// By link, what it sends there at most.
    fn asks_bps(&self) -> impl Iterator<Item = (usize, u128)> {
        let most = self.closed_loop.phases().iter().map(|phase| phase.rate.as_bps()).max();
        let most_bps = u128::from(most.unwrap_or(0));
        self.loads.iter().map(move |load| (load.link, most_bps * u128::from(load.flows)))
    }
}

impl ClusterRun {
    /// A fabric without jobs.
    pub fn new(fabric: &Fabric, settings: Settings) -> Self {
        let links = (0..fabric.links().len()).map(LinkId::from_index);
        let steps = FlowOptions::default().adaptive_steps;
        let mut network = Network::new(fabric, links, settings.goodput.clone(), steps, false);
        let link = |(number, link): (usize, &Link)| (LinkId::from_index(number), link.rate);
        let links = fabric.links().iter().enumerate().map(link);
        network.contention = Some(Contention::new(links, settings.marks.clone()));
        Self {
            settings,
            network,
            members: Vec::new(),
            asked_bps: vec![0; fabric.links().len()],
            moved: false,
            records: Records::of_jobs(0),
            stretches: Vec::new(),
            traffic: BTreeMap::new(),
        }
    }

    /// How far the run is.
    pub fn now(&self) -> Time {
        self.network.now
    }

    /// A job that does not run yet.
    pub fn add(&mut self, name: impl Into<String>) -> JobId {
        self.network.policies.push(Policy { name: name.into(), queue: 0, share: Share::Fair });
        self.records.jobs.push(JobCounters::default());
        self.members.push(Member { starts: 0, done_before: 0, running: None });
        JobId::from_index(self.members.len() - 1)
    }

    /// Lets a job run that does not.
    ///
    /// # Errors
    /// If its first iteration starts after the end of time.
    ///
    /// # Panics
    /// If the job runs, its start lies before now, it has no iteration to do or its crossings name links that do not exist.
    pub fn start(&mut self, id: JobId, start: Start) -> Result<(), FlowError> {
        assert!(start.at >= self.network.now, "a job starts at {}, now or later", start.at);
        assert!(start.iterations > 0, "a job that starts has something to do");
        let member = &mut self.members[id.index()];
        assert!(member.running.is_none(), "a job runs in one place at a time");
        let policy = &mut self.network.policies[id.index()];
        (policy.queue, policy.share) = (self.settings.queue_of(start.priority), start.share);
        let load = |crossing: &Crossing| Load {
            link: crossing.link.index(),
            flows: u64::from(crossing.flows),
        };
        let loads: Vec<Load> = start.crossings.iter().map(load).collect();
        let job = Job {
            arrival: start.at,
            jitter: start.jitter,
            ..Job::new(policy.name.clone(), start.profile, start.crossings)
        };
        // Each start draws anew; the first one as a run of a scenario would.
        let streams = (self.settings.seed, u64::from(id.code()) | member.starts << 32);
        let counters = &mut self.records.jobs[id.index()];
        let closed_loop =
            ClosedLoop::begin(Cow::Owned(job), id, Some(start.iterations), streams, counters)?;
        member.starts += 1;
        let stream = self.network.add(Owner::Job { job: id.index() }, id, Rc::new([]), (1, 1));
        let input = |(link, before): (LinkId, LinkId)| (link.index(), before.index());
        let running = Running {
            wake: closed_loop.first_start(),
            closed_loop,
            stream,
            loads,
            inputs: start.inputs.into_iter().map(input).collect(),
            shares: false,
            ends: None,
            planned: start.iterations,
            marks_before: 0.0,
            open: None,
        };
        for (link, asked_bps) in running.asks_bps() {
            self.asked_bps[link] += asked_bps;
        }
        member.running = Some(running);
        self.moved = true;
        Ok(())
    }

    /// Gives a running job slots, at one of which its next iteration starts, or takes them away.
    ///
    /// # Errors
    /// If that start would come after the end of time.
    ///
    /// # Panics
    /// If the job does not run.
    pub fn align(&mut self, id: JobId, slots: Option<Slots>) -> Result<(), FlowError> {
        let running =
            self.members[id.index()].running.as_mut().expect("only running jobs have slots");
        running.closed_loop.align(self.network.now, slots)?;
        running.ends = None;
        if let Some(start) = running.closed_loop.first_start()
            && running.wake != Some(start)
            && running.closed_loop.done() == 0
        {
            running.wake = Some(start);
            if running.shares {
                self.network.timers.schedule(start, Timer::Job { job: id.index() });
            }
        }
        Ok(())
    }

    /// Ends a job's stay at the end of its iteration. One that is between iterations, or has not begun the first, ends at once,
    /// and whether it did comes back.
    ///
    /// # Errors
    /// If it has not sent all that its iterations had to send.
    ///
    /// # Panics
    /// If the job does not run.
    pub fn stop(&mut self, id: JobId) -> Result<bool, FlowError> {
        let running = self.members[id.index()].running.as_mut().expect("only running jobs stop");
        if running.closed_loop.iteration_start().is_none() {
            self.leave(id)?;
            return Ok(true);
        }
        running.closed_loop.leave_after_this();
        running.ends = None;
        Ok(false)
    }

    /// When the iteration that a job is in started; nothing between two of them and for a job that does not run.
    pub fn iteration_start(&self, id: JobId) -> Option<Time> {
        self.members[id.index()].running.as_ref()?.closed_loop.iteration_start()
    }

    /// Iterations that a job has done.
    pub fn done(&self, id: JobId) -> u64 {
        let member = &self.members[id.index()];
        member.done_before + member.running.as_ref().map_or(0, |its| its.closed_loop.done())
    }

    /// Goes on until `until`, or to the first time at which a job ends: those that do then, in order.
    ///
    /// # Errors
    /// If one of the run's own checks fails: no link above its rate at any time, all bytes of every job sent.
    pub fn advance(&mut self, until: Time) -> Result<Vec<(JobId, Ended)>, FlowError> {
        assert!(until >= self.network.now, "time runs forward");
        self.choose_ways();
        let alone: Vec<usize> = (0..self.members.len())
            .filter(|&job| self.members[job].running.as_ref().is_some_and(|its| !its.shares))
            .collect();
        let mut reached = until;
        for &job in &alone {
            reached = reached.min(self.end_alone(job)?);
        }
        let mut ended = Vec::new();
        reached = self.run_shared(reached, &mut ended)?;
        self.network.now = reached;
        for &job in &alone {
            if self.run_alone(job, reached)? {
                ended.push(JobId::from_index(job));
            }
        }
        ended.sort_unstable();
        ended.into_iter().map(|id| Ok((id, self.leave(id)?))).collect()
    }

    /// Rows of iterations that were not taken yet, in order of their end; those that a later iteration may still join are among
    /// them.
    pub fn take_iterations(&mut self) -> Vec<SimilarIterations> {
        for member in &mut self.members {
            let open = member.running.as_mut().and_then(|its| its.open.take());
            self.stretches.extend(open);
        }
        let mut rows = std::mem::take(&mut self.stretches);
        rows.sort_by_key(|row| (row.end, row.job, row.iteration));
        rows
    }

    /// Adjustments that were not taken yet, in order of time.
    pub fn take_adjustments(&mut self) -> Vec<AdjustmentRow> {
        let mut rows = std::mem::take(&mut self.records.adjustments);
        rows.sort_by_key(|row| (row.time, row.job));
        rows
    }

    /// Seconds that a job lost to another one on a link since they were last taken: the time in which it was slower there than on an
    /// idle network, shared out by what the others sent.
    pub fn take_delays(&mut self) -> BTreeMap<Encounter, f64> {
        for job in 0..self.members.len() {
            self.settle(job);
        }
        self.network.contention.as_mut().expect("a cluster's is watched").take_delays()
    }

    /// What each job sent over each link so far.
    pub fn traffic(&mut self) -> BTreeMap<(LinkId, JobId), Traffic> {
        let mut all = self.traffic.clone();
        for job in 0..self.members.len() {
            self.count_traffic(job, &mut all);
        }
        all
    }

    /// All running jobs.
    pub fn rests(&mut self) -> Vec<Rest> {
        let now = self.network.now;
        let mut rests = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let Some(Running { closed_loop, stream, wake, .. }) = &member.running else { continue };
            let sender = &mut self.network.streams[*stream].sender;
            let left = if sender.active {
                sender.advance(now);
                sender.time_at_cap()
            } else {
                wake.map_or(Duration::ZERO, |wake| wake.since(now))
            };
            rests.push(Rest {
                job: JobId::from_index(index),
                rest: closed_loop.rest(left),
                iterations: closed_loop.left().expect("jobs of a cluster have a number of them"),
                waits: closed_loop.iteration_start().is_none(),
                slots: closed_loop.slots(),
            });
        }
        rests
    }

    // Jobs meet on links that can be full; who crosses none goes alone, who does by events.
    fn choose_ways(&mut self) {
        if !std::mem::take(&mut self.moved) {
            return;
        }
        for job in 0..self.members.len() {
            let Some(running) = &mut self.members[job].running else { continue };
            let (asked_bps, network) = (&self.asked_bps, &self.network);
            let can_be_full =
                |link: usize| asked_bps[link] > u128::from(network.capacity_bps(link));
            let crossed = running.loads.iter().filter(|load| can_be_full(load.link));
            let loads: Rc<[Load]> = crossed.copied().collect();
            let inputs = running.inputs.iter().filter(|(link, _)| can_be_full(*link));
            let inputs = inputs.copied().collect();
            let (stream, shared) = (running.stream, running.shares);
            if loads == self.network.streams[stream].loads {
                continue;
            }
            if shared {
                self.network.detach(stream);
            }
            (running.shares, running.ends) = (!loads.is_empty(), None);
            let state = &mut self.network.streams[stream];
            (state.loads, state.inputs) = (loads, inputs);
            if state.sender.active && running.shares {
                running.wake = None;
                self.network.attach(stream);
            } else if state.sender.active {
                state.sender.rate = state.sender.cap;
                running.wake = Some(self.network.now + state.sender.time_at_cap());
            } else if let Some(wake) = running.wake.filter(|_| running.shares && !shared) {
                self.network.timers.schedule(wake, Timer::Job { job });
            }
        }
    }

    // The events of jobs that share links, up to `until` or the first time at which one of them ends.
    fn run_shared(&mut self, until: Time, ended: &mut Vec<JobId>) -> Result<Time, FlowError> {
        // What changed since the last call counts from now on.
        self.network.share_links(Time::ZERO, &mut self.records)?;
        while let Some(time) = self.network.timers.peek_time().filter(|&time| time <= until) {
            self.network.now = time;
            while self.network.timers.peek_time() == Some(time) {
                let (_, timer) = self.network.timers.pop().expect("a timer was just seen");
                if let Some(job) = self.handle(timer)? {
                    ended.push(JobId::from_index(job));
                }
            }
            self.network.share_links(Time::ZERO, &mut self.records)?;
            if !ended.is_empty() {
                return Ok(time);
            }
        }
        Ok(until)
    }

    // The job that has ended, if one has.
    fn handle(&mut self, timer: Timer) -> Result<Option<usize>, FlowError> {
        let now = self.network.now;
        let job = match timer {
            Timer::Stream { stream, .. } if self.network.counts(timer) => {
                match self.network.reached(stream) {
                    Some(Owner::Job { job }) => job,
                    _ => return Ok(None),
                }
            }
            Timer::Job { job } => match &self.members[job].running {
                Some(running) if running.shares && running.wake == Some(now) => job,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let running = self.members[job].running.as_mut().expect("timers of others do not count");
        running.wake = None;
        let next = running.closed_loop.go_on(now, &mut self.records)?;
        self.note_iterations(job);
        let running = self.members[job].running.as_mut().expect("it is still there");
        match next {
            Next::Wait(time) => {
                running.wake = Some(time);
                self.network.timers.schedule(time, Timer::Job { job });
            }
            Next::Send(phase) => {
                let total = picobits(phase.rate, phase.duration);
                self.network.start(running.stream, phase.rate, total);
            }
            Next::Leave => return Ok(Some(job)),
        }
        Ok(None)
    }

    // When a job alone will end, as it stands: its random streams are looked into, not drawn from.
    fn end_alone(&mut self, job: usize) -> Result<Time, FlowError> {
        let running = self.members[job].running.as_mut().expect("it runs");
        if let Some(ends) = running.ends {
            return Ok(ends);
        }
        let adjustments = self.records.adjustments.len();
        let mut sender = self.network.streams[running.stream].sender.clone();
        let (mut closed_loop, mut wake) = (running.closed_loop.clone(), running.wake);
        let mut alone =
            Alone { closed_loop: &mut closed_loop, wake: &mut wake, sender: &mut sender };
        let forever = Time::from_ps(u64::MAX);
        let ends = alone.go_on(forever, &mut self.records, &mut |_, _| {})?;
        self.records.adjustments.truncate(adjustments);
        let ends = ends.expect("a job alone comes to its end");
        running.ends = Some(ends);
        Ok(ends)
    }

    // Moves a job alone on to `until`; whether it has ended.
    fn run_alone(&mut self, job: usize, until: Time) -> Result<bool, FlowError> {
        let Member { done_before, running, .. } = &mut self.members[job];
        let Running { closed_loop, stream, wake, open, .. } = running.as_mut().expect("it runs");
        let sender = &mut self.network.streams[*stream].sender;
        let (stretches, merge) = (&mut self.stretches, self.settings.merge);
        let mut alone = Alone { closed_loop, wake, sender };
        let ends = alone.go_on(until, &mut self.records, &mut |row, count| {
            stretches.extend(SimilarIterations::new(row, *done_before, count).join(open, merge));
        })?;
        Ok(ends.is_some())
    }

    // Joins the iterations that a job has just finished to its rows.
    fn note_iterations(&mut self, job: usize) {
        self.records.phases.clear();
        if self.records.iterations.is_empty() {
            return;
        }
        let Member { done_before, running, .. } = &mut self.members[job];
        let Running { stream, open, marks_before, .. } = running.as_mut().expect("it runs");
        let marks = self.network.streams[*stream].met.values().map(|met| met.marks).sum();
        for row in self.records.iterations.drain(..) {
            let mut stretch = SimilarIterations::new(&row, *done_before, 1);
            // Of several that end at once, those without length, the first had them all.
            stretch.marks = marks - std::mem::replace(marks_before, marks);
            self.stretches.extend(stretch.join(open, self.settings.merge));
        }
    }

    fn leave(&mut self, id: JobId) -> Result<Ended, FlowError> {
        let mut traffic = std::mem::take(&mut self.traffic);
        self.count_traffic(id.index(), &mut traffic);
        self.traffic = traffic;
        let member = &mut self.members[id.index()];
        let running = member.running.take().expect("who leaves was there");
        member.done_before += running.closed_loop.done();
        self.network.check_sent(running.stream)?;
        for (link, asked_bps) in running.asks_bps() {
            self.asked_bps[link] -= asked_bps;
        }
        self.stretches.extend(running.open);
        self.network.remove(running.stream);
        self.moved = true;
        let is_done = running.closed_loop.done() == running.planned;
        Ok(if is_done { Ended::Done } else { Ended::Stopped })
    }

    // Adds what a running job has sent since its start.
    fn count_traffic(&mut self, job: usize, traffic: &mut BTreeMap<(LinkId, JobId), Traffic>) {
        self.settle(job);
        let Some(running) = &self.members[job].running else { return };
        let stream = &mut self.network.streams[running.stream];
        stream.sender.advance(self.network.now);
        for load in &running.loads {
            let key = (LinkId::from_index(load.link), JobId::from_index(job));
            let total = traffic.entry(key).or_default();
            total.bytes += bytes_of(stream.sender.sent(), load.flows);
            total.busy += stream.sender.busy();
            if let Some(met) = stream.met.get(&load.link) {
                total.contended += met.contended;
                total.marks += met.marks;
            }
        }
    }

    // Accounts for what a running job met so far.
    fn settle(&mut self, job: usize) {
        if let Some(running) = self.members[job].running.as_ref().filter(|its| its.shares) {
            self.network.settle_links_of(running.stream);
        }
    }
}

/// A job that meets nobody: each of its phases takes as long as on an idle network.
struct Alone<'m> {
    closed_loop: &'m mut ClosedLoop<'static>,
    wake: &'m mut Option<Time>,
    sender: &'m mut Sender,
}

impl Alone<'_> {
    /// Goes on to `until`, telling of each iteration that it finishes, or of so many equal ones, the first of which it
    /// shows. When the job has left, if it has.
    fn go_on(
        &mut self,
        until: Time,
        records: &mut Records,
        finished: &mut dyn FnMut(&IterationRow, u64),
    ) -> Result<Option<Time>, TooLong> {
        while let Some(now) = self.wake.filter(|&wake| wake <= until) {
            if self.sender.active {
                self.sender.advance(now);
                self.sender.stop();
            }
            let next = self.closed_loop.go_on(now, records)?;
            records.iterations.drain(..).for_each(|row| finished(&row, 1));
            records.phases.clear();
            *self.wake = match next {
                Next::Wait(time) => Some(time),
                Next::Send(phase) => {
                    self.sender.start(now, phase.rate, picobits(phase.rate, phase.duration));
                    self.sender.rate = phase.rate;
                    Some(now + phase.duration)
                }
                Next::Leave => {
                    *self.wake = None;
                    return Ok(Some(now));
                }
            };
            self.leap(now, until, finished);
        }
        Ok(None)
    }

    // Passes over iterations that are all alike.
    fn leap(&mut self, now: Time, until: Time, finished: &mut dyn FnMut(&IterationRow, u64)) {
        let alike = self.closed_loop.alike_until(now, until);
        if alike > 0 {
            let (first, span) = self.closed_loop.leap(alike);
            finished(&first, alike);
            self.sender.pass_over(self.closed_loop.phases(), alike, span);
            *self.wake = self.wake.map(|wake| wake + span);
        }
    }
}
