//! The genetic search: a population of allocations is crossed, mutated, repaired and thinned out, generation
//! after generation, and kept for the next round (OSDI'21 section 4.3; operators as in its artifact).

use std::collections::BTreeSet;

use hocket_des::{Stream, stream};
use rand::RngExt;

use crate::draft::Draft;
use crate::individual::{Individual, Parents};
use crate::matrix::{Cell, Matrix};
use crate::problem::PolluxProblem;
use crate::repair::Repair;

/// The size of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// The number of allocations that survive from one generation to the next; at least 1.
    pub population: usize,
    /// The most generations of a round.
    pub generations: usize,
}

/// A search over several rounds: each starts from the population of the last one.
#[derive(Clone, Debug)]
pub struct PolluxSearch {
    options: SearchOptions,
    seed: u64,
    rounds: u64,
    /// The job of each row in the last round's population.
    keys: Vec<u64>,
    /// The number of nodes in the last round.
    nodes: usize,
    /// The last round's population.
    population: Vec<Individual>,
}

/// The best allocation that a round found.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// By job: its workers on each node.
    pub rows: Vec<Vec<Cell>>,
    /// By job: what its workers are worth to it, with the restart factor if they change.
    pub worths: Vec<f64>,
    /// The fitness of this allocation.
    pub fitness: f64,
    /// The fitness of the current allocation.
    pub fitness_before: f64,
    /// The number of generations: lower than in the options if no allocation can be better.
    pub generations: usize,
}

impl PolluxSearch {
    /// A search before its first round, which starts from where jobs run. The same seed and problems give the same
    /// allocations.
    ///
    /// # Panics
    ///
    /// If the population is 0.
    pub fn new(options: SearchOptions, seed: u64) -> Self {
        assert!(options.population > 0, "a population has at least one individual");
        Self { options, seed, rounds: 0, keys: Vec::new(), nodes: 0, population: Vec::new() }
    }

    /// Searches from the last round's population and the current allocation; returns the best allocation. Among equally
    /// good ones, that is the current one, otherwise the one that appeared first.
    pub fn round(&mut self, problem: &PolluxProblem) -> Round {
        // A stream for each round: its draws do not depend on how many generations earlier rounds took.
        let mut draw = stream(self.seed, "placement", self.rounds);
        self.rounds += 1;
        let mut draft = Draft::new(problem);
        let mut population = self.first_generation(problem, &mut draft, &mut draw);
        let mut spare = Vec::new();
        let bound = problem.bound();
        let mut generations = 0;
        // In a quiet cluster, often no change is worth a restart: the bound is reached without any generation.
        while generations < self.options.generations && population[0].fitness < bound {
            self.breed(problem, &mut population, &mut spare, &mut draft, &mut draw);
            spare.extend(thin_out(&mut population, self.options.population));
            generations += 1;
        }
        let round = round(problem, &population[0], generations);
        self.keys = problem.jobs.iter().map(|job| job.key).collect();
        self.nodes = problem.capacities.len();
        self.population = population;
        round
    }

    fn first_generation(
        &self,
        problem: &PolluxProblem,
        draft: &mut Draft,
        draw: &mut Stream,
    ) -> Vec<Individual> {
        // The current allocation comes first, so that it stays if nothing is better.
        let mut first = vec![problem.base.clone()];
        if self.nodes == problem.capacities.len() {
            first.extend(self.carried_over(problem));
        }
        let repaired = first.into_iter().map(|matrix| {
            draft.begin_with(matrix);
            Repair::new(problem, draft, None, draw).repair();
            draft.individual(problem, None, Individual::default())
        });
        let mut population: Vec<Individual> = repaired.collect();
        drop(thin_out(&mut population, self.options.population));
        population
    }

    /// The last round's allocations with rows for the jobs of this round: new and pinned jobs have their current rows.
    fn carried_over(&self, problem: &PolluxProblem) -> Vec<Matrix> {
        let jobs = problem.jobs.iter().enumerate().filter(|(_, job)| !job.pinned);
        let last = |key: u64| self.keys.iter().position(|last| *last == key);
        let rows: Vec<(usize, usize)> =
            jobs.filter_map(|(row, job)| Some((row, last(job.key)?))).collect();
        let carry = |individual: &Individual| {
            let mut carried = problem.base.clone();
            for (row, last) in &rows {
                carried.row_mut(*row).fill(0);
                carried.set(*row, individual.row(*last));
            }
            carried
        };
        self.population.iter().map(carry).collect()
    }

