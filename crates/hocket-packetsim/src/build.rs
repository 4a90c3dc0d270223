//! From fabric, model and flows to an engine at rest.

use std::num::NonZeroU32;
use std::ops::Range;

use hocket_des::{Calendar, Duration, Rate, Time, stream};
use hocket_scenario::{
    EcmpHash, Fabric, Link, LinkId, NodeId, NodeKind, PathChoice, Routing, WindowRule,
};
use hocket_transport::congestion::pint::PortLoad;
use hocket_transport::telemetry::{Format, MAX_HOPS};
use hocket_transport::{Control, Path, Policy, Progress, Receiver, Sender, Window};

use crate::RunError;
use crate::backlog::Backlogs;
use crate::buffer::{Incoming, SharedBuffer};
use crate::changes::{Faults, ways_forth};
use crate::engine::Engine;
use crate::host::{Course, Flow, NOTIFIES, Return, Steering};
use crate::messages::Messages;
use crate::model::{Arithmetic, Frames, Model, Notification, PRIORITIES, Scheduling};
use crate::nic::Nic;
use crate::packet::Header;
use crate::port::{ClassQueue, Deficits, Port};
use crate::records::Records;
use crate::ring::Ring;
use crate::spray::Spray;
use crate::switch::{Marker, Telemetry};
use crate::windows::{Crowd, Footprint};

/// A queue pair between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Who sends.
    pub from: NodeId,
    /// Who receives.
    pub to: NodeId,
    /// What tells the flow from others between the same hosts where paths are chosen: forth and back.
    pub labels: (u64, u64),
    /// Class of traffic, 0 to 7, of data and acknowledgements.
    pub priority: u8,
    /// Which of the run's policies governs it. None governs a flow inside a server, between hosts on one scale-up switch.
    pub policy: usize,
    /// How much may be under way; not looked at where the policy is a static window, and inside a server, where that is
    /// unlimited.
    pub window: WindowRule,
    /// Which way its packets take.
    pub path: PathChoice,
}

/// Everything that is simulated, apart from who sends when.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Hosts, switches, links.
    pub fabric: &'a Fabric,
    /// How they work.
    pub model: &'a Model,
    /// Congestion controls with their parameters.
    pub policies: &'a [Policy],
    /// Queue pairs.
    pub flows: &'a [FlowSpec],
    /// Queue pairs, by index, that are active together, such as those of a collective: of each buffer on their ways, the
    /// static windows of each such pattern take an equal part. Queue pairs of none are one more pattern.
    pub patterns: &'a [Vec<usize>],
    /// How switches choose among equal paths.
    pub hash: EcmpHash,
    /// Whether every flow takes the longest round-trip time of all pairs of hosts for its own (HPCC's T). What goes on inside
    /// a server has no part in that.
    pub longest_rtt_for_all: bool,
    /// Every random stream comes from this.
    pub seed: u64,
}

/// What governs a flow inside a server: nothing but the PAUSE frames that stand for credits.
const INSIDE_SERVERS: Policy = Policy::PfcOnly;

impl Setup<'_> {
    /// What governs a flow.
    pub(crate) fn policy_of(&self, flow: &FlowSpec) -> &Policy {
        if self.is_inside(flow) { &INSIDE_SERVERS } else { &self.policies[flow.policy] }
    }

    /// Sizes of a flow's frames.
    pub(crate) fn frames_of(&self, flow: &FlowSpec) -> Frames {
        if self.is_inside(flow) { self.model.scale_up_frames() } else { self.model.frames }
    }

    fn is_inside(&self, flow: &FlowSpec) -> bool {
        self.fabric.scale_up_between(flow.from, flow.to).is_some()
    }
}

