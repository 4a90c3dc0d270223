//! Options, budget and outcome of a search, shared by both solvers and by the cluster-wide climb.

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
    spent: bool,
}

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
            spent: false,
        }
    }

    pub(crate) fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps as u64);
        self.spent |= self.steps_left == 0;
    }

    /// Whether the search must end, without reading the clock.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// Counts a node; returns whether the search must end.
    pub(crate) fn exhausted(&mut self) -> bool {
        self.nodes += 1;
        // `interrupted` may wait for the lock of Python's interpreter, which costs more than a
        // small node.
        if !self.spent && self.nodes.is_multiple_of(256) {
            self.spent = self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                || (self.interrupted)();
        }
        self.spent
    }
}
