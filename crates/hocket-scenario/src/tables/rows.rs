//! The rows that engines record.

use hocket_des::{Bytes, Duration, Rate, Time};

use crate::{JobId, LinkId};

/// One finished iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationRow {
    /// The job.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// When it began, after any delay.
    pub start: Time,
    /// When its last phase ended.
    pub end: Time,
    /// Time in Up phases. For a training job: exposed communication, which is the duration minus the mean over ranks of their
    /// time in computes.
    pub communication: Duration,
    /// Wait before `start` that the job chose: time-shift, re-adjustment, padding.
    pub delayed: Duration,
}

/// One finished Up phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseRow {
    /// The job.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Counted from 0 within the iteration.
    pub phase: u32,
    /// When the job began to send.
    pub start: Time,
    /// When all was sent.
    pub end: Time,
    /// The bytes that each of the job's flows sent.
    pub bytes: Bytes,
}

/// From `start` on, each of the job's flows sends at `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRow {
    /// The job.
    pub job: JobId,
    /// When the rate begins.
    pub start: Time,
    /// The rate until the job's next row.
    pub rate: Rate,
}

/// The traffic of one job on one link during the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRow {
    /// The link.
    pub link: LinkId,
    /// The job.
    pub job: JobId,
    /// The sum over all flows.
    pub bytes: Bytes,
    /// `bytes` ÷ the capacity of the link during the run.
    pub utilisation: f64,
    /// How long the job was sending on the link.
    pub busy: Duration,
}

/// A re-adjustment: a job that had drifted delayed itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjustmentRow {
    /// The job.
    pub job: JobId,
    /// When the job decided, at the end of an iteration.
    pub time: Time,
    /// The deviation from its slot with which the last communication started; positive if late.
    pub deviation_ps: i64,
    /// The resulting wait before the next iteration.
    pub delay: Duration,
}

/// One finished iteration of one rank of a training job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRow {
    /// The job.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// The rank.
    pub rank: u32,
    /// When its first operations began.
    pub start: Time,
    /// When its last operation was done.
    pub end: Time,
    /// Time in computes.
    pub compute: Duration,
    /// Time in which the rank communicated and did not compute.
    pub exposed: Duration,
}

/// One finished operation of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRow {
    /// The job.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// The rank.
    pub rank: u32,
    /// Its position in the rank's program.
    pub operation: u32,
    /// When it began: the compute began, the rank joined the collective, the message was sent, or the wait for a message began.
    pub start: Time,
    /// When it was done.
    pub end: Time,
}

/// One collective, finished by all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveRow {
    /// The job.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// A program that contains it: that of the first rank to join.
    pub program: u32,
    /// Its position in that program.
    pub operation: u32,
    /// The group.
    pub group: u32,
    /// When its first rank joined.
    pub start: Time,
    /// When its last rank was done.
    pub end: Time,
    /// The time from a rank's joining to its being done, as the mean over ranks.
    pub mean: Duration,
}

/// The effects of a job's policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounters {
    /// The wait before the first iteration, clock error included.
    pub time_shift: Duration,
    /// Flow engine: the number of rate allocations in which the job shared a full link with a job of another weight or
    /// queue, so that the policy affected its rate. Packet engine: the number of rate cuts by its congestion controls.
    pub policy_acted: u64,
}

impl IterationRow {
    /// The time from start to end, without the wait before.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}
