//! Options, budget and outcome of a search, shared by both solvers and by the cluster-wide climb.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The shifts among which the optimum is sought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Rotations in steps of at most this many degrees of the unified circle (NSDI'24 uses 5).
    /// Where no usable number of steps is a multiple of every job's rounds, all shifts are
    /// considered.
    Precision {
        /// The step, in degrees.
        degrees: f64,
    },
    /// All shifts: the optimum follows from the edges of the phases. If half of the time and steps
    /// does not suffice to prove it, or there are more than 64 jobs, steps of 5 degrees are
    /// searched too.
    Exact,
}

/// How to solve.
pub struct SolveOptions<'a> {
    /// Which shifts to consider.
    pub method: Method,
    /// Count jobs instead of demand: at most one job may send at a time (HotNets'22 section 3).
    pub strict: bool,
    /// After this time, the search ends with its best shifts and the bound proven so far.
    pub time_limit: std::time::Duration,
    /// After about this number of steps, the search ends in the same manner, with the same answer
    /// on every machine. A step is one cell of the circle, or one shift of a job, that the search
    /// evaluates.
    pub step_limit: u64,
    /// Called from time to time; `true` ends the search as the time limit does.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// The time and steps that a search has left.
pub(crate) struct Budget<'a> {
    deadline: Option<Instant>,
    steps_left: u64,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    pub(crate) nodes: u64,
    since_check: u64,
    spent: bool,
}

/// The steps after which the clock is read and `interrupted` is called, or 256 nodes: about a tenth
/// of a millisecond. `interrupted` may wait for the lock of Python's interpreter, which costs more
/// than a small node.
const WORK_BETWEEN_CHECKS: u64 = 1 << 16;

/// The result of a search, with shifts in the units of its solver: ticks or sectors.
pub(crate) struct SearchOutcome {
    /// By job, below its period.
    pub(crate) shifts: Vec<u64>,
    /// Excess in the problem's units; between two ticks a shift may leave a fraction.
    pub(crate) objective: f64,
    /// No shifts have a lower objective.
    pub(crate) bound: f64,
    /// Whether the objective is proven to be the minimum.
    pub(crate) proven: bool,
}

/// A time limit that several searches share: each gets an equal part of what the earlier ones left.
pub(crate) struct SharedTime {
    deadline: Option<Instant>,
    searches_left: AtomicUsize,
    at_once: usize,
}

impl SharedTime {
    /// For `searches` searches, of which `at_once` run in parallel.
    pub(crate) fn new(time_limit: std::time::Duration, searches: usize, at_once: usize) -> Self {
        let deadline = Instant::now().checked_add(time_limit);
        Self { deadline, searches_left: AtomicUsize::new(searches), at_once }
    }

    /// The time limit of the next search.
    pub(crate) fn next(&self) -> std::time::Duration {
        let Some(deadline) = self.deadline else { return std::time::Duration::MAX };
        // Only this counter is shared, so the order of other memory does not matter.
        let left = self.searches_left.fetch_sub(1, Ordering::Relaxed);
        let share = self.at_once.min(left) as f64 / left as f64;
        deadline.saturating_duration_since(Instant::now()).mul_f64(share)
    }
}

impl Default for SolveOptions<'_> {
    /// 5 degrees (NSDI'24 section 5.1), demand form, ten seconds, any number of steps.
    fn default() -> Self {
        Self {
            method: Method::Precision { degrees: 5.0 },
            strict: false,
            time_limit: std::time::Duration::from_secs(10),
            step_limit: u64::MAX,
            interrupted: &|| false,
        }
    }
}

impl<'a> Budget<'a> {
    pub(crate) fn new(options: &SolveOptions<'a>) -> Self {
        // A limit too far away to be an instant is no limit.
        let deadline = Instant::now().checked_add(options.time_limit);
        Self {
            deadline,
            steps_left: options.step_limit,
            interrupted: options.interrupted,
            nodes: 0,
            since_check: 0,
            spent: false,
        }
    }

    pub(crate) fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps as u64);
        self.spent |= self.steps_left == 0;
        self.work(steps as u64);
    }

    /// Whether the search must end, as of the last work.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// Counts a node; returns whether the search must end.
    pub(crate) fn exhausted(&mut self) -> bool {
        self.nodes += 1;
        self.work(WORK_BETWEEN_CHECKS / 256);
        self.spent
    }

    fn work(&mut self, amount: u64) {
        self.since_check += amount;
        if !self.spent && self.since_check >= WORK_BETWEEN_CHECKS {
            self.since_check = 0;
            self.spent = self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                || (self.interrupted)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn searches_share_a_time_limit_and_none_is_no_limit() {
        let time = SharedTime::new(Duration::from_secs(60), 6, 2);
        let shares: Vec<Duration> = (0..6).map(|_| time.next()).collect();
        assert!(shares[0] <= Duration::from_secs(20), "two at once, so each has a third");
        // None of them took any time, so the last two could have all that is left.
        assert!(shares[5] <= Duration::from_secs(60) && shares[5] >= shares[0]);
        let unlimited = SharedTime::new(Duration::MAX, 2, 1);
        assert_eq!((unlimited.next(), unlimited.next()), (Duration::MAX, Duration::MAX));
    }
}
