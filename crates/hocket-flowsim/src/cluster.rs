//! A run of periodic jobs that a scheduler starts, moves and stops. Jobs on links that can become full are run by the events of
//! the network; a job without such links cannot be slowed down, and is run alone in a loop without events.

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
use crate::network::{Network, Owner, Policy, Stream, Timer};
use crate::sender::{Sender, bytes_of};

mod similar_iterations;

pub use crate::contention::Encounter;
pub use similar_iterations::SimilarIterations;

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
    network: Network,
    members: Vec<Member>,
    /// By link: the sum of the peak demands of all running jobs. A link with at least this capacity is never full.
    peak_demand_bps: Vec<u128>,
    /// Whether jobs have started or left, so that other links may become full.
    moved: bool,
    records: Records,
    /// Finished rows that have not been taken yet.
    iterations: Vec<SimilarIterations>,
    /// The traffic of past placements.
    traffic: BTreeMap<(LinkId, JobId), Traffic>,
}

/// How a cluster is run and what is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of all random streams of the run.
    pub seed: u64,
    /// The number of queues that a link serves in strict order.
    pub priority_queues: u8,
    /// Crossings count 1/`flow_parts` of a flow, so that a flow can be spread over several paths. At least 1; times the rate of
    /// a link, it must fit in 60 bits. The model of marks counts whole flows and needs 1.
    pub flow_parts: u64,
    /// The goodput of links for which jobs contend.
    pub goodput: Goodput,
    /// Consecutive iterations are merged into one row if their times differ by no more than this fraction of the duration of
    /// the row's first one; 0 merges only equal iterations.
    pub merge: f64,
    /// The model of ECN marks; `None` counts no marks.
    pub marks: Option<MarkModel>,
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
}

/// Why a job left its placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has done its iterations.
    Done,
    /// It was stopped, and its iteration has ended.
    Stopped,
}

/// The traffic of a job on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// The bytes that it sent.
    pub bytes: Bytes,
    /// The time in which it was sending.
    pub busy: Duration,
    /// The part of that time in which the link was full and other flows sent as well.
    pub contended: Duration,
    /// The expected number of its packets that were marked on the link.
    pub marks: f64,
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
    running: Option<Running>,
}

struct Running {
    closed_loop: ClosedLoop<'static>,
    stream: usize,
    /// All links that it crosses; its stream has only those that can become full.
    loads: Vec<Load>,
    inputs: Vec<(usize, usize)>,
    /// The end of its wait or, for a job alone, of its Up phase.
    wake: Option<Time>,
    /// Whether it crosses links that can become full; otherwise it runs alone.
    shares: bool,
    /// When it will leave, if it runs alone and that has been computed since the last change.
    ends: Option<Time>,
    /// The iterations after which it is done.
    planned: u64,
    /// Packets marked in its iterations before the present one.
    marks_before: f64,
    /// What it had sent when it last changed its links, in picobits, and for how long: this is counted as traffic of the links
    /// before.
    counted: (u128, Duration),
    /// The row that the next iteration may still join.
    open: Option<SimilarIterations>,
}

impl Settings {
    fn queue_of(&self, priority: u8) -> u8 {
        priority.min(self.priority_queues - 1)
    }
}

