//! Ranks that behave alike are computed once: tables are those of a run that computes all of them.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_flowsim::{FlowOptions, FlowOutcome};
use hocket_scenario::workload::{Exchange, Operation, OperationKind, Rank, Workload};
use hocket_scenario::{
    Algorithm, Cable, CollectiveKind, Fabric, Framing, Job, Node, NodeId, NodeKind, PathChoice,
    Scenario, Share, Stop, System, Training, TrainingSpec, Transport, Weight, Work,
};
use proptest::prelude::*;

use crate::common::run_all;

/// GPUs of a server, which are the ranks of a tensor-parallel group.
const TENSOR: u32 = 4;
const SERVERS_PER_RACK: u32 = 2;
const SPINES: u32 = 4;

/// A model in `stages` stages and `replicas` replicas, on as many servers, rack by rack.
#[derive(Clone, Debug)]
struct Case {
    stages: u32,
    replicas: u32,
    microbatches: u32,
    /// Rate of each link from a ToR to a spine; a rack needs `SERVERS_PER_RACK` × `TENSOR` × 100 / `SPINES` Gbps.
    uplink_gbps: u64,
    path: PathChoice,
    stragglers: Vec<(u32, f64)>,
    sums: Vec<Algorithm>,
    chunks: u32,
    in_flight: u32,
    delay_ns: u64,
    /// Compute times of stages differ by this much.
    uneven_us: u64,
}

impl Case {
    /// Under-subscribed and sprayed: all replicas are alike.
    fn symmetric() -> Self {
        Self {
            stages: 3,
            replicas: 4,
            microbatches: 4,
            uplink_gbps: 400,
            path: PathChoice::Spray,
            stragglers: Vec::new(),
            sums: vec![Algorithm::Ring],
            chunks: 2,
            in_flight: 2,
            delay_ns: 500,
            uneven_us: 7,
        }
    }

    fn servers(&self) -> u32 {
        self.stages * self.replicas
    }

    fn ranks(&self) -> u32 {
        self.servers() * TENSOR
    }

