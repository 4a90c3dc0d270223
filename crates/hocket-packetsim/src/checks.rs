//! Self-checks of every run: no byte is lost, no link carries more than its rate, and no flow waits for ever.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::{Bytes, Duration, Time};
use hocket_scenario::{LinkId, NodeId, PathChoice};

use crate::changes::{Change, LinkChange};
use crate::engine::Engine;
use crate::error::PacketRunError;
use crate::network::Network;
use crate::network::medium::Medium;
use crate::outcome::PacketStatus;
use crate::parts::packet::Kind;
use crate::setup::Setup;

// Ordinary congestion pauses a port for microseconds to a few milliseconds. Inspecting every queued packet is too expensive
// to do it more often.
const LONG_PAUSE: Duration = Duration::from_ms(10);

/// A port and a priority that has packets queued there.
type Place = (u32, usize);

/// Checks, when no event is left, that every message is complete.
pub(crate) fn none_left_behind(
    engine: &Engine<'_>,
    setup: &Setup<'_>,
) -> Result<(), PacketRunError> {
    let Some((flow, message)) = engine.network.hosts.messages.unfinished().next() else {
        return Ok(());
    };
    // The more precise error, if it applies.
    no_deadlock(engine, setup)?;
    let name = |node: NodeId| setup.fabric.nodes()[node.index()].name.clone();
    let spec = &setup.flows[flow];
    let acknowledged = engine.network.hosts.flows[flow].sender.acknowledged();
    Err(PacketRunError::Stalled {
        flow,
        from: name(spec.from),
        to: name(spec.to),
        time: engine.now(),
        left: message.end - acknowledged,
        bytes: message.bytes,
    })
}

/// Searches for a deadlock if some port has been paused for 10 ms, and then every 10 ms; `last_check` is the time of the last
/// search.
pub(crate) fn no_deadlock_for_long(
    engine: &Engine<'_>,
    setup: &Setup<'_>,
    last_check: &mut Time,
) -> Result<(), PacketRunError> {
    match engine.network.medium.recorder.longest_paused_since() {
        Some(since) if engine.now().since(since.max(*last_check)) >= LONG_PAUSE => {
            *last_check = engine.now();
            no_deadlock(engine, setup)
        }
        _ => Ok(()),
    }
}

/// Checks that bytes, buffers and links add up at the end of a run.
pub(crate) fn at_the_end(
    engine: &Engine<'_>,
    setup: &Setup<'_>,
    changes: &[LinkChange],
    status: PacketStatus,
) -> Result<(), PacketRunError> {
    bytes_arrived(engine, setup, status)?;
    buffers_hold_what_waits(engine, setup, status)?;
    no_link_above_its_rate(engine, setup, changes)
}

// All bytes sent have arrived or are in flight. If data was retransmitted or packets can overtake each other, bytes in
// flight are not comparable: then only the order posted ≥ received ≥ acknowledged is checked.
fn bytes_arrived(
    engine: &Engine<'_>,
    setup: &Setup<'_>,
    status: PacketStatus,
) -> Result<(), PacketRunError> {
    let Network { medium, switches, hosts } = &engine.network;
    let mut under_way = vec![0; hosts.flows.len()];
    let waiting = switches.waiters().map(|waiter| waiter.packet);
    let flights = medium.wires.flights.iter();
    let flying = flights.flat_map(|flight| flight.iter().map(|each| &each.packet));
    for packet in waiting.chain(flying).filter(|packet| packet.kind == Kind::Data) {
        under_way[packet.flow as usize] += u64::from(packet.payload);
    }
    for (flow, id) in (0..hosts.flows.len()).zip(0_u32..) {
        let sender = &hosts.flows[flow].sender;
        let received = hosts.receiver_states[flow].receiver.received();
        let (posted, sent, acknowledged) = (sender.posted(), sender.sent(), sender.acknowledged());
        let in_order = setup.flows[flow].path != PathChoice::Spray;
        let recorder = &medium.recorder;
        let sent_once = recorder.retransmissions(id) == 0 && engine.faults.lost_packets == 0;
        // A run that ended early may have messages that were posted and not sent.
        let holds = if status == PacketStatus::Complete {
            sent == posted && received == posted && acknowledged == posted
        } else if in_order && sent_once && recorder.losses == 0 {
            received + under_way[flow] == sent && acknowledged <= received
        } else {
            received <= posted && acknowledged <= received
        };
        if !holds {
            let under_way = under_way[flow];
            let time = engine.now();
            return Err(PacketRunError::BytesLost {
                flow,
                time,
                sent,
                under_way,
                received,
                acknowledged,
            });
        }
    }
    Ok(())
}

