//! The traffic of one step of a collective, or of a message: the load on each link, and the latency of the last byte.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use hocket_des::{Bytes, Duration, Rate};
use hocket_scenario::{
    Collective, Fabric, Framing, JobId, LinkId, NodeId, NodeKind, PathChoice, Routing, Scenario,
    Training,
};

use crate::allocation::Load;
use crate::error::FlowError;

/// Loads are counted in fractions of a flow of this denominator, fine enough for headers and acknowledgements.
pub(crate) const UNIT: u64 = 1 << 12;

/// By link: the number of messages that cross it.
pub(crate) type Messages = Rc<[(usize, u64)]>;

/// The messages of a step, or of several steps that repeat it, as those of a ring do. All of them have one rate.
pub(crate) struct StepPlan {
    /// Loads in units of 1/[`UNIT`] flow: data with headers in one direction, acknowledgements in the other.
    pub(crate) loads: Arc<[Load]>,
    /// The data of one message.
    pub(crate) bytes: u64,
    /// The number of steps that the plan covers.
    pub(crate) steps: u32,
    /// The number of messages that cross each link, over all these steps.
    pub(crate) messages: Messages,
    /// The time from the end of sending until the receivers have noticed and added the last bytes, minus what other chunks
    /// hide.
    pub(crate) latency: Duration,
    /// The time from the start of the step that the slowest receiver takes to add all messages but the last.
    pub(crate) reduction: Duration,
    /// The time from a message's arrival to its acknowledgement.
    pub(crate) acknowledgement: Duration,
}

/// Plans steps and messages. Paths are found once for each pair of hosts.
pub(crate) struct Planner<'a> {
    fabric: &'a Fabric,
    routing: Routing<'a>,
    /// By job, sender and receiver. Hash maps are safe here: they are never iterated.
    paths: HashMap<(JobId, [NodeId; 2]), Rc<Paths>>,
    /// By job, first and last switch: the links between them with the share of a sprayed message on each.
    sprayed: HashMap<(JobId, [NodeId; 2]), Rc<Spread>>,
    /// By node: the only link of a network between servers that ends there, and begins at a switch.
    only_link_to: Vec<Option<LinkId>>,
    scratch: Scratch,
}

/// The links between two switches over which messages are sprayed.
struct Spread {
    /// In order of link, since sums of fractions depend on the order.
    between: Vec<(LinkId, f64)>,
    /// The sum of the shares of all paths: 1, up to rounding.
    whole: f64,
}

/// The paths of a message and its acknowledgements.
struct Paths {
    /// Each link with the share of the message that crosses it, which is below 1 if the message is sprayed.
    forward: Vec<(LinkId, f64)>,
    /// The first and the last link of the message.
    ends: [LinkId; 2],
    reverse: Vec<LinkId>,
}

/// The load of a message and its acknowledgements.
pub(crate) struct MessageLoads {
    /// The first and the last link of its data.
    pub(crate) ends: [usize; 2],
    /// By link, in units of 1/[`UNIT`] flow; a link can occur twice.
    pub(crate) loads: Vec<(usize, u64)>,
}

/// Totals over the messages of a step.
#[derive(Default)]
struct Sum {
    /// The sum over all messages of their times on an idle network, in picoseconds, and their number.
    total: u128,
    count: u64,
    /// The times of the fastest and of the slowest message on an idle network.
    fastest: Option<Duration>,
    slowest: Duration,
    /// The largest time of a message on the slowest link of its path, and the largest additional time of its last byte.
    transfer: Duration,
    latency: Duration,
    acknowledgement: Duration,
}

