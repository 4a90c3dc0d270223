//! What is counted over all iterations of a job, whatever is recorded of single ones.

use hocket_des::Duration;

use crate::cluster::distribution::Distribution;
use crate::cluster::similar_iterations::SimilarIterations;

/// Jobs with fewer iterations have exact percentiles; 16 bytes each, of thousands of jobs that run at the same time.
const MOST_EXACT_OF_JOB: usize = 16_384;
/// The same for all jobs of a model together.
const MOST_EXACT_OF_MODEL: usize = 262_144;

/// Totals and distributions over all iterations of a job.
pub(super) struct Tally {
    /// Totals.
    pub(super) totals: Totals,
    /// Of iteration times and slowdowns.
    pub(super) distributions: Distributions,
}

/// Sums over iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of iterations.
    pub iterations: u64,
    /// The samples that they processed.
    pub samples: u64,
    /// Their times, including the waits before them.
    pub time: Duration,
    /// Their times on an idle network.
    pub ideal: Duration,
    /// Their times in Up phases.
    pub communication: Duration,
    /// The waits before them.
    pub delayed: Duration,
    /// The expected number of packets marked in them.
    pub marks: f64,
}

/// The distributions of two quantities over iterations.
#[derive(Clone, Debug)]
pub(super) struct Distributions {
    /// Of their times in picoseconds, including the waits before them.
    pub(super) times_ps: Distribution,
    /// Of these times ÷ those on an idle network.
    pub(super) slowdowns: Distribution,
}

/// What one iteration stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Its time on an idle network.
    pub(super) ideal: Duration,
    pub(super) samples: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let distributions = Distributions::new(MOST_EXACT_OF_JOB);
        Self { totals: Totals::default(), distributions }
    }
}

impl Tally {
    /// Counts iterations of equal times.
    pub(super) fn add(&mut self, row: &SimilarIterations, work: Work) {
        let (totals, count) = (&mut self.totals, row.count);
        totals.iterations += count;
        totals.samples += work.samples * count;
        totals.time += row.whole();
        totals.ideal += work.ideal * count;
        totals.communication += row.communication;
        totals.delayed += row.delayed;
        totals.marks += row.marks;
        let time_ps = row.whole().as_ps() as f64 / count as f64;
        self.distributions.times_ps.add(time_ps, count);
        self.distributions.slowdowns.add(time_ps / work.ideal.as_ps() as f64, count);
    }
}

impl Distributions {
    fn new(most_exact: usize) -> Self {
        Self { times_ps: Distribution::new(most_exact), slowdowns: Distribution::new(most_exact) }
    }

    /// Those of no jobs of a model so far.
    pub(super) fn of_model() -> Self {
        Self::new(MOST_EXACT_OF_MODEL)
    }

    /// Adds the iterations of `other`.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.times_ps.add_all(&other.times_ps);
        self.slowdowns.add_all(&other.slowdowns);
    }
}
