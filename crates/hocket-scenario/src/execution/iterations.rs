//! Iterations that some ranks have begun and not all have finished, and their rows once all have.

use std::collections::VecDeque;

use hocket_des::{Duration, Time};

use crate::{IterationRow, JobId, Records};

/// The open iterations, in order. There can be several, because ranks that depend on no others run ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    open: VecDeque<Tally>,
    /// The number of the first open iteration.
    first: u64,
}

#[derive(Clone, Copy, Debug)]
struct Tally {
    start: Time,
    delayed: Duration,
    end: Time,
    compute_ps: u128,
    done: u32,
}

impl Tallies {
    /// The number of iterations that all ranks have finished.
    pub(super) fn done(&self) -> u64 {
        self.first
    }

    /// A rank begins this iteration; the first rank that does sets its start.
    pub(super) fn begin(&mut self, iteration: u64, now: Time, delayed: Duration) {
        if (iteration - self.first) as usize == self.open.len() {
            let (compute_ps, done) = (0, 0);
            self.open.push_back(Tally { start: now, delayed, end: now, compute_ps, done });
        }
    }

    /// Ranks that are alike, so many in number, have finished this iteration.
    pub(super) fn end(&mut self, iteration: u64, now: Time, compute: Duration, ranks: u32) {
        let tally = &mut self.open[(iteration - self.first) as usize];
        tally.done += ranks;
        tally.end = now;
        tally.compute_ps += u128::from(compute.as_ps()) * u128::from(ranks);
    }

    /// Moves iterations that all `ranks` have finished to the records.
    pub(super) fn record_finished(&mut self, job: JobId, ranks: usize, records: &mut Records) {
        while let Some(&tally) = self.open.front().filter(|tally| tally.done as usize == ranks) {
            self.open.pop_front();
            let compute_ps = u64::try_from(tally.compute_ps / ranks as u128)
                .expect("no rank computes for longer than the run");
            let duration = tally.end.since(tally.start);
            records.iterations.push(IterationRow {
                job,
                iteration: self.first,
                start: tally.start,
                end: tally.end,
                communication: duration - Duration::from_ps(compute_ps),
                delayed: tally.delayed,
            });
            self.first += 1;
        }
    }
}
