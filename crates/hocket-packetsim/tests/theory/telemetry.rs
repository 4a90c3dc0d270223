//! What a run records, how it ends, and what its own checks find.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::ControlFlow;

use hocket_des::{Bytes, Duration, Time};
use hocket_packetsim::model::{Headroom, Marking, Notification};
use hocket_packetsim::{
    Change, FlowSpec, LinkChange, MessageSpec, PacketRunError, PacketStatus, PathChoice,
};
use hocket_scenario::{Fabric, LinkId, Node, NodeKind, Observer, Progress, Table};
use hocket_transport::Policy;
use hocket_transport::congestion::{dcqcn, dctcp, hpcc, timely};
use proptest::prelude::*;

use crate::common::{ACK_PS, LINE, PACKET_PS, Trial, cable, flow, message, node, star};

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?} against {expected:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-15, "{found} against {expected}");
    }
}

/// A thousand packets one after another, the last of them once more over the second link, then its acknowledgement
/// over two: each of the four links adds its delay.
const ALONE_PS: u64 = 1_001 * PACKET_PS + 2 * ACK_PS + 4 * 500_000;

#[test]
fn every_column_of_one_message_over_one_switch_can_be_worked_out_by_hand() {
    let ran = Trial::new(star(2), vec![flow(0, 1)], 1_000_000).run();
    assert_eq!(ran.integers("flows", "flow"), [0]);
    assert_eq!(ran.names("flows", "job"), [""]);
    assert_eq!(ran.names("flows", "src"), ["h0"]);
    assert_eq!(ran.names("flows", "dst"), ["h1"]);
    assert_eq!(ran.integers("flows", "bytes"), [1_000_000]);
    assert_eq!(ran.integers("flows", "start_s"), [0]);
    assert_eq!(ran.integers("flows", "end_s"), [ALONE_PS]);
    assert_close(&ran.seconds("flows", "fct_s"), &[88_660_320e-12]);
    for nothing in ["marks", "cnps", "rate_cuts", "retransmissions"] {
        assert_eq!(ran.integers("flows", nothing), [0], "{nothing}");
    }

    // A thousand packets forth, a thousand acknowledgements back; what a host holds back is no queue.
    assert_eq!(ran.names("ports", "link"), ["h0->s", "s->h0", "h1->s", "s->h1"]);
    assert_eq!(ran.integers("ports", "packets"), [1_000; 4]);
    assert_eq!(ran.integers("ports", "bytes"), [1_082_000, 86_000, 86_000, 1_082_000]);
    assert_eq!(ran.integers("ports", "peak_bytes"), [0, 86, 0, 1_082]);
    assert_eq!(ran.integers("ports", "marked"), [0; 4]);
    assert_eq!(ran.integers("ports", "pauses"), [0; 4]);
    assert_close(&ran.seconds("ports", "paused_s"), &[0.0; 4]);
    assert_eq!(ran.names("switches", "switch"), ["s"]);
    let tables: Vec<_> = ran.tables.keys().copied().collect();
    assert_eq!(tables, ["flows", "ports", "switches"], "tables without rows do not come");

    let outcome = ran.outcome();
    assert_eq!((outcome.status, outcome.ended), (PacketStatus::Complete, Time::from_ps(ALONE_PS)));
    assert_eq!((outcome.counters.packet_hops, outcome.counters.messages), (4_000, 1));
    assert_eq!(outcome.counters.rate_cuts, [0]);
}

#[test]
fn messages_of_one_flow_follow_one_another_and_have_a_row_each() {
    let mut trial = Trial::new(star(2), vec![flow(0, 1)], 1_000);
    trial.messages = vec![message(0, 1_000), message(0, 2_000)];
    let ran = trial.run();
    let round = |packets: u64| (packets + 1) * PACKET_PS + 2 * ACK_PS + 2_000_000;
    assert_eq!(ran.integers("flows", "bytes"), [1_000, 2_000]);
    assert_eq!(ran.integers("flows", "end_s"), [round(1), round(3)]);
}

