//! Specifications of training jobs for several test files.

use std::collections::BTreeMap;

use hocket_des::Duration;
use hocket_scenario::workload::Workload;
use hocket_scenario::{
    Algorithm, CollectiveKind, Framing, NodeId, PathChoice, System, TrainingSpec, Transport,
};

/// Each rank on the host of its number, all-reduces by these algorithms in one chunk, and packets without headers or
/// acknowledgements.
pub(crate) fn training_spec(workload: Workload, algorithms: &[Algorithm]) -> TrainingSpec {
    let framing = Framing { payload: 1_000, header: 0, ack: 0, ack_every: 1 };
    TrainingSpec {
        hosts: (0..workload.ranks().len() as u32).map(NodeId::new).collect(),
        workload,
        localities: Vec::new(),
        system: System {
            algorithms: BTreeMap::from([(CollectiveKind::AllReduce, algorithms.to_vec())]),
            chunks: 1,
            in_flight: 1,
            endpoint_delay: Duration::ZERO,
            reduction: None,
        },
        stragglers: Vec::new(),
        path: PathChoice::Ecmp,
        scale_up: Transport::default(),
        framing,
        scale_up_framing: framing,
    }
}
