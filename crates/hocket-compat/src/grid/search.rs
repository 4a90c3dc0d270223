//! The search for the best rotations on a grid: depth-first branch and bound, with bounds from
//! prices of free capacity.
//!
//! The jobs that are not yet placed add their whole demand to the objective, minus the free
//! capacity that they use. If each of them takes the free capacity that suits it, several may use
//! the same. So each cell gets a price between 0 and 1: a job pays it for the free capacity that it
//! uses, and the price of all free capacity is refunded once. Whatever the prices, the sum of the
//! jobs' least costs minus the refund is a lower bound (a Lagrangian relaxation). At prices of 0
//! it is the sum of the jobs' least growths, at prices of 1 it is the load minus the capacity;
//! raising prices where several jobs want the same capacity raises it above both.

use super::cells::{Amount, Cells, Grid, WHOLE};
use super::climb::{Climb, Rotated};
use crate::exact::MOST_JOBS;
use crate::search::Budget;

/// The most rounds in which a node adjusts its prices.
const ROUNDS: usize = 20;

/// Prices are adjusted while a round closes at least this fraction of the gap to the best solution:
/// with less, branching closes it sooner.
const LEAST_PROGRESS: u8 = 5;

/// The state of one depth of the search.
#[derive(Clone)]
struct Level<W> {
    /// Demand of the placed jobs − capacity.
    surplus: Cells<W>,
    /// The price of free capacity, in units of 1 ÷ [`WHOLE`].
    prices: Cells<W>,
    /// By unplaced job: the rotations that may lead to a better solution, ascending.
    viable: Vec<Vec<usize>>,
}

/// The least cost of a job at any of its viable rotations, and that rotation.
#[derive(Clone, Copy)]
struct Cheapest<W> {
    cost: W,
    rotation: usize,
}

/// What a node knows after its prices are set.
struct Relaxed<W> {
    /// No placement of the remaining jobs has a lower objective.
    bound: W,
    /// The bound at the last prices, those of the costs, in units of 1 ÷ [`WHOLE`].
    at_last_prices: W,
}

struct Search<'a, 'b, W> {
    grid: &'a Grid<W>,
    budget: &'a mut Budget<'b>,
    /// No rotations have a lower objective.
    load: W,
    whole: W,
    /// By job: the first job with the same arcs; exchanging the two changes nothing.
    kinds: Vec<usize>,
    levels: Vec<Level<W>>,
    rotation: Vec<usize>,
    best: Rotated<W>,
    /// By job and viable rotation: the cost at the current prices, in units of 1 ÷ [`WHOLE`].
    costs: Vec<Vec<W>>,
    /// By job.
    cheapest: Vec<Cheapest<W>>,
    /// Working memory, allocated once.
    worth: Cells<W>,
    wanted: Cells<W>,
    prefix: Vec<W>,
}

/// The best rotations, and a bound below which none of the unexplored ones lies if the search did
/// not end: its root stays at rotation 0.
pub(super) fn best<W: Amount>(
    grid: &Grid<W>,
    load: W,
    budget: &mut Budget<'_>,
) -> (Rotated<W>, Option<W>) {
    let jobs = grid.jobs.len();
    // Rotating all jobs together changes nothing, so one job can stay at 0: the one whose branching
    // costs most.
    let root = (0..jobs)
        .max_by_key(|job| (grid.jobs[*job].rotations, usize::MAX - job))
        .expect("a problem has a job");
    let first = Climb::new(grid, root, load, budget).run();
    let (mut found, open) = if first.objective <= load {
        (first, None)
    } else if jobs > MOST_JOBS {
        (first, Some(load))
    } else {
        let mut search = Search::new(grid, load, first, budget);
        let open = search.run(root);
        (search.best, open.map(|open| open.max(load)))
    };
    Climb::new(grid, root, load, budget).centre(&mut found.rotation);
    (found, open)
}

