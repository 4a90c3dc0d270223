//! What a job does next: iterations of Down and Up phases one after another, each starting when the
//! last one ended, and the delays that the job puts between them. How long an Up phase takes is the
//! network's business; this state machine has no clock and is told `now`.

use std::borrow::Cow;

use hocket_des::{Duration, Stream, Time, stream};
use rand_distr::{Distribution, StandardNormal};
use thiserror::Error;

use crate::{
    AdjustmentRow, IterationRow, Job, JobCounters, JobId, Periodic, Phase, PhaseRow, Profile,
    Records, Scenario,
};

// NSDI'24 section 5.7: a worker adjusts when the start of its communication phase deviates by more
// than five percent of the ideal iteration time.
const READJUST_PERCENT: u64 = 5;

/// A job's place in its iterations. Both engines drive it: [`go_on`](Self::go_on) says what comes next, the engine
/// comes back when that is done, and the rows of what was finished go to its [`Records`].
///
/// ```
/// use hocket_des::{Duration, Rate, Time};
/// use hocket_scenario::closed_loop::{ClosedLoop, Next};
/// use hocket_scenario::{Fabric, Job, JobId, Phase, Profile, Records, Scenario, Stop};
///
/// // 60 ms of communication, then 40 ms of computation.
/// let (start, duration) = (Duration::ZERO, Duration::from_ms(60));
/// let up = Phase { start, duration, rate: Rate::from_gbps(10) };
/// let profile = Profile::new(Duration::from_ms(100), vec![up])?;
/// let fabric = Fabric::one_link(Rate::from_gbps(10), Duration::ZERO)?;
/// let stop = Stop { iterations: Some(1), until: None };
/// let scenario = Scenario::new(fabric, vec![Job::new("job", profile, vec![])], 1, 1, stop)?;
///
/// let mut records = Records::new(&scenario);
/// let mut job = ClosedLoop::new(&scenario, JobId::new(0), &mut records)?;
/// assert_eq!(job.first_start(), Some(Time::ZERO));
/// let at = |ms| Time::ZERO + Duration::from_ms(ms);
/// assert_eq!(job.go_on(at(0), &mut records)?, Next::Send(up));
/// // Sending took 20 ms longer than on an idle network.
/// assert_eq!(job.go_on(at(80), &mut records)?, Next::Wait(at(120)));
/// assert_eq!(job.go_on(at(120), &mut records)?, Next::Leave);
/// assert_eq!(records.iterations[0].duration(), Duration::from_ms(120));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClosedLoop<'a> {
    job: Cow<'a, Job>,
    id: JobId,
    iterations: Option<u64>,
    jitter: Stream,
    clock: Stream,
    place: Place,
    iteration: u64,
    start: Time,
    phase_start: Time,
    communication: Duration,
    delayed: Duration,
    slots: Option<Slots>,
    /// The next iteration starts at a slot, however far that is.
    aligning: bool,
    /// How far from its slot this iteration's first Up phase started, if that was too far.
    drift_ps: Option<i64>,
}

/// Where iterations of a job are to start: at `origin`, and every `period` after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// One of them.
    pub origin: Time,
    /// Their distance.
    pub period: Duration,
    /// An iteration that could start before its slot waits for it: so a job that is late catches up.
    pub waits: bool,
    /// A job whose communication starts too far from its place in the slot lets a slot pass (NSDI'24 section 5.7).
    pub readjusts: bool,
}

/// A job that goes on for longer than simulated time can count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("job {job:?} goes on past 213 days after {time}; a run is shorter")]
pub struct TooLong {
    /// Its name.
    pub job: String,
    /// When it asked for more.
    pub time: Time,
}

/// What the job asks of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on then.
    Wait(Time),
    /// Send what this phase does, and go on when all is sent.
    Send(Phase),
    /// The job has left.
    Leave,
}

// With n Up phases, Down phase g stands before Up phase g, and Down phase n after the last.
#[derive(Clone, Copy, Debug)]
enum Place {
    BeforeIteration(Time),
    Down(usize),
    Up(usize),
    Gone,
}

