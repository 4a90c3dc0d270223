//! The cycle of jobs without any randomness: once all of them are where they were before, they repeat what they did between.
//!
//! States are compared whenever the first job has finished an iteration, by Brent's algorithm ("An improved Monte Carlo
//! factorization algorithm", BIT 20, 1980, section 2): each with one earlier state, which is replaced after 1, 2, 4, 8… others.

use hocket_des::{Duration, Rate, Time};
use hocket_scenario::closed_loop::Position;

/// Where a job is, relative to the present time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobState {
    pub(super) position: Position,
    /// Picobits that are left of its phase, and its rate.
    pub(super) remaining: u128,
    pub(super) rate: Rate,
    /// The time until the end of its wait.
    pub(super) wake: Option<Duration>,
}

/// A search for a cycle.
#[derive(Default)]
pub(super) struct CycleSearch {
    earlier: Option<(Time, Vec<JobState>)>,
    /// The number of states compared with the earlier one, and after how many it is replaced.
    compared: u64,
    replaced_after: u64,
}

/// What a state says about the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// The cycle is not over.
    Differs,
    /// Later states are compared with this one.
    Replaces,
    /// The cycle is over; this is its length.
    Closes(Duration),
}

/// Longer cycles are not looked for: jobs rarely have them, and rows of all iterations of one are kept.
const MOST_COMPARED: u64 = 1 << 12;

impl CycleSearch {
    /// Begins anew, after a change.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Whether a cycle may still be found.
    pub(super) fn continues(&self) -> bool {
        self.replaced_after <= MOST_COMPARED
    }

    /// Compares the state of all jobs `now` with an earlier one.
    pub(super) fn compare(&mut self, now: Time, state: Vec<JobState>) -> Compared {
        if let Some((time, earlier)) = &self.earlier
            && *earlier == state
        {
            return Compared::Closes(now.since(*time));
        }
        self.compared += 1;
        if self.compared < self.replaced_after {
            return Compared::Differs;
        }
        self.earlier = Some((now, state));
        (self.compared, self.replaced_after) = (0, 2 * self.replaced_after.max(1));
        Compared::Replaces
    }
}
