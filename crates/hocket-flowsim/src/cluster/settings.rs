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
    /// Which iterations get rows.
    pub record: Record,
    /// With [`Record::All`], consecutive iterations are merged into one row if their times differ by no more than this fraction of the duration of
    /// the row's first one; 0 merges only equal iterations.
    pub merge: f64,
    /// The model of ECN marks; `None` counts no marks.
    pub marks: Option<MarkModel>,
    /// How jobs skip ahead while nothing changes; `None` simulates all iterations of those that have jitter or share links.
    pub skip_ahead: Option<SkipAhead>,
    /// About this number of iterations after it began, an advance returns, so that rows can be taken; `None` sets no limit.
    pub most_iterations: Option<u64>,
}

/// Which iterations get rows. Totals and distributions are over all iterations in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// All.
    All,
    /// Of each `every` consecutive iterations of a job, which is at least 1, one that is drawn at random.
    Sampled {
        /// The number of iterations that each row stands for.
        every: u64,
    },
    /// None.
    Summary,
}

impl Settings {
    pub(super) fn queue_of(&self, priority: u8) -> u8 {
        priority.min(self.priority_queues - 1)
    }
}

impl Default for Settings {
    /// Seed 1, one queue, whole flows, no goodput lost, rows of all iterations that merge only equal ones, no marks, every iteration
    /// simulated, advances without limit.
    fn default() -> Self {
        Self {
            seed: 1,
            priority_queues: 1,
            flow_parts: 1,
            goodput: Goodput::default(),
            record: Record::All,
            merge: 0.0,
            marks: None,
            skip_ahead: None,
            most_iterations: None,
        }
    }
}
