//! Queues and PAUSE frames under congestion controls, compared with their theory.

use hocket_des::{Bytes, Duration};
use hocket_packetsim::model::Marking;
use hocket_packetsim::{
    Change, FlowSpec, LinkChange, MessageSpec, PacketRunError, PathChoice, WindowRule,
};
use hocket_scenario::{Fabric, LinkId, NodeKind};
use hocket_transport::Policy;
use hocket_transport::congestion::{dcqcn, dctcp, hpcc, receiver_driven, static_window};

use crate::common::{
    ACK_PS, LINE, PACKET_PS, Trial, WIRE, at_ps, cable, clos, flow, message, node, star,
};

const STATIC: Policy = Policy::StaticWindow(static_window::Parameters { window: None });

/// The round-trip time over one switch: two packets, two acknowledgements and four delays at 100 Gbps.
const FILLING: u64 = 27_500;

fn receiver_driven() -> Policy {
    Policy::ReceiverDriven(receiver_driven::Parameters::recommended(FILLING))
}

/// Flows from each of `hosts` hosts to all others, starting with the next host.
fn all_to_all(hosts: u32, policy: usize, priority: u8) -> Vec<FlowSpec> {
    let pairs = (0..hosts).flat_map(|from| (1..hosts).map(move |on| (from, (from + on) % hosts)));
    pairs.map(|(from, to)| FlowSpec { policy, priority, ..flow(from, to) }).collect()
}

