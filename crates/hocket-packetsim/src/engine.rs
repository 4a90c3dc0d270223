//! The event loop: dispatches each event to the part of the network that it concerns. Each arrival of a packet is an event,
//! and so is each moment at which a port that has more to send becomes free.

use hocket_des::Time;

use crate::changes::LinkChange;
use crate::faults::{Carried, Faults};
use crate::network::Network;
use crate::network::switches::Refusal;
use crate::parts::event::{Event, Task};
use crate::parts::packet::{Kind, Packet};
use crate::setup::Setup;

/// The network together with link failures and the loop that drives both.
pub(crate) struct Engine<'a> {
    pub(crate) network: Network<'a>,
    pub(crate) faults: Faults<'a>,
    /// The last packet that a full buffer refused; the run takes it out after each event.
    pub(crate) lost: Option<Lost>,
    /// Whether flows and ports exceed a core's own cache, so that prefetching pays.
    is_large: bool,
}

/// A packet that a full buffer refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) link: u32,
    pub(crate) flow: u32,
}

/// The kind of an event that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An event inside the network, which the engine has handled.
    Moved,
    /// A task from outside the network, which the run must handle.
    Task(Task),
}

impl<'a> Engine<'a> {
    /// A network at rest.
    pub(crate) fn new(setup: &Setup<'a>, network: Network<'a>) -> Self {
        // About 400 bytes per flow and 2 KB per link with the packets on it, against caches of a megabyte.
        let bytes = setup.flows.len() * 400 + setup.fabric.links().len() * 2_000;
        Self { network, faults: Faults::new(setup), lost: None, is_large: bytes > 512_000 }
    }

    /// Advances to the next event and handles it; `None` if no event is left.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<Step> {
        let event = self.network.medium.clock.advance()?;
        // In a small network, everything is in cache already, and prefetching only costs time.
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
                if let Err(refusal) = switches.forward(medium, link, packet) {
                    self.lose(refusal, link, &packet);
                }
            }
        }
    }

    /// Handles a packet from `link` that a switch has refused.
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

    /// Applies a change of a link.
    pub(crate) fn apply(&mut self, change: &LinkChange) {
        self.faults.apply(&mut self.network, change);
    }

    /// The bytes of a flow that arrived over each of its paths. The bytes of a sprayed flow count in equal parts.
    pub(crate) fn carried(&self, flow: u32) -> Vec<Carried<'_>> {
        self.faults.carried(&self.network, flow)
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::flow::{CongestionState, Flow, ReceiverState, SenderState};
    use crate::parts::messages::Message;
    use crate::parts::port::{InFlight, Port};

    #[test]
    fn flows_ports_and_packets_have_the_sizes_that_their_comments_state() {
        assert_eq!(size_of::<Flow>(), 2 * 64);
        assert_eq!(size_of::<CongestionState>(), 2 * 64);
        assert_eq!(size_of::<ReceiverState>(), 64);
        assert_eq!(size_of::<Port>(), 2 * 64);
        // Including its current message and room for three more, a flow takes less than 512 bytes.
        let held = size_of::<SenderState>() + 4 * size_of::<Message>();
        assert!(5 * 64 + held < 512, "{held}");
        // A packet on a link, with its arrival time and its order among events of that time; a queued packet has 24 bytes.
        assert_eq!(size_of::<InFlight>(), 40);
    }
}
