//! Asking for time-shifts: at a precision in degrees or over continuous shifts, with a time limit,
//! and with what has been proven said in the answer.

use std::time::Instant;

use hocket_des::Duration;

use crate::problem::{CompatError, JointProblem, LinkProblem, Problem};
use crate::{exact, grid};

/// Up to this many ticks on the perimeter, the grid search over all ticks is the faster exact one
/// (`benches/solver.rs`: 6 jobs take 0.3 s against 1.8 s).
const FINE_GRID: u64 = 360;

/// Over which shifts the optimum is sought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Rotations in steps of at most this many degrees of the unified circle (NSDI'24 uses 5). Where
    /// no usable number of steps is a multiple of every job's rounds, all shifts are considered.
    Precision {
        /// The step, in degrees.
        degrees: f64,
    },
    /// All shifts: the optimum is found from the edges of the phases.
    Exact,
}

/// How to solve.
pub struct SolveOptions<'a> {
    /// Which shifts to consider.
    pub method: Method,
    /// Count jobs instead of demand: at most one job may send at a time (HotNets'22 section 3).
    pub strict: bool,
    /// After this long, the best found so far is returned with the bound proven by then.
    pub time_limit: std::time::Duration,
    /// The same after about so many steps, with the same answer on every machine. A step is one cell
    /// of the circle, or one shift of a job, that the search looks at.
    pub step_limit: u64,
    /// Asked now and then; `true` ends the search like the time limit does.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// The answer for one link, or for several with one shift per job.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The score reached (Equation 2), with several links their mean.
    pub score: f64,
    /// No shifts at all (of those considered) score higher than this.
    pub bound: f64,
    /// Whether `score` is proven to be the optimum: then it equals `bound`.
    pub proven_optimal: bool,
    /// The perimeter of the unified circle.
    pub perimeter: Duration,
    /// By job: the delay of its next iteration, below its period (Equation 5).
    pub time_shifts: Vec<Duration>,
    /// By job: the same as an angle of the unified circle, below 360/r_j degrees (Equation 4).
    pub rotations_deg: Vec<f64>,
    /// The step between rotations that were considered, in degrees; 0 for all.
    pub precision_deg: f64,
    /// How many partial placements were looked at.
    pub nodes: u64,
}

/// What a search found, in its own units of shift.
pub(crate) struct Found {
    /// By job, below its period.
    pub(crate) shifts: Vec<u64>,
    /// Excess in the problem's units; between two ticks a shift may leave a fraction.
    pub(crate) objective: f64,
    pub(crate) bound: f64,
    pub(crate) proven: bool,
}

/// What a search may take.
pub(crate) struct Budget<'a> {
    deadline: Option<Instant>,
    steps_left: u64,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    pub(crate) nodes: u64,
    spent: bool,
}

impl Default for SolveOptions<'_> {
    /// 5 degrees, demand form, ten seconds, any number of steps.
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

    /// Counts steps.
    pub(crate) fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps as u64);
        self.spent |= self.steps_left == 0;
    }

    /// Whether the search must end, as far as is known without a look at the clock.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// Counts a node; whether the search must end. The clock is read every 256 nodes.
    pub(crate) fn exhausted(&mut self) -> bool {
        self.nodes += 1;
        if !self.spent && self.nodes.is_multiple_of(256) {
            self.spent = self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                || (self.interrupted)();
        }
        self.spent
    }
}

/// The time-shifts of jobs on one link that maximise the compatibility score (NSDI'24 Table 1).
///
/// Of all optimal rotations, each job gets the middle of its interval, the others staying: drift to
/// either side then costs nothing for as long as possible.
///
/// # Errors
/// If there is no job, the capacity is zero, a job index is out of range, the periods have no
/// usable common multiple, the precision is not between 0.01 and 180 degrees, or jobs that share a
/// GPU cannot avoid each other.
pub fn solve(link: &LinkProblem, options: &SolveOptions<'_>) -> Result<Solution, CompatError> {
    solve_problem(&link.build(options.strict)?, options)
}

/// One shift per job that maximises the mean score over several links (HotNets'22 section 5).
///
/// # Errors
/// As [`solve`].
pub fn solve_joint(
    joint: &JointProblem,
    options: &SolveOptions<'_>,
) -> Result<Solution, CompatError> {
    solve_problem(&joint.build(options.strict)?, options)
}

fn solve_problem(problem: &Problem, options: &SolveOptions<'_>) -> Result<Solution, CompatError> {
    let mut budget = Budget::new(options);
    let asked = match options.method {
        Method::Precision { degrees } => {
            check_precision(degrees)?;
            grid::sectors(problem, degrees)
        }
        Method::Exact => None,
    };
    let ticks = problem.perimeter;
    // An optimum over all shifts puts edges on edges, so it lies on the grid of ticks: where that is
    // small, or part of the grid asked for, it is enough to search there.
    let (found, steps) = match asked {
        Some(sectors) if !sectors.is_multiple_of(ticks) => {
            (grid::solve(problem, sectors, &mut budget)?, sectors)
        }
        None if ticks > FINE_GRID => (exact::solve(problem, &mut budget)?, ticks),
        _ => (grid::solve(problem, ticks, &mut budget)?, ticks),
    };
    if found.objective >= problem.forbidden as f64 {
        return Err(if found.proven { CompatError::GpuConflict } else { CompatError::Stopped });
    }
    Ok(Solution {
        score: problem.score(found.objective),
        bound: problem.score(found.bound),
        proven_optimal: found.proven,
        perimeter: Duration::from_ps(problem.perimeter * problem.tick_ps),
        time_shifts: found.shifts.iter().map(|shift| time_shift(problem, *shift, steps)).collect(),
        rotations_deg: found.shifts.iter().map(|s| *s as f64 * 360.0 / steps as f64).collect(),
        precision_deg: asked.map_or(0.0, |sectors| 360.0 / sectors as f64),
        nodes: budget.nodes,
    })
}

/// Equation 5 for a shift in steps, rounded to the nearest picosecond. Shifts are below the job's
/// period already.
fn time_shift(problem: &Problem, shift: u64, steps: u64) -> Duration {
    let perimeter_ps = u128::from(problem.perimeter) * u128::from(problem.tick_ps);
    let ps = (u128::from(shift) * perimeter_ps + u128::from(steps) / 2) / u128::from(steps);
    Duration::from_ps(u64::try_from(ps).expect("a shift is shorter than the perimeter"))
}

fn check_precision(degrees: f64) -> Result<(), CompatError> {
    if (0.01..=180.0).contains(&degrees) {
        Ok(())
    } else {
        Err(CompatError::Precision { degrees: degrees.to_string() })
    }
}