impl<'a> Engine<'a> {
    /// The engine of `setup`, in which links may come to have `later_rates` too.
    pub(crate) fn new(setup: &Setup<'a>, later_rates: &[Rate]) -> Result<Self, RunError> {
        let fabric = setup.fabric;
        let mut routes = Vec::new();
        let mut routing = Routing::with_hash(fabric, setup.hash);
        let mut ways = Vec::with_capacity(setup.flows.len());
        let mut spans = Vec::with_capacity(setup.flows.len());
        for (index, flow) in setup.flows.iter().enumerate() {
            check_flow(index, flow, fabric)?;
            let forth = ways_forth(flow, &mut routing, |_| true)?;
            let back = routing.route(flow.to, flow.from, flow.labels.1)?;
            let first = routes.len();
            let mut add = |way: &Vec<LinkId>| {
                let start = routes.len() as u32;
                routes.extend(way.iter().map(|link| link.code()));
                start
            };
            let forth: Vec<u32> = forth.iter().map(&mut add).collect();
            ways.push((forth, add(&back)));
            spans.push(first..routes.len());
        }
        let footprints =
            ways.iter().zip(&spans).map(|((_, back), span)| footprint(&routes, span, *back));
        let crowd = Crowd::new(setup, footprints.enumerate());
        let uses_load =
            setup.flows.iter().any(|flow| matches!(setup.policy_of(flow), Policy::Pint(_)));
        let longest = (setup.longest_rtt_for_all || uses_load).then(|| longest_way(setup));
        let longest_rtt = longest.map_or(Duration::ZERO, |longest| longest.base_rtt);
        let mut engine = Self::without_flows(setup, later_rates, routes, longest_rtt)?;
        let ingress = |link: u32| engine.ports[link as usize].ingress;
        let shares = crowd.shares(setup, &engine.buffers, ingress);
        for (index, (flow, (forth, back))) in setup.flows.iter().zip(ways).enumerate() {
            // All ways of a flow are of one length.
            let last = forth[forth.len() - 1];
            let links = &engine.routes[last as usize..back as usize];
            let links_forth = links.iter().map(|&link| &fabric.links()[link as usize]);
            let way = way(setup, &setup.frames_of(flow), links_forth);
            let path = match longest.filter(|_| setup.longest_rtt_for_all && !setup.is_inside(flow))
            {
                Some(longest) => Path { line_rate: way.line_rate, ..longest },
                None => way,
            };
            let switches = links.len() - 1;
            let links = footprint(&engine.routes, &spans[index], back);
            let window = shares.window(setup, index, &path, &links)?;
            let window = match window {
                _ if setup.is_inside(flow) => WindowRule::Unlimited,
                Some(bytes) => WindowRule::Bytes(bytes),
                None => flow.window,
            };
            let last_link = engine.routes[back as usize - 1];
            let way = Way { forth, back, switches, path, window };
            engine.add_flow(setup, index, flow, way)?;
            engine.set_on_credit(index as u32, last_link);
        }
        Ok(engine)
    }

