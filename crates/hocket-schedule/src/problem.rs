//! The problem of a round: nodes, jobs, where these run, and what workers are worth to them; and the fitness of
//! allocations.

use thiserror::Error;

use crate::matrix::{Cell, Matrix};

/// Added to the worth of each job, so that a power mean with a negative exponent stays above 0 if a job waits, whose
/// worth is 0. Source: the simulator that the authors of Pollux released with OSDI'21.
const WAITING: f64 = 1e-3;

/// The objective of the search: the mean or the sum of what an allocation is worth to each job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fitness {
    /// The power mean; the lower the exponent, the fairer (OSDI'21 section 4.2, which uses −1).
    PowerMean {
        /// Not 0.
        exponent: f64,
    },
    /// The sum, as in later releases of Pollux.
    Sum,
}

/// What a number of workers is worth to a job; the higher, the better. A job that waits has a worth of 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// The number of workers.
    pub workers: u32,
    /// The worth if all are on one node.
    pub on_one_node: f64,
    /// The worth if they are on several nodes.
    pub across_nodes: f64,
}

/// A job in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct PolluxJob {
    /// Identifies it from round to round.
    pub key: u64,
    /// The numbers of workers with which it can run, ascending.
    pub sizes: Vec<Worth>,
    /// Where it runs now; empty if it waits.
    pub cells: Vec<Cell>,
    /// Its worth is multiplied by this if its workers change.
    pub restart_factor: f64,
    /// Whether it must stay where it runs.
    pub pinned: bool,
}

/// Nodes, jobs, and where the jobs run.
#[derive(Clone, Debug)]
pub struct PolluxProblem {
    pub(crate) capacities: Vec<u8>,
    pub(crate) jobs: Vec<PolluxJob>,
    /// The current allocation.
    pub(crate) base: Matrix,
    /// By job: its workers in the current allocation.
    base_workers: Vec<u32>,
    /// By job and number of workers: how many of its sizes are not larger. Looked up for every row that changes.
    not_larger: Vec<Vec<usize>>,
    fitness: Fitness,
}

/// Why a problem is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ScheduleError {
    #[error("node {node} has {workers} GPUs; at most 255 are possible")]
    LargeNode { node: usize, workers: u32 },
    #[error("node {node} has {capacity} GPUs, but jobs run with {workers} workers on it")]
    Overfull { node: usize, capacity: u8, workers: u32 },
    #[error("a job runs on node {node}, but there are only {nodes} nodes, counted from 0")]
    UnknownNode { node: usize, nodes: usize },
    #[error("job {key} has sizes {sizes:?}; they must be above 0 and ascend")]
    Sizes { key: u64, sizes: Vec<u32> },
}

impl PolluxProblem {
    /// The problem of `jobs` on nodes with `capacities` GPUs.
    ///
    /// # Errors
    ///
    /// If a node has more than 255 GPUs or fewer than jobs have workers on it, a job runs on a node that does not
    /// exist, or the sizes of a job do not ascend from 1 or more.
    ///
    /// # Panics
    ///
    /// If there is no node.
    pub fn new(
        capacities: &[u32],
        jobs: Vec<PolluxJob>,
        fitness: Fitness,
    ) -> Result<Self, ScheduleError> {
        assert!(!capacities.is_empty(), "a cluster has a node");
        let capacity = |(node, workers): (usize, &u32)| {
            let large = ScheduleError::LargeNode { node, workers: *workers };
            u8::try_from(*workers).map_err(|_| large)
        };
        let capacities: Vec<u8> =
            capacities.iter().enumerate().map(capacity).collect::<Result<_, _>>()?;
        for job in &jobs {
            check_sizes(job)?;
        }
        let base = base(&capacities, &jobs)?;
        let not_larger = jobs.iter().map(not_larger).collect();
        let workers = |job: &PolluxJob| job.cells.iter().map(|(_, workers)| workers).sum();
        let base_workers = jobs.iter().map(workers).collect();
        Ok(Self { capacities, jobs, base, base_workers, not_larger, fitness })
    }

    /// A fitness that no allocation exceeds: each job stays or gets the workers that are worth most to it, as if it
    /// were alone in the cluster.
    pub(crate) fn bound(&self) -> f64 {
        let largest = self.capacities.iter().copied().max().map_or(0, u32::from);
        let moved = |size: &Worth| {
            let on_one_node = if size.workers <= largest { size.on_one_node } else { 0.0 };
            let across_nodes = if size.workers > 1 { size.across_nodes } else { 0.0 };
            on_one_node.max(across_nodes)
        };
        self.fitness(self.jobs.iter().enumerate().map(|(job, spec)| {
            let stays = self.worth_now(job);
            let sizes = spec.sizes.iter().filter(|_| !spec.pinned);
            self.term(sizes.map(|size| moved(size) * spec.restart_factor).fold(stays, f64::max))
        }))
    }

