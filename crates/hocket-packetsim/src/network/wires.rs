//! Directed links: the ports that feed them, the packets on them, and the routes across them.

use hocket_des::{Rate, Time};
use hocket_scenario::{LinkId, NodeId, NodeKind};

use crate::network::clock::Clock;
use crate::parts::event::Event;
use crate::parts::packet::{Kind, Packet};
use crate::parts::port::{InFlight, Port};
use crate::parts::ring::Ring;
use crate::setup::Setup;
use crate::usage::Usage;

/// All directed links. A link and the port that feeds it have the same number; the opposite direction of a link differs in
/// the last bit.
pub(crate) struct Wires {
    pub(crate) ports: Vec<Port>,
    pub(crate) flights: Vec<Ring<InFlight>>,
    /// The links of all routes, concatenated. A route is identified by the index of its first link.
    pub(crate) routes: Vec<u32>,
    /// Transmission times in picoseconds, by speed and packet size: a table, to save a division for each packet.
    times: Vec<Vec<u64>>,
    /// The rate of each speed.
    rates: Vec<Rate>,
    /// Bytes by link and job, if utilisation is recorded.
    pub(crate) usage: Option<Usage>,
    /// With cut-through switching: the bytes of headers after which a switch may forward a packet.
    cut_through: Option<u16>,
    pub(crate) packet_hops: u64,
}

impl Wires {
    /// The links of a fabric, without routes. `later_rates` are the rates to which changes may set links.
    pub(crate) fn new(setup: &Setup<'_>, later_rates: &[Rate]) -> Self {
        let (fabric, model) = (setup.fabric, setup.model);
        let links = fabric.links();
        let is_host = |node: NodeId| fabric.nodes()[node.index()].kind == NodeKind::Host;
        let mut incoming = vec![0; fabric.nodes().len()];
        let mut rates: Vec<Rate> = Vec::new();
        let mut ports = Vec::with_capacity(links.len());
        for link in links {
            let mut port = Port::new(is_host(link.from), is_host(link.to), link.delay.as_ps());
            port.from = link.from.code();
            port.to = link.to.code();
            port.ingress = incoming[link.to.index()];
            incoming[link.to.index()] += 1;
            let known = rates.iter().position(|&rate| rate == link.rate);
            port.speed = known.unwrap_or_else(|| {
                rates.push(link.rate);
                rates.len() - 1
            }) as u16;
            ports.push(port);
        }
        // Tables for later rates too, so that a change only exchanges an index.
        for rate in later_rates {
            if !rates.contains(rate) {
                rates.push(*rate);
            }
        }
        let (rounding, largest) = (model.arithmetic.rounding(), setup.largest_frame());
        let table = |rate: &Rate| {
            let time = |size| rounding.time(size, rate.as_bps()).as_ps();
            (0..=u32::from(largest)).map(time).collect()
        };
        Self {
            ports,
            flights: vec![Ring::default(); links.len()],
            routes: Vec::new(),
            times: rates.iter().map(table).collect(),
            rates,
            usage: None,
            cut_through: model.switching.cut_through.then_some(model.frames.data_header),
            packet_hops: 0,
        }
    }