    fn without_flows(
        setup: &Setup<'a>,
        later_rates: &[Rate],
        routes: Vec<u32>,
        longest_rtt: Duration,
    ) -> Result<Self, RunError> {
        let (fabric, model) = (setup.fabric, setup.model);
        let links = fabric.links();
        let is_host = |node: NodeId| fabric.nodes()[node.index()].kind == NodeKind::Host;
        let mut incoming: Vec<Vec<u32>> = vec![Vec::new(); fabric.nodes().len()];
        let mut rates: Vec<Rate> = Vec::new();
        let mut ports = Vec::with_capacity(links.len());
        for (index, link) in links.iter().enumerate() {
            let mut port = Port::new(is_host(link.from), is_host(link.to), link.delay.as_ps());
            port.from = link.from.code();
            port.to = link.to.code();
            port.ingress = incoming[link.to.index()].len() as u16;
            incoming[link.to.index()].push(index as u32);
            let known = rates.iter().position(|&rate| rate == link.rate);
            port.speed = known.unwrap_or_else(|| {
                rates.push(link.rate);
                rates.len() - 1
            }) as u16;
            ports.push(port);
        }
        for rate in later_rates {
            if !rates.contains(rate) {
                rates.push(*rate);
            }
        }
        let buffers = buffers(setup, &incoming)?;
        let reference = model.arithmetic == Arithmetic::Reference;
        let mut largest = model.frames.largest().max(model.frames.pause);
        if fabric.nodes().iter().any(|node| node.kind == NodeKind::ScaleUp) {
            largest = largest.max(model.scale_up_frames().largest());
        }
        let rounding = model.arithmetic.rounding();
        let table = |rate: &Rate| {
            let time = |size| rounding.time(size as u32, rate.as_bps()).as_ps();
            (0..=usize::from(largest)).map(time).collect()
        };
        let marking = links.iter().enumerate().map(|(index, link)| {
            let marks = fabric.nodes()[link.from.index()].kind == NodeKind::Switch;
            let marking = model.switching.marking_at(link.rate).filter(|_| marks)?;
            Some(Marker {
                minimum: marking.minimum.get(),
                maximum: marking.maximum.get(),
                probability: marking.probability,
                draws: stream(setup.seed, "ecn", index as u64),
            })
        });
        let uses = |which: fn(&Policy) -> bool| {
            setup.flows.iter().any(|flow| which(setup.policy_of(flow)))
        };
        let uses_hops = uses(|policy| matches!(policy, Policy::Hpcc(_)));
        let format = Format::new(
            rates.iter().copied().filter(|_| uses_hops),
            u64::from(model.switching.telemetry_unit),
        )?;
        let codes = links.iter().filter_map(|link| format.code(link.rate)).collect();
        let uses_load = uses(|policy| matches!(policy, Policy::Pint(_)));
        let telemetry = Telemetry {
            codes,
            format,
            hops: Vec::new(),
            unused: Vec::new(),
            loads: if uses_load { vec![PortLoad::default(); links.len()] } else { Vec::new() },
            draws: stream(setup.seed, "pint", 0),
            longest_rtt,
            base: model.switching.pint_base,
        };
        Ok(Engine {
            model,
            policies: setup.policies.iter().cloned().chain([INSIDE_SERVERS]).collect(),
            now: Time::ZERO,
            order: 0,
            calendar: Calendar::new(),
            backlogs: Backlogs::new(),
            queues: vec![ClassQueue::default(); links.len() * PRIORITIES],
            first_class: match model.notification {
                Notification::InAcks => 0,
                Notification::Packets { priority, .. } => 1 << priority,
            },
            deficits: match model.switching.scheduling {
                Scheduling::Weighted(_) => vec![Deficits::default(); links.len()],
                _ => Vec::new(),
            },
            flights: vec![Ring::default(); links.len()],
            nics: links.iter().map(|link| Nic::new(reference && is_host(link.from))).collect(),
            switches: vec![Default::default(); fabric.nodes().len()],
            ports,
            buffers,
            incoming,
            flows: Vec::with_capacity(setup.flows.len()),
            courses: Vec::with_capacity(setup.flows.len()),
            steering: Vec::with_capacity(setup.flows.len()),
            returns: Vec::with_capacity(setup.flows.len()),
            cnps: vec![0; setup.flows.len()],
            routes,
            rates: rates.clone(),
            times: rates.iter().map(table).collect(),
            marking: marking.collect(),
            telemetry,
            messages: Messages::new(setup.flows.len()),
            records: Records::new(setup),
            usage: None,
            cuts_through: model.switching.cut_through,
            // Some 400 bytes for a flow, and 2 KB for a link with what is on it, against caches of a megabyte.
            is_large: setup.flows.len() * 400 + links.len() * 2_000 > 512_000,
            completed: Vec::new(),
            packet_hops: 0,
            events: 0,
            lost: None,
            faults: Faults::new(setup),
            sprays: Vec::new(),
            credits: None,
        })
    }

