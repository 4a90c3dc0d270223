//! Row and column sums of an allocation, which are updated during its repair instead of being summed anew.

use crate::individual::Placed;
use crate::matrix::Cell;

/// Workers and nodes of each job, and workers and jobs on each node.
#[derive(Clone, Debug)]
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
    pub(crate) spread: Vec<usize>,
}

impl Tally {
    pub(crate) fn new(jobs: usize, nodes: usize) -> Self {
        Self {
            loads: vec![0; nodes],
            jobs: vec![Vec::new(); nodes],
            distributed: vec![0; nodes],
            workers: vec![0; jobs],
            spread: vec![0; jobs],
        }
    }

    /// Whether a job is on several nodes.
    pub(crate) fn is_distributed(&self, job: usize) -> bool {
        self.spread[job] > 1
    }

    /// Begins anew with an empty allocation.
    pub(crate) fn clear(&mut self) {
        // Vectors are cleared instead of created, because every child of every generation is counted.
        self.loads.fill(0);
        self.jobs.iter_mut().for_each(Vec::clear);
        self.distributed.fill(0);
        self.workers.fill(0);
        self.spread.fill(0);
    }

    /// Counts a cell of a row, of which the sums are set besides.
    pub(crate) fn add_cell(&mut self, cell: &Placed) {
        let node = cell.node as usize;
        self.loads[node] += u32::from(cell.workers);
        self.jobs[node].push(cell.job as usize);
        self.distributed[node] += u32::from(cell.distributed);
    }

    /// Counts a row, whose job has none yet.
    pub(crate) fn add(&mut self, job: usize, cells: impl Iterator<Item = Cell> + Clone) {
        let (mut workers, mut spread) = (0, 0);
        for (node, here) in cells.clone() {
            self.loads[node] += here;
            self.jobs[node].push(job);
            workers += here;
            spread += 1;
        }
        self.workers[job] = workers;
        self.spread[job] = spread;
        if spread > 1 {
            cells.for_each(|(node, _)| self.distributed[node] += 1);
        }
    }
}