impl<'a> ClosedLoop<'a> {
    /// A job before its first iteration; its time-shift is drawn and recorded.
    ///
    /// # Errors
    /// If the first iteration would start after the end of time.
    ///
    /// # Panics
    /// If it is a training job.
    pub fn new(scenario: &'a Scenario, id: JobId, records: &mut Records) -> Result<Self, TooLong> {
        let (job, seed) = (&scenario.jobs()[id.index()], scenario.seed());
        let iterations = scenario.iterations(id);
        let index = u64::from(id.code());
        let counters = &mut records.jobs[id.index()];
        Self::begin(Cow::Borrowed(job), id, iterations, (seed, index), counters)
    }

    /// As [`new`](Self::new), of a job that comes while a run goes on. Its random streams are those of `seed` and `index`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// If it is a training job.
    pub fn begin(
        job: Cow<'a, Job>,
        id: JobId,
        iterations: Option<u64>,
        (seed, index): (u64, u64),
        counters: &mut JobCounters,
    ) -> Result<Self, TooLong> {
        let periodic = job.periodic().expect("only periodic jobs have phases");
        let slots = Slots {
            origin: later(&job, job.arrival, job.time_shift.unwrap_or_default())?,
            period: job.pad_to.unwrap_or(periodic.profile.period()),
            waits: job.pad_to.is_some(),
            readjusts: true,
        };
        let mut its = Self {
            id,
            iterations,
            jitter: stream(seed, "jitter", index),
            clock: stream(seed, "clock", index),
            place: Place::Gone,
            iteration: 0,
            start: job.arrival,
            phase_start: job.arrival,
            communication: Duration::ZERO,
            delayed: Duration::ZERO,
            slots: job.readjust.then_some(slots),
            aligning: false,
            drift_ps: None,
            job,
        };
        if let Some(shift) = its.job.time_shift.filter(|_| !its.is_rest()) {
            its.delayed = its.with_clock_error(shift);
        }
        counters.time_shift = its.delayed;
        its.place = Place::BeforeIteration(its.after(its.job.arrival, its.delayed)?);
        Ok(its)
    }

    /// Gives the job slots, or takes them away. Its next iteration starts at one of them.
    ///
    /// # Errors
    /// As [`go_on`](Self::go_on).
    pub fn align(&mut self, now: Time, slots: Option<Slots>) -> Result<(), TooLong> {
        self.slots = slots;
        self.drift_ps = None;
        self.aligning = slots.is_some();
        // What has not begun starts when it can.
        if let (Place::BeforeIteration(_), 0) = (self.place, self.iteration) {
            let start = self.next_slot(self.job.arrival.max(now))?;
            self.delayed = start.since(self.job.arrival);
            self.place = Place::BeforeIteration(start);
            self.aligning = false;
        }
        Ok(())
    }

    /// After how many iterations it leaves, or leaves after the one under way.
    pub fn leave_after_this(&mut self) {
        self.iterations = Some(self.iteration + 1);
    }

    /// Iterations that it has done.
    pub fn done(&self) -> u64 {
        self.iteration
    }

    /// Iterations that it has still to do, the one under way among them, if it has a number of them.
    pub fn left(&self) -> Option<u64> {
        self.iterations.map(|iterations| iterations - self.iteration)
    }

    /// When the iteration under way started; nothing between two of them.
    pub fn iteration_start(&self) -> Option<Time> {
        matches!(self.place, Place::Down(_) | Place::Up(_)).then_some(self.start)
    }

    /// Of a job that nothing slows down and whose iteration starts `now`: how many iterations, from this one on, are over by `until`
    /// and each the same as its profile, the last that the job does left out.
    pub fn alike_until(&self, now: Time, until: Time) -> u64 {
        let varies = self.job.jitter != 0.0 || self.slots.is_some() || self.job.pad_to.is_some();
        if varies || self.is_rest() || self.iteration_start() != Some(now) {
            return 0;
        }
        let fit = until.since(now).as_ps() / self.periodic().profile.period().as_ps();
        self.iterations.map_or(fit, |iterations| fit.min(iterations - self.iteration - 1))
    }

