//! Servers of several GPUs: traffic inside a server uses its scale-up switch, separately from the fabric.

use hocket_des::{Bytes, Duration, Rate};
use hocket_packetsim::model::{Headroom, Marking, Notification};
use hocket_packetsim::reference::Arithmetic;
use hocket_packetsim::{FlowSpec, PathChoice, WindowRule};
use hocket_scenario::{Cable, Fabric, NodeId, NodeKind};
use hocket_transport::Policy;
use hocket_transport::congestion::{
    dcqcn, dctcp, hpcc, pint, receiver_driven, static_window, timely,
};

use crate::common::{LINE, Ran, Trial, at_ps, cable, flow, message, node};

/// HOTI'22 Table I.
const NVLINK: Rate = Rate::from_gbps(1_600);
const NVLINK_PS: u64 = 25_000;
/// Transmission times inside a server, of a full packet (16,384 bytes and 82 of headers, at 5 ps per byte) and of an
/// acknowledgement.
const INSIDE_PS: u64 = 16_466 * 5;
const INSIDE_ACK_PS: u64 = 86 * 5;

/// `servers` servers of four GPUs `h0`, `h1` and so on, each with a NIC to the only ToR; scale-up switches are `nv0`, `nv1`
/// and so on.
fn servers(servers: u32) -> Fabric {
    let gpus = 4 * servers;
    let mut nodes: Vec<_> = (0..gpus).map(|gpu| node(format!("h{gpu}"), NodeKind::Host)).collect();
    nodes.push(node("tor".to_owned(), NodeKind::Switch));
    nodes.extend((0..servers).map(|server| node(format!("nv{server}"), NodeKind::ScaleUp)));
    let nics = (0..gpus).map(|gpu| cable(gpu, gpus));
    let lanes = (0..gpus).map(|gpu| Cable {
        a: NodeId::new(gpu),
        b: NodeId::new(gpus + 1 + gpu / 4),
        rate: NVLINK,
        delay: Duration::from_ps(NVLINK_PS),
    });
    Fabric::new(nodes, &nics.chain(lanes).collect::<Vec<_>>()).expect("servers are a fabric")
}

#[test]
fn a_message_inside_a_server_takes_size_divided_by_the_scale_up_rate_to_the_picosecond() {
    let mut trial = Trial::new(servers(2), vec![flow(0, 1)], 1);
    // A last packet of fewer than 100 bytes would arrive before the acknowledgement of the packet ahead has left.
    for (bytes, last) in [(1, 1), (16_384, 16_384), (64 << 20, 16_384), ((64 << 20) + 100, 100)] {
        trial.messages[0].bytes = bytes;
        // All packets but the last in a row, then the last over both links; but it cannot leave the switch before the one
        // ahead of it has left, and the same holds for its acknowledgement.
        let ahead = bytes.div_ceil(16_384) - 1;
        let last_ps = (last + 82) * 5;
        let leaves = ahead * INSIDE_PS + if ahead > 0 { INSIDE_PS } else { last_ps };
        let arrives = leaves + last_ps + 2 * NVLINK_PS;
        let expected = arrives + 2 * (INSIDE_ACK_PS + NVLINK_PS);
        let ended = trial.run().outcome().ended.as_ps();
        assert_eq!(ended, expected, "{bytes} bytes");
    }
    // 64 MiB at 1600 Gbps take 335.5 us, half a percent more with headers.
    trial.messages[0].bytes = 64 << 20;
    let ended = trial.run().outcome().ended.as_ps() as f64;
    assert!((ended / (335.5e6 * 1.005) - 1.0).abs() < 0.001, "{ended}");
}

#[test]
fn packets_inside_a_server_have_the_models_scale_up_mtu_and_others_the_mtu() {
    for mtu in [64, 1_000, 16_384, 32_768] {
        let mut trial = Trial::new(servers(2), vec![flow(0, 1), flow(0, 4)], 1_000_000);
        trial.model.scale_up_mtu = mtu;
        let ran = trial.run();
        let inside = 1_000_000_u64.div_ceil(mtu.into());
        for link in ["h0->nv0", "nv0->h1"] {
            assert_eq!(ran.port(link, "packets"), inside);
            assert_eq!(ran.port(link, "bytes"), 1_000_000 + 82 * inside);
        }
        for link in ["h0->tor", "tor->h4"] {
            assert_eq!(ran.port(link, "packets"), 1_000);
        }
        assert_eq!(ran.port("h1->tor", "bytes") + ran.port("tor->h1", "bytes"), 0);
    }
}

/// One flow for each pair inside server 0, and one from each of its GPUs to server 1.
fn both_networks() -> (Vec<FlowSpec>, Vec<FlowSpec>) {
    let inside = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
    let inside = inside.filter(|(from, to)| from != to).map(|(from, to)| flow(from, to)).collect();
    (inside, (0..4).map(|gpu| flow(gpu, 4)).collect())
}

#[test]
fn the_two_networks_of_a_server_do_not_disturb_each_other() {
    let (inside, between) = both_networks();
    let trial = |flows: Vec<FlowSpec>| Trial::new(servers(2), flows, 5_000_000);
    let alone = trial(inside.clone()).run().ends(inside.len());
    let others_alone = trial(between.clone()).run().ends(between.len());
    let flows = [inside, between].concat();
    let together = trial(flows.clone()).run().ends(flows.len());
    assert_eq!(together, [alone, others_alone].concat());
}

