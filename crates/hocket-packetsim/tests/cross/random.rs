//! Random small workloads on both engines: they finish, transfer the right number of bytes, and respect all dependencies.

use std::collections::BTreeMap;

use hocket_scenario::workload::{OperationKind, Workload};
use hocket_scenario::{Algorithm, CollectiveKind, System, Table, Training, TrainingSpec};
use proptest::prelude::*;

use crate::common::{Collected, names, values};
use crate::programs::drawn;
use crate::training::{both, job, one_tor, spec};

const ITERATIONS: u64 = 2;

/// Ranks at one switch, with an algorithm for each kind of collective.
fn on_one_switch(workload: Workload, algorithm: Algorithm, chunks: u32) -> TrainingSpec {
    let its = spec(workload, 1, &[algorithm], chunks);
    let serving = |kind: CollectiveKind| {
        let serves = kind.algorithms().contains(&algorithm);
        (kind, vec![if serves { algorithm } else { Algorithm::Ring }])
    };
    let algorithms = CollectiveKind::ALL.map(serving).into_iter().collect();
    TrainingSpec { system: System { algorithms, ..its.system.clone() }, ..its }
}

/// By rank: the bytes that it sends in an iteration.
fn sent(training: &Training) -> Vec<u64> {
    let workload = training.workload();
    let ranks = workload.ranks().len() as u32;
    let mut sent = vec![0; ranks as usize];
    for rank in 0..ranks {
        for operation in workload.program(rank).operations() {
            match operation.kind {
                OperationKind::Send(exchange) => sent[rank as usize] += exchange.bytes.get(),
                OperationKind::Collective { communicator, kind, bytes } => {
                    let group = workload.group(rank, communicator);
                    let (_, collective) = training.collective(group, kind, bytes);
                    let member = training.member(rank, communicator as usize);
                    for step in 0..collective.steps() {
                        for send in collective.sends(step, member) {
                            for chunk in 0..collective.chunks() {
                                let bytes = collective.message_bytes(chunk, step, member, &send);
                                sent[rank as usize] += bytes.get();
                            }
                        }
                    }
                }
                OperationKind::Compute(_) | OperationKind::Recv(_) => {}
            }
        }
    }
    sent
}

/// The start and end of each operation in a table, by rank and place in its program.
fn spans(
    rank: Vec<f64>,
    operation: Vec<f64>,
    start: Vec<f64>,
    end: Vec<f64>,
) -> BTreeMap<(u32, u32), (f64, f64)> {
    let places = rank.into_iter().zip(operation).map(|(rank, place)| (rank as u32, place as u32));
    places.zip(start.into_iter().zip(end)).collect()
}

fn of_packets(tables: &Collected) -> BTreeMap<(u32, u32), (f64, f64)> {
    let [rank, operation, start, end] =
        ["rank", "operation", "start_s", "end_s"].map(|each| tables.values("operations", each));
    spans(rank, operation, start, end)
}

fn of_flows(operations: &Table) -> BTreeMap<(u32, u32), (f64, f64)> {
    let [rank, operation, start, end] =
        ["rank", "operation", "start_s", "end_s"].map(|each| values(operations, each));
    spans(rank, operation, start, end)
}

