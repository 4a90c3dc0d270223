//! The proven optimum over discrete rotations: depth-first branch and bound on a circle divided
//! into cells, such that every edge of every job at every rotation lies on a border between cells.
//! Demand is therefore exact; only the rotations are discrete.

use num_integer::Integer;
use num_traits::PrimInt;

use crate::error::CompatError;
use crate::problem::Problem;
use crate::search::{Budget, SearchOutcome};

/// The circle divided into sectors, and each sector into the same cells.
struct Grid<W> {
    cells: usize,
    /// Cells per sector: a rotation by one sector moves an arc by this many cells.
    stride: usize,
    capacities: Vec<W>,
    /// Per resource and cell: the cell's width × the resource's weight.
    weights: Vec<Vec<W>>,
    jobs: Vec<GridJob<W>>,
}

#[derive(PartialEq)]
struct GridJob<W> {
    rotations: usize,
    /// Cells in one period of the job.
    fold: usize,
    bands: Vec<Band<W>>,
}

/// All arcs of one height that a job has on one resource.
#[derive(PartialEq)]
struct Band<W> {
    resource: usize,
    height: W,
    /// The first cell of each and the one after its last, within one period.
    arcs: Vec<(usize, usize)>,
}

/// The most sectors. Every node of the search visits all their cells, so on finer circles the
/// search over all shifts, which visits only edges, is the better choice.
const MAX_SECTORS: u64 = 1 << 13;

/// The number of sectors of the unified circle for a precision: at least as fine as requested, and
/// a multiple of every job's rounds so that each rotation below 2π/r_j (Equation 4) is a whole
/// number of sectors. `None` if that would need more than [`MAX_SECTORS`].
pub(crate) fn sectors(problem: &Problem, precision_deg: f64) -> Option<u64> {
    // A quotient that floating point puts just above a whole number must not add a sector.
    let requested = (360.0 / precision_deg - 1e-9).ceil().max(1.0) as u64;
    let rounds = (0..problem.jobs()).try_fold(1u64, |lcm, job| {
        let rounds = problem.rounds(job);
        (lcm / lcm.gcd(&rounds)).checked_mul(rounds).filter(|lcm| *lcm <= MAX_SECTORS)
    })?;
    let sectors = requested.div_ceil(rounds) * rounds;
    (sectors <= MAX_SECTORS || rounds == 1).then_some(sectors)
}

/// The best rotations on a circle of `sectors` sectors, in sectors by job.
///
/// # Errors
/// If the demands do not add up within 127 bits.
pub(crate) fn solve(
    problem: &Problem,
    sectors: u64,
    budget: &mut Budget<'_>,
) -> Result<SearchOutcome, CompatError> {
    let cuts = Cuts::new(problem, sectors)?;
    // The narrowest sufficient integers are the fastest: a vector register has four lanes of 32
    // bits or two of 64. Half of each range is left free, because prefix sums go twice around the
    // circle.
    if cuts.worst < 1 << 30 {
        Ok(Search::new(cuts.grid::<i32>(problem), budget).run(cuts.unit))
    } else if cuts.worst < 1 << 62 {
        Ok(Search::new(cuts.grid::<i64>(problem), budget).run(cuts.unit))
    } else if cuts.worst < 1 << 126 {
        Ok(Search::new(cuts.grid::<i128>(problem), budget).run(cuts.unit))
    } else {
        Err(CompatError::Overflow)
    }
}

/// Where the circle is cut, in units of a tick ÷ `sectors`, and the units by which numbers can be
/// scaled down.
struct Cuts {
    sectors: u64,
    /// Offsets within a sector at which cells begin; the first is 0.
    offsets: Vec<u128>,
    widths: Vec<u128>,
    /// Greatest common divisors.
    width_unit: u128,
    height_unit: u64,
    weight_unit: u128,
    /// One unit of the grid's objective in units of the problem's, as (numerator, denominator).
    unit: (u128, u128),
    /// An objective that no rotations exceed, in units of the grid.
    worst: u128,
}

