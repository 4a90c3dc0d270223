//! A run of the flow engine that Python advances step by step, for cluster simulations.

use hocket_des::{Duration, Time};
use hocket_flowsim::cluster::{
    ClusterRun, Distribution, Ended, Record, Rest, Settings, SimilarIterations, SkipAhead, Start,
    Traffic,
};
use hocket_flowsim::{Goodput, MarkModel};
use hocket_scenario::closed_loop::Slots;
use hocket_scenario::{AdjustmentRow, Column, JobId, LinkId, Table};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::choices::one_of;
use crate::convert::{
    PlainCrossings, PlainProfile, PyFabric, columns, crossings, plain_profile, profile,
};
use crate::error::value_error;
use crate::simulate::{PlainShare, share};
use crate::summaries::{job_table, model_table};

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ClusterOptions {
    seed: u64,
    priority_queues: u8,
    /// 1 unless crossings count parts of flows.
    #[pyo3(default = 1)]
    flow_parts: u64,
    goodput: Vec<f64>,
    merge: f64,
    marks: Option<Marks>,
    #[pyo3(default = false)]
    skip_ahead: bool,
    /// Which iterations get rows; the number matters only to "sampled".
    #[pyo3(default = ("all".to_owned(), 1))]
    record: (String, u64),
    /// As [`Settings::most_iterations`].
    #[pyo3(default = None)]
    most_iterations: Option<u64>,
}

/// The fields of [`MarkModel`], which documents them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Marks {
    per_second: Vec<f64>,
    per_join: Vec<f64>,
    settling_ps: u64,
    recovery_ps: u64,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct StartSpec {
    profile: PlainProfile,
    crossings: PlainCrossings,
    /// As [`Start::inputs`]: pairs (link, link before it).
    inputs: Vec<(u32, u32)>,
    at_ps: u64,
    iterations: u64,
    share: PlainShare,
    priority: u8,
    jitter: f64,
    /// The number of its model; 0 where nothing is summarised by model.
    #[pyo3(default = 0)]
    model: usize,
    /// As [`Start::samples`].
    #[pyo3(default = 1)]
    samples: u64,
}

#[derive(IntoPyObject)]
struct RestRow {
    job: u32,
    rest: Option<PlainProfile>,
    iterations: u64,
    waits: bool,
    slots: Option<SlotsRow>,
}

#[derive(IntoPyObject)]
struct SlotsRow {
    origin_ps: u64,
    period_ps: u64,
    readjusts: bool,
}

/// A [`ClusterRun`], which numbers jobs in the order in which they are added.
// Unsendable because the run shares the loads of jobs through `Rc`.
#[pyclass(name = "ClusterRun", module = "hocket._hocket", unsendable)]
pub(crate) struct PyClusterRun {
    run: ClusterRun,
    /// The number of jobs added.
    jobs: u32,
    /// By link: its name.
    link_names: Vec<String>,
}

impl Marks {
    fn into_model(self) -> PyResult<MarkModel> {
        let [settling, recovery] = [self.settling_ps, self.recovery_ps].map(Duration::from_ps);
        MarkModel::new(self.per_second, self.per_join, settling, recovery).map_err(value_error)
    }
}

impl StartSpec {
    fn into_start(self) -> PyResult<Start> {
        let input = |(link, before)| (LinkId::new(link), LinkId::new(before));
        Ok(Start {
            inputs: self.inputs.into_iter().map(input).collect(),
            at: Time::from_ps(self.at_ps),
            iterations: self.iterations,
            share: share(&self.share)?,
            priority: self.priority,
            jitter: self.jitter,
            model: self.model,
            samples: self.samples,
            ..Start::new(profile(self.profile)?, crossings(self.crossings))
        })
    }
}

#[pymethods]
impl PyClusterRun {
    #[new]
    fn new(fabric: &Bound<'_, PyFabric>, options: ClusterOptions) -> PyResult<Self> {
        let fabric = &fabric.get().fabric;
        let settings = Settings {
            seed: options.seed,
            priority_queues: options.priority_queues,
            flow_parts: options.flow_parts,
            goodput: Goodput::new(&options.goodput).map_err(value_error)?,
            merge: options.merge,
            marks: options.marks.map(Marks::into_model).transpose()?,
            skip_ahead: options.skip_ahead.then(SkipAhead::default),
            record: record(&options.record)?,
            most_iterations: options.most_iterations,
        };
        let link_names = fabric.links().iter().map(|link| link.name.clone()).collect();
        Ok(Self { run: ClusterRun::new(fabric, settings), jobs: 0, link_names })
    }