/// Asserts that `found` differs from `expected` by at most `percent` of it.
fn assert_within(found: u64, expected: u64, percent: f64) {
    let off = (found as f64 / expected as f64 - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{found} against {expected}: {off:+.2}%");
}

#[test]
fn static_windows_avoid_pauses_in_an_incast_at_full_speed() {
    let paused = Trial::incast(7, 2_000_000).run();
    assert!(paused.outcome().counters.pauses > 0);
    let calm = Trial::incast(7, 2_000_000).under(STATIC).run();
    assert_eq!(calm.outcome().counters.pauses, 0);
    assert_within(calm.outcome().ended.as_ps(), paused.outcome().ended.as_ps(), 0.1);
    // 28 packets of each flow, minus those on the links.
    assert!(calm.port("s->h0", "peak_bytes") < 7 * 28 * WIRE);
}

#[test]
fn static_windows_avoid_pauses_in_an_all_to_all_on_a_clos_at_full_speed() {
    let mut trial = Trial::new(clos(4, 8, 8), all_to_all(32, 0, 3), 1_000_000);
    trial.model.switching.buffer = Bytes::new(4 << 20);
    let paused = trial.run();
    assert!(paused.outcome().counters.pauses > 0);
    let calm = trial.under(STATIC).run();
    assert_eq!(calm.outcome().counters.pauses, 0);
    let (calm, paused) = (calm.outcome().ended.as_ps(), paused.outcome().ended.as_ps());
    assert!(calm as f64 <= 1.02 * paused as f64, "{calm} against {paused}");
}

#[test]
fn two_jobs_with_static_windows_share_a_clos_without_pauses() {
    for path in [PathChoice::Ecmp, PathChoice::Spray] {
        let mut flows = all_to_all(16, 0, 3);
        flows.extend(all_to_all(16, 1, 5));
        flows.iter_mut().for_each(|flow| flow.path = path.clone());
        let mut trial = Trial::new(clos(4, 4, 2), flows, 300_000);
        trial.policies.push(Policy::PfcOnly);
        trial.model.switching.buffer = Bytes::new(4 << 20);
        let paused = trial.run();
        assert!(paused.outcome().counters.pauses > 0);
        trial.policies = vec![STATIC, STATIC];
        assert_eq!(trial.run().outcome().counters.pauses, 0);
    }
}

#[test]
fn a_pattern_of_few_queue_pairs_gets_larger_windows_than_a_concurrent_one_of_many() {
    let mut flows = all_to_all(16, 0, 3);
    let ring = flows.len()..flows.len() + 16;
    flows.extend((0..16).map(|host| flow(host, (host + 4) % 16)));
    let mut trial = Trial::new(clos(4, 4, 2), flows, 1_000_000).under(STATIC);
    trial.model.switching.buffer = Bytes::new(2 << 20);
    let all = trial.clone();
    trial.messages.drain(..ring.start);
    let as_one = trial.run().outcome().ended;
    trial.patterns = vec![(0..ring.start).collect(), ring.collect()];
    let apart = trial.run().outcome().ended;
    assert!(apart.as_ps() * 3 < as_one.as_ps(), "{apart} against {as_one}");
    // There is no PAUSE frame either when both patterns send.
    let both = Trial { patterns: trial.patterns, ..all }.run();
    assert_eq!(both.outcome().counters.pauses, 0);
}

#[test]
fn static_windows_leave_little_of_the_buffer_unused_if_the_buffer_limits_them() {
    // Twelve flows from each of seven hosts: with x bytes of each flow, 12 x − 4,096 stays below (P − 84 x) ÷ 8.
    let flows = (0..84).map(|number| flow(1 + number % 7, 0)).collect();
    let mut trial = Trial::new(star(8), flows, 300_000).under(STATIC);
    for buffer in [700_000, 800_000, 900_000, 1_000_000] {
        trial.model.switching.buffer = Bytes::new(buffer);
        let pool = buffer - 8 * (12_500 + 3 * WIRE + 84 + 4_096);
        let each = (8 * 4_095 + pool) / (8 * 12 + 84);
        let ran = trial.run();
        assert_eq!(ran.outcome().counters.pauses, 0);
        // All windows are in the queue, except for packets that have left meanwhile and the 25 packets of a round trip.
        let window = each / WIRE;
        let elsewhere = (12 * window - 1).min(25);
        let (found, expected) = (ran.port("s->h0", "peak_bytes") / WIRE, 84 * window - elsewhere);
        assert!(found.abs_diff(expected) <= 3, "{found} packets against {expected}");
        let full_speed = (84 * 300 + 1) * PACKET_PS + 2 * ACK_PS + 4 * 500_000;
        assert_eq!(ran.outcome().ended.as_ps(), full_speed);
    }
}

#[test]
fn static_windows_let_flows_around_a_ring_complete_that_deadlock_with_pfc_alone() {
    // Each host's flow takes two of the three links of the ring.
    let host = |host| node(format!("h{host}"), NodeKind::Host);
    let switch = |switch| node(format!("s{switch}"), NodeKind::Switch);
    let nodes = (0..3).map(host).chain((0..3).map(switch)).collect();
    let cables = [cable(0, 3), cable(1, 4), cable(2, 5), cable(3, 4), cable(4, 5), cable(5, 3)];
    let fabric = Fabric::new(nodes, &cables).expect("a ring is a fabric");
    let around = |from: u32| {
        let (via, to) = ((from + 1) % 3, (from + 2) % 3);
        let names = [
            format!("h{from}->s{from}"),
            format!("s{from}->s{via}"),
            format!("s{via}->s{to}"),
            format!("s{to}->h{to}"),
        ];
        let path = names.iter().map(|name| fabric.link_named(name).expect("it is in the ring"));
        FlowSpec { path: PathChoice::Pinned(path.collect()), ..flow(from, to) }
    };
    let trial = Trial::new(fabric.clone(), (0..3).map(around).collect(), 4_000_000);
    assert!(matches!(trial.run().result, Err(PacketRunError::Deadlock { .. })));
    let ran = trial.under(STATIC).run();
    assert_eq!((ran.outcome().counters.messages, ran.outcome().counters.pauses), (3, 0));
    // Each link of the ring carries two flows and the acknowledgements of the third, and is always busy.
    let carried_ps = 4_000 * (2 * PACKET_PS + ACK_PS);
    assert_within(ran.outcome().ended.as_ps(), carried_ps, 0.5);
}

#[test]
fn a_window_given_in_the_parameters_is_used() {
    let five = Policy::StaticWindow(static_window::Parameters { window: Some(5_000) });
    let ran = Trial::incast(1, 1_000_000).under(five).run();
    // Five packets per round trip of the first of them.
    let round_trip = 2 * PACKET_PS + 2 * ACK_PS + 4 * 500_000;
    assert_within(ran.outcome().ended.as_ps(), 200 * round_trip, 0.5);
}

#[test]
fn too_many_flows_for_any_window_are_rejected_with_the_link_that_would_pause() {
    let mut trial = Trial::incast(1, 10_000).under(STATIC);
    trial.flows = vec![flow(1, 0); 300];
    trial.model.switching.buffer = Bytes::new(700_000);
    // The buffer has about 660,000 bytes besides headroom and reserves, shared by 300 flows of one port. With x bytes of each
    // flow, 300 x − 4,096 is less than (660,000 − 300 x) ÷ 8 for x up to 256, but a packet has 1,082 bytes.
    let refusal = trial.refusal();
    let expected = "no static window keeps link \"h1->s\" free of PAUSE frames; it carries the data of 300 flows \
                    and only the acknowledgements of 0: static-window: 300 flows with a packet of 1082 B each";
    assert!(refusal.starts_with(expected), "{refusal}");
    trial.flows.truncate(2);
    trial.messages.truncate(2);
    trial.model.answering.ack_every = 100;
    assert_eq!(
        trial.refusal(),
        "on link \"h1->s\", 2 flows with static windows have 27001 bytes each, less than the \
         100 packets that each acknowledgement waits for"
    );
}

#[test]
fn a_single_message_loses_no_time_waiting_for_grants() {
    let plain = Trial::incast(1, 10_000_000).run().outcome().ended;
    let granted = Trial::incast(1, 10_000_000).under(receiver_driven()).run();
    assert_eq!(granted.outcome().counters.messages, 1);
    // Grants share the path of the acknowledgements and may delay one by their own transmission time.
    assert_within(granted.outcome().ended.as_ps(), plain.as_ps(), 0.1);
}

#[test]
fn receivers_keep_their_link_busy_and_its_queue_short() {
    let ran = Trial::incast(7, 4_000_000).under(receiver_driven()).run();
    assert_eq!(ran.outcome().counters.pauses, 0);
    let busy_ps = ran.port("s->h0", "bytes") * 80;
    assert!(busy_ps as f64 > 0.95 * ran.outcome().ended.as_ps() as f64);
    // Each message may have at most 28 packets in flight.
    assert!(ran.port("s->h0", "peak_bytes") <= 7 * 28 * WIRE);
    // With round robin, no message completes long before the others.
    let ends = ran.ends(7);
    assert_within(*ends.iter().min().unwrap(), *ends.iter().max().unwrap(), 1.0);
}

#[test]
fn messages_of_all_lengths_are_granted_completely() {
    let mut trial = Trial::new(clos(2, 4, 2), all_to_all(8, 0, 3), 1).under(receiver_driven());
    trial.model.answering.ack_every = 4;
    for (number, each) in trial.messages.iter_mut().enumerate() {
        each.bytes = [1, 999, 27_999, 28_001, 300_500][number % 5];
    }
    let again: Vec<_> = trial.messages.iter().map(|each| message(each.flow, 61_803)).collect();
    trial.messages.extend(again);
    for path in [PathChoice::Ecmp, PathChoice::Spray] {
        trial.flows.iter_mut().for_each(|flow| flow.path = path.clone());
        assert_eq!(trial.run().outcome().counters.messages, 2 * 56);
    }
}

#[test]
fn lost_packets_are_retransmitted_within_the_credit_already_granted() {
    let mut trial = Trial::incast(7, 1_000_000).under(receiver_driven());
    trial.model.switching.pfc = false;
    trial.model.switching.buffer = Bytes::new(250_000);
    let ran = trial.run();
    let counters = &ran.outcome().counters;
    assert!(counters.losses > 0 && counters.retransmissions > 0, "{counters:?}");
    assert_eq!(counters.messages, 7);
}

#[test]
fn grants_lost_on_a_failing_link_are_sent_again() {
    // One packet at a time, so that often only a grant is in flight; a cycle takes 2.3 µs.
    let parameters =
        receiver_driven::Parameters { unsolicited: 0, overcommitment: 1, outstanding: 1_000 };
    for step in 0..25 {
        let mut trial = Trial::incast(1, 20_000).under(Policy::ReceiverDriven(parameters));
        trial.model.retransmit_timeout = Duration::from_us(100);
        let change = |at_ns: u64, change| LinkChange {
            at: at_ps(at_ns * 1_000),
            link: LinkId::new(0),
            change,
        };
        let start_ns = 10_000 + 100 * step;
        trial.changes = vec![change(start_ns, Change::Down), change(start_ns + 2_000, Change::Up)];
        assert_eq!(trial.run().outcome().counters.messages, 1, "after {start_ns} ns");
    }
}

#[test]
fn receiver_driven_and_dcqcn_jobs_share_a_fabric() {
    let mut flows = all_to_all(8, 0, 3);
    flows.extend(all_to_all(8, 1, 5));
    let mut trial = Trial::new(clos(2, 4, 2), flows, 500_000);
    let dcqcn = Policy::Dcqcn(dcqcn::Parameters::recommended(LINE));
    trial.policies = vec![receiver_driven(), dcqcn];
    let (minimum, maximum) = (Bytes::new(40_000), Bytes::new(160_000));
    trial.model.switching.marking =
        vec![Marking { rate: LINE, minimum, maximum, probability: 0.2 }];
    let later = |each: &MessageSpec| MessageSpec { start: at_ps(50_000_000), ..*each };
    trial.messages.extend(trial.messages.clone().iter().map(later));
    let ran = trial.run();
    let counters = &ran.outcome().counters;
    assert_eq!(counters.messages, 4 * 56);
    assert_eq!(counters.rate_cuts[0], 0);
    assert!(counters.rate_cuts[1] > 0);
}

/// The queue for the link to host 0 in bytes, at every microsecond between two times, and the utilisation of that link
/// between them.
fn queue_and_use(trial: &Trial, from_us: u64, until_us: u64) -> (Vec<u64>, f64) {
    let run_until = |us: u64| {
        let mut trial = trial.clone();
        trial.options.until = Some(at_ps(us * 1_000_000));
        trial.options.sample_every = Some(Duration::from_us(1));
        trial.run()
    };
    let (before, ran) = (run_until(from_us), run_until(until_us));
    let carried = ran.port("s->h0", "bytes") - before.port("s->h0", "bytes");
    let could = (until_us - from_us) * 1_000_000 / 80;
    let (times, bytes) = (ran.integers("queues", "at_s"), ran.integers("queues", "bytes"));
    let links = ran.names("queues", "link");
    let rows = times.iter().zip(bytes).zip(&links).filter(|(_, link)| *link == "s->h0");
    let mut steps = rows.map(|((time, bytes), _)| (time / 1_000_000, bytes)).peekable();
    let mut last = 0;
    let mut queue = Vec::new();
    for us in 0..until_us {
        while let Some((_, bytes)) = steps.next_if(|step| step.0 <= us) {
            last = bytes;
        }
        if us >= from_us {
            queue.push(last);
        }
    }
    (queue, carried as f64 / could as f64)
}

#[test]
fn hpcc_has_almost_no_queue_and_nearly_full_utilisation() {
    // SIGCOMM'19: a target of 95%, and a queue only while flows start.
    for senders in [2, 4, 8] {
        let policy = Policy::Hpcc(hpcc::Parameters::recommended(LINE));
        let mut trial = Trial::incast(senders, 200_000_000).under(policy);
        let window = WindowRule::PathFull { scaled: true };
        trial.flows.iter_mut().for_each(|flow| flow.window = window);
        let (queue, used) = queue_and_use(&trial, 1_000, 3_000);
        let mean = queue.iter().sum::<u64>() / queue.len() as u64;
        let (packet, most) = (1_124, queue.iter().max().copied());
        assert!(mean <= 2 * packet, "a mean of {mean} bytes");
        assert!(most <= Some(u64::from(senders) * packet), "{most:?} bytes of {senders} flows");
        assert!((0.93..0.96).contains(&used), "{used} of the link");
    }
}

#[test]
fn dctcps_queue_oscillates_around_the_threshold_with_the_link_fully_used() {
    // The amplitude in SIGCOMM'10 section 3.3 is that of a window, which this rate-based form does not have. What both have
    // in common is that K determines the queue.
    for senders in [2, 4] {
        for threshold in [65_000, 150_000] {
            let policy = Policy::Dctcp(dctcp::Parameters::recommended(LINE));
            let mut trial = Trial::incast(senders, 400_000_000).under(policy);
            trial.model.switching.buffer = Bytes::new(32_000_000);
            let (minimum, maximum) = (Bytes::new(threshold), Bytes::new(threshold));
            trial.model.switching.marking =
                vec![Marking { rate: LINE, minimum, maximum, probability: 1.0 }];
            let (queue, used) = queue_and_use(&trial, 3_000, 6_000);
            let crossings =
                queue.windows(2).filter(|pair| pair[0] <= threshold && pair[1] > threshold).count();
            assert!(crossings >= 8, "the queue rose above {threshold} bytes {crossings} times");
            let most = queue.iter().max().copied();
            assert!(most <= Some(2 * threshold + FILLING), "{most:?} bytes at K = {threshold}");
            assert!(used > 0.95, "{used} of the link");
        }
    }
}
