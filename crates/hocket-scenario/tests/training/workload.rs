//! Invalid workloads are refused with the rank and the operation at fault.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration};
use hocket_scenario::workload::{
    Exchange, Operation, OperationKind, Rank, Workload, WorkloadError,
};
use hocket_scenario::{Algorithm, CollectiveKind, Training, TrainingSpec};
use proptest::prelude::*;

use crate::common::training_spec;
use crate::programs::{Drawn, drawn};

fn refusal(drawn: &Drawn, programs: Vec<Vec<Operation>>) -> String {
    Workload::new(programs, drawn.groups.clone(), drawn.rank_list())
        .expect_err("something is missing or differs")
        .to_string()
}

/// Whether an error message names the operation and some rank.
fn names(message: &str, operation: &str) -> bool {
    message.contains("rank ") && message.contains(&format!("{operation:?}"))
}

fn communicates(operation: &Operation, ranks: usize) -> bool {
    // In a group of one rank nobody else can disagree.
    !matches!(operation.kind, OperationKind::Compute(_)) && ranks > 1
}

proptest! {
    #[test]
    fn events_in_one_order_are_valid(drawn in drawn()) {
        let operations = drawn.workload().programs().iter().map(|each| each.operations().len()).sum::<usize>();
        prop_assert!(operations >= drawn.events.len());
    }

    #[test]
    fn an_operation_without_its_partner_is_refused_by_name(drawn in drawn(), pick in any::<prop::sample::Index>()) {
        let mut programs = drawn.programs();
        let partners = |operation: &Operation| {
            programs.iter().flatten().filter(|each| each.name == operation.name).count()
        };
        let places: Vec<(usize, usize)> = (0..programs.len())
            .flat_map(|rank| (0..programs[rank].len()).map(move |place| (rank, place)))
            .filter(|&(rank, place)| {
                communicates(&programs[rank][place], partners(&programs[rank][place]))
            })
            .collect();
        prop_assume!(!places.is_empty());
        let (rank, place) = places[pick.index(places.len())];
        // The rank computes instead.
        programs[rank][place].kind = OperationKind::Compute(Duration::from_us(1));
        let message = refusal(&drawn, programs);
        prop_assert!(message.starts_with("rank "), "{message}");
    }

    #[test]
    fn bytes_on_which_partners_disagree_are_refused_by_name(drawn in drawn(), pick in any::<prop::sample::Index>()) {
        let mut programs = drawn.programs();
        let mut members: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
        for (rank, program) in programs.iter().enumerate() {
            for (place, operation) in program.iter().enumerate() {
                members.entry(operation.name.clone()).or_default().push((rank, place));
            }
        }
        let shared: Vec<_> = members.into_iter().filter(|(_, at)| at.len() > 1).collect();
        prop_assume!(!shared.is_empty());
        let (name, at) = &shared[pick.index(shared.len())];
        let (rank, place) = at[0];
        match &mut programs[rank][place].kind {
            OperationKind::Collective { bytes, .. } => *bytes = Bytes::new(1_000_000_007),
            OperationKind::Send(exchange) | OperationKind::Recv(exchange) => {
                exchange.bytes = Bytes::new(1_000_000_007);
            }
            OperationKind::Compute(_) => unreachable!("nobody computes together"),
        }
        let message = refusal(&drawn, programs);
        prop_assert!(names(&message, name), "{message}");
    }
}

fn operation(name: &str, kind: OperationKind, after: &[u32]) -> Operation {
    Operation { name: name.to_owned(), kind, after: after.to_vec() }
}

#[test]
fn a_ring_in_which_every_rank_receives_first_is_refused_with_the_whole_cycle() {
    let ranks = 5_u32;
    let program = |rank: u32| {
        let exchange = |peer| Exchange { communicator: 0, peer, bytes: Bytes::new(9), tag: 0 };
        let get = OperationKind::Recv(exchange((rank + ranks - 1) % ranks));
        let give = OperationKind::Send(exchange((rank + 1) % ranks));
        vec![operation("get", get, &[]), operation("give", give, &[0])]
    };
    let rank = |program| Rank { program, communicators: vec![0] };
    let workload = Workload::new(
        (0..ranks).map(program).collect(),
        vec![(0..ranks).collect()],
        (0..ranks).map(rank).collect(),
    );
    let Err(WorkloadError::Deadlock { waits }) = workload else { panic!("{workload:?}") };
    let cycle: Vec<(u32, u32)> = waits.iter().map(|wait| (wait.rank, wait.for_rank)).collect();
    assert_eq!(cycle, [(0, 4), (4, 3), (3, 2), (2, 1), (1, 0)]);
    assert!(waits.iter().all(|wait| wait.operation == "get"));
}

fn all_reduce(ranks: u32, algorithms: &[Algorithm], servers: &[u32]) -> TrainingSpec {
    let (kind, bytes) = (CollectiveKind::AllReduce, Bytes::new(960));
    let sum = OperationKind::Collective { communicator: 0, kind, bytes };
    let rank = Rank { program: 0, communicators: vec![0] };
    let group = (0..ranks).collect();
    let workload = Workload::new(
        vec![vec![operation("sum", sum, &[])]],
        vec![group],
        vec![rank; ranks as usize],
    );
    let spec = training_spec(workload.expect("all do the same"), algorithms);
    TrainingSpec { localities: vec![servers.to_vec()], ..spec }
}

#[test]
fn groups_whose_size_an_algorithm_does_not_support_are_refused_by_rank_and_operation() {
    use Algorithm::{HalvingDoubling, Ring};
    let message = |spec| Training::new(spec).expect_err("the sizes do not fit").to_string();
    assert_eq!(
        message(all_reduce(6, &[HalvingDoubling], &[0; 6])),
        "rank 0, operation \"sum\": halving-doubling all-reduce over 6 ranks: it needs a power of two; ring and direct support any number"
    );
    assert_eq!(
        message(all_reduce(6, &[Ring, Ring], &[0, 0, 0, 0, 1, 1])),
        "rank 0, operation \"sum\": a hierarchical collective needs the same number of members in each server (or rack); group 0 has 4 in one and 2 in another"
    );
    assert!(Training::new(all_reduce(6, &[Ring, Ring], &[0, 0, 0, 1, 1, 1])).is_ok());
}
