//! The open collectives of groups.

use std::collections::VecDeque;

use hocket_des::{Duration, Time};

/// The open collectives of a group, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupState {
    pub(super) open: VecDeque<OpenCollective>,
    /// The sequence number of the first of them.
    pub(super) first: u64,
}

/// A collective that some rank has joined and some rank has not finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCollective {
    pub(super) start: Time,
    pub(super) iteration: u64,
    pub(super) program: u32,
    pub(super) operation: u32,
    pub(super) done: u32,
    /// The sum of the times at which ranks joined, and of those at which ranks finished: their difference yields the mean
    /// without a list of ranks.
    pub(super) joined_ps: u128,
    pub(super) done_ps: u128,
}

impl OpenCollective {
    /// The time from a rank's joining to its finishing, as the mean over ranks. Only valid when all have finished.
    pub(super) fn mean_time(&self) -> Duration {
        let mean_ps = (self.done_ps - self.joined_ps) / u128::from(self.done);
        Duration::from_ps(u64::try_from(mean_ps).expect("no rank takes longer than the run"))
    }
}
