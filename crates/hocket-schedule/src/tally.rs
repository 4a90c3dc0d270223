//! Row and column sums of an allocation, which are updated during its repair instead of being summed anew.

use crate::matrix::Matrix;

/// Workers and nodes of each job, and workers and jobs on each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// By node: its workers.
    pub(crate) loads: Vec<u32>,
    /// By node: its jobs, in the order in which they came; also those that a repair has removed.
    pub(crate) jobs: Vec<Vec<usize>>,
    /// By node: the number of its jobs that are distributed, which means on several nodes.
    pub(crate) distributed: Vec<u32>,
    /// By job: its workers.
    pub(crate) workers: Vec<u32>,
    /// By job: the number of its nodes.
    pub(crate) spread: Vec<u32>,
}

impl Tally {
    pub(crate) fn of(matrix: &Matrix) -> Self {
        let mut tally = Self::default();
        tally.count(matrix);
        tally
    }

    /// Whether a job is on several nodes.
    pub(crate) fn is_distributed(&self, job: usize) -> bool {
        self.spread[job] > 1
    }

    /// Replaces all counts by those of `matrix`.
    pub(crate) fn count(&mut self, matrix: &Matrix) {
        // Vectors are cleared instead of created, because every child of every generation is counted.
        let nodes = matrix.nodes();
        self.loads.clear();
        self.loads.resize(nodes, 0);
        self.distributed.clear();
        self.distributed.resize(nodes, 0);
        self.jobs.resize_with(nodes, Vec::new);
        self.jobs.iter_mut().for_each(Vec::clear);
        self.workers.clear();
        self.spread.clear();
        for job in 0..matrix.jobs() {
            let (mut workers, mut spread) = (0, 0);
            for (node, here) in matrix.cells(job) {
                self.loads[node] += here;
                self.jobs[node].push(job);
                workers += here;
                spread += 1;
            }
            self.workers.push(workers);
            self.spread.push(spread);
            if spread > 1 {
                matrix.cells(job).for_each(|(node, _)| self.distributed[node] += 1);
            }
        }
    }
}
