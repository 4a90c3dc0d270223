//! Time-shifts for one link or several, at a precision in degrees or over continuous shifts, within
//! limits of time and steps. Chooses between the two solvers; the answer reports what is proven.

use hocket_des::Duration;

use crate::error::CompatError;
use crate::problem::{JointProblem, LinkProblem, Problem};
use crate::search::{Budget, Method, SearchOutcome, SolveOptions};
use crate::{exact, grid};

/// Up to this many ticks on the perimeter, the grid search over all ticks is faster than the exact
/// search (`benches/solver.rs`: 6 jobs take 0.3 s against 1.8 s).
const FINE_GRID: u64 = 360;

/// The number of steps of the perimeter among which the middle of equally good shifts is chosen: at
/// most 0.005 degrees from the true middle.
const CENTRING_STEPS: u64 = 1 << 16;

/// The precision of the search that replaces one over all shifts if that takes too long: NSDI'24
/// section 5.1.
const FALLBACK_DEG: f64 = 5.0;

/// Time-shifts for one link, or for several links with one shift per job.
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
    /// By job: the same delay as an angle of the unified circle, below 360/r_j degrees (Equation
    /// 4).
    pub rotations_deg: Vec<f64>,
    /// The step between the rotations that were searched, in degrees; 0 for all shifts.
    pub precision_deg: f64,
    /// The number of partial placements that the search visited.
    pub nodes: u64,
}

/// The time-shifts of jobs on one link that maximise the compatibility score (NSDI'24 Table 1).
///
/// Among equally good shifts, each job gets the middle of its interval while the others stay: drift
/// to either side then costs nothing for as long as possible.
///
/// # Errors
/// If there is no job, the capacity is zero, a job index is out of range, the periods have no
/// usable common multiple, the precision is not between 0.1 and 90 degrees, or jobs that share a
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

/// A mean score over several links that no shifts exceed, whatever the precision of the options.
///
/// # Errors
/// As [`solve_joint`].
pub(crate) fn joint_bound(
    joint: &JointProblem,
    options: &SolveOptions<'_>,
) -> Result<f64, CompatError> {
    let problem = joint.build(options.strict)?;
    Ok(problem.score(exact::bound(&problem, &mut Budget::new(options))?))
}

fn solve_problem(problem: &Problem, options: &SolveOptions<'_>) -> Result<Solution, CompatError> {
    let SolverOutcome { found, steps, precision_deg, nodes } = match options.method {
        Method::Precision { degrees } => in_steps(problem, degrees, options)?,
        Method::Exact => over_all_shifts(problem, options)?,
    };
    if found.objective >= problem.forbidden as f64 {
        // Only a completed search shows that no shifts keep the jobs of a GPU apart.
        return Err(if found.proven { CompatError::GpuConflict } else { CompatError::Stopped });
    }
    Ok(Solution {
        score: problem.score(found.objective),
        bound: problem.score(found.bound),
        proven_optimal: found.proven,
        perimeter: Duration::from_ps(problem.perimeter * problem.tick_ps),
        time_shifts: found.shifts.iter().map(|shift| time_shift(problem, *shift, steps)).collect(),
        rotations_deg: found.shifts.iter().map(|s| *s as f64 * 360.0 / steps as f64).collect(),
        precision_deg,
        nodes,
    })
}

/// The outcome of a solver that divided the perimeter into `steps`.
struct SolverOutcome {
    /// With shifts in steps.
    found: SearchOutcome,
    steps: u64,
    /// 0 if all shifts were considered.
    precision_deg: f64,
    nodes: u64,
}

fn in_steps(
    problem: &Problem,
    degrees: f64,
    options: &SolveOptions<'_>,
) -> Result<SolverOutcome, CompatError> {
    check_precision(degrees)?;
    let Some(sectors) = grid::sectors(problem, degrees) else {
        return at_ticks(problem, options);
    };
    let precision_deg = 360.0 / sectors as f64;
    let ticks = problem.perimeter;
    // An optimum over all shifts puts edges on edges, so it lies on the grid of ticks: if that is
    // part of the requested grid, searching the ticks is enough.
    let steps = if sectors.is_multiple_of(ticks) { ticks } else { sectors };
    let mut budget = Budget::new(options);
    let found = grid::solve(problem, steps, &mut budget)?;
    Ok(SolverOutcome { found, steps, precision_deg, nodes: budget.nodes })
}

