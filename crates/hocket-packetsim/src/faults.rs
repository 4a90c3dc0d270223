//! Link failures and recovery: packets on a failed link are lost, flows are rerouted, and lost data is retransmitted.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use hocket_des::Time;
use hocket_scenario::{LinkId, Routing};
use hocket_transport::telemetry::MAX_HOPS;

use crate::changes::{Change, LinkChange};
use crate::model::PRIORITIES;
use crate::network::Network;
use crate::network::medium::Medium;
use crate::network::paths::forward_paths;
use crate::parts::event::Event;
use crate::parts::packet::{Header, Kind, Packet};
use crate::setup::Setup;

// The maximum of a queue pair's 3-bit counter (InfiniBand: Retry Count, section 9.9.2.4.1).
const MAX_RETRIES: u8 = 7;

/// The effects of link failures on flows.
pub(crate) struct Faults<'a> {
    setup: Setup<'a>,
    /// Routing around failed links, created at the first failure.
    routing: Option<Routing<'a>>,
    /// Flows that were rerouted.
    moved: BTreeSet<u32>,
    /// Flows without a path.
    stranded: BTreeSet<u32>,
    /// Flows that may have to retransmit: they lost packets, or packets overtook each other on a new path.
    watched: BTreeMap<u32, Watch>,
    /// The former paths of flows that were rerouted.
    past: BTreeMap<u32, Vec<PathUse>>,
    /// Packets lost to failures.
    pub(crate) lost_packets: u64,
}

/// The retransmission timer of a flow.
#[derive(Clone, Copy, Debug)]
struct Watch {
    /// Bytes acknowledged when the timer last expired.
    acknowledged: u64,
    /// How often in a row the timer expired without progress.
    retries: u8,
}

/// The paths of a flow between two changes, and what they carried.
struct PathUse {
    /// The forward routes.
    routes: Vec<u32>,
    /// Bytes that arrived over them.
    arrived: u64,
}

/// The bytes of a flow that arrived over one of its paths.
pub(crate) struct Carried<'n> {
    pub(crate) links: &'n [u32],
    pub(crate) bytes: u64,
}

/// New routes of a flow.
struct NewRoutes {
    forward: Vec<u32>,
    reverse: u32,
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

