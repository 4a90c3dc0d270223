//! The traffic of one step of a collective, or of a message: the load on each link, and the latency of the last byte.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use hocket_des::{Bytes, Duration, Rate};
use hocket_scenario::{
    Collective, Fabric, Framing, JobId, LinkId, NodeId, PathChoice, Routing, Scenario, Training,
};

use crate::allocation::Load;
use crate::error::FlowError;

/// Loads are counted in fractions of a flow of this denominator, fine enough for headers and acknowledgements.
pub(crate) const UNIT: u64 = 1 << 12;

/// The messages of a step, or of several steps that repeat it, as those of a ring do. All of them have one rate.
pub(crate) struct StepPlan {
    /// Loads in units of 1/[`UNIT`] flow: data with headers in one direction, acknowledgements in the other.
    pub(crate) loads: Arc<[Load]>,
    /// The data of one message.
    pub(crate) bytes: u64,
    /// The number of steps that the plan covers.
    pub(crate) steps: u32,
    /// The number of messages that cross each link, over all these steps.
    pub(crate) messages: Rc<[(usize, u64)]>,
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
    /// By job, sender and receiver. A hash map is safe here: it is never iterated.
    paths: HashMap<(JobId, [NodeId; 2]), Rc<Paths>>,
}

/// The paths of a message and its acknowledgements.
struct Paths {
    /// Each link with the share of the message that crosses it, which is below 1 if the message is sprayed.
    forward: Vec<(LinkId, f64)>,
    reverse: Vec<LinkId>,
}

/// Totals over the messages of a step.
struct Sum {
    /// By link: the load, and the number of messages, to which sprayed ones contribute fractions.
    loads: Vec<u64>,
    messages: Vec<f64>,
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

impl<'a> Planner<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let fabric = scenario.fabric();
        Self { fabric, routing: Routing::new(fabric), paths: HashMap::new() }
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
        let mut sum = Sum::new(self.fabric);
        let (mut bytes, mut most_due) = (0, 0);
        for (&rank, member) in members.iter().zip(0_u32..) {
            most_due = most_due.max(collective.due(step, member));
            for send in collective.sends(step, member) {
                // The first chunk and the largest block stand for all: others are at most a byte shorter. Empty messages
                // take part as messages of one byte.
                let size = collective.message_bytes(0, step, member, &send).get().max(1);
                bytes = bytes.max(size);
                let ends = [rank, members[send.to as usize]];
                self.add(&mut sum, (training, job), ends, size)?;
            }
        }
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

    /// The plan of a message from one rank to another.
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
        let paths = self.paths(training, job, hosts)?;
        let framing = match self.fabric.scale_up_between(hosts[0], hosts[1]) {
            Some(_) => training.spec().scale_up_framing,
            None => training.spec().framing,
        };
        let message = Framed::new(framing, bytes);
        for &(link, part) in &paths.forward {
            let flows = (message.wire_per_unit as f64 * part).round() as u64;
            sum.loads[link.index()] += flows;
            sum.messages[link.index()] += part;
        }
        for &link in &paths.reverse {
            sum.loads[link.index()] += message.acks_per_unit;
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
        let forward = match flow.path {
            PathChoice::Pinned(path) => path.into_iter().map(|link| (link, 1.0)).collect(),
            PathChoice::Ecmp => {
                let route = self.routing.route(flow.from, flow.to, label)?;
                route.into_iter().map(|link| (link, 1.0)).collect()
            }
            PathChoice::Spray => {
                let paths = self.routing.paths(flow.from, flow.to, label)?;
                let part = 1.0 / paths.len() as f64;
                // In order of link, since sums of fractions depend on the order.
                let mut parts = BTreeMap::new();
                for link in paths.into_iter().flatten() {
                    *parts.entry(link).or_insert(0.0) += part;
                }
                parts.into_iter().collect()
            }
        };
        let reverse = self.routing.route(flow.to, flow.from, label)?;
        let paths = Rc::new(Paths { forward, reverse });
        self.paths.insert(known, Rc::clone(&paths));
        Ok(paths)
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

    // A network with training jobs has all links of the fabric, so their ids are their indices.
    fn loads(&self) -> Arc<[Load]> {
        let loads = self.loads.iter().enumerate().map(|(link, &flows)| Load { link, flows });
        loads.filter(|load| load.flows > 0).collect()
    }

    fn messages(&self, steps: u32) -> Rc<[(usize, u64)]> {
        let crossed = self.messages.iter().enumerate().filter(|(_, messages)| **messages > 0.0);
        let count = |messages: f64| (messages * f64::from(steps)).round() as u64;
        crossed.map(|(link, &messages)| (link, count(messages))).collect()
    }
}