/// The optimum over all shifts, with each job in the middle of its equally good shifts.
fn over_all_shifts(
    problem: &Problem,
    options: &SolveOptions<'_>,
) -> Result<SolverOutcome, CompatError> {
    let searched = best_of_all_shifts(problem, options)?;
    // On a coarse grid of ticks, the middle may lie between two ticks.
    let parts = CENTRING_STEPS / searched.steps;
    if searched.precision_deg > 0.0 || parts < 2 {
        return Ok(searched);
    }
    let Some(finer) = problem.refined(parts) else { return Ok(searched) };
    let shifts = exact::centred(&finer, &searched.found.shifts, parts);
    let steps = searched.steps * parts;
    Ok(SolverOutcome { found: SearchOutcome { shifts, ..searched.found }, steps, ..searched })
}

/// The optimum over all shifts, searched with half of the budget. If it is not proven by then, or
/// there are too many jobs, the other half goes to a search in steps, which finds a good answer
/// sooner; the better of both is the answer.
fn best_of_all_shifts(
    problem: &Problem,
    options: &SolveOptions<'_>,
) -> Result<SolverOutcome, CompatError> {
    if problem.perimeter <= FINE_GRID {
        return at_ticks(problem, options);
    }
    let half = SolveOptions {
        time_limit: options.time_limit / 2,
        step_limit: options.step_limit / 2,
        ..*options
    };
    if problem.jobs() > exact::MOST_JOBS {
        return in_steps(problem, FALLBACK_DEG, options);
    }
    let exact = at_ticks(problem, &half)?;
    let no_steps = grid::sectors(problem, FALLBACK_DEG).is_none();
    if exact.found.proven || no_steps || (options.interrupted)() {
        return Ok(exact);
    }
    // Sums over cells may overflow where sums over edges do not.
    let Ok(stepped) = in_steps(problem, FALLBACK_DEG, &half) else { return Ok(exact) };
    let nodes = exact.nodes + stepped.nodes;
    // Steps are a subset of all shifts, so the bound of the exact search holds for both.
    let bound = exact.found.bound;
    let better = if stepped.found.objective < exact.found.objective { stepped } else { exact };
    let proven = better.found.objective <= bound;
    Ok(SolverOutcome { found: SearchOutcome { bound, proven, ..better.found }, nodes, ..better })
}

/// The optimum over all shifts, which lies on the grid of ticks: a search of that grid if it is
/// small, otherwise of the edges.
fn at_ticks(problem: &Problem, options: &SolveOptions<'_>) -> Result<SolverOutcome, CompatError> {
    let steps = problem.perimeter;
    let mut budget = Budget::new(options);
    let found = if steps > FINE_GRID {
        exact::solve(problem, &mut budget)?
    } else {
        grid::solve(problem, steps, &mut budget)?
    };
    Ok(SolverOutcome { found, steps, precision_deg: 0.0, nodes: budget.nodes })
}

/// Equation 5 for a shift in steps, rounded to the nearest picosecond. The equation's modulo is not
/// needed: solvers return shifts below the job's period.
fn time_shift(problem: &Problem, shift: u64, steps: u64) -> Duration {
    let perimeter_ps = u128::from(problem.perimeter) * u128::from(problem.tick_ps);
    let ps = (u128::from(shift) * perimeter_ps + u128::from(steps) / 2) / u128::from(steps);
    Duration::from_ps(u64::try_from(ps).expect("a shift is shorter than the perimeter"))
}

fn check_precision(degrees: f64) -> Result<(), CompatError> {
    if (0.1..=90.0).contains(&degrees) {
        Ok(())
    } else {
        Err(CompatError::Precision { degrees: degrees.to_string() })
    }
}
