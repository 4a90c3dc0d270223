//! Several senders, one switch, one receiver: completion times of HPCC and TIMELY equal those of astra-network-ns3 (8fd3604)
//! to the nanosecond. Nothing is random, so a control that differed in a single rounding would soon diverge.
//!
//! The network is as simple as possible and follows that simulator: transmission times are rounded to nanoseconds, events of
//! the same nanosecond come out in the order scheduled, and no buffer is ever full.

use std::collections::VecDeque;

use hocket_des::{Duration, EventQueue, Rate, Time};
use hocket_transport::congestion::{hpcc, timely};
use hocket_transport::telemetry::{Format, Hop, RateCode};
use hocket_transport::{Ack, Control, Path, PhaseProgress, Policy};

const MESSAGE: u64 = 10_000_000;
const PAYLOAD: u64 = 1_000;

/// One switch with identical links.
struct Network {
    senders: usize,
    rate: Rate,
    delay: Duration,
    base_rtt: Duration,
    window: u64,
}

/// The properties of frames that depend on the policy.
struct Frames {
    header: u64,
    acknowledgement: u64,
    windowed: bool,
    telemetry_unit: u64,
}

#[derive(Clone, Copy)]
struct Packet {
    flow: usize,
    is_ack: bool,
    end: u64,
    wire: u64,
    stamp: Time,
    hop: Hop,
}

enum Event {
    Arrival {
        at_switch: bool,
        packet: Packet,
    },
    PortFree(usize),
    /// Pacing allows the next packet; outdated if the generation is not the latest.
    Wake {
        sender: usize,
        generation: u32,
    },
}

#[derive(Default)]
struct Port {
    queue: VecDeque<Packet>,
    queued_bytes: u64,
    sent_bytes: u64,
    busy: bool,
}

struct Sender {
    control: Control,
    sent: u64,
    acknowledged: u64,
    next_send: Time,
    last_wire: u64,
    wake: Option<Time>,
    generation: u32,
    finished: Option<Time>,
}

struct Run {
    network: Network,
    frames: Frames,
    policy: Policy,
    path: Path,
    format: Format,
    code: RateCode,
    events: EventQueue<Event>,
    now: Time,
    senders: Vec<Sender>,
    /// Of each sender, of the receiver, of the switch towards the receiver and towards each sender.
    ports: Vec<Port>,
}

impl Run {
    fn new(network: Network, frames: Frames, policy: Policy) -> Self {
        let path =
            Path { line_rate: network.rate, base_rtt: network.base_rtt, window: network.window };
        let format = Format::new([network.rate], frames.telemetry_unit).expect("one rate fits");
        let code = format.code(network.rate).expect("a rate of the fabric");
        let senders = (0..network.senders)
            .map(|_| Sender {
                control: Control::new(&policy, &path),
                sent: 0,
                acknowledged: 0,
                next_send: Time::ZERO,
                last_wire: 0,
                wake: None,
                generation: 0,
                finished: None,
            })
            .collect();
        let ports = (0..2 * network.senders + 2).map(|_| Port::default()).collect();
        let events = EventQueue::default();
        let now = Time::ZERO;
        Self { network, frames, policy, path, format, code, events, now, senders, ports }
    }

    fn receiver(&self) -> usize {
        self.network.senders
    }

    fn down(&self) -> usize {
        self.network.senders + 1
    }

    /// Completion times of all flows, in nanoseconds.
    fn completion_times_ns(mut self) -> Vec<u64> {
        for sender in 0..self.network.senders {
            self.look(sender);
        }
        while self.senders.iter().any(|sender| sender.finished.is_none()) {
            let (at, event) = self.events.pop().expect("flows that are not done have events");
            self.now = at;
            match event {
                Event::PortFree(port) => {
                    self.ports[port].busy = false;
                    self.look(port);
                }
                Event::Wake { sender, generation } => {
                    if generation == self.senders[sender].generation {
                        self.senders[sender].wake = None;
                        self.look(sender);
                    }
                }
                Event::Arrival { at_switch: true, packet } => {
                    let towards = if packet.is_ack { packet.flow + 1 } else { 0 };
                    self.enqueue(self.down() + towards, packet);
                }
                Event::Arrival { packet, .. } if packet.is_ack => self.take_ack(&packet),
                Event::Arrival { packet, .. } => {
                    let wire = self.frames.acknowledgement;
                    self.enqueue(self.receiver(), Packet { is_ack: true, wire, ..packet });
                }
            }
        }
        let finish = |sender: &Sender| sender.finished.map_or(0, |time| time.as_ps() / 1_000);
        self.senders.iter().map(finish).collect()
    }

    fn enqueue(&mut self, port: usize, packet: Packet) {
        self.ports[port].queued_bytes += packet.wire;
        self.ports[port].queue.push_back(packet);
        self.look(port);
    }

    /// Begins to send the next packet, if there is one and the port is free.
    fn look(&mut self, port: usize) {
        if self.ports[port].busy {
            return;
        }
        let packet = if port < self.network.senders { self.data(port) } else { self.dequeue(port) };
        let Some(packet) = packet else { return };
        self.ports[port].busy = true;
        let sent = self.now + gap(packet.wire, self.network.rate.as_bps());
        self.events.schedule(sent, Event::PortFree(port));
        let at_switch = port <= self.receiver();
        self.events.schedule(sent + self.network.delay, Event::Arrival { at_switch, packet });
    }

