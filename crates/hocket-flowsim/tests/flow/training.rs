//! Training jobs: times of collectives on an idle network, overlap with compute, and contention.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::{Bytes, Duration, Rate};
use hocket_flowsim::{FlowOptions, FlowOutcome};
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, Cable, CollectiveKind, Fabric, Framing, Job, Node, NodeId, NodeKind, PathChoice,
    Scenario, Share, Stop, System, Training, TrainingSpec, Transport, Weight, Work,
};

use crate::common::{column_f64, column_ps, column_u64, run_all};

const RATE: Rate = Rate::from_gbps(200);
const DELAY: Duration = Duration::from_ns(500);
/// Packets of 1,000 bytes of data, without headers or acknowledgements.
const BARE: Framing = Framing { payload: 1_000, header: 0, ack: 0, ack_every: 1 };

fn one_switch(hosts: u32) -> Fabric {
    let kind = |i| if i == hosts { NodeKind::Switch } else { NodeKind::Host };
    let nodes = (0..=hosts).map(|i| Node { name: format!("n{i}"), kind: kind(i) });
    let cable =
        |host| Cable { a: NodeId::new(host), b: NodeId::new(hosts), rate: RATE, delay: DELAY };
    let cables: Vec<_> = (0..hosts).map(cable).collect();
    Fabric::new(nodes.collect(), &cables).expect("a star is a fabric")
}

fn operation(name: &str, kind: OperationKind, after: &[u32]) -> Operation {
    Operation { name: name.to_owned(), kind, after: after.to_vec() }
}

fn compute(ms: u64) -> OperationKind {
    OperationKind::Compute(Duration::from_ms(ms))
}

fn collective(kind: CollectiveKind, bytes: u64) -> OperationKind {
    OperationKind::Collective { communicator: 0, kind, bytes: Bytes::new(bytes) }
}

/// All ranks run one program in one group.
fn spmd(ranks: u32, program: Vec<Operation>) -> Workload {
    let rank = Rank { program: 0, communicators: vec![0] };
    let group = (0..ranks).collect();
    Workload::new(vec![program], vec![group], vec![rank; ranks as usize]).expect("all do the same")
}

fn spec(workload: Workload, algorithm: Algorithm) -> TrainingSpec {
    let kinds = [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllGather,
        CollectiveKind::AllToAll,
        CollectiveKind::Broadcast,
    ];
    let ranks = workload.ranks().len() as u32;
    TrainingSpec {
        hosts: (0..ranks).map(NodeId::new).collect(),
        workload,
        localities: Vec::new(),
        system: System {
            algorithms: kinds.map(|kind| (kind, vec![algorithm])).into_iter().collect(),
            chunks: 1,
            in_flight: 1,
            endpoint_delay: Duration::ZERO,
            reduction: None,
        },
        stragglers: Vec::new(),
        path: PathChoice::Ecmp,
        scale_up: Transport::default(),
        framing: BARE,
        scale_up_framing: BARE,
    }
}

fn job(name: &str, spec: TrainingSpec) -> Job {
    let training = Training::new(spec).expect("the ranks have places");
    Job::with_work(name, Work::Training(Box::new(training)))
}

fn run_jobs(hosts: u32, jobs: Vec<Job>, iterations: u64) -> FlowOutcome {
    let stop = Stop { iterations: Some(iterations), until: None };
    let scenario = Scenario::new(one_switch(hosts), jobs, 1, 1, stop).expect("the jobs are valid");
    run_all(&scenario, &FlowOptions::default())
}

fn collective_s(spec: TrainingSpec) -> f64 {
    let hosts = spec.hosts.len() as u32;
    let outcome = run_jobs(hosts, vec![job("job", spec)], 1);
    column_f64(&outcome.tables.collectives, "time_s")[0]
}

/// The seconds that bytes take on a link.
fn on_the_wire_s(bytes: f64) -> f64 {
    bytes * 8.0 / 200e9
}

/// The additional seconds of a packet over a switch: two delays, and stored and forwarded once.
const HOP_S: f64 = 2.0 * 500e-9 + 1_000.0 * 8.0 / 200e9;
/// An acknowledgement without bytes.
const BACK_S: f64 = 2.0 * 500e-9;

#[test]
fn the_lightest_job_with_many_chunks_in_flight_keeps_the_links_full() {
    let bytes = 40_960_000;
    let program = vec![operation("sum", collective(CollectiveKind::AllReduce, bytes), &[])];
    let mut spec = spec(spmd(4, program), Algorithm::Ring);
    (spec.system.chunks, spec.system.in_flight) = (256, 256);
    let share = Share::Weighted(Weight::new(1.0 / 64.0).unwrap());
    let outcome = run_jobs(4, vec![Job { share, ..job("job", spec) }], 1);
    let time_s = column_f64(&outcome.tables.collectives, "time_s")[0];
    let least_s = on_the_wire_s(1.5 * bytes as f64);
    assert!(time_s >= least_s && time_s < 1.02 * least_s, "{time_s} s, at least {least_s} s");
}

