//! Receiver-driven credit: a sender sends the first bytes of a message without a grant, and the rest only as the receiver
//! grants it, one packet per packet time of the receiver's own link. Apart from those first bytes, data arrives no faster
//! than that link's rate, whatever the number of senders (pHost, CoNEXT'15; Homa, SIGCOMM'18).
//!
//! The simulator keeps one [`Granter`] per receiving NIC. A sender on credit
//! ([`Sender::set_on_credit`](crate::Sender::set_on_credit)) begins each message with
//! [`Parameters::unsolicited_bytes`], of which the first packet announces the message: the simulator calls
//! [`Granter::announce`], and [`Granter::on_data`] for everything that arrives. At [`Granter::next_time`] it calls
//! [`Granter::poll`] and delivers the grant to the sender, whose credit it increases
//! ([`Sender::allow_to`](crate::Sender::allow_to)).

use std::collections::VecDeque;

use hocket_des::{Bytes, Duration, Rate, Time};

use super::limits::{ParameterError, require};

const POLICY: &str = "receiver-driven";

/// Parameters of receiver-driven credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of each message that are sent without a grant, rounded up to whole packets, at least one. A value that about
    /// fills the path saves a single message the round trip of waiting for a grant.
    pub unsolicited: u64,
    /// The number of messages to which a receiver grants at the same time; the others wait. With more than one, the
    /// receiver's link stays busy while a sender serves other receivers.
    pub overcommitment: u32,
    /// The largest number of bytes of one message that are granted but have not arrived.
    pub outstanding: u64,
}

impl Parameters {
    /// Values for a path that `window` bytes fill: that many bytes unsolicited and outstanding, and 7 messages at a time, the
    /// number of Homa's scheduled priorities (section 3.5), with which a link is busy for 80 to 90% of the time.
    pub fn recommended(window: u64) -> Self {
        Self { unsolicited: window, overcommitment: 7, outstanding: window }
    }

    /// Checks that every message can be completed with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let several = self.overcommitment;
        require(several > 0, POLICY, "overcommitment", &several, &"at least 1")?;
        let outstanding = self.outstanding;
        require(outstanding > 0, POLICY, "outstanding", &outstanding, &"above 0 bytes")
    }

    /// The bytes of a message of `total` bytes that are sent without a grant, in packets of `payload` bytes.
    ///
    /// # Panics
    /// If a packet has no payload.
    pub fn unsolicited_bytes(&self, total: u64, payload: u16) -> u64 {
        let packets = self.unsolicited.div_ceil(payload.into()).max(1);
        packets.saturating_mul(payload.into()).min(total)
    }
}

/// A message at its receiver's [`Granter`], valid until all its bytes have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u32);

/// The receiver's state of a message.
#[derive(Clone, Copy, Debug)]
struct Incoming<Flow> {
    flow: Flow,
    to_arrive: u64,
    to_grant: u64,
    parameters: Parameters,
}

impl<Flow> Incoming<Flow> {
    fn outstanding(&self) -> u64 {
        self.to_arrive - self.to_grant
    }

    fn may_be_granted(&self) -> bool {
        self.outstanding() < self.parameters.outstanding
    }
}

/// Grants the capacity of one receiver's link, one packet at a time, round robin over the active messages.
///
/// Messages become active in the order in which they were announced, each as soon as it is one of the first
/// [`Parameters::overcommitment`] messages that are not fully granted.
#[derive(Clone, Debug)]
pub struct Granter<Flow> {
    payload: u16,
    packet_time: Duration,
    messages: Vec<Incoming<Flow>>,
    unused: Vec<MessageId>,
    // Messages that take turns; the front gets the next grant.
    active: VecDeque<MessageId>,
    waiting: VecDeque<MessageId>,
    free_at: Time,
}

impl<Flow: Copy> Granter<Flow> {
    /// A granter for a link of `line_rate`. It grants `payload` bytes at a time and then waits for the transmission time of
    /// the `wire` bytes of such a packet.
    ///
    /// # Panics
    /// If a packet has no payload or the link no rate.
    pub fn new(line_rate: Rate, payload: u16, wire: Bytes) -> Self {
        assert!(payload > 0, "a packet has payload");
        Self {
            payload,
            packet_time: line_rate.transmission_time(wire),
            messages: Vec::new(),
            unused: Vec::new(),
            active: VecDeque::new(),
            waiting: VecDeque::new(),
            free_at: Time::ZERO,
        }
    }

