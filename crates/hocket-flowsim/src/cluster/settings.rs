//! How a cluster is run, and what is recorded of it.

use crate::cluster::skip_ahead::SkipAhead;
use crate::goodput::Goodput;
use crate::marks::MarkModel;

/// How a cluster is run and what is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of all random streams of the run.
    pub seed: u64,
    /// The number of queues that a link serves in strict order.
    pub priority_queues: u8,
    /// Crossings count 1/`flow_parts` of a flow, so that a flow can be spread over several paths. At least 1; times the rate of
    /// a link, it must fit in 60 bits. The model of marks counts whole flows and needs 1.
    pub flow_parts: u64,
    /// The goodput of links for which jobs contend.
    pub goodput: Goodput,
    /// Consecutive iterations are merged into one row if their times differ by no more than this fraction of the duration of
    /// the row's first one; 0 merges only equal iterations.
    pub merge: f64,
    /// The model of ECN marks; `None` counts no marks.
    pub marks: Option<MarkModel>,
    /// How jobs with jitter skip ahead while nothing changes; `None` simulates all their iterations.
    pub skip_ahead: Option<SkipAhead>,
}

impl Settings {
    pub(super) fn queue_of(&self, priority: u8) -> u8 {
        priority.min(self.priority_queues - 1)
    }
}

impl Default for Settings {
    /// Seed 1, one queue, whole flows, no goodput lost, rows only of equal iterations, no marks, every iteration simulated.
    fn default() -> Self {
        Self {
            seed: 1,
            priority_queues: 1,
            flow_parts: 1,
            goodput: Goodput::default(),
            merge: 0.0,
            marks: None,
            skip_ahead: None,
        }
    }
}