#[test]
fn a_ring_takes_the_time_and_latency_of_its_steps() {
    for ranks in [2, 3, 8, 100, 1_024] {
        let bytes = 1_000_000 * u64::from(ranks);
        let program = vec![operation("sum", collective(CollectiveKind::AllReduce, bytes), &[])];
        let steps = f64::from(2 * (ranks - 1));
        let expected_s = steps * (on_the_wire_s(1e6) + HOP_S) + BACK_S;
        let found_s = collective_s(spec(spmd(ranks, program), Algorithm::Ring));
        assert!((found_s / expected_s - 1.0).abs() < 1e-4, "{ranks}: {found_s} {expected_s}");
    }
}

#[test]
fn chunks_hide_the_latency_of_each_other() {
    // Steps of 250 kB take 10 µs for each of four chunks, in turns: the latency of 1 µs is hidden.
    let program = vec![operation("sum", collective(CollectiveKind::AllReduce, 8_000_000), &[])];
    let mut chunked = spec(spmd(8, program), Algorithm::Ring);
    (chunked.system.chunks, chunked.system.in_flight) = (4, 4);
    let expected_s = 14.0 * on_the_wire_s(1e6) + HOP_S + BACK_S;
    let found_s = collective_s(chunked);
    assert!((found_s / expected_s - 1.0).abs() < 1e-3, "{found_s} {expected_s}");
}

#[test]
fn other_algorithms_take_the_time_of_their_formulas() {
    let bytes = 8_000_000_u64;
    let s = on_the_wire_s(bytes as f64);
    let cases = [
        (CollectiveKind::AllToAll, Algorithm::Direct, 7.0 / 8.0 * s + HOP_S),
        (CollectiveKind::AllReduce, Algorithm::Direct, 2.0 * (7.0 / 8.0 * s + HOP_S)),
        (CollectiveKind::ReduceScatter, Algorithm::HalvingDoubling, 7.0 / 8.0 * s + 3.0 * HOP_S),
        (CollectiveKind::AllReduce, Algorithm::HalvingDoubling, 14.0 / 8.0 * s + 6.0 * HOP_S),
        (CollectiveKind::AllGather, Algorithm::Ring, 7.0 * (s / 8.0 + HOP_S)),
        (CollectiveKind::Broadcast, Algorithm::Ring, 7.0 * (s + HOP_S)),
        (CollectiveKind::Broadcast, Algorithm::Direct, 7.0 * s + HOP_S),
    ];
    for (kind, algorithm, expected_s) in cases {
        let program = vec![operation("move", collective(kind, bytes), &[])];
        let found_s = collective_s(spec(spmd(8, program), algorithm)) - BACK_S;
        assert!(
            (found_s / expected_s - 1.0).abs() < 1e-3,
            "{kind} {algorithm}: {found_s} {expected_s}"
        );
    }
}

#[test]
fn communication_behind_compute_is_not_exposed() {
    // 10 ms of compute, then 8 ms of compute during an all-reduce of about 14 ms.
    let program = vec![
        operation("forward", compute(10), &[]),
        operation("sum", collective(CollectiveKind::AllReduce, 200_000_000), &[0]),
        operation("backward", compute(8), &[0]),
    ];
    let outcome = run_jobs(8, vec![job("job", spec(spmd(8, program), Algorithm::Ring))], 3);
    let sum_s = column_f64(&outcome.tables.collectives, "time_s")[0];
    assert!((sum_s - 0.014).abs() < 1e-4, "{sum_s}");
    let iteration_s = column_f64(&outcome.tables.iterations, "iteration_s");
    assert_eq!(iteration_s.len(), 3);
    assert!((iteration_s[2] - (0.010 + sum_s)).abs() < 1e-9);
    for exposed_s in column_f64(&outcome.tables.ranks, "exposed_s") {
        assert!((exposed_s - (sum_s - 0.008)).abs() < 1e-9, "{exposed_s}");
    }
    assert_eq!(outcome.tables.operations.rows(), 8 * 3);
}

#[test]
fn a_straggler_makes_all_wait() {
    let program = vec![
        operation("step", compute(10), &[]),
        operation("sum", collective(CollectiveKind::AllReduce, 1_000_000), &[0]),
    ];
    let mut slowed = spec(spmd(4, program), Algorithm::Ring);
    slowed.stragglers = vec![(2, 1.5)];
    let outcome = run_jobs(4, vec![job("job", slowed)], 2);
    let compute_s = column_f64(&outcome.tables.ranks, "compute_s");
    assert_eq!(compute_s.iter().filter(|&&each| (each - 0.015).abs() < 1e-12).count(), 2);
    let iteration_s = column_f64(&outcome.tables.iterations, "iteration_s")[1];
    assert!((0.015..0.0152).contains(&iteration_s), "{iteration_s}");
}

