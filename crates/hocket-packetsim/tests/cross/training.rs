//! Training jobs on both engines: collectives of every kind, inside servers and between them.

use hocket_des::{Bytes, Duration, Rate};
use hocket_packetsim::Model;
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, Cable, CollectiveKind, Fabric, Framing, Job, Node, NodeId, NodeKind, PathChoice,
    Scenario, Stop, System, Tables, Training, TrainingSpec, Transport, Work,
};

use crate::common::{Collected, assert_close, packets_with, values};

const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllReduce,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllGather,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
];

/// Servers of `gpus` GPUs each, of HOTI'22 Table I, all on one switch.
pub(crate) fn one_tor(servers: u32, gpus: u32) -> Fabric {
    one_tor_with(servers, gpus, 1_600)
}

/// The same with a scale-up network of so many Gbps.
pub(crate) fn one_tor_with(servers: u32, gpus: u32, scale_up_gbps: u64) -> Fabric {
    let hosts = servers * gpus;
    let node = |kind, name: String| Node { name, kind };
    let gpu_nodes = (0..hosts).map(|gpu| node(NodeKind::Host, format!("gpu{gpu}")));
    let inside = (0..servers).map(|server| node(NodeKind::ScaleUp, format!("nvswitch{server}")));
    let nodes = gpu_nodes.chain(inside).chain([node(NodeKind::Switch, "tor".to_owned())]).collect();
    let cable = |a, b, gbps, delay_ns| Cable {
        a: NodeId::new(a),
        b: NodeId::new(b),
        rate: Rate::from_gbps(gbps),
        delay: Duration::from_ns(delay_ns),
    };
    let outside = (0..hosts).map(|gpu| cable(gpu, hosts + servers, 200, 500));
    let inside = (0..hosts).map(|gpu| cable(gpu, hosts + gpu / gpus, scale_up_gbps, 25));
    let inside = inside.filter(|_| gpus > 1);
    Fabric::new(nodes, &outside.chain(inside).collect::<Vec<_>>()).expect("the fabric is valid")
}

pub(crate) fn framing(payload: u16) -> Framing {
    let frames = Model::default().frames;
    let [header, ack] = [frames.data_header, frames.ack].map(u32::from);
    Framing { payload: payload.into(), header, ack, ack_every: 1 }
}

pub(crate) fn spec(
    workload: Workload,
    gpus: u32,
    algorithms: &[Algorithm],
    chunks: u32,
) -> TrainingSpec {
    let ranks = workload.ranks().len() as u32;
    let model = Model::default();
    TrainingSpec {
        workload,
        hosts: (0..ranks).map(NodeId::new).collect(),
        localities: vec![(0..ranks).map(|rank| rank / gpus).collect()],
        system: System {
            algorithms: KINDS.map(|kind| (kind, algorithms.to_vec())).into_iter().collect(),
            chunks,
            in_flight: chunks,
            endpoint_delay: Duration::ZERO,
            reduction: None,
        },
        stragglers: Vec::new(),
        path: PathChoice::Ecmp,
        scale_up: Transport::default(),
        framing: framing(model.frames.mtu),
        scale_up_framing: framing(model.scale_up_mtu),
    }
}

pub(crate) fn operation(name: &str, kind: OperationKind, after: &[u32]) -> Operation {
    Operation { name: name.to_owned(), kind, after: after.to_vec() }
}

pub(crate) fn spmd(ranks: u32, program: Vec<Operation>) -> Workload {
    let rank = Rank { program: 0, communicators: vec![0] };
    let group = (0..ranks).collect();
    Workload::new(vec![program], vec![group], vec![rank; ranks as usize]).expect("all do the same")
}

pub(crate) fn one_collective(ranks: u32, kind: CollectiveKind, bytes: u64) -> Workload {
    let bytes = Bytes::new(bytes);
    let kind = OperationKind::Collective { communicator: 0, kind, bytes };
    spmd(ranks, vec![operation("move", kind, &[])])
}

pub(crate) fn job(name: &str, spec: TrainingSpec) -> Job {
    let training = Training::new(spec).expect("the ranks have places");
    Job::with_work(name, Work::Training(Box::new(training)))
}

pub(crate) fn both(fabric: Fabric, jobs: Vec<Job>, iterations: u64) -> (Collected, Tables) {
    let stop = Stop { iterations: Some(iterations), until: None };
    let scenario = Scenario::new(fabric, jobs, 1, 1, stop).expect("the jobs are valid");
    let (packets, _) = packets_with(&scenario, &Model::default(), &[]);
    let options = hocket_flowsim::FlowOptions::default();
    let outcome = hocket_flowsim::run(&scenario, &options);
    (packets, outcome.expect("the run passes its checks").tables)
}

#[test]
fn collectives_take_as_long_on_packets_as_on_flows() {
    use Algorithm::{Direct, HalvingDoubling, Ring, Tree};
    let cases: [(u32, u32, CollectiveKind, &[Algorithm], u32); 14] = [
        (8, 1, CollectiveKind::AllReduce, &[Ring], 1),
        (8, 1, CollectiveKind::AllReduce, &[Ring], 4),
        (7, 1, CollectiveKind::AllGather, &[Ring], 2),
        (8, 1, CollectiveKind::AllReduce, &[HalvingDoubling], 1),
        (8, 1, CollectiveKind::ReduceScatter, &[Direct], 1),
        (8, 1, CollectiveKind::AllReduce, &[Direct], 4),
        (8, 1, CollectiveKind::AllToAll, &[Direct], 1),
        (8, 1, CollectiveKind::AllToAll, &[Ring], 1),
        (8, 1, CollectiveKind::Broadcast, &[Ring], 4),
        (8, 1, CollectiveKind::Broadcast, &[Tree], 8),
        (4, 4, CollectiveKind::AllReduce, &[Direct, Direct], 4),
        (4, 4, CollectiveKind::AllReduce, &[Ring, Ring], 4),
        (4, 4, CollectiveKind::AllReduce, &[Ring], 4),
        (4, 4, CollectiveKind::AllToAll, &[Direct, Direct], 1),
    ];
    for (servers, gpus, kind, algorithms, chunks) in cases {
        let ranks = servers * gpus;
        let workload = one_collective(ranks, kind, 4_000_000);
        let its = job("job", spec(workload, gpus, algorithms, chunks));
        let (packets, flows) = both(one_tor(servers, gpus), vec![its], 1);
        let found = packets.values("iterations", "iteration_s");
        let expected = values(&flows.iterations, "iteration_s");
        assert_close(&found, &expected, 0.05);
    }
}

