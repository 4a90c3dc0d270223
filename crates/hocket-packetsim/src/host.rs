//! What a host does: answers data, listens to answers, and sends what its queue pairs may.

use std::num::NonZeroU32;

use hocket_des::Time;
use hocket_transport::{Answer, Control, Path, Progress, Receiver, Sender};

use crate::engine::Engine;
use crate::event::Event;
use crate::model::Notification;
use crate::packet::{self, Header, Kind, Packet};

/// A flow at its sender, in two cache lines.
#[repr(align(128))]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    /// Acknowledged up to here, the oldest message is complete.
    pub(crate) milestone: u64,
    pub(crate) route: u32,
    pub(crate) nic: u32,
    pub(crate) slot: u32,
    pub(crate) policy: u16,
    /// Data in a full packet.
    pub(crate) mtu: u16,
    /// Bytes that a packet has beside its data.
    pub(crate) overhead: u16,
    /// Bytes of the last packet on the wire.
    pub(crate) last_wire: u16,
    pub(crate) priority: u8,
    pub(crate) header: Header,
    pub(crate) moves_next_send: bool,
    /// Whether the control looks at acknowledgements.
    pub(crate) hears_acks: bool,
    /// Whether the control wants to know how far the job's phase is.
    pub(crate) is_adaptive: bool,
}

/// A flow's congestion control, and the path that it needs to know: two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Steering {
    pub(crate) control: Control,
    pub(crate) path: Path,
}

/// What is seldom needed of a flow at its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Where the phase of its job began in the stream of bytes, and what is to be sent in it.
    pub(crate) phase: Progress,
    /// Of a sprayed flow: its place in the table of those, counted from 1.
    pub(crate) spray: Option<NonZeroU32>,
}

/// A flow at its receiver, in one cache line.
#[repr(align(64))]
pub(crate) struct Return {
    pub(crate) receiver: Receiver,
    pub(crate) route: u32,
    /// The port by which answers leave.
    pub(crate) nic: u32,
    pub(crate) marks: u32,
    pub(crate) wire: u16,
    pub(crate) priority: u8,
    /// Who wants to be told of what: [`NOTIFIES`], [`TELLS`].
    pub(crate) wants: u8,
}

/// The sender wants to be told of marks by packets of their own.
pub(crate) const NOTIFIES: u8 = 1;
/// A training job wants to be told when all of a message has arrived.
pub(crate) const TELLS: u8 = 2;
/// In the list of flows of which something is complete: messages that have arrived, not such that are acknowledged.
pub(crate) const ARRIVED: u32 = 1 << 31;

