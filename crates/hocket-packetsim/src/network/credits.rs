//! Receiver-driven flows: what receivers know of the messages that come in, and the grants that they send.

use hocket_des::{Bytes, Rate};
use hocket_transport::congestion::receiver_driven::{Granter, MessageId, Parameters};

use crate::network::clock::Clock;
use crate::parts::event::Event;
use crate::parts::messages::Messages;

/// All flows that are sent on credit.
#[derive(Default)]
pub(crate) struct Credits {
    /// One for each NIC that receives such flows.
    granters: Vec<Paced>,
    /// By flow; of others there is nothing.
    inbound: Vec<Option<Inbound>>,
}

/// The grants of one NIC, and whether an event for the next one is scheduled.
struct Paced {
    /// The link that leads into the NIC.
    link: u32,
    granter: Granter<u32>,
    is_scheduled: bool,
}

/// What the receiver of a flow knows of it.
struct Inbound {
    parameters: Parameters,
    /// Which of the granters.
    granter: u32,
    /// Everything before has arrived.
    received: u64,
    /// The message that is arriving ends here.
    end: u64,
    /// How the granter knows that message, if it needs grants.
    message: Option<MessageId>,
    /// The sender may send all before this.
    granted: u64,
}

/// The way by which a flow comes in.
#[derive(Clone, Copy)]
pub(crate) struct Inlet {
    /// The link that leads into the NIC.
    pub(crate) link: u32,
    pub(crate) rate: Rate,
    /// Data of a full packet, and its bytes on the wire.
    pub(crate) mtu: u16,
    pub(crate) wire: Bytes,
}

/// All before `end` may be sent.
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

    /// Of a flow, all before `received` has come in. The first packet of one of its `messages` announces it.
    pub(crate) fn on_data(
        &mut self,
        clock: &mut Clock,
        messages: &Messages,
        flow: u32,
        received: u64,
        mtu: u16,
    ) {
        let Some((inbound, paced)) = self.of(flow) else { return };
        while inbound.received < received {
            let start = inbound.received;
            if start == inbound.end {
                inbound.end = messages.boundary_after(flow, start);
                let total = inbound.end - start;
                inbound.granted = start + inbound.parameters.unasked(total, mtu);
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

    /// What this granter grants now, for which it was scheduled.
    pub(crate) fn grant(&mut self, clock: &Clock, which: u32) -> Option<Grant> {
        let paced = &mut self.granters[which as usize];
        paced.is_scheduled = false;
        let (flow, bytes) = paced.granter.poll(clock.now)?;
        let (inbound, _) = self.of(flow).expect("its receiver knows the flow");
        inbound.granted += bytes;
        Some(Grant { flow, end: inbound.granted })
    }

    /// All before this has been granted to the sender of a flow, whether or not it knows; 0 if nothing is.
    pub(crate) fn granted(&self, flow: u32) -> u64 {
        let inbound = self.inbound.get(flow as usize).and_then(Option::as_ref);
        inbound.map_or(0, |inbound| inbound.granted)
    }

    /// Schedules the next grant of this granter, if it has one and it is not scheduled.
    pub(crate) fn schedule(&mut self, clock: &mut Clock, which: u32) {
        let paced = &mut self.granters[which as usize];
        if !paced.is_scheduled
            && let Some(at) = paced.granter.next_time()
        {
            paced.is_scheduled = true;
            clock.schedule(at.max(clock.now), Event::Grant(which));
        }
    }

    /// What the receiver of a flow on credit knows of it, and its granter.
    fn of(&mut self, id: u32) -> Option<(&mut Inbound, &mut Paced)> {
        let inbound = self.inbound.get_mut(id as usize)?.as_mut()?;
        let paced = &mut self.granters[inbound.granter as usize];
        Some((inbound, paced))
    }
}