impl Cuts {
    fn new(problem: &Problem, sectors: u64) -> Result<Self, CompatError> {
        // In units of a tick ÷ sectors, the width of a sector is a whole number too.
        let sector = u128::from(problem.perimeter);
        let mut offsets = vec![0];
        let arcs = || {
            problem.resources.iter().flat_map(|resource| {
                let by_job = resource.arcs.iter().enumerate();
                by_job.flat_map(|(job, arcs)| arcs.iter().map(move |arc| (job, arc)))
            })
        };
        // The edges of all rounds, since a period need not be a whole number of sectors.
        for (job, arc) in arcs() {
            for round in 0..problem.rounds(job) {
                let base = u128::from(round * problem.periods[job]);
                for edge in [arc.start, arc.end] {
                    offsets.push((base + u128::from(edge)) * u128::from(sectors) % sector);
                }
            }
        }
        offsets.sort_unstable();
        offsets.dedup();
        let widths: Vec<u128> = offsets
            .iter()
            .zip(offsets.iter().skip(1).chain([&sector]))
            .map(|(from, to)| to - from)
            .collect();
        let width_unit = widths.iter().fold(0, |gcd, width| width.gcd(&gcd));
        let height_unit = arcs()
            .map(|(_, arc)| arc.height)
            .chain(problem.resources.iter().map(|resource| resource.capacity))
            .fold(0, |gcd, height| height.gcd(&gcd));
        let weight_unit =
            problem.resources.iter().fold(0, |gcd, resource| resource.weight.gcd(&gcd));
        let unit = width_unit
            .checked_mul(u128::from(height_unit))
            .and_then(|unit| unit.checked_mul(weight_unit))
            .ok_or(CompatError::Overflow)?;
        let worst = problem.resources.iter().try_fold(0u128, |sum, resource| {
            let heights: u128 = resource
                .arcs
                .iter()
                .flatten()
                .map(|arc| u128::from(arc.height / height_unit))
                .sum();
            let circle = sector.checked_mul(u128::from(sectors))? / width_unit;
            let most = heights + u128::from(resource.capacity / height_unit);
            sum.checked_add(most.checked_mul(resource.weight / weight_unit)?.checked_mul(circle)?)
        });
        Ok(Self {
            sectors,
            offsets,
            widths,
            width_unit,
            height_unit,
            weight_unit,
            unit: (unit, u128::from(sectors)),
            worst: worst.ok_or(CompatError::Overflow)?,
        })
    }

    fn grid<W: Amount>(&self, problem: &Problem) -> Grid<W> {
        let stride = self.offsets.len();
        let cells = stride * self.sectors as usize;
        let scale = |value: u128| W::from(value).expect("the worst sum fits, so its parts do");
        let weights = problem
            .resources
            .iter()
            .map(|resource| {
                let weight = resource.weight / self.weight_unit;
                let sector: Vec<W> = self
                    .widths
                    .iter()
                    .map(|width| scale(width / self.width_unit * weight))
                    .collect();
                sector.iter().copied().cycle().take(cells).collect()
            })
            .collect();
        let capacities = problem
            .resources
            .iter()
            .map(|resource| scale(u128::from(resource.capacity / self.height_unit)))
            .collect();
        let jobs = (0..problem.jobs()).map(|job| self.job(problem, job, scale)).collect();
        Grid { cells, stride, capacities, weights, jobs }
    }

    fn job<W: Amount>(
        &self,
        problem: &Problem,
        job: usize,
        scale: impl Fn(u128) -> W,
    ) -> GridJob<W> {
        let rotations = (self.sectors / problem.rounds(job)) as usize;
        let mut bands: Vec<Band<W>> = Vec::new();
        for (index, resource) in problem.resources.iter().enumerate() {
            for arc in &resource.arcs[job] {
                let height = scale(u128::from(arc.height / self.height_unit));
                let cells = (self.cell_of(problem, arc.start), self.cell_of(problem, arc.end));
                match bands.iter_mut().find(|b| b.resource == index && b.height == height) {
                    Some(band) => band.arcs.push(cells),
                    None => bands.push(Band { resource: index, height, arcs: vec![cells] }),
                }
            }
        }
        GridJob { rotations, fold: rotations * self.offsets.len(), bands }
    }

    fn cell_of(&self, problem: &Problem, edge: u64) -> usize {
        let sector = u128::from(problem.perimeter);
        let scaled = u128::from(edge) * u128::from(self.sectors);
        let within = self
            .offsets
            .binary_search(&(scaled % sector))
            .expect("every edge was made a cut of its sector");
        (scaled / sector) as usize * self.offsets.len() + within
    }
}

/// Integers wide enough for a grid's sums.
trait Amount: PrimInt + std::fmt::Debug + Send + Sync {}
impl<T: PrimInt + std::fmt::Debug + Send + Sync> Amount for T {}

