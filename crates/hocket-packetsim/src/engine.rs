//! The event loop: packets leave ports, cross links, and are passed on by switches or taken in by
//! hosts. One event for each arrival, and one for each time a port that has more to send is free.

use std::num::NonZeroU32;

use hocket_des::{Calendar, Duration, Rate, Stream, Time};
use hocket_transport::congestion::pint::{self, PortLoad};
use hocket_transport::telemetry::{Format, Hop, MAX_HOPS, RateCode};
use hocket_transport::{Ack, Answer, Control, Path, Policy, Progress, Receiver, Sender};
use prefetch_index::prefetch_index;
use rand::RngExt;

use crate::backlog::Backlogs;
use crate::buffer::SharedBuffer;
use crate::changes::Faults;
use crate::credits::Credits;
use crate::messages::{Message, Messages};
use crate::model::{Model, Notification, PRIORITIES};
use crate::nic::Nic;
use crate::packet::{self, Header, Kind, Packet};
use crate::port::{ClassQueue, Deficits, InFlight, Port};
use crate::records::{CompletionRow, Records, Seen};
use crate::ring::{Ring, expect};
use crate::sampling::Usage;
use crate::spray::Spray;

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The first packet on its way reaches the end of this link.
    Arrive(u32),
    /// This port has finished sending a packet.
    Free(u32),
    /// The pace of a queue pair on this NIC lets it send.
    Wake(u32),
    /// A flow that lost a packet should have made progress by now.
    Retry(u32),
    /// This receiving NIC may grant a packet.
    Grant(u32),
    /// Something that the network itself does not do is due.
    Work(Work),
}

/// What comes from outside of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// This message of the workload is posted.
    Message(u32),
    /// This job goes on.
    Job(u32),
    /// Queues and rates are sampled.
    Sample,
    /// This change of a link takes effect.
    Change(u32),
    /// The run has reached its given end.
    End,
}

/// Who is told that a message is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody: the message stands for itself.
    Nobody,
    /// This job.
    Job(u32),
}

/// An event in four bytes: three bits say which, the others of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedEvent(u32);

const EVENT_SHIFT: u32 = 29;
/// As many links, messages and jobs can have events.
pub(crate) const MAX_OF_A_KIND: usize = 1 << EVENT_SHIFT;

impl Event {
    #[inline(always)]
    pub(crate) fn packed(self) -> PackedEvent {
        let (kind, which) = match self {
            Self::Arrive(link) => (0, link),
            Self::Free(port) => (1, port),
            Self::Wake(port) => (2, port),
            Self::Work(Work::Message(message)) => (3, message),
            Self::Work(Work::Job(job)) => (4, job),
            Self::Work(Work::Change(change)) => (5, change),
            Self::Work(Work::Sample) => (6, 0),
            Self::Work(Work::End) => (6, 1),
            Self::Grant(granter) => (6, 2 + granter),
            Self::Retry(flow) => (7, flow),
        };
        PackedEvent(kind << EVENT_SHIFT | which)
    }
}

impl PackedEvent {
    #[inline(always)]
    fn is_arrival(self) -> bool {
        self.0 >> EVENT_SHIFT == 0
    }

    /// Whether a port is free or wakes up.
    #[inline(always)]
    fn is_of_a_port(self) -> bool {
        matches!(self.0 >> EVENT_SHIFT, 1 | 2)
    }

    #[inline(always)]
    fn which(self) -> u32 {
        self.0 & (MAX_OF_A_KIND as u32 - 1)
    }

    #[inline(always)]
    fn event(self) -> Event {
        let which = self.which();
        match self.0 >> EVENT_SHIFT {
            0 => Event::Arrive(which),
            1 => Event::Free(which),
            2 => Event::Wake(which),
            3 => Event::Work(Work::Message(which)),
            4 => Event::Work(Work::Job(which)),
            5 => Event::Work(Work::Change(which)),
            6 if which == 0 => Event::Work(Work::Sample),
            6 if which == 1 => Event::Work(Work::End),
            6 => Event::Grant(which - 2),
            _ => Event::Retry(which),
        }
    }
}