/// Asserts that no operation starts before its dependencies have ended, nor ends before the other ranks that it needs have
/// started.
fn check_order(workload: &Workload, spans: &BTreeMap<(u32, u32), (f64, f64)>) {
    let mut latest_start: BTreeMap<String, f64> = BTreeMap::new();
    for (&(rank, place), &(start, end)) in spans {
        let operation = &workload.program(rank).operations()[place as usize];
        assert!(start <= end, "rank {rank}, {:?}: {start} {end}", operation.name);
        for &after in &operation.after {
            let (_, before) = spans[&(rank, after)];
            assert!(before <= start, "rank {rank}, {:?}: {before} {start}", operation.name);
        }
        let latest = latest_start.entry(operation.name.clone()).or_insert(start);
        *latest = latest.max(start);
    }
    for (&(rank, place), &(_, end)) in spans {
        let operation = &workload.program(rank).operations()[place as usize];
        let needs_all = match operation.kind {
            OperationKind::Collective { kind, .. } => kind != CollectiveKind::Broadcast,
            _ => false,
        };
        let latest = latest_start[&operation.name];
        assert!(!needs_all || latest <= end, "rank {rank}, {:?}: {latest} {end}", operation.name);
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    proptest::sample::select(vec![Algorithm::Ring, Algorithm::Direct, Algorithm::Tree])
}

fn leaving(links: Vec<String>, bytes: Vec<f64>) -> BTreeMap<String, u64> {
    let rows = links
        .into_iter()
        .zip(bytes)
        .filter(|(link, bytes)| link.ends_with("->tor") && *bytes > 0.0);
    rows.map(|(link, bytes)| (link, bytes as u64)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn all_iterations_end_in_order_with_all_bytes_moved(
        drawn in drawn(), algorithm in algorithm(), chunks in 1_u32..=2,
    ) {
        let its = on_one_switch(drawn.workload(), algorithm, chunks);
        let training = Training::new(its.clone()).expect("the ranks have places");
        let (packets, flows) = both(one_tor(drawn.ranks, 1), vec![job("job", its)], ITERATIONS);
        prop_assert_eq!(packets.values("iterations", "iteration").len() as u64, ITERATIONS);
        prop_assert_eq!(flows.iterations.rows() as u64, ITERATIONS);
        let link = |rank| format!("gpu{rank}->tor");
        let expected: BTreeMap<String, u64> = (0..drawn.ranks)
            .zip(sent(&training))
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(rank, bytes)| (link(rank), bytes * ITERATIONS))
            .collect();
        prop_assert_eq!(&leaving(packets.names("links", "link"), packets.values("links", "bytes")), &expected);
        prop_assert_eq!(&leaving(names(&flows.links, "link"), values(&flows.links, "bytes")), &expected);
        check_order(training.workload(), &of_packets(&packets));
        check_order(training.workload(), &of_flows(&flows.operations));
    }

    #[test]
    fn jitter_and_stragglers_change_only_compute_times_and_the_same_seed_gives_the_same_tables(
        drawn in drawn(), slow in 0_u32..2,
    ) {
        let plain = on_one_switch(drawn.workload(), Algorithm::Ring, 1);
        let mut slowed = plain.clone();
        slowed.stragglers = vec![(slow, 2.0)];
        let fabric = || one_tor(drawn.ranks, 1);
        let jittery = |spec: &TrainingSpec| {
            let mut its = job("job", spec.clone());
            its.jitter = 0.1;
            its
        };
        let (packets, flows) = both(fabric(), vec![job("job", plain.clone())], ITERATIONS);
        let (slow_packets, slow_flows) = both(fabric(), vec![job("job", slowed)], ITERATIONS);
        let (noisy_packets, noisy_flows) = both(fabric(), vec![jittery(&plain)], ITERATIONS);
        let (again_packets, again_flows) = both(fabric(), vec![jittery(&plain)], ITERATIONS);
        prop_assert_eq!(&noisy_packets, &again_packets);
        prop_assert_eq!(&noisy_flows, &again_flows);
        let moved = |tables: &Collected| leaving(tables.names("links", "link"), tables.values("links", "bytes"));
        prop_assert_eq!(moved(&packets), moved(&slow_packets));
        prop_assert_eq!(moved(&packets), moved(&noisy_packets));
        let compute = |tables: &Collected| by_rank(&tables.values("ranks", "rank"), &tables.values("ranks", "compute_s"));
        let (usual, slower) = (compute(&packets), compute(&slow_packets));
        for (rank, usual_s) in &usual {
            let factor = if *rank == slow { 2.0 } else { 1.0 };
            prop_assert!((slower[rank] - usual_s * factor).abs() < 1e-9, "{} {}", slower[rank], usual_s);
        }
        let of_flows = |table: &Table| by_rank(&values(table, "rank"), &values(table, "compute_s"));
        prop_assert_eq!(&slower, &of_flows(&slow_flows.ranks));
        prop_assert_eq!(&usual, &of_flows(&flows.ranks));
    }
}

/// Sums over iterations.
fn by_rank(ranks: &[f64], values: &[f64]) -> BTreeMap<u32, f64> {
    let mut sums = BTreeMap::new();
    let mut rows: Vec<_> = ranks.iter().zip(values).collect();
    rows.sort_by(|one, other| one.partial_cmp(other).expect("no value is missing"));
    for (&rank, value) in rows {
        *sums.entry(rank as u32).or_insert(0.0) += value;
    }
    sums
}