impl<'a, 'b, W: Amount> Search<'a, 'b, W> {
    fn new(grid: &'a Grid<W>, load: W, best: Rotated<W>, budget: &'a mut Budget<'b>) -> Self {
        let jobs = grid.jobs.len();
        let zeros = grid.zeros();
        let first = Level {
            surplus: grid.empty(),
            prices: zeros.clone(),
            viable: grid.jobs.iter().map(|job| (0..job.rotations).collect()).collect(),
        };
        let first_of_kind = |job: &usize| {
            (0..*job).find(|earlier| grid.jobs[*earlier] == grid.jobs[*job]).unwrap_or(*job)
        };
        Self {
            grid,
            budget,
            load,
            whole: W::from(WHOLE).expect("every amount has this value"),
            kinds: (0..jobs).map(|job| first_of_kind(&job)).collect(),
            levels: vec![first],
            rotation: vec![0; jobs],
            best,
            costs: grid.jobs.iter().map(|job| vec![W::zero(); job.rotations]).collect(),
            cheapest: vec![Cheapest { cost: W::zero(), rotation: 0 }; jobs],
            worth: zeros.clone(),
            wanted: zeros,
            prefix: grid.prefix(),
        }
    }

    fn run(&mut self, root: usize) -> Option<W> {
        let mut rest: Vec<usize> = (0..self.grid.jobs.len()).filter(|job| *job != root).collect();
        self.place(0, root, 0, &rest);
        let placed = self.grid.excess(&self.levels[1].surplus);
        self.descend(1, placed, &mut rest)
    }

    /// Writes level `depth` with `job` added at `rotation` to level `depth + 1`.
    fn place(&mut self, depth: usize, job: usize, rotation: usize, rest: &[usize]) {
        if self.levels.len() == depth + 1 {
            self.levels.push(self.levels[depth].clone());
        }
        let (from, to) = self.levels.split_at_mut(depth + 1);
        let (from, to) = (&from[depth], &mut to[0]);
        for (to, from) in to.surplus.iter_mut().zip(&from.surplus) {
            to.copy_from_slice(from);
        }
        for (to, from) in to.prices.iter_mut().zip(&from.prices) {
            to.copy_from_slice(from);
        }
        for &other in rest {
            // Of jobs with the same arcs, none is rotated less than one that was placed before.
            let least = if self.kinds[other] == self.kinds[job] { rotation } else { 0 };
            to.viable[other].clear();
            to.viable[other].extend(from.viable[other].iter().filter(|turn| **turn >= least));
        }
        self.grid.add(&mut to.surplus, job, rotation);
        self.rotation[job] = rotation;
    }

    /// Explores all placements of `rest` on top of level `depth`. `None` if all were explored or
    /// ruled out; otherwise a bound below which none of the unexplored ones lies.
    fn descend(&mut self, depth: usize, placed: W, rest: &mut Vec<usize>) -> Option<W> {
        match rest[..] {
            [] => self.keep_if_better(placed),
            [last] => self.place_last(depth, placed, last),
            _ => return self.branch(depth, placed, rest),
        }
        None
    }

    fn branch(&mut self, depth: usize, placed: W, rest: &mut Vec<usize>) -> Option<W> {
        let Relaxed { bound, at_last_prices } = self.relax(depth, placed, rest)?;
        if self.budget.exhausted() {
            return Some(bound);
        }
        let place = self.next_job(depth, at_last_prices, rest);
        let job = rest.swap_remove(place);
        let others = at_last_prices - self.cheapest[job].cost;
        let mut growths = Vec::new();
        self.growths(depth, job, &mut growths);
        let mut choices: Vec<(W, W, usize)> = self.levels[depth].viable[job]
            .iter()
            .map(|turn| (others + self.costs[job][*turn], growths[*turn], *turn))
            .collect();
        choices.sort_unstable();
        let mut open: Option<W> = None;
        for (below, growth, rotation) in choices {
            let below = bound.max(self.unscaled(below));
            // Choices ascend by bound, so what holds for this one holds for all that follow.
            if below >= self.best.objective {
                break;
            }
            if open.is_some() || self.budget.is_spent() {
                open = Some(open.map_or(below, |open| open.min(below)));
                break;
            }
            self.place(depth, job, rotation, rest);
            open = self.descend(depth + 1, placed + growth, rest);
        }
        // Restores the order of `rest`, which decides ties in `next_job`.
        rest.push(job);
        let last = rest.len() - 1;
        rest.swap(place, last);
        open
    }