    /// Hosts first, then scale-up switches, ToRs and spines.
    fn fabric(&self) -> Fabric {
        let (hosts, servers) = (self.ranks(), self.servers());
        let racks = servers.div_ceil(SERVERS_PER_RACK);
        let kind = |node| match node {
            _ if node < hosts => NodeKind::Host,
            _ if node < hosts + servers => NodeKind::ScaleUp,
            _ => NodeKind::Switch,
        };
        let count = hosts + servers + racks + SPINES;
        let nodes = (0..count).map(|node| Node { name: format!("n{node}"), kind: kind(node) });
        let cable = |a, b, gbps| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_gbps(gbps),
            delay: Duration::from_ns(self.delay_ns),
        };
        let tor = |server| hosts + servers + server / SERVERS_PER_RACK;
        let inside = (0..hosts).map(|host| cable(host, hosts + host / TENSOR, 800));
        let nics = (0..hosts).map(|host| cable(host, tor(host / TENSOR), 100));
        let ups = (0..racks).flat_map(|rack| (0..SPINES).map(move |spine| (rack, spine)));
        let ups = ups.map(|(rack, spine)| {
            let (low, high) = (hosts + servers + rack, hosts + servers + racks + spine);
            cable(low, high, self.uplink_gbps)
        });
        let cables: Vec<_> = inside.chain(nics).chain(ups).collect();
        Fabric::new(nodes.collect(), &cables).expect("the fabric is valid")
    }

    /// The operations of a stage: for each microbatch forwards, then for each backwards; communicators are those of tensor,
    /// data and pipeline parallelism.
    fn program(&self, stage: u32) -> Vec<Operation> {
        let mut all: Vec<Operation> = Vec::new();
        let mut add = |name: &str, kind, after: &[u32]| {
            all.push(Operation { name: name.to_owned(), kind, after: after.to_vec() });
            all.len() as u32 - 1
        };
        let compute = |us: u64| OperationKind::Compute(Duration::from_us(us));
        let sum = |communicator, kib: u64| OperationKind::Collective {
            communicator,
            kind: CollectiveKind::AllReduce,
            bytes: Bytes::new(kib << 10),
        };
        let exchange =
            |peer, tag| Exchange { communicator: 2, peer, bytes: Bytes::new(700_000), tag };
        let own_us = 100 + self.uneven_us * u64::from(stage);
        let mut last = Vec::new();
        for (way, microbatch) in
            (0..2).flat_map(|way| (0..self.microbatches).map(move |each| (way, each)))
        {
            let tag = u64::from(2 * microbatch + way);
            let before = if way == 0 { stage.checked_sub(1) } else { Some(stage + 1) };
            let next = if way == 0 { Some(stage + 1) } else { stage.checked_sub(1) };
            let is_stage = |stage: &u32| *stage < self.stages;
            let mut after = last.clone();
            if let Some(from) = before.filter(is_stage) {
                after.push(add("receive", OperationKind::Recv(exchange(from, tag)), &[]));
            }
            let computed = add("compute", compute(own_us), &after);
            let summed = add("sum", sum(0, 512), &[computed]);
            let beside = add("beside", compute(own_us / 2), &[computed]);
            if let Some(to) = next.filter(is_stage) {
                add("send", OperationKind::Send(exchange(to, tag)), &[summed]);
            }
            last = vec![summed, beside];
        }
        let first = add("gradients", sum(1, 2_048), &last);
        add("more gradients", sum(1, 1_024), &last);
        add("update", compute(50), &[first]);
        all
    }

    fn workload(&self) -> Workload {
        let rank = |tensor, replica, stage| tensor + TENSOR * (replica + self.replicas * stage);
        let (tensors, replicas, stages) = (0..TENSOR, 0..self.replicas, 0..self.stages);
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut ranks = vec![Rank { program: 0, communicators: Vec::new() }; self.ranks() as usize];
        let pairs = |one: &std::ops::Range<u32>, other: &std::ops::Range<u32>| {
            let other = other.clone();
            one.clone().flat_map(move |a| other.clone().map(move |b| (a, b))).collect::<Vec<_>>()
        };
        for (s, d) in pairs(&stages, &replicas) {
            groups.push(tensors.clone().map(|t| rank(t, d, s)).collect());
        }
        for (s, t) in pairs(&stages, &tensors) {
            groups.push(replicas.clone().map(|d| rank(t, d, s)).collect());
        }
        for (d, t) in pairs(&replicas, &tensors) {
            groups.push(stages.clone().map(|s| rank(t, d, s)).collect());
        }
        for (group, members) in (0_u32..).zip(&groups) {
            for &member in members {
                ranks[member as usize].communicators.push(group);
            }
        }
        for (number, rank) in (0_u32..).zip(&mut ranks) {
            rank.program = number / (TENSOR * self.replicas);
        }
        let programs = stages.map(|stage| self.program(stage)).collect();
        Workload::new(programs, groups, ranks).expect("stages agree")
    }

    fn job(&self, name: &str, hosts: std::ops::Range<u32>) -> Job {
        let server = |host: u32| host / TENSOR;
        let localities = vec![hosts.clone().map(server).collect()];
        let spec = TrainingSpec {
            workload: self.workload(),
            hosts: hosts.map(NodeId::new).collect(),
            localities,
            system: System {
                algorithms: BTreeMap::from([(CollectiveKind::AllReduce, self.sums.clone())]),
                chunks: self.chunks,
                in_flight: self.in_flight,
                endpoint_delay: Duration::from_ns(self.delay_ns),
                reduction: None,
            },
            stragglers: self.stragglers.clone(),
            path: self.path.clone(),
            scale_up: Transport::default(),
            framing: Framing { payload: 4_096, header: 82, ack: 84, ack_every: 4 },
            scale_up_framing: Framing { payload: 16_384, header: 82, ack: 84, ack_every: 4 },
        };
        let training = Training::new(spec).expect("the ranks have places");
        Job::with_work(name, Work::Training(Box::new(training)))
    }

    fn scenario(&self) -> Scenario {
        of_jobs(self.fabric(), vec![self.job("job", 0..self.ranks())], None)
    }
}

fn of_jobs(fabric: Fabric, jobs: Vec<Job>, until: Option<Time>) -> Scenario {
    let stop = Stop { iterations: Some(2), until };
    Scenario::new(fabric, jobs, 2, 1, stop).expect("the jobs are valid")
}

/// The runs with and without symmetry; their tables are the same.
fn both(scenario: &Scenario) -> [FlowOutcome; 2] {
    let options = |fold_symmetry| FlowOptions {
        fold_symmetry,
        recorded_iterations: 2,
        rates_until: Time::from_ps(u64::MAX / 2),
        ..FlowOptions::default()
    };
    let runs = [true, false].map(|fold| run_all(scenario, &options(fold)));
    assert_eq!(runs[0].tables, runs[1].tables);
    assert_eq!(runs[0].end.ended, runs[1].end.ended);
    runs
}

/// How many times as many events the run without symmetry has.
fn fold(scenario: &Scenario) -> f64 {
    let [folded, full] = both(scenario);
    full.end.counters.events as f64 / folded.end.counters.events as f64
}

#[test]
fn replicas_and_tensor_parallel_ranks_are_computed_once() {
    // A rank of each stage stands for four replicas of four ranks.
    assert!(fold(&Case::symmetric().scenario()) > 3.9);
}

