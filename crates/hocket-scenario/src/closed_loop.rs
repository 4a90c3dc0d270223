//! The state machine of a periodic job: iterations of Down and Up phases, each starting when the one before has ended,
//! and the delays that the job inserts between them. It has no clock and receives `now`; how long an Up phase takes is left
//! to the engine.

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

/// A job's position in its iterations. Both engines drive it: [`proceed`](Self::proceed) returns what to do next, and the
/// engine calls it again when that is done. Rows of finished phases and iterations are added to [`Records`].
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
/// assert_eq!(job.proceed(at(0), &mut records)?, Next::Send(up));
/// // Sending took 20 ms longer than on an idle network.
/// assert_eq!(job.proceed(at(80), &mut records)?, Next::Wait(at(120)));
/// assert_eq!(job.proceed(at(120), &mut records)?, Next::Leave);
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
    /// The next iteration starts at the next slot, even if the job is within tolerance of one.
    aligning: bool,
    /// The deviation of this iteration's first Up phase from its slot, if it exceeds the tolerance.
    drift_ps: Option<i64>,
}

/// When iterations of a job should start: at `origin` and at whole periods from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The start of one slot.
    pub origin: Time,
    /// The time between two slots.
    pub period: Duration,
    /// Whether an iteration that could start before its slot waits for it. Iterations of a late job do not wait, so that
    /// it catches up.
    pub waits: bool,
    /// Whether a job re-adjusts whose communication starts too far from its time within the slot (NSDI'24 section 5.7).
    pub readjusts: bool,
}

/// Where a job is in its iterations, relative to a time: a job without jitter and clock errors that has equal positions at two times
/// does the same after both, if the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    place: Place,
    is_remainder: bool,
    /// The time since the start of the iteration and of the phase.
    since_start: Duration,
    since_phase_start: Duration,
    communication: Duration,
    delayed: Duration,
    /// The time until the next slot, and the other properties of the slots.
    slots: Option<(Duration, Duration, bool, bool)>,
    aligning: bool,
    drift_ps: Option<i64>,
}

/// A job that would outlast simulated time, which has 64 bits of picoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("job {job:?} would continue after {time} beyond 213 days, the limit of simulated time")]
pub struct TooLong {
    /// The job's name.
    pub job: String,
    /// When it began to wait.
    pub time: Time,
}

/// What the engine must do for the job, before it calls [`ClosedLoop::proceed`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait until then.
    Wait(Time),
    /// Send this phase on each flow.
    Send(Phase),
    /// Nothing more: the job has left.
    Leave,
}

// With n Up phases, Down phase i precedes Up phase i, and Down phase n follows the last Up phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BeforeIteration(Time),
    Down(usize),
    Up(usize),
    Gone,
}

impl<'a> ClosedLoop<'a> {
    /// A job before its first iteration. Draws the error of its time-shift and records the shift.
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

    /// As [`new`](Self::new), for a job that arrives during a run. `seed` and `index` determine its random streams.
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
        let mut closed_loop = Self {
            id,
            iterations,
            // Two streams, so that a clock error does not change the jitter of the same seed.
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
        // A remainder begins at once: its time-shift only determines the slots.
        let shift = closed_loop.job.time_shift.filter(|_| !closed_loop.is_remainder());
        if let Some(shift) = shift {
            closed_loop.delayed = closed_loop.with_clock_error(shift);
        }
        counters.time_shift = closed_loop.delayed;
        let start = closed_loop.after(closed_loop.job.arrival, closed_loop.delayed)?;
        closed_loop.place = Place::BeforeIteration(start);
        Ok(closed_loop)
    }

    /// Assigns slots to the job, or removes them. The next iteration starts at the next slot.
    ///
    /// # Errors
    /// As [`proceed`](Self::proceed).
    pub fn align(&mut self, now: Time, slots: Option<Slots>) -> Result<(), TooLong> {
        self.slots = slots;
        self.drift_ps = None;
        self.aligning = slots.is_some();
        // The first iteration has not begun, so its start can still be moved to either side.
        if let (Place::BeforeIteration(_), 0) = (self.place, self.iteration) {
            let start = self.next_slot(self.job.arrival.max(now))?;
            self.delayed = start.since(self.job.arrival);
            self.place = Place::BeforeIteration(start);
            self.aligning = false;
        }
        Ok(())
    }

