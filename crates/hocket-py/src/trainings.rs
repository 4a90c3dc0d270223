//! Training jobs, from Python's plain values.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Rate};
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, CollectiveKind, Framing, NodeId, PathChoice, System, Training, TrainingError,
    TrainingSpec, Transport,
};
use pyo3::prelude::*;

use crate::convert::value_error;

/// (name, kind, after, `duration_ps`, bytes, communicator, peer, tag)
type OperationTuple = (String, String, Vec<u32>, u64, u64, u32, u32, u64);

/// What the ranks of a job do, where they are and how their collectives are done.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TrainingDict {
    programs: Vec<Vec<OperationTuple>>,
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
    /// Bytes of payload, header and acknowledgement, and how many packets one of these is for.
    framing: (u32, u32, u32, u32),
    scale_up_framing: (u32, u32, u32, u32),
}

impl TrainingDict {
    /// The training of the job of this place in the plan and this name, which errors tell.
    pub(crate) fn training(self, number: usize, job: &str) -> PyResult<Training> {
        let of_job = |key: &str, error: &dyn std::fmt::Display| {
            value_error(format!("jobs[{number}].{key}: job {job:?}: {error}"))
        };
        let programs = self.programs.into_iter();
        let programs = programs.map(|each| each.into_iter().map(operation).collect());
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
            path: if self.path == "spray" { PathChoice::Spray } else { PathChoice::Ecmp },
            scale_up: Transport::default(),
            framing: framing(self.framing),
            scale_up_framing: framing(self.scale_up_framing),
        };
        Training::new(spec).map_err(|error| of_job(key(&error), &error))
    }
}

// The key of a job in a plan that says what is wrong.
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

fn operation(plain: OperationTuple) -> PyResult<Operation> {
    let (name, kind, after, duration_ps, bytes, communicator, peer, tag) = plain;
    let bytes = Bytes::new(bytes);
    let exchange = Exchange { communicator, peer, bytes, tag };
    let kind = match kind.as_str() {
        "compute" => OperationKind::Compute(Duration::from_ps(duration_ps)),
        "send" => OperationKind::Send(exchange),
        "recv" => OperationKind::Recv(exchange),
        other => OperationKind::Collective { communicator, kind: collective(other)?, bytes },
    };
    Ok(Operation { name, kind, after })
}

fn collective(name: &str) -> PyResult<CollectiveKind> {
    let known = CollectiveKind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| value_error(format!("{name:?} is no kind of operation")))
}

fn algorithm(name: &str) -> PyResult<Algorithm> {
    let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    known.ok_or_else(|| value_error(format!("{name:?} is no algorithm of collectives")))
}

fn framing((payload, header, ack, ack_every): (u32, u32, u32, u32)) -> Framing {
    Framing { payload, header, ack, ack_every }
}
