//! The event loop: packets leave ports, cross links, and are passed on by switches or taken in by
//! hosts. One event for each arrival, and one for each time a port that has more to send is free.

use hocket_des::{Calendar, Rate, Time};
use hocket_transport::Policy;
use prefetch_index::prefetch_index;

use crate::backlog::Backlogs;
use crate::buffer::SharedBuffer;
use crate::changes::Faults;
use crate::credits::Credits;
use crate::event::{Event, PackedEvent, Step, Work};
use crate::host::{Course, Flow, Return, Steering};
use crate::messages::{Message, Messages, Owner};
use crate::model::{Model, PRIORITIES};
use crate::nic::Nic;
use crate::packet::{Kind, Packet};
use crate::port::{ClassQueue, Deficits, InFlight, Port};
use crate::records::{CompletionRow, Records, Seen};
use crate::ring::{Ring, expect};
use crate::sampling::Usage;
use crate::spray::Spray;
use crate::switch::{Marker, Telemetry, Waiting};

/// Hosts, switches and links in motion. Every directed link is named by its number, also as the port that
/// feeds it; the opposite direction differs in the last bit.
pub(crate) struct Engine<'a> {
    pub(crate) model: &'a Model,
    /// Those of the run, and that of flows inside servers.
    pub(crate) policies: Vec<Policy>,
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
    /// Flows that something was acknowledged for and whose messages may be complete; with the bit [`ARRIVED`](crate::host::ARRIVED),
    /// flows with messages that may have arrived.
    pub(crate) completed: Vec<u32>,
    pub(crate) packet_hops: u64,
    pub(crate) events: u64,
    pub(crate) lost: Option<Lost>,
    pub(crate) faults: Faults<'a>,
    pub(crate) sprays: Vec<Spray>,
    /// Where some flow is receiver-driven.
    pub(crate) credits: Option<Box<Credits>>,
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
    pub(crate) fn anticipate(&self) {
        if let Some(event) = self.calendar.upcoming(10) {
            let port = event.which() as usize;
            if event.is_arrival() {
                if let Some(next) = self.flights[port].front() {
                    expect(&next.at);
                    next.packet.expect();
                }
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
    pub(crate) fn expect_flow(&self, id: u32) {
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

    /// Tells whoever posted them of the messages of a flow that have arrived.
    pub(crate) fn arrived(&mut self, id: u32, mut tell: impl FnMut(Owner)) {
        let received = self.returns[id as usize].receiver.received();
        while let Some(message) = self.messages.note_arrival(id, received) {
            tell(message.owner);
        }
    }

    /// What happened to a flow so far.
    pub(crate) fn seen(&self, id: u32) -> Seen {
        let (marks, cnps) = (self.returns[id as usize].marks, self.cnps[id as usize]);
        let rate_cuts = self.steering[id as usize].control.cuts();
        Seen { marks, cnps, rate_cuts, retransmissions: self.records.retransmissions(id) }
    }

    #[inline(always)]
    pub(crate) fn arrive(&mut self, link: u32) {
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

    pub(crate) fn free(&mut self, port: u32) {
        self.ports[port as usize].looks_when_free = false;
        self.look(port);
    }

    pub(crate) fn wake(&mut self, port: u32, order: u64) {
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
    pub(crate) fn send_next(&mut self, port: u32) {
        if self.ports[port as usize].from_host {
            self.send_from_host(port);
        } else {
            self.send_from_switch(port);
        }
    }

    pub(crate) fn look_when_free(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        if !state.looks_when_free {
            state.looks_when_free = true;
            let (at, order) = (state.busy_until, state.free_order);
            self.calendar.schedule(at, order, Event::Free(port).packed());
        }
    }

    #[inline(always)]
    pub(crate) fn transmit(&mut self, out: u32, packet: Packet) {
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
    pub(crate) fn headers_sent(&self, out: u32, packet: &Packet, until: Time) -> Time {
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