    /// Passes over so many iterations that [`alike_until`](Self::alike_until) knows: the first of them, and how much later all comes
    /// that the job waits for.
    pub fn leap(&mut self, iterations: u64) -> (IterationRow, Duration) {
        let profile = &self.periodic().profile;
        let (period, communication) = (profile.period(), profile.up_time());
        let (start, end) = (self.start, self.start + period);
        let (job, iteration, delayed) = (self.id, self.iteration, self.delayed);
        let first = IterationRow { job, iteration, start, end, communication, delayed };
        let span = period * iterations;
        self.iteration += iterations;
        self.start = start + span;
        self.phase_start += span;
        (first, span)
    }

    /// What it sends in an iteration.
    pub fn phases(&self) -> &[Phase] {
        self.periodic().profile.phases()
    }

    /// Where its iterations start.
    pub fn slots(&self) -> Option<Slots> {
        self.slots
    }

    /// When the first iteration starts, for a job that has not begun.
    pub fn first_start(&self) -> Option<Time> {
        match self.place {
            Place::BeforeIteration(start) => Some(start),
            _ => None,
        }
    }

    /// The wait is over, or the Up phase is sent. Phases of no length, which jitter can bring
    /// about, are passed through at once.
    ///
    /// # Errors
    /// If the next wait would end after the end of time.
    pub fn go_on(&mut self, now: Time, records: &mut Records) -> Result<Next, TooLong> {
        loop {
            self.place = self.successor(now, records)?;
            match self.place {
                Place::BeforeIteration(start) if start > now => return Ok(Next::Wait(start)),
                Place::BeforeIteration(_) => {}
                Place::Down(down) => {
                    let duration = self.draw_down(down);
                    if !duration.is_zero() {
                        return Ok(Next::Wait(self.after(now, duration)?));
                    }
                }
                Place::Up(phase) => {
                    self.start_phase(now, phase);
                    return Ok(Next::Send(self.profile().phases()[phase]));
                }
                Place::Gone => return Ok(Next::Leave),
            }
        }
    }

    /// Counts `iterations` more as done: they were known without having been gone through, and what the job is at
    /// now belongs to a later one.
    pub fn skip(&mut self, iterations: u64) {
        self.iteration += iterations;
    }

    /// What is left of the iteration under way at `now`, as a profile: `left` is of the present wait, or of the present Up phase
    /// at its rate. Between two iterations it is the wait; nothing where nothing is left.
    pub fn rest(&self, left: Duration) -> Option<Profile> {
        let phases = self.profile().phases();
        let (mut at, mut rest) = (left, Vec::new());
        let (next, mut from) = match self.place {
            Place::Down(down) => (down, phases.get(down).map(|phase| phase.start)),
            Place::Up(up) => {
                rest.push(Phase { start: Duration::ZERO, duration: left, rate: phases[up].rate });
                (up + 1, Some(phases[up].end()))
            }
            Place::BeforeIteration(_) => return Profile::new(left, Vec::new()).ok(),
            Place::Gone => return None,
        };
        rest.retain(|phase| !phase.duration.is_zero());
        for &phase in &phases[next..] {
            at += phase.start - from.unwrap_or(phase.start);
            rest.push(Phase { start: at, ..phase });
            (at, from) = (at + phase.duration, Some(phase.end()));
        }
        let period = at + from.map_or(Duration::ZERO, |from| self.profile().period() - from);
        Profile::new(period, rest).ok()
    }

    fn periodic(&self) -> &Periodic {
        self.job.periodic().expect("only periodic jobs have phases")
    }

    /// What it does in the present iteration.
    fn profile(&self) -> &Profile {
        let periodic = self.periodic();
        match &periodic.first {
            Some(first) if self.is_rest() => first,
            _ => &periodic.profile,
        }
    }

