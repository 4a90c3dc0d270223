//! What a switch does with a packet: takes it in or asks its neighbour to stop, and lets it go with what it
//! writes into it.

use hocket_des::{Duration, Stream, Time};
use hocket_transport::congestion::pint::{self, PortLoad};
use hocket_transport::telemetry::{Format, Hop, MAX_HOPS, RateCode};
use hocket_transport::{Ack, Sender};
use rand::RngExt;

use crate::engine::{Engine, Lost};
use crate::model::PRIORITIES;
use crate::packet::{Header, Kind, Packet};

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

impl Engine<'_> {
    #[inline(always)]
    pub(crate) fn pass_on(&mut self, link: u32, mut packet: Packet) {
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
    pub(crate) fn send_from_switch(&mut self, out: u32) {
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
    pub(crate) fn depart(&mut self, out: u32, mut packet: Packet) {
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
    pub(crate) fn write_load(&mut self, out: u32, packet: &mut Packet) {
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

    pub(crate) fn write_hop(&mut self, out: u32, packet: &mut Packet) {
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

    pub(crate) fn take_pause(&mut self, link: u32, frame: &Packet) {
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
}

impl Telemetry {
    /// What an acknowledgement that arrives at `now` tells the congestion control of `sender`.
    #[inline]
    pub(crate) fn read(&self, packet: &Packet, now: Time, sender: &Sender) -> Ack<'_> {
        let (telemetry, stamp, load) = match packet.header() {
            Header::Stamp => (&[][..], packet.sent_at(now), 0),
            Header::Hops => {
                let first = (packet.meta >> 8) as usize * MAX_HOPS;
                let count = (packet.meta & 0xff) as usize;
                (&self.hops[first..first + count], Time::ZERO, 0)
            }
            Header::Load => (&[][..], Time::ZERO, packet.meta as u16),
        };
        Ack {
            now,
            acknowledged: sender.acknowledged(),
            sent: sender.sent(),
            marked: packet.echoes_mark(),
            stamp,
            telemetry,
            format: &self.format,
            load,
        }
    }

    pub(crate) fn take_place(&mut self) -> u32 {
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
    pub(crate) fn passes(&mut self, wire: u16) {
        self.peak_bytes = self.peak_bytes.max(self.bytes + u64::from(wire));
    }

    #[inline]
    pub(crate) fn takes(&mut self, wire: u16) {
        self.bytes += u64::from(wire);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }
}

impl Marker {
    #[inline]
    pub(crate) fn marks(&mut self, behind: u64) -> bool {
        if behind > self.maximum {
            return true;
        }
        let span = (self.maximum - self.minimum) as f64;
        let probability = self.probability * (behind - self.minimum) as f64 / span;
        self.draws.random::<f64>() < probability
    }
}
