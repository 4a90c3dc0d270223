//! What one step of a collective, or a message, asks of the network: how much on which links, and how long its last byte is
//! under way.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use hocket_des::{Bytes, Duration, Rate};
use hocket_scenario::{
    Collective, Fabric, Framing, JobId, LinkId, NodeId, PathChoice, Routing, Scenario, Training,
};

use crate::allocation::Load;
use crate::error::FlowError;

/// Loads count in such parts of a flow: what headers and acknowledgements add can be told apart.
pub(crate) const UNIT: u64 = 1 << 12;

/// The messages of a step, or of several alike that follow each other as those of a ring do: all move at one rate.
pub(crate) struct StepPlan {
    /// Per unit of rate: of data with headers one way, of acknowledgements the other.
    pub(crate) loads: Rc<[Load]>,
    /// The data of one message.
    pub(crate) bytes: u64,
    /// Steps that follow each other.
    pub(crate) steps: u32,
    /// Messages that cross each link, in all steps together.
    pub(crate) messages: Rc<[(usize, u64)]>,
    /// From when all is sent until the last has arrived and was noticed, beside what the next chunks hide.
    pub(crate) latency: Duration,
    /// What the slowest receiver needs for all but the last of what it has to add, from the start of the step.
    pub(crate) reduction: Duration,
    /// Until its sender knows that a message has arrived.
    pub(crate) acknowledgement: Duration,
}

/// Finds the ways of messages, once for each pair of hosts.
pub(crate) struct Planner<'a> {
    fabric: &'a Fabric,
    routing: Routing<'a>,
    /// By job and hosts.
    ways: HashMap<(JobId, [NodeId; 2]), Rc<Way>>,
}

/// A message's way there and back.
struct Way {
    /// With the share of the message that takes each.
    forth: Vec<(LinkId, f64)>,
    back: Vec<LinkId>,
}

