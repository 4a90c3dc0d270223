//! Credits from the receiver: a sender may send the first bytes of a message unasked, and the rest only as the
//! receiver grants them, one packet per packet-time of the receiver's own link. Beyond those first bytes no more
//! arrives than that link carries, whatever the number of senders (pHost, CoNEXT'15; Homa, SIGCOMM'18).
//!
//! The driver keeps one [`Granter`] per receiving NIC. A sender on credit
//! ([`Sender::set_on_credit`](crate::Sender::set_on_credit)) begins each message with [`Parameters::unasked`] bytes, of which
//! the first packet announces the message: the driver calls [`Granter::announce`], and [`Granter::on_data`] for all that
//! arrives. At [`Granter::next_time`] it calls [`Granter::poll`] and carries the grant to the sender, whose credit it
//! raises ([`Sender::allow_to`](crate::Sender::allow_to)).

use std::collections::VecDeque;

use hocket_des::{Bytes, Duration, Rate, Time};

use super::limits::{ParameterError, require};

const POLICY: &str = "receiver-driven";

/// What governs the messages of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of each message that are sent without being granted, in whole packets and at least one: about what
    /// fills the path, so that a lone message loses no round trip.
    pub unsolicited: u64,
    /// How many messages a receiver grants to at the same time; the others wait their turn. More than one keeps its
    /// link busy when a sender has several receivers to serve.
    pub overcommitment: u32,
    /// Bytes of one message that may be granted and not have arrived.
    pub outstanding: u64,
}

impl Parameters {
    /// For a path that `window` bytes fill: that much unasked and outstanding, and 7 messages at a time (Homa section
    /// 3.5: as many as its scheduled priorities; 80 to 90% of its link stay busy).
    pub fn recommended(window: u64) -> Self {
        Self { unsolicited: window, overcommitment: 7, outstanding: window }
    }

    /// Whether every message gets to its end with these.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let several = self.overcommitment;
        require(several > 0, POLICY, "overcommitment", &several, &"at least 1")?;
        let outstanding = self.outstanding;
        require(outstanding > 0, POLICY, "outstanding", &outstanding, &"above 0 bytes")
    }

    /// How much of a message of `total` bytes is sent without being granted, in packets of `payload` bytes.
    ///
    /// # Panics
    /// If a packet has no payload.
    pub fn unasked(&self, total: u64, payload: u16) -> u64 {
        let packets = self.unsolicited.div_ceil(payload.into()).max(1);
        packets.saturating_mul(payload.into()).min(total)
    }
}

/// A message that its receiver grants to, valid until all its bytes have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u32);

/// A message as its receiver knows it.
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

/// Hands out one receiver's link, one packet at a time, round robin over the messages it grants to.
///
/// Messages are granted to in the order announced, each as soon as it is one of the first
/// [`Parameters::overcommitment`] that are not fully granted.
#[derive(Clone, Debug)]
pub struct Granter<Flow> {
    payload: u16,
    packet_time: Duration,
    messages: Vec<Incoming<Flow>>,
    unused: Vec<MessageId>,
    // Those that take turns; the next to be granted to is in front.
    active: VecDeque<MessageId>,
    waiting: VecDeque<MessageId>,
    free_at: Time,
}

impl<Flow: Copy> Granter<Flow> {
    /// Grants for a link of `line_rate`, `payload` bytes at a time, each for the time that the `wire` bytes
    /// of such a packet take on it.
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

    /// A message of `total` bytes is on its way. `None` if it needs no grants: then nothing else is to be told of it.
    pub fn announce(
        &mut self,
        flow: Flow,
        total: u64,
        parameters: &Parameters,
    ) -> Option<MessageId> {
        let to_grant = total - parameters.unasked(total, self.payload);
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

    /// `bytes` of a message arrived, for the first time. Once all have, its id is free for another.
    ///
    /// # Panics
    /// If more arrives than the sender could have sent.
    pub fn on_data(&mut self, id: MessageId, bytes: u64) {
        let message = &mut self.messages[id.0 as usize];
        assert!(bytes <= message.outstanding(), "a sender sends what it was granted and no more");
        message.to_arrive -= bytes;
        if message.to_arrive == 0 {
            self.unused.push(id);
        }
    }

    /// When the link is free for the next grant, which may be a time gone by; `None` while nobody may be granted
    /// anything until more is announced or arrives.
    pub fn next_time(&self) -> Option<Time> {
        self.active.iter().any(|&id| self.message(id).may_be_granted()).then_some(self.free_at)
    }

    /// The grant that is due at `now`: so many bytes more of that message.
    pub fn poll(&mut self, now: Time) -> Option<(Flow, u64)> {
        if now < self.free_at {
            return None;
        }
        // Those in front of it wait for their data, and keep their place.
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
        assert_eq!(parameters.unasked(30_500, PAYLOAD), 30_500);
    }

    #[test]
    fn what_is_sent_unasked_is_whole_packets_and_the_first_of_them_at_least() {
        let unasked = |unsolicited| {
            let parameters = Parameters { unsolicited, ..Parameters::recommended(52_000) };
            parameters.unasked(100_000, PAYLOAD)
        };
        assert_eq!([0, 1_000, 1_001].map(unasked), [1_000, 1_000, 2_000]);
    }

    #[test]
    fn each_message_waits_for_as_many_others_as_its_own_job_says() {
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
        // The first packet of each goes unasked.
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
        // 1,000 bytes take 40 ns at 200 Gb/s. The third message waits until the second is done with.
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
    fn a_message_whose_data_does_not_come_lets_others_pass() {
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
    fn parameters_that_would_never_grant_are_refused() {
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
        fn every_message_is_granted_to_its_last_byte_and_none_more_than_is_outstanding(
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
                    (id, parameters.unasked(total, PAYLOAD), 0_u64)
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