    /// Sends a packet by a port that is not busy.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, clock: &mut Clock, out: u32, packet: Packet) {
        let port = &mut self.ports[out as usize];
        let span = self.times[usize::from(port.speed)][usize::from(packet.wire)];
        let until = Time::from_ps(clock.now.as_ps() + span);
        port.busy_until = until;
        // The order is taken now: an event that is scheduled for this time only later still gets its place.
        port.free_order = clock.next_order();
        port.sent_bytes += u64::from(packet.wire);
        port.sent_packets += 1;
        if let Some(usage) = &mut self.usage {
            usage.add(out, &packet);
        }
        let order = clock.next_order();
        let delay_ps = port.delay_ps;
        let passable = match self.cut_through {
            None => until,
            Some(headers) => self.headers_sent(clock.now, out, &packet, headers, until),
        };
        let at = Time::from_ps(passable.as_ps() + delay_ps);
        // Only the first packet on a link has an event in the calendar; its arrival schedules the next one.
        let flight = &mut self.flights[out as usize];
        // Packets cannot overtake each other on a link, so a queue is enough.
        if flight.is_empty() {
            clock.schedule_as(at, order, Event::Arrive(out));
        }
        flight.push_back(InFlight { at, order, packet });
        self.packet_hops += 1;
    }

    /// When the far end of a link may forward a packet whose transmission starts now and ends at `until`: once its headers
    /// are sent if the next link is no faster, otherwise only at `until`, since a faster link would run out of data.
    #[cold]
    fn headers_sent(
        &self,
        now: Time,
        out: u32,
        packet: &Packet,
        headers: u16,
        until: Time,
    ) -> Time {
        let port = &self.ports[out as usize];
        if port.to_host || matches!(packet.kind, Kind::Pause | Kind::Resume) {
            return until;
        }
        let next = &self.ports[self.routes[packet.route as usize] as usize];
        if self.rate(next) > self.rate(port) {
            return until;
        }
        let headers = packet.wire.min(headers);
        Time::from_ps(now.as_ps() + self.times[usize::from(port.speed)][usize::from(headers)])
    }

    /// Removes the first packet on a link, which has reached its end, and schedules the arrival of the next one.
    #[inline(always)]
    pub(crate) fn take_arrival(&mut self, clock: &mut Clock, link: u32) -> Packet {
        let flight = &mut self.flights[link as usize];
        let packet = flight.pop_front().packet;
        if let Some(next) = flight.front() {
            clock.schedule_as(next.at, next.order, Event::Arrive(link));
        }
        packet
    }

    /// Schedules an event for when a port becomes free, unless there is one.
    #[inline]
    pub(crate) fn schedule_free(&mut self, clock: &mut Clock, port: u32) {
        let state = &mut self.ports[port as usize];
        if !state.free_is_scheduled {
            state.free_is_scheduled = true;
            clock.schedule_as(state.busy_until, state.free_order, Event::Free(port));
        }
    }

    /// The rates that links have or may be changed to.
    pub(crate) fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// The rate of the link that a port feeds.
    #[inline]
    pub(crate) fn rate(&self, port: &Port) -> Rate {
        self.rates[usize::from(port.speed)]
    }

    /// Keeps both ends of a cable from sending until neither is in the middle of a packet. Otherwise a PAUSE could wait
    /// behind a packet sent at the old, slow rate while packets arrive at the new rate, which exceeds the headroom.
    pub(crate) fn wait_for_both(&mut self, clock: &mut Clock, ends: [u32; 2]) {
        let [one, other] = ends.map(|end| self.ports[end as usize].busy_until);
        let (until, waits) = if one < other { (other, ends[0]) } else { (one, ends[1]) };
        if one != other && until > clock.now {
            let port = &mut self.ports[waits as usize];
            port.busy_until = until;
            port.free_order = clock.next_order();
        }
    }

    pub(crate) fn set_rate(&mut self, link: u32, rate: Rate) {
        let known = self.rates.iter().position(|&known| known == rate);
        let speed = known.expect("the rates of all changes are known from the start");
        self.ports[link as usize].speed = speed as u16;
    }

    /// Adds a route; returns its index in [`Self::routes`].
    pub(crate) fn add_route(&mut self, links: &[LinkId]) -> u32 {
        let start = self.routes.len() as u32;
        self.routes.extend(links.iter().map(|link| link.code()));
        start
    }

    /// The links of a route.
    pub(crate) fn links_of(&self, route: u32) -> &[u32] {
        let rest = &self.routes[route as usize..];
        let last = rest.iter().position(|&link| self.ports[link as usize].to_host);
        &rest[..=last.expect("every route ends where a link leads to a host")]
    }
}
