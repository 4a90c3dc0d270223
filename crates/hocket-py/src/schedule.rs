//! Pollux's genetic search for allocations.

use hocket_schedule::{
    Cell, Fitness, PolluxJob, PolluxProblem, PolluxSearch, Round, SearchOptions, Worth,
};
use pyo3::prelude::*;

use crate::error::value_error;

/// As [`PolluxJob`], which documents the fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct JobRow {
    key: u64,
    sizes: Vec<WorthRow>,
    cells: Vec<Cell>,
    restart_factor: f64,
    pinned: bool,
}

/// As [`Worth`], which documents the fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct WorthRow {
    workers: u32,
    on_one_node: f64,
    across_nodes: f64,
}

impl From<WorthRow> for Worth {
    fn from(row: WorthRow) -> Self {
        let WorthRow { workers, on_one_node, across_nodes } = row;
        Self { workers, on_one_node, across_nodes }
    }
}

impl From<JobRow> for PolluxJob {
    fn from(row: JobRow) -> Self {
        let JobRow { key, sizes, cells, restart_factor, pinned } = row;
        Self {
            key,
            sizes: sizes.into_iter().map(Worth::from).collect(),
            cells,
            restart_factor,
            pinned,
        }
    }
}

/// As [`Round`], which documents the fields.
#[derive(IntoPyObject)]
pub(crate) struct RoundResult {
    rows: Vec<Vec<Cell>>,
    worths: Vec<f64>,
    fitness: f64,
    fitness_before: f64,
    generations: usize,
}

/// As [`PolluxSearch`]: each round starts from the population of the last one.
#[pyclass(name = "PolluxSearch", module = "hocket._hocket")]
pub(crate) struct PySearch(PolluxSearch);

#[pymethods]
impl PySearch {
    #[new]
    fn new(population: usize, generations: usize, seed: u64) -> Self {
        Self(PolluxSearch::new(SearchOptions { population, generations }, seed))
    }

    /// The best allocation of `jobs` on nodes with `gpus` GPUs each. The objective is the power mean with `exponent`;
    /// without an exponent, the sum.
    fn round(
        &mut self,
        py: Python<'_>,
        gpus: Vec<u32>,
        jobs: Vec<JobRow>,
        exponent: Option<f64>,
    ) -> PyResult<RoundResult> {
        let fitness = exponent.map_or(Fitness::Sum, |exponent| Fitness::PowerMean { exponent });
        let jobs = jobs.into_iter().map(PolluxJob::from).collect();
        let problem = PolluxProblem::new(&gpus, jobs, fitness).map_err(value_error)?;
        let Round { rows, worths, fitness, fitness_before, generations } =
            py.detach(|| self.0.round(&problem));
        Ok(RoundResult { rows, worths, fitness, fitness_before, generations })
    }
}
