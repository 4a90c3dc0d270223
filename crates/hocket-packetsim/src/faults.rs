//! What failures do to flows, and how flows get around them: packets on a dead link are lost, routes are found anew, and what
//! was lost is sent again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use hocket_des::Time;
use hocket_scenario::{LinkId, Routing};
use hocket_transport::telemetry::MAX_HOPS;

use crate::changes::{Change, LinkChange};
use crate::model::PRIORITIES;
use crate::network::Network;
use crate::network::medium::Medium;
use crate::network::ways::ways_forth;
use crate::parts::event::Event;
use crate::parts::packet::{Header, Kind, Packet};
use crate::setup::Setup;

// What a queue pair's 3-bit counter allows at most (InfiniBand: Retry Count, section 9.9.2.4.1).
const MOST_RETRIES: u8 = 7;

/// What failures have done to the flows.
pub(crate) struct Faults<'a> {
    setup: Setup<'a>,
    /// Made when the first link fails.
    routing: Option<Routing<'a>>,
    /// Flows that are not where they were at the start.
    moved: BTreeSet<u32>,
    /// Flows without a way.
    stranded: BTreeSet<u32>,
    /// Flows that lost something, or whose packets overtook each other on a new way, with bytes that are not acknowledged.
    watched: BTreeMap<u32, Watch>,
    /// Of flows that changed their way: the ways before.
    past: BTreeMap<u32, Vec<Stay>>,
    /// Packets that failures lost.
    pub(crate) lost_packets: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    acknowledged: u64,
    retries: u8,
}

/// The time of a flow on the same ways.
struct Stay {
    /// Where their routes begin.
    ways: Vec<u32>,
    /// Bytes that arrived over them.
    arrived: u64,
}