/// What sums up over the messages of a step.
struct Sum {
    /// By link: loads, and messages of which parts may go elsewhere.
    loads: Vec<u64>,
    messages: Vec<f64>,
    /// Over all messages: time on an idle network, from the first byte to the last; and of the fastest and the slowest.
    total: u128,
    count: u64,
    fastest: Option<Duration>,
    slowest: Duration,
    /// Of the slowest: time of all bytes on its slowest link, and of its last byte beyond that.
    transfer: Duration,
    latency: Duration,
    acknowledgement: Duration,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let fabric = scenario.fabric();
        Self { fabric, routing: Routing::new(fabric), ways: HashMap::new() }
    }

    /// What step `step` of a collective asks for, together with all but the last of those that repeat it.
    pub(crate) fn step(
        &mut self,
        (training, job): (&Training, JobId),
        group: u32,
        collective: &Collective,
        step: u32,
    ) -> Result<StepPlan, FlowError> {
        let system = &training.spec().system;
        let members = training.members(group);
        let mut sum = Sum::new(self.fabric);
        let (mut bytes, mut most_due) = (0, 0);
        for (&rank, member) in members.iter().zip(0_u32..) {
            most_due = most_due.max(collective.due(step, member));
            for send in collective.sends(step, member) {
                // Of chunks and blocks that differ by a byte the first are the largest.
                let size = collective.message_bytes(0, step, member, &send).get().max(1);
                bytes = bytes.max(size);
                let ends = [rank, members[send.to as usize]];
                self.add(&mut sum, (training, job), ends, size)?;
            }
        }
        // The last of several alike is one of its own: there the chunks come out one after another.
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
                // While one chunk is under way the others use the links.
                let hidden_ps = u128::from(sum.transfer.as_ps() * in_flight);
                let added_ps = u128::from(added.as_ps() * in_flight);
                let around_ps =
                    sum.around_ps(steps) + u128::from(at_the_end.as_ps() * u64::from(steps));
                let latency_ps = around_ps.max(added_ps * u128::from(steps));
                let latency_ps = latency_ps.saturating_sub(hidden_ps * u128::from(steps));
                Duration::from_ps(u64::try_from(latency_ps).unwrap_or(u64::MAX))
            }
        };
        Ok(StepPlan {
            loads: sum.loads(),
            bytes,
            steps,
            messages: sum.messages(steps),
            latency,
            reduction: Duration::from_ps(added.as_ps() * u64::from(most_due.saturating_sub(1))),
            acknowledgement: sum.acknowledgement,
        })
    }

    /// What a message from one rank to another asks for.
    pub(crate) fn message(
        &mut self,
        (training, job): (&Training, JobId),
        ends: [u32; 2],
        bytes: u64,
    ) -> Result<StepPlan, FlowError> {
        let mut sum = Sum::new(self.fabric);
        self.add(&mut sum, (training, job), ends, bytes)?;
        Ok(StepPlan {
            loads: sum.loads(),
            bytes,
            steps: 1,
            messages: sum.messages(1),
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
        let hosts = ranks.map(|rank| training.spec().hosts[rank as usize]);
        let way = self.way(training, job, hosts)?;
        let framing = match self.fabric.scale_up_between(hosts[0], hosts[1]) {
            Some(_) => training.spec().scale_up_framing,
            None => training.spec().framing,
        };
        let message = Framed::new(framing, bytes);
        for &(link, part) in &way.forth {
            let flows = (message.wire_per_unit as f64 * part).round() as u64;
            sum.loads[link.index()] += flows;
            sum.messages[link.index()] += part;
        }
        for &link in &way.back {
            sum.loads[link.index()] += message.acks_per_unit;
        }
        let rate = |link: &LinkId| self.fabric.links()[link.index()].rate;
        let delay = |link: &LinkId| self.fabric.links()[link.index()].delay;
        let links = || way.forth.iter().map(|(link, _)| link);
        let on_wire = |size: u64, rate: Rate| rate.transmission_time(Bytes::new(size));
        let slowest = links().map(rate).min().expect("two hosts are apart");
        let transfer = on_wire(message.wire, slowest);
        // The last packet is stored and forwarded by every switch.
        let packet_times = links().map(|link| on_wire(message.packet, rate(link)));
        let latency = links().map(delay).sum::<Duration>() + packet_times.sum::<Duration>()
            - on_wire(message.packet, slowest);
        let acks = way.back.iter();
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

    fn way(
        &mut self,
        training: &Training,
        job: JobId,
        hosts: [NodeId; 2],
    ) -> Result<Rc<Way>, FlowError> {
        let known = (job, hosts);
        if let Some(way) = self.ways.get(&known) {
            return Ok(Rc::clone(way));
        }
        let label = Training::label(job);
        let flow = training.flow(hosts, label, self.fabric);
        let forth = match flow.path {
            PathChoice::Pinned(path) => path.into_iter().map(|link| (link, 1.0)).collect(),
            PathChoice::Ecmp => {
                let route = self.routing.route(flow.from, flow.to, label)?;
                route.into_iter().map(|link| (link, 1.0)).collect()
            }
            PathChoice::Spray => {
                let ways = self.routing.ways(flow.from, flow.to, label)?;
                let part = 1.0 / ways.len() as f64;
                let mut parts = BTreeMap::new();
                for link in ways.into_iter().flatten() {
                    *parts.entry(link).or_insert(0.0) += part;
                }
                parts.into_iter().collect()
            }
        };
        let way = Rc::new(Way { forth, back: self.routing.route(flow.to, flow.from, label)? });
        self.ways.insert(known, Rc::clone(&way));
        Ok(way)
    }
}

/// A message as packets.
struct Framed {
    /// With all headers.
    wire: u64,
    /// The last packet, or any: of a message of several the largest.
    packet: u64,
    wire_per_unit: u64,
    acks_per_unit: u64,
}

impl Framed {
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

// Of what goes with one byte of data, rounded up so that no link carries more than it can.
fn per_unit(wire: u64, bytes: u64) -> u64 {
    let exact = u128::from(wire) * u128::from(UNIT);
    u64::try_from(exact.div_ceil(u128::from(bytes))).expect("a packet has less than 2^16 bytes")
}

impl Sum {
    fn new(fabric: &Fabric) -> Self {
        let links = fabric.links().len();
        Self {
            loads: vec![0; links],
            messages: vec![0.0; links],
            total: 0,
            count: 0,
            fastest: None,
            slowest: Duration::ZERO,
            transfer: Duration::ZERO,
            latency: Duration::ZERO,
            acknowledgement: Duration::ZERO,
        }
    }

    /// Where one step of a ring hangs on the one before, blocks go around: what all `steps` but the last take on an idle
    /// network. The last block to come has missed the fastest hop of its lap, and its last hop is the slowest, which is counted
    /// by itself.
    fn around_ps(&self, steps: u32) -> u128 {
        let mean_ps = self.total / u128::from(self.count.max(1));
        let fastest_ps = self.fastest.map_or(0, Duration::as_ps);
        let apart_ps = u128::from(fastest_ps) + u128::from(self.slowest.as_ps());
        (mean_ps * u128::from(steps + 2)).saturating_sub(apart_ps)
    }

    // Links of a run with training jobs have the places of their numbers.
    fn loads(&self) -> Rc<[Load]> {
        let loads = self.loads.iter().enumerate().map(|(link, &flows)| Load { link, flows });
        loads.filter(|load| load.flows > 0).collect()
    }

    fn messages(&self, steps: u32) -> Rc<[(usize, u64)]> {
        let crossed = self.messages.iter().enumerate().filter(|(_, messages)| **messages > 0.0);
        let count = |messages: f64| (messages * f64::from(steps)).round() as u64;
        crossed.map(|(link, &messages)| (link, count(messages))).collect()
    }
}