impl Default for Settings {
    /// Seed 1, one queue, whole flows, no goodput lost, rows only of equal iterations, no marks.
    fn default() -> Self {
        Self {
            seed: 1,
            priority_queues: 1,
            flow_parts: 1,
            goodput: Goodput::default(),
            merge: 0.0,
            marks: None,
        }
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
    /// By link: its peak demand.
    fn peak_demands_bps(&self) -> impl Iterator<Item = (usize, u128)> {
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
        network.divide_flows(settings.flow_parts);
        let link = |(number, link): (usize, &Link)| (LinkId::from_index(number), link.rate);
        let links = fabric.links().iter().enumerate().map(link);
        network.contention = Some(Contention::new(links, settings.marks.clone()));
        Self {
            settings,
            network,
            members: Vec::new(),
            peak_demand_bps: vec![0; fabric.links().len()],
            moved: false,
            records: Records::of_jobs(0),
            iterations: Vec::new(),
            traffic: BTreeMap::new(),
        }
    }

    /// The time up to which the run has advanced.
    pub fn now(&self) -> Time {
        self.network.now
    }

    /// Adds a job, which does not run yet.
    pub fn add(&mut self, name: impl Into<String>) -> JobId {
        self.network.policies.push(Policy { name: name.into(), queue: 0, share: Share::Fair });
        self.records.jobs.push(JobCounters::default());
        self.members.push(Member { starts: 0, done_before: 0, running: None });
        JobId::from_index(self.members.len() - 1)
    }

    /// Starts a job that does not run.
    ///
    /// # Errors
    /// If its first iteration starts after the end of time.
    ///
    /// # Panics
    /// If the job is running, its start lies in the past, it has no iterations, or its crossings have unknown links.
    pub fn start(&mut self, id: JobId, start: Start) -> Result<(), FlowError> {
        assert!(start.at >= self.network.now, "a job starts at {}, now or later", start.at);
        assert!(start.iterations > 0, "a job that starts has something to do");
        let member = &mut self.members[id.index()];
        assert!(member.running.is_none(), "a job runs in one place at a time");
        let policy = &mut self.network.policies[id.index()];
        (policy.queue, policy.share) = (self.settings.queue_of(start.priority), start.share);
        let loads = loads_of(&start.crossings);
        let job = Job {
            arrival: start.at,
            jitter: start.jitter,
            ..Job::new(policy.name.clone(), start.profile, start.crossings)
        };
        // Each start has its own random streams; those of the first are the same as in a run of a scenario.
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
            counted: (0, Duration::ZERO),
            open: None,
        };
        for (link, bps) in running.peak_demands_bps() {
            self.peak_demand_bps[link] += bps;
        }
        member.running = Some(running);
        self.moved = true;
        Ok(())
    }

