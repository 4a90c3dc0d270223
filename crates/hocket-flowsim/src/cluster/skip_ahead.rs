//! Skipping ahead while nothing changes: jobs with jitter are simulated for some iterations, which are then repeated as often as
//! they would have fitted into a longer time. Jobs without any randomness repeat what they did in a cycle, which is exact.
//!
//! The model: between two changes, the iterations of jobs that share links are a stationary process. A job first does iterations
//! that are not repeated, so that the process has forgotten the change. All jobs of a component are watched, and repeated,
//! for the same times, so that each has its part of the time in which they contend. The clock of the component stands
//! still meanwhile: what it simulates next continues what it simulated last.

use hocket_des::{Duration, Time};
use hocket_scenario::{AdjustmentRow, Records};

use crate::cluster::similar_iterations::SimilarIterations;

/// How much is simulated of a time without changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipAhead {
    /// Iterations after a change that are not repeated.
    pub warm_up: Fewest,
    /// Iterations that are then watched.
    pub watched: Fewest,
    /// The number of times that the first watched time is repeated. Each later one is repeated twice as often as the one before…
    pub repeats: u32,
    /// …up to this number of times.
    pub most_repeats: u32,
}

/// The smallest number of iterations, each of which must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fewest {
    /// Of each job; at least 1 to be watched, or a job would have nothing to repeat.
    pub each: u64,
    /// On average over jobs that share links.
    pub average: u64,
    /// Over all these jobs.
    pub total: u64,
}

impl Default for SkipAhead {
    fn default() -> Self {
        Self {
            warm_up: Fewest { each: 0, average: 2, total: 6 },
            watched: Fewest { each: 1, average: 3, total: 64 },
            repeats: 16,
            most_repeats: 64,
        }
    }
}

/// Rows that have not been taken yet.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) iterations: Vec<SimilarIterations>,
    pub(super) adjustments: Vec<AdjustmentRow>,
    /// The number of iterations so far that were repeated instead of being simulated.
    pub(super) repeated: u64,
}

impl Rows {
    /// Takes over adjustments by a clock that is `behind` that of the run. Returns the last one, with which an iteration ended.
    pub(super) fn take_adjustments(
        &mut self,
        records: &mut Records,
        behind: Duration,
    ) -> Option<AdjustmentRow> {
        let known = self.adjustments.len();
        let rows = records.adjustments.drain(..);
        self.adjustments.extend(rows.map(|row| AdjustmentRow { time: row.time + behind, ..row }));
        self.adjustments[known..].last().copied()
    }
}

/// The iterations of jobs that are watched together.
pub(super) struct Watch {
    settings: SkipAhead,
    state: State,
    jobs: Vec<Watched>,
    /// The number of iterations in the present state that are still to be done, and of jobs that have not done enough of them.
    missing: u64,
    missing_jobs: usize,
    /// The number of times that the next watched time is repeated.
    repeats: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    WarmingUp,
    /// Since this time.
    Watching(Time),
    /// What was watched for `span` is to be repeated for `owed`.
    Repeating {
        span: Duration,
        owed: Duration,
    },
    /// What was watched for `span` repeats itself until something changes.
    Cycling {
        span: Duration,
    },
}

/// A time to be skipped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skip {
    pub(super) by: Duration,
    /// The time for which was watched what is repeated.
    pub(super) span: Duration,
    /// Whether jobs are watched again after it.
    pub(super) ends: bool,
}

/// The iterations of one job.
#[derive(Default)]
struct Watched {
    /// The number of iterations that it is still to do.
    missing: u64,
    rows: Vec<(SimilarIterations, Option<AdjustmentRow>)>,
    /// The row to be repeated next.
    next: usize,
    /// The time left over by repeated rows, negative if they took longer.
    credit_ps: i64,
    /// When its last iteration ended, by the clock of the run.
    end: Time,
}

impl Skip {
    /// The part of `amount`, which was counted while jobs were watched, that falls into the skipped time.
    pub(super) fn part_of(&self, amount: Duration) -> Duration {
        let ps = u128::from(amount.as_ps()) * u128::from(self.by.as_ps());
        let ps = ps / u128::from(self.span.as_ps().max(1));
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// The same as a factor.
    pub(super) fn times(&self) -> f64 {
        self.by.as_ps() as f64 / self.span.as_ps().max(1) as f64
    }
}

impl Watch {
    pub(super) fn new(settings: SkipAhead, jobs: usize) -> Self {
        assert!(settings.watched.each > 0, "a job that is watched has something to repeat");
        let jobs = (0..jobs).map(|_| Watched::default()).collect();
        let mut watch = Self {
            settings,
            state: State::WarmingUp,
            jobs,
            missing: 0,
            missing_jobs: 0,
            repeats: settings.repeats,
        };
        watch.restart();
        watch
    }

    /// Watches jobs without any randomness from `now` on, until [`close_cycle`](Self::close_cycle).
    pub(super) fn begin_cycle(&mut self, now: Time) {
        self.jobs.iter_mut().for_each(|job| job.rows.clear());
        self.state = State::Watching(now);
        // However many iterations they do: only an equal state ends the cycle.
        self.missing = u64::MAX;
    }

    /// After `span`, jobs are where they were when the cycle began, and repeat what was watched.
    pub(super) fn close_cycle(&mut self, span: Duration) {
        self.state = State::Cycling { span };
        self.jobs.iter_mut().for_each(|job| (job.next, job.credit_ps) = (0, 0));
    }

    /// Begins anew, after a change.
    pub(super) fn restart(&mut self) {
        self.state = State::WarmingUp;
        self.repeats = self.settings.repeats;
        self.expect(self.settings.warm_up);
    }