/// The working memory of one depth of the search, allocated once.
struct Level<W> {
    /// Per resource and cell: demand of the placed jobs − capacity.
    surplus: Vec<Vec<W>>,
    /// By job and rotation: the growth of the objective if the job is placed there.
    increments: Vec<Vec<W>>,
    /// By job: the least of these.
    minima: Vec<W>,
}

struct Search<'a, 'b, W> {
    grid: Grid<W>,
    budget: &'a mut Budget<'b>,
    levels: Vec<Level<W>>,
    scratch: Vec<W>,
    /// By job: the nearest earlier job with the same arcs; exchanging the two changes nothing.
    twins: Vec<Option<usize>>,
    rotation: Vec<Option<usize>>,
    best: W,
    best_rotation: Vec<usize>,
}

impl<'a, 'b, W: Amount> Search<'a, 'b, W> {
    fn new(grid: Grid<W>, budget: &'a mut Budget<'b>) -> Self {
        let jobs = grid.jobs.len();
        let level = || Level {
            surplus: grid.capacities.iter().map(|c| vec![W::zero() - *c; grid.cells]).collect(),
            increments: grid.jobs.iter().map(|job| vec![W::zero(); job.rotations]).collect(),
            minima: vec![W::zero(); jobs],
        };
        let levels = (0..=jobs).map(|_| level()).collect();
        let twins = (0..jobs)
            .map(|job| (0..job).rev().find(|earlier| grid.jobs[*earlier] == grid.jobs[job]))
            .collect();
        Self {
            scratch: vec![W::zero(); 2 * grid.cells + 1],
            grid,
            budget,
            levels,
            twins,
            rotation: vec![None; jobs],
            best: W::max_value(),
            best_rotation: vec![0; jobs],
        }
    }

    fn run(mut self, unit: (u128, u128)) -> SearchOutcome {
        // Rotating all jobs together changes nothing, so one job can stay at 0: the one whose
        // branching costs most.
        let root = (0..self.grid.jobs.len())
            .max_by_key(|job| (self.grid.jobs[*job].rotations, usize::MAX - job))
            .expect("a problem has a job");
        self.descend_greedily(root);
        self.place(0, root, 0);
        let mut rest: Vec<usize> = (0..self.grid.jobs.len()).filter(|job| *job != root).collect();
        let base = self.first_level_excess();
        let open = self.descend(1, base, &mut rest);
        self.centre(root);
        let objective = |value: W| {
            let units = value.to_f64().expect("integers have a nearest float");
            units * unit.0 as f64 / unit.1 as f64
        };
        SearchOutcome {
            shifts: self.best_rotation.iter().map(|rotation| *rotation as u64).collect(),
            objective: objective(self.best),
            bound: objective(open.map_or(self.best, |open| open.min(self.best))),
            proven: open.is_none(),
        }
    }

    /// The objective of the jobs on level 1.
    fn first_level_excess(&self) -> W {
        let resources = self.levels[1].surplus.iter().zip(&self.grid.weights);
        let cells = resources.flat_map(|(surplus, weights)| surplus.iter().zip(weights));
        cells.fold(W::zero(), |sum, (surplus, weight)| sum + *weight * (*surplus).max(W::zero()))
    }

    /// Writes level `depth` with `job` added at `rotation` to level `depth + 1`.
    fn place(&mut self, depth: usize, job: usize, rotation: usize) {
        let (from, to) = self.levels.split_at_mut(depth + 1);
        for (to, from) in to[0].surplus.iter_mut().zip(&from[depth].surplus) {
            to.copy_from_slice(from);
        }
        let spec = &self.grid.jobs[job];
        add_arcs(&mut to[0].surplus, spec, rotation * self.grid.stride, self.grid.cells);
        self.rotation[job] = Some(rotation);
    }

    /// Calculates the growth of the objective for each rotation of `job` on top of level `depth`.
    ///
    /// The growth per cell depends only on an arc's height, so one prefix sum serves all rotations
    /// of a band.
    fn weigh(&mut self, depth: usize, job: usize) {
        let Self { grid, levels, scratch, budget, .. } = self;
        budget.spend(grid.cells);
        let Level { surplus, increments, minima } = &mut levels[depth];
        let GridJob { rotations, fold, bands } = &grid.jobs[job];
        let growth = &mut increments[job];
        growth.fill(W::zero());
        for Band { resource, height, arcs } in bands {
            let (surplus, weights) = (&surplus[*resource], &grid.weights[*resource]);
            prefix_growth(surplus, weights, *height, *fold, scratch);
            for &(start, end) in arcs {
                for (rotation, growth) in growth.iter_mut().enumerate() {
                    let turn = rotation * grid.stride;
                    *growth = *growth + scratch[end + turn] - scratch[start + turn];
                }
            }
        }
        debug_assert_eq!(growth.len(), *rotations);
        minima[job] = growth.iter().copied().min().expect("a job has a rotation");
    }

