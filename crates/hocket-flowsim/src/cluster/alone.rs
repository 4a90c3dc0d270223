//! A job that no other can slow down: each of its phases takes as long as on an idle network.

use hocket_des::{Duration, Time};
use hocket_scenario::Records;
use hocket_scenario::closed_loop::{Next, Slots, TooLong};

use crate::cluster::running::Running;
use crate::cluster::skip_ahead::{Rows, SkipAhead, Watch};
use crate::error::FlowError;

pub(super) struct Alone {
    pub(super) job: Running,
    pub(super) rows: Rows,
    /// By the job's clock.
    records: Records,
    /// The last event, by the job's clock.
    now: Time,
    /// The time that it has skipped, by which its clock is behind that of the run.
    behind: Duration,
    watch: Option<Watch>,
}

impl Alone {
    /// A job by the clock of the run. If it is in an Up phase, it continues at its demand from `now` on.
    pub(super) fn new(mut job: Running, now: Time, skip_ahead: Option<SkipAhead>) -> Self {
        if job.sender.active {
            job.sender.advance(now);
            job.sender.rate = job.sender.cap;
            job.wake = Some(now + job.sender.time_at_cap());
        }
        let watch = skip_ahead.filter(|_| job.varies).map(|settings| Watch::new(settings, 1));
        Self {
            job,
            rows: Rows::default(),
            records: Records::of_jobs(0),
            now,
            behind: Duration::ZERO,
            watch,
        }
    }

    /// The job by the clock of the run, which is at `now`.
    pub(super) fn into_job(mut self, now: Time) -> (Running, Rows) {
        self.settle(now);
        self.job.postpone(self.behind);
        (self.job, self.rows)
    }

    pub(super) fn behind(&self) -> Duration {
        self.behind
    }

    /// Accounts for what the job has sent up to `now`.
    pub(super) fn settle(&mut self, now: Time) {
        if self.job.sender.active {
            self.job.sender.advance(now - self.behind);
        }
    }

    /// Begins to watch the job anew, since it has changed.
    pub(super) fn disturb(&mut self) {
        self.watch.iter_mut().for_each(Watch::restart);
    }

    /// Assigns slots to the job, or removes them. Its next iteration starts at the next slot.
    pub(super) fn align(&mut self, now: Time, slots: Option<Slots>) -> Result<(), TooLong> {
        let Running { closed_loop, wake, .. } = &mut self.job;
        closed_loop.align(now - self.behind, slots.map(|slots| slots.earlier_by(self.behind)))?;
        if closed_loop.done() == 0 {
            *wake = closed_loop.first_start().or(*wake);
        }
        Ok(())
    }

    /// A time before which it does not leave.
    pub(super) fn earliest_departure(&self, now: Time) -> Time {
        match self.job.wake {
            Some(wake) => (wake + self.behind).max(self.job.earliest_end(now)),
            None => Time::from_ps(u64::MAX),
        }
    }

    /// Advances to `until`. Returns whether the job leaves then.
    pub(super) fn advance(&mut self, until: Time) -> Result<bool, FlowError> {
        self.skip_ahead(until);
        while let Some(now) = self.job.wake.filter(|&wake| wake <= until - self.behind) {
            self.now = now;
            if self.job.sender.active {
                self.job.sender.advance(now);
                self.job.sender.stop();
            }
            let next = self.job.closed_loop.proceed(now, &mut self.records)?;
            self.note_iterations();
            self.job.wake = match next {
                Next::Wait(time) => Some(time),
                Next::Send(phase) => {
                    let Running { sender, closed_loop, policy, .. } = &mut self.job;
                    sender.start_phase(now, policy.share, closed_loop.present_phases());
                    sender.rate = phase.rate;
                    Some(now + phase.duration)
                }
                Next::Leave => {
                    self.job.wake = None;
                    return Ok(true);
                }
            };
            self.leap(now, until - self.behind);
            if let Some(watch) = self.watch.as_mut().filter(|watch| watch.is_due()) {
                watch.turn(now);
                self.skip_ahead(until);
            }
        }
        Ok(false)
    }

    fn note_iterations(&mut self) {
        self.records.phases.clear();
        let adjustment = self.rows.take_adjustments(&mut self.records, self.behind);
        for row in self.records.iterations.drain(..) {
            let finished = self.job.iterations(&row, self.behind, 1);
            if let Some(watch) = &mut self.watch {
                watch.note(0, &finished, adjustment);
            }
            self.job.journal.note(finished, &mut self.rows.iterations);
        }
    }

    // Leaps over identical iterations, so that simulating a job alone without jitter takes no longer for more iterations.
    fn leap(&mut self, now: Time, until: Time) {
        let Running { closed_loop, sender, wake, .. } = &mut self.job;
        let count = closed_loop.identical_until(now, until);
        if count > 0 {
            let (first, span) = closed_loop.leap(count);
            let busy = closed_loop.phases().iter().map(|phase| phase.duration).sum::<Duration>();
            sender.repeat(closed_loop.phases(), count, busy * count);
            sender.postpone(span);
            *wake = wake.map(|wake| wake + span);
            let identical = self.job.iterations(&first, self.behind, count);
            self.job.journal.note(identical, &mut self.rows.iterations);
        }
    }

    // Repeats what was watched, where that is before `until`.
    fn skip_ahead(&mut self, until: Time) {
        let Some(watch) = &mut self.watch else { return };
        let Running { closed_loop, sender, journal, done_before, .. } = &mut self.job;
        let left = closed_loop.left().unwrap_or(0);
        let room = until.since(self.now + self.behind);
        let cycle = closed_loop.slots().map_or(Duration::ZERO, |slots| slots.period);
        let Some(skip) = watch.skip(room, cycle, std::iter::once(left)) else { return };
        let (first, rows) = (*done_before + closed_loop.done(), &mut self.rows);
        let repeated =
            watch.repeat(0, skip.by, left.saturating_sub(1), &mut |place, row, adjustment| {
                rows.adjustments.extend(adjustment);
                journal.note(row.numbered(first + place), &mut rows.iterations);
            });
        let busy = closed_loop.phases().iter().map(|phase| phase.duration).sum::<Duration>();
        sender.repeat(closed_loop.phases(), repeated, busy * repeated);
        closed_loop.skip(repeated);
        rows.repeated += repeated;
        self.behind += skip.by;
        watch.skipped(skip);
        if skip.ends {
            watch.turn(self.now);
        }
    }
}
