//! Links that fail, recover or slow down, pinned paths, and flows sprayed over all paths.

use hocket_des::{Bytes, Rate, Time};
use hocket_packetsim::model::{Headroom, Model};
use hocket_packetsim::{Change, LinkChange, PacketOutcome, PacketStatus};
use hocket_scenario::{Column, JobFlow, LinkId, PathChoice, Scenario, Stop, Transfer, Transport};
use hocket_transport::Policy;
use hocket_transport::congestion::{dcqcn, hpcc, timely};
use proptest::prelude::*;

use crate::common::{Collected, LINE, assert_close, at_us, host, model, packets_with, racks};

fn transfer(from: u32, to: u32, bytes: u64) -> Transfer {
    Transfer {
        flow: JobFlow::new(host(from), host(to), 0),
        bytes: Bytes::new(bytes),
        start: Time::ZERO,
        priority: 0,
        job: None,
        transport: Transport::default(),
    }
}

fn on_links(path: &[u32]) -> PathChoice {
    PathChoice::Pinned(path.iter().map(|&link| LinkId::new(link)).collect())
}

fn over_spine(spine: u32) -> PathChoice {
    // From host 0 to host 2: cables 0, 4 + 2s, 5 + 2s backwards, 2 backwards.
    on_links(&[0, 8 + 4 * spine, 11 + 4 * spine, 5])
}

fn change(at_us_: u64, cable: u32, change: Change) -> LinkChange {
    LinkChange { at: at_us(at_us_), link: LinkId::new(2 * cable), change }
}

fn scenario(spines: u32, transfers: Vec<Transfer>) -> Scenario {
    let fabric = racks(spines, LINE);
    let scenario = Scenario::with_transfers(fabric, Vec::new(), transfers, 1, 1, Stop::default());
    scenario.expect("the transfers are valid")
}

fn run(
    spines: u32,
    transfers: Vec<Transfer>,
    changes: &[LinkChange],
) -> (Collected, PacketOutcome) {
    packets_with(&scenario(spines, transfers), &model(), changes)
}

/// By flow.
fn fct_s(tables: &Collected) -> Vec<f64> {
    let flows = tables.0["flows"].iter().map(|rows| match rows.column("flow") {
        Some(Column::U32(flows)) => flows.clone(),
        other => panic!("flows are {other:?}"),
    });
    let mut rows: Vec<_> = flows.flatten().zip(tables.values("flows", "fct_s")).collect();
    rows.sort_by_key(|&(flow, _)| flow);
    rows.into_iter().map(|(_, fct_s)| fct_s).collect()
}

/// Bytes that a rack switch sent to a spine.
fn sent_up(tables: &Collected, link: &str) -> f64 {
    let ports = &tables.0["ports"][0];
    let Some(Column::Str { codes, dictionary }) = ports.column("link") else {
        panic!("links have names");
    };
    let row = codes.iter().position(|&code| dictionary[code as usize] == link);
    row.map_or(0.0, |row| tables.values("ports", "bytes")[row])
}

// 4,000 packets: 692.48 us at 50 Gbps.
const SIZE: u64 = 4_000_000;
const SEND_S: f64 = 692.48e-6;

#[test]
fn a_pinned_path_carries_all_of_a_flow() {
    for spine in 0..2 {
        let flow = JobFlow { path: over_spine(spine), ..JobFlow::new(host(0), host(2), 0) };
        let (tables, _) = run(2, vec![Transfer { flow, ..transfer(0, 2, SIZE) }], &[]);
        assert_close(&fct_s(&tables), &[SEND_S], 0.01);
        // Data packets on the rack's link to each spine.
        let sent = [0, 1].map(|spine| sent_up(&tables, &format!("rack0->spine{spine}")));
        let all = (SIZE / 1_000 * 1_082) as f64;
        let (taken, other) = (sent[spine as usize], sent[1 - spine as usize]);
        assert_eq!((taken, other), (all, 0.0));
    }
}

#[test]
fn a_flow_is_rerouted_around_a_failed_link() {
    for cable in [4, 5] {
        let flow = JobFlow { path: over_spine(0), ..JobFlow::new(host(0), host(2), 0) };
        let changes = [change(200, cable, Change::Down)];
        let (tables, _) = run(2, vec![Transfer { flow, ..transfer(0, 2, SIZE) }], &changes);
        let fct = fct_s(&tables)[0];
        assert!(fct > SEND_S && fct < SEND_S + 20e-6, "{fct}");
    }
}

