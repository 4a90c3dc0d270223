//! The event loop: lets jobs send, and shares links anew among those that meet when one of them
//! starts or stops. Jobs that nothing touches and links without traffic cost nothing.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU64};
use std::ops::ControlFlow;

use hocket_des::{EventQueue, Rate, Time};
use hocket_scenario::closed_loop::{ClosedLoop, Next};
use hocket_scenario::{JobId, LinkId, LinkRow, RateRow, Records, Scenario, Share, Tables};

use crate::RunError;
use crate::allocation::{Allocator, Claim, Load};
use crate::sender::{Sender, bytes_of};

/// How a run is done and what it records; what is simulated is left to the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// An adaptive weight changes with every such part of an Up phase, and has within it the value
    /// of its middle.
    pub adaptive_steps: NonZeroU16,
    /// Changes of rate from then on are not recorded: a long run has millions.
    pub rates_until: Time,
    /// The callback is called after so many events.
    pub progress_every: NonZeroU64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub time: Time,
    /// Iterations finished by all jobs together.
    pub iterations_done: u64,
    /// Iterations that all jobs have together, if each has a number of them.
    pub iterations_total: Option<u64>,
    /// Events so far.
    pub events: u64,
}

/// What a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Ends of waits and of Up phases, and steps of adaptive weights.
    pub events: u64,
    /// How often links were shared anew.
    pub reallocations: u64,
    /// Rates computed in those, over all jobs.
    pub rates: u64,
}

/// Whether a run reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All jobs left, or the end of the scenario came.
    Complete,
    /// The progress callback stopped it: the tables hold what was finished by then.
    Interrupted,
}

/// What came out of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Iterations, phases, rates, links, adjustments, jobs.
    pub tables: Tables,
    /// What the run cost.
    pub counters: Counters,
    /// Whether it reached its end.
    pub status: Status,
    /// The simulated time at which it ended.
    pub ended: Time,
}

/// Runs `scenario`. The same scenario and options give the same outcome; renaming or reordering
/// jobs without jitter or clock error changes nothing but their order. `progress` can stop the run.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use hocket_des::{Duration, Rate};
/// use hocket_flowsim::{Options, run};
/// use hocket_scenario::{
///     Column, Crossing, Fabric, Job, LinkId, Phase, Profile, Scenario, Stop,
/// };
///
/// // Two jobs that want 40 Gbps for half of 240 ms meet on 50 Gbps, half a period apart.
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
/// let outcome = run(&scenario, &Options::default(), |_| ControlFlow::Continue(()))?;
/// let Some(Column::F64(p99_s)) = outcome.tables.jobs.column("p99_iteration_s") else { panic!() };
/// assert_eq!(p99_s, &[0.240, 0.240]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the scenario has transfers, which this engine does not run, a job can never finish, the run would take more than 213 days of simulated time, or one of
/// the run's own checks fails: no link above its rate at any time, all bytes of every job sent.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    if !scenario.transfers().is_empty() {
        return Err(RunError::Transfers { transfers: scenario.transfers().len() });
    }
    let mut engine = Engine::new(scenario, options)?;
    let status = engine.run(&mut progress)?;
    engine.check_bytes()?;
    engine.record_links();
    Ok(Outcome {
        tables: engine.records.into_tables(scenario),
        counters: engine.counters,
        status,
        ended: engine.now,
    })
}

impl Default for Options {
    /// 64 steps of an adaptive weight, no rates, progress every 4,096 events.
    fn default() -> Self {
        Self {
            adaptive_steps: NonZeroU16::new(64).expect("64 is not zero"),
            rates_until: Time::ZERO,
            progress_every: NonZeroU64::new(4_096).expect("4,096 is not zero"),
        }
    }
}

struct Engine<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    now: Time,
    timers: EventQueue<Timer>,
    jobs: Vec<JobState<'a>>,
    /// The links that a job crosses: only these exist here, and a `Load` names them by place.
    links: Vec<LinkState>,
    allocator: Allocator,
    /// Jobs whose links must be shared anew at `now`, and jobs whose rate may have changed.
    disturbed: Vec<usize>,
    touched: Vec<usize>,
    /// Stamps what a search has seen, so that nothing has to be wiped before the next one.
    search: u64,
    rates_bps: Vec<u64>,
    records: Records,
    counters: Counters,
}