    /// The place in `rest` of the job to branch on: one of much demand, since that is the hardest
    /// to fit in, and with few rotations that are far from being ruled out, since those have the
    /// largest subtrees.
    fn next_job(&self, depth: usize, scaled_bound: W, rest: &[usize]) -> usize {
        let slack = self.limit() - scaled_bound;
        let effort = |job: usize| {
            let costs = self.levels[depth].viable[job].iter().map(|turn| self.costs[job][*turn]);
            let slacks = costs.map(|cost| slack - (cost - self.cheapest[job].cost));
            let sum: f64 = slacks.filter_map(|slack| slack.to_f64()).sum();
            sum / (self.grid.jobs[job].demand + W::one()).to_f64().unwrap_or(f64::INFINITY)
        };
        // Of jobs with the same arcs, the first goes first, as `place` relies on.
        let is_first = |job: usize| {
            !rest.iter().any(|other| *other < job && self.kinds[*other] == self.kinds[job])
        };
        let candidates = rest.iter().enumerate().filter(|(_, job)| is_first(**job));
        let best = candidates.min_by(|(_, a), (_, b)| effort(**a).total_cmp(&effort(**b)));
        best.expect("some job is unplaced").0
    }

    fn keep_if_better(&mut self, objective: W) {
        if objective < self.best.objective {
            self.best = Rotated { rotation: self.rotation.clone(), objective };
        }
    }

    /// Places the last job where it adds least.
    fn place_last(&mut self, depth: usize, placed: W, job: usize) {
        let mut growths = Vec::new();
        self.growths(depth, job, &mut growths);
        let turns = self.levels[depth].viable[job].iter().copied();
        if let Some(rotation) = turns.min_by_key(|turn| growths[*turn]) {
            self.rotation[job] = rotation;
            self.keep_if_better(placed + growths[rotation]);
        }
    }

    /// The growth of the objective if `job` is added to level `depth`, by rotation.
    fn growths(&mut self, depth: usize, job: usize, growths: &mut Vec<W>) {
        self.budget.spend(self.grid.cells);
        let Self { grid, levels, prefix, .. } = self;
        growths.resize(grid.jobs[job].rotations, W::zero());
        let Level { surplus, viable, .. } = &levels[depth];
        grid.weigh(surplus, &grid.weights, job, &viable[job], prefix, growths);
        let demand = grid.jobs[job].demand;
        for growth in growths {
            *growth = demand - *growth;
        }
    }

    /// The highest scaled bound with which a better solution is possible.
    fn limit(&self) -> W {
        self.whole * (self.best.objective - W::one())
    }

    /// A scaled bound as a bound of the objective, which is a whole number.
    fn unscaled(&self, scaled: W) -> W {
        (scaled + self.whole - W::one()) / self.whole
    }

    /// Adjusts the prices of level `depth` and removes the rotations that they rule out. `None` if
    /// no placement of `rest` is better than the best solution.
    fn relax(&mut self, depth: usize, placed: W, rest: &[usize]) -> Option<Relaxed<W>> {
        let least_progress = W::from(LEAST_PROGRESS).expect("every amount has this value");
        let mut highest: Option<W> = None;
        let mut disappointed = false;
        for round in 1.. {
            let bound = self.price(depth, placed, rest)?;
            let limit = self.limit();
            if bound > limit || self.best.objective <= self.load {
                return None;
            }
            self.rule_out(depth, limit - bound, rest);
            let progress = highest.map_or(limit - bound, |highest| bound - highest);
            let disappoints = progress < (limit - bound) / least_progress;
            highest = Some(highest.map_or(bound, |highest| highest.max(bound)));
            if round == ROUNDS || disappointed && disappoints || self.budget.is_spent() {
                let highest = highest.expect("there was a round");
                let bound_of_all = self.unscaled(highest).max(placed).max(self.load);
                return Some(Relaxed { bound: bound_of_all, at_last_prices: bound });
            }
            disappointed |= disappoints;
            self.adjust(depth, round, rest);
        }
        unreachable!("the last round returns")
    }