fn buffers_hold_what_waits(
    engine: &Engine<'_>,
    setup: &Setup<'_>,
    status: PacketStatus,
) -> Result<(), PacketRunError> {
    let Network { medium, switches, .. } = &engine.network;
    let mut waiting = vec![0; setup.fabric.nodes().len()];
    for waiter in switches.waiters() {
        let switch = medium.wires.ports[waiter.port as usize].from;
        waiting[switch as usize] += u64::from(waiter.packet.wire);
    }
    let nodes = setup.fabric.nodes().iter().zip(switches.waiting_bytes());
    for (index, (node, counted)) in nodes.enumerate() {
        if !node.kind.is_switch() {
            continue;
        }
        let (held, waits) = (switches.buffers[index].held(), waiting[index]);
        let may_wait = status != PacketStatus::Complete || waits == 0;
        if held != waits || counted != waits || !may_wait {
            let (switch, time) = (node.name.clone(), engine.now());
            return Err(PacketRunError::BufferAstray { switch, time, held, waiting: waits });
        }
    }
    Ok(())
}

// A packet is counted when its transmission begins, so the time runs to the end of the last transmission. A packet cut off
// by a failure took no time, and the arithmetic of HPCC-style simulators rounds off up to half a nanosecond per packet.
fn no_link_above_its_rate(
    engine: &Engine<'_>,
    setup: &Setup<'_>,
    changes: &[LinkChange],
) -> Result<(), PacketRunError> {
    let ports = engine.network.medium.wires.ports.iter();
    for (index, (port, link)) in ports.zip(setup.fabric.links()).enumerate() {
        // A link fails with its whole cable.
        let failures = changes
            .iter()
            .filter(|each| each.change == Change::Down && each.link.index() / 2 == index / 2);
        let frames = match setup.fabric.is_scale_up(LinkId::from_index(index)) {
            true => setup.model.scale_up_frames(),
            false => setup.model.frames,
        };
        let cut_off = failures.count() as u64 * u64::from(frames.largest());
        let until = if port.is_up { port.busy_until } else { engine.now() };
        let rounded_away = setup.model.arithmetic.rounded_away(port.sent_packets);
        let elapsed = until.since(Time::ZERO) + rounded_away;
        let bytes = port.sent_bytes.saturating_sub(cut_off);
        if link.rate.transmission_time(Bytes::new(bytes)) > elapsed {
            let (link, rate) = (link.name.clone(), link.rate);
            return Err(PacketRunError::OverCapacity { link, bytes, time: until, rate });
        }
    }
    Ok(())
}

/// Checks that no port waits for ever. A deadlock that this finds is certain, unless a link changes later.
pub(crate) fn no_deadlock(engine: &Engine<'_>, setup: &Setup<'_>) -> Result<(), PacketRunError> {
    let Some(cycle) = deadlock(&engine.network) else { return Ok(()) };
    let name = |&(port, _): &Place| setup.fabric.links()[port as usize].name.clone();
    Err(PacketRunError::Deadlock { time: engine.now(), cycle: cycle.iter().map(name).collect() })
}

/// A cycle of ports in which each waits for the next: a port is paused until the buffer at its far end releases packets, and
/// all of these must leave by ports that wait in the same way. Such a cycle never resolves by itself.
fn deadlock(network: &Network<'_>) -> Option<Vec<Place>> {
    let waits_for = waits(network);
    // Start from all paused ports and remove those that wait for a port outside the set, until none can be removed: the
    // remaining ports wait only for each other.
    let mut stuck: BTreeSet<Place> = waits_for.keys().copied().collect();
    loop {
        let can_proceed = |place: &Place| !waits_for[place].iter().all(|next| stuck.contains(next));
        let free: Vec<Place> = stuck.iter().copied().filter(can_proceed).collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|place| _ = stuck.remove(place));
    }
    // Any walk within that set must return to a port that it has visited.
    let mut path = vec![*stuck.first()?];
    loop {
        let next = *waits_for[&path[path.len() - 1]].first()?;
        if let Some(start) = path.iter().position(|&place| place == next) {
            return Some(path.split_off(start));
        }
        path.push(next);
    }
}

