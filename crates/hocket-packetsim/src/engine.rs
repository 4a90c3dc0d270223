//! The event loop: each event goes to the part of the network that it is of. There is one for each arrival, and one for each
//! time a port that has more to send is free.

use hocket_des::Time;

use crate::changes::LinkChange;
use crate::faults::{Carried, Faults};
use crate::network::Network;
use crate::network::switches::Refusal;
use crate::parts::event::{Event, Task};
use crate::parts::packet::{Kind, Packet};
use crate::setup::Setup;

/// A network in motion.
pub(crate) struct Engine<'a> {
    pub(crate) network: Network<'a>,
    pub(crate) faults: Faults<'a>,
    /// The last packet that a full buffer refused, until somebody looks.
    pub(crate) lost: Option<Lost>,
    /// Whether flows and ports do not fit into a core's own cache.
    is_large: bool,
}

/// A packet that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) link: u32,
    pub(crate) flow: u32,
}

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something in the network.
    Moved,
    /// A task is due.
    Task(Task),
}

impl<'a> Engine<'a> {
    /// A network at rest.
    pub(crate) fn new(setup: &Setup<'a>, network: Network<'a>) -> Self {
        // Some 400 bytes for a flow, and 2 KB for a link with what is on it, against caches of a megabyte.
        let bytes = setup.flows.len() * 400 + setup.fabric.links().len() * 2_000;
        Self { network, faults: Faults::new(setup), lost: None, is_large: bytes > 512_000 }
    }

    /// Moves to the next event, if there is one.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<Step> {
        let event = self.network.medium.clock.advance()?;
        if self.is_large {
            self.network.anticipate();
        }
        let Network { medium, hosts, .. } = &mut self.network;
        match event {
            Event::Arrive(link) => self.arrive(link),
            Event::Free(port) => self.network.free(port),
            Event::Wake(port) => hosts.wake(medium, port),
            Event::Retry(flow) => self.faults.retry(&mut self.network, flow),
            Event::Grant(granter) => hosts.grant(medium, granter),
            Event::Task(task) => return Some(Step::Task(task)),
        }
        Some(Step::Moved)
    }

    #[inline(always)]
    fn arrive(&mut self, link: u32) {
        let Network { medium, switches, hosts } = &mut self.network;
        let packet = medium.wires.take_arrival(&mut medium.clock, link);
        match packet.kind {
            Kind::Pause | Kind::Resume => self.network.take_pause(link, &packet),
            Kind::Lost => {}
            _ if medium.wires.ports[link as usize].to_host => hosts.take_in(medium, &packet),
            _ => {
                if let Err(refusal) = switches.pass_on(medium, link, packet) {
                    self.lose(refusal, link, &packet);
                }
            }
        }
    }

    /// A switch has refused a packet that came by `link`.
    #[cold]
    fn lose(&mut self, refusal: Refusal, link: u32, packet: &Packet) {
        match refusal {
            Refusal::LinkDown => self.faults.lose(&mut self.network, packet),
            Refusal::NoRoom => {
                self.lost = Some(Lost { link, flow: packet.flow });
                self.network.medium.recorder.losses += 1;
                self.faults.recover_later(&mut self.network, packet);
            }
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.network.medium.clock.now
    }

    pub(crate) fn schedule_task(&mut self, at: Time, task: Task) {
        self.network.medium.clock.schedule_task(at, task);
    }

    /// Brings a change of a link about.
    pub(crate) fn apply(&mut self, change: &LinkChange) {
        self.faults.apply(&mut self.network, change);
    }

    /// What arrived of a flow by each of its ways. What was spread over several counts in equal parts.
    pub(crate) fn carried(&self, flow: u32) -> Vec<Carried<'_>> {
        self.faults.carried(&self.network, flow)
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::flow::{Course, Flow, Return, Steering};
    use crate::parts::messages::Message;
    use crate::parts::port::{InFlight, Port};

    #[test]
    fn a_flow_and_a_packet_take_as_many_cache_lines_as_they_are_said_to() {
        assert_eq!(size_of::<Flow>(), 2 * 64);
        assert_eq!(size_of::<Steering>(), 2 * 64);
        assert_eq!(size_of::<Return>(), 64);
        assert_eq!(size_of::<Port>(), 2 * 64);
        // With its present message and room for three more, its routes and its place in a NIC, a flow stays below 1 KB.
        let held = size_of::<Course>() + 4 * size_of::<Message>();
        assert!(5 * 64 + held < 512, "{held}");
        // On a link, with the time of its arrival and its place among those of the same time; a queue has 24 bytes for each.
        assert_eq!(size_of::<InFlight>(), 40);
    }
}