    fn dequeue(&mut self, index: usize) -> Option<Packet> {
        let port = &mut self.ports[index];
        let mut packet = port.queue.pop_front()?;
        port.queued_bytes -= packet.wire;
        if !packet.is_ack {
            packet.hop = self.format.hop(self.now, port.sent_bytes, port.queued_bytes, self.code);
        }
        port.sent_bytes += packet.wire;
        Some(packet)
    }

    fn data(&mut self, flow: usize) -> Option<Packet> {
        let sender = &mut self.senders[flow];
        if sender.sent == MESSAGE {
            return None;
        }
        let rate = sender.control.rate_bps();
        if sender.next_send > self.now {
            // Also while the window is closed, since that determines the order of wakes in the same nanosecond.
            if sender.wake.is_none() {
                self.wake_at(flow, self.senders[flow].next_send);
            }
            return None;
        }
        let window = self.network.window * rate / self.network.rate.as_bps();
        let blocked = self.frames.windowed && sender.sent - sender.acknowledged >= window.max(1);
        if blocked {
            return None;
        }
        let wire = PAYLOAD + self.frames.header;
        sender.sent += PAYLOAD;
        sender.last_wire = wire;
        sender.next_send = self.now + gap(wire, rate);
        let (end, stamp) = (sender.sent, self.now);
        Some(Packet { flow, is_ack: false, end, wire, stamp, hop: Hop::default() })
    }

    fn wake_at(&mut self, flow: usize, at: Time) {
        let sender = &mut self.senders[flow];
        sender.wake = Some(at);
        sender.generation += 1;
        self.events.schedule(at, Event::Wake { sender: flow, generation: sender.generation });
    }

    fn take_ack(&mut self, packet: &Packet) {
        let sender = &mut self.senders[packet.flow];
        sender.acknowledged = packet.end;
        let before = sender.control.rate_bps();
        let ack = Ack {
            now: self.now,
            acknowledged: packet.end,
            sent: sender.sent,
            marked: false,
            stamp: packet.stamp,
            telemetry: &[packet.hop],
            format: &self.format,
            load: 0,
        };
        sender.control.catch_up(&self.policy, &self.path, self.now, PhaseProgress::default());
        sender.control.on_ack(&self.policy, &self.path, &ack);
        let after = sender.control.rate_bps();
        if before != after && Control::moves_next_send(&self.policy) {
            let moved = sender.next_send + gap(sender.last_wire, after);
            let old = gap(sender.last_wire, before);
            sender.next_send = Time::from_ps(moved.as_ps() - old.as_ps());
            let earlier = sender.next_send.max(self.now);
            if sender.wake.is_some_and(|wake| earlier < wake) {
                self.wake_at(packet.flow, earlier);
            }
        }
        if packet.end == MESSAGE {
            self.senders[packet.flow].finished = Some(self.now);
        }
        self.look(packet.flow);
    }
}

/// Transmission time of `wire` bytes, rounded to the nearest nanosecond.
fn gap(wire: u64, bps: u64) -> Duration {
    Duration::from_ns((wire * 8 * 1_000_000_000 + bps / 2) / bps)
}

fn two_to_one() -> Network {
    Network {
        senders: 2,
        rate: Rate::from_gbps(50),
        delay: Duration::from_us(1),
        base_rtt: Duration::from_ns(4320),
        window: 27_000,
    }
}

fn incast_of_seven() -> Network {
    Network {
        senders: 7,
        rate: Rate::from_gbps(200),
        delay: Duration::from_ns(500),
        base_rtt: Duration::from_ns(2080),
        window: 52_000,
    }
}

fn hpcc_frames(telemetry_unit: u64) -> Frames {
    Frames { header: 78, acknowledgement: 76, windowed: true, telemetry_unit }
}

#[test]
fn two_flows_under_hpcc_complete_at_the_times_of_the_reference() {
    let network = two_to_one();
    let policy = Policy::Hpcc(hpcc::Parameters::recommended(network.rate));
    let times = Run::new(network, hpcc_frames(2), policy).completion_times_ns();
    assert_eq!(times, [3_595_555, 3_637_510]);
}

#[test]
fn seven_flows_under_hpcc_complete_at_the_times_of_the_reference() {
    let network = incast_of_seven();
    let policy = Policy::Hpcc(hpcc::Parameters::recommended(network.rate));
    let times = Run::new(network, hpcc_frames(8), policy).completion_times_ns();
    let reference = [3_177_571, 2_968_419, 3_186_273, 2_314_661, 2_216_601, 2_805_294, 3_121_004];
    assert_eq!(times, reference);
}

#[test]
fn seven_flows_under_hpcc_with_astra_sims_defaults_complete_at_the_times_of_the_reference() {
    let network = incast_of_seven();
    let policy = Policy::Hpcc(hpcc::Parameters {
        additive_increase: Rate::from_bps(50_000_000),
        min_rate: Rate::from_bps(100_000_000),
        ..hpcc::Parameters::recommended(network.rate)
    });
    let times = Run::new(network, hpcc_frames(1), policy).completion_times_ns();
    let reference = [3_152_741, 3_190_156, 2_978_446, 2_775_172, 2_220_998, 2_514_371, 3_193_134];
    assert_eq!(times, reference);
}

#[test]
fn two_flows_under_timely_complete_at_the_times_of_the_reference() {
    let network = two_to_one();
    let policy = Policy::Timely(timely::Parameters::recommended(network.rate));
    let frames = Frames { header: 44, acknowledgement: 48, windowed: false, telemetry_unit: 1 };
    let times = Run::new(network, frames, policy).completion_times_ns();
    assert_eq!(times, [4_054_554, 3_905_892]);
}
