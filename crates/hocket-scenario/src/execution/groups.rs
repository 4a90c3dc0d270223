//! Groups with the collectives that their ranks are in.

use std::collections::VecDeque;

use hocket_des::{Duration, Time};

/// The collectives of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupState {
    pub(super) open: VecDeque<OpenCollective>,
    pub(super) first: u64,
}

/// A collective that some rank has come to and some is not done with.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCollective {
    pub(super) start: Time,
    pub(super) iteration: u64,
    pub(super) program: u32,
    pub(super) operation: u32,
    pub(super) done: u32,
    /// Over the ranks that came and those that are done: the sums of the times at which that was.
    pub(super) joined_ps: u128,
    pub(super) done_ps: u128,
}

impl OpenCollective {
    /// Of one that is done: from when a rank came to it until it was done, the mean over ranks.
    pub(super) fn mean_time(&self) -> Duration {
        let mean_ps = (self.done_ps - self.joined_ps) / u128::from(self.done);
        Duration::from_ps(u64::try_from(mean_ps).expect("no rank takes longer than the run"))
    }
}