/// By link: the load of a step, and its number of messages, to which sprayed ones contribute fractions. It is kept between
/// steps, since a fabric has far more links than a step loads.
struct Scratch {
    loads: Vec<u64>,
    messages: Vec<f64>,
    /// The links with either, some of them repeatedly.
    touched: Vec<usize>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let fabric = scenario.fabric();
        Self {
            fabric,
            routing: Routing::new(fabric),
            paths: HashMap::new(),
            sprayed: HashMap::new(),
            only_link_to: only_links(fabric),
            scratch: Scratch::new(fabric.links().len()),
        }
    }

    /// The plan of a step of a collective and of the steps that repeat it, except for the last of these.
    pub(crate) fn step(
        &mut self,
        (training, job): (&Training, JobId),
        group: u32,
        collective: &Collective,
        step: u32,
    ) -> Result<StepPlan, FlowError> {
        let system = &training.spec().system;
        let members = training.members(group);
        let (mut sum, mut bytes) = (Sum::default(), 0);
        for (ends, size) in messages_of_step(members, collective, step) {
            bytes = bytes.max(size);
            self.add(&mut sum, (training, job), ends, size)?;
        }
        let due = (0..members.len() as u32).map(|member| collective.due(step, member));
        let most_due = due.max().unwrap_or(0);
        // The last of the repeated steps has its own plan: chunks leave the ring one after another, instead of in turns.
        let steps = (collective.repeats(step) - 1).max(1);
        let added = match system.reduction {
            Some(rate) if collective.reduces(step) => rate.transmission_time(Bytes::new(bytes)),
            _ => Duration::ZERO,
        };
        let at_the_end = system.endpoint_delay + added;
        let in_flight = u64::from(system.in_flight.min(collective.chunks()));
        let latency = match steps {
            1 => sum.latency + at_the_end,
            _ => {
                // The stream itself takes the transfers of all chunks in flight, which share the links in turns: only what
                // exceeds them is latency. If receivers are slower than links, their additions determine the time instead.
                let hidden_ps = u128::from(sum.transfer.as_ps() * in_flight);
                let added_ps = u128::from(added.as_ps() * in_flight);
                let around_ps =
                    sum.around_ps(steps) + u128::from(at_the_end.as_ps() * u64::from(steps));
                let latency_ps = around_ps.max(added_ps * u128::from(steps));
                let latency_ps = latency_ps.saturating_sub(hidden_ps * u128::from(steps));
                Duration::from_ps(u64::try_from(latency_ps).unwrap_or(u64::MAX))
            }
        };
        let (loads, messages) = self.scratch.take(steps);
        Ok(StepPlan {
            loads,
            bytes,
            steps,
            messages,
            latency,
            reduction: Duration::from_ps(added.as_ps() * u64::from(most_due.saturating_sub(1))),
            acknowledgement: sum.acknowledgement,
        })
    }

    /// The plan of a message from one rank to another.
    pub(crate) fn message(
        &mut self,
        (training, job): (&Training, JobId),
        ends: [u32; 2],
        bytes: u64,
    ) -> Result<StepPlan, FlowError> {
        let mut sum = Sum::default();
        self.add(&mut sum, (training, job), ends, bytes)?;
        let (loads, messages) = self.scratch.take(1);
        Ok(StepPlan {
            loads,
            bytes,
            steps: 1,
            messages,
            latency: sum.latency + training.spec().system.endpoint_delay,
            reduction: Duration::ZERO,
            acknowledgement: sum.acknowledgement,
        })
    }

    fn add(
        &mut self,
        sum: &mut Sum,
        (training, job): (&Training, JobId),
        ranks: [u32; 2],
        bytes: u64,
    ) -> Result<(), FlowError> {
        let (paths, message, framing) = self.framed((training, job), ranks, bytes)?;
        for &(link, part) in &paths.forward {
            self.scratch.add(link, message.flows(part), part);
        }
        for &link in &paths.reverse {
            self.scratch.add(link, message.acks_per_unit, 0.0);
        }
        let rate = |link: &LinkId| self.fabric.links()[link.index()].rate;
        let delay = |link: &LinkId| self.fabric.links()[link.index()].delay;
        let links = || paths.forward.iter().map(|(link, _)| link);
        let on_wire = |size: u64, rate: Rate| rate.transmission_time(Bytes::new(size));
        let slowest = links().map(rate).min().expect("different hosts have a link between them");
        let transfer = on_wire(message.wire, slowest);
        // Every switch stores and forwards the last packet. Its time on the slowest link is part of the transfer.
        let packet_times = links().map(|link| on_wire(message.packet, rate(link)));
        let latency = links().map(delay).sum::<Duration>() + packet_times.sum::<Duration>()
            - on_wire(message.packet, slowest);
        let acks = paths.reverse.iter();
        let acknowledgement =
            acks.map(|link| delay(link) + on_wire(u64::from(framing.ack), rate(link))).sum();
        let time = transfer + latency;
        sum.total += u128::from(time.as_ps());
        sum.count += 1;
        sum.fastest = Some(sum.fastest.map_or(time, |fastest| fastest.min(time)));
        sum.slowest = sum.slowest.max(time);
        sum.transfer = sum.transfer.max(transfer);
        sum.latency = sum.latency.max(latency);
        sum.acknowledgement = sum.acknowledgement.max(acknowledgement);
        Ok(())
    }

    /// The load of one message on each link, in units of 1/[`UNIT`] flow, and the first and the last link of its data.
    pub(crate) fn loads_of(
        &mut self,
        job: (&Training, JobId),
        ranks: [u32; 2],
        bytes: u64,
    ) -> Result<MessageLoads, FlowError> {
        let (paths, message, _) = self.framed(job, ranks, bytes)?;
        let data = paths.forward.iter().map(|&(link, part)| (link.index(), message.flows(part)));
        let acks = paths.reverse.iter().map(|link| (link.index(), message.acks_per_unit));
        Ok(MessageLoads { ends: paths.ends.map(LinkId::index), loads: data.chain(acks).collect() })
    }

    fn framed(
        &mut self,
        (training, job): (&Training, JobId),
        ranks: [u32; 2],
        bytes: u64,
    ) -> Result<(Rc<Paths>, Framed, Framing), FlowError> {
        let hosts = ranks.map(|rank| training.spec().hosts[rank as usize]);
        let paths = self.paths(training, job, hosts)?;
        let framing = match self.fabric.scale_up_between(hosts[0], hosts[1]) {
            Some(_) => training.spec().scale_up_framing,
            None => training.spec().framing,
        };
        Ok((paths, Framed::new(framing, bytes), framing))
    }

    fn paths(
        &mut self,
        training: &Training,
        job: JobId,
        hosts: [NodeId; 2],
    ) -> Result<Rc<Paths>, FlowError> {
        let known = (job, hosts);
        if let Some(paths) = self.paths.get(&known) {
            return Ok(Rc::clone(paths));
        }
        let label = Training::label(job);
        let flow = training.flow(hosts, label, self.fabric);
        let (forward, ends) = match flow.path {
            PathChoice::Pinned(path) => alone(path),
            PathChoice::Ecmp => alone(self.routing.route(flow.from, flow.to, label)?),
            PathChoice::Spray => self.sprayed(flow.from, flow.to, job)?,
        };
        let reverse = self.routing.route(flow.to, flow.from, label)?;
        let paths = Rc::new(Paths { forward, ends, reverse });
        self.paths.insert(known, Rc::clone(&paths));
        Ok(paths)
    }

    // The links of sprayed messages, each with its share, and the first and the last one.
    fn sprayed(&mut self, from: NodeId, to: NodeId, job: JobId) -> Result<Shares, FlowError> {
        let label = Training::label(job);
        let path = self.routing.route(from, to, label)?;
        let ends = [path[0], path[path.len() - 1]];
        let links = self.fabric.links();
        let (first, last) = (links[ends[0].index()].to, links[ends[1].index()].from);
        // All paths begin with the same link. If they also end with the same one, they differ only between two switches, and so
        // does no other message between these.
        let share_ends = path.len() > 2 && self.only_link_to[to.index()] == Some(ends[1]);
        if let Some(spread) = self.sprayed.get(&(job, [first, last])).filter(|_| share_ends) {
            return Ok((spread.with_ends(ends), ends));
        }
        let paths = self.routing.paths(from, to, label)?;
        let part = 1.0 / paths.len() as f64;
        // In order of link, since sums of fractions depend on the order.
        let mut parts = BTreeMap::new();
        for link in paths.into_iter().flatten() {
            *parts.entry(link).or_insert(0.0) += part;
        }
        if share_ends {
            let whole = parts[&ends[0]];
            let between = parts.iter().filter(|(link, _)| !ends.contains(link));
            let between = between.map(|(link, part)| (*link, *part)).collect();
            self.sprayed.insert((job, [first, last]), Rc::new(Spread { between, whole }));
        }
        Ok((parts.into_iter().collect(), ends))
    }
}