/// What arrived of a flow over the links of one of its ways.
pub(crate) struct Carried<'n> {
    pub(crate) links: &'n [u32],
    pub(crate) bytes: u64,
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

    /// Brings a change about.
    pub(crate) fn apply(&mut self, network: &mut Network<'_>, change: &LinkChange) {
        let cable = [change.link.code() & !1, change.link.code() | 1];
        let is_up = network.medium.wires.ports[cable[0] as usize].is_up;
        match change.change {
            Change::Rate(rate) => {
                let Medium { clock, wires, telemetry, .. } = &mut network.medium;
                wires.wait_for_both(clock, cable);
                for link in cable {
                    wires.set_rate(link, rate);
                    telemetry.set_rate(link, rate);
                }
            }
            Change::Down if is_up => {
                for link in cable {
                    self.routing().set_down(LinkId::new(link), true);
                    self.cut(network, link);
                }
                self.find_ways(network);
            }
            Change::Up if !is_up => {
                for link in cable {
                    self.routing().set_down(LinkId::new(link), false);
                    self.mend(network, link);
                }
                self.find_ways(network);
            }
            Change::Down | Change::Up => {}
        }
    }

    /// What arrived of a flow by each of its ways. What was spread over several counts in equal parts.
    pub(crate) fn carried<'n>(&'n self, network: &'n Network<'_>, id: u32) -> Vec<Carried<'n>> {
        let present = Stay { ways: network.hosts.ways_of(id), arrived: self.arrived(network, id) };
        let mut carried = Vec::new();
        for Stay { ways, arrived } in self.stays(id).iter().chain([&present]) {
            let count = ways.len() as u64;
            carried.extend(ways.iter().zip(0..).map(|(&way, place)| Carried {
                links: network.medium.wires.links_of(way),
                bytes: arrived / count + u64::from(place < arrived % count),
            }));
        }
        carried
    }

    fn stays(&self, id: u32) -> &[Stay] {
        self.past.get(&id).map_or(&[], Vec::as_slice)
    }

    /// What arrived of a flow over its present ways.
    fn arrived(&self, network: &Network<'_>, id: u32) -> u64 {
        let before: u64 = self.stays(id).iter().map(|stay| stay.arrived).sum();
        network.hosts.returns[id as usize].receiver.received() - before
    }

    /// A failure took this packet.
    #[cold]
    pub(crate) fn lose(&mut self, network: &mut Network<'_>, packet: &Packet) {
        self.lost_packets += 1;
        self.recover_later(network, packet);
    }

    /// A packet is gone: if that leaves a gap which no later packet shows, the sender goes back by itself; a lost grant is
    /// sent again.
    #[cold]
    pub(crate) fn recover_later(&mut self, network: &mut Network<'_>, packet: &Packet) {
        match packet.kind {
            Kind::Data | Kind::Ack | Kind::Nack => network.medium.telemetry.give_up(packet),
            Kind::Grant => {}
            _ => return,
        }
        self.watch(network, packet.flow);
    }

    fn watch(&mut self, network: &mut Network<'_>, id: u32) {
        if let Entry::Vacant(entry) = self.watched.entry(id) {
            let acknowledged = network.hosts.flows[id as usize].sender.acknowledged();
            entry.insert(Watch { acknowledged, retries: 0 });
            retry_later(&mut network.medium, id);
        }
    }

    /// Sends again what a flow lost, if it has made no progress since the last look. One look that finds progress is not
    /// enough: the receiver reports a gap once in a while only, and drops all that comes meanwhile.
    #[cold]
    pub(crate) fn retry(&mut self, network: &mut Network<'_>, id: u32) {
        let Some(watch) = self.watched.get_mut(&id) else { return };
        let sender = &network.hosts.flows[id as usize].sender;
        let (sent, acknowledged) = (sender.sent(), sender.acknowledged());
        let progressed = acknowledged > watch.acknowledged;
        watch.retries = if progressed { 0 } else { watch.retries + 1 };
        watch.acknowledged = acknowledged;
        let is_over = acknowledged >= sent.max(network.hosts.granted(id))
            || watch.retries > MOST_RETRIES
            || self.stranded.contains(&id);
        if is_over {
            self.watched.remove(&id);
            return;
        }
        let Network { medium, hosts, .. } = network;
        retry_later(medium, id);
        if !progressed {
            hosts.repeat_grant(medium, id);
            if sent > acknowledged {
                hosts.go_back(medium, id, acknowledged);
            }
        }
    }

    // --- links ---

    fn cut(&mut self, network: &mut Network<'_>, link: u32) {
        let Network { medium, hosts, .. } = network;
        let port = &mut medium.wires.ports[link as usize];
        port.is_up = false;
        // Whoever looks takes it for busy, and it is not looked at again by itself.
        port.busy_until = Time::from_ps(u64::MAX);
        port.urgent.clear();
        let mut lost = Vec::new();
        // They stay on their way so that the event of the first finds it.
        medium.wires.flights[link as usize].for_each_mut(|flight| {
            lost.push(flight.packet);
            flight.packet.kind = Kind::Lost;
        });
        lost.extend(std::iter::from_fn(|| hosts.discard_answer(link)));
        for packet in lost {
            if !matches!(packet.kind, Kind::Pause | Kind::Resume | Kind::Lost) {
                self.lose(network, &packet);
            }
        }
        while let Some(packet) = network.switches.discard_next(&mut network.medium, link) {
            self.lose(network, &packet);
        }
    }

    fn mend(&self, network: &mut Network<'_>, link: u32) {
        let Network { medium: Medium { clock, wires, recorder, .. }, switches, .. } = network;
        let port = &mut wires.ports[link as usize];
        port.is_up = true;
        port.busy_until = clock.now;
        port.free_order = 0;
        // PAUSE and resume frames were lost, or wait since; the far ends tell their states anew.
        port.urgent.clear();
        let (to, before) = (port.to as usize, port.paused);
        let is_switch = self.setup.fabric.nodes()[to].kind.is_switch();
        let pauses = |class: &usize| is_switch && switches.is_pausing(wires, link, *class);
        let paused = (0..PRIORITIES).filter(pauses).fold(0, |bits, class| bits | 1_u8 << class);
        wires.ports[link as usize].paused = paused;
        for class in 0..PRIORITIES as u8 {
            let is_pause = paused & 1 << class != 0;
            if is_pause != (before & 1 << class != 0) {
                recorder.pause(clock.now, link, class, is_pause);
            }
        }
        network.look(link);
    }

    // --- routes ---

    fn routing(&mut self) -> &mut Routing<'a> {
        let (fabric, hash) = (self.setup.fabric, self.setup.reference.hash);
        self.routing.get_or_insert_with(|| Routing::with_hash(fabric, hash))
    }

    fn find_ways(&mut self, network: &mut Network<'_>) {
        for id in 0..network.hosts.flows.len() as u32 {
            if self.moved.contains(&id) || crosses_dead_link(network, id) {
                self.find_way(network, id);
            }
        }
    }

    fn find_way(&mut self, network: &mut Network<'_>, id: u32) {
        self.moved.insert(id);
        match self.new_ways(network, id) {
            Some(ways) => self.take_ways(network, id, ways),
            None => {
                self.stranded.insert(id);
                network.hosts.hold(&network.medium, id);
            }
        }
    }

    fn new_ways(&mut self, network: &mut Network<'_>, id: u32) -> Option<Ways> {
        let spec = &self.setup.flows[id as usize];
        let wires = &mut network.medium.wires;
        let routing = self.routing();
        let is_up = |link: &LinkId| wires.ports[link.index()].is_up;
        let forth = ways_forth(spec, routing, is_up).ok()?;
        let back = routing.route(spec.to, spec.from, spec.labels.1).ok()?;
        let is_too_long = |way: &Vec<LinkId>| way.len() - 1 > MAX_HOPS;
        let header = network.hosts.flows[id as usize].header;
        if header == Header::Hops && forth.iter().any(is_too_long) {
            return None;
        }
        let forth = forth.iter().map(|way| wires.add_route(way)).collect();
        Some(Ways { forth, back: wires.add_route(&back) })
    }

    fn take_ways(&mut self, network: &mut Network<'_>, id: u32, ways: Ways) {
        let arrived = self.arrived(network, id);
        let before = Stay { ways: network.hosts.ways_of(id), arrived };
        self.past.entry(id).or_default().push(before);
        network.hosts.reroute(&network.medium.wires, id, ways.forth, ways.back);
        let was_stranded = self.stranded.remove(&id);
        if was_stranded {
            network.hosts.release(id);
        }
        let sender = &network.hosts.flows[id as usize].sender;
        if was_stranded || sender.sent() > sender.acknowledged() {
            self.watch(network, id);
        }
        let Network { medium, hosts, .. } = network;
        hosts.update_turn(medium, id);
        hosts.look(medium, hosts.flows[id as usize].nic);
    }
}

fn retry_later(medium: &mut Medium<'_>, id: u32) {
    let at = medium.clock.now + medium.model.retransmit_timeout;
    medium.clock.schedule(at, Event::Retry(id));
}

fn crosses_dead_link(network: &Network<'_>, id: u32) -> bool {
    let wires = &network.medium.wires;
    let back = network.hosts.returns[id as usize].route;
    let mut routes = network.hosts.ways_of(id).into_iter().chain([back]);
    routes.any(|route| wires.links_of(route).iter().any(|&link| !wires.ports[link as usize].is_up))
}