struct JobState<'a> {
    id: JobId,
    closed_loop: ClosedLoop<'a>,
    sender: Sender,
    loads: Vec<Load>,
    share: Share,
    queue: u8,
    /// Only the timer of this generation counts; the others are of plans since dropped.
    generation: u64,
    /// Whether that timer still runs.
    pending: bool,
    recorded: Rate,
    seen: u64,
}

struct LinkState {
    id: LinkId,
    /// Jobs in an Up phase, and how many flows each has here.
    senders: Vec<(usize, u64)>,
    seen: u64,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    job: usize,
    generation: u64,
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario, options: &'a Options) -> Result<Self, RunError> {
        let links = crossed_links(scenario);
        let capacity = |id: &LinkId| scenario.fabric().links()[id.index()].rate.as_bps();
        let allocator = Allocator::new(links.keys().map(capacity));
        let mut records = Records::new(scenario);
        let mut jobs = Vec::with_capacity(scenario.jobs().len());
        let mut timers = EventQueue::new();
        for (index, id) in scenario.job_ids().enumerate() {
            let job = JobState::new(scenario, id, &links, &mut records)?;
            if let Some(start) = job.closed_loop.first_start() {
                timers.schedule(start, Timer { job: index, generation: 0 });
            }
            jobs.push(job);
        }
        let links =
            links.keys().map(|&id| LinkState { id, senders: Vec::new(), seen: 0 }).collect();
        Ok(Self {
            scenario,
            options,
            now: Time::ZERO,
            timers,
            jobs,
            links,
            allocator,
            disturbed: Vec::new(),
            touched: Vec::new(),
            search: 0,
            rates_bps: Vec::new(),
            records,
            counters: Counters::default(),
        })
    }

    fn run(
        &mut self,
        progress: &mut impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Status, RunError> {
        let mut report_at = self.options.progress_every.get();
        while let Some((time, timer)) = self.timers.pop() {
            if !self.counts(timer) {
                continue;
            }
            if let Some(until) = self.scenario.until().filter(|&until| time > until) {
                self.cut_off(until);
                return Ok(Status::Complete);
            }
            self.now = time;
            self.handle(timer.job)?;
            self.handle_others_now()?;
            self.share_links()?;
            if self.counters.events >= report_at {
                report_at = self.counters.events + self.options.progress_every.get();
                if progress(&self.progress()).is_break() {
                    self.cut_off(self.now);
                    return Ok(Status::Interrupted);
                }
            }
        }
        self.check_none_stalled()?;
        Ok(Status::Complete)
    }

    // Everything that happens at one time happens before links are shared anew: so the order of
    // jobs within that time cannot matter.
    fn handle_others_now(&mut self) -> Result<(), RunError> {
        while self.timers.peek_time() == Some(self.now) {
            let (_, timer) = self.timers.pop().expect("a timer was just seen");
            if self.counts(timer) {
                self.handle(timer.job)?;
            }
        }
        Ok(())
    }

    fn counts(&self, timer: Timer) -> bool {
        self.jobs[timer.job].generation == timer.generation
    }

    fn handle(&mut self, job: usize) -> Result<(), RunError> {
        self.counters.events += 1;
        let state = &mut self.jobs[job];
        state.pending = false;
        if state.sender.active {
            state.sender.advance(self.now);
            if !state.sender.is_finished() {
                self.disturbed.push(job);
                return Ok(());
            }
            self.stop_sending(job);
        }
        let state = &mut self.jobs[job];
        match state.closed_loop.go_on(self.now, &mut self.records)? {
            Next::Wait(time) => self.timers.schedule(time, state.next_timer(job)),
            Next::Send(phase) => self.start_sending(job, phase),
            Next::Leave => {}
        }
        Ok(())
    }

    fn start_sending(&mut self, job: usize, phase: usize) {
        let state = &mut self.jobs[job];
        let phase = self.scenario.jobs()[job].profile.phases()[phase];
        state.sender.start(self.now, phase.rate, phase.duration);
        for load in &state.loads {
            self.links[load.link].senders.push((job, load.flows));
        }
        self.disturbed.push(job);
    }

    fn stop_sending(&mut self, job: usize) {
        let state = &mut self.jobs[job];
        state.sender.stop();
        for load in &state.loads {
            let senders = &mut self.links[load.link].senders;
            senders.retain(|&(other, _)| other != job);
            // One of those that stay is enough to find the others.
            self.disturbed.extend(senders.first().map(|&(other, _)| other));
        }
        self.touched.push(job);
    }

    fn share_links(&mut self) -> Result<(), RunError> {
        let (jobs, links) = self.component();
        if !jobs.is_empty() {
            self.allocate(&jobs);
            self.check_capacity(&links)?;
            self.touched.extend_from_slice(&jobs);
        }
        self.record_rates();
        Ok(())
    }

    // All sending jobs that the disturbed ones reach over links with traffic, in order of index,
    // and those links.
    fn component(&mut self) -> (Vec<usize>, Vec<usize>) {
        self.search += 1;
        let (mut jobs, mut links) = (Vec::new(), Vec::new());
        let mut frontier = std::mem::take(&mut self.disturbed);
        while let Some(job) = frontier.pop() {
            let state = &mut self.jobs[job];
            if !state.sender.active || state.seen == self.search {
                continue;
            }
            state.seen = self.search;
            jobs.push(job);
            for load in &state.loads {
                let link = &mut self.links[load.link];
                if link.seen != self.search {
                    link.seen = self.search;
                    links.push(load.link);
                    frontier.extend(link.senders.iter().map(|&(other, _)| other));
                }
            }
        }
        self.disturbed = frontier;
        jobs.sort_unstable();
        (jobs, links)
    }

    fn allocate(&mut self, component: &[usize]) {
        self.counters.reallocations += 1;
        self.counters.rates += component.len() as u64;
        let steps = u64::from(self.options.adaptive_steps.get());
        for &job in component {
            self.jobs[job].sender.advance(self.now);
        }
        let claims: Vec<_> = component.iter().map(|&job| self.jobs[job].claim(steps)).collect();
        self.allocator.allocate(&claims, &mut self.rates_bps);
        for (&job, &rate_bps) in component.iter().zip(&self.rates_bps) {
            let state = &mut self.jobs[job];
            let adapts =
                matches!(state.share, Share::Adaptive(_)) && self.allocator.contends(&state.loads);
            let policy_decided = self.allocator.policy_decided(&state.loads);
            self.records.jobs[job].policy_acted += u64::from(policy_decided);
            let rate = Rate::from_bps(rate_bps);
            // At the same rate the end of a phase stays where it was planned.
            if rate != state.sender.rate || adapts || !state.pending {
                state.sender.rate = rate;
                let timer = state.next_timer(job);
                let time = state.next_event(self.now, adapts.then_some(steps));
                state.pending = time.is_some();
                if let Some(time) = time {
                    self.timers.schedule(time, timer);
                }
            }
        }
    }

    fn record_rates(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        if self.now < self.options.rates_until {
            touched.sort_unstable();
            for &job in &touched {
                let state = &mut self.jobs[job];
                let rate = state.sender.rate;
                if rate != state.recorded {
                    state.recorded = rate;
                    self.records.rates.push(RateRow { job: state.id, start: self.now, rate });
                }
            }
        }
        touched.clear();
        self.touched = touched;
    }

    fn cut_off(&mut self, at: Time) {
        self.now = at;
        for job in self.jobs.iter_mut().filter(|job| job.sender.active) {
            job.sender.advance(at);
        }
    }

    fn progress(&self) -> Progress {
        let total = |job: &JobState<'_>| self.scenario.iterations(job.id);
        Progress {
            time: self.now,
            iterations_done: self.records.iterations.len() as u64,
            iterations_total: self.jobs.iter().map(total).sum(),
            events: self.counters.events,
        }
    }

    fn record_links(&mut self) {
        let elapsed_s = self.now.as_secs_f64();
        let mut rows = Vec::new();
        for job in &self.jobs {
            for load in &job.loads {
                let link = self.links[load.link].id;
                let bytes = bytes_of(job.sender.sent(), load.flows);
                let capacity_bps = self.allocator.capacity_bps(load.link) as f64;
                let could = capacity_bps / 8.0 * elapsed_s;
                let utilisation = if could > 0.0 { bytes.get() as f64 / could } else { 0.0 };
                rows.push(LinkRow {
                    link,
                    job: job.id,
                    bytes,
                    utilisation,
                    busy: job.sender.busy(),
                });
            }
        }
        rows.sort_by_key(|row| (row.link, row.job));
        self.records.links = rows;
    }

    fn check_capacity(&self, links: &[usize]) -> Result<(), RunError> {
        for &link in links {
            let senders = self.links[link].senders.iter();
            let loads = senders.map(|&(job, flows)| self.jobs[job].sender.rate * flows);
            let (load, capacity) = (loads.sum(), Rate::from_bps(self.allocator.capacity_bps(link)));
            if load > capacity {
                let (link, time) = (self.link_name(link), self.now);
                return Err(RunError::OverCapacity { link, time, load, capacity });
            }
        }
        Ok(())
    }

    fn check_bytes(&self) -> Result<(), RunError> {
        match self.jobs.iter().find(|job| job.sender.sent() != job.sender.due()) {
            None => Ok(()),
            Some(job) => Err(RunError::BytesLost {
                job: self.job_name(job.id),
                time: self.now,
                sent: job.sender.sent(),
                due: job.sender.due(),
            }),
        }
    }

    fn check_none_stalled(&self) -> Result<(), RunError> {
        let Some(job) = self.jobs.iter().find(|job| job.sender.active) else { return Ok(()) };
        let full = job.loads.iter().find(|load| self.allocator.is_full(load.link));
        let load = full.or(job.loads.first());
        Err(RunError::Stalled {
            job: self.job_name(job.id),
            link: load.map_or_else(String::new, |load| self.link_name(load.link)),
            time: self.now,
            rate: job.sender.rate,
        })
    }

    fn job_name(&self, id: JobId) -> String {
        self.scenario.jobs()[id.index()].name.clone()
    }

    fn link_name(&self, link: usize) -> String {
        self.scenario.fabric().links()[self.links[link].id.index()].name.clone()
    }
}