    /// Whether the present iteration began before the job did.
    fn is_rest(&self) -> bool {
        self.iteration == 0 && self.periodic().first.is_some()
    }

    fn successor(&mut self, now: Time, records: &mut Records) -> Result<Place, TooLong> {
        match self.place {
            Place::BeforeIteration(_) => {
                self.start = now;
                self.communication = Duration::ZERO;
                Ok(Place::Down(0))
            }
            Place::Down(down) if down < self.profile().phases().len() => Ok(Place::Up(down)),
            Place::Down(_) => self.finish_iteration(now, records),
            Place::Up(phase) => {
                self.finish_phase(now, phase, records);
                Ok(Place::Down(phase + 1))
            }
            Place::Gone => Ok(Place::Gone),
        }
    }

    fn start_phase(&mut self, now: Time, phase: usize) {
        self.phase_start = now;
        // Of an iteration that began before the job did, nobody knows when its communication did.
        let is_first = phase == 0 && !self.is_rest();
        if let Some(slots) = self.slots.filter(|slots| slots.readjusts && is_first) {
            let deviation = slots.deviation_ps(now, self.profile().phases()[0].start);
            let is_too_far = deviation.unsigned_abs() > self.tolerance_ps();
            self.drift_ps = is_too_far.then_some(deviation);
        }
    }

    fn finish_phase(&mut self, now: Time, phase: usize, records: &mut Records) {
        self.communication += now.since(self.phase_start);
        records.phases.push(PhaseRow {
            job: self.id,
            iteration: self.iteration,
            phase: u32::try_from(phase).expect("a profile has at most 1,000 phases"),
            start: self.phase_start,
            end: now,
            bytes: self.profile().phases()[phase].bytes(),
        });
    }

    fn finish_iteration(&mut self, now: Time, records: &mut Records) -> Result<Place, TooLong> {
        records.iterations.push(IterationRow {
            job: self.id,
            iteration: self.iteration,
            start: self.start,
            end: now,
            communication: self.communication,
            delayed: self.delayed,
        });
        let was_rest = self.is_rest();
        self.iteration += 1;
        if self.iterations == Some(self.iteration) {
            return Ok(Place::Gone);
        }
        let start = if self.aligning {
            self.next_slot(now)?
        } else {
            let padded = self.padded(now, was_rest)?;
            let wait = self.wait_for_slot(now, padded, records);
            self.after(padded, wait)?
        };
        self.aligning = false;
        self.delayed = start.since(now);
        Ok(Place::BeforeIteration(start))
    }

    fn next_slot(&mut self, time: Time) -> Result<Time, TooLong> {
        let wait = self.slots.map_or(Duration::ZERO, |slots| slots.wait_from(time));
        let wait = if wait.is_zero() { wait } else { self.with_clock_error(wait) };
        self.after(time, wait)
    }

    // When the next iteration can start after one that ended `now`: padded jobs wait for their slot, or, without one, for so
    // long after the start of the last. One that began before the job did is taken to have had the last slot before that.
    fn padded(&mut self, now: Time, was_rest: bool) -> Result<Time, TooLong> {
        let pad_to = match self.slots {
            Some(slots) if slots.waits && was_rest => slots.wait_after(self.start),
            Some(slots) if slots.waits => {
                let late_ps = slots.deviation_ps(self.start, Duration::ZERO);
                Duration::from_ps(slots.period.as_ps().saturating_add_signed(-late_ps))
            }
            Some(_) => return Ok(now),
            None => match self.job.pad_to {
                Some(pad_to) => return Ok(self.after(self.start, pad_to)?.max(now)),
                None => return Ok(now),
            },
        };
        let due = self.after(self.start, pad_to)?;
        if due <= now {
            return Ok(now);
        }
        let wait = self.with_clock_error(due.since(now));
        self.after(now, wait)
    }