#[test]
fn a_port_is_paused_from_its_pause_frame_to_its_resume_frame() {
    let ran = Trial::incast(4, 2_000_000).run();
    let times = ran.integers("pauses", "at_s");
    let links = ran.names("pauses", "link");
    let pauses = ran.integers("pauses", "pause");
    assert!(ran.integers("pauses", "priority").iter().all(|&priority| priority == 3));
    #[derive(Default)]
    struct Paused {
        frames: u64,
        span: u64,
        since: Option<u64>,
    }
    let mut paused: BTreeMap<&str, Paused> = BTreeMap::new();
    for ((&time, link), &pause) in times.iter().zip(&links).zip(&pauses) {
        let Paused { frames, span, since } = paused.entry(link).or_default();
        if pause == 1 {
            *frames += 1;
            since.get_or_insert(time);
        } else {
            *span += since.take().map_or(0, |since| time - since);
        }
    }
    assert_eq!(paused.len(), 4, "every sender is told to stop");
    assert_eq!(ran.names("paused", "link"), ["h1->s", "h2->s", "h3->s", "h4->s"]);
    assert_eq!(ran.integers("paused", "priority"), [3; 4]);
    let frames: Vec<u64> = paused.values().map(|each| each.frames).collect();
    let spans: Vec<f64> = paused.values().map(|each| each.span as f64 * 1e-12).collect();
    assert!(paused.values().all(|each| each.since.is_none()), "all may send at the end");
    assert_eq!(ran.integers("paused", "pauses"), frames);
    assert_close(&ran.seconds("paused", "paused_s"), &spans);
    assert_eq!(ran.outcome().counters.pauses, frames.iter().sum::<u64>());
    // Four send to one: each stands still for about three quarters of the time.
    let ended_s = ran.outcome().ended.as_secs_f64();
    assert!(
        spans.iter().all(|span| (0.6..0.8).contains(&(span / ended_s))),
        "{spans:?} of {ended_s}"
    );
}

#[test]
fn a_port_that_is_paused_at_the_end_counts_until_then() {
    let mut trial = Trial::incast(4, 2_000_000);
    let all = trial.run();
    let first_ps = all.integers("pauses", "at_s")[0];
    trial.options.until = Some(Time::from_ps(first_ps + 1_000));
    let ran = trial.run();
    assert_eq!(ran.outcome().status, PacketStatus::Stopped);
    let longest = ran.seconds("paused", "paused_s").into_iter().fold(0.0, f64::max);
    assert_close(&[longest], &[1_000e-12]);
}

/// DCQCN whose flows are marked and cut.
fn marked_incast(adaptive: bool) -> Trial {
    let mut trial = Trial::incast(4, 2_000_000);
    let marking = Marking {
        rate: LINE,
        minimum: Bytes::new(20_000),
        maximum: Bytes::new(80_000),
        probability: 0.2,
    };
    trial.model.switching.marking = vec![marking];
    let recommended = dcqcn::Parameters::recommended(LINE);
    trial.policies = vec![Policy::Dcqcn(dcqcn::Parameters { adaptive, ..recommended })];
    trial.model.notification =
        Notification::Packets { interval: Duration::from_us(50), priority: 0 };
    trial
}

#[test]
fn sampling_changes_nothing_but_what_is_recorded() {
    for adaptive in [false, true] {
        let mut trial = marked_incast(adaptive);
        let plain = trial.run();
        trial.options.sample_every = Some(Duration::from_ns(700));
        let sampled = trial.run();
        for same in ["flows", "pauses", "ports", "paused", "switches"] {
            assert_eq!(plain.tables.get(same), sampled.tables.get(same), "{same}");
        }
        assert_eq!(plain.outcome().ended, sampled.outcome().ended);
        assert!(plain.outcome().counters.rate_cuts[0] > 0);
        assert!(sampled.integers("rates", "rate_bps").len() > 20);
    }
}