    fn add_flow(
        &mut self,
        setup: &Setup<'a>,
        index: usize,
        spec: &FlowSpec,
        way: Way,
    ) -> Result<(), RunError> {
        let Way { forth, back, switches, path, window } = way;
        let (frames, policy) = (setup.frames_of(spec), setup.policy_of(spec));
        let governed_by = if setup.is_inside(spec) { setup.policies.len() } else { spec.policy };
        policy.validate(path.line_rate).map_err(|error| {
            let from = setup.fabric.nodes()[spec.from.index()].name.clone();
            RunError::Parameter { flow: index, from, error }
        })?;
        let (header, extra) = match policy {
            Policy::Timely(_) => (Header::Stamp, frames.stamp),
            Policy::Hpcc(_) => (Header::Hops, frames.hops),
            Policy::Pint(_) => (Header::Load, frames.load),
            _ => (Header::Stamp, 0),
        };
        let is_sprayed = spec.path == PathChoice::Spray;
        if is_sprayed && header != Header::Stamp {
            let name = if header == Header::Hops { "hpcc" } else { "hpcc-pint" };
            return Err(RunError::SprayedTelemetry { flow: index, policy: name });
        }
        if header == Header::Hops && switches > MAX_HOPS {
            let (flow, hops, limit) = (index, switches, MAX_HOPS);
            return Err(RunError::TooManyHops { flow, hops, limit });
        }
        let window = match window {
            WindowRule::Unlimited => None,
            WindowRule::PathFull { scaled } => Some(Window { bytes: path.window, scaled }),
            WindowRule::Bytes(bytes) => Some(Window { bytes, scaled: false }),
        };
        let nic = self.routes[forth[0] as usize];
        let slot = self.nics[nic as usize].add(index as u32, spec.priority);
        let rounding = setup.model.arithmetic.rounding();
        self.flows.push(Flow {
            sender: Sender::new(path.line_rate, window, rounding),
            milestone: u64::MAX,
            route: forth[0],
            nic,
            slot,
            policy: governed_by as u16,
            mtu: frames.mtu,
            overhead: frames.data_header + extra,
            last_wire: 0,
            priority: spec.priority,
            header,
            moves_next_send: Control::moves_next_send(policy),
            hears_acks: matches!(
                policy,
                Policy::Dctcp(_) | Policy::Timely(_) | Policy::Hpcc(_) | Policy::Pint(_)
            ),
            is_adaptive: matches!(policy, Policy::Dcqcn(parameters) if parameters.adaptive),
        });
        if is_sprayed {
            self.sprays.push(Spray::new(forth, setup.seed, index));
        }
        let place = NonZeroU32::new(self.sprays.len() as u32);
        let spray = place.filter(|_| is_sprayed);
        self.courses.push(Course { phase: Progress::default(), spray });
        self.steering.push(Steering { control: Control::new(policy, &path), path });
        self.returns.push(Return {
            receiver: if is_sprayed { Receiver::in_any_order() } else { Receiver::new() },
            route: back,
            nic: self.routes[back as usize],
            marks: 0,
            wire: (frames.ack + extra).max(frames.minimum),
            priority: spec.priority,
            wants: if matches!(policy, Policy::Dcqcn(_)) { NOTIFIES } else { 0 },
        });
        Ok(())
    }
}

/// How a flow gets through the network.
struct Way {
    /// Where its routes begin.
    forth: Vec<u32>,
    /// Where that of its answers begins.
    back: u32,
    switches: usize,
    path: Path,
    window: WindowRule,
}

// The routes of a flow stand one after another, that of its answers last.
fn footprint<'l>(routes: &'l [u32], span: &Range<usize>, back: u32) -> Footprint<'l> {
    let back = back as usize;
    Footprint { forth: &routes[span.start..back], back: &routes[back..span.end] }
}

fn check_flow(index: usize, flow: &FlowSpec, fabric: &Fabric) -> Result<(), RunError> {
    let nodes = fabric.nodes();
    let name = |node: NodeId| nodes[node.index()].name.clone();
    for end in [flow.from, flow.to] {
        if nodes.get(end.index()).is_some_and(|node| node.kind.is_switch()) {
            return Err(RunError::NotAHost { flow: index, node: name(end) });
        }
    }
    if flow.from == flow.to {
        return Err(RunError::ToItself { flow: index, node: name(flow.from) });
    }
    if usize::from(flow.priority) >= PRIORITIES {
        return Err(RunError::Priority { flow: index, priority: flow.priority });
    }
    Ok(())
}

// Without what only other policies than those of the flows add to a packet.
fn frames_in_use(setup: &Setup<'_>) -> Frames {
    let uses = |which: fn(&Policy) -> bool, bytes: u16| {
        let used = setup.flows.iter().any(|flow| which(setup.policy_of(flow)));
        if used { bytes } else { 0 }
    };
    let frames = setup.model.frames;
    Frames {
        stamp: uses(|policy| matches!(policy, Policy::Timely(_)), frames.stamp),
        hops: uses(|policy| matches!(policy, Policy::Hpcc(_)), frames.hops),
        load: uses(|policy| matches!(policy, Policy::Pint(_)), frames.load),
        ..frames
    }
}