/// For each paused port: the ports by which the packets that keep it paused must leave. A port counts as paused if it has
/// packets queued, has received a PAUSE, and the switch at its far end has not sent a resume yet.
fn waits(network: &Network<'_>) -> BTreeMap<Place, BTreeSet<Place>> {
    let Network { medium: Medium { wires, .. }, switches, .. } = network;
    let mut leaves_by: BTreeMap<Place, BTreeSet<Place>> = BTreeMap::new();
    for waiter in switches.waiters() {
        let arrival = switches.link_of_arrival(wires, &waiter);
        let out = (waiter.port, waiter.class);
        leaves_by.entry((arrival, waiter.class)).or_default().insert(out);
    }
    let is_held = |&(link, class): &Place| {
        let port = &wires.ports[link as usize];
        port.waiting & port.paused & 1 << class != 0 && switches.is_pausing(wires, link, class)
    };
    let mut held = leaves_by;
    held.retain(|place, _| is_held(place));
    held
}

#[cfg(test)]
mod tests {
    use hocket_des::Rate;
    use hocket_scenario::{Cable, Fabric, Node, NodeKind, WindowRule};
    use hocket_transport::Policy;

    use super::*;
    use crate::build;
    use crate::model::Model;
    use crate::network::clock::Clock;
    use crate::network::hosts::Due;
    use crate::parts::messages::Poster;
    use crate::reference::Reference;
    use crate::setup::FlowSpec;

    /// The result of the checks for a message of 10,000 bytes over one switch, after `spoil` has changed the engine.
    fn verdict(spoil: impl FnOnce(&mut Engine<'_>)) -> Result<(), PacketRunError> {
        let kinds = [NodeKind::Host, NodeKind::Host, NodeKind::Switch];
        let node = |(index, kind)| Node { name: format!("n{index}"), kind };
        let cable = |host| Cable {
            a: NodeId::new(host),
            b: NodeId::new(2),
            rate: Rate::from_gbps(100),
            delay: Duration::from_ns(500),
        };
        let nodes = kinds.into_iter().enumerate().map(node).collect();
        let fabric = Fabric::new(nodes, &[0, 1].map(cable)).expect("two cables are a fabric");
        let flow = FlowSpec {
            from: NodeId::new(0),
            to: NodeId::new(1),
            labels: (0, 0),
            priority: 3,
            policy: 0,
            window: WindowRule::Unlimited,
            path: PathChoice::Ecmp,
        };
        let setup = Setup {
            fabric: &fabric,
            model: &Model::default(),
            policies: &[Policy::PfcOnly],
            flows: &[flow],
            patterns: &[],
            seed: 1,
            reference: Reference::default(),
        };
        let mut engine = build::engine(&setup, &[]).expect("the setup is valid");
        engine.network.post(0, 10_000, Poster::Nobody);
        while engine.step().is_some() {
            let Network { medium, hosts, .. } = &mut engine.network;
            while let Some(due) = hosts.take_due() {
                if let Due::Completion(flow) = due {
                    hosts.complete(medium.clock.now, &mut medium.recorder, flow, |_| {});
                }
            }
        }
        spoil(&mut engine);
        none_left_behind(&engine, &setup)?;
        at_the_end(&engine, &setup, &[], PacketStatus::Complete)
    }

    #[test]
    fn an_unchanged_run_passes() {
        assert_eq!(verdict(|_| {}), Ok(()));
    }

    #[test]
    fn posted_bytes_that_were_never_sent_are_reported_with_their_flow() {
        let error = verdict(|engine| _ = engine.network.hosts.flows[0].sender.post(1));
        assert!(
            matches!(error, Err(PacketRunError::BytesLost { flow: 0, sent: 10_000, .. })),
            "{error:?}"
        );
    }

    #[test]
    fn a_message_that_is_never_acknowledged_is_reported_as_stalled() {
        let error = verdict(|engine| {
            engine.network.medium.clock = Clock::new();
            engine.network.post(0, 500, Poster::Nobody);
        });
        let Err(PacketRunError::Stalled { flow: 0, left: 500, bytes: 500, .. }) = error else {
            panic!("{error:?}")
        };
    }

    #[test]
    fn a_switch_that_does_not_release_its_buffer_is_named() {
        let error = verdict(|engine| _ = engine.network.switches.buffers[2].admit(0, 3, 1_082));
        let Err(PacketRunError::BufferAstray { switch, held, waiting, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((switch.as_str(), held, waiting), ("n2", 1_082, 0));
    }

    #[test]
    fn one_byte_more_than_a_link_can_carry_is_reported() {
        // Ten packets of 1,082 bytes, back to back: the link was busy from the first moment to the last.
        let error = verdict(|engine| engine.network.medium.wires.ports[0].sent_bytes += 1);
        let Err(PacketRunError::OverCapacity { link, bytes, time, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((link.as_str(), bytes), ("n0->n2", 10_821));
        assert_eq!(time, Time::from_ps(10 * 86_560));
    }
}