    /// Registers a message of `total` bytes. Returns `None` if it needs no grants: then the caller must not report its data.
    pub fn announce(
        &mut self,
        flow: Flow,
        total: u64,
        parameters: &Parameters,
    ) -> Option<MessageId> {
        let to_grant = total - parameters.unsolicited_bytes(total, self.payload);
        if to_grant == 0 {
            return None;
        }
        let message = Incoming { flow, to_arrive: total, to_grant, parameters: *parameters };
        let id = match self.unused.pop() {
            Some(id) => {
                self.messages[id.0 as usize] = message;
                id
            }
            None => {
                self.messages.push(message);
                MessageId(u32::try_from(self.messages.len() - 1).expect("fewer than 2^32 messages"))
            }
        };
        self.waiting.push_back(id);
        self.admit();
        Some(id)
    }

    /// Counts `bytes` of a message that arrived for the first time. Once all have arrived, the id may be reused.
    ///
    /// # Panics
    /// If more arrives than the sender could have sent.
    pub fn on_data(&mut self, id: MessageId, bytes: u64) {
        let message = &mut self.messages[id.0 as usize];
        assert!(bytes <= message.outstanding(), "a sender sends no more than it was granted");
        message.to_arrive -= bytes;
        if message.to_arrive == 0 {
            self.unused.push(id);
        }
    }

    /// When the next grant may be made, possibly a time in the past; `None` if none may be made until another message is
    /// announced or more data arrives.
    pub fn next_time(&self) -> Option<Time> {
        self.active.iter().any(|&id| self.message(id).may_be_granted()).then_some(self.free_at)
    }

    /// The grant that is due at `now`, if any: the flow and the number of further bytes that it may send.
    pub fn poll(&mut self, now: Time) -> Option<(Flow, u64)> {
        if now < self.free_at {
            return None;
        }
        // Messages before it have too many bytes outstanding; they keep their place.
        let place = self.active.iter().position(|&id| self.message(id).may_be_granted())?;
        let id = self.active.remove(place).expect("the place was just found");
        let message = &mut self.messages[id.0 as usize];
        let bytes = message.to_grant.min(self.payload.into());
        message.to_grant -= bytes;
        let flow = message.flow;
        if message.to_grant > 0 {
            self.active.push_back(id);
        } else {
            self.admit();
        }
        self.free_at = now + self.packet_time;
        Some((flow, bytes))
    }

    fn message(&self, id: MessageId) -> &Incoming<Flow> {
        &self.messages[id.0 as usize]
    }