#[test]
fn over_two_levels_steps_short_and_long_take_as_long_on_packets_as_on_flows() {
    use Algorithm::{Direct, Ring};
    // Around a ring with two slow hops; an answer from across that comes after the last step inside; and chunks of which some
    // are scattered across on the same queue pairs on which others are gathered.
    let cases: [(&[Algorithm], u64, u32); 5] = [
        (&[Ring], 64_000, 1),
        (&[Ring, Ring], 64_000, 4),
        (&[Direct, Direct], 64_000, 1),
        (&[Direct, Direct], 64_000, 4),
        (&[Ring, Ring], 16_000_000, 4),
    ];
    for (algorithms, bytes, chunks) in cases {
        let workload = one_collective(16, CollectiveKind::AllReduce, bytes);
        let (packets, flows) =
            both(one_tor(2, 8), vec![job("job", spec(workload, 8, algorithms, chunks))], 1);
        let found = packets.values("iterations", "iteration_s");
        assert_close(&found, &values(&flows.iterations, "iteration_s"), 0.05);
    }
}

#[test]
fn a_pipeline_with_computes_takes_as_long_on_packets_as_on_flows() {
    let exchange =
        |peer, tag| Exchange { communicator: 0, peer, bytes: Bytes::new(1_000_000), tag };
    let compute = OperationKind::Compute(Duration::from_us(100));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for batch in 0..3_u32 {
        let (give, get) = (exchange(1, batch.into()), exchange(0, batch.into()));
        first.push(operation("forward", compute, &[]));
        first.push(operation("give", OperationKind::Send(give), &[2 * batch]));
        second.push(operation("get", OperationKind::Recv(get), &[]));
        second.push(operation("forward", compute, &[2 * batch]));
    }
    let rank = |program| Rank { program, communicators: vec![0] };
    let workload =
        Workload::new(vec![first, second], vec![vec![0, 1]], vec![rank(0), rank(1)]).unwrap();
    let jobs = vec![job("job", spec(workload, 1, &[Algorithm::Ring], 1))];
    let (packets, flows) = both(one_tor(2, 1), jobs, 3);
    let found = packets.values("iterations", "iteration_s");
    assert_close(&found, &values(&flows.iterations, "iteration_s"), 0.01);
    assert_eq!(packets.values("ranks", "compute_s"), [300e-6; 6]);
    assert_eq!(packets.values("operations", "start_s").len(), 12);
}

#[test]
fn endpoints_that_take_their_time_delay_every_step() {
    // Seven steps of a ring, each noticed 10 us later; and 500 kB that are added at 40 Gbps take 100 us more in each.
    let alone =
        spec(one_collective(8, CollectiveKind::ReduceScatter, 4_000_000), 1, &[Algorithm::Ring], 1);
    let mut slow = alone.clone();
    slow.system.endpoint_delay = Duration::from_us(10);
    slow.system.reduction = Some(Rate::from_gbps(40));
    let time = |spec: &TrainingSpec| {
        let (packets, flows) = both(one_tor(8, 1), vec![job("job", spec.clone())], 1);
        [packets.values("collectives", "time_s")[0], values(&flows.collectives, "time_s")[0]]
    };
    let (fast_s, slow_s) = (time(&alone), time(&slow));
    for (fast_s, slow_s) in fast_s.into_iter().zip(slow_s) {
        // The last acknowledgement comes back while the receiver is still at work.
        assert!((slow_s - fast_s - 7.0 * 110e-6).abs() < 2e-6, "{fast_s} {slow_s}");
    }
}

#[test]
fn a_pattern_is_what_collectives_of_one_kind_on_one_communicator_use() {
    let ranks = 4;
    let collective = |communicator, kind, bytes| {
        let bytes = Bytes::new(bytes);
        operation("move", OperationKind::Collective { communicator, kind, bytes }, &[])
    };
    let program = vec![
        collective(0, CollectiveKind::AllReduce, 1_000),
        collective(0, CollectiveKind::AllReduce, 2_000),
        collective(1, CollectiveKind::AllToAll, 1_000),
    ];
    let everyone: Vec<u32> = (0..ranks).collect();
    let rank = Rank { program: 0, communicators: vec![0, 1] };
    let groups = vec![everyone.clone(), everyone];
    let workload = Workload::new(vec![program], groups, vec![rank; ranks as usize]).unwrap();
    let mut its = spec(workload, 1, &[Algorithm::Ring], 1);
    its.system.algorithms.insert(CollectiveKind::AllToAll, vec![Algorithm::Direct]);
    let training = Training::new(its).expect("the ranks have places");
    let patterns = training.patterns();
    // Around the ring, and from each to each other.
    assert_eq!(patterns.iter().map(|pairs| pairs.len()).collect::<Vec<_>>(), [4, 12]);
    assert_eq!(training.pairs().len(), 12);
}
