//! What is counted of an allocation: who has how many workers where.

use crate::matrix::Matrix;

/// What is counted of an allocation, kept up to date while it is repaired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Workers by node.
    pub(crate) loads: Vec<u32>,
    /// Jobs by node, of which some may have left.
    pub(crate) jobs: Vec<Vec<usize>>,
    /// Distributed jobs, those on several nodes, by node.
    pub(crate) distributed: Vec<u32>,
    /// Workers by job.
    pub(crate) workers: Vec<u32>,
    /// Nodes by job.
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

    /// Counts another allocation.
    pub(crate) fn count(&mut self, matrix: &Matrix) {
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