    fn admit(&mut self) {
        while let Some(&id) = self.waiting.front()
            && self.active.len() < self.message(id).parameters.overcommitment as usize
        {
            self.waiting.pop_front();
            self.active.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: Rate = Rate::from_gbps(200);
    const PAYLOAD: u16 = 1_000;

    fn granter() -> Granter<usize> {
        Granter::new(LINE, PAYLOAD, Bytes::new(1_000))
    }

    fn at_ns(ns: u64) -> Time {
        Time::from_ps(ns * 1_000)
    }

    #[test]
    fn a_short_message_needs_no_grant() {
        let parameters = Parameters::recommended(51_100);
        assert_eq!(granter().announce(0, 52_000, &parameters), None);
        assert_eq!(parameters.unsolicited_bytes(30_500, PAYLOAD), 30_500);
    }

    #[test]
    fn unsolicited_bytes_are_whole_packets_and_at_least_one() {
        let unsolicited_bytes = |unsolicited| {
            let parameters = Parameters { unsolicited, ..Parameters::recommended(52_000) };
            parameters.unsolicited_bytes(100_000, PAYLOAD)
        };
        assert_eq!([0, 1_000, 1_001].map(unsolicited_bytes), [1_000, 1_000, 2_000]);
    }

    #[test]
    fn each_message_waits_according_to_the_overcommitment_of_its_own_job() {
        let several =
            |overcommitment| Parameters { unsolicited: 1_000, overcommitment, outstanding: 5_000 };
        let mut granter = granter();
        granter.announce(1, 9_000, &several(1));
        granter.announce(2, 9_000, &several(2));
        granter.announce(3, 9_000, &several(1));
        let granted: Vec<usize> =
            (0..8).map_while(|turn| granter.poll(at_ns(40 * turn)).map(|(flow, _)| flow)).collect();
        assert_eq!(granted, [1, 2, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn messages_take_turns_one_packet_time_apart() {
        let parameters = Parameters { unsolicited: 0, overcommitment: 2, outstanding: 10_000 };
        let mut granter = granter();
        // The first packet of each message is unsolicited.
        for (flow, total) in [(1, 3_500), (2, 3_000), (3, 2_000)] {
            granter.announce(flow, total, &parameters);
        }
        let mut now = Time::ZERO;
        let mut grants = Vec::new();
        while let Some(next) = granter.next_time() {
            now = now.max(next);
            grants.push((now, granter.poll(now).expect("a grant is due")));
            assert_eq!(granter.poll(now), None);
        }
        // 1,000 bytes take 40 ns at 200 Gb/s. The third message waits until the second is fully granted.
        assert_eq!(
            grants,
            [
                (at_ns(0), (1, 1_000)),
                (at_ns(40), (2, 1_000)),
                (at_ns(80), (1, 1_000)),
                (at_ns(120), (2, 1_000)),
                (at_ns(160), (1, 500)),
                (at_ns(200), (3, 1_000)),
            ]
        );
    }

    #[test]
    fn a_message_whose_data_does_not_arrive_does_not_block_others() {
        let parameters = Parameters { unsolicited: 0, overcommitment: 2, outstanding: 1_001 };
        let mut granter = granter();
        let first = granter.announce(1, 4_000, &parameters).expect("it needs grants");
        granter.announce(2, 4_000, &parameters);
        assert_eq!(granter.poll(at_ns(0)), Some((1, 1_000)));
        assert_eq!(granter.poll(at_ns(40)), Some((2, 1_000)));
        assert_eq!(granter.next_time(), None);
        granter.on_data(first, 1_000);
        assert_eq!(granter.next_time(), Some(at_ns(80)));
        assert_eq!(granter.poll(at_ns(300)), Some((1, 1_000)));
    }

    #[test]
    fn parameters_that_would_never_grant_are_rejected() {
        let idle = Parameters { unsolicited: 0, overcommitment: 0, outstanding: 1 };
        let error = idle.validate().expect_err("nobody is granted to");
        assert_eq!(
            error.to_string(),
            "receiver-driven: overcommitment is 0; it must be at least 1"
        );
        assert_eq!(Parameters::recommended(52_000).validate(), Ok(()));
    }

    proptest! {
        #[test]
        fn every_message_is_granted_to_its_last_byte_within_its_limit_of_outstanding_bytes(
            totals in prop::collection::vec(1_u64..20_000, 1..12),
            unsolicited in 0_u64..5_000,
            overcommitment in 1_u32..4,
            outstanding in 1_u64..5_000,
        ) {
            let parameters = Parameters { unsolicited, overcommitment, outstanding };
            let mut granter = granter();
            let mut senders: Vec<_> = totals
                .iter()
                .enumerate()
                .map(|(flow, &total)| {
                    let id = granter.announce(flow, total, &parameters);
                    (id, parameters.unsolicited_bytes(total, PAYLOAD), 0_u64)
                })
                .collect();
            let mut now = Time::ZERO;
            loop {
                for (id, credit, sent) in &mut senders {
                    let bytes = *credit - *sent;
                    *sent = *credit;
                    if let (Some(id), true) = (*id, bytes > 0) {
                        granter.on_data(id, bytes);
                    }
                }
                let Some(next) = granter.next_time() else { break };
                now = now.max(next);
                let (flow, bytes) = granter.poll(now).expect("a grant is due");
                senders[flow].1 += bytes;
            }
            let sent: Vec<_> = senders.iter().map(|(_, _, sent)| *sent).collect();
            prop_assert_eq!(sent, totals);
        }
    }
}
