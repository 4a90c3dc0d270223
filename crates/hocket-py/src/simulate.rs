//! Runs of a plan's jobs, on either engine.

use std::num::NonZeroU64;

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::{FlowOptions, Goodput, run_observed};
use hocket_packetsim::{Change, LinkChange, PathChoice, Skip, run_scenario};
use hocket_scenario::{
    Adaptive, Job, JobFlow, LinkId, NodeId, Periodic, Scenario, Share, Span, Stop, Transport,
    Weight, Work,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::choices::{one_of, path};
use crate::convert::{PlainCrossings, PlainProfile, PyFabric, crossings, profile};
use crate::error::value_error;
use crate::observed::{Observed, observed};
use crate::packets::{ModelSpec, PacketRunResult, packet_result, run_error};
use crate::policies::{policy, window_rule};
use crate::trainings::TrainingDict;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct JobSpec {
    name: String,
    /// For a periodic job.
    profile: Option<PlainProfile>,
    /// The rest of the iteration in which the job is when it arrives, if it is in one.
    first: Option<PlainProfile>,
    /// The links that a periodic job crosses on the flow engine.
    crossings: PlainCrossings,
    /// For a training job.
    training: Option<TrainingDict>,
    arrival_ps: u64,
    iterations: Option<u64>,
    share: PlainShare,
    priority: u8,
    time_shift_ps: Option<u64>,
    clock_error_ps: u64,
    readjust: bool,
    jitter: f64,
    pad_to_ps: Option<u64>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunSpec {
    priority_queues: u8,
    /// Flow engine.
    goodput: Vec<f64>,
    seed: u64,
    iterations: Option<u64>,
    until_ps: Option<u64>,
    record_rates_until_ps: u64,
    /// The number of iterations of each training job whose operations are recorded.
    record_operations: u64,
    sample_every_ps: Option<u64>,
    /// Whether the packet engine records each message.
    record_flows: bool,
}

/// What only the packet engine needs to know of a job.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TransportSpec<'py> {
    flows: Vec<FlowSpec>,
    policy: Bound<'py, PyDict>,
    window: (String, u64),
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct FlowSpec {
    from_node: u32,
    to_node: u32,
    label: u64,
    path: PathSpec,
}

#[derive(FromPyObject)]
enum PathSpec {
    Pinned(Vec<u32>),
    /// "ecmp" or "spray".
    Named(String),
}

/// A change of a link during a run of the packet engine.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ChangeSpec {
    at_ps: u64,
    link: u32,
    /// "down", "up" or "rate".
    kind: String,
    /// For the kind "rate".
    rate_bps: u64,
}

#[derive(IntoPyObject)]
pub(crate) struct FlowRunResult<'py> {
    counters: Bound<'py, PyDict>,
    jobs_per_queue: Vec<usize>,
    interrupted: bool,
    ended_ps: u64,
    /// Seconds that the run took, without those in which it waited for `sink` and `progress`.
    run_s: f64,
}

impl JobSpec {
    /// The job of this specification; `number`, its place in the plan, is for errors.
    fn job((number, spec): (usize, Self)) -> PyResult<Job> {
        let work = match (spec.training, spec.profile) {
            (Some(training), _) => Work::Training(Box::new(training.training(number, &spec.name)?)),
            (None, Some(plain)) => Work::Periodic(Periodic {
                profile: profile(plain)?,
                first: spec.first.map(profile).transpose()?,
                crossings: crossings(spec.crossings),
                // The flow engine needs crossings alone; `TransportSpec` adds the flows for the packet engine.
                flows: Vec::new(),
            }),
            (None, None) => {
                return Err(value_error(format!(
                    "job {:?} has neither a profile nor a training",
                    spec.name
                )));
            }
        };
        Ok(Job {
            arrival: Time::from_ps(spec.arrival_ps),
            iterations: spec.iterations,
            share: share(&spec.share)?,
            priority: spec.priority,
            time_shift: spec.time_shift_ps.map(Duration::from_ps),
            clock_error: Duration::from_ps(spec.clock_error_ps),
            readjust: spec.readjust,
            jitter: spec.jitter,
            pad_to: spec.pad_to_ps.map(Duration::from_ps),
            ..Job::with_work(spec.name, work)
        })
    }
}

/// How a job shares links.
#[derive(FromPyObject)]
pub(crate) enum PlainShare {
    /// "fair", "weighted" or "adaptive", and the weight.
    Weight(String, f64),
    /// "mltcp", the weight at the start of an iteration, and what it gains until its end.
    Growth(String, f64, f64),
}

pub(crate) fn share(plain: &PlainShare) -> PyResult<Share> {
    let weight = |value: f64| Weight::new(value).map_err(value_error);
    match plain {
        PlainShare::Weight(kind, value) => {
            let weight = weight(*value)?;
            let shares = [
                ("fair", Share::Fair),
                ("weighted", Share::Weighted(weight)),
                ("adaptive", Share::adaptive(weight)),
            ];
            one_of("share", kind, shares)
        }
        PlainShare::Growth(kind, intercept, slope) => {
            let (intercept, slope) = (weight(*intercept)?, weight(*slope)?);
            let adaptive = Adaptive { intercept, slope, span: Span::Iteration };
            one_of("share", kind, [("mltcp", Share::Adaptive(adaptive))])
        }
    }
}