    /// Calculates the costs of all jobs of `rest` at the prices of level `depth`. Returns the bound,
    /// in units of 1 ÷ [`WHOLE`]; `None` if a job has no viable rotation.
    fn price(&mut self, depth: usize, placed: W, rest: &[usize]) -> Option<W> {
        let Self { grid, budget, levels, worth, prefix, whole, .. } = self;
        let Level { surplus, prices, viable } = &levels[depth];
        let mut refund = W::zero();
        for (resource, weights) in grid.weights.iter().enumerate() {
            let cells = surplus[resource].iter().zip(&prices[resource]).zip(weights);
            for (worth, ((surplus, price), weight)) in worth[resource].iter_mut().zip(cells) {
                // What a unit of free capacity is worth to a job after it has paid the price.
                *worth = (*whole - *price) * *weight;
                refund = refund + *price * *weight * free(*surplus);
            }
        }
        let mut bound = *whole * placed - refund;
        for &job in rest {
            budget.spend(grid.cells);
            let costs = &mut self.costs[job];
            grid.weigh(surplus, worth, job, &viable[job], prefix, costs);
            let demand = *whole * grid.jobs[job].demand;
            let mut cheapest: Option<Cheapest<W>> = None;
            for &rotation in &viable[job] {
                let cost = demand - costs[rotation];
                costs[rotation] = cost;
                if cheapest.is_none_or(|cheapest| cost < cheapest.cost) {
                    cheapest = Some(Cheapest { cost, rotation });
                }
            }
            let cheapest = cheapest?;
            self.cheapest[job] = cheapest;
            bound = bound + cheapest.cost;
        }
        Some(bound)
    }

    /// Removes the rotations that cost more than `slack` above the cheapest of their job.
    fn rule_out(&mut self, depth: usize, slack: W, rest: &[usize]) {
        for &job in rest {
            let most = self.cheapest[job].cost + slack;
            let costs = &self.costs[job];
            self.levels[depth].viable[job].retain(|turn| costs[*turn] <= most);
        }
    }

    /// Raises prices where the jobs at their cheapest rotations want more than the free capacity,
    /// and lowers them where they want less: a step along the subgradient of the bound.
    fn adjust(&mut self, depth: usize, round: usize, rest: &[usize]) {
        let Self { grid, levels, wanted, cheapest, .. } = self;
        let Level { surplus, prices, .. } = &mut levels[depth];
        wanted.iter_mut().for_each(|cells| cells.fill(W::zero()));
        for &job in rest {
            grid.for_ranges(job, cheapest[job].rotation, |resource, height, range| {
                let free_cells = surplus[resource][range.clone()].iter().map(|cell| free(*cell));
                for (wanted, free) in wanted[resource][range].iter_mut().zip(free_cells) {
                    *wanted = *wanted + free.min(height);
                }
            });
        }
        // Steps shrink from a quarter, as sums of subgradient steps must.
        let step = W::from(usize::from(WHOLE) / (round + 3)).expect("every amount has this value");
        for (resource, prices) in prices.iter_mut().enumerate() {
            let cells = surplus[resource].iter().zip(&wanted[resource]);
            for (price, (surplus, wanted)) in prices.iter_mut().zip(cells) {
                let free = free(*surplus);
                if free > W::zero() {
                    let change = (step * (*wanted - free) / free).min(step);
                    *price = (*price + change).max(W::zero()).min(self.whole);
                }
            }
        }
    }
}

fn free<W: Amount>(surplus: W) -> W {
    W::zero() - surplus.min(W::zero())
}

#[cfg(test)]
mod tests {
    use hocket_des::Rate;
    use hocket_scenario::Profile;
    use proptest::prelude::*;

    use super::*;
    use crate::grid::Cuts;
    use crate::problem::LinkProblem;
    use crate::search::SolveOptions;
    use crate::testing::{profile, up};

