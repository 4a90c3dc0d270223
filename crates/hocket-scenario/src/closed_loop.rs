//! What a job does next: iterations of Down and Up phases one after another, each starting when the
//! last one ended, and the delays that the job puts between them. How long an Up phase takes is the
//! network's business; this state machine has no clock and is told `now`.

use hocket_des::{Duration, Stream, Time, stream};
use rand_distr::{Distribution, StandardNormal};
use thiserror::Error;

use crate::{AdjustmentRow, IterationRow, Job, JobId, Periodic, PhaseRow, Records, Scenario};

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
/// assert_eq!(job.go_on(at(0), &mut records)?, Next::Send(0));
/// // Sending took 20 ms longer than on an idle network.
/// assert_eq!(job.go_on(at(80), &mut records)?, Next::Wait(at(120)));
/// assert_eq!(job.go_on(at(120), &mut records)?, Next::Leave);
/// assert_eq!(records.iterations[0].duration(), Duration::from_ms(120));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClosedLoop<'a> {
    job: &'a Job,
    periodic: &'a Periodic,
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
    /// How far from its slot this iteration's first Up phase started, if that was too far.
    drift_ps: Option<i64>,
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
    /// Send this phase of the profile, and go on when all is sent.
    Send(usize),
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
        let index = u64::from(id.code());
        let job = &scenario.jobs()[id.index()];
        let periodic = job.periodic().expect("only periodic jobs have phases");
        let mut its = Self {
            job,
            periodic,
            id,
            iterations: scenario.iterations(id),
            jitter: stream(scenario.seed(), "jitter", index),
            clock: stream(scenario.seed(), "clock", index),
            place: Place::Gone,
            iteration: 0,
            start: job.arrival,
            phase_start: job.arrival,
            communication: Duration::ZERO,
            delayed: Duration::ZERO,
            drift_ps: None,
        };
        if let Some(shift) = job.time_shift {
            its.delayed = its.with_clock_error(shift);
        }
        records.jobs[id.index()].time_shift = its.delayed;
        its.place = Place::BeforeIteration(its.after(job.arrival, its.delayed)?);
        Ok(its)
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
                    return Ok(Next::Send(phase));
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

    fn successor(&mut self, now: Time, records: &mut Records) -> Result<Place, TooLong> {
        match self.place {
            Place::BeforeIteration(_) => {
                self.start = now;
                self.communication = Duration::ZERO;
                Ok(Place::Down(0))
            }
            Place::Down(down) if down < self.periodic.profile.phases().len() => Ok(Place::Up(down)),
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
        if phase == 0 && self.job.readjust {
            let tolerance = self.tolerance_ps();
            let offset = self.periodic.profile.phases()[0].start;
            let deviation = self.deviation_ps(now, offset);
            self.drift_ps = (deviation.unsigned_abs() > tolerance).then_some(deviation);
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
            bytes: self.periodic.profile.phases()[phase].bytes(),
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
        self.iteration += 1;
        if self.iterations == Some(self.iteration) {
            return Ok(Place::Gone);
        }
        let padded = match self.job.pad_to {
            Some(pad_to) => self.after(self.start, pad_to)?.max(now),
            None => now,
        };
        let wait = self.wait_for_slot(now, padded, records);
        let start = self.after(padded, wait)?;
        self.delayed = start.since(now);
        Ok(Place::BeforeIteration(start))
    }

    // The wait from `start` to the job's next slot, if it has drifted and is not back by itself. A
    // job can only be delayed: one that is late by d waits a slot period less d.
    fn wait_for_slot(&mut self, now: Time, start: Time, records: &mut Records) -> Duration {
        let Some(deviation_ps) = self.drift_ps.take() else { return Duration::ZERO };
        let late_ps = self.deviation_ps(start, Duration::ZERO);
        let slot_period_ps = self.slot_period().as_ps();
        let wait_ps = match u64::try_from(late_ps) {
            Ok(late_ps) if late_ps <= self.tolerance_ps() => 0,
            Ok(late_ps) => slot_period_ps - late_ps,
            Err(_) => late_ps.unsigned_abs(),
        };
        if wait_ps == 0 {
            return Duration::ZERO;
        }
        let delay = self.with_clock_error(Duration::from_ps(wait_ps));
        records.adjustments.push(AdjustmentRow { job: self.id, time: now, deviation_ps, delay });
        delay
    }

    // How late `now` is against the nearest point `offset` into a slot: above minus a half and up to
    // a half of the slot period.
    fn deviation_ps(&self, now: Time, offset: Duration) -> i64 {
        let shift = self.job.time_shift.unwrap_or_default();
        let first = [self.job.arrival.as_ps(), shift.as_ps(), offset.as_ps()];
        let since_first = i128::from(now.as_ps()) - first.into_iter().map(i128::from).sum::<i128>();
        let slot_period = i128::from(self.slot_period().as_ps());
        let late = since_first.rem_euclid(slot_period);
        let nearest = if 2 * late > slot_period { late - slot_period } else { late };
        i64::try_from(nearest).expect("half a slot period fits in 63 bits")
    }

    // The distance of the slots that a job with re-adjustment keeps to: what its iterations are padded to, or its
    // period.
    fn slot_period(&self) -> Duration {
        self.job.pad_to.unwrap_or(self.periodic.profile.period())
    }

    fn tolerance_ps(&self) -> u64 {
        self.periodic.profile.period().as_ps() / 100 * READJUST_PERCENT
    }

    fn draw_down(&mut self, down: usize) -> Duration {
        let phases = self.periodic.profile.phases();
        let from = down.checked_sub(1).map_or(Duration::ZERO, |before| phases[before].end());
        let to = phases.get(down).map_or(self.periodic.profile.period(), |phase| phase.start);
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
        later(self.job, time, span)
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
