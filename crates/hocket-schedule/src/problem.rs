//! The problem of a round: nodes, jobs, where these run, and what workers are worth to them; and the fitness of
//! allocations.

use thiserror::Error;

use crate::matrix::Matrix;
use crate::tally::Tally;

/// Added to the worth of each job, so that a power mean with a negative exponent stays above 0 if a job waits, whose
/// worth is 0. Source: the simulator that the authors of Pollux released with OSDI'21.
const WAITING: f64 = 1e-3;

/// Workers on a node, as (node, workers).
pub type Cell = (usize, u32);

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
        Ok(Self { capacities, jobs, base, fitness })
    }

    /// The fitness of an allocation, whose tally is `tally`.
    pub(crate) fn fitness(&self, matrix: &Matrix, tally: &Tally) -> f64 {
        self.fitness_of((0..self.jobs.len()).map(|job| self.worth(job, matrix, tally)))
    }

    /// A fitness that no allocation exceeds: each job stays or gets the workers that are worth most to it, as if it
    /// were alone in the cluster.
    pub(crate) fn bound(&self) -> f64 {
        let tally = Tally::of(&self.base);
        let largest = self.capacities.iter().copied().max().map_or(0, u32::from);
        let moved = |size: &Worth| {
            let on_one_node = if size.workers <= largest { size.on_one_node } else { 0.0 };
            let across_nodes = if size.workers > 1 { size.across_nodes } else { 0.0 };
            on_one_node.max(across_nodes)
        };
        self.fitness_of(self.jobs.iter().enumerate().map(|(job, spec)| {
            let stays = self.worth(job, &self.base, &tally);
            let sizes = spec.sizes.iter().filter(|_| !spec.pinned);
            sizes.map(|size| moved(size) * spec.restart_factor).fold(stays, f64::max)
        }))
    }

    fn fitness_of(&self, worths: impl Iterator<Item = f64>) -> f64 {
        match self.fitness {
            Fitness::Sum => worths.sum(),
            Fitness::PowerMean { exponent } => {
                let power = |worth: f64| match exponent {
                    // The paper's exponent: a division is faster than a power, and every individual takes one per job.
                    -1.0 => 1.0 / (worth + WAITING),
                    other => (worth + WAITING).powf(other),
                };
                let mean = worths.map(power).sum::<f64>() / self.jobs.len() as f64;
                mean.powf(1.0 / exponent)
            }
        }
    }

    /// What its workers are worth to a job, with the restart factor if they change; 0 for a number of workers with
    /// which it cannot run.
    pub(crate) fn worth(&self, job: usize, matrix: &Matrix, tally: &Tally) -> f64 {
        let sizes = &self.jobs[job].sizes;
        let workers = tally.workers[job];
        let Ok(size) = sizes.binary_search_by_key(&workers, |size| size.workers) else {
            return 0.0;
        };
        let size = &sizes[size];
        let worth = if tally.is_distributed(job) { size.across_nodes } else { size.on_one_node };
        let stays = matrix.row(job) == self.base.row(job);
        if stays { worth } else { worth * self.jobs[job].restart_factor }
    }

    /// The largest size of a job up to `workers`; 0 if all its sizes are larger.
    pub(crate) fn size_up_to(&self, job: usize, workers: u32) -> u32 {
        let sizes = &self.jobs[job].sizes;
        let above = sizes.partition_point(|size| size.workers <= workers);
        above.checked_sub(1).map_or(0, |last| sizes[last].workers)
    }

    /// The smallest size of a job above `workers`.
    pub(crate) fn size_above(&self, job: usize, workers: u32) -> Option<u32> {
        let sizes = &self.jobs[job].sizes;
        sizes.get(sizes.partition_point(|size| size.workers <= workers)).map(|size| size.workers)
    }
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
