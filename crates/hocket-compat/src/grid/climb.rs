//! Good rotations, which let the search prune from its first node on: single jobs move while that
//! helps, then pairs of jobs.

use hocket_des::{Stream, stream};
use rand::RngExt;

use super::cells::{Amount, Cells, Grid};
use crate::search::Budget;

/// After this many moves of random pairs per job without an improvement, some jobs are turned at
/// random.
const IDLE_PAIRS: usize = 4;

/// The number of jobs that are turned at random.
const KICKED: usize = 3;

/// All jobs at a rotation each.
#[derive(Clone)]
pub(super) struct Rotated<W> {
    /// By job.
    pub(super) rotation: Vec<usize>,
    pub(super) objective: W,
}

pub(super) struct Climb<'a, 'b, W> {
    grid: &'a Grid<W>,
    /// Stays at rotation 0.
    root: usize,
    /// No rotations have a lower objective.
    load: W,
    budget: &'a mut Budget<'b>,
    /// Of the jobs that are placed at the moment.
    surplus: Cells<W>,
    /// By job.
    all_rotations: Vec<Vec<usize>>,
    prefix: Vec<W>,
    /// By rotation of the job that was weighed last: the worth of the free capacity that it uses.
    used: Vec<W>,
}

impl<'a, 'b, W: Amount> Climb<'a, 'b, W> {
    pub(super) fn new(grid: &'a Grid<W>, root: usize, load: W, budget: &'a mut Budget<'b>) -> Self {
        let all_rotations = grid.jobs.iter().map(|job| (0..job.rotations).collect()).collect();
        let (surplus, prefix) = (grid.empty(), grid.prefix());
        Self { grid, root, load, budget, surplus, all_rotations, prefix, used: Vec::new() }
    }

    /// The best rotations found until they reach the load, the budget is spent, or more attempts
    /// would hardly help.
    pub(super) fn run(&mut self) -> Rotated<W> {
        let mut best = self.greedy(0);
        for first in 1..self.grid.jobs.len() {
            if best.objective <= self.load || self.budget.is_spent() {
                break;
            }
            let found = self.greedy(first);
            if found.objective < best.objective {
                best = found;
            }
        }
        if self.grid.jobs.len() > 2 {
            self.move_pairs(&mut best);
        }
        best
    }

    /// Places jobs one after another where they add least, from number `first` on, then moves them
    /// one by one while that helps.
    fn greedy(&mut self, first: usize) -> Rotated<W> {
        let jobs = self.grid.jobs.len();
        let order: Vec<usize> =
            (0..jobs).map(|i| (first + i) % jobs).filter(|job| *job != self.root).collect();
        let mut rotation = vec![0; jobs];
        self.surplus = self.grid.empty();
        self.grid.add(&mut self.surplus, self.root, 0);
        for &job in &order {
            rotation[job] = self.best_turn(job).0;
            self.grid.add(&mut self.surplus, job, rotation[job]);
        }
        let mut objective = self.grid.excess(&self.surplus);
        for _ in 0..=jobs {
            for &job in &order {
                if self.budget.is_spent() {
                    break;
                }
                self.grid.remove(&mut self.surplus, job, rotation[job]);
                rotation[job] = self.best_turn(job).0;
                self.grid.add(&mut self.surplus, job, rotation[job]);
            }
            let before = std::mem::replace(&mut objective, self.grid.excess(&self.surplus));
            if objective >= before {
                break;
            }
        }
        Rotated { rotation, objective }
    }

