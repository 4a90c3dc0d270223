//! Thresholds, headroom and marking of switches.

use hocket_des::{Bytes, Duration};
use hocket_packetsim::model::{Headroom, Marking, Scheduling};
use hocket_packetsim::{FlowSpec, PacketRunError, WindowRule};
use hocket_scenario::NodeKind;

use crate::common::{ACK_PS, DELAY, LINE, PACKET_PS, Trial, WIRE, at_ps, flow, star, star_around};

const PAUSE_PS: u64 = 84 * 80;

fn in_class(priority: u8, flow: FlowSpec) -> FlowSpec {
    FlowSpec { priority, ..flow }
}

/// The kind of a switch, and the packets that it forwards.
#[derive(Clone, Copy)]
struct Passing {
    kind: NodeKind,
    data: u64,
}

const BETWEEN_SERVERS: Passing = Passing { kind: NodeKind::Switch, data: 1_000 };
const INSIDE_SERVERS: Passing = Passing { kind: NodeKind::ScaleUp, data: 16_384 };

impl Passing {
    /// A full packet on the wire.
    fn wire(self) -> u64 {
        self.data + 82
    }

    fn packet_ps(self) -> u64 {
        self.wire() * 80
    }

    /// Twice this and a PAUSE frame are 2 ps more than 100 packets take.
    fn long_ps(self) -> u64 {
        (100 * self.packet_ps() - PAUSE_PS + 2) / 2
    }

    /// Host 1 sends over a long link to host 0, whose link host 2 keeps busy with a higher priority. Host 3 sends to host 1,
    /// so that a PAUSE to host 1 can find its link busy; here it does so only long after.
    fn long_link(self, headroom: Headroom) -> Trial {
        let ends = [DELAY, Duration::from_ps(self.long_ps()), DELAY, DELAY];
        let fabric = star_around(self.kind, ends.map(|delay| (LINE, delay)));
        let flows = vec![in_class(3, flow(1, 0)), in_class(0, flow(2, 0)), in_class(5, flow(3, 1))];
        let mut trial = Trial::new(fabric, flows, 3_000 * self.data);
        trial.messages[0].start = at_ps(115 * self.packet_ps());
        // Only the second of its two packets is acknowledged, since an acknowledgement would displace a packet.
        trial.messages[2].bytes = 2 * self.data;
        trial.messages[2].start = at_ps(4_600 * self.packet_ps());
        trial.model.answering.ack_every = 4;
        trial.model.switching.scheduling = Scheduling::Strict;
        trial.model.switching.headroom = headroom;
        trial.model.switching.buffer = Bytes::new(3_000 * self.data);
        trial
    }

    /// The worst case for a switch that pauses host 1: a frame to host 1 has just begun to leave.
    fn worst_case(self, headroom: Headroom) -> Trial {
        let mut trial = self.long_link(headroom);
        let ran = trial.run();
        assert!(ran.result.is_ok(), "with nothing in the way of the PAUSE there is room to spare");
        let first = ran.names("pauses", "link").iter().position(|link| link == "h1->s");
        let paused_ps = ran.integers("pauses", "at_s")[first.expect("host 1 is paused")];
        let sent_ps = paused_ps - self.long_ps() - PAUSE_PS;
        trial.messages[2].start = at_ps(sent_ps - 1 - self.packet_ps() - DELAY.as_ps());
        trial
    }
}

#[test]
fn the_published_headroom_suffices_in_the_worst_case_and_one_byte_less_does_not() {
    for passing in [BETWEEN_SERVERS, INSIDE_SERVERS] {
        // After the packet that crosses the threshold, host 1 starts packets until it receives the PAUSE, which waits for a
        // packet minus 1 ps, is transmitted, and propagates. With the packets already on the link when the threshold was
        // crossed, that is 1 ps more than 101 packet times, so 102 packets.
        let needed = 103 * passing.wire();
        let round_trip = 2 * passing.long_ps() / 80;
        assert_eq!(round_trip + 3 * passing.wire() + 84, needed, "the formula gives exactly that");

        let ran = passing.worst_case(Headroom::Computed).run();
        assert_eq!(ran.outcome().counters.losses, 0);
        let ran = passing.worst_case(Headroom::Fixed(Bytes::new(needed))).run();
        assert_eq!(ran.outcome().counters.losses, 0);
        for too_little in [needed - 1, needed - passing.wire()] {
            let ran = passing.worst_case(Headroom::Fixed(Bytes::new(too_little))).run();
            let Err(PacketRunError::LostDespitePfc { link, flow: 0, .. }) = &ran.result else {
                panic!("{:?}", ran.result)
            };
            assert_eq!(link, "h1->s");
        }
    }
}