fn buffers(setup: &Setup<'_>, incoming: &[Vec<u32>]) -> Result<Vec<SharedBuffer>, RunError> {
    let (nodes, links) = (setup.fabric.nodes(), setup.fabric.links());
    let slowest = |links: &mut dyn Iterator<Item = &Link>| {
        links.map(|link| link.rate).min().unwrap_or(Rate::ZERO)
    };
    let from_hosts = links.iter().zip(0..).filter(|(link, id)| {
        nodes[link.from.index()].kind == NodeKind::Host
            && !setup.fabric.is_scale_up(LinkId::new(*id))
    });
    let nic_rate = slowest(&mut from_hosts.map(|(link, _)| link));
    let (frames, inside_frames) = (frames_in_use(setup), setup.model.scale_up_frames());
    let switching = &setup.model.switching;
    let inside_switching = switching.inside_servers(inside_frames.largest());
    let [between_classes, inside_classes] = [false, true].map(|inside| classes(setup, inside));
    let mut buffers = Vec::with_capacity(nodes.len());
    for (node, into) in nodes.iter().zip(incoming) {
        let into = || into.iter().map(|&link| &links[link as usize]);
        let ports: Vec<_> =
            into().map(|link| Incoming { rate: link.rate, delay: link.delay }).collect();
        let buffer = if node.kind == NodeKind::ScaleUp {
            let rate = slowest(&mut into());
            SharedBuffer::new(&inside_switching, &inside_frames, &ports, rate, inside_classes)
        } else {
            SharedBuffer::new(switching, &frames, &ports, nic_rate, between_classes)
        };
        if node.kind.is_switch() && buffer.pool() <= 0 {
            let buffer_bytes = switching.buffer.get();
            return Err(RunError::BufferTooSmall {
                switch: node.name.clone(),
                buffer: buffer_bytes,
                ports: ports.len(),
                needed: buffer_bytes.saturating_add_signed(-buffer.pool()),
            });
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}

// Of traffic inside servers, or between them.
fn classes(setup: &Setup<'_>, inside: bool) -> usize {
    let mut used = [false; PRIORITIES];
    for flow in setup.flows.iter().filter(|flow| setup.is_inside(flow) == inside) {
        used[usize::from(flow.priority)] = true;
    }
    let mut policies = setup.policies.iter();
    let notifies = !inside && policies.any(|policy| matches!(policy, Policy::Dcqcn(_)));
    if let (Notification::Packets { priority, .. }, true) = (setup.model.notification, notifies) {
        used[usize::from(priority)] = true;
    }
    used.iter().filter(|&&used| used).count()
}

// The round trip of a full packet and its acknowledgement on an idle network. HPCC-style simulators count
// the packet's data alone, and no time for the acknowledgement to leave.
fn way<'l>(setup: &Setup<'_>, frames: &Frames, links: impl Iterator<Item = &'l Link>) -> Path {
    let rounding = setup.model.arithmetic.rounding();
    let (data, ack) = match setup.model.arithmetic {
        Arithmetic::Exact => (frames.mtu + frames.data_header, frames.ack),
        Arithmetic::Reference => (frames.mtu, 0),
    };
    let links: Vec<_> = links.collect();
    let rate = |place: Option<usize>| Some(links.get(place?)?.rate);
    // What must have arrived of a packet of `size` bytes before it leaves by a link of rate `next`.
    let before_next = |size: u16, rate: Rate, next: Option<Rate>| {
        let cuts_through =
            setup.model.switching.cut_through && next.is_some_and(|next| next <= rate);
        u32::from(if cuts_through { size.min(frames.data_header) } else { size })
    };
    let mut rtt = Duration::ZERO;
    let mut slowest = Rate::from_bps(u64::MAX);
    for (place, link) in links.iter().enumerate() {
        let (bps, forth, back) =
            (link.rate.as_bps(), rate(Some(place + 1)), rate(place.checked_sub(1)));
        slowest = slowest.min(link.rate);
        rtt += link.delay + link.delay;
        rtt += rounding.time(before_next(data, link.rate, forth), bps);
        rtt += rounding.time(before_next(ack, link.rate, back), bps);
    }
    Path {
        line_rate: rate(Some(0)).unwrap_or(slowest),
        base_rtt: rtt,
        window: slowest.bytes_in(rtt).get(),
    }
}

// Over all pairs of hosts of different servers, by shortest paths; of those of one pair the first is as good as another.
fn longest_way(setup: &Setup<'_>) -> Path {
    let nodes = setup.fabric.nodes();
    let hosts = (0..nodes.len()).filter(|&node| nodes[node].kind == NodeKind::Host);
    let hosts: Vec<NodeId> = hosts.map(NodeId::from_index).collect();
    let mut routing = Routing::with_hash(setup.fabric, setup.hash);
    let mut longest: Option<Path> = None;
    for &from in &hosts {
        for &to in hosts.iter().filter(|&&to| to != from) {
            if setup.fabric.scale_up_between(from, to).is_some() {
                continue;
            }
            let Ok(links) = routing.route(from, to, 0) else { continue };
            let links = links.iter().map(|link: &LinkId| &setup.fabric.links()[link.index()]);
            let found = way(setup, &setup.model.frames, links);
            longest = Some(longest.map_or(found, |longest| Path {
                base_rtt: longest.base_rtt.max(found.base_rtt),
                window: longest.window.max(found.window),
                ..longest
            }));
        }
    }
    let none = Path { line_rate: Rate::ZERO, base_rtt: Duration::ZERO, window: 0 };
    longest.unwrap_or(none)
}

#[cfg(test)]
mod tests {
    use hocket_scenario::{Cable, Node};

    use super::*;

    /// Two servers of two GPUs (0 and 1, 2 and 3) under ToR 4, with scale-up switches 5 and 6.
    fn servers() -> Fabric {
        let (host, scale_up) = (NodeKind::Host, NodeKind::ScaleUp);
        let kinds = [host, host, host, host, NodeKind::Switch, scale_up, scale_up];
        let node = |(place, kind)| Node { name: format!("n{place}"), kind };
        let nodes = kinds.into_iter().enumerate().map(node).collect();
        let cable = |a, b, gbps, ns| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_gbps(gbps),
            delay: Duration::from_ns(ns),
        };
        let nics = (0..4).map(|gpu| cable(gpu, 4, 100, 500));
        let lanes = (0..4).map(|gpu| cable(gpu, 5 + gpu / 2, 1_600, 25));
        Fabric::new(nodes, &nics.chain(lanes).collect::<Vec<_>>()).expect("servers are a fabric")
    }

    #[test]
    fn the_longest_round_trip_is_one_between_servers_and_not_for_flows_inside() {
        let fabric = servers();
        let flow = |from, to| FlowSpec {
            from: NodeId::new(from),
            to: NodeId::new(to),
            labels: (0, 0),
            priority: 3,
            policy: 0,
            window: WindowRule::PathFull { scaled: false },
            path: PathChoice::Ecmp,
        };
        let setup = Setup {
            fabric: &fabric,
            model: &Model { scale_up_mtu: 32_768, ..Model::default() },
            policies: &[Policy::PfcOnly],
            flows: &[flow(0, 2), flow(0, 1)],
            patterns: &[],
            hash: EcmpHash::Mixed,
            longest_rtt_for_all: true,
            seed: 1,
        };
        let engine = Engine::new(&setup, &[]).expect("the setup is valid");
        let [between, inside] = [0, 1].map(|flow: usize| engine.steering[flow].path.base_rtt);
        // A packet of 1,082 bytes and an acknowledgement of 86 at 80 ps a byte, each over two links with 500 ns.
        assert_eq!(between.as_ps(), 2 * (1_082 + 86) * 80 + 4 * 500_000);
        // One of 32,850 bytes at 5 ps, and 25 ns.
        assert_eq!(inside.as_ps(), 2 * (32_850 + 86) * 5 + 4 * 25_000);
        assert_eq!(engine.steering[1].path.line_rate, Rate::from_gbps(1_600));
    }
}
