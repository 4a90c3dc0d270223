//! Links that fail, come back, or carry less at a given time; and how flows get around that: packets on a
//! dead link are lost, routes are found anew, and what was lost is sent again.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::{Rate, Time};
use hocket_scenario::{Fabric, LinkId, PathChoice, RouteError, Routing};
use hocket_transport::telemetry::MAX_HOPS;

use crate::RunError;
use crate::build::Setup;
use crate::engine::Engine;
use crate::event::Event;
use crate::model::PRIORITIES;
use crate::packet::{Header, Kind, Packet};

// What a queue pair's 3-bit counter allows at most (InfiniBand: Retry Count, section 9.9.2.4.1).
const MOST_RETRIES: u8 = 7;

/// A cable changes at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// When.
    pub at: Time,
    /// Either direction of the cable: both change.
    pub link: LinkId,
    /// How.
    pub change: Change,
}

/// How a cable changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails. What is on it, and what waits to leave by it, is lost; flows that took it take the shortest ways that
    /// are left, or wait until there is one.
    Down,
    /// It works again. Flows go back to the ways that they had.
    Up,
    /// It carries this much from the next packet on, at most what it was built for. What a congestion control takes for the line
    /// rate and the round-trip time stays as it was.
    Rate(Rate),
}

/// What failures have done to the flows.
pub(crate) struct Faults<'a> {
    setup: Setup<'a>,
    /// Made when the first link fails.
    routing: Option<Routing<'a>>,
    /// Flows that are not where they were at the start.
    moved: BTreeSet<u32>,
    /// Flows without a way.
    stranded: BTreeSet<u32>,
    /// Flows that lost something and have not got beyond it.
    watched: BTreeMap<u32, Watch>,
    /// Of flows that changed their way: the ways before, and what arrived over each.
    past: BTreeMap<u32, Vec<(Vec<u32>, u64)>>,
    /// Packets that failures lost.
    pub(crate) lost_packets: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    /// Once this is acknowledged, nothing that was lost is missing.
    mark: u64,
    acknowledged: u64,
    retries: u8,
}

/// The ways of a flow, as places in the table of routes.
struct Ways {
    forth: Vec<u32>,
    back: u32,
}

impl<'a> Faults<'a> {
    pub(crate) fn new(setup: &Setup<'a>) -> Self {
        Self {
            setup: *setup,
            routing: None,
            moved: BTreeSet::new(),
            stranded: BTreeSet::new(),
            watched: BTreeMap::new(),
            past: BTreeMap::new(),
            lost_packets: 0,
        }
    }

    fn routing(&mut self) -> &mut Routing<'a> {
        let (fabric, hash) = (self.setup.fabric, self.setup.hash);
        self.routing.get_or_insert_with(|| Routing::with_hash(fabric, hash))
    }
}

/// Whether each change is of a link of `fabric` and of a rate that it can have.
pub(crate) fn check(changes: &[LinkChange], fabric: &Fabric) -> Result<(), RunError> {
    for (index, change) in changes.iter().enumerate() {
        let number = index + 1;
        let Some(link) = fabric.links().get(change.link.index()) else {
            let (link, links) = (change.link.code(), fabric.links().len());
            return Err(RunError::UnknownLink { change: number, link, links });
        };
        if let Change::Rate(rate) = change.change
            && (rate.is_zero() || rate > link.rate)
        {
            let (link, limit) = (link.name.clone(), link.rate);
            return Err(RunError::ChangedRate { change: number, link, rate, limit });
        }
    }
    Ok(())
}