    /// Assigns slots to a running job, whose next iteration starts at the next slot, or removes them.
    ///
    /// # Errors
    /// If that start lies after the end of time.
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
            // The timer of the earlier start becomes stale: it does not match `wake`.
            if running.shares {
                self.network.timers.schedule(start, Timer::Job { job: id.index() });
            }
        }
        Ok(())
    }

    /// Moves a running job to another queue and to other links from now on, in the middle of a phase if it is sending.
    ///
    /// # Panics
    /// If the job does not run, its crossings have unknown links, or marks are counted: their model knows no queues.
    pub fn reroute(&mut self, id: JobId, priority: u8, crossings: &[Crossing]) {
        assert!(self.settings.marks.is_none(), "marks are not modelled for jobs that are rerouted");
        let queue = self.settings.queue_of(priority);
        self.network.policies[id.index()].queue = queue;
        let running =
            self.members[id.index()].running.as_mut().expect("only running jobs have links");
        let stream = running.stream;
        let loads = loads_of(crossings);
        if loads == running.loads {
            self.network.set_queue(stream, queue);
            return;
        }
        // Off its links, it is a job alone, until sharing is updated.
        if std::mem::take(&mut running.shares) {
            self.network.detach(stream);
        }
        let mut traffic = std::mem::take(&mut self.traffic);
        self.count_traffic(id.index(), &mut traffic);
        self.traffic = traffic;
        let running = self.members[id.index()].running.as_mut().expect("it still runs");
        let state = &mut self.network.streams[stream];
        running.counted = (state.sender.sent(), state.sender.busy());
        state.contention.clear();
        (state.loads, state.inputs) = (Rc::new([]), Vec::new());
        if state.sender.active {
            state.sender.rate = state.sender.cap;
            running.wake = Some(self.network.now + state.sender.time_at_cap());
        }
        self.network.set_queue(stream, queue);
        running.ends = None;
        for (link, bps) in running.peak_demands_bps() {
            self.peak_demand_bps[link] -= bps;
        }
        (running.loads, running.inputs) = (loads, Vec::new());
        for (link, bps) in running.peak_demands_bps() {
            self.peak_demand_bps[link] += bps;
        }
        self.moved = true;
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
        let running = self.members[id.index()].running.as_mut().expect("only running jobs stop");
        if running.closed_loop.iteration_start().is_none() {
            self.leave(id)?;
            return Ok(true);
        }
        running.closed_loop.leave_after_this();
        running.ends = None;
        Ok(false)
    }

    /// When the present iteration of a job started; `None` between two iterations, and for a job that does not run.
    pub fn iteration_start(&self, id: JobId) -> Option<Time> {
        self.members[id.index()].running.as_ref()?.closed_loop.iteration_start()
    }

    /// The number of iterations that a job has done, over all its starts.
    pub fn done(&self, id: JobId) -> u64 {
        let Member { done_before, running, .. } = &self.members[id.index()];
        done_before + running.as_ref().map_or(0, |running| running.closed_loop.done())
    }

    /// Advances the run to `until`, or to the first time at which jobs leave. Returns the jobs that leave then, in order.
    ///
    /// # Errors
    /// If a self-check fails: a link exceeds its rate, or a job does not send all its bytes; and if a job continues beyond the
    /// end of time.
    pub fn advance(&mut self, until: Time) -> Result<Vec<(JobId, Ended)>, FlowError> {
        assert!(until >= self.network.now, "time runs forward");
        self.update_sharing();
        let alone: Vec<usize> = (0..self.members.len())
            .filter(|&job| {
                self.members[job].running.as_ref().is_some_and(|running| !running.shares)
            })
            .collect();
        // Nothing may advance beyond the first departure, after which the scheduler decides. Departures of jobs alone are
        // known in advance; those of other jobs follow from the events up to then.
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

    /// Takes the rows of finished iterations, in order of their end. The next iteration of a job begins a new row.
    pub fn take_iterations(&mut self) -> Vec<SimilarIterations> {
        for member in &mut self.members {
            let open = member.running.as_mut().and_then(|running| running.open.take());
            self.iterations.extend(open);
        }
        let mut rows = std::mem::take(&mut self.iterations);
        rows.sort_by_key(|row| (row.end, row.job, row.iteration));
        rows
    }

    /// Takes the adjustments so far, in order of time.
    pub fn take_adjustments(&mut self) -> Vec<AdjustmentRow> {
        let mut rows = std::mem::take(&mut self.records.adjustments);
        rows.sort_by_key(|row| (row.time, row.job));
        rows
    }

    /// Takes the seconds that each job has lost to each other job on each link since the last call: the time lost compared with
    /// an idle network, divided among the others in proportion to what they sent.
    pub fn take_delays(&mut self) -> BTreeMap<Encounter, f64> {
        for job in 0..self.members.len() {
            self.settle(job);
        }
        self.network.contention.as_mut().expect("a cluster records it").take_delays()
    }

    /// The traffic of each job on each link since the start of the run.
    pub fn traffic(&mut self) -> BTreeMap<(LinkId, JobId), Traffic> {
        let mut all = self.traffic.clone();
        for job in 0..self.members.len() {
            self.count_traffic(job, &mut all);
        }
        all
    }

    /// The remaining work of all running jobs.
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
                rest: closed_loop.remainder(left),
                iterations: closed_loop.left().expect("jobs of a cluster have a number of them"),
                waits: closed_loop.iteration_start().is_none(),
                slots: closed_loop.slots(),
            });
        }
        rests
    }

    // Determines which links can become full, and thus which jobs share links and which run alone. Most links of a cluster never
    // do, and jobs that have only such links need neither events nor rates.
    fn update_sharing(&mut self) {
        if !std::mem::take(&mut self.moved) {
            return;
        }
        for job in 0..self.members.len() {
            let Some(running) = &mut self.members[job].running else { continue };
            let (demand_bps, network) = (&self.peak_demand_bps, &self.network);
            let can_be_full =
                |link: usize| demand_bps[link] > u128::from(network.capacity_bps(link));
            let crossed = running.loads.iter().filter(|load| can_be_full(load.link));
            let loads: Rc<[Load]> = crossed.copied().collect();
            let inputs = running.inputs.iter().filter(|(link, _)| can_be_full(*link));
            let inputs = inputs.copied().collect();
            let (stream, shared) = (running.stream, running.shares);
            // Most placements stay: their streams and timers remain valid.
            if loads == self.network.streams[stream].loads {
                continue;
            }
            if shared {
                self.network.detach(stream);
            }
            (running.shares, running.ends) = (!loads.is_empty(), None);
            let state = &mut self.network.streams[stream];
            (state.loads, state.inputs) = (loads, inputs);
            // An Up phase continues at the rate that the network allocates, or at its demand if the job now runs alone. A
            // wait continues and needs a timer if it had none.
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

    // Handles the events of jobs that share links, up to `until` or the first time at which some of them leave. Returns this time.
    fn run_shared(&mut self, until: Time, ended: &mut Vec<JobId>) -> Result<Time, FlowError> {
        // Jobs may have started or left since the last call.
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
            // A timer is stale if the job has left, runs alone by now, or has got another start.
            Timer::Job { job } => match &self.members[job].running {
                Some(running) if running.shares && running.wake == Some(now) => job,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let running = self.members[job].running.as_mut().expect("stale timers are skipped");
        running.wake = None;
        let next = running.closed_loop.proceed(now, &mut self.records)?;
        self.note_iterations(job);
        let running = self.members[job].running.as_mut().expect("it is still there");
        match next {
            Next::Wait(time) => {
                running.wake = Some(time);
                self.network.timers.schedule(time, Timer::Job { job });
            }
            Next::Send(_) => {
                self.network.start_phase(running.stream, running.closed_loop.present_phases());
            }
            Next::Leave => return Ok(Some(job)),
        }
        Ok(None)
    }

    // When a job alone will leave if nothing changes. Computed on a copy, so that its random streams stay as they are, and cached
    // until something changes.
    fn end_alone(&mut self, job: usize) -> Result<Time, FlowError> {
        let running = self.members[job].running.as_mut().expect("it runs");
        if let Some(ends) = running.ends {
            return Ok(ends);
        }
        let adjustments = self.records.adjustments.len();
        let Stream { share, sender, .. } = &self.network.streams[running.stream];
        let (share, mut sender) = (*share, sender.clone());
        let (mut closed_loop, mut wake) = (running.closed_loop.clone(), running.wake);
        let mut alone =
            Alone { closed_loop: &mut closed_loop, wake: &mut wake, share, sender: &mut sender };
        let forever = Time::from_ps(u64::MAX);
        let ends = alone.advance(forever, &mut self.records, &mut |_, _| {})?;
        // These adjustments have not happened yet.
        self.records.adjustments.truncate(adjustments);
        let ends = ends.expect("a job alone has a last iteration");
        running.ends = Some(ends);
        Ok(ends)
    }

    // Advances a job alone to `until`. Returns whether it has left.
    fn run_alone(&mut self, job: usize, until: Time) -> Result<bool, FlowError> {
        let Member { done_before, running, .. } = &mut self.members[job];
        let Running { closed_loop, stream, wake, open, .. } = running.as_mut().expect("it runs");
        let Stream { share, sender, .. } = &mut self.network.streams[*stream];
        let (iterations, merge) = (&mut self.iterations, self.settings.merge);
        let mut alone = Alone { closed_loop, wake, share: *share, sender };
        let ends = alone.advance(until, &mut self.records, &mut |row, count| {
            iterations.extend(SimilarIterations::new(row, *done_before, count).join(open, merge));
        })?;
        Ok(ends.is_some())
    }

    // Merges the iterations that a job has just finished into its rows.
    fn note_iterations(&mut self, job: usize) {
        // A cluster has no table of phases.
        self.records.phases.clear();
        if self.records.iterations.is_empty() {
            return;
        }
        let Member { done_before, running, .. } = &mut self.members[job];
        let Running { stream, open, marks_before, .. } = running.as_mut().expect("it runs");
        let marks = self.network.streams[*stream].contention.values().map(|link| link.marks).sum();
        for row in self.records.iterations.drain(..) {
            let mut finished = SimilarIterations::new(&row, *done_before, 1);
            // If several iterations end at the same time, all but the first have no length, and the first gets all marks.
            finished.marks = marks - std::mem::replace(marks_before, marks);
            self.iterations.extend(finished.join(open, self.settings.merge));
        }
    }

    fn leave(&mut self, id: JobId) -> Result<Ended, FlowError> {
        let mut traffic = std::mem::take(&mut self.traffic);
        self.count_traffic(id.index(), &mut traffic);
        self.traffic = traffic;
        let member = &mut self.members[id.index()];
        let running = member.running.take().expect("a job that leaves was running");
        member.done_before += running.closed_loop.done();
        self.network.check_sent(running.stream)?;
        for (link, bps) in running.peak_demands_bps() {
            self.peak_demand_bps[link] -= bps;
        }
        self.iterations.extend(running.open);
        self.network.remove(running.stream);
        self.moved = true;
        let is_done = running.closed_loop.done() == running.planned;
        Ok(if is_done { Ended::Done } else { Ended::Stopped })
    }

    // Adds the traffic of a running job since its last start.
    fn count_traffic(&mut self, job: usize, traffic: &mut BTreeMap<(LinkId, JobId), Traffic>) {
        self.settle(job);
        let Some(running) = &self.members[job].running else { return };
        let stream = &mut self.network.streams[running.stream];
        stream.sender.advance(self.network.now);
        for load in &running.loads {
            let key = (LinkId::from_index(load.link), JobId::from_index(job));
            let total = traffic.entry(key).or_default();
            let bytes = bytes_of(stream.sender.sent() - running.counted.0, load.flows);
            total.bytes += Bytes::new(bytes.get() / self.settings.flow_parts);
            total.busy += stream.sender.busy() - running.counted.1;
            if let Some(contention) = stream.contention.get(&load.link) {
                total.contended += contention.contended;
                total.marks += contention.marks;
            }
        }
    }

    // Accounts for the contention of a running job up to now.
    fn settle(&mut self, job: usize) {
        if let Some(running) = self.members[job].running.as_ref().filter(|running| running.shares) {
            self.network.settle_links_of(running.stream);
        }
    }
}

fn loads_of(crossings: &[Crossing]) -> Vec<Load> {
    let load = |crossing: &Crossing| Load {
        link: crossing.link.index(),
        flows: u64::from(crossing.flows),
    };
    crossings.iter().map(load).collect()
}

/// A job that runs alone: each of its phases takes as long as on an idle network.
struct Alone<'m> {
    closed_loop: &'m mut ClosedLoop<'static>,
    wake: &'m mut Option<Time>,
    share: Share,
    sender: &'m mut Sender,
}

impl Alone<'_> {
    /// Advances the job to `until`. Calls `finished` for each finished iteration, or once for a number of identical ones with the
    /// row of the first. Returns when the job has left, if it has.
    fn advance(
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
            let next = self.closed_loop.proceed(now, records)?;
            records.iterations.drain(..).for_each(|row| finished(&row, 1));
            records.phases.clear();
            *self.wake = match next {
                Next::Wait(time) => Some(time),
                Next::Send(phase) => {
                    self.sender.start_phase(now, self.share, self.closed_loop.present_phases());
                    self.sender.rate = phase.rate;
                    Some(now + phase.duration)
                }
                Next::Leave => {
                    *self.wake = None;
                    return Ok(Some(now));
                }
            };
            self.skip_identical(now, until, finished);
        }
        Ok(None)
    }

    // Skips identical iterations, so that simulating a job alone without jitter takes no longer for more iterations.
    fn skip_identical(
        &mut self,
        now: Time,
        until: Time,
        finished: &mut dyn FnMut(&IterationRow, u64),
    ) {
        let count = self.closed_loop.identical_until(now, until);
        if count > 0 {
            let (first, span) = self.closed_loop.leap(count);
            finished(&first, count);
            self.sender.skip(self.closed_loop.phases(), count, span);
            *self.wake = self.wake.map(|wake| wake + span);
        }
    }
}