#[test]
fn lost_packets_at_the_end_of_a_message_are_retransmitted_after_the_timeout() {
    let flow = JobFlow { path: over_spine(0), ..JobFlow::new(host(0), host(2), 0) };
    // All packets have left the host after 692.5 us; the last ones are still on the way to the spine or beyond.
    let changes = [change(693, 5, Change::Down)];
    let (tables, _) = run(2, vec![Transfer { flow, ..transfer(0, 2, SIZE) }], &changes);
    // When the timer expires first, acknowledgements that were in flight at the failure have brought progress.
    let timeout = model().retransmit_timeout.as_secs_f64();
    assert_close(&fct_s(&tables), &[SEND_S + 2.0 * timeout], 0.01);
}

#[test]
fn a_flow_without_a_path_waits_until_the_link_is_up_again() {
    let changes = [change(200, 5, Change::Down), change(1_000, 5, Change::Up)];
    let (tables, _) = run(1, vec![transfer(0, 2, SIZE)], &changes);
    assert_close(&fct_s(&tables), &[SEND_S + 800e-6], 0.01);
}

#[test]
fn a_host_whose_cable_fails_continues_when_the_cable_works_again() {
    let changes = [change(200, 0, Change::Down), change(1_000, 0, Change::Up)];
    let (tables, _) = run(1, vec![transfer(0, 2, SIZE), transfer(2, 0, SIZE)], &changes);
    assert_close(&fct_s(&tables), &[SEND_S + 800e-6; 2], 0.05);
}

#[test]
fn a_flow_on_a_degraded_link_takes_longer_by_the_lost_capacity() {
    // 200 us at 50 Gbps, the rest at 20 Gbps.
    let changes = [change(200, 4, Change::Rate(Rate::from_gbps(20)))];
    let (tables, _) = run(1, vec![transfer(0, 2, SIZE)], &changes);
    assert_close(&fct_s(&tables), &[200e-6 + (SEND_S - 200e-6) * 2.5], 0.01);
    // And back to its full rate after another 500 us, in which it carries the bytes of 200 us.
    let back = change(700, 4, Change::Rate(LINE));
    let (tables, _) = run(1, vec![transfer(0, 2, SIZE)], &[changes[0], back]);
    assert_close(&fct_s(&tables), &[SEND_S + 300e-6], 0.01);
}

#[test]
fn the_failure_of_a_congested_link_leaves_no_byte_in_any_buffer() {
    let changes = [
        change(150, 6, Change::Down),
        change(400, 6, Change::Up),
        change(500, 4, Change::Down),
        change(505, 4, Change::Up),
        change(800, 2, Change::Down),
        change(900, 2, Change::Up),
    ];
    for policy in [Policy::PfcOnly, Policy::Dcqcn(dcqcn::Parameters::recommended(LINE))] {
        let with = |from, to| Transfer {
            transport: Transport::new(policy.clone()),
            ..transfer(from, to, SIZE)
        };
        let transfers = vec![with(0, 2), with(1, 2), with(3, 2), with(2, 0), with(1, 3)];
        let (tables, _) = run(2, transfers, &changes);
        assert_eq!(fct_s(&tables).len(), 5);
    }
}

#[test]
fn two_sprayed_flows_fill_two_spines_evenly() {
    let spray = |from, to| Transfer {
        flow: JobFlow { path: PathChoice::Spray, ..JobFlow::new(host(from), host(to), 0) },
        ..transfer(from, to, SIZE)
    };
    let (tables, _) = run(2, vec![spray(0, 2), spray(1, 3)], &[]);
    // With ECMP, both flows could share one spine; sprayed, each gets the rate of its NIC.
    assert_close(&fct_s(&tables), &[SEND_S; 2], 0.02);
    let sent = [0, 1].map(|spine| sent_up(&tables, &format!("rack0->spine{spine}")));
    assert_close(&sent[..1], &sent[1..], 0.001);
}