    /// Explores all placements of `rest` on top of level `depth`. `None` if all were explored or
    /// ruled out; otherwise a bound below which none of the unexplored ones lies.
    fn descend(&mut self, depth: usize, placed: W, rest: &mut Vec<usize>) -> Option<W> {
        if rest.is_empty() {
            if placed < self.best {
                self.best = placed;
                self.best_rotation =
                    self.rotation.iter().map(|r| r.expect("all jobs are placed")).collect();
            }
            return None;
        }
        let mut bound = placed;
        for &job in rest.iter() {
            self.weigh(depth, job);
            bound = bound + self.levels[depth].minima[job];
        }
        // Excess is convex in demand, so each job's growth on top of all others is at least its
        // growth on top of the placed ones: the sum of the least growths is a lower bound.
        if bound >= self.best {
            return None;
        }
        if self.budget.exhausted() {
            return Some(bound);
        }
        let (place, choices) = self.branch(depth, bound, rest);
        let job = rest.swap_remove(place);
        let slack = bound - placed - self.levels[depth].minima[job];
        let mut open: Option<W> = None;
        for (growth, rotation) in choices {
            let below = placed + growth + slack;
            // Choices ascend by growth, so what holds for this one holds for all that follow.
            if below >= self.best {
                break;
            }
            if open.is_some() || self.budget.is_spent() {
                open = Some(open.map_or(below, |open| open.min(below)));
                break;
            }
            self.place(depth, job, rotation);
            open = self.descend(depth + 1, placed + growth, rest);
            self.rotation[job] = None;
        }
        // Restores the order of `rest`, which decides ties in `branch`.
        rest.push(job);
        let last = rest.len() - 1;
        rest.swap(place, last);
        open
    }

    /// The place in `rest` of the job with the fewest rotations that can still beat the best, and
    /// those rotations in ascending order of growth.
    fn branch(&self, depth: usize, bound: W, rest: &[usize]) -> (usize, Vec<(W, usize)>) {
        let Level { increments, minima, .. } = &self.levels[depth];
        let viable = |job: usize| {
            // The other jobs add at least `bound` − this job's minimum.
            let allowed = self.best - bound + minima[job];
            let range = self.twin_range(job);
            increments[job]
                .iter()
                .enumerate()
                .filter(move |(rotation, growth)| range.contains(rotation) && **growth < allowed)
        };
        let (place, job) = rest
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, job)| viable(*job).count())
            .expect("some job is unplaced");
        let mut choices: Vec<(W, usize)> = viable(job).map(|(r, growth)| (*growth, r)).collect();
        choices.sort_unstable();
        (place, choices)
    }

    /// The rotations of a job that need to be searched: among jobs with the same arcs, a later one
    /// is never rotated less than an earlier one, since exchanging them changes nothing. The root,
    /// at rotation 0, is the first of its kind.
    fn twin_range(&self, job: usize) -> std::ops::RangeInclusive<usize> {
        let later = (job + 1..self.twins.len()).find(|later| self.twins[*later] == Some(job));
        let low = self.twins[job].and_then(|twin| self.rotation[twin]).unwrap_or(0);
        let high = later.and_then(|twin| self.rotation[twin]).unwrap_or(usize::MAX);
        low..=high
    }

    /// First solutions, which let the search prune from its first node on: jobs are placed one
    /// after another at their best rotation, then rotated one by one while that helps, in several
    /// orders.
    fn descend_greedily(&mut self, root: usize) {
        let jobs = self.grid.jobs.len();
        for first in 0..jobs {
            if first > 0 && self.budget.is_spent() {
                break;
            }
            let order: Vec<usize> = std::iter::once(root)
                .chain((0..jobs).map(|i| (first + i) % jobs).filter(|job| *job != root))
                .collect();
            let mut rotation: Vec<Option<usize>> = vec![None; jobs];
            rotation[root] = Some(0);
            let mut last = W::max_value();
            for _ in 0..jobs + 2 {
                let mut objective = last;
                for &job in order.iter().filter(|job| **job != root) {
                    rotation[job] = None;
                    let (turn, value) = self.best_turn(&rotation, job);
                    rotation[job] = Some(turn);
                    objective = value;
                }
                if jobs == 1 {
                    objective = self.overlay(&rotation);
                }
                if objective >= last {
                    break;
                }
                last = objective;
                if self.budget.is_spent() {
                    break;
                }
            }
            if last < self.best {
                self.best = last;
                self.best_rotation = rotation.iter().map(|r| r.expect("all are placed")).collect();
            }
        }
    }

    /// The first rotation at which `job` adds least to the jobs that have a rotation, and the
    /// objective with it.
    fn best_turn(&mut self, rotation: &[Option<usize>], job: usize) -> (usize, W) {
        let base = self.overlay(rotation);
        self.weigh(1, job);
        let least = self.levels[1].minima[job];
        let turn = self.levels[1].increments[job].iter().position(|growth| *growth == least);
        (turn.expect("the least growth is one of them"), base + least)
    }

    /// Writes the jobs with these rotations to level 1 and returns their objective.
    fn overlay(&mut self, rotation: &[Option<usize>]) -> W {
        // Called only before and after `descend`, when level 1 is free.
        let Self { grid, levels, .. } = self;
        let (empty, level) = levels.split_at_mut(1);
        for (to, from) in level[0].surplus.iter_mut().zip(&empty[0].surplus) {
            to.copy_from_slice(from);
        }
        for (job, rotation) in rotation.iter().enumerate() {
            if let Some(rotation) = rotation {
                add_arcs(
                    &mut level[0].surplus,
                    &grid.jobs[job],
                    rotation * grid.stride,
                    grid.cells,
                );
            }
        }
        self.first_level_excess()
    }

    /// Moves each job but the root to the middle of its equally good rotations while the others
    /// stay, so that drift to either side costs nothing for as long as possible.
    fn centre(&mut self, root: usize) {
        for job in (0..self.grid.jobs.len()).filter(|job| *job != root) {
            let mut others: Vec<Option<usize>> =
                self.best_rotation.iter().map(|rotation| Some(*rotation)).collect();
            others[job] = None;
            self.overlay(&others);
            self.weigh(1, job);
            let growth = &self.levels[1].increments[job];
            self.best_rotation[job] = middle_of_plateau(growth, self.best_rotation[job]);
        }
    }
}