    /// Improves `best` by moves of random pairs. When these no longer help, a few jobs are turned
    /// at random, as many times in a row without an improvement as there are jobs.
    fn move_pairs(&mut self, best: &mut Rotated<W>) {
        let movable: Vec<usize> =
            (0..self.grid.jobs.len()).filter(|job| *job != self.root).collect();
        // A fixed seed: the answer depends on the problem alone.
        let mut draw = stream(0, "pairs of jobs", 0);
        let mut current = best.clone();
        self.surplus = self.grid.empty();
        for (job, rotation) in current.rotation.iter().enumerate() {
            self.grid.add(&mut self.surplus, job, *rotation);
        }
        let (mut idle, mut kicks) = (0, 0);
        while best.objective > self.load && kicks < movable.len() && !self.budget.is_spent() {
            let before = current.objective;
            self.move_pair(&mut current, pair(&movable, &mut draw));
            idle = if current.objective < before { 0 } else { idle + 1 };
            if current.objective < best.objective {
                best.clone_from(&current);
                kicks = 0;
            }
            if idle > IDLE_PAIRS * movable.len() {
                idle = 0;
                kicks += 1;
                for job in 0..current.rotation.len() {
                    self.turn(&mut current, job, best.rotation[job]);
                }
                for _ in 0..KICKED {
                    let job = movable[draw.random_range(0..movable.len())];
                    let rotation = draw.random_range(0..self.grid.jobs[job].rotations);
                    self.turn(&mut current, job, rotation);
                }
                current.objective = self.grid.excess(&self.surplus);
            }
        }
    }

    /// Moves two jobs to the rotations at which both together add least.
    fn move_pair(&mut self, current: &mut Rotated<W>, (a, b): (usize, usize)) {
        let Rotated { rotation, objective } = current;
        self.grid.remove(&mut self.surplus, a, rotation[a]);
        self.grid.remove(&mut self.surplus, b, rotation[b]);
        let without = self.grid.excess(&self.surplus);
        let mut least = (*objective - without, rotation[a], rotation[b]);
        self.weigh(a);
        let demand = self.grid.jobs[a].demand;
        let growths: Vec<W> = self.used.iter().map(|used| demand - *used).collect();
        for (turn, growth) in growths.into_iter().enumerate() {
            if growth >= least.0 || self.budget.is_spent() {
                continue;
            }
            self.grid.add(&mut self.surplus, a, turn);
            let (other_turn, other_growth) = self.best_turn(b);
            self.grid.remove(&mut self.surplus, a, turn);
            if growth + other_growth < least.0 {
                least = (growth + other_growth, turn, other_turn);
            }
        }
        (rotation[a], rotation[b]) = (least.1, least.2);
        self.grid.add(&mut self.surplus, a, rotation[a]);
        self.grid.add(&mut self.surplus, b, rotation[b]);
        *objective = without + least.0;
    }

    fn turn(&mut self, current: &mut Rotated<W>, job: usize, rotation: usize) {
        let before = std::mem::replace(&mut current.rotation[job], rotation);
        self.grid.remove(&mut self.surplus, job, before);
        self.grid.add(&mut self.surplus, job, rotation);
    }

    /// The first rotation at which `job` adds least, and what it adds there.
    fn best_turn(&mut self, job: usize) -> (usize, W) {
        self.weigh(job);
        let mut best = (0, self.used[0]);
        for (rotation, used) in self.used.iter().enumerate() {
            if *used > best.1 {
                best = (rotation, *used);
            }
        }
        (best.0, self.grid.jobs[job].demand - best.1)
    }

    fn weigh(&mut self, job: usize) {
        self.budget.spend(self.grid.cells);
        let Self { grid, surplus, all_rotations, prefix, used, .. } = self;
        used.resize(grid.jobs[job].rotations, W::zero());
        grid.weigh(surplus, &grid.weights, job, &all_rotations[job], prefix, used);
    }

    /// Moves each job but the root to the middle of its equally good rotations while the others
    /// stay, so that drift to either side costs nothing for as long as possible.
    pub(super) fn centre(&mut self, rotation: &mut [usize]) {
        self.surplus = self.grid.empty();
        for (job, rotation) in rotation.iter().enumerate() {
            self.grid.add(&mut self.surplus, job, *rotation);
        }
        let root = self.root;
        for job in (0..rotation.len()).filter(|job| *job != root) {
            self.grid.remove(&mut self.surplus, job, rotation[job]);
            self.weigh(job);
            rotation[job] = middle_of_plateau(&self.used, rotation[job]);
            self.grid.add(&mut self.surplus, job, rotation[job]);
        }
    }
}

/// Two different ones of `jobs`.
fn pair(jobs: &[usize], draw: &mut Stream) -> (usize, usize) {
    let first = draw.random_range(0..jobs.len());
    let second = draw.random_range(0..jobs.len() - 1);
    (jobs[first], jobs[if second < first { second } else { second + 1 }])
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