    #[getter]
    fn now_ps(&self) -> u64 {
        self.run.now().as_ps()
    }

    /// Adds a job, which does not run yet. Returns its number.
    fn add(&mut self, name: String) -> u32 {
        self.jobs += 1;
        self.run.add(name).code()
    }

    /// Starts a job that is not running, at a time that is not in the past. Returns the number of the start, counted from 0.
    fn start(&mut self, job: u32, spec: StartSpec) -> PyResult<u64> {
        let id = self.job_id(job)?;
        // The engine would panic: it takes a start in the past for a bug.
        let (at, now) = (Time::from_ps(spec.at_ps), self.run.now());
        if at < now {
            return Err(value_error(format!(
                "job {job} starts at {at}, and the run has already reached {now}"
            )));
        }
        self.run.start(id, spec.into_start()?).map_err(value_error)
    }

    /// Gives a running job slots, at `origin_ps` and at whole periods from it. Its next iteration starts at the next slot;
    /// from then on, a job whose iteration ends early waits for its slot. With `keep`, a job re-adjusts if its
    /// communication starts too far from its time within the slot.
    fn align(&mut self, job: u32, origin_ps: u64, period_ps: u64, keep: bool) -> PyResult<()> {
        let (origin, period) = (Time::from_ps(origin_ps), Duration::from_ps(period_ps));
        let slots = Slots { origin, period, waits: true, readjusts: keep };
        self.run.align(self.job_id(job)?, Some(slots)).map_err(value_error)
    }

    /// Removes a job's slots.
    fn release(&mut self, job: u32) -> PyResult<()> {
        self.run.align(self.job_id(job)?, None).map_err(value_error)
    }

    /// Moves a running job to another queue and to other links from now on; marks must not be counted.
    fn reroute(&mut self, job: u32, priority: u8, crossed: PlainCrossings) -> PyResult<()> {
        let id = self.job_id(job)?;
        self.run.reroute(id, priority, &crossings(crossed)).map_err(value_error)
    }

    /// Stops a job at the end of its iteration, or at once if it is between two iterations or before the first. Returns
    /// whether it has stopped.
    fn stop(&mut self, job: u32) -> PyResult<bool> {
        self.run.stop(self.job_id(job)?).map_err(value_error)
    }

    /// When the current iteration of a job started; `None` if none is under way.
    fn iteration_start_ps(&self, job: u32) -> PyResult<Option<u64>> {
        Ok(self.run.iteration_start(self.job_id(job)?).map(Time::as_ps))
    }

    /// The number of iterations that a job has finished, over all its starts.
    fn iterations_done(&self, job: u32) -> PyResult<u64> {
        Ok(self.run.done(self.job_id(job)?))
    }

    /// The number of iterations that were repeated instead of being simulated.
    fn repeated_iterations(&self) -> u64 {
        self.run.repeated_iterations()
    }

    /// Runs until `until_ps` or the first time at which jobs end. Returns these jobs, each with "done" or "stopped".
    fn advance(&mut self, py: Python<'_>, until_ps: u64) -> PyResult<Vec<(u32, &'static str)>> {
        // The engine cannot be interrupted while it runs, so Ctrl-C takes effect between calls.
        py.check_signals()?;
        let ended = self.run.advance(Time::from_ps(until_ps)).map_err(value_error)?;
        let reason = |ended| match ended {
            Ended::Done => "done",
            Ended::Stopped => "stopped",
        };
        Ok(ended.into_iter().map(|(job, ended)| (job.code(), reason(ended))).collect())
    }

    /// The number of rows of iterations since the last call of `take_tables`.
    fn rows(&self) -> usize {
        self.run.rows()
    }

    /// The largest relative error of percentiles that are not exact.
    #[classattr]
    const PERCENTILE_ERROR: f64 = Distribution::ERROR;