#[test]
fn marks_notifications_and_cuts_of_flows_add_up_to_those_of_the_run() {
    let ran = marked_incast(false).run();
    let counters = &ran.outcome().counters;
    let sum = |column| ran.integers("flows", column).iter().sum::<u64>();
    assert_eq!(sum("marks"), counters.marks);
    assert_eq!(sum("marks"), ran.integers("ports", "marked").iter().sum::<u64>());
    assert_eq!(sum("cnps"), counters.cnps);
    assert!(counters.cnps > 0 && counters.cnps <= counters.marks);
    assert_eq!(sum("rate_cuts"), counters.rate_cuts[0]);
}

#[test]
fn a_sampled_queue_grows_by_what_comes_in_faster_than_it_leaves() {
    // Two hosts at line rate into one: the queue takes a packet for each that leaves.
    let mut trial = Trial::incast(2, 100_000);
    trial.options.sample_every = Some(Duration::from_us(2));
    let ran = trial.run();
    let (times, bytes) = (ran.integers("queues", "at_s"), ran.integers("queues", "bytes"));
    assert!(ran.names("queues", "link").iter().all(|link| link == "s->h0"));
    // Packet k of each host has arrived at 500 + k × 86.56 ns: 17 each by 2 µs. The first left when it came, and 16 more
    // after it.
    assert_eq!((times[0], bytes[0]), (2_000_000, (2 * 17 - 17) * 1_082));
    assert_eq!(bytes.last(), Some(&0), "a step down to nothing is a change");
    assert_eq!(ran.integers("switch_queues", "bytes"), bytes);
    let rows: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]) % 2_000_000).collect();
    assert!(rows.iter().all(|&rest| rest == 0));
}

#[test]
fn what_samples_say_links_carried_is_what_ports_sent() {
    let mut trial = Trial::incast(2, 100_000);
    trial.options.sample_every = Some(Duration::from_us(3));
    let ran = trial.run();
    let mut carried: BTreeMap<String, u64> = BTreeMap::new();
    for (link, bytes) in
        ran.names("utilisation", "link").into_iter().zip(ran.integers("utilisation", "bytes"))
    {
        *carried.entry(link).or_default() += bytes;
    }
    let sent = ran.names("ports", "link").into_iter().zip(ran.integers("ports", "bytes")).collect();
    assert_eq!(ran.outcome().counters.pauses, 0, "PAUSE frames would make a difference");
    assert_eq!(carried, sent);
}

#[test]
fn a_flow_has_no_rate_once_all_is_acknowledged() {
    let mut trial = Trial::new(star(2), vec![flow(0, 1)], 1_000_000);
    trial.options.sample_every = Some(Duration::from_us(10));
    let ran = trial.run();
    assert_eq!(ran.integers("rates", "rate_bps"), [LINE.as_bps(), 0]);
    assert_eq!(ran.integers("rates", "at_s"), [10_000_000, 90_000_000]);
}

#[test]
fn what_happens_at_the_given_end_still_happens_and_nothing_after() {
    let mut trial = Trial::new(star(2), vec![flow(0, 1)], 1_000_000);
    trial.options.until = Some(Time::from_ps(ALONE_PS));
    let at_the_end = trial.run();
    assert_eq!(at_the_end.outcome().status, PacketStatus::Complete);
    trial.options.until = Some(Time::from_ps(ALONE_PS - 1));
    let before = trial.run();
    assert_eq!(before.outcome().status, PacketStatus::Stopped);
    assert_eq!(before.outcome().ended, Time::from_ps(ALONE_PS - 1));
    assert!(before.integers("flows", "flow").is_empty());
    trial.options.until = Some(Time::from_ps(u64::MAX));
    assert_eq!(trial.run().outcome().ended, Time::from_ps(ALONE_PS));
}