#[test]
fn sprayed_packets_that_overtake_each_other_are_not_retransmitted() {
    let spray = JobFlow { path: PathChoice::Spray, ..JobFlow::new(host(0), host(2), 0) };
    // From host 1 to host 3 over spine 0, which delays every second packet.
    let across = JobFlow { path: on_links(&[2, 8, 11, 7]), ..JobFlow::new(host(1), host(3), 0) };
    let transfers = [spray, across].map(|flow| Transfer { flow, ..transfer(0, 2, SIZE) });
    let (tables, outcome) = run(2, transfers.to_vec(), &[]);
    assert_eq!(outcome.counters.retransmissions, 0);
    // The demand on the link to spine 0 is one and a half times its capacity.
    assert!(fct_s(&tables)[0] > 1.2 * SEND_S, "{:?}", fct_s(&tables));
}

#[test]
fn a_sprayed_flow_continues_on_the_remaining_paths() {
    let flow = JobFlow { path: PathChoice::Spray, ..JobFlow::new(host(0), host(2), 0) };
    let changes = [change(200, 4, Change::Down), change(400, 4, Change::Up)];
    let (tables, _) = run(4, vec![Transfer { flow, ..transfer(0, 2, SIZE) }], &changes);
    let timeout = model().retransmit_timeout;
    let fct = fct_s(&tables)[0];
    assert!(fct >= SEND_S && fct < SEND_S + (timeout + timeout + timeout).as_secs_f64(), "{fct}");
}

#[test]
fn without_pfc_packets_dropped_by_a_full_buffer_are_retransmitted() {
    let mut model = model();
    model.switching.pfc = false;
    model.switching.buffer = Bytes::new(200_000);
    model.switching.headroom = Headroom::Fixed(Bytes::new(0));
    for path in [PathChoice::Ecmp, PathChoice::Spray] {
        let with = |from| {
            let flow = JobFlow { path: path.clone(), ..JobFlow::new(host(from), host(2), 0) };
            Transfer { flow, ..transfer(from, 2, 400_000) }
        };
        let transfers = vec![with(0), with(1), with(3)];
        let scenario = scenario(2, transfers);
        let (tables, outcome) = packets_with(&scenario, &model, &[]);
        assert!(outcome.counters.losses > 0);
        assert_eq!(fct_s(&tables).len(), 3);
    }
}

#[test]
fn a_port_that_is_paused_when_its_link_fails_is_paused_when_the_link_recovers() {
    let slow = change(0, 2, Change::Rate(Rate::from_gbps(1)));
    // Host 0 is paused most of the time: it sends at 50 Gbps into a link of 1 Gbps.
    let failures = (1..6).flat_map(|each| {
        [change(100 * each, 0, Change::Down), change(100 * each + 1, 0, Change::Up)]
    });
    let changes: Vec<_> = [slow].into_iter().chain(failures).collect();
    let (tables, outcome) =
        packets_with(&scenario(1, vec![transfer(0, 2, 500_000)]), &under_pressure(), &changes);
    // Nothing is lost to a full buffer, or the run would have failed.
    assert!(outcome.counters.pauses > 0);
    assert_close(&fct_s(&tables), &[500.0 * 1_082.0 * 8e-9], 0.01);
}

fn starting(at: u64, policy: Policy, transfer: Transfer) -> Transfer {
    Transfer { start: at_us(at), transport: Transport::new(policy), ..transfer }
}

fn under_pressure() -> Model {
    let mut model = model();
    model.switching.buffer = Bytes::new(400_000);
    model
}

const SLOW: Change = Change::Rate(Rate::from_gbps(7));
const FAST: Change = Change::Rate(LINE);

#[test]
fn packets_that_overtake_each_other_on_a_new_path_are_retransmitted() {
    // Flow 1 takes the slow path at 463 us and the fast one at 471 us. The packets that it sends then overtake those in
    // flight and are dropped without a NACK, since the receiver has reported the gap already.
    let changes = [
        change(0, 0, SLOW),
        change(246, 2, Change::Down),
        change(252, 0, FAST),
        change(271, 5, SLOW),
        change(341, 6, Change::Down),
        change(463, 2, Change::Up),
        change(471, 6, Change::Up),
        change(563, 5, FAST),
    ];
    let timely = Policy::Timely(timely::Parameters::recommended(LINE));
    let hpcc = Policy::Hpcc(hpcc::Parameters::recommended(LINE));
    let transfers = vec![
        starting(276, timely, transfer(1, 2, 45_865)),
        starting(234, hpcc, transfer(0, 2, 178_001)),
    ];
    let (tables, outcome) = packets_with(&scenario(2, transfers), &under_pressure(), &changes);
    assert!(outcome.counters.retransmissions > 0);
    assert_eq!(fct_s(&tables).len(), 2);
}