impl Engine<'_> {
    /// Brings a change about.
    pub(crate) fn apply(&mut self, change: &LinkChange) {
        let cable = [change.link.code() & !1, change.link.code() | 1];
        let is_up = self.ports[cable[0] as usize].is_up;
        match change.change {
            Change::Rate(rate) => cable.iter().for_each(|&link| self.set_rate(link, rate)),
            Change::Down if is_up => {
                for link in cable {
                    self.faults.routing().set_down(LinkId::new(link), true);
                    self.cut(link);
                }
                self.find_ways();
            }
            Change::Up if !is_up => {
                for link in cable {
                    self.faults.routing().set_down(LinkId::new(link), false);
                    self.mend(link);
                }
                self.find_ways();
            }
            Change::Down | Change::Up => {}
        }
    }

    /// What arrived of a flow by each of its ways: links and bytes. What was spread over several counts in equal parts.
    pub(crate) fn carried(&self, id: u32) -> Vec<(&[u32], u64)> {
        let past = self.faults.past.get(&id).map_or(&[][..], Vec::as_slice);
        let before: u64 = past.iter().map(|(_, bytes)| bytes).sum();
        let rest = self.returns[id as usize].receiver.received() - before;
        let present = (self.ways_of(id), rest);
        let all = past.iter().chain([&present]);
        let each = all.flat_map(|(routes, bytes)| {
            let (count, bytes) = (routes.len() as u64, *bytes);
            routes.iter().zip(0..).map(move |(&route, place)| {
                (route, bytes / count + u64::from(place < bytes % count))
            })
        });
        each.map(|(route, bytes)| (self.links_of(route), bytes)).collect()
    }

    /// A failure took this packet.
    #[cold]
    pub(crate) fn lose_to_failure(&mut self, packet: &Packet) {
        self.faults.lost_packets += 1;
        self.recover_later(packet);
    }

    /// A packet is gone: if that leaves a gap which no later packet shows, the sender goes back by itself; a lost grant is
    /// sent again.
    #[cold]
    pub(crate) fn recover_later(&mut self, packet: &Packet) {
        match packet.kind {
            Kind::Data | Kind::Ack | Kind::Nack => self.drop_telemetry(packet),
            Kind::Grant => {}
            _ => return,
        }
        self.watch(packet.flow);
    }

    fn watch(&mut self, id: u32) {
        let sender = &self.flows[id as usize].sender;
        let mark = sender.sent().max(self.granted(id));
        let acknowledged = sender.acknowledged();
        if let Some(watch) = self.faults.watched.get_mut(&id) {
            watch.mark = watch.mark.max(mark);
            return;
        }
        let watch = Watch { mark, acknowledged, retries: 0 };
        self.faults.watched.insert(id, watch);
        self.retry_later(id);
    }

    /// Sends again what a flow lost, if it has made no progress since the last look.
    #[cold]
    pub(crate) fn retry(&mut self, id: u32) {
        let Some(watch) = self.faults.watched.get_mut(&id) else { return };
        let acknowledged = self.flows[id as usize].sender.acknowledged();
        let progressed = acknowledged > watch.acknowledged;
        watch.retries = if progressed { 0 } else { watch.retries + 1 };
        watch.acknowledged = acknowledged;
        let is_over = acknowledged >= watch.mark
            || watch.retries > MOST_RETRIES
            || self.faults.stranded.contains(&id);
        if is_over {
            self.faults.watched.remove(&id);
            return;
        }
        self.retry_later(id);
        if !progressed {
            self.repeat_grant(id);
            if self.flows[id as usize].sender.sent() > acknowledged {
                self.go_back(id, acknowledged);
            }
        }
    }

    fn retry_later(&mut self, id: u32) {
        let order = self.calendar.next_order();
        let at = self.now + self.model.retransmit_timeout;
        self.calendar.schedule(at, order, Event::Retry(id).packed());
    }

    // --- links ---

    fn set_rate(&mut self, link: u32, rate: Rate) {
        let known = self.rates.iter().position(|&known| known == rate);
        let speed = known.expect("the rates of all changes are known from the start");
        self.ports[link as usize].speed = speed as u16;
        if let Some(code) = self.telemetry.format.code(rate) {
            self.telemetry.codes[link as usize] = code;
        }
    }

    fn cut(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.is_up = false;
        // Whoever looks takes it for busy, and it is not looked at again by itself.
        port.busy_until = Time::from_ps(u64::MAX);
        port.urgent.clear();
        let mut lost = Vec::new();
        // They stay on their way so that the event of the first finds it.
        self.flights[link as usize].for_each_mut(|flight| {
            lost.push(flight.packet);
            flight.packet.kind = Kind::Lost;
        });
        while !self.nics[link as usize].answers.is_empty() {
            lost.push(self.nics[link as usize].answers.pop_front());
        }
        for packet in lost {
            if !matches!(packet.kind, Kind::Pause | Kind::Resume | Kind::Lost) {
                self.lose_to_failure(&packet);
            }
        }
        for class in 0..PRIORITIES {
            self.discard_queue(link, class);
        }
    }

    fn discard_queue(&mut self, link: u32, class: usize) {
        let switch = self.ports[link as usize].from as usize;
        self.ports[link as usize].waiting &= !(1 << class);
        let place = link as usize * PRIORITIES + class;
        while !self.queues[place].packets.is_empty() {
            let packet = self.backlogs.pop(&mut self.queues[place].packets);
            let wire = u64::from(packet.wire);
            self.queues[place].bytes -= wire;
            self.ports[link as usize].queued_bytes -= wire;
            self.switches[switch].bytes -= wire;
            self.buffers[switch].release(packet.ingress, class, packet.wire);
            if self.buffers[switch].wants_resume(packet.ingress, class) {
                let incoming = self.incoming[switch][usize::from(packet.ingress)];
                self.send_pause(incoming ^ 1, Kind::Resume, class);
            }
            self.lose_to_failure(&packet);
        }
    }

    fn mend(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.is_up = true;
        port.busy_until = self.now;
        port.free_order = 0;
        // PAUSE and resume frames were lost, or wait since; the far ends tell their states anew.
        port.urgent.clear();
        let (to, ingress, before) = (port.to as usize, port.ingress, port.paused);
        let pauses = |class: usize| self.buffers[to].is_pausing(ingress, class);
        let is_switch = self.setup_node_is_switch(to);
        let paused = (0..PRIORITIES).filter(|&class| is_switch && pauses(class));
        let paused = paused.fold(0, |bits, class| bits | 1_u8 << class);
        self.ports[link as usize].paused = paused;
        for class in 0..PRIORITIES as u8 {
            let is_pause = paused & 1 << class != 0;
            if is_pause != (before & 1 << class != 0) {
                self.records.pause(self.now, link, class, is_pause);
            }
        }
        self.look(link);
    }

    fn setup_node_is_switch(&self, node: usize) -> bool {
        self.faults.setup.fabric.nodes()[node].kind.is_switch()
    }

    // --- routes ---

    fn find_ways(&mut self) {
        for id in 0..self.flows.len() as u32 {
            if self.faults.moved.contains(&id) || self.crosses_dead_link(id) {
                self.find_way(id);
            }
        }
    }

    fn crosses_dead_link(&self, id: u32) -> bool {
        let back = self.returns[id as usize].route;
        let mut routes = self.ways_of(id).into_iter().chain([back]);
        routes
            .any(|route| self.links_of(route).iter().any(|&link| !self.ports[link as usize].is_up))
    }

    fn find_way(&mut self, id: u32) {
        self.faults.moved.insert(id);
        match self.new_ways(id) {
            Some(ways) => self.take_ways(id, ways),
            None => {
                self.faults.stranded.insert(id);
                self.flows[id as usize].sender.hold();
                self.update_turn(id);
            }
        }
    }

    fn new_ways(&mut self, id: u32) -> Option<Ways> {
        let spec = &self.faults.setup.flows[id as usize];
        let ports = &self.ports;
        let routing = self.faults.routing();
        let forth = ways_forth(spec, routing, |link| ports[link.index()].is_up).ok()?;
        let back = routing.route(spec.to, spec.from, spec.labels.1).ok()?;
        let is_too_long = |way: &Vec<LinkId>| way.len() - 1 > MAX_HOPS;
        if self.flows[id as usize].header == Header::Hops && forth.iter().any(is_too_long) {
            return None;
        }
        let forth = forth.iter().map(|way| self.add_route(way)).collect();
        Some(Ways { forth, back: self.add_route(&back) })
    }

    fn take_ways(&mut self, id: u32, ways: Ways) {
        let arrived: u64 = {
            let past = self.faults.past.get(&id).map_or(&[][..], Vec::as_slice);
            self.returns[id as usize].receiver.received()
                - past.iter().map(|(_, bytes)| bytes).sum::<u64>()
        };
        let before = (self.ways_of(id), arrived);
        self.faults.past.entry(id).or_default().push(before);
        let nic = self.routes[ways.forth[0] as usize];
        let flow = &mut self.flows[id as usize];
        flow.route = ways.forth[0];
        if flow.nic != nic {
            self.nics[flow.nic as usize].finish(flow.slot);
            flow.slot = self.nics[nic as usize].add(id, flow.priority);
            flow.nic = nic;
            self.nics[nic as usize].list(flow.slot);
        }
        if let Some(spray) = self.courses[id as usize].spray {
            self.sprays[spray.get() as usize - 1].replace(ways.forth);
        }
        self.returns[id as usize].route = ways.back;
        if self.faults.stranded.remove(&id) {
            let control = self.steering[id as usize].control.rate_bps();
            self.flows[id as usize].sender.release(control);
            self.watch(id);
        }
        self.update_turn(id);
        self.look(nic);
    }

    fn add_route(&mut self, way: &[LinkId]) -> u32 {
        let start = self.routes.len() as u32;
        self.routes.extend(way.iter().map(|link| link.code()));
        start
    }

    fn ways_of(&self, id: u32) -> Vec<u32> {
        match self.courses[id as usize].spray {
            Some(spray) => self.sprays[spray.get() as usize - 1].routes.clone(),
            None => vec![self.flows[id as usize].route],
        }
    }

    // A route ends where a link leads to a host.
    fn links_of(&self, route: u32) -> &[u32] {
        let rest = &self.routes[route as usize..];
        let last = rest.iter().position(|&link| self.ports[link as usize].to_host);
        &rest[..=last.expect("every route leads to a host")]
    }
}

/// The ways of a flow's packets: one, or those over which it is sprayed. A pinned path holds while all its links are
/// up.
pub(crate) fn ways_forth(
    spec: &crate::FlowSpec,
    routing: &mut Routing<'_>,
    is_up: impl Fn(&LinkId) -> bool,
) -> Result<Vec<Vec<LinkId>>, RouteError> {
    match &spec.path {
        PathChoice::Spray => routing.ways(spec.from, spec.to, spec.labels.0),
        PathChoice::Pinned(path) if path.iter().all(is_up) => {
            routing.check_path(spec.from, spec.to, path)?;
            Ok(vec![path.clone()])
        }
        PathChoice::Pinned(_) | PathChoice::Ecmp => {
            Ok(vec![routing.route(spec.from, spec.to, spec.labels.0)?])
        }
    }
}