/// Two incasts: three GPUs of server 0 send `inside_bytes` to its fourth GPU, and `between_bytes` over their NICs to one of
/// server 1.
fn two_incasts(inside_bytes: u64, between_bytes: u64) -> Trial {
    let inside = (0..3).map(|gpu| flow(gpu, 3));
    let between = (0..3).map(|gpu| flow(gpu, 4));
    let mut trial = Trial::new(servers(2), inside.chain(between).collect(), 1);
    trial.messages.clear();
    for (from, bytes) in [(0, inside_bytes), (3, between_bytes)] {
        trial
            .messages
            .extend((from..from + 3).filter(|_| bytes > 0).map(|flow| message(flow, bytes)));
    }
    trial
}

#[test]
fn pause_frames_of_one_network_do_not_reach_the_other() {
    let inside = two_incasts(20_000_000, 0).run();
    let between = two_incasts(0, 2_000_000).run();
    let both = two_incasts(20_000_000, 2_000_000).run();
    let paused = |ran: &Ran| {
        let mut links = ran.names("pauses", "link");
        links.sort();
        links.dedup();
        links
    };
    assert_eq!(paused(&inside), ["h0->nv0", "h1->nv0", "h2->nv0"]);
    assert_eq!(paused(&between), ["h0->tor", "h1->tor", "h2->tor"]);
    assert_eq!(both.ends(6)[..3], inside.ends(6)[..3]);
    assert_eq!(both.ends(6)[3..], between.ends(6)[3..]);
    let pauses = |ran: &Ran| ran.outcome().counters.pauses;
    assert_eq!(pauses(&both), pauses(&inside) + pauses(&between));
}

#[test]
fn an_incast_inside_a_server_shares_its_link_and_loses_nothing_whatever_the_rule_for_headroom() {
    for headroom in [Headroom::Computed, Headroom::ThreeDelays] {
        for arithmetic in [Arithmetic::Exact, Arithmetic::Reference] {
            let mut trial = two_incasts(16_384_000, 0);
            trial.model.switching.headroom = headroom;
            trial.model.arithmetic = arithmetic;
            let ran = trial.run();
            assert_eq!(ran.outcome().counters.losses, 0);
            // 3,000 packets over one link, and one over the link before it; rounding may take off half a nanosecond each.
            let ended = ran.outcome().ended.as_ps();
            let expected = 3_001 * INSIDE_PS + 4 * NVLINK_PS + 2 * INSIDE_ACK_PS;
            assert!(ended.abs_diff(expected) <= 3_001 * 500, "{ended} against {expected}");
        }
    }
}

#[test]
fn flows_inside_a_server_have_no_congestion_control_and_no_window() {
    let marking =
        Marking { rate: LINE, minimum: Bytes::ZERO, maximum: Bytes::new(1), probability: 1.0 };
    let mut free = two_incasts(4_000_000, 0);
    free.model.notification = Notification::Packets { interval: Duration::from_us(4), priority: 7 };
    free.model.switching.marking = vec![marking];
    let ends = free.run().ends(3);
    for policy in [
        Policy::Dcqcn(dcqcn::Parameters::recommended(LINE)),
        Policy::Dctcp(dctcp::Parameters::recommended(LINE)),
        Policy::Timely(timely::Parameters::recommended(LINE)),
        Policy::Hpcc(hpcc::Parameters::recommended(LINE)),
        Policy::Pint(pint::Parameters::recommended(LINE)),
        Policy::StaticWindow(static_window::Parameters::default()),
        Policy::ReceiverDriven(receiver_driven::Parameters::recommended(1_000)),
    ] {
        let mut trial = free.clone().under(policy);
        trial.flows.iter_mut().for_each(|flow| flow.window = WindowRule::Bytes(2_000));
        let ran = trial.run();
        assert_eq!(ran.ends(3), ends);
        assert_eq!(ran.outcome().counters.marks, 0);
        assert_eq!(ran.outcome().counters.rate_cuts, [0]);
    }
}

#[test]
fn a_failed_scale_up_link_stops_only_its_own_flows_until_it_works_again() {
    use hocket_packetsim::{Change, LinkChange};
    let fabric = servers(2);
    let lane = fabric.link_named("h0->nv0").expect("a GPU has a lane");
    let mut trial = Trial::new(fabric, vec![flow(0, 1), flow(0, 4)], 1_000_000);
    let free = trial.run().ends(2);
    let at = |us: u64| at_ps(us * 1_000_000);
    let changes = [(at(2), Change::Down), (at(500), Change::Up)];
    trial.changes = changes.map(|(at, change)| LinkChange { at, link: lane, change }).to_vec();
    let ran = trial.run();
    let ends = ran.ends(2);
    assert!(ends[0] > 500_000_000, "there is no other path inside");
    assert_eq!(ends[1], free[1], "the NIC has nothing to do with it");
    assert_eq!(ran.port("h0->tor", "packets"), 1_000);
}

#[test]
fn a_sprayed_flow_inside_a_server_uses_its_only_path() {
    let sprayed = FlowSpec { path: PathChoice::Spray, ..flow(0, 1) };
    let ran = Trial::new(servers(1), vec![sprayed], 16_384).run();
    let expected = 2 * (INSIDE_PS + INSIDE_ACK_PS) + 4 * NVLINK_PS;
    assert_eq!(ran.outcome().ended.as_ps(), expected);
}
