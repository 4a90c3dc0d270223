//! Training jobs, from Python's plain values.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Rate};
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, CollectiveKind, Framing, NodeId, System, Training, TrainingError, TrainingSpec,
    Transport,
};
use pyo3::prelude::*;

use crate::choices::{one_of, path};
use crate::error::value_error;

/// Numbers that its kind does not use are 0.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct OperationSpec {
    name: String,
    /// "compute", "send", "recv", or the name of a collective.
    kind: String,
    /// The operations that it waits for, by their places in the program.
    after: Vec<u32>,
    duration_ps: u64,
    bytes: u64,
    communicator: u32,
    peer: u32,
    tag: u64,
}

/// Bytes of a packet's payload and header and of an acknowledgement, and the number of packets for each
/// acknowledgement.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct FramingSpec {
    payload: u32,
    header: u32,
    ack: u32,
    ack_every: u32,
}

/// The operations of a job's ranks, their placement, and the algorithms of their collectives.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TrainingDict {
    programs: Vec<Vec<OperationSpec>>,
    groups: Vec<Vec<u32>>,
    /// By rank: its program and its groups.
    ranks: Vec<(u32, Vec<u32>)>,
    /// By rank: its node.
    hosts: Vec<u32>,
    /// By level from inside the server outwards, then rank.
    localities: Vec<Vec<u32>>,
    /// By kind: one algorithm for each level.
    algorithms: Vec<(String, Vec<String>)>,
    chunks: u32,
    in_flight: u32,
    endpoint_delay_ps: u64,
    reduction_bps: Option<u64>,
    /// (rank, factor)
    stragglers: Vec<(u32, f64)>,
    /// "ecmp" or "spray".
    path: String,
    framing: FramingSpec,
    scale_up_framing: FramingSpec,
}

impl TrainingDict {
    /// The training of job `job`; this name and `number`, its place in the plan, are for errors.
    pub(crate) fn training(self, number: usize, job: &str) -> PyResult<Training> {
        let of_job = |key: &str, error: &dyn std::fmt::Display| {
            value_error(format!("jobs[{number}].{key}: job {job:?}: {error}"))
        };
        let programs = self.programs.into_iter();
        let programs =
            programs.map(|each| each.into_iter().map(OperationSpec::operation).collect());
        let programs = programs.collect::<PyResult<Vec<Vec<_>>>>()?;
        let ranks = self.ranks.into_iter();
        let ranks = ranks.map(|(program, communicators)| Rank { program, communicators });
        let workload = Workload::new(programs, self.groups, ranks.collect())
            .map_err(|error| of_job("training", &error))?;
        let algorithms = self.algorithms.iter().map(|(kind, names)| {
            let names = names.iter().map(|name| algorithm(name)).collect::<PyResult<_>>()?;
            Ok((collective(kind)?, names))
        });
        let system = System {
            algorithms: algorithms.collect::<PyResult<BTreeMap<_, _>>>()?,
            chunks: self.chunks,
            in_flight: self.in_flight,
            endpoint_delay: Duration::from_ps(self.endpoint_delay_ps),
            reduction: self.reduction_bps.map(Rate::from_bps),
        };
        let spec = TrainingSpec {
            workload,
            hosts: self.hosts.into_iter().map(NodeId::new).collect(),
            localities: self.localities,
            system,
            stragglers: self.stragglers,
            path: path(&self.path)?,
            // Inside a server, no congestion control governs flows.
            scale_up: Transport::default(),
            framing: self.framing.into(),
            scale_up_framing: self.scale_up_framing.into(),
        };
        Training::new(spec).map_err(|error| of_job(key(&error), &error))
    }
}

// The key of a job's table in the plan where the cause of an error is.
fn key(error: &TrainingError) -> &'static str {
    match error {
        TrainingError::NoneInFlight
        | TrainingError::NoReduction
        | TrainingError::NoAlgorithm { .. }
        | TrainingError::TooManyLevels { .. }
        | TrainingError::Uneven { .. }
        | TrainingError::Collective { .. } => "collectives",
        TrainingError::UnknownStraggler { .. } | TrainingError::Slowdown { .. } => "stragglers",
        TrainingError::Hosts { .. }
        | TrainingError::SharedHost { .. }
        | TrainingError::Localities { .. }
        | TrainingError::Framing { .. } => "training",
    }
}

impl OperationSpec {
    fn operation(self) -> PyResult<Operation> {
        let Self { name, kind, after, duration_ps, bytes, communicator, peer, tag } = self;
        let bytes = Bytes::new(bytes);
        let exchange = Exchange { communicator, peer, bytes, tag };
        let others = [
            ("compute", OperationKind::Compute(Duration::from_ps(duration_ps))),
            ("send", OperationKind::Send(exchange)),
            ("recv", OperationKind::Recv(exchange)),
        ];
        let collectives = CollectiveKind::ALL
            .map(|kind| (kind.name(), OperationKind::Collective { communicator, kind, bytes }));
        let kind = one_of("kind of operation", &kind, others.into_iter().chain(collectives))?;
        Ok(Operation { name, kind, after })
    }
}

impl From<FramingSpec> for Framing {
    fn from(spec: FramingSpec) -> Self {
        let FramingSpec { payload, header, ack, ack_every } = spec;
        Self { payload, header, ack, ack_every }
    }
}

fn collective(name: &str) -> PyResult<CollectiveKind> {
    one_of("collective", name, CollectiveKind::ALL.map(|kind| (kind.name(), kind)))
}

fn algorithm(name: &str) -> PyResult<Algorithm> {
    one_of("algorithm", name, Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm)))
}