    fn expect(&mut self, fewest: Fewest) {
        self.missing = fewest.total.max(fewest.average * self.jobs.len() as u64);
        self.missing_jobs = if fewest.each > 0 { self.jobs.len() } else { 0 };
        for job in &mut self.jobs {
            job.missing = fewest.each;
        }
    }

    /// A job has done an iteration; `row` is by the clock of the run.
    pub(super) fn note(
        &mut self,
        job: usize,
        row: &SimilarIterations,
        adjustment: Option<AdjustmentRow>,
    ) {
        let watched = &mut self.jobs[job];
        watched.end = row.end;
        match self.state {
            State::Watching(_) => watched.rows.push((row.clone(), adjustment)),
            // It is simulated where a part of a cycle is left.
            State::Cycling { .. } => watched.next = (watched.next + 1) % watched.rows.len(),
            State::WarmingUp | State::Repeating { .. } => {}
        }
        self.missing = self.missing.saturating_sub(1);
        if watched.missing > 0 {
            watched.missing -= 1;
            self.missing_jobs -= usize::from(watched.missing == 0);
        }
    }

    /// Whether all jobs have done the iterations of the present state.
    pub(super) fn is_due(&self) -> bool {
        self.missing == 0
            && self.missing_jobs == 0
            && matches!(self.state, State::WarmingUp | State::Watching(_))
    }

    /// Begins to watch at `now`, or to repeat what was watched until then. Returns whether it repeats from now on. Both times are
    /// by the clock of the jobs.
    pub(super) fn turn(&mut self, now: Time) -> bool {
        let State::Watching(since) = self.state else {
            self.expect(self.settings.watched);
            self.jobs.iter_mut().for_each(|job| job.rows.clear());
            self.state = State::Watching(now);
            return false;
        };
        let span = now.since(since);
        let owed = span.checked_mul(u64::from(self.repeats)).unwrap_or(Duration::MAX);
        self.state = State::Repeating { span, owed };
        self.repeats = (self.repeats * 2).min(self.settings.most_repeats);
        for job in &mut self.jobs {
            (job.next, job.credit_ps) = (0, 0);
        }
        true
    }

    /// The time to skip next: at most `room`, a multiple of `cycle`, and no longer than jobs with so many iterations `left`
    /// need for all but their last two. `None` while nothing is repeated.
    pub(super) fn skip(
        &self,
        room: Duration,
        cycle: Duration,
        left: impl Iterator<Item = u64>,
    ) -> Option<Skip> {
        let (span, owed, cycle) = match self.state {
            State::Repeating { span, owed } => (span, owed, cycle),
            // At its end, slots are where they were as well.
            State::Cycling { span } => (span, Duration::MAX, span),
            State::WarmingUp | State::Watching(_) => return None,
        };
        let times = left.enumerate().map(|(job, left)| self.time_of(job, left.saturating_sub(2)));
        let until_departure = times.min().unwrap_or(Duration::MAX);
        let by = owed.min(room).min(until_departure);
        let by = by - Duration::from_ps(by.as_ps() % cycle.as_ps().max(1));
        // A rest shorter than a cycle can never be skipped.
        let is_used_up = until_departure <= room || owed - by < cycle.max(Duration::from_ps(1));
        let ends = is_used_up && !matches!(self.state, State::Cycling { .. });
        Some(Skip { by, span, ends })
    }

    // The time that a job takes for `iterations` iterations, by those that were watched.
    fn time_of(&self, job: usize, iterations: u64) -> Duration {
        let rows = &self.jobs[job].rows;
        let total: u128 = rows.iter().map(|(row, _)| u128::from(row.whole().as_ps())).sum();
        let ps = total * u128::from(iterations) / (rows.len().max(1) as u128);
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// All jobs have repeated their rows for this time.
    pub(super) fn skipped(&mut self, skip: Skip) {
        if let State::Repeating { owed, .. } = &mut self.state {
            *owed -= skip.by;
        }
    }

    /// Whether jobs repeat what was watched until something changes.
    pub(super) fn is_cycling(&self) -> bool {
        matches!(self.state, State::Cycling { .. })
    }

    /// Whether jobs are watched at present.
    pub(super) fn is_watching(&self) -> bool {
        matches!(self.state, State::Watching(_))
    }

    /// Repeats a job's rows for `by`, at most `most` of them, and calls `add` for each with its position. Returns their number.
    pub(super) fn repeat(
        &mut self,
        job: usize,
        by: Duration,
        most: u64,
        add: &mut dyn FnMut(u64, SimilarIterations, Option<AdjustmentRow>),
    ) -> u64 {
        let watched = &mut self.jobs[job];
        let signed = |span: Duration| i64::try_from(span.as_ps()).unwrap_or(i64::MAX);
        let (mut end, last) = (watched.end, watched.end + by);
        watched.credit_ps = watched.credit_ps.saturating_add(signed(by));
        let mut repeated = 0;
        while repeated < most {
            let (row, adjustment) = &watched.rows[watched.next];
            let whole_ps = signed(row.whole());
            // The iteration of which half has no room left is the first one too many.
            if watched.credit_ps.saturating_mul(2) < whole_ps {
                break;
            }
            watched.credit_ps -= whole_ps;
            watched.next = (watched.next + 1) % watched.rows.len();
            let moved = row.moved_to(end, last);
            let adjustment = adjustment.map(|row| AdjustmentRow { time: moved.end, ..row });
            end = moved.end;
            add(repeated, moved, adjustment);
            repeated += 1;
        }
        watched.end = last;
        repeated
    }
}
