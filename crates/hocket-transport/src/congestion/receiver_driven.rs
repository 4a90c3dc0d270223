//! Credits from the receiver: a sender may send the first bytes of a message unasked, and the rest only as the
//! receiver grants them, one packet per packet-time of the receiver's own link. What arrives then never
//! exceeds what that link carries, whatever the number of senders (pHost, CoNEXT'15; Homa, SIGCOMM'18).
//!
//! The driver keeps one [`Granter`] per receiving NIC and one [`Credit`] per message at its sender. When a message is
//! announced, it calls [`Granter::announce`]; at [`Granter::next_time`] it calls [`Granter::poll`] and carries the grant to
//! the sender, who calls [`Credit::grant`]; as data arrives it calls [`Granter::on_data`].

use std::collections::VecDeque;

use hocket_des::{Bytes, Duration, Rate, Time};

use super::{ParameterError, require};

const POLICY: &str = "receiver-driven";

/// What governs the messages of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of each message that are sent without being granted: about what fills the path, so that a
    /// lone message loses no round trip.
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
}

/// What the sender of one message may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    until: u64,
}

impl Credit {
    /// Credit for the unsolicited bytes of a message of `total` bytes.
    pub fn new(parameters: &Parameters, total: u64) -> Self {
        Self { until: parameters.unsolicited.min(total) }
    }

    /// A grant of `bytes` more came.
    pub fn grant(&mut self, bytes: u64) {
        self.until += bytes;
    }

    /// Bytes that may be sent now, `sent` having been sent.
    #[inline]
    pub fn available(&self, sent: u64) -> u64 {
        self.until.saturating_sub(sent)
    }
}

/// A message as its receiver knows it.
#[derive(Clone, Copy, Debug)]
struct Incoming<Flow> {
    flow: Flow,
    ungranted: u64,
    outstanding: u64,
}

/// Hands out one receiver's link, one packet at a time, round robin over the messages it grants to.
///
/// Messages are granted to in the order announced, [`Parameters::overcommitment`] of them at a time.
#[derive(Clone, Debug)]
pub struct Granter<Flow> {
    parameters: Parameters,
    packet: u64,
    packet_time: Duration,
    // The first `overcommitment` take turns; the next to be granted to is in front.
    active: VecDeque<Incoming<Flow>>,
    waiting: VecDeque<Incoming<Flow>>,
    free_at: Time,
}

impl<Flow: Copy + PartialEq> Granter<Flow> {
    /// Grants for a link of `line_rate`, `payload` bytes at a time, each for the time that the `wire` bytes
    /// of such a packet take on it.
    pub fn new(parameters: Parameters, line_rate: Rate, payload: Bytes, wire: Bytes) -> Self {
        Self {
            parameters,
            packet: payload.get(),
            packet_time: line_rate.transmission_time(wire),
            active: VecDeque::new(),
            waiting: VecDeque::new(),
            free_at: Time::ZERO,
        }
    }

    /// A message of `total` bytes is on its way, its unsolicited bytes without asking.
    pub fn announce(&mut self, flow: Flow, total: u64) {
        let unsolicited = self.parameters.unsolicited.min(total);
        let ungranted = total - unsolicited;
        if ungranted > 0 {
            self.waiting.push_back(Incoming { flow, ungranted, outstanding: unsolicited });
            self.admit();
        }
    }

    /// `bytes` of a message arrived, for the first time.
    pub fn on_data(&mut self, flow: Flow, bytes: u64) {
        let mut messages = self.active.iter_mut().chain(&mut self.waiting);
        if let Some(message) = messages.find(|message| message.flow == flow) {
            message.outstanding = message.outstanding.saturating_sub(bytes);
        }
    }

    /// When the next grant may be given: never before the link is free again, and `None` while nobody may be
    /// granted anything.
    pub fn next_time(&self) -> Option<Time> {
        self.active.iter().any(|message| self.may_grant(message)).then_some(self.free_at)
    }

    /// The grant that is due at `now`: so many bytes more of that message.
    pub fn poll(&mut self, now: Time) -> Option<(Flow, u64)> {
        if now < self.free_at {
            return None;
        }
        let index = self.active.iter().position(|message| self.may_grant(message))?;
        // Those in front of it wait for their data, and keep their place.
        let mut message = self.active.remove(index).expect("the position was just found");
        let bytes = message.ungranted.min(self.packet);
        message.ungranted -= bytes;
        message.outstanding += bytes;
        if message.ungranted > 0 {
            self.active.push_back(message);
        } else {
            self.admit();
        }
        self.free_at = now + self.packet_time;
        Some((message.flow, bytes))
    }

    fn may_grant(&self, message: &Incoming<Flow>) -> bool {
        message.outstanding < self.parameters.outstanding.max(self.parameters.unsolicited)
    }

    fn admit(&mut self) {
        while self.active.len() < self.parameters.overcommitment as usize {
            let Some(message) = self.waiting.pop_front() else { return };
            self.active.push_back(message);
        }
    }
}