    /// Applies a change of a link.
    pub(crate) fn apply(&mut self, network: &mut Network<'_>, change: &LinkChange) {
        // Cable i has the links 2i and 2i + 1.
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
                self.reroute_affected(network);
            }
            Change::Up if !is_up => {
                for link in cable {
                    self.routing().set_down(LinkId::new(link), false);
                    self.mend(network, link);
                }
                self.reroute_affected(network);
            }
            Change::Down | Change::Up => {}
        }
    }

    /// The bytes of a flow that arrived over each of its paths. The bytes of a sprayed flow count in equal parts.
    pub(crate) fn carried<'n>(&'n self, network: &'n Network<'_>, id: u32) -> Vec<Carried<'n>> {
        let present = PathUse {
            routes: network.hosts.forward_routes(id),
            arrived: self.arrived(network, id),
        };
        let mut carried = Vec::new();
        for PathUse { routes, arrived } in self.past_uses(id).iter().chain([&present]) {
            let count = routes.len() as u64;
            carried.extend(routes.iter().zip(0..).map(|(&route, place)| Carried {
                links: network.medium.wires.links_of(route),
                // The first paths get what the division leaves, so that the parts add up.
                bytes: arrived / count + u64::from(place < arrived % count),
            }));
        }
        carried
    }

    fn past_uses(&self, id: u32) -> &[PathUse] {
        self.past.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The bytes of a flow that arrived over its current paths.
    fn arrived(&self, network: &Network<'_>, id: u32) -> u64 {
        let before: u64 = self.past_uses(id).iter().map(|past| past.arrived).sum();
        network.hosts.receiver_states[id as usize].receiver.received() - before
    }

    /// Handles a packet lost to a failure.
    #[cold]
    pub(crate) fn lose(&mut self, network: &mut Network<'_>, packet: &Packet) {
        self.lost_packets += 1;
        self.recover_later(network, packet);
    }

    /// Starts the retransmission timer of a lost packet's flow. It covers gaps that no later packet reveals to the receiver,
    /// and lost grants.
    #[cold]
    pub(crate) fn recover_later(&mut self, network: &mut Network<'_>, packet: &Packet) {
        match packet.kind {
            Kind::Data | Kind::Ack | Kind::Nack => network.medium.telemetry.free_place(packet),
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

    /// Handles the retransmission timer of a flow: retransmits if the flow has made no progress since the timer last expired.
    /// The timer keeps running after progress, because the receiver reports a gap only once in a while and drops everything
    /// that arrives until the gap is filled.
    #[cold]
    pub(crate) fn retry(&mut self, network: &mut Network<'_>, id: u32) {
        let Some(watch) = self.watched.get_mut(&id) else { return };
        let sender = &network.hosts.flows[id as usize].sender;
        let (sent, acknowledged) = (sender.sent(), sender.acknowledged());
        let progressed = acknowledged > watch.acknowledged;
        watch.retries = if progressed { 0 } else { watch.retries + 1 };
        watch.acknowledged = acknowledged;
        let is_over = acknowledged >= sent.max(network.hosts.granted(id))
            || watch.retries > MAX_RETRIES
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
        // The port counts as busy for ever, so nothing is sent until it is up again.
        port.busy_until = Time::from_ps(u64::MAX);
        port.urgent.clear();
        let mut lost = Vec::new();
        // Lost packets stay on the link, since the arrival of the first one is already scheduled.
        medium.wires.flights[link as usize].for_each_mut(|flight| {
            lost.push(flight.packet);
            flight.packet.kind = Kind::Lost;
        });
        lost.extend(std::iter::from_fn(|| hosts.discard_answer(link)));
        for packet in lost {
            // PAUSE frames belong to no flow. Packets on the link that are lost already were counted at an earlier failure.
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
        // No order is below 0, so the port counts as free for all events of this time.
        port.free_order = 0;
        // PAUSE and resume frames were lost or are outdated: take over the current state of the far end.
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
        network.try_send(link);
    }

    // --- routes ---

    fn routing(&mut self) -> &mut Routing<'a> {
        let (fabric, hash) = (self.setup.fabric, self.setup.reference.hash);
        self.routing.get_or_insert_with(|| Routing::with_hash(fabric, hash))
    }

    /// Reroutes the flows whose paths cross a failed link, and those that may return to their original paths.
    fn reroute_affected(&mut self, network: &mut Network<'_>) {
        for id in 0..network.hosts.flows.len() as u32 {
            if self.moved.contains(&id) || crosses_dead_link(network, id) {
                self.reroute(network, id);
            }
        }
    }

    /// Moves a flow to the shortest paths over links that are up; stops it if there is none.
    fn reroute(&mut self, network: &mut Network<'_>, id: u32) {
        self.moved.insert(id);
        match self.find_routes(network, id) {
            Some(routes) => self.take_routes(network, id, routes),
            None => {
                self.stranded.insert(id);
                network.hosts.hold(&network.medium, id);
            }
        }
    }

    fn find_routes(&mut self, network: &mut Network<'_>, id: u32) -> Option<NewRoutes> {
        let spec = &self.setup.flows[id as usize];
        let wires = &mut network.medium.wires;
        let routing = self.routing();
        let is_up = |link: &LinkId| wires.ports[link.index()].is_up;
        let forward = forward_paths(spec, routing, is_up).ok()?;
        let reverse = routing.route(spec.to, spec.from, spec.labels.1).ok()?;
        // HPCC's packets have no room for the telemetry of longer paths.
        let is_too_long = |path: &Vec<LinkId>| path.len() - 1 > MAX_HOPS;
        let header = network.hosts.flows[id as usize].header;
        if header == Header::Hops && forward.iter().any(is_too_long) {
            return None;
        }
        let forward = forward.iter().map(|path| wires.add_route(path)).collect();
        Some(NewRoutes { forward, reverse: wires.add_route(&reverse) })
    }

    fn take_routes(&mut self, network: &mut Network<'_>, id: u32, routes: NewRoutes) {
        let arrived = self.arrived(network, id);
        let before = PathUse { routes: network.hosts.forward_routes(id), arrived };
        // Bytes in flight on the old paths will count for the new ones: only those that have arrived are known.
        self.past.entry(id).or_default().push(before);
        network.hosts.reroute(&network.medium.wires, id, routes.forward, routes.reverse);
        let was_stranded = self.stranded.remove(&id);
        if was_stranded {
            network.hosts.release(id);
        }
        // Packets on the new paths may overtake those in flight and be dropped without another NACK.
        let sender = &network.hosts.flows[id as usize].sender;
        if was_stranded || sender.sent() > sender.acknowledged() {
            self.watch(network, id);
        }
        let Network { medium, hosts, .. } = network;
        hosts.update_turn(medium, id);
        hosts.try_send(medium, hosts.flows[id as usize].nic);
    }
}

fn retry_later(medium: &mut Medium<'_>, id: u32) {
    let at = medium.clock.now + medium.model.retransmit_timeout;
    medium.clock.schedule(at, Event::Retry(id));
}

fn crosses_dead_link(network: &Network<'_>, id: u32) -> bool {
    let wires = &network.medium.wires;
    let reverse = network.hosts.receiver_states[id as usize].route;
    let mut routes = network.hosts.forward_routes(id).into_iter().chain([reverse]);
    routes.any(|route| wires.links_of(route).iter().any(|&link| !wires.ports[link as usize].is_up))
}
