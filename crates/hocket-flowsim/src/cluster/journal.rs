//! What is recorded of the iterations of a job: rows of all or of a sample of them, and a tally of all.

use hocket_des::{Stream, stream};
use hocket_scenario::JobId;
use rand::RngExt;

use crate::cluster::settings::{Record, Settings};
use crate::cluster::similar_iterations::SimilarIterations;
use crate::cluster::tally::{Tally, Work};

/// The record of a job over the whole run.
pub(super) struct Journal {
    tally: Tally,
    work: Work,
    /// The number of the start to which rows belong.
    start: u64,
    rows: Rows,
}

/// Which iterations get rows.
enum Rows {
    /// All: similar ones share a row, and `open` is the row that the next iteration may still join.
    Merged { merge: f64, open: Option<SimilarIterations> },
    /// One iteration of each `every` consecutive ones: `next` is the next one, which is in block number `block`.
    Sampled { every: u64, block: u64, next: u64, draws: Box<Stream> },
    /// None.
    No,
}

impl Journal {
    /// The record of a job that has done nothing yet.
    pub(super) fn new(job: JobId, settings: &Settings) -> Self {
        let rows = match settings.record {
            Record::All => Rows::Merged { merge: settings.merge, open: None },
            Record::Sampled { every } => {
                let mut draws = Box::new(stream(settings.seed, "sampled", u64::from(job.code())));
                let next = draws.random_range(0..every);
                Rows::Sampled { every, block: 0, next, draws }
            }
            Record::Summary => Rows::No,
        };
        let work = Work { ideal: hocket_des::Duration::ZERO, samples: 0 };
        Self { tally: Tally::default(), work, start: 0, rows }
    }

    /// The job starts: each iteration from now on is `work`.
    pub(super) fn begin(&mut self, start: u64, work: Work) {
        (self.start, self.work) = (start, work);
    }

    /// What was counted so far.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What was counted, when nothing more is.
    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }

    /// Adds iterations that follow those before. Pushes the rows that are complete to `rows`.
    pub(super) fn note(
        &mut self,
        mut finished: SimilarIterations,
        rows: &mut Vec<SimilarIterations>,
    ) {
        self.tally.add(&finished, self.work);
        finished.start_number = self.start;
        match &mut self.rows {
            Rows::Merged { merge, open } => rows.extend(finished.join(open, *merge)),
            // One iteration of each block, drawn uniformly: each has the same probability, and a sample of every `every`-th
            // could be in step with what is repeated.
            Rows::Sampled { every, block, next, draws } => {
                while *next < finished.iteration + finished.count {
                    rows.push(finished.single(*next - finished.iteration));
                    *block += 1;
                    *next = *block * *every + draws.random_range(0..*every);
                }
            }
            Rows::No => {}
        }
    }

    /// Completes the row that the next iteration could still join.
    pub(super) fn take_open(&mut self) -> Option<SimilarIterations> {
        match &mut self.rows {
            Rows::Merged { open, .. } => open.take(),
            Rows::Sampled { .. } | Rows::No => None,
        }
    }
}