#[test]
fn a_slow_rank_separates_its_replica_and_no_other() {
    let case = Case { stragglers: vec![(5, 1.5)], ..Case::symmetric() };
    let slow = fold(&case.scenario());
    assert!(slow > 1.0 && slow < 0.6 * fold(&Case::symmetric().scenario()), "{slow}");
}

#[test]
fn ranks_whose_flows_collide_are_computed_one_by_one() {
    let case = Case { path: PathChoice::Ecmp, uplink_gbps: 100, ..Case::symmetric() };
    assert!(fold(&case.scenario()) <= 1.0);
}

#[test]
fn acknowledgements_that_share_full_links_unequally_count() {
    // Sprayed data loads all uplinks alike, but the acknowledgements of a message return over one of them.
    let case = Case { uplink_gbps: 200, ..Case::symmetric() };
    let (just_enough, over_subscribed) = (case.scenario(), Case { uplink_gbps: 50, ..case });
    both(&just_enough);
    both(&over_subscribed.scenario());
}

#[test]
fn hierarchical_collectives_and_other_algorithms_are_folded_exactly() {
    for sums in [
        vec![Algorithm::Direct],
        vec![Algorithm::HalvingDoubling],
        vec![Algorithm::Tree],
        vec![Algorithm::Ring, Algorithm::Direct],
    ] {
        for (chunks, in_flight) in [(1, 1), (4, 2), (3, 3)] {
            let case = Case { sums: sums.clone(), chunks, in_flight, ..Case::symmetric() };
            assert!(fold(&case.scenario()) > 2.0, "{sums:?}");
        }
    }
}

#[test]
fn jobs_that_share_a_fabric_are_folded_together() {
    let case = Case { replicas: 2, ..Case::symmetric() };
    let whole = Case { replicas: 4, ..case.clone() };
    let jobs = || {
        let later = Job { arrival: Time::from_ps(777_000_000), ..case.job("later", 24..48) };
        vec![case.job("one", 0..24), later]
    };
    assert!(fold(&of_jobs(whole.fabric(), jobs(), None)) > 2.0);
    // Jobs of different weights are not folded: the number of decisions by weight is a sum over streams.
    let mut weighted = jobs();
    weighted[1].share = Share::Weighted(Weight::new(2.0).expect("2 is a weight"));
    assert!(fold(&of_jobs(whole.fabric(), weighted, None)) <= 1.0);
}

#[test]
fn a_run_that_is_cut_off_has_sent_the_same() {
    let case = Case::symmetric();
    for us in [1, 150, 333, 1_000, 2_001] {
        let jobs = vec![case.job("job", 0..case.ranks())];
        both(&of_jobs(case.fabric(), jobs, Some(Time::ZERO + Duration::from_us(us))));
    }
}

#[test]
fn batches_of_rows_are_those_of_the_whole_run() {
    let scenario = Case::symmetric().scenario();
    let mut batches = Vec::new();
    let options = FlowOptions::default();
    hocket_flowsim::run_observed(&scenario, &options, &mut batches).expect("the run ends");
    let ranks: usize =
        batches.iter().filter(|table| table.name == "ranks").map(|table| table.rows()).sum();
    assert_eq!(ranks, 2 * Case::symmetric().ranks() as usize);
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = (2_u32..4, 1_u32..5, 1_u32..4);
    let network = (
        prop::sample::select(vec![50_u64, 100, 200, 210, 400]),
        prop::sample::select(vec![PathChoice::Spray, PathChoice::Ecmp]),
        prop::sample::select(vec![0_u64, 500]),
    );
    let slow = prop::collection::vec((0_u32..8, 0.5_f64..2.0), 0..2);
    let sums = prop::sample::select(vec![
        vec![Algorithm::Ring],
        vec![Algorithm::Direct],
        vec![Algorithm::Ring, Algorithm::Ring],
    ]);
    let chunks = (1_u32..4, 1_u32..4);
    // Without differences, many events are at the same time.
    let uneven = prop::sample::select(vec![0_u64, 7]);
    (sizes, network, slow, sums, chunks, uneven).prop_map(
        |(
            (stages, replicas, microbatches),
            (uplink_gbps, path, delay_ns),
            stragglers,
            sums,
            (chunks, in_flight),
            uneven_us,
        )| Case {
            stages,
            replicas,
            microbatches,
            uplink_gbps,
            path,
            stragglers,
            sums,
            chunks,
            in_flight,
            delay_ns,
            uneven_us,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_do_not_depend_on_the_use_of_symmetry(case in case()) {
        both(&case.scenario());
    }
}