#[test]
fn a_pause_behind_a_slow_frame_arrives_in_time_when_the_cable_becomes_fast() {
    let changes =
        [change(89, 1, SLOW), change(298, 7, SLOW), change(306, 7, FAST), change(307, 1, FAST)];
    let spray = JobFlow { path: PathChoice::Spray, ..JobFlow::new(host(1), host(2), 0) };
    let mut dcqcn = dcqcn::Parameters::recommended(LINE);
    dcqcn.rate_on_first_cnp = None;
    let transfers = vec![
        starting(63, Policy::PfcOnly, transfer(3, 1, 299_325)),
        starting(121, Policy::PfcOnly, Transfer { flow: spray, ..transfer(1, 2, 134_946) }),
        starting(137, Policy::Dcqcn(dcqcn), transfer(3, 1, 14_770)),
        starting(89, Policy::Hpcc(hpcc::Parameters::recommended(LINE)), transfer(3, 1, 73_828)),
    ];
    // Nothing is lost to a full buffer, or the run would have failed.
    let (tables, outcome) = packets_with(&scenario(2, transfers), &under_pressure(), &changes);
    assert!(outcome.counters.pauses > 0);
    assert_eq!(fct_s(&tables).len(), 4);
}

fn any_transfer() -> impl Strategy<Value = Transfer> {
    let policy = prop_oneof![
        Just(Policy::PfcOnly),
        Just(Policy::Dcqcn(dcqcn::Parameters::recommended(LINE))),
        Just(Policy::Timely(timely::Parameters::recommended(LINE))),
        Just(Policy::Hpcc(hpcc::Parameters::recommended(LINE))),
    ];
    let ends = (0_u32..4, 1_u32..4);
    (ends, 1_u64..500_000, 0_u64..300, policy, any::<bool>()).prop_map(
        |((from, step), bytes, start_us, policy, sprayed)| {
            let sprayed = sprayed && !matches!(policy, Policy::Hpcc(_));
            let mut transfer = transfer(from, (from + step) % 4, bytes);
            transfer.start = at_us(start_us);
            transfer.transport = Transport::new(policy);
            if sprayed {
                transfer.flow.path = PathChoice::Spray;
            }
            transfer
        },
    )
}

fn any_changes() -> impl Strategy<Value = Vec<LinkChange>> {
    let each = (0_u64..600, 0_u32..8, 1_u64..300, any::<bool>());
    let both = |(at_us, cable, span_us, fails)| {
        let (before, after) = if fails { (Change::Down, Change::Up) } else { (SLOW, FAST) };
        [change(at_us, cable, before), change(at_us + span_us, cable, after)]
    };
    prop::collection::vec(each.prop_map(both), 0..6).prop_map(|pairs| pairs.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // The run's self-checks verify that all bytes arrive, all buffers end empty and no link exceeds its rate.
    #[test]
    fn everything_arrives_whatever_links_fail_for_a_while(
        transfers in prop::collection::vec(any_transfer(), 1..10),
        changes in any_changes(),
    ) {
        let count = transfers.len();
        let scenario = scenario(2, transfers);
        let (tables, outcome) = packets_with(&scenario, &under_pressure(), &changes);
        prop_assert_eq!(outcome.status, PacketStatus::Complete);
        prop_assert_eq!(fct_s(&tables).len(), count);
    }
}

#[test]
fn a_change_of_an_unknown_link_or_to_an_impossible_rate_is_rejected() {
    let error = |change| {
        let (scenario, options) = (scenario(1, vec![transfer(0, 2, 1_000)]), Default::default());
        let mut tables = Collected::default();
        let run =
            hocket_packetsim::run_scenario(&scenario, &model(), &[change], &options, &mut tables);
        run.unwrap_err().to_string()
    };
    assert_eq!(
        error(change(1, 77, Change::Down)),
        "change 1 names link 154, but there are only 12, counted from 0"
    );
    assert_eq!(
        error(change(1, 4, Change::Rate(Rate::from_gbps(100)))),
        "change 1: link \"rack0->spine0\" is set to 100 Gbps; its rate must be above 0 and at most 50 Gbps"
    );
}