impl RunSpec {
    fn scenario(&self, fabric: &PyFabric, jobs: Vec<Job>) -> PyResult<Scenario> {
        let stop = Stop { iterations: self.iterations, until: self.until_ps.map(Time::from_ps) };
        Scenario::new(fabric.fabric.clone(), jobs, self.priority_queues, self.seed, stop)
            .map_err(value_error)
    }
}

impl TransportSpec<'_> {
    /// Adds flows and transport to `job`.
    fn add_to(self, job: &mut Job) -> PyResult<()> {
        let flows: Vec<JobFlow> =
            self.flows.into_iter().map(FlowSpec::flow).collect::<PyResult<_>>()?;
        // The flows of a training job follow from its pairs of ranks.
        if let Some(periodic) = job.periodic_mut() {
            periodic.flows = flows;
        }
        job.transport =
            Transport { policy: policy(&self.policy)?, window: window_rule(&self.window)? };
        Ok(())
    }
}

impl FlowSpec {
    fn flow(self) -> PyResult<JobFlow> {
        let path = match self.path {
            PathSpec::Pinned(links) => {
                PathChoice::Pinned(links.into_iter().map(LinkId::new).collect())
            }
            PathSpec::Named(name) => path(&name)?,
        };
        let (from, to) = (NodeId::new(self.from_node), NodeId::new(self.to_node));
        Ok(JobFlow { path, ..JobFlow::new(from, to, self.label) })
    }
}

impl ChangeSpec {
    fn change(self) -> PyResult<LinkChange> {
        let changes = [
            ("down", Change::Down),
            ("up", Change::Up),
            ("rate", Change::Rate(Rate::from_bps(self.rate_bps))),
        ];
        Ok(LinkChange {
            at: Time::from_ps(self.at_ps),
            link: LinkId::new(self.link),
            change: one_of("change", &self.kind, changes)?,
        })
    }
}

/// Runs jobs with their transports packet by packet. `skip` is (tolerance, cycles). `sink` and `progress` as for
/// [`observed`]; progress counts iterations.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is a thing of its own")]
pub(crate) fn simulate_jobs<'py>(
    py: Python<'py>,
    fabric: &Bound<'py, PyFabric>,
    model: ModelSpec,
    jobs: Vec<JobSpec>,
    transports: Vec<TransportSpec<'py>>,
    changes: Vec<ChangeSpec>,
    run: RunSpec,
    skip: Option<(f64, u32)>,
    sink: Bound<'py, PyAny>,
    progress: Bound<'py, PyAny>,
) -> PyResult<PacketRunResult<'py>> {
    let model = model.model()?;
    let mut jobs =
        jobs.into_iter().enumerate().map(JobSpec::job).collect::<PyResult<Vec<Job>>>()?;
    for (job, transport) in jobs.iter_mut().zip(transports) {
        transport.add_to(job)?;
    }
    let changes: Vec<LinkChange> =
        changes.into_iter().map(ChangeSpec::change).collect::<PyResult<_>>()?;
    let scenario = run.scenario(fabric.get(), jobs)?;
    let options = hocket_packetsim::PacketOptions {
        sample_every: run.sample_every_ps.map(Duration::from_ps),
        skip: skip.map(|(tolerance, cycles)| Skip { tolerance, cycles }),
        record: hocket_packetsim::Record {
            operations: run.record_operations,
            messages: run.record_flows,
            ..hocket_packetsim::Record::default()
        },
        ..hocket_packetsim::PacketOptions::default()
    };
    let ran = observed(py, sink, progress, |observer| {
        run_scenario(&scenario, &model, &changes, &options, observer).map_err(run_error)
    })?;
    packet_result(py, ran)
}

/// Runs jobs on the flow engine. `sink` and `progress` as for [`observed`]; progress counts iterations.
#[pyfunction]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    fabric: &Bound<'py, PyFabric>,
    jobs: Vec<JobSpec>,
    run: RunSpec,
    sink: Bound<'py, PyAny>,
    progress: Bound<'py, PyAny>,
) -> PyResult<FlowRunResult<'py>> {
    let jobs = jobs.into_iter().enumerate().map(JobSpec::job).collect::<PyResult<Vec<Job>>>()?;
    let scenario = run.scenario(fabric.get(), jobs)?;
    let options = FlowOptions {
        goodput: Goodput::new(&run.goodput).map_err(value_error)?,
        rates_until: Time::from_ps(run.record_rates_until_ps),
        recorded_iterations: run.record_operations,
        sample_every: run.sample_every_ps.map(Duration::from_ps),
        progress_every: NonZeroU64::new(1 << 16).expect("65,536 is not zero"),
        ..FlowOptions::default()
    };
    let Observed { outcome, was_interrupted, run_s } = observed(py, sink, progress, |observer| {
        run_observed(&scenario, &options, observer).map_err(value_error)
    })?;
    let counters = PyDict::new(py);
    counters.set_item("events", outcome.counters.events)?;
    counters.set_item("reallocations", outcome.counters.reallocations)?;
    counters.set_item("rates", outcome.counters.rates)?;
    Ok(FlowRunResult {
        counters,
        jobs_per_queue: scenario.jobs_per_queue(),
        interrupted: was_interrupted,
        ended_ps: outcome.ended.as_ps(),
        run_s,
    })
}