    // The wait from `start` to the job's next slot, if it has drifted and is not back by itself. A
    // job can only be delayed: one that is late by d waits a slot period less d.
    fn wait_for_slot(&mut self, now: Time, start: Time, records: &mut Records) -> Duration {
        let (Some(deviation_ps), Some(slots)) = (self.drift_ps.take(), self.slots) else {
            return Duration::ZERO;
        };
        let late_ps = slots.deviation_ps(start, Duration::ZERO);
        let is_back = u64::try_from(late_ps).is_ok_and(|late_ps| late_ps <= self.tolerance_ps());
        let wait = slots.wait_from(start);
        if is_back || wait.is_zero() {
            return Duration::ZERO;
        }
        let delay = self.with_clock_error(wait);
        records.adjustments.push(AdjustmentRow { job: self.id, time: now, deviation_ps, delay });
        delay
    }

    fn tolerance_ps(&self) -> u64 {
        self.periodic().profile.period().as_ps() / 100 * READJUST_PERCENT
    }

    fn draw_down(&mut self, down: usize) -> Duration {
        let profile = self.profile();
        let phases = profile.phases();
        let from = down.checked_sub(1).map_or(Duration::ZERO, |before| phases[before].end());
        let to = phases.get(down).map_or(profile.period(), |phase| phase.start);
        let ideal = to - from;
        if self.job.jitter == 0.0 || ideal.is_zero() {
            return ideal;
        }
        let deviation_ps = (ideal.as_ps() as f64 * self.job.jitter).round() as u64;
        spread(ideal, Duration::from_ps(deviation_ps), &mut self.jitter)
    }

    // The delay that a job applies when it means to wait for `delay`.
    fn with_clock_error(&mut self, delay: Duration) -> Duration {
        spread(delay, self.job.clock_error, &mut self.clock)
    }

    fn after(&self, time: Time, span: Duration) -> Result<Time, TooLong> {
        later(&self.job, time, span)
    }
}

impl Slots {
    // How late `time` is against the nearest point `offset` into a slot: above minus a half and up to
    // a half of the period.
    fn deviation_ps(self, time: Time, offset: Duration) -> i64 {
        let since_first = [time.as_ps(), self.origin.as_ps(), offset.as_ps()].map(i128::from);
        let period = i128::from(self.period.as_ps());
        let late = (since_first[0] - since_first[1] - since_first[2]).rem_euclid(period);
        let nearest = if 2 * late > period { late - period } else { late };
        i64::try_from(nearest).expect("half a slot period fits in 63 bits")
    }

    // How long it is from `time` to the next slot; a period at one.
    fn wait_after(self, time: Time) -> Duration {
        let wait = self.wait_from(time);
        if wait.is_zero() { self.period } else { wait }
    }

    // How long it is from `time` to the next slot; nothing at one.
    fn wait_from(self, time: Time) -> Duration {
        let since_origin = i128::from(time.as_ps()) - i128::from(self.origin.as_ps());
        let left = (-since_origin).rem_euclid(i128::from(self.period.as_ps()));
        Duration::from_ps(u64::try_from(left).expect("it is shorter than a period"))
    }
}

/// A normal deviate around `mean`, never below zero; `mean` itself, and no draw, without a deviation.
pub(crate) fn spread(mean: Duration, deviation: Duration, draws: &mut Stream) -> Duration {
    if deviation.is_zero() {
        return mean;
    }
    let deviate: f64 = StandardNormal.sample(draws);
    // A float draws a length, once; that length is whole from here on.
    let error_ps = (deviation.as_ps() as f64 * deviate).round() as i64;
    Duration::from_ps(mean.as_ps().saturating_add_signed(error_ps))
}

/// `span` after `time`, for `job`.
pub(crate) fn later(job: &Job, time: Time, span: Duration) -> Result<Time, TooLong> {
    let ps = time.as_ps().checked_add(span.as_ps());
    ps.map(Time::from_ps).ok_or_else(|| TooLong { job: job.name.clone(), time })
}