/// Ends the run when so many messages are done.
struct Impatient {
    enough: u64,
    tables: Vec<Table>,
    seen: Vec<Progress>,
}

impl Observer for Impatient {
    fn on_table(&mut self, rows: Table) {
        self.tables.push(rows);
    }

    fn on_progress(&mut self, at: &Progress) -> ControlFlow<()> {
        self.seen.push(*at);
        if at.done >= self.enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn an_interrupted_run_hands_over_what_was_done() {
    let mut trial = Trial::incast(3, 100_000);
    trial.messages.extend(
        (0..3).map(|flow| MessageSpec { start: Time::from_ps(1 << 30), ..message(flow, 900_000) }),
    );
    trial.options.progress_every = NonZeroU64::new(100).unwrap();
    let mut observer = Impatient { enough: 3, tables: Vec::new(), seen: Vec::new() };
    let outcome = trial.run_before(&mut observer).unwrap();
    assert_eq!(outcome.status, PacketStatus::Interrupted);
    assert_eq!(outcome.counters.messages, 3);
    let last = observer.seen[observer.seen.len() - 1];
    assert_eq!((last.time, last.done, last.total), (outcome.ended, 3, Some(6)));
    assert!(observer.seen.windows(2).all(|pair| pair[1].events - pair[0].events == 100));
    let names: Vec<_> = observer.tables.iter().map(|table| (table.name, table.rows())).collect();
    assert_eq!(names[0], ("flows", 3));
    assert!(names.contains(&("switches", 1)), "{names:?}");
}

#[test]
fn rows_come_while_the_run_goes_on_and_are_the_same_together() {
    struct Sizes(Vec<usize>);
    impl Observer for Sizes {
        fn on_table(&mut self, rows: Table) {
            self.0.extend((rows.name == "queues").then(|| rows.rows()));
        }
    }
    let mut trial = Trial::incast(2, 30_000_000);
    trial.options.sample_every = Some(Duration::from_ns(40));
    trial.options.record.rates = false;
    trial.options.record.utilisation = false;
    let mut sizes = Sizes(Vec::new());
    trial.run_before(&mut sizes).unwrap();
    assert!(sizes.0.len() > 1, "{:?}", sizes.0);
    assert!(sizes.0.iter().all(|&rows| rows <= 1 << 16), "{:?}", sizes.0);
}

#[test]
fn rows_that_nobody_wants_are_not_kept() {
    let mut trial = Trial::incast(4, 2_000_000);
    trial.options.record.messages = false;
    trial.options.record.pauses = false;
    let ran = trial.run();
    assert!(ran.outcome().counters.pauses > 0);
    assert_eq!(ran.tables.keys().copied().collect::<Vec<_>>(), ["paused", "ports", "switches"]);
}

#[test]
fn a_headroom_of_nothing_is_found_out_by_the_first_packet_it_loses() {
    let mut trial = Trial::incast(4, 2_000_000);
    trial.model.switching.headroom = Headroom::Fixed(Bytes::new(0));
    let ran = trial.run();
    let PacketRunError::LostDespitePfc { link, flow, .. } = ran.error() else {
        panic!("{}", ran.error())
    };
    assert_eq!(*link, format!("h{}->s", flow + 1));
    assert!(!ran.integers("ports", "bytes").is_empty(), "what was recorded is handed over");
}

#[test]
fn without_pfc_losses_are_counted_and_sent_again() {
    let mut trial = Trial::incast(4, 1_000_000);
    trial.model.switching.pfc = false;
    trial.model.switching.buffer = Bytes::new(300_000);
    let ran = trial.run();
    let counters = &ran.outcome().counters;
    assert_eq!((ran.outcome().status, counters.messages), (PacketStatus::Complete, 4));
    assert!(counters.losses > 0 && counters.retransmissions > 0, "{counters:?}");
    let by_flow: u64 = ran.integers("flows", "retransmissions").iter().sum();
    assert_eq!(by_flow, counters.retransmissions);
}

/// Three switches in a ring with a host each, and flows that go two of its three links on: `h0` by `s0`, `s1`, `s2`
/// to `h2`, and so on. A fourth switch joins hosts `h3` and `h4`.
fn ring(flows: usize) -> Trial {
    let mut nodes: Vec<Node> =
        (0..5).map(|host| node(format!("h{host}"), NodeKind::Host)).collect();
    nodes.extend((0..4).map(|switch| node(format!("s{switch}"), NodeKind::Switch)));
    let hosts = [cable(0, 5), cable(1, 6), cable(2, 7), cable(3, 8), cable(4, 8)];
    let links = [cable(5, 6), cable(6, 7), cable(7, 5)];
    let fabric =
        Fabric::new(nodes, &[&hosts[..], &links[..]].concat()).expect("a ring is a fabric");
    let link = |name: String| fabric.link_named(&name).expect("the ring has this link");
    let around = |from: usize| {
        let (via, to) = ((from + 1) % 3, (from + 2) % 3);
        let path = vec![
            link(format!("h{from}->s{from}")),
            link(format!("s{from}->s{via}")),
            link(format!("s{via}->s{to}")),
            link(format!("s{to}->h{to}")),
        ];
        FlowSpec { path: PathChoice::Pinned(path), ..flow(from as u32, to as u32) }
    };
    let flows = (0..flows).map(around).collect();
    Trial::new(fabric, flows, 4_000_000)
}

#[test]
fn three_flows_around_a_ring_stop_each_other_for_good() {
    let ran = ring(3).run();
    let PacketRunError::Deadlock { time, cycle } = ran.error() else { panic!("{}", ran.error()) };
    assert_eq!(cycle, &["s0->s1", "s1->s2", "s2->s0"]);
    assert!(*time < Time::ZERO + Duration::from_ms(1), "{time}");
    assert_eq!(ran.names("ports", "link").len(), 3 * 4, "what was recorded is handed over");
}

#[test]
fn two_flows_around_a_ring_and_three_by_the_short_way_come_through() {
    assert_eq!(ring(2).run().outcome().status, PacketStatus::Complete);
    let mut trial = ring(3);
    trial.flows.iter_mut().for_each(|flow| flow.path = PathChoice::Ecmp);
    assert_eq!(trial.run().outcome().status, PacketStatus::Complete);
}

#[test]
fn a_deadlock_is_found_while_others_go_on() {
    let mut trial = ring(3);
    trial.flows.push(flow(3, 4));
    // 25 ms at line rate.
    trial.messages.push(message(3, 288_000_000));
    let ran = trial.run();
    let PacketRunError::Deadlock { time, cycle } = ran.error() else { panic!("{}", ran.error()) };
    assert_eq!(cycle.len(), 3);
    let (earliest, latest) = (Duration::from_ms(10), Duration::from_ms(15));
    assert!((Time::ZERO + earliest..Time::ZERO + latest).contains(time), "{time}");
}

#[test]
fn a_deadlock_does_not_pass_for_a_run_that_was_stopped() {
    let mut trial = ring(3);
    trial.options.until = Some(Time::ZERO + Duration::from_ms(1));
    trial.flows.push(flow(3, 4));
    trial.messages.push(message(3, 288_000_000));
    assert!(matches!(trial.run().error(), PacketRunError::Deadlock { .. }));
    trial.messages.remove(0);
    assert_eq!(trial.run().outcome().status, PacketStatus::Stopped);
}

#[test]
fn a_flow_whose_only_link_failed_is_named_with_what_it_has_left() {
    let mut trial = Trial::new(star(2), vec![flow(0, 1)], 1_000_000);
    let at = Time::ZERO + Duration::from_us(50);
    trial.changes.push(LinkChange { at, link: LinkId::new(2), change: Change::Down });
    let ran = trial.run();
    let PacketRunError::Stalled { flow, from, to, left, bytes, .. } = ran.error() else {
        panic!("{}", ran.error())
    };
    assert_eq!((*flow, from.as_str(), to.as_str(), *bytes), (0, "h0", "h1", 1_000_000));
    assert!((1..1_000_000).contains(left), "{left}");
}

#[test]
fn what_makes_no_sense_is_refused_before_the_run_starts() {
    let refusal = |change: &dyn Fn(&mut Trial)| {
        let mut trial = Trial::new(star(2), vec![flow(0, 1)], 1_000);
        change(&mut trial);
        trial.refusal()
    };
    assert_eq!(
        refusal(&|trial| trial.messages.push(message(4, 10))),
        "message 2 is of flow 4; there are 1, counted from 0"
    );
    assert_eq!(
        refusal(&|trial| trial.messages[0].bytes = 0),
        "message 1, of flow 0, has 0 bytes; it must have at least 1"
    );
    assert_eq!(
        refusal(&|trial| trial.flows[0].policy = 2),
        "flow 0 has policy 2; there are 1, counted from 0"
    );
    assert_eq!(
        refusal(&|trial| trial.options.sample_every = Some(Duration::ZERO)),
        "samples every 0 ps; it must be above 0 ps"
    );
}

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::PfcOnly),
        Just(Policy::Dcqcn(dcqcn::Parameters::recommended(LINE))),
        Just(Policy::Dctcp(dctcp::Parameters::recommended(LINE))),
        Just(Policy::Timely(timely::Parameters::recommended(LINE))),
        Just(Policy::Hpcc(hpcc::Parameters::recommended(LINE))),
    ]
}