impl Engine<'_> {
    pub(crate) fn take_in(&mut self, packet: &Packet) {
        match packet.kind {
            Kind::Data => {
                self.take_data(packet);
                if self.credits.is_some() {
                    self.credit_arrival(packet.flow);
                }
            }
            Kind::Ack => self.take_ack(packet),
            Kind::Nack => self.take_nack(packet),
            Kind::Cnp => self.take_cnp(packet),
            Kind::Grant => self.take_grant(packet),
            Kind::Pause | Kind::Resume => unreachable!("PAUSE frames are for ports"),
            Kind::Lost => unreachable!("a lost packet never arrives"),
        }
    }

    #[inline(always)]
    pub(crate) fn take_data(&mut self, packet: &Packet) {
        let returns = &mut self.returns[packet.flow as usize];
        returns.marks += u32::from(packet.is_marked());
        let nic = returns.nic;
        if returns.wants & NOTIFIES != 0
            && packet.is_marked()
            && let Notification::Packets { interval, priority } = self.model.notification
            && returns.receiver.may_notify(self.now, interval)
        {
            self.cnps[packet.flow as usize] += 1;
            let wire = self.model.frames.ack;
            let cnp = Packet::new(Kind::Cnp, packet.flow, returns.route + 1, wire, priority);
            self.nics[nic as usize].answers.push_back(cnp);
        }
        let answer = returns.receiver.on_data(
            self.now,
            packet.sequence(returns.receiver.received()),
            packet.payload,
            packet.ends_message(),
            &self.model.answering,
        );
        let may_end = packet.ends_message() || returns.receiver.takes_any_order();
        if may_end && returns.wants & TELLS != 0 {
            self.completed.push(packet.flow | ARRIVED);
        }
        let (kind, sequence) = match answer {
            Answer::None => {
                self.drop_telemetry(packet);
                return self.look(nic);
            }
            Answer::Ack(sequence) => (Kind::Ack, sequence),
            Answer::Nack(sequence) => (Kind::Nack, sequence),
        };
        let mut reply =
            Packet::new(kind, packet.flow, returns.route + 1, returns.wire, returns.priority);
        reply.set_sequence(sequence);
        reply.meta = packet.meta;
        reply.set_header(packet.header());
        reply.set_echo(packet.is_marked());
        self.nics[nic as usize].answers.push_back(reply);
        self.look(nic);
    }

    pub(crate) fn take_ack(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow as usize];
        let Steering { control, path } = &mut self.steering[packet.flow as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let before = control.rate_bps();
        let marked = packet.echoes_mark();
        let course = &self.courses[packet.flow as usize];
        let progress = flow.progress(course);
        control.catch_up(policy, path, self.now, progress);
        let was_open = flow.sender.is_open();
        let skips = flow.sender.on_ack(packet.sequence(flow.sender.acknowledged()));
        if marked && self.model.notification == Notification::InAcks {
            control.on_cnp(policy, path, self.now);
        }
        if flow.hears_acks {
            let ack = self.telemetry.read(packet, self.now, &flow.sender);
            control.on_ack(policy, path, &ack);
        }
        let after = control.rate_bps();
        let mut may_turn = false;
        if after != before {
            flow.sender.on_rate(after);
            if flow.moves_next_send {
                may_turn = true;
                flow.sender.move_next_send(u32::from(flow.last_wire), before, after);
                let next_send = flow.sender.next_send();
                let nic = flow.nic;
                self.wake_earlier(nic, next_send);
            }
        }
        if skips {
            self.begin_message(packet.flow);
        }
        let flow = &self.flows[packet.flow as usize];
        let nic = flow.nic;
        if flow.sender.acknowledged() >= flow.milestone {
            self.completed.push(packet.flow);
        }
        // For most acknowledgements nothing changes about when the flow may send.
        let is_done = flow.sender.is_done();
        may_turn |= skips || is_done || flow.sender.is_open() != was_open;
        self.drop_telemetry(packet);
        if may_turn {
            self.update_turn(packet.flow);
        }
        if self.nics[nic as usize].wants_a_look(self.now) {
            self.look(nic);
        }
    }

    pub(crate) fn take_cnp(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow as usize];
        let Steering { control, path } = &mut self.steering[packet.flow as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let course = &self.courses[packet.flow as usize];
        let progress = flow.progress(course);
        control.catch_up(policy, path, self.now, progress);
        control.on_cnp(policy, path, self.now);
        flow.sender.on_rate(control.rate_bps());
    }

    pub(crate) fn take_nack(&mut self, packet: &Packet) {
        self.drop_telemetry(packet);
        let acknowledged = self.flows[packet.flow as usize].sender.acknowledged();
        self.go_back(packet.flow, packet.sequence(acknowledged));
    }

    pub(crate) fn go_back(&mut self, id: u32, sequence: u64) {
        let flow = &mut self.flows[id as usize];
        flow.sender.on_ack(sequence);
        let boundary = self.messages.boundary_after(id, sequence);
        flow.sender.go_back(sequence, boundary);
        let nic = flow.nic;
        self.records.went_back(id);
        self.update_turn(id);
        self.look(nic);
    }

    /// The pace of a flow allows it to send at `at`: a later timer is set anew.
    pub(crate) fn wake_earlier(&mut self, port: u32, at: Time) {
        let nic = &mut self.nics[port as usize];
        if nic.wake.is_some_and(|(set, _)| at < set) {
            let at = at.max(self.now);
            let order = self.calendar.next_order();
            nic.wake = Some((at, order));
            self.calendar.schedule(at, order, Event::Wake(port).packed());
        }
    }

    /// Tells the NIC whether a flow may send, and when.
    #[inline]
    pub(crate) fn update_turn(&mut self, id: u32) {
        let flow = &self.flows[id as usize];
        let nic = &mut self.nics[flow.nic as usize];
        let soon = self.ports[flow.nic as usize].busy_until.max(self.now);
        let at = flow.sender.next_send();
        if flow.sender.is_open() {
            nic.allow(flow.slot, at, soon);
        } else if flow.sender.is_done() {
            nic.finish(flow.slot);
        } else {
            nic.forbid(flow.slot, at, soon);
        }
    }

    pub(crate) fn send_from_host(&mut self, port: u32) {
        let nic = &mut self.nics[port as usize];
        let paused = self.ports[port as usize].paused;
        let answer = nic
            .answers
            .front()
            .filter(|answer| !self.model.pause_holds_acks || paused & 1 << answer.priority() == 0);
        if let Some(&answer) = answer {
            nic.answers.pop_front();
            self.transmit(port, answer);
        } else {
            match nic.pick(self.now, paused) {
                Some(slot) => {
                    let flow = nic.flow(slot);
                    self.send_data(port, flow);
                }
                None => return self.set_wake(port),
            }
        }
        self.see_to_next(port);
    }

    /// A packet has begun to leave a host: what comes after it?
    #[inline]
    pub(crate) fn see_to_next(&mut self, port: u32) {
        let nic = &self.nics[port as usize];
        if !nic.answers.is_empty() || nic.has_eligible() || nic.sets_timer_when_free() {
            self.look_when_free(port);
        } else {
            self.set_wake(port);
        }
    }

    pub(crate) fn set_wake(&mut self, port: u32) {
        let nic = &mut self.nics[port as usize];
        let Some(at) = nic.next_pace() else { return };
        if !nic.may_wake() {
            return;
        }
        let is_set = match nic.wake {
            None => false,
            // The reference's timer, once set, is not set anew.
            Some((set, _)) => nic.listed.is_some() || set <= at,
        };
        if !is_set {
            let order = self.calendar.next_order();
            nic.wake = Some((at, order));
            self.calendar.schedule(at, order, Event::Wake(port).packed());
        }
    }

    #[inline(always)]
    pub(crate) fn send_data(&mut self, port: u32, id: u32) {
        let flow = &mut self.flows[id as usize];
        let Steering { control, path } = &mut self.steering[id as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let course = &self.courses[id as usize];
        let progress = flow.progress(course);
        let before = control.rate_bps();
        control.catch_up(policy, path, self.now, progress);
        if control.rate_bps() != before {
            flow.sender.on_rate(control.rate_bps());
        }
        let payload = flow.sender.next_payload(flow.mtu);
        let wire = payload + flow.overhead;
        let route = match course.spray {
            None => flow.route,
            Some(spray) => self.sprays[spray.get() as usize - 1].next(),
        };
        let mut packet = Packet::new(Kind::Data, id, route + 1, wire, flow.priority);
        packet.set_sequence(flow.sender.sent());
        packet.payload = payload;
        packet.set_header(flow.header);
        packet.meta = match flow.header {
            Header::Stamp => packet::stamp(self.now),
            Header::Hops => self.telemetry.take_place(),
            Header::Load => 0,
        };
        flow.last_wire = wire;
        let more = flow.sender.on_sent(self.now, payload, u32::from(wire), control.rate_bps());
        packet.set_ends_message(flow.sender.is_at_boundary());
        control.on_sent(policy, path, u64::from(wire), progress);
        if more {
            self.begin_message(id);
        }
        self.transmit(port, packet);
        self.update_turn(id);
    }

    /// The next packet is of another message than the last one.
    pub(crate) fn begin_message(&mut self, id: u32) {
        let sent = self.flows[id as usize].sender.sent();
        let boundary = self.messages.boundary_after(id, sent);
        self.flows[id as usize].sender.begin_message(boundary);
        self.begin_on_credit(id);
    }

    #[inline]
    pub(crate) fn drop_telemetry(&mut self, packet: &Packet) {
        if packet.header() == Header::Hops {
            self.telemetry.unused.push(packet.meta >> 8);
        }
    }
}

impl Flow {
    #[inline]
    pub(crate) fn progress(&self, course: &Course) -> Progress {
        if !self.is_adaptive {
            return Progress::default();
        }
        Progress { sent: self.sender.sent() - course.phase.sent, total: course.phase.total }
    }
}