impl<'a> JobState<'a> {
    fn new(
        scenario: &'a Scenario,
        id: JobId,
        links: &BTreeMap<LinkId, usize>,
        records: &mut Records,
    ) -> Result<Self, RunError> {
        let job = &scenario.jobs()[id.index()];
        let load = |crossing: &hocket_scenario::Crossing| Load {
            link: links[&crossing.link],
            flows: u64::from(crossing.flows),
        };
        Ok(Self {
            id,
            closed_loop: ClosedLoop::new(scenario, id, records)?,
            sender: Sender::new(),
            loads: job.crossings.iter().map(load).collect(),
            share: job.share,
            queue: scenario.queue(id),
            generation: 0,
            pending: true,
            recorded: Rate::ZERO,
            seen: 0,
        })
    }

    /// The timer that replaces the one the job had.
    fn next_timer(&mut self, job: usize) -> Timer {
        self.generation += 1;
        Timer { job, generation: self.generation }
    }

    /// What the job asks for now, with its weight in 1/65,536 of half a step of `steps`.
    fn claim(&self, steps: u64) -> Claim<'_> {
        let weight = u64::from(self.share.weight().raw());
        let progress = match self.share {
            Share::Fair | Share::Weighted(_) => 0,
            // HotNets'22 section 4(i): 1 + sent/total, here at the middle of the step.
            Share::Adaptive(_) => 2 * self.sender.steps_done(steps) + 1,
        };
        Claim {
            cap_bps: self.sender.cap.as_bps(),
            weight: weight * (2 * steps + progress),
            queue: self.queue,
            loads: &self.loads,
        }
    }

    fn next_event(&self, now: Time, steps: Option<u64>) -> Option<Time> {
        let span = match steps {
            Some(steps) => self.sender.time_to_step(steps)?,
            None => self.sender.time_to_end()?,
        };
        now.as_ps().checked_add(span.as_ps()).map(Time::from_ps)
    }
}

fn crossed_links(scenario: &Scenario) -> BTreeMap<LinkId, usize> {
    let crossings = scenario.jobs().iter().flat_map(|job| &job.crossings);
    let mut links: BTreeMap<_, _> = crossings.map(|crossing| (crossing.link, 0)).collect();
    for (place, index) in links.values_mut().enumerate() {
        *index = place;
    }
    links
}