prop_compose! {
    /// Messages among four hosts around a switch with a small buffer.
    fn any_trial()(
        policy in any_policy(),
        pfc in any::<bool>(),
        ends in prop::collection::vec((0_u32..4, 1_u32..4, 0_u8..8), 1..8),
        sizes in prop::collection::vec((0_usize..8, 1_u64..300_000, 0_u64..50), 1..12),
    ) -> Trial {
        let flows: Vec<FlowSpec> = ends
            .into_iter()
            .map(|(from, on, priority)| FlowSpec { priority, ..flow(from, (from + on) % 4) })
            .collect();
        let mut trial = marked_incast(false);
        trial.fabric = star(4);
        trial.policies = vec![policy];
        trial.model.switching.pfc = pfc;
        trial.model.switching.buffer = Bytes::new(1_200_000);
        trial.messages = sizes
            .into_iter()
            .map(|(of, bytes, start_us)| MessageSpec {
                start: Time::ZERO + Duration::from_us(start_us),
                ..message(of % flows.len(), bytes)
            })
            .collect();
        trial.flows = flows;
        trial
    }
}

proptest! {
    // The run itself checks that bytes, buffers and links add up.
    #[test]
    fn wherever_a_run_is_stopped_everything_adds_up(trial in any_trial(), part in 0.0..1.0_f64) {
        let mut trial = trial;
        let whole = trial.run();
        prop_assert_eq!(whole.outcome().status, PacketStatus::Complete);
        prop_assert_eq!(whole.outcome().counters.messages, trial.messages.len() as u64);
        let until_ps = (whole.outcome().ended.as_ps() as f64 * part) as u64;
        trial.options.until = Some(Time::from_ps(until_ps));
        trial.options.sample_every = Some(Duration::from_us(3));
        let stopped = trial.run();
        prop_assert_eq!(stopped.outcome().ended, Time::from_ps(until_ps));
        // Samples and the end change nothing about what came before.
        let ends = stopped.integers("flows", "end_s");
        prop_assert_eq!(&ends[..], &whole.integers("flows", "end_s")[..ends.len()]);
        let later = whole.integers("flows", "end_s")[ends.len()..].iter().all(|&end| end > until_ps);
        prop_assert!(later);
    }
}
