//! What engines record, one row at a time.

use hocket_des::{Bytes, Duration, Rate, Time};

use crate::{JobId, LinkId};

/// One finished iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// When it began, after any delay.
    pub start: Time,
    /// When its last phase ended.
    pub end: Time,
    /// Time in Up phases. Of a training job what is left beside the mean of its ranks' computes: exposed communication.
    pub communication: Duration,
    /// Wait before `start` that the job chose: time-shift, re-adjustment, padding.
    pub delayed: Duration,
}

/// One finished Up phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Counted from 0 within the iteration.
    pub phase: u32,
    /// When the job began to send.
    pub start: Time,
    /// When all was sent.
    pub end: Time,
    /// What each of the job's flows sent.
    pub bytes: Bytes,
}

/// From `start` on, each of the job's flows sends at `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRow {
    /// Whose.
    pub job: JobId,
    /// Since when.
    pub start: Time,
    /// Up to the job's next row.
    pub rate: Rate,
}

/// What one job put on one link during the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRow {
    /// The link.
    pub link: LinkId,
    /// Whose.
    pub job: JobId,
    /// All flows together.
    pub bytes: Bytes,
    /// Those bytes ÷ what the link could have carried in the run.
    pub utilisation: f64,
    /// How long the job was sending on the link.
    pub busy: Duration,
}

/// A job that had drifted delayed itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjustmentRow {
    /// Whose.
    pub job: JobId,
    /// When the job decided, at the end of an iteration.
    pub time: Time,
    /// How far from its slot the last communication had started; positive is late.
    pub deviation_ps: i64,
    /// The wait before the next iteration.
    pub delay: Duration,
}

/// One finished iteration of one rank of a training job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Which rank.
    pub rank: u32,
    /// When its first operations began.
    pub start: Time,
    /// When its last operation was done.
    pub end: Time,
    /// Time in computes.
    pub compute: Duration,
    /// Time in which nothing was computed while something was communicated.
    pub exposed: Duration,
}

/// One finished operation of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Which rank.
    pub rank: u32,
    /// Its place in the rank's program.
    pub operation: u32,
    /// When it began: the compute; taking part in the collective; sending; waiting for what is received.
    pub start: Time,
    /// When it was done.
    pub end: Time,
}

/// One collective, finished by all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// A program that has it, and its place there.
    pub program: u32,
    /// Its place in that program.
    pub operation: u32,
    /// The group.
    pub group: u32,
    /// When its first rank came to it.
    pub start: Time,
    /// When its last rank was done.
    pub end: Time,
    /// From when a rank came to it until it was done, the mean over ranks.
    pub mean: Duration,
}

/// What a job's policies did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounters {
    /// The wait before the first iteration, clock error included.
    pub time_shift: Duration,
    /// Flow engine: rate allocations in which the job met one of another weight or queue on a full link,
    /// so that weight or priority decided. Packet engine: cuts of a rate by the job's congestion controls.
    pub policy_acted: u64,
}

impl IterationRow {
    /// From start to end, without the wait before.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}