/// Hosts, switches and links in motion. Every directed link is named by its number, also as the port that
/// feeds it; the opposite direction differs in the last bit.
pub(crate) struct Engine<'a> {
    pub(crate) model: &'a Model,
    pub(crate) policies: &'a [Policy],
    pub(crate) now: Time,
    /// The place of the present event among those of the same time.
    pub(crate) order: u64,
    pub(crate) calendar: Calendar<PackedEvent>,
    pub(crate) ports: Vec<Port>,
    /// By port and class.
    pub(crate) queues: Vec<ClassQueue>,
    pub(crate) backlogs: Backlogs,
    /// The bit of the class that goes before all others at every port: that of CNPs.
    pub(crate) first_class: u8,
    /// By port, where classes share by weights.
    pub(crate) deficits: Vec<Deficits>,
    pub(crate) flights: Vec<Ring<InFlight>>,
    /// By node; a host has none.
    pub(crate) buffers: Vec<SharedBuffer>,
    /// Of each switch, by its ports: the links that lead into it.
    pub(crate) incoming: Vec<Vec<u32>>,
    /// By port; that of a switch is empty.
    pub(crate) nics: Vec<Nic>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) steering: Vec<Steering>,
    pub(crate) courses: Vec<Course>,
    pub(crate) returns: Vec<Return>,
    /// By flow: congestion notification packets that its receiver sent.
    pub(crate) cnps: Vec<u32>,
    /// The links of every route, one route after another.
    pub(crate) routes: Vec<u32>,
    /// Picoseconds on the wire by speed and size.
    pub(crate) times: Vec<Vec<u64>>,
    /// By speed.
    pub(crate) rates: Vec<Rate>,
    pub(crate) marking: Vec<Option<Marker>>,
    /// By node.
    pub(crate) switches: Vec<Waiting>,
    pub(crate) messages: Messages,
    pub(crate) telemetry: Telemetry,
    pub(crate) records: Records,
    /// Bytes by link and job, where they are asked for.
    pub(crate) usage: Option<Usage>,
    /// Whether switches pass on what has not fully arrived.
    pub(crate) cuts_through: bool,
    /// Whether flows and ports do not fit into a core's own cache.
    pub(crate) is_large: bool,
    /// Flows that something was acknowledged for and whose messages may be complete.
    pub(crate) completed: Vec<u32>,
    pub(crate) packet_hops: u64,
    pub(crate) events: u64,
    pub(crate) lost: Option<Lost>,
    pub(crate) faults: Faults<'a>,
    pub(crate) sprays: Vec<Spray>,
    /// Where some flow is receiver-driven.
    pub(crate) credits: Option<Box<Credits>>,
}

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
    /// Bytes that a packet has beside its data.
    pub(crate) overhead: u16,
    /// Bytes of the last packet on the wire.
    pub(crate) last_wire: u16,
    pub(crate) priority: u8,
    pub(crate) header: Header,
    pub(crate) moves_next_send: bool,
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
    /// Whether the sender wants to be told of marks by packets of their own.
    pub(crate) notifies: bool,
}

/// How a port marks.
pub(crate) struct Marker {
    pub(crate) minimum: u64,
    pub(crate) maximum: u64,
    pub(crate) probability: f64,
    pub(crate) draws: Stream,
}

/// Bytes that wait in all ports of a switch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) bytes: u64,
    pub(crate) peak_bytes: u64,
}

/// What switches write into packets.
pub(crate) struct Telemetry {
    pub(crate) format: Format,
    /// By port.
    pub(crate) codes: Vec<RateCode>,
    /// `MAX_HOPS` for each packet that carries them.
    pub(crate) hops: Vec<Hop>,
    pub(crate) unused: Vec<u32>,
    /// By port, where some flow uses PINT.
    pub(crate) loads: Vec<PortLoad>,
    pub(crate) draws: Stream,
    /// PINT's T.
    pub(crate) longest_rtt: Duration,
    /// Base of PINT's logarithm.
    pub(crate) base: f64,
}

/// A packet that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) link: u32,
    pub(crate) flow: u32,
}

