//! The completion time of a single flow, to the picosecond.

use hocket_des::{Duration, Rate};
use hocket_scenario::{Cable, Fabric, NodeId, NodeKind};

use crate::common::{ACK_PS, DELAY, PACKET_PS, Trial, cable, flow, node};

const DELAY_PS: u64 = DELAY.as_ps();
/// Transmission time of a packet's headers at 100 Gbps.
const HEADER_PS: u64 = 82 * 80;

/// Two hosts with `switches` switches in a row between them.
fn chain(switches: u32) -> Fabric {
    let mut nodes =
        vec![node("h0".to_owned(), NodeKind::Host), node("h1".to_owned(), NodeKind::Host)];
    nodes.extend((0..switches).map(|switch| node(format!("s{switch}"), NodeKind::Switch)));
    let mut places = vec![0];
    places.extend(2..2 + switches);
    places.push(1);
    let cables: Vec<Cable> = places.windows(2).map(|ends| cable(ends[0], ends[1])).collect();
    Fabric::new(nodes, &cables).expect("a chain is a fabric")
}

/// When the last acknowledgement of `bytes` bytes arrives over `switches` switches, with all links at 100 Gbps.
///
/// Packets leave back to back. A switch forwards a packet when all of it or, with cut-through, its headers have arrived. The
/// last packet, which may be shorter, must wait until the one ahead of it has left; so must the last acknowledgement.
fn completion_ps(bytes: u64, switches: u64, cuts_through: bool) -> u64 {
    let packets = bytes.div_ceil(1_000);
    let last_ps = (bytes - (packets - 1) * 1_000 + 82) * 80;
    let passed = |whole_ps: u64| if cuts_through { whole_ps.min(HEADER_PS) } else { whole_ps };
    let ahead = packets.checked_sub(2);
    // When the second-to-last packet begins to leave by the link after this number of switches.
    let ahead_leaves =
        |hops: u64| ahead.map(|ahead| ahead * PACKET_PS + hops * (passed(PACKET_PS) + DELAY_PS));
    let mut leaves = (packets - 1) * PACKET_PS;
    for hops in 1..=switches {
        let ahead_gone = ahead_leaves(hops).map_or(0, |leaves| leaves + PACKET_PS);
        leaves = (leaves + passed(last_ps) + DELAY_PS).max(ahead_gone);
    }
    let ahead_answered =
        ahead_leaves(switches).map_or(0, |leaves| leaves + PACKET_PS + DELAY_PS + ACK_PS);
    let answers = (leaves + last_ps + DELAY_PS).max(ahead_answered);
    answers + switches * (passed(ACK_PS) + DELAY_PS) + ACK_PS + DELAY_PS
}

#[test]
fn the_formula_is_right_for_one_packet() {
    // One packet over one switch: twice its transmission time, twice that of its acknowledgement, four delays.
    assert_eq!(completion_ps(1_000, 1, false), 2 * 86_560 + 2 * 6_880 + 4 * 500_000);
    // With cut-through: its transmission time and that of its headers, and likewise for the acknowledgement.
    assert_eq!(completion_ps(1_000, 1, true), 86_560 + 6_560 + 6_880 + 6_560 + 4 * 500_000);
    assert_eq!(completion_ps(1_000_000, 1, false), 1_001 * 86_560 + 2 * 6_880 + 4 * 500_000);
}

#[test]
fn a_single_flow_takes_size_divided_by_rate_plus_delays_to_the_picosecond() {
    for switches in 1..=3 {
        let mut trial = Trial::new(chain(switches), vec![flow(0, 1)], 1);
        for cut_through in [false, true] {
            trial.model.switching.cut_through = cut_through;
            for bytes in [1, 4, 500, 999, 1_000, 1_001, 1_500, 2_000, 64_007, 1_000_000, 1_000_001]
            {
                trial.messages[0].bytes = bytes;
                let expected = completion_ps(bytes, switches.into(), cut_through);
                let ran = trial.run();
                assert_eq!(
                    ran.outcome().ended.as_ps(),
                    expected,
                    "{bytes} bytes, {switches} switches, cut-through {cut_through}"
                );
            }
        }
    }
}

#[test]
fn a_packet_is_not_forwarded_to_a_faster_link_before_it_has_arrived() {
    let slow = |(from, to, rate)| Cable {
        a: NodeId::new(from),
        b: NodeId::new(to),
        rate: Rate::from_gbps(rate),
        delay: DELAY,
    };
    let kinds = [NodeKind::Host, NodeKind::Host, NodeKind::Switch];
    let nodes = kinds.into_iter().zip(0..).map(|(kind, place)| node(format!("n{place}"), kind));
    let fabric = Fabric::new(nodes.collect(), &[(0, 2, 50), (1, 2, 100)].map(slow)).unwrap();
    let mut trial = Trial::new(fabric, vec![flow(0, 1), flow(1, 0)], 1_000);
    trial.model.switching.cut_through = true;
    let delays = 4 * DELAY_PS;
    // To the faster link only the whole packet is forwarded; its acknowledgement is forwarded after its headers.
    let forward = 2 * PACKET_PS + PACKET_PS + HEADER_PS + 2 * ACK_PS + delays;
    // To the slower link the packet is forwarded after its headers, at that link's rate; its acknowledgement only as a whole.
    let reverse = HEADER_PS + 2 * PACKET_PS + 2 * ACK_PS + ACK_PS + delays;
    let mut apart = trial.clone();
    apart.messages[1].start += Duration::from_us(100);
    assert_eq!(apart.run().ends(2), [forward, reverse + 100_000_000]);
}

#[test]
fn a_window_that_fills_the_path_costs_no_time_and_one_packet_less_does() {
    use hocket_packetsim::WindowRule;
    for cut_through in [false, true] {
        let mut trial = Trial::new(chain(2), vec![flow(0, 1)], 1_000_000);
        trial.model.switching.cut_through = cut_through;
        let free = trial.run().outcome().ended;
        trial.flows[0].window = WindowRule::PathFull { scaled: false };
        assert_eq!(trial.run().outcome().ended, free);
        // One packet, and the time until its acknowledgement arrives, in packet times.
        let round_trip = completion_ps(1_000, 2, cut_through);
        let packets = round_trip.div_ceil(PACKET_PS);
        trial.flows[0].window = WindowRule::Bytes(packets * 1_000);
        assert_eq!(trial.run().outcome().ended, free);
        trial.flows[0].window = WindowRule::Bytes((packets - 1) * 1_000);
        assert!(trial.run().outcome().ended > free);
    }
}