    /// Adds the children of a generation to `population`. They take the memory of those in `spare`.
    fn breed(
        &self,
        problem: &PolluxProblem,
        population: &mut Vec<Individual>,
        spare: &mut Vec<Individual>,
        draft: &mut Draft,
        draw: &mut Stream,
    ) {
        // Children of this generation are pushed behind their parents, and do not breed yet.
        let parents = population.len();
        for _ in 0..self.options.population {
            let first = tournament(&population[..parents], draw);
            let second = tournament(&population[..parents], draw);
            let parents = crossed(problem, &population[first], &population[second], draw);
            draft.begin();
            let redrawn = mutate(problem, parents, draft, draw);
            draft.complete(Some(parents));
            let mut repair = Repair::new(problem, draft, redrawn, draw);
            repair.hand_out_or_not();
            repair.repair();
            let old = spare.pop().unwrap_or_default();
            let child = draft.individual(problem, Some(parents), old);
            population.push(child);
        }
    }
}

/// A child with rows of both parents or, half of the time, of the first alone: if parents differ much, few rows of
/// one fit among those of the other.
fn crossed<'a>(
    problem: &PolluxProblem,
    first: &'a Individual,
    second: &'a Individual,
    draw: &mut Stream,
) -> Parents<'a> {
    let jobs = problem.jobs.len();
    let point = if draw.random_bool(0.5) { jobs } else { draw.random_range(0..jobs) };
    Parents { first, second, point }
}

/// Changes a child in three ways, each half of the time: a job returns to where it runs, a job gives up workers, and a
/// job's row is redrawn. Returns the job that was redrawn.
///
/// The simulator that the authors of Pollux released with OSDI'21 resets rows, empties elements and raises elements on
/// nodes with free GPUs, each in a tenth of all rows. With many jobs, one or two changes in a child find better
/// allocations. Rows are redrawn as a whole because some jobs can run only with certain numbers of workers.
fn mutate(
    problem: &PolluxProblem,
    parents: Parents<'_>,
    draft: &mut Draft,
    draw: &mut Stream,
) -> Option<usize> {
    if let Some(job) = one_in_two(problem, draw) {
        draft.change(job, parents).copy_from_slice(problem.base.row(job));
    }
    if let Some(job) = one_in_two(problem, draw) {
        for workers in draft.change(job, parents).iter_mut().filter(|workers| **workers > 0) {
            *workers = draw.random_range(0..=*workers);
        }
    }
    let redrawn = one_in_two(problem, draw);
    if let Some(job) = redrawn {
        redraw(problem, draft.change(job, parents), job, draw);
    }
    redrawn
}

/// A random job that may move, half of the time.
fn one_in_two(problem: &PolluxProblem, draw: &mut Stream) -> Option<usize> {
    let job = draw.random_range(0..problem.jobs.len());
    (draw.random_bool(0.5) && !problem.jobs[job].pinned).then_some(job)
}

/// Gives a job as many workers as one of its sizes, on nodes in random order.
fn redraw(problem: &PolluxProblem, row: &mut [u8], job: usize, draw: &mut Stream) {
    let sizes = &problem.jobs[job].sizes;
    let mut left = sizes[draw.random_range(0..sizes.len())].workers;
    row.fill(0);
    let mut nodes: Vec<usize> = (0..row.len()).collect();
    while left > 0 && !nodes.is_empty() {
        let node = nodes.swap_remove(draw.random_range(0..nodes.len()));
        let workers = left.min(u32::from(problem.capacities[node]));
        row[node] = u8::try_from(workers).expect("no more than the node has");
        left -= workers;
    }
}

/// The better of two, the first of two equals.
fn tournament(population: &[Individual], draw: &mut Stream) -> usize {
    let first = draw.random_range(0..population.len());
    let second = draw.random_range(0..population.len());
    // The population is sorted, best first.
    first.min(second)
}

/// Keeps the `size` best different individuals, best first; among equals, the oldest first. Returns the others.
fn thin_out(population: &mut Vec<Individual>, size: usize) -> Vec<Individual> {
    let mut seen = BTreeSet::new();
    let mut others: Vec<Individual> =
        population.extract_if(.., |individual| !seen.insert(individual.fingerprint)).collect();
    // A stable sort: younger individuals stand behind older ones.
    population.sort_by(|one, other| other.fitness.total_cmp(&one.fitness));
    others.extend(population.drain(size.min(population.len())..));
    others
}

fn round(problem: &PolluxProblem, best: &Individual, generations: usize) -> Round {
    let jobs = 0..problem.jobs.len();
    let mut matrix = Matrix::empty(problem.jobs.len(), problem.capacities.len());
    jobs.clone().for_each(|job| matrix.set(job, best.row(job)));
    let mut draft = Draft::new(problem);
    draft.begin_with(matrix);
    let before = jobs.clone().map(|job| problem.term(problem.worth_now(job)));
    Round {
        rows: jobs.clone().map(|job| best.row(job).collect()).collect(),
        worths: jobs.clone().map(|job| draft.worth(problem, job)).collect(),
        fitness: best.fitness,
        fitness_before: problem.fitness(before),
        generations,
    }
}
