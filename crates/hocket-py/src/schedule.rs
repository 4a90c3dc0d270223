//! The search of Pollux.

use hocket_schedule::{Cell, Fitness, Job, Options, Problem, Round, Search, Worth};
use pyo3::prelude::*;

use crate::convert::value_error;

/// As [`Job`], which documents the fields; sizes as (workers, worth on one node, worth across nodes).
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct JobRow {
    key: u64,
    sizes: Vec<(u32, f64, f64)>,
    cells: Vec<Cell>,
    restart_factor: f64,
    pinned: bool,
}

impl From<JobRow> for Job {
    fn from(row: JobRow) -> Self {
        let size =
            |(workers, on_one_node, across_nodes)| Worth { workers, on_one_node, across_nodes };
        let JobRow { key, sizes, cells, restart_factor, pinned } = row;
        Self { key, sizes: sizes.into_iter().map(size).collect(), cells, restart_factor, pinned }
    }
}

/// As [`Round`], which documents the fields.
#[derive(IntoPyObject)]
pub(crate) struct Found {
    rows: Vec<Vec<Cell>>,
    worths: Vec<f64>,
    fitness: f64,
    fitness_before: f64,
    generations: usize,
}

/// A search, with what it keeps from round to round.
#[pyclass(name = "PolluxSearch", module = "hocket._hocket")]
pub(crate) struct PySearch(Search);

#[pymethods]
impl PySearch {
    #[new]
    fn new(population: usize, generations: usize, seed: u64) -> Self {
        Self(Search::new(Options { population, generations }, seed))
    }

    /// The best allocation found on nodes with so many GPUs; by the power mean with `exponent`, or by the sum without one.
    fn round(
        &mut self,
        py: Python<'_>,
        gpus: Vec<u32>,
        jobs: Vec<JobRow>,
        exponent: Option<f64>,
    ) -> PyResult<Found> {
        let fitness = exponent.map_or(Fitness::Sum, |exponent| Fitness::PowerMean { exponent });
        let jobs = jobs.into_iter().map(Job::from).collect();
        let problem = Problem::new(&gpus, jobs, fitness).map_err(value_error)?;
        let Round { rows, worths, fitness, fitness_before, generations } =
            py.detach(|| self.0.round(&problem));
        Ok(Found { rows, worths, fitness, fitness_before, generations })
    }
}