    /// Lets the job leave at the end of the present iteration.
    pub fn leave_after_this(&mut self) {
        self.iterations = Some(self.iteration + 1);
    }

    /// The number of finished iterations.
    pub fn done(&self) -> u64 {
        self.iteration
    }

    /// The number of iterations left, including the present one; `None` if their number is unlimited.
    pub fn left(&self) -> Option<u64> {
        self.iterations.map(|iterations| iterations - self.iteration)
    }

    /// When the present iteration started; `None` between two iterations.
    pub fn iteration_start(&self) -> Option<Time> {
        matches!(self.place, Place::Down(_) | Place::Up(_)).then_some(self.start)
    }

    /// The number of iterations, from the one that starts `now` on, that end by `until` and are known to equal the profile if
    /// nothing slows the job down. It is 0 if no iteration starts `now` or iterations vary. The job's last iteration never
    /// counts, since the job leaves at its end.
    pub fn identical_until(&self, now: Time, until: Time) -> u64 {
        let varies = self.job.jitter != 0.0 || self.slots.is_some() || self.job.pad_to.is_some();
        if varies || self.is_remainder() || self.iteration_start() != Some(now) {
            return 0;
        }
        let fit = until.since(now).as_ps() / self.periodic().profile.period().as_ps();
        self.iterations.map_or(fit, |iterations| fit.min(iterations - self.iteration - 1))
    }

    /// Skips iterations, at most the number that [`identical_until`](Self::identical_until) returns. Returns the row of the
    /// first one, and the time by which the end of the job's present wait or phase moves.
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

    /// Its position at `now`; `None` if it draws random times, so that positions determine nothing.
    pub fn position(&self, now: Time) -> Option<Position> {
        if self.job.jitter != 0.0 || !self.job.clock_error.is_zero() {
            return None;
        }
        let place = match self.place {
            // Relative to `now`, as all other times are.
            Place::BeforeIteration(start) => Place::BeforeIteration(Time::ZERO + start.since(now)),
            place => place,
        };
        let slots = self.slots.map(|slots| {
            let until_next = slots.wait_from(now);
            (until_next, slots.period, slots.waits, slots.readjusts)
        });
        // What an iteration or a phase that is over began with has no effect any more.
        let (iterates, sends) = match self.place {
            Place::Up(_) => (true, true),
            Place::Down(_) => (true, false),
            Place::BeforeIteration(_) | Place::Gone => (false, false),
        };
        let since = |start: Time, counts: bool| {
            if counts { now.since(start) } else { Duration::ZERO }
        };
        Some(Position {
            place,
            is_remainder: self.is_remainder(),
            since_start: since(self.start, iterates),
            since_phase_start: since(self.phase_start, sends),
            communication: if iterates { self.communication } else { Duration::ZERO },
            delayed: self.delayed,
            slots,
            aligning: self.aligning,
            drift_ps: self.drift_ps,
        })
    }

    /// Moves all times by `by`: an engine has let the job pause, and with it the clock that it was told.
    pub fn postpone(&mut self, by: Duration) {
        self.start += by;
        self.phase_start += by;
        if let Place::BeforeIteration(start) = &mut self.place {
            *start += by;
        }
    }

    /// One iteration on an idle network without jitter.
    pub fn period(&self) -> Duration {
        self.periodic().profile.period()
    }

    /// The Up phases of an iteration.
    pub fn phases(&self) -> &[Phase] {
        self.periodic().profile.phases()
    }

    /// The Up phases of the present iteration, of which a remainder has only some, and the number of the present one. Outside
    /// Up phases, the number of those that have ended.
    pub fn present_phases(&self) -> (&[Phase], usize) {
        let phases = self.profile().phases();
        let place = match self.place {
            Place::BeforeIteration(_) => 0,
            Place::Down(place) | Place::Up(place) => place,
            Place::Gone => phases.len(),
        };
        (phases, place)
    }

