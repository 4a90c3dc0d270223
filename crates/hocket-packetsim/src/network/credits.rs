//! Receiver-driven flows: the state of incoming messages at receivers, and the grants that receivers send.

use hocket_des::{Bytes, Rate};
use hocket_transport::congestion::receiver_driven::{Granter, MessageId, Parameters};

use crate::network::clock::Clock;
use crate::parts::event::Event;
use crate::parts::messages::Messages;

/// All receiver-driven flows.
#[derive(Default)]
pub(crate) struct Credits {
    /// One granter for each NIC that receives such flows.
    granters: Vec<Paced>,
    /// By flow; `None` for flows that are not receiver-driven.
    inbound: Vec<Option<Inbound>>,
}

/// The grants of one NIC, and whether an event for the next one is scheduled.
struct Paced {
    /// The link that leads into the NIC.
    link: u32,
    granter: Granter<u32>,
    is_scheduled: bool,
}

/// The receiver's state of a flow.
struct Inbound {
    parameters: Parameters,
    /// Index of the flow's granter.
    granter: u32,
    /// All bytes before this one have arrived.
    received: u64,
    /// Where the message that is arriving ends.
    end: u64,
    /// That message at the granter, if it needs grants.
    message: Option<MessageId>,
    /// The sender may send all bytes before this one.
    granted: u64,
}

/// The last link of a flow's path, and its packets.
#[derive(Clone, Copy)]
pub(crate) struct Inlet {
    /// The link that leads into the NIC.
    pub(crate) link: u32,
    pub(crate) rate: Rate,
    /// Data of a full packet, and its bytes on the wire.
    pub(crate) mtu: u16,
    pub(crate) wire: Bytes,
}

/// Permission for a flow's sender to send all bytes before `end`.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) flow: u32,
    pub(crate) end: u64,
}

impl Credits {
    /// Puts a flow under its receiver's control.
    pub(crate) fn add(&mut self, flow: u32, parameters: Parameters, inlet: Inlet) {
        let Inlet { link, rate, mtu, wire } = inlet;
        let known = self.granters.iter().position(|paced| paced.link == link);
        let granter = known.unwrap_or_else(|| {
            let granter = Granter::new(rate, mtu, wire);
            self.granters.push(Paced { link, granter, is_scheduled: false });
            self.granters.len() - 1
        }) as u32;
        self.inbound.resize_with(flow as usize + 1, || None);
        let (received, end, message, granted) = (0, 0, None, 0);
        let inbound = Inbound { parameters, granter, received, end, message, granted };
        self.inbound[flow as usize] = Some(inbound);
    }

    /// Updates a flow whose bytes before `received` have arrived. The first packet of a message announces it to the granter.
    pub(crate) fn on_data(
        &mut self,
        clock: &mut Clock,
        messages: &Messages,
        flow: u32,
        received: u64,
        mtu: u16,
    ) {
        let Some((inbound, paced)) = self.of(flow) else { return };
        // If packets overtook each other, a late one may complete the bytes of several messages.
        while inbound.received < received {
            let start = inbound.received;
            if start == inbound.end {
                inbound.end = messages.boundary_after(flow, start);
                let total = inbound.end - start;
                inbound.granted = start + inbound.parameters.unsolicited_bytes(total, mtu);
                inbound.message = paced.granter.announce(flow, total, &inbound.parameters);
            }
            inbound.received = received.min(inbound.end);
            if let Some(message) = inbound.message {
                paced.granter.on_data(message, inbound.received - start);
            }
        }
        let granter = inbound.granter;
        self.schedule(clock, granter);
    }

    /// The grant that granter `which` makes now; called by its scheduled event.
    pub(crate) fn grant(&mut self, clock: &Clock, which: u32) -> Option<Grant> {
        let paced = &mut self.granters[which as usize];
        paced.is_scheduled = false;
        let (flow, bytes) = paced.granter.poll(clock.now)?;
        let (inbound, _) = self.of(flow).expect("its receiver knows the flow");
        inbound.granted += bytes;
        Some(Grant { flow, end: inbound.granted })
    }

    /// The end of what the receiver of a flow has granted, whether or not the grant has reached the sender; 0 without grants.
    pub(crate) fn granted(&self, flow: u32) -> u64 {
        let inbound = self.inbound.get(flow as usize).and_then(Option::as_ref);
        inbound.map_or(0, |inbound| inbound.granted)
    }

    /// Schedules the next grant of granter `which`, if there is one that is not scheduled yet.
    pub(crate) fn schedule(&mut self, clock: &mut Clock, which: u32) {
        let paced = &mut self.granters[which as usize];
        if !paced.is_scheduled
            && let Some(at) = paced.granter.next_time()
        {
            paced.is_scheduled = true;
            // The link may have been free for some time already.
            clock.schedule(at.max(clock.now), Event::Grant(which));
        }
    }

    /// The receiver's state of a receiver-driven flow, and its granter.
    fn of(&mut self, id: u32) -> Option<(&mut Inbound, &mut Paced)> {
        let inbound = self.inbound.get_mut(id as usize)?.as_mut()?;
        let paced = &mut self.granters[inbound.granter as usize];
        Some((inbound, paced))
    }
}