    /// Summaries over all iterations so far: the table `jobs` has a row for each job that has done one, and `models` a row
    /// for each model by its number, and one for all iterations together.
    fn summaries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = PyDict::new(py);
        for table in [job_table(&self.run.summaries()), model_table(&self.run.model_summaries())] {
            tables.set_item(table.name, columns(py, &table)?)?;
        }
        Ok(tables)
    }

    /// The tables `iterations` and `adjustments`, with the rows since the last call.
    fn take_tables<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = PyDict::new(py);
        for table in [self.iterations(), self.adjustments()] {
            tables.set_item(table.name, columns(py, &table)?)?;
        }
        Ok(tables)
    }

    /// The table `links`: the traffic of each job on each link so far.
    fn links<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.run.traffic();
        let column =
            |value: &dyn Fn(&Traffic) -> u64| Column::U64(rows.values().map(value).collect());
        let table = Table {
            name: "links",
            columns: vec![
                ("link", self.link_column(rows.keys().map(|(link, _)| *link))),
                ("job", Column::U32(rows.keys().map(|(_, job)| job.code()).collect())),
                ("bytes", column(&|traffic| traffic.bytes.get())),
                ("busy_ps", column(&|traffic| traffic.busy.as_ps())),
                ("contended_ps", column(&|traffic| traffic.contended.as_ps())),
                ("marks", Column::F64(rows.values().map(|traffic| traffic.marks).collect())),
            ],
        };
        columns(py, &table)
    }

    /// The table `delays`, since the last call: the time that each `job` lost to each `other` job on each link.
    fn take_delays<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.run.take_delays();
        let table = Table {
            name: "delays",
            columns: vec![
                ("link", self.link_column(rows.keys().map(|encounter| encounter.link))),
                ("job", Column::U32(rows.keys().map(|encounter| encounter.job.code()).collect())),
                (
                    "other",
                    Column::U32(rows.keys().map(|encounter| encounter.other.code()).collect()),
                ),
                ("delay_s", Column::F64(rows.values().copied().collect())),
            ],
        };
        columns(py, &table)
    }

    /// For each running job, the rest of its current iteration, or of its wait for the next one.
    fn rests(&mut self) -> Vec<RestRow> {
        let slots = |slots: Slots| SlotsRow {
            origin_ps: slots.origin.as_ps(),
            period_ps: slots.period.as_ps(),
            readjusts: slots.readjusts,
        };
        let row = |rest: Rest| RestRow {
            job: rest.job.code(),
            rest: rest.rest.as_ref().map(plain_profile),
            iterations: rest.iterations,
            waits: rest.waits,
            slots: rest.slots.map(slots),
        };
        self.run.rests().into_iter().map(row).collect()
    }
}

impl PyClusterRun {
    fn job_id(&self, job: u32) -> PyResult<JobId> {
        if job >= self.jobs {
            let jobs = self.jobs;
            return Err(value_error(format!(
                "there is no job {job}; there are {jobs} jobs, counted from 0"
            )));
        }
        Ok(JobId::new(job))
    }

    // The dictionary has only the links that occur: a fabric has thousands of links, and these tables have few rows.
    fn link_column(&self, links: impl Iterator<Item = LinkId>) -> Column {
        let links: Vec<LinkId> = links.collect();
        let mut distinct = links.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let code = |link| distinct.binary_search(link).expect("all links are in it") as u32;
        Column::Str {
            codes: links.iter().map(code).collect(),
            dictionary: distinct.iter().map(|link| self.link_names[link.index()].clone()).collect(),
        }
    }

    fn iterations(&mut self) -> Table {
        let rows = self.run.take_iterations();
        let column = |value: &dyn Fn(&SimilarIterations) -> u64| {
            Column::U64(rows.iter().map(value).collect())
        };
        Table {
            name: "iterations",
            columns: vec![
                ("job", Column::U32(rows.iter().map(|row| row.job.code()).collect())),
                ("stint", column(&|row| row.start_number)),
                ("iteration", column(&|row| row.iteration)),
                ("count", column(&|row| row.count)),
                ("start_ps", column(&|row| row.start.as_ps())),
                ("end_ps", column(&|row| row.end.as_ps())),
                ("duration_ps", column(&|row| row.duration.as_ps())),
                ("communication_ps", column(&|row| row.communication.as_ps())),
                ("delayed_ps", column(&|row| row.delayed.as_ps())),
                ("marks", Column::F64(rows.iter().map(|row| row.marks).collect())),
            ],
        }
    }

    fn adjustments(&mut self) -> Table {
        let rows = self.run.take_adjustments();
        let column =
            |value: &dyn Fn(&AdjustmentRow) -> u64| Column::U64(rows.iter().map(value).collect());
        Table {
            name: "adjustments",
            columns: vec![
                ("job", Column::U32(rows.iter().map(|row| row.job.code()).collect())),
                ("time_ps", column(&|row| row.time.as_ps())),
                ("deviation_ps", Column::I64(rows.iter().map(|row| row.deviation_ps).collect())),
                ("delay_ps", column(&|row| row.delay.as_ps())),
            ],
        }
    }
}

fn record((which, every): &(String, u64)) -> PyResult<Record> {
    let sampled = Record::Sampled { every: (*every).max(1) };
    let choices = [("all", Record::All), ("sampled", sampled), ("summary", Record::Summary)];
    one_of("record", which, choices)
}