#[test]
fn a_pipeline_fills_and_drains() {
    // Three microbatches over two stages of 1 ms each, and messages of 25 MB that take 1 ms: the second stage starts 2 ms later.
    let exchange =
        |peer, tag| Exchange { communicator: 0, peer, bytes: Bytes::new(25_000_000), tag };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for batch in 0..3_u32 {
        first.push(operation("forward", compute(1), &[]));
        let send = OperationKind::Send(exchange(1, batch.into()));
        first.push(operation("give", send, &[2 * batch]));
        second.push(operation("get", OperationKind::Recv(exchange(0, batch.into())), &[]));
        second.push(operation("forward", compute(1), &[2 * batch]));
    }
    let rank = |program| Rank { program, communicators: vec![0] };
    let workload =
        Workload::new(vec![first, second], vec![vec![0, 1]], vec![rank(0), rank(1)]).unwrap();
    let outcome = run_jobs(2, vec![job("job", spec(workload, Algorithm::Ring))], 1);
    let iteration_s = column_f64(&outcome.tables.iterations, "iteration_s")[0];
    assert!((iteration_s - 0.005).abs() < 1e-5, "{iteration_s}");
    let compute_s = column_f64(&outcome.tables.ranks, "compute_s");
    assert_eq!(compute_s, &[0.003, 0.003]);
}

#[test]
fn two_jobs_on_one_port_share_it() {
    // Both send through the ports of the same hosts: each all-to-all takes twice as long.
    let program = vec![operation("swap", collective(CollectiveKind::AllToAll, 80_000_000), &[])];
    let swapping = |name| job(name, spec(spmd(8, program.clone()), Algorithm::Direct));
    let mean_s = |jobs| column_f64(&run_jobs(8, jobs, 4).tables.jobs, "mean_iteration_s")[0];
    let (alone_s, shared_s) =
        (mean_s(vec![swapping("a")]), mean_s(vec![swapping("a"), swapping("b")]));
    assert!((shared_s / alone_s - 2.0).abs() < 0.01, "{alone_s} {shared_s}");
}

#[test]
fn a_collective_inside_servers_first_sends_less_between_them() {
    // Two servers of four GPUs: less leaves the servers, but here one switch joins all GPUs, so a host's link carries everything.
    let program = vec![operation("sum", collective(CollectiveKind::AllReduce, 80_000_000), &[])];
    let mut two_levels = spec(spmd(8, program), Algorithm::Direct);
    two_levels.localities = vec![vec![0, 0, 0, 0, 1, 1, 1, 1]];
    two_levels.system.algorithms =
        BTreeMap::from([(CollectiveKind::AllReduce, vec![Algorithm::Direct, Algorithm::Direct])]);
    let outcome = run_jobs(8, vec![job("job", two_levels)], 1);
    // 3/4 + 1/8 of the buffer in each of reduce-scatter and all-gather: 1.75 of it leaves each host, as with one level.
    let bytes = match outcome.tables.links.column("bytes") {
        Some(hocket_scenario::Column::U64(bytes)) => bytes.clone(),
        other => panic!("bytes are {other:?}"),
    };
    assert!(bytes.iter().all(|&each| each == 140_000_000), "{bytes:?}");
}

#[test]
fn samples_continue_when_only_ranks_act_at_the_time_of_one() {
    // 25 MB in each direction of each of two NICs at 200 Gbps take 1 ms, after 10 ms of compute: when the first sample is
    // taken, no timer is left, and the collective has not begun yet.
    let program = vec![
        operation("compute", compute(10), &[]),
        operation("reduce", collective(CollectiveKind::AllReduce, 25_000_000), &[0]),
    ];
    let job = job("job", spec(spmd(2, program), Algorithm::Ring));
    let stop = Stop { iterations: Some(2), until: None };
    let scenario = Scenario::new(one_switch(2), vec![job], 1, 1, stop).expect("the job is valid");
    let options =
        FlowOptions { sample_every: Some(Duration::from_ms(1)), ..FlowOptions::default() };
    let outcome = run_all(&scenario, &options);
    let samples = outcome.utilisation.expect("traffic was sampled");
    let sum = |table| column_u64(table, "bytes").iter().sum::<u64>();
    // A fraction of a byte may be left on each of four links.
    assert!(sum(&samples).abs_diff(sum(&outcome.tables.links)) <= 4);
    let times: BTreeSet<u64> = column_ps(&samples, "at_s").into_iter().collect();
    assert!(times.len() >= 4, "{times:?}");
}
