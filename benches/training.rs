//! The cost of training jobs: an iteration of a DLRM on the 128 GPUs of HOTI'22 on either engine, with one-level and
//! two-level all-reduces, and a ring over 8,192 GPUs on the flow engine, including its routes.

use std::collections::BTreeMap;

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use hocket_des::{Bytes, Duration, Rate};
use hocket_packetsim::Model;
use hocket_packetsim::model::Frames;
use hocket_scenario::workload::{Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, Cable, CollectiveKind, Fabric, Framing, Job, Node, NodeId, NodeKind, Observer,
    PathChoice, Scenario, Stop, System, Table, Training, TrainingSpec, Transport, Work,
};
use hocket_transport::Policy;

const GPUS_PER_SERVER: u32 = 8;
const MTU: u16 = 4_096;

struct Quiet;

impl Observer for Quiet {
    fn on_table(&mut self, _: Table) {}
}

/// Racks of servers of eight GPUs (HOTI'22 Table I), and eight spines with enough cables to each ToR for no
/// over-subscription.
fn clos(racks: u32, servers_per_rack: u32) -> Fabric {
    const SPINES: u32 = 8;
    let gpus_per_rack = servers_per_rack * GPUS_PER_SERVER;
    let gpus = racks * gpus_per_rack;
    let servers = racks * servers_per_rack;
    let (first_server, first_tor) = (gpus, gpus + servers);
    let first_spine = first_tor + racks;
    let kind = |node| match node {
        node if node < first_server => NodeKind::Host,
        node if node < first_tor => NodeKind::ScaleUp,
        _ => NodeKind::Switch,
    };
    let nodes =
        (0..first_spine + SPINES).map(|node| Node { name: format!("n{node}"), kind: kind(node) });
    let cable = |a, b, gbps, ns| Cable {
        a: NodeId::new(a),
        b: NodeId::new(b),
        rate: Rate::from_gbps(gbps),
        delay: Duration::from_ns(ns),
    };
    let outside = (0..gpus).map(|gpu| cable(gpu, first_tor + gpu / gpus_per_rack, 200, 500));
    let inside = (0..gpus).map(|gpu| cable(gpu, first_server + gpu / GPUS_PER_SERVER, 1_600, 25));
    let up = (0..racks).flat_map(|rack| {
        (0..gpus_per_rack)
            .map(move |number| cable(first_tor + rack, first_spine + number % SPINES, 200, 500))
    });
    Fabric::new(nodes.collect(), &outside.chain(inside).chain(up).collect::<Vec<_>>())
        .expect("a Clos network")
}

fn model() -> Model {
    let default = Model::default();
    Model { frames: Frames { mtu: MTU, ..default.frames }, ..default }
}

fn operation(name: String, kind: OperationKind, after: &[u32]) -> Operation {
    Operation { name, kind, after: after.to_vec() }
}

fn collective(kind: CollectiveKind, bytes: u64) -> OperationKind {
    OperationKind::Collective { communicator: 0, kind, bytes: Bytes::new(bytes) }
}

/// A program with the traffic of the DLRM of HOTI'22 Table II: 4 MiB of embeddings in each direction, 109.5 MiB of gradients,
/// and computes of 4.8 ms.
fn dlrm() -> Vec<Operation> {
    let compute = |us| OperationKind::Compute(Duration::from_us(us));
    let all_to_all = || collective(CollectiveKind::AllToAll, 4 << 20);
    let mut program = vec![
        operation("look up".to_owned(), compute(500), &[]),
        operation("embeddings".to_owned(), all_to_all(), &[0]),
        operation("bottom forward".to_owned(), compute(300), &[0]),
        operation("top forward".to_owned(), compute(900), &[1, 2]),
    ];
    for layer in 0..12 {
        let last_compute = if layer == 0 { 3 } else { program.len() as u32 - 2 };
        program.push(operation(format!("top backward {layer}"), compute(200), &[last_compute]));
        let this = program.len() as u32 - 1;
        let sum = collective(CollectiveKind::AllReduce, 8_392_704);
        program.push(operation(format!("top gradients {layer}"), sum, &[this]));
    }
    let top_done = program.len() as u32 - 2;
    program.push(operation("gradients of embeddings".to_owned(), all_to_all(), &[top_done]));
    for layer in 0..7 {
        let before = if layer == 0 { top_done } else { program.len() as u32 - 2 };
        program.push(operation(format!("bottom backward {layer}"), compute(100), &[before]));
        let this = program.len() as u32 - 1;
        let sum = collective(CollectiveKind::AllReduce, 2_011_428);
        program.push(operation(format!("bottom gradients {layer}"), sum, &[this]));
    }
    program
}