#[test]
fn each_of_n_saturated_ingress_ports_holds_one_part_in_n_plus_eight_of_the_pool() {
    for n in [1, 2, 4, 7] {
        // Host n + 1 keeps the link to host 0 busy; the others fill the buffer until they are paused.
        let mut flows: Vec<FlowSpec> = (1..=n).map(|host| in_class(3, flow(host, 0))).collect();
        flows.push(in_class(0, flow(n + 1, 0)));
        let mut trial = Trial::new(star(n + 2), flows, 3_000_000);
        let start_ps = 5_000_000;
        trial.messages[..n as usize].iter_mut().for_each(|each| each.start = at_ps(start_ps));
        trial.model.switching.scheduling = Scheduling::Strict;
        trial.model.switching.buffer = Bytes::new(4_000_000);
        // Two classes on each port, each with a headroom of 2 × 500 ns, 3 packets and a PAUSE.
        let set_aside = u64::from(n + 2) * 2 * (12_500 + 3 * WIRE + 84 + 4_096);
        let expected = (4_000_000 - set_aside) / (8 + u64::from(n));
        let ran = trial.run();
        let links = ran.names("pauses", "link");
        for host in 1..=n {
            let row = links.iter().position(|link| *link == format!("h{host}->s"));
            let paused_ps = ran.integers("pauses", "at_s")[row.expect("every sender is paused")];
            let arriving_ps = paused_ps - PAUSE_PS - start_ps - 2 * DELAY.as_ps();
            let held = arriving_ps / PACKET_PS * WIRE - 4_096;
            // The difference is at most the packet that crosses the threshold and one that left at the very start.
            assert!(held.abs_diff(expected) <= 2 * WIRE, "{held} against {expected} of {n}");
        }
    }
}

/// The fraction of marked packets among 100,000 from two hosts, each with 100 packets in flight.
fn marked(minimum: u64, maximum: u64, probability: f64) -> f64 {
    let mut trial = Trial::incast(2, 50_000_000);
    trial.flows.iter_mut().for_each(|flow| flow.window = WindowRule::Bytes(100_000));
    trial.model.switching.buffer = Bytes::new(32_000_000);
    let (minimum, maximum) = (Bytes::new(minimum), Bytes::new(maximum));
    trial.model.switching.marking = vec![Marking { rate: LINE, minimum, maximum, probability }];
    let ran = trial.run();
    assert_eq!(ran.outcome().counters.pauses, 0);
    assert_eq!(ran.port("s->h0", "marked"), ran.outcome().counters.marks);
    ran.outcome().counters.marks as f64 / 100_000.0
}

#[test]
fn a_constant_queue_is_marked_with_the_probability_of_its_length() {
    // From the start of a packet's transmission until the arrival of the packet that its acknowledgement releases: two
    // packets, two acknowledgements, four delays. All packets that are not in flight then are in the queue.
    let round_trip = 2 * PACKET_PS + 2 * ACK_PS + 4 * DELAY.as_ps();
    let behind = (200.0 - round_trip as f64 / PACKET_PS as f64) * WIRE as f64;
    for (minimum, maximum, probability) in [
        (0, 400_000, 1.0),
        (100_000, 400_000, 1.0),
        (100_000, 300_000, 0.2),
        (150_000, 200_000, 0.5),
    ] {
        let share = (behind - minimum as f64) / (maximum - minimum) as f64;
        let (found, expected) = (marked(minimum, maximum, probability), probability * share);
        // Three standard deviations of 100,000 draws, plus the packets before the queue builds up and after it drains.
        assert!((found - expected).abs() < 0.005 + 0.004, "{found} against {expected}");
    }
}

#[test]
fn a_queue_is_never_marked_below_the_thresholds_and_always_above() {
    assert!(marked(220_000, 300_000, 1.0).abs() < 1e-12);
    let all = marked(50_000, 100_000, 0.01);
    assert!((0.996..1.0).contains(&all), "{all}");
}