    /// Jobs whose edges lie on whole milliseconds of a circle of 24 ms.
    fn jobs() -> impl Strategy<Value = Vec<Profile>> {
        let job = (prop::sample::select(vec![6u64, 8, 12, 24]), 0u64..6, 1u64..12, 5u64..50);
        prop::collection::vec(job, 3..5).prop_map(|jobs| {
            jobs.into_iter()
                .map(|(period, start, up_ms, gbps)| {
                    profile(period, &[up(start, up_ms.min(period - start), gbps)])
                })
                .collect()
        })
    }

    /// The best ways to complete job 0 at rotation 0, and their objective.
    fn completions(grid: &Grid<i64>) -> (i64, Vec<Vec<usize>>) {
        let mut rotations: Vec<Vec<usize>> = vec![vec![0]];
        for job in &grid.jobs[1..] {
            let extend = |prefix: Vec<usize>| {
                (0..job.rotations).map(move |turn| [prefix.as_slice(), &[turn]].concat())
            };
            rotations = rotations.into_iter().flat_map(extend).collect();
        }
        let objective = |rotation: &Vec<usize>| {
            let mut surplus = grid.empty();
            rotation.iter().enumerate().for_each(|(job, turn)| grid.add(&mut surplus, job, *turn));
            grid.excess(&surplus)
        };
        let least = rotations.iter().map(objective).min().expect("each job has a rotation");
        (least, rotations.into_iter().filter(|each| objective(each) == least).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_the_prices_no_bound_exceeds_the_optimum_and_an_optimal_rotation_stays_viable(
            jobs in jobs(), prices in prop::collection::vec(0..=i64::from(WHOLE), 24),
        ) {
            let link = LinkProblem { capacity: Rate::from_gbps(50), jobs, gpu_groups: Vec::new() };
            let problem = link.build(false).unwrap();
            let grid = Cuts::new(&problem, 24).unwrap().grid::<i64>(&problem);
            let rest: Vec<usize> = (1..grid.jobs.len()).collect();
            let (least, optima) = completions(&grid);
            let options = SolveOptions::default();
            let mut budget = Budget::new(&options);
            // A solution that is worse by one, so that whatever is ruled out is no optimum.
            let known = Rotated { rotation: vec![0; grid.jobs.len()], objective: least + 1 };
            let mut search = Search::new(&grid, 0, known, &mut budget);
            // Without the order of equal jobs, of which `completions` knows nothing.
            search.kinds = (0..grid.jobs.len()).collect();
            search.place(0, 0, 0, &rest);
            search.levels[1].prices[0] = prices.iter().copied().cycle().take(grid.cells).collect();
            let placed = grid.excess(&search.levels[1].surplus);
            let bound = search.price(1, placed, &rest).expect("all rotations are viable");
            prop_assert!(bound <= i64::from(WHOLE) * least);
            let relaxed = search.relax(1, placed, &rest).expect("the optimum is better");
            prop_assert!(relaxed.bound <= least);
            for job in rest {
                let viable = &search.levels[1].viable[job];
                prop_assert!(optima.iter().all(|optimum| viable.contains(&optimum[job])));
            }
        }
    }

    #[test]
    fn prices_show_that_two_jobs_cannot_both_have_the_one_gap() {
        // Job 0 leaves 8 of 24 ms free. The other two send for 6 ms each: alone either fits.
        let fast = |up_ms| profile(24, &[up(0, up_ms, 50)]);
        let jobs = vec![fast(16), fast(6), fast(6)];
        let link = LinkProblem { capacity: Rate::from_gbps(50), jobs, gpu_groups: Vec::new() };
        let problem = link.build(false).unwrap();
        let grid = Cuts::new(&problem, 24).unwrap().grid::<i64>(&problem);
        let (least, _) = completions(&grid);
        let options = SolveOptions::default();
        let mut budget = Budget::new(&options);
        let known = Rotated { rotation: vec![0; 3], objective: least };
        let mut search = Search::new(&grid, 0, known, &mut budget);
        search.place(0, 0, 0, &[1, 2]);
        assert_eq!(search.price(1, 0, &[1, 2]), Some(0), "without prices, nothing is in excess");
        assert!(search.relax(1, 0, &[1, 2]).is_none(), "prices prove the solution optimal");
    }
}