    /// What its current workers are worth to a job.
    pub(crate) fn worth_now(&self, job: usize) -> f64 {
        let is_distributed = self.base.cells(job).nth(1).is_some();
        self.worth(job, self.base.row(job), self.base_workers[job], is_distributed)
    }

    /// The term of a job in the fitness, from what its workers are worth to it. A division or a power for each job would
    /// take long for every individual, so that terms are computed for changed rows only.
    pub(crate) fn term(&self, worth: f64) -> f64 {
        match self.fitness {
            Fitness::Sum => worth,
            // The paper's exponent: a division is faster than a power.
            Fitness::PowerMean { exponent: -1.0 } => 1.0 / (worth + WAITING),
            Fitness::PowerMean { exponent } => (worth + WAITING).powf(exponent),
        }
    }

    /// The fitness from the terms of all jobs, in their order.
    pub(crate) fn fitness(&self, terms: impl Iterator<Item = f64>) -> f64 {
        let sum = terms.sum::<f64>();
        match self.fitness {
            Fitness::Sum => sum,
            Fitness::PowerMean { exponent } => (sum / self.jobs.len() as f64).powf(1.0 / exponent),
        }
    }

    /// What its workers are worth to a job, with the restart factor if they change; 0 for a number of workers with
    /// which it cannot run. `workers` is the sum of `row`.
    pub(crate) fn worth(&self, job: usize, row: &[u8], workers: u32, is_distributed: bool) -> f64 {
        let (sizes, _) = self.sizes_around(job, workers);
        let Some(size) = sizes.last().filter(|size| size.workers == workers) else {
            return 0.0;
        };
        let worth = if is_distributed { size.across_nodes } else { size.on_one_node };
        // Most rows that change have another number of workers, which is quicker to find out.
        let stays = workers == self.base_workers[job] && row == self.base.row(job);
        if stays { worth } else { worth * self.jobs[job].restart_factor }
    }

    /// The sizes of a job up to `workers`, and those above.
    pub(crate) fn sizes_around(&self, job: usize, workers: u32) -> (&[Worth], &[Worth]) {
        let (sizes, not_larger) = (&self.jobs[job].sizes, &self.not_larger[job]);
        sizes.split_at(not_larger.get(workers as usize).copied().unwrap_or(sizes.len()))
    }
}

/// See [`PolluxProblem::not_larger`].
fn not_larger(job: &PolluxJob) -> Vec<usize> {
    let largest = job.sizes.last().map_or(0, |size| size.workers);
    let count = |workers| job.sizes.partition_point(|size| size.workers <= workers);
    (0..largest).map(count).collect()
}

fn check_sizes(job: &PolluxJob) -> Result<(), ScheduleError> {
    let sizes: Vec<u32> = job.sizes.iter().map(|size| size.workers).collect();
    let ascend = sizes.first() > Some(&0) && sizes.windows(2).all(|pair| pair[0] < pair[1]);
    if ascend { Ok(()) } else { Err(ScheduleError::Sizes { key: job.key, sizes }) }
}

/// The current allocation.
///
/// # Errors
/// If jobs run on a node that does not exist, or with more workers on a node than it has GPUs.
fn base(capacities: &[u8], jobs: &[PolluxJob]) -> Result<Matrix, ScheduleError> {
    let nodes = capacities.len();
    let mut loads = vec![0; nodes];
    for (node, workers) in jobs.iter().flat_map(|job| &job.cells) {
        *loads.get_mut(*node).ok_or(ScheduleError::UnknownNode { node: *node, nodes })? += workers;
    }
    for (node, (capacity, load)) in capacities.iter().zip(loads).enumerate() {
        if load > u32::from(*capacity) {
            return Err(ScheduleError::Overfull { node, capacity: *capacity, workers: load });
        }
    }
    let mut base = Matrix::empty(jobs.len(), nodes);
    for (job, cells) in jobs.iter().map(|job| &job.cells).enumerate() {
        for (node, workers) in cells {
            base.row_mut(job)[*node] += u8::try_from(*workers).expect("it fits on its node");
        }
    }
    Ok(base)
}