    /// The job's slots, if it has any.
    pub fn slots(&self) -> Option<Slots> {
        self.slots
    }

    /// When the next iteration starts, for a job between iterations or before the first one.
    pub fn first_start(&self) -> Option<Time> {
        match self.place {
            Place::BeforeIteration(start) => Some(start),
            _ => None,
        }
    }

    /// Moves on at the end of a wait or an Up phase. Down phases of no length, to which jitter can shorten them, are
    /// skipped at once.
    ///
    /// # Errors
    /// If the next wait would end after the end of time.
    pub fn proceed(&mut self, now: Time, records: &mut Records) -> Result<Next, TooLong> {
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

    /// Counts `iterations` more as done, which an engine has extrapolated: the present phase then belongs to a later
    /// iteration.
    pub fn skip(&mut self, iterations: u64) {
        self.iteration += iterations;
    }

    /// The remainder of the present iteration as a profile, given the time `left` of the present wait, or of the present Up
    /// phase at its rate on an idle network. Between two iterations it is the wait; `None` if nothing is left.
    pub fn remainder(&self, left: Duration) -> Option<Profile> {
        let phases = self.profile().phases();
        let (mut at, mut remaining) = (left, Vec::new());
        // `from` is the end of the last phase within the profile. During a Down it is the start of the next Up phase, as
        // `left` then covers the time up to it.
        let (next, mut from) = match self.place {
            Place::Down(down) => (down, phases.get(down).map(|phase| phase.start)),
            Place::Up(up) => {
                let (start, duration) = (Duration::ZERO, left);
                remaining.push(Phase { start, duration, rate: phases[up].rate });
                (up + 1, Some(phases[up].end()))
            }
            Place::BeforeIteration(_) => return Profile::new(left, Vec::new()).ok(),
            Place::Gone => return None,
        };
        // An Up phase that ends just now would be a phase without duration, which no profile has.
        remaining.retain(|phase| !phase.duration.is_zero());
        for &phase in &phases[next..] {
            at += phase.start - from.unwrap_or(phase.start);
            remaining.push(Phase { start: at, ..phase });
            (at, from) = (at + phase.duration, Some(phase.end()));
        }
        let period = at + from.map_or(Duration::ZERO, |from| self.profile().period() - from);
        Profile::new(period, remaining).ok()
    }

    fn periodic(&self) -> &Periodic {
        self.job.periodic().expect("only periodic jobs have phases")
    }

    /// The profile of the present iteration.
    fn profile(&self) -> &Profile {
        let periodic = self.periodic();
        match &periodic.first {
            Some(first) if self.is_remainder() => first,
            _ => &periodic.profile,
        }
    }

    /// Whether the present iteration is the remainder of one that began before the job's arrival.
    fn is_remainder(&self) -> bool {
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
        // Slots are compared with the first Up phase, and a remainder may have lost its first one.
        let is_first = phase == 0 && !self.is_remainder();
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
        let was_remainder = self.is_remainder();
        self.iteration += 1;
        if self.iterations == Some(self.iteration) {
            return Ok(Place::Gone);
        }
        let start = if self.aligning {
            self.next_slot(now)?
        } else {
            let padded = self.padded(now, was_remainder)?;
            let wait = self.wait_for_slot(now, padded, records);
            self.after(padded, wait)?
        };
        self.aligning = false;
        self.delayed = start.since(now);
        Ok(Place::BeforeIteration(start))
    }

    fn next_slot(&mut self, time: Time) -> Result<Time, TooLong> {
        let wait = self.slots.map_or(Duration::ZERO, |slots| slots.wait_from(time));
        // A job that does not wait makes no clock error.
        let wait = if wait.is_zero() { wait } else { self.with_clock_error(wait) };
        self.after(time, wait)
    }

    // When the next iteration can start after one that ended `now`: padded jobs wait for their slot or, without slots, until
    // `pad_to` after the start of the last iteration. A remainder counts as part of the slot before its start.
    fn padded(&mut self, now: Time, was_remainder: bool) -> Result<Time, TooLong> {
        let pad_to = match self.slots {
            Some(slots) if slots.waits && was_remainder => slots.wait_after(self.start),
            Some(slots) if slots.waits => {
                // From the job's slot, not from its start: a late job uses the slack of the slot to catch up.
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

    // The wait from `start` to the job's next slot, if it has drifted and has not returned to its slot by itself. The paper
    // does not specify how jobs re-adjust; here they can only be delayed: a job that is late by d waits for a slot period
    // minus d.
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
        // Division first, so that the product cannot overflow; what it rounds off is below 5 ps.
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

    // The delay that a job applies when it intends to wait for `delay`.
    fn with_clock_error(&mut self, delay: Duration) -> Duration {
        spread(delay, self.job.clock_error, &mut self.clock)
    }

    fn after(&self, time: Time, span: Duration) -> Result<Time, TooLong> {
        later(&self.job, time, span)
    }
}

impl Slots {
    /// The same slots by a clock that is `behind`.
    pub fn earlier_by(self, behind: Duration) -> Self {
        // Any slot may be the origin, but time does not begin before the run.
        let into_period = behind.as_ps() % self.period.as_ps();
        let before = (self.period.as_ps() - into_period) % self.period.as_ps();
        Self { origin: self.origin + Duration::from_ps(before), ..self }
    }

    /// The same slots by a clock that is `ahead`.
    pub fn later_by(self, ahead: Duration) -> Self {
        Self {
            origin: self.origin + Duration::from_ps(ahead.as_ps() % self.period.as_ps()),
            ..self
        }
    }

    // How late `time` is compared with the nearest point `offset` after the start of a slot. The result is above minus a
    // half and at most half of the period.
    fn deviation_ps(self, time: Time, offset: Duration) -> i64 {
        // Signed 128 bits: the origin may lie after `time`, and any of these may need all 64 bits.
        let [time, origin, offset] =
            [time.as_ps(), self.origin.as_ps(), offset.as_ps()].map(i128::from);
        let period = i128::from(self.period.as_ps());
        let late = (time - origin - offset).rem_euclid(period);
        let nearest = if 2 * late > period { late - period } else { late };
        i64::try_from(nearest).expect("half a slot period fits in 63 bits")
    }

    // The time from `time` to the next slot after it: at the start of a slot, a whole period.
    fn wait_after(self, time: Time) -> Duration {
        let wait = self.wait_from(time);
        if wait.is_zero() { self.period } else { wait }
    }

    // The time from `time` to the next slot: at the start of a slot, zero.
    fn wait_from(self, time: Time) -> Duration {
        let since_origin = i128::from(time.as_ps()) - i128::from(self.origin.as_ps());
        let left = (-since_origin).rem_euclid(i128::from(self.period.as_ps()));
        Duration::from_ps(u64::try_from(left).expect("it is shorter than a period"))
    }
}

/// A normal deviate around `mean`, cut at zero. Without a deviation it is `mean`, and nothing is drawn.
pub(crate) fn spread(mean: Duration, deviation: Duration, draws: &mut Stream) -> Duration {
    if deviation.is_zero() {
        return mean;
    }
    let deviate: f64 = StandardNormal.sample(draws);
    // The only floating point: the length that is drawn is whole picoseconds from here on.
    let error_ps = (deviation.as_ps() as f64 * deviate).round() as i64;
    Duration::from_ps(mean.as_ps().saturating_add_signed(error_ps))
}

/// The time `span` after `time`; an error in the name of `job` if it exceeds simulated time.
pub(crate) fn later(job: &Job, time: Time, span: Duration) -> Result<Time, TooLong> {
    let ps = time.as_ps().checked_add(span.as_ps());
    ps.map(Time::from_ps).ok_or_else(|| TooLong { job: job.name.clone(), time })
}