/// The middle of the run of equal values around `at`, on a circle; `at` if all are equal.
fn middle_of_plateau<W: Amount>(values: &[W], at: usize) -> usize {
    let n = values.len();
    let reach =
        |step: usize| (1..n).take_while(|i| values[(at + i * step) % n] == values[at]).count();
    let (after, before) = (reach(1), reach(n - 1));
    if after + 1 == n {
        return at;
    }
    let first = at + n - before;
    (first + (before + after) / 2) % n
}

fn add_arcs<W: Amount>(surplus: &mut [Vec<W>], job: &GridJob<W>, turn: usize, cells: usize) {
    for Band { resource, height, arcs } in &job.bands {
        for &(start, end) in arcs {
            for round in 0..cells / job.fold {
                let from = (start + turn) % job.fold + round * job.fold;
                let to = from + (end - start);
                for cell in &mut surplus[*resource][from..to.min(cells)] {
                    *cell = *cell + *height;
                }
                if to > cells {
                    for cell in &mut surplus[*resource][..to - cells] {
                        *cell = *cell + *height;
                    }
                }
            }
        }
    }
}

/// Prefix sums of the growth of excess if a demand of `height` is added to a cell and to its
/// repetitions in the other periods; over two periods, so that an arc across the end of the first
/// one is a single difference.
fn prefix_growth<W: Amount>(
    surplus: &[W],
    weights: &[W],
    height: W,
    fold: usize,
    prefix: &mut [W],
) {
    let zero = W::zero();
    let folded = &mut prefix[1..=fold];
    folded.fill(zero);
    for (surplus, weights) in surplus.chunks_exact(fold).zip(weights.chunks_exact(fold)) {
        for ((sum, s), w) in folded.iter_mut().zip(surplus).zip(weights) {
            *sum = *sum + *w * ((*s + height).max(zero) - (*s).max(zero));
        }
    }
    prefix[0] = zero;
    for cell in 1..=fold {
        prefix[cell] = prefix[cell] + prefix[cell - 1];
    }
    let turn = prefix[fold];
    for cell in 1..=fold {
        prefix[fold + cell] = turn + prefix[cell];
    }
}
