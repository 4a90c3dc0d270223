//! Receiver-driven flows: what receivers know of the messages that come in, and the grants that they send.

use hocket_des::Bytes;
use hocket_transport::Policy;
use hocket_transport::congestion::receiver_driven::{Granter, MessageId, Parameters};

use crate::engine::Engine;
use crate::event::Event;
use crate::packet::{Kind, Packet};

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

impl Engine<'_> {
    /// Puts a flow under its receiver's control, if its policy says so; the last link of its way is `last`.
    pub(crate) fn set_on_credit(&mut self, id: u32, last: u32) {
        let flow = &mut self.flows[id as usize];
        let Policy::ReceiverDriven(parameters) = self.policies[usize::from(flow.policy)] else {
            return;
        };
        flow.sender.set_on_credit();
        let frames = &self.model.frames;
        let wire = Bytes::new(u64::from(frames.mtu) + u64::from(flow.overhead));
        let rate = self.rates[usize::from(self.ports[last as usize].speed)];
        let credits = self.credits.get_or_insert_default();
        let known = credits.granters.iter().position(|paced| paced.link == last);
        let granter = known.unwrap_or_else(|| {
            let granter = Granter::new(rate, frames.mtu, wire);
            credits.granters.push(Paced { link: last, granter, is_scheduled: false });
            credits.granters.len() - 1
        }) as u32;
        credits.inbound.resize_with(id as usize + 1, || None);
        let (received, end, message, granted) = (0, 0, None, 0);
        let inbound = Inbound { parameters, granter, received, end, message, granted };
        credits.inbound[id as usize] = Some(inbound);
    }

    /// A message of a flow is next: its first bytes go unasked.
    #[cold]
    pub(crate) fn begin_on_credit(&mut self, id: u32) {
        let flow = &mut self.flows[id as usize];
        let Policy::ReceiverDriven(parameters) = &self.policies[usize::from(flow.policy)] else {
            return;
        };
        if let Some(message) = self.messages.holding(id, flow.sender.sent()) {
            let unasked = parameters.unasked(message.bytes, self.model.frames.mtu);
            flow.sender.allow_to(message.end - message.bytes + unasked);
        }
    }

    /// Data of a flow has come in. The first packet of a message announces it.
    pub(crate) fn credit_arrival(&mut self, id: u32) {
        let Some((inbound, paced)) = self.credits.as_mut().and_then(|credits| credits.of(id))
        else {
            return;
        };
        let received = self.returns[id as usize].receiver.received();
        while inbound.received < received {
            let start = inbound.received;
            if start == inbound.end {
                inbound.end = self.messages.boundary_after(id, start);
                let total = inbound.end - start;
                inbound.granted = start + inbound.parameters.unasked(total, self.model.frames.mtu);
                inbound.message = paced.granter.announce(id, total, &inbound.parameters);
            }
            inbound.received = received.min(inbound.end);
            if let Some(message) = inbound.message {
                paced.granter.on_data(message, inbound.received - start);
            }
        }
        let granter = inbound.granter;
        self.schedule_grant(granter);
    }

    /// This granter may grant a packet.
    pub(crate) fn grant(&mut self, which: u32) {
        let credits = self.credits.as_mut().expect("an event of grants comes from them");
        let paced = &mut credits.granters[which as usize];
        paced.is_scheduled = false;
        if let Some((id, bytes)) = paced.granter.poll(self.now) {
            let (inbound, _) = credits.of(id).expect("its receiver knows the flow");
            inbound.granted += bytes;
            let granted = inbound.granted;
            self.send_grant(id, granted);
        }
        self.schedule_grant(which);
    }

    /// A grant has come to the sender.
    #[cold]
    pub(crate) fn take_grant(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow as usize];
        let nic = flow.nic;
        flow.sender.allow_to(packet.sequence(flow.sender.sent()));
        self.update_turn(packet.flow);
        if self.nics[nic as usize].wants_a_look(self.now) {
            self.look(nic);
        }
    }

    /// All before this has been granted to the sender of a flow, whether or not it knows; 0 if nothing is.
    pub(crate) fn granted(&self, id: u32) -> u64 {
        let inbound = self.credits.as_ref().and_then(|credits| credits.inbound.get(id as usize));
        inbound.and_then(Option::as_ref).map_or(0, |inbound| inbound.granted)
    }

    /// Tells the sender of a flow once more what it may send, in case that was lost.
    pub(crate) fn repeat_grant(&mut self, id: u32) {
        let granted = self.granted(id);
        if granted > self.flows[id as usize].sender.acknowledged() {
            self.send_grant(id, granted);
        }
    }

    fn schedule_grant(&mut self, which: u32) {
        let credits = self.credits.as_mut().expect("there are flows on credit");
        let paced = &mut credits.granters[which as usize];
        if !paced.is_scheduled
            && let Some(at) = paced.granter.next_time()
        {
            paced.is_scheduled = true;
            let order = self.calendar.next_order();
            self.calendar.schedule(at.max(self.now), order, Event::Grant(which).packed());
        }
    }

    fn send_grant(&mut self, id: u32, granted: u64) {
        let returns = &self.returns[id as usize];
        let (nic, wire) = (returns.nic, self.model.frames.ack);
        let mut packet = Packet::new(Kind::Grant, id, returns.route + 1, wire, returns.priority);
        packet.set_sequence(granted);
        self.nics[nic as usize].answers.push_back(packet);
        self.look(nic);
    }
}

impl Credits {
    /// What the receiver of a flow on credit knows of it, and its granter.
    fn of(&mut self, id: u32) -> Option<(&mut Inbound, &mut Paced)> {
        let inbound = self.inbound.get_mut(id as usize)?.as_mut()?;
        let paced = &mut self.granters[inbound.granter as usize];
        Some((inbound, paced))
    }
}
