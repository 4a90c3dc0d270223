//! Consecutive iterations of similar times, as one row.

use hocket_des::{Duration, Time};
use hocket_scenario::{IterationRow, JobId};

/// Consecutive iterations of a job with similar times.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarIterations {
    /// The job.
    pub job: JobId,
    /// The number of the start to which they belong, as [`super::ClusterRun::start`] returned it.
    pub start_number: u64,
    /// The number of the first, counted from 0 over the whole run.
    pub iteration: u64,
    /// The number of iterations.
    pub count: u64,
    /// When the first one starts.
    pub start: Time,
    /// When the last one ends.
    pub end: Time,
    /// The sum of their durations.
    pub duration: Duration,
    /// The sum of their times in Up phases.
    pub communication: Duration,
    /// The sum of the waits before them.
    pub delayed: Duration,
    /// The expected number of packets marked in them.
    pub marks: f64,
    /// The times of the first iteration, with which later ones are compared: compared with the latest, they could drift.
    first: Times,
}

/// The times by which iterations are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    duration: Duration,
    communication: Duration,
    delayed: Duration,
}

impl SimilarIterations {
    /// `count` iterations with the times of `row`, of a job that had done `done_before` iterations when it started.
    pub(super) fn new(row: &IterationRow, done_before: u64, count: u64) -> Self {
        let (duration, communication, delayed) = (row.duration(), row.communication, row.delayed);
        Self {
            job: row.job,
            start_number: 0,
            iteration: done_before + row.iteration,
            count,
            start: row.start,
            end: row.start + duration * count,
            duration: duration * count,
            communication: communication * count,
            delayed: delayed * count,
            marks: 0.0,
            first: Times { duration, communication, delayed },
        }
    }

    /// The time that they take, with the waits before them.
    pub(super) fn whole(&self) -> Duration {
        self.duration + self.delayed
    }

    /// The same iteration after one that ended at `after`; it ends by `last`, whatever its duration.
    pub(super) fn moved_to(&self, after: Time, last: Time) -> Self {
        let start = (after + self.delayed).min(last);
        Self { start, end: (start + self.duration).min(last), ..self.clone() }
    }

    /// The same iterations, the first of which has another number.
    pub(super) fn numbered(self, iteration: u64) -> Self {
        Self { iteration, ..self }
    }

    /// One of these iterations, `place` after the first: all are equal, and follow one another.
    pub(super) fn single(&self, place: u64) -> Self {
        if self.count == 1 {
            return self.clone();
        }
        let each = |sum: Duration| Duration::from_ps(sum.as_ps() / self.count);
        let (duration, delayed) = (each(self.duration), each(self.delayed));
        let start = self.start + (duration + delayed) * place;
        Self {
            iteration: self.iteration + place,
            count: 1,
            start,
            end: start + duration,
            duration,
            communication: each(self.communication),
            delayed,
            marks: self.marks / self.count as f64,
            ..self.clone()
        }
    }

    /// Merges these iterations into the row `open` if their times differ from those of its first iteration by no more than
    /// `merge` × its duration. Otherwise replaces `open` and returns the old row, which is then complete.
    pub(super) fn join(self, open: &mut Option<Self>, merge: f64) -> Option<Self> {
        match open {
            Some(before) if before.first.is_similar(self.first, merge) => {
                before.count += self.count;
                before.end = self.end;
                before.duration += self.duration;
                before.communication += self.communication;
                before.delayed += self.delayed;
                before.marks += self.marks;
                None
            }
            _ => open.replace(self),
        }
    }
}

impl Times {
    fn is_similar(self, other: Self, merge: f64) -> bool {
        let most_ps = (self.duration.as_ps() as f64 * merge) as u64;
        let near = |a: Duration, b: Duration| a.as_ps().abs_diff(b.as_ps()) <= most_ps;
        near(self.duration, other.duration)
            && near(self.communication, other.communication)
            && near(self.delayed, other.delayed)
    }
}
