//! The proven optimum over discrete rotations: depth-first branch and bound on a circle divided
//! into cells, such that every edge of every job at every rotation lies on a border between cells.
//! Demand is therefore exact; only the rotations are discrete.

mod cells;
mod climb;
mod search;

use num_integer::Integer;

use cells::{Amount, Band, Grid, GridJob, WHOLE};

use crate::error::CompatError;
use crate::problem::Problem;
use crate::search::{Budget, SearchOutcome};

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
    let worst = cuts.worst.checked_mul(u128::from(WHOLE)).ok_or(CompatError::Overflow)?;
    if worst < 1 << 30 {
        Ok(cuts.solve::<i32>(problem, budget))
    } else if worst < 1 << 62 {
        Ok(cuts.solve::<i64>(problem, budget))
    } else if worst < 1 << 126 {
        Ok(cuts.solve::<i128>(problem, budget))
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

    fn solve<W: Amount>(&self, problem: &Problem, budget: &mut Budget<'_>) -> SearchOutcome {
        let (numerator, denominator) = self.unit;
        // 0 is a bound too.
        let load = problem.least_excess().checked_mul(denominator).unwrap_or(0).div_ceil(numerator);
        let load = W::from(load).expect("it is below the worst sum");
        let (found, open) = search::best(&self.grid::<W>(problem), load, budget);
        let objective = |value: W| {
            let units = value.to_f64().expect("integers have a nearest float");
            units * numerator as f64 / denominator as f64
        };
        SearchOutcome {
            objective: objective(found.objective),
            bound: objective(open.map_or(found.objective, |open| open.min(found.objective))),
            proven: open.is_none(),
            shifts: found.rotation.iter().map(|rotation| *rotation as u64).collect(),
        }
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
        let mut grid = Grid { cells, stride, capacities, weights, jobs };
        for job in 0..problem.jobs() {
            let mut demand = grid.zeros();
            grid.add(&mut demand, job, 0);
            grid.jobs[job].demand = grid.excess(&demand);
        }
        grid
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
        GridJob { rotations, fold: rotations * self.offsets.len(), bands, demand: W::zero() }
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