/// The messages of a step of a collective: sender, receiver and bytes.
pub(crate) fn messages_of_step(
    members: &[u32],
    collective: &Collective,
    step: u32,
) -> impl Iterator<Item = ([u32; 2], u64)> {
    members.iter().zip(0_u32..).flat_map(move |(&rank, member)| {
        collective.sends(step, member).map(move |send| {
            // The first chunk and the largest block stand for all: others are at most a byte shorter. Empty messages take part
            // as messages of one byte.
            let size = collective.message_bytes(0, step, member, &send).get().max(1);
            ([rank, members[send.to as usize]], size)
        })
    })
}

/// Links with the share of a message on each, and the first and the last of them.
type Shares = (Vec<(LinkId, f64)>, [LinkId; 2]);

fn alone(path: Vec<LinkId>) -> Shares {
    let ends = [path[0], path[path.len() - 1]];
    (path.into_iter().map(|link| (link, 1.0)).collect(), ends)
}

impl Spread {
    fn with_ends(&self, ends: [LinkId; 2]) -> Vec<(LinkId, f64)> {
        let ends = ends.map(|link| (link, self.whole));
        let mut all: Vec<_> = self.between.iter().copied().chain(ends).collect();
        all.sort_unstable_by_key(|&(link, _)| link);
        all
    }
}

