//! Iterations one after another that are alike, as one row.

use hocket_des::{Duration, Time};
use hocket_scenario::{IterationRow, JobId};

/// Iterations of a job, one after another; what is summed is so over all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarIterations {
    /// The job.
    pub job: JobId,
    /// The number of the first, counted from 0 over the whole run.
    pub iteration: u64,
    /// How many.
    pub count: u64,
    /// When the first one starts.
    pub start: Time,
    /// When the last one ends.
    pub end: Time,
    /// Sum of their lengths.
    pub duration: Duration,
    /// Sum of the times in which they send.
    pub communication: Duration,
    /// Sum of the waits before them.
    pub delayed: Duration,
    /// Packets marked in them, on average over many such runs.
    pub marks: f64,
    first: Likeness,
}

/// What makes iterations alike.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Likeness {
    duration: Duration,
    communication: Duration,
    delayed: Duration,
}

impl SimilarIterations {
    /// `count` times `row`, of a job that did `done_before` iterations before the row's first.
    pub(super) fn new(row: &IterationRow, done_before: u64, count: u64) -> Self {
        let (duration, communication, delayed) = (row.duration(), row.communication, row.delayed);
        Self {
            job: row.job,
            iteration: done_before + row.iteration,
            count,
            start: row.start,
            end: row.start + duration * count,
            duration: duration * count,
            communication: communication * count,
            delayed: delayed * count,
            marks: 0.0,
            first: Likeness { duration, communication, delayed },
        }
    }

    /// Joins `open`, the stretch before it, if both are alike within `merge` of the first iteration's length; otherwise takes
    /// its place, and the other one comes back.
    pub(super) fn join(self, open: &mut Option<Self>, merge: f64) -> Option<Self> {
        match open {
            Some(before) if before.first.is_like(self.first, merge) => {
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

impl Likeness {
    fn is_like(self, other: Self, merge: f64) -> bool {
        let most_ps = (self.duration.as_ps() as f64 * merge) as u64;
        let near = |a: Duration, b: Duration| a.as_ps().abs_diff(b.as_ps()) <= most_ps;
        near(self.duration, other.duration)
            && near(self.communication, other.communication)
            && near(self.delayed, other.delayed)
    }
}
