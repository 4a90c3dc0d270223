//! Where an iteration of a rank ends and the next one begins, and what is said of one that all ranks have finished.

use hocket_des::{Duration, Time};

use super::{Command, Execution};
use crate::closed_loop::{TooLong, later};
use crate::{IterationRow, RankRow, Records};

#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    pub(super) start: Time,
    pub(super) delayed: Duration,
    pub(super) end: Time,
    pub(super) compute_ps: u128,
    pub(super) done: u32,
}

impl Execution<'_> {
    pub(super) fn end_iteration(
        &mut self,
        rank: u32,
        now: Time,
        records: &mut Records,
        commands: &mut Vec<Command>,
    ) -> Result<(), TooLong> {
        let state = &mut self.ranks[rank as usize];
        if !state.is_running {
            return Ok(());
        }
        state.account(now);
        state.is_running = false;
        records.ranks.push(RankRow {
            job: self.id,
            iteration: state.iteration,
            rank,
            start: state.start,
            end: now,
            compute: state.compute,
            exposed: state.exposed,
        });
        let tally = &mut self.tallies[(state.iteration - self.first_tally) as usize];
        tally.done += 1;
        tally.end = now;
        tally.compute_ps += u128::from(state.compute.as_ps());
        state.iteration += 1;
        let (iteration, began) = (state.iteration, state.start);
        self.end_tallies(records);
        if self.iterations == Some(iteration) {
            self.gone += 1;
            return Ok(());
        }
        let start = match self.job.pad_to {
            Some(pad_to) => later(self.job, began, pad_to)?.max(now),
            None => now,
        };
        self.ranks[rank as usize].delayed = start.since(now);
        // Also where nothing is waited for: an iteration of no time must not go on for ever without the engine.
        commands.push(Command::Wake { rank, at: start });
        Ok(())
    }

    // Rows of iterations that all ranks have finished.
    fn end_tallies(&mut self, records: &mut Records) {
        let ranks = self.ranks.len();
        while let Some(&tally) = self.tallies.front().filter(|tally| tally.done as usize == ranks) {
            self.tallies.pop_front();
            let compute_ps = u64::try_from(tally.compute_ps / ranks as u128)
                .expect("no rank computes for longer than the run");
            let duration = tally.end.since(tally.start);
            records.iterations.push(IterationRow {
                job: self.id,
                iteration: self.first_tally,
                start: tally.start,
                end: tally.end,
                communication: duration - Duration::from_ps(compute_ps),
                delayed: tally.delayed,
            });
            self.first_tally += 1;
        }
    }
}