fn only_links(fabric: &Fabric) -> Vec<Option<LinkId>> {
    let mut links_to = vec![(0, None); fabric.nodes().len()];
    for (index, link) in fabric.links().iter().enumerate() {
        let (count, only) = &mut links_to[link.to.index()];
        match fabric.nodes()[link.from.index()].kind {
            NodeKind::ScaleUp => {}
            // A cable between hosts would be a path of its own.
            NodeKind::Host => *count += 2,
            NodeKind::Switch => {
                *count += 1;
                *only = Some(LinkId::from_index(index));
            }
        }
    }
    links_to.into_iter().map(|(count, only)| only.filter(|_| count == 1)).collect()
}

impl Scratch {
    fn new(links: usize) -> Self {
        Self { loads: vec![0; links], messages: vec![0.0; links], touched: Vec::new() }
    }

    fn add(&mut self, link: LinkId, flows: u64, messages: f64) {
        let link = link.index();
        if self.loads[link] == 0 && self.messages[link] == 0.0 {
            self.touched.push(link);
        }
        self.loads[link] += flows;
        self.messages[link] += messages;
    }

    // The loads and the numbers of messages over `steps` steps, after which all are 0 again. A network with training jobs has
    // all links of the fabric, so their ids are their indices.
    fn take(&mut self, steps: u32) -> (Arc<[Load]>, Messages) {
        self.touched.sort_unstable();
        self.touched.dedup();
        let loads = self.touched.iter().map(|&link| Load { link, flows: self.loads[link] });
        let loads = loads.filter(|load| load.flows > 0).collect();
        let crossed = self.touched.iter().filter(|&&link| self.messages[link] > 0.0);
        let count = |messages: f64| (messages * f64::from(steps)).round() as u64;
        let messages = crossed.map(|&link| (link, count(self.messages[link]))).collect();
        for link in self.touched.drain(..) {
            self.loads[link] = 0;
            self.messages[link] = 0.0;
        }
        (loads, messages)
    }
}

/// The bytes of a message on the wire.
struct Framed {
    /// Data and all headers.
    wire: u64,
    /// The largest packet, which stands for the last one.
    packet: u64,
    /// `wire` for each byte of data, in 1/[`UNIT`].
    wire_per_unit: u64,
    /// The same for acknowledgements.
    acks_per_unit: u64,
}

impl Framed {
    /// The load on a link that `part` of the message crosses.
    fn flows(&self, part: f64) -> u64 {
        (self.wire_per_unit as f64 * part).round() as u64
    }

    fn new(framing: Framing, bytes: u64) -> Self {
        let Framing { payload, header, ack, ack_every } = framing;
        let (payload, header, ack) = (u64::from(payload), u64::from(header), u64::from(ack));
        let packets = bytes.div_ceil(payload);
        let wire = bytes + packets * header;
        let acks = packets.div_ceil(u64::from(ack_every)) * ack;
        Self {
            wire,
            packet: bytes.min(payload) + header,
            wire_per_unit: per_unit(wire, bytes),
            acks_per_unit: per_unit(acks, bytes),
        }
    }
}

// Bytes on the wire for each byte of data, in 1/UNIT. Rounded up, so that no link carries more than its rate.
fn per_unit(wire: u64, bytes: u64) -> u64 {
    let exact = u128::from(wire) * u128::from(UNIT);
    u64::try_from(exact.div_ceil(u128::from(bytes))).expect("a packet has less than 2^16 bytes")
}

impl Sum {
    /// The time on an idle network of all repeated steps but the last. Each depends on the one before, so that a block passes
    /// around the ring. The last block to arrive takes every hop except the fastest, and its last hop, which is the slowest, is
    /// planned as the last step.
    fn around_ps(&self, steps: u32) -> u128 {
        let mean_ps = self.total / u128::from(self.count.max(1));
        let fastest_ps = self.fastest.map_or(0, Duration::as_ps);
        let apart_ps = u128::from(fastest_ps) + u128::from(self.slowest.as_ps());
        // `steps` and two more: the last step, and the hop that completes the lap.
        (mean_ps * u128::from(steps + 2)).saturating_sub(apart_ps)
    }
}
