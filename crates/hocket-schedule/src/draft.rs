//! An allocation in the making: mixed from two others, changed, and counted.

use std::iter::Take;

use crate::individual::{Individual, Parents, Run, runs};
use crate::matrix::{Cell, Cells, Matrix};
use crate::problem::PolluxProblem;
use crate::tally::Tally;

/// An allocation to which changes are quick, with its counts and the rows that differ from those it began with. A
/// search reuses one for all its individuals.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) matrix: Matrix,
    pub(crate) tally: Tally,
    /// By job: whether its row may differ.
    pub(crate) changed: Vec<bool>,
    /// Memory for lists during a repair, which needs many.
    pub(crate) list: Vec<usize>,
    pub(crate) more: Vec<Cell>,
}

impl Draft {
    pub(crate) fn new(problem: &PolluxProblem) -> Self {
        let (jobs, nodes) = (problem.jobs.len(), problem.capacities.len());
        Self {
            matrix: Matrix::empty(jobs, nodes),
            tally: Tally::new(jobs, nodes),
            changed: vec![true; jobs],
            list: Vec::new(),
            more: Vec::new(),
        }
    }

    /// Begins anew with `matrix` and counts it; all its rows are taken to be changed.
    pub(crate) fn begin_with(&mut self, matrix: Matrix) {
        self.matrix = matrix;
        self.changed.fill(true);
        self.complete(None);
    }

    /// Begins anew with no rows, to be changed and then completed.
    pub(crate) fn begin(&mut self) {
        self.matrix.clear();
        self.changed.fill(false);
    }

    /// The row of a job to change, which begins as that of `parents`.
    pub(crate) fn change(&mut self, job: usize, parents: Parents<'_>) -> &mut [u8] {
        if !self.changed[job] {
            self.changed[job] = true;
            self.matrix.set(job, parents.row(job));
        }
        self.matrix.row_mut(job)
    }

    /// Takes all rows that are not changed from `parents`, and counts.
    pub(crate) fn complete(&mut self, parents: Option<Parents<'_>>) {
        self.tally.clear();
        for run in runs(parents, &self.changed) {
            match run {
                Run::Changed(job) => self.tally.add(job, self.matrix.cells(job)),
                Run::Unchanged(parent, jobs) => {
                    for cell in parent.cells(jobs.clone()) {
                        self.matrix.row_mut(cell.job as usize)[cell.node as usize] = cell.workers;
                        self.tally.add_cell(cell);
                    }
                    for job in jobs {
                        (self.tally.workers[job], self.tally.spread[job]) = parent.sums(job);
                    }
                }
            }
        }
    }

    /// The individual of this draft, whose unchanged rows are from `parents`. It takes the memory of `old`.
    pub(crate) fn individual(
        &self,
        problem: &PolluxProblem,
        parents: Option<Parents<'_>>,
        old: Individual,
    ) -> Individual {
        let mut individual = old;
        individual.clear();
        for run in runs(parents, &self.changed) {
            match run {
                Run::Changed(job) => {
                    let (workers, is_distributed) =
                        (self.tally.workers[job], self.tally.is_distributed(job));
                    let term = problem.term(self.worth(problem, job));
                    individual.push(self.cells(job), is_distributed, workers, term);
                }
                Run::Unchanged(parent, jobs) => individual.push_from(parent, jobs),
            }
        }
        individual.fitness = problem.fitness(individual.terms());
        individual.fingerprint = individual.hash();
        individual
    }

    /// What its workers are worth to a job.
    pub(crate) fn worth(&self, problem: &PolluxProblem, job: usize) -> f64 {
        let (workers, is_distributed) = (self.tally.workers[job], self.tally.is_distributed(job));
        problem.worth(job, self.matrix.row(job), workers, is_distributed)
    }

    /// The nodes where a job has workers, in ascending order.
    pub(crate) fn cells(&self, job: usize) -> Take<Cells<'_>> {
        // Behind the last one, nothing is left to search for.
        self.matrix.cells(job).take(self.tally.spread[job])
    }

    /// Adds workers to a job.
    pub(crate) fn give(&mut self, job: usize, node: usize, workers: u32) {
        let here = &mut self.matrix.row_mut(job)[node];
        let came = *here == 0;
        *here += u8::try_from(workers).expect("no more than the node has");
        self.changed[job] = true;
        self.tally.loads[node] += workers;
        self.tally.workers[job] += workers;
        if came {
            self.tally.jobs[node].push(job);
            self.tally.spread[job] += 1;
            match self.tally.spread[job] {
                1 => {}
                // With its second node, the job becomes distributed on the first one, too.
                2 => {
                    for (node, _) in self.matrix.cells(job).take(2) {
                        self.tally.distributed[node] += 1;
                    }
                }
                _ => self.tally.distributed[node] += 1,
            }
        }
    }

    /// Removes workers from a job.
    pub(crate) fn take(&mut self, job: usize, node: usize, workers: u8) {
        let here = &mut self.matrix.row_mut(job)[node];
        *here -= workers;
        let left = *here == 0;
        self.changed[job] = true;
        self.tally.loads[node] -= u32::from(workers);
        self.tally.workers[job] -= u32::from(workers);
        if left {
            if self.tally.is_distributed(job) {
                self.tally.distributed[node] -= 1;
            }
            self.tally.spread[job] -= 1;
            // On one node that is left, the job no longer counts as distributed.
            if self.tally.spread[job] == 1 {
                let last = self.matrix.cells(job).next();
                let (node, _) = last.expect("it has one node left");
                self.tally.distributed[node] -= 1;
            }
        }
    }
}