impl Engine<'_> {
    /// Moves to the next event; what kind of event the hosts' work was, if it was one.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<Step> {
        let (now, order, event) = self.calendar.pop()?;
        self.now = now;
        self.order = order;
        self.events += 1;
        if self.is_large {
            self.anticipate();
        }
        match event.event() {
            Event::Arrive(link) => self.arrive(link),
            Event::Free(port) => self.free(port),
            Event::Wake(port) => self.wake(port, order),
            Event::Retry(flow) => self.retry(flow),
            Event::Grant(granter) => self.grant(granter),
            Event::Work(work) => return Some(Step::Work(work)),
        }
        Some(Step::Moved)
    }

    /// Asks for what the next events will need, in steps: each reads what the one before it asked for. At a
    /// hundred hosts most of a run would be waiting for memory.
    #[inline]
    fn anticipate(&self) {
        if let Some(event) = self.calendar.upcoming(10) {
            let port = event.which() as usize;
            if event.is_arrival() {
                self.flights[port].expect(0);
            } else if event.is_of_a_port() {
                self.flights[port].expect_back();
                let state = &self.ports[port];
                if !state.from_host {
                    let class = state.waiting.trailing_zeros() as usize % PRIORITIES;
                    self.backlogs.expect_front(&self.queues[port * PRIORITIES + class].packets);
                } else if let Some(flow) = self.nics[port].upcoming() {
                    self.expect_flow(flow);
                }
            }
        }
        if let Some(event) = self.calendar.upcoming(5)
            && event.is_arrival()
            && let Some(next) = self.flights[event.which() as usize].front()
        {
            let flow = next.packet.flow as usize;
            if !self.ports[event.which() as usize].to_host {
                prefetch_index(&self.routes, next.packet.route as usize);
            } else if next.packet.kind == Kind::Data {
                prefetch_index(&self.returns, flow);
            } else {
                self.expect_flow(next.packet.flow);
            }
        }
    }

    #[inline]
    fn expect_flow(&self, id: u32) {
        let flow = &self.flows[id as usize];
        expect(&flow.sender);
        expect(&flow.route);
        let steering = &self.steering[id as usize];
        expect(&steering.control);
        expect(&steering.path);
    }

    /// Schedules work at `at`.
    pub(crate) fn schedule_work(&mut self, at: Time, work: Work) {
        let order = self.calendar.next_order();
        self.calendar.schedule(at, order, Event::Work(work).packed());
    }

    /// Adds a message of `bytes` to what a flow has to send; `owner` is told when it is complete.
    pub(crate) fn post(&mut self, id: u32, bytes: u64, owner: Owner) {
        let flow = &mut self.flows[id as usize];
        let end = flow.sender.post(bytes);
        self.messages.push(id, Message { end, bytes, posted: self.now, owner });
        flow.milestone = self.messages.milestone(id);
        if flow.sender.sent() == end - bytes {
            self.begin_on_credit(id);
        }
        let flow = &self.flows[id as usize];
        let (nic, slot) = (flow.nic, flow.slot);
        self.nics[nic as usize].list(slot);
        self.update_turn(id);
        self.look(nic);
    }

    /// Records the complete messages of a flow, and tells whoever posted them.
    pub(crate) fn complete(&mut self, id: u32, mut tell: impl FnMut(Owner)) {
        let acknowledged = self.flows[id as usize].sender.acknowledged();
        while let Some(message) = self.messages.take_complete(id, acknowledged) {
            let Message { bytes, posted, owner, .. } = message;
            let row = CompletionRow { flow: id, bytes, start: posted, end: self.now };
            self.records.complete(row, self.seen(id));
            tell(owner);
        }
        self.flows[id as usize].milestone = self.messages.milestone(id);
    }

    /// What happened to a flow so far.
    pub(crate) fn seen(&self, id: u32) -> Seen {
        let (marks, cnps) = (self.returns[id as usize].marks, self.cnps[id as usize]);
        let rate_cuts = self.steering[id as usize].control.cuts();
        Seen { marks, cnps, rate_cuts, retransmissions: self.records.retransmissions(id) }
    }

    #[inline(always)]
    fn arrive(&mut self, link: u32) {
        let flight = &mut self.flights[link as usize];
        let packet = flight.pop_front().packet;
        if let Some(next) = flight.front() {
            self.calendar.schedule(next.at, next.order, Event::Arrive(link).packed());
        }
        match packet.kind {
            Kind::Pause | Kind::Resume => self.take_pause(link, &packet),
            Kind::Lost => {}
            _ if self.ports[link as usize].to_host => self.take_in(&packet),
            _ => self.pass_on(link, packet),
        }
    }

    fn free(&mut self, port: u32) {
        self.ports[port as usize].looks_when_free = false;
        self.look(port);
    }

    fn wake(&mut self, port: u32, order: u64) {
        let nic = &mut self.nics[port as usize];
        if nic.wake == Some((self.now, order)) {
            nic.wake = None;
            self.look(port);
        }
    }

    /// Sends what a port may send now, or sees to it that the port is looked at when it is free.
    #[inline(always)]
    pub(crate) fn look(&mut self, port: u32) {
        let state = &self.ports[port as usize];
        if !state.is_busy(self.now, self.order) {
            self.send_next(port);
        } else if !state.looks_when_free && state.is_up {
            self.look_when_free(port);
        }
    }

    /// Sends what a port that is not busy may send.
    fn send_next(&mut self, port: u32) {
        if self.ports[port as usize].from_host {
            self.send_from_host(port);
        } else {
            self.send_from_switch(port);
        }
    }

    fn look_when_free(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        if !state.looks_when_free {
            state.looks_when_free = true;
            let (at, order) = (state.busy_until, state.free_order);
            self.calendar.schedule(at, order, Event::Free(port).packed());
        }
    }

    // --- switches ---

    #[inline(always)]
    fn pass_on(&mut self, link: u32, mut packet: Packet) {
        let out = self.routes[packet.route as usize];
        packet.route += 1;
        let arrival = &self.ports[link as usize];
        packet.ingress = arrival.ingress;
        let switch = arrival.to as usize;
        let (ingress, class, wire) = (packet.ingress, packet.priority(), packet.wire);
        let port = &mut self.ports[out as usize];
        let free =
            port.waiting == 0 && port.urgent.is_empty() && !port.is_busy(self.now, self.order);
        if free
            && port.paused & 1 << class == 0
            && self.buffers[switch].is_untouched_by(ingress, class, wire)
        {
            port.peak_bytes = port.peak_bytes.max(u64::from(wire));
            self.switches[switch].passes(wire);
            self.depart(out, packet);
            return;
        }
        if !port.is_up {
            return self.lose_to_failure(&packet);
        }
        if !self.buffers[switch].admit(ingress, class, wire) {
            self.lost = Some(Lost { link, flow: packet.flow });
            self.records.losses += 1;
            return self.recover_later(&packet);
        }
        if self.buffers[switch].wants_pause(ingress, class) {
            self.send_pause(link ^ 1, Kind::Pause, class);
        }
        let queue = &mut self.queues[out as usize * PRIORITIES + class];
        self.backlogs.push(&mut queue.packets, packet);
        queue.bytes += u64::from(wire);
        let port = &mut self.ports[out as usize];
        port.waiting |= 1 << class;
        port.queued_bytes += u64::from(wire);
        port.peak_bytes = port.peak_bytes.max(port.queued_bytes);
        self.switches[switch].takes(wire);
        self.look(out);
    }

    #[inline(always)]
    fn send_from_switch(&mut self, out: u32) {
        let port = &mut self.ports[out as usize];
        if !port.urgent.is_empty() {
            let mut packet = port.urgent.pop_front();
            if !self.telemetry.loads.is_empty() {
                self.write_load(out, &mut packet);
            }
            self.transmit(out, packet);
        } else {
            let first = out as usize * PRIORITIES;
            let queues = &mut self.queues[first..first + PRIORITIES];
            let deficits = self.deficits.get_mut(out as usize);
            let scheduling = &self.model.switching.scheduling;
            let Some(class) =
                port.next_class(scheduling, self.first_class, queues, &self.backlogs, deficits)
            else {
                return;
            };
            let queue = &mut queues[class];
            let packet = self.backlogs.pop(&mut queue.packets);
            queue.bytes -= u64::from(packet.wire);
            port.queued_bytes -= u64::from(packet.wire);
            if queue.packets.is_empty() {
                port.waiting &= !(1 << class);
            }
            let switch = port.from as usize;
            self.switches[switch].bytes -= u64::from(packet.wire);
            self.buffers[switch].release(packet.ingress, class, packet.wire);
            if self.buffers[switch].wants_resume(packet.ingress, class) {
                let incoming = self.incoming[switch][usize::from(packet.ingress)];
                self.send_pause(incoming ^ 1, Kind::Resume, class);
            }
            self.depart(out, packet);
        }
        if self.ports[out as usize].has_ready() {
            self.look_when_free(out);
        }
    }

    /// A packet leaves a switch: what stays behind marks it.
    #[inline(always)]
    fn depart(&mut self, out: u32, mut packet: Packet) {
        let behind = self.queues[out as usize * PRIORITIES + packet.priority()].bytes;
        if let Some(marker) = &mut self.marking[out as usize]
            && behind > marker.minimum
            && marker.marks(behind)
        {
            packet.mark();
            if packet.kind == Kind::Data {
                self.ports[out as usize].marked_packets += 1;
            }
        }
        if packet.kind == Kind::Data && packet.header() == Header::Hops {
            self.write_hop(out, &mut packet);
        }
        if !self.telemetry.loads.is_empty() {
            self.write_load(out, &mut packet);
        }
        self.transmit(out, packet);
    }

    // Every packet moves a port's clock on; only data changes what it knows of its load.
    fn write_load(&mut self, out: u32, packet: &mut Packet) {
        let telemetry = &mut self.telemetry;
        let port = &self.ports[out as usize];
        let load = telemetry.loads[out as usize].on_departure(
            self.now,
            u64::from(packet.wire),
            port.queued_bytes,
            packet.kind == Kind::Data,
            self.rates[usize::from(port.speed)],
            telemetry.longest_rtt,
        );
        if let Some(load) = load
            && packet.header() == Header::Load
        {
            let draw = telemetry.draws.random::<f64>();
            let code = pint::encode(load, telemetry.base, draw);
            packet.meta = packet.meta.max(u32::from(code));
        }
    }

    fn write_hop(&mut self, out: u32, packet: &mut Packet) {
        let telemetry = &mut self.telemetry;
        let port = &self.ports[out as usize];
        let code = telemetry.codes[out as usize];
        let hop = telemetry.format.hop(self.now, port.sent_bytes, port.queued_bytes, code);
        let (place, count) = (packet.meta >> 8, packet.meta & 0xff);
        telemetry.hops[place as usize * MAX_HOPS + count as usize] = hop;
        packet.meta += 1;
    }

    pub(crate) fn send_pause(&mut self, port: u32, kind: Kind, class: usize) {
        let wire = self.model.frames.pause;
        let frame = Packet::new(kind, 0, 0, wire, class as u8);
        if self.ports[port as usize].from_host {
            return;
        }
        if kind == Kind::Pause {
            self.records.pauses_sent += 1;
        }
        self.ports[port as usize].urgent.push_back(frame);
        self.look(port);
    }

    fn take_pause(&mut self, link: u32, frame: &Packet) {
        let port = link ^ 1;
        let class = frame.priority();
        let state = &mut self.ports[port as usize];
        let is_pause = frame.kind == Kind::Pause;
        self.records.pause(self.now, port, class as u8, is_pause);
        if is_pause {
            state.paused |= 1 << class;
        } else {
            state.paused &= !(1 << class);
            self.look(port);
        }
    }

    // --- links ---

    #[inline(always)]
    fn transmit(&mut self, out: u32, packet: Packet) {
        let port = &mut self.ports[out as usize];
        let span = self.times[usize::from(port.speed)][usize::from(packet.wire)];
        let until = Time::from_ps(self.now.as_ps() + span);
        port.busy_until = until;
        port.free_order = self.calendar.next_order();
        port.sent_bytes += u64::from(packet.wire);
        port.sent_packets += 1;
        if let Some(usage) = &mut self.usage {
            usage.add(out, &packet);
        }
        let order = self.calendar.next_order();
        let delay_ps = port.delay_ps;
        let passable =
            if self.cuts_through { self.headers_sent(out, &packet, until) } else { until };
        let at = Time::from_ps(passable.as_ps() + delay_ps);
        let flight = &mut self.flights[out as usize];
        if flight.is_empty() {
            self.calendar.schedule(at, order, Event::Arrive(out).packed());
        }
        flight.push_back(InFlight { at, order, packet });
        self.packet_hops += 1;
    }

    /// When the far end of a link may pass a packet on that has begun to leave and is sent until `until`: after its
    /// headers, if it goes on over a link that is no faster, so that it cannot run dry.
    #[cold]
    fn headers_sent(&self, out: u32, packet: &Packet, until: Time) -> Time {
        let port = &self.ports[out as usize];
        if port.to_host || matches!(packet.kind, Kind::Pause | Kind::Resume) {
            return until;
        }
        let speed = usize::from(port.speed);
        let next = self.ports[self.routes[packet.route as usize] as usize].speed;
        if self.rates[usize::from(next)] > self.rates[speed] {
            return until;
        }
        let headers = packet.wire.min(self.model.frames.data_header);
        Time::from_ps(self.now.as_ps() + self.times[speed][usize::from(headers)])
    }

    // --- hosts ---

    fn take_in(&mut self, packet: &Packet) {
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
    fn take_data(&mut self, packet: &Packet) {
        let returns = &mut self.returns[packet.flow as usize];
        returns.marks += u32::from(packet.is_marked());
        let nic = returns.nic;
        if returns.notifies
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

    fn take_ack(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow as usize];
        let Steering { control, path } = &mut self.steering[packet.flow as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let before = control.rate_bps();
        let marked = packet.echoes_mark();
        let course = &self.courses[packet.flow as usize];
        let progress = flow.progress(course);
        control.catch_up(policy, path, self.now, progress);
        let skips = flow.sender.on_ack(packet.sequence(flow.sender.acknowledged()));
        if marked && self.model.notification == Notification::InAcks {
            control.on_cnp(policy, path, self.now);
        }
        let (telemetry, stamp, load) = match packet.header() {
            Header::Stamp => (&[][..], packet.sent_at(self.now), 0),
            Header::Hops => {
                let first = (packet.meta >> 8) as usize * MAX_HOPS;
                let count = (packet.meta & 0xff) as usize;
                (&self.telemetry.hops[first..first + count], Time::ZERO, 0)
            }
            Header::Load => (&[][..], Time::ZERO, packet.meta as u16),
        };
        let ack = Ack {
            now: self.now,
            acknowledged: flow.sender.acknowledged(),
            sent: flow.sender.sent(),
            marked,
            stamp,
            telemetry,
            format: &self.telemetry.format,
            load,
        };
        control.on_ack(policy, path, &ack);
        let after = control.rate_bps();
        if after != before {
            flow.sender.on_rate(after);
            if flow.moves_next_send {
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
        self.drop_telemetry(packet);
        self.update_turn(packet.flow);
        if self.nics[nic as usize].wants_a_look(self.now) {
            self.look(nic);
        }
    }

    fn take_cnp(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow as usize];
        let Steering { control, path } = &mut self.steering[packet.flow as usize];
        let policy = &self.policies[usize::from(flow.policy)];
        let course = &self.courses[packet.flow as usize];
        let progress = flow.progress(course);
        control.catch_up(policy, path, self.now, progress);
        control.on_cnp(policy, path, self.now);
        flow.sender.on_rate(control.rate_bps());
    }

    fn take_nack(&mut self, packet: &Packet) {
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
    fn wake_earlier(&mut self, port: u32, at: Time) {
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

    fn send_from_host(&mut self, port: u32) {
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
    fn see_to_next(&mut self, port: u32) {
        let nic = &self.nics[port as usize];
        if !nic.answers.is_empty() || nic.has_eligible() || nic.sets_timer_when_free() {
            self.look_when_free(port);
        } else {
            self.set_wake(port);
        }
    }

    fn set_wake(&mut self, port: u32) {
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
    fn send_data(&mut self, port: u32, id: u32) {
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
        let payload = flow.sender.next_payload(self.model.frames.mtu);
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
    fn begin_message(&mut self, id: u32) {
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

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something in the network.
    Moved,
    /// Work is due.
    Work(Work),
}

impl Flow {
    #[inline]
    fn progress(&self, course: &Course) -> Progress {
        if !self.is_adaptive {
            return Progress::default();
        }
        Progress { sent: self.sender.sent() - course.phase.sent, total: course.phase.total }
    }
}

impl Telemetry {
    fn take_place(&mut self) -> u32 {
        let place = self.unused.pop().unwrap_or_else(|| {
            let place = self.hops.len() / MAX_HOPS;
            self.hops.resize(self.hops.len() + MAX_HOPS, Hop::default());
            place as u32
        });
        place << 8
    }
}

impl Waiting {
    #[inline]
    fn passes(&mut self, wire: u16) {
        self.peak_bytes = self.peak_bytes.max(self.bytes + u64::from(wire));
    }

    #[inline]
    fn takes(&mut self, wire: u16) {
        self.bytes += u64::from(wire);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }
}

impl Marker {
    #[inline]
    fn marks(&mut self, behind: u64) -> bool {
        if behind > self.maximum {
            return true;
        }
        let span = (self.maximum - self.minimum) as f64;
        let probability = self.probability * (behind - self.minimum) as f64 / span;
        self.draws.random::<f64>() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_and_a_packet_take_as_many_cache_lines_as_they_are_said_to() {
        assert_eq!(size_of::<Flow>(), 2 * 64);
        assert_eq!(size_of::<Steering>(), 2 * 64);
        assert_eq!(size_of::<Return>(), 64);
        assert_eq!(size_of::<Port>(), 2 * 64);
        // With its present message and room for three more, its routes and its place in a NIC, a flow stays below 1 KB.
        let held = size_of::<Course>() + 4 * size_of::<Message>();
        assert!(5 * 64 + held < 512, "{held}");
        // On a link, with the time of its arrival and its place among those of the same time; a queue has 24 bytes for each.
        assert_eq!(size_of::<InFlight>(), 40);
    }
}