/// One iteration of `program` on all GPUs, in four chunks (HOTI'22 section III-D).
fn scenario(
    fabric: Fabric,
    gpus: u32,
    program: Vec<Operation>,
    algorithms: &[Algorithm],
) -> Scenario {
    let rank = Rank { program: 0, communicators: vec![0] };
    let workload =
        Workload::new(vec![program], vec![(0..gpus).collect()], vec![rank; gpus as usize])
            .expect("all do the same");
    let model = model();
    let framing = |payload: u16| {
        let [header, ack] = [model.frames.data_header, model.frames.ack].map(u32::from);
        Framing { payload: payload.into(), header, ack, ack_every: 1 }
    };
    let algorithms = BTreeMap::from([
        (CollectiveKind::AllReduce, algorithms.to_vec()),
        (CollectiveKind::AllToAll, vec![Algorithm::Direct]),
    ]);
    let spec = TrainingSpec {
        workload,
        hosts: (0..gpus).map(NodeId::new).collect(),
        localities: vec![(0..gpus).map(|gpu| gpu / GPUS_PER_SERVER).collect()],
        system: System {
            algorithms,
            chunks: 4,
            in_flight: 4,
            endpoint_delay: Duration::ZERO,
            reduction: None,
        },
        stragglers: Vec::new(),
        path: PathChoice::Ecmp,
        scale_up: Transport::default(),
        framing: framing(MTU),
        scale_up_framing: framing(model.scale_up_mtu),
    };
    let training = Training::new(spec).expect("all GPUs are there");
    let mut job = Job::with_work("training", Work::Training(Box::new(training)));
    job.transport.policy = Policy::PfcOnly;
    let stop = Stop { iterations: Some(1), until: None };
    Scenario::new(fabric, vec![job], 1, 1, stop).expect("the job is valid")
}

fn on_flows(scenario: &Scenario) {
    let options = hocket_flowsim::FlowOptions::default();
    let outcome = hocket_flowsim::run(scenario, &options);
    assert_eq!(outcome.expect("the run passes its checks").tables.iterations.rows(), 1);
}

fn on_packets(scenario: &Scenario) {
    let options = hocket_packetsim::PacketOptions::default();
    let outcome = hocket_packetsim::run_scenario(scenario, &model(), &[], &options, &mut Quiet);
    outcome.expect("the run passes its checks");
}

fn training(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("training");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    let direct = Algorithm::Direct;
    for (levels, algorithms) in [("1D", &[direct][..]), ("2D", &[direct, direct][..])] {
        let scenario = scenario(clos(8, 2), 128, dlrm(), algorithms);
        group.bench_function(format!("dlrm128/{levels}/flow"), |bencher| {
            bencher.iter(|| on_flows(&scenario));
        });
        group.bench_function(format!("dlrm128/{levels}/packet"), |bencher| {
            bencher.iter(|| on_packets(&scenario));
        });
    }
    let sum = collective(CollectiveKind::AllReduce, 1 << 30);
    let program = vec![operation("sum".to_owned(), sum, &[])];
    let scenario = scenario(clos(32, 32), 8_192, program, &[Algorithm::Ring]);
    group.bench_function("ring8192/flow", |bencher| bencher.iter(|| on_flows(&scenario)));
    group.finish();
}

criterion_group!(benches, training);
criterion_main!(benches);
