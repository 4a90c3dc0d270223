//! The receiving side of a queue pair: what is answered to each packet.

use hocket_des::{Duration, Time};

/// What goes back for a packet of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    None,
    /// Everything before this byte has arrived.
    Ack(u64),
    /// This byte is missing: go back to it.
    Nack(u64),
}

/// How a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answering {
    /// One acknowledgement for so many packets; the end of a message is always acknowledged.
    pub ack_every: u16,
    /// The same gap is reported again after this time.
    pub nack_interval: Duration,
}

/// The receiving side of a queue pair: go-back-N, so it keeps nothing that comes out of order.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    expected: u64,
    unanswered: u16,
    /// When the present gap was reported, if there is one.
    told: Option<Time>,
    last_cnp: Option<Time>,
}

impl Receiver {
    /// Nothing has arrived.
    pub fn new() -> Self {
        Self { expected: 0, unanswered: 0, told: None, last_cnp: None }
    }

    /// Bytes that arrived in order.
    pub fn received(&self) -> u64 {
        self.expected
    }

    /// `payload` bytes from `sequence` on have arrived; `ends_message` if a message ends with them.
    #[inline]
    pub fn on_data(
        &mut self,
        now: Time,
        sequence: u64,
        payload: u16,
        ends_message: bool,
        answering: &Answering,
    ) -> Answer {
        if sequence == self.expected {
            self.expected += u64::from(payload);
            self.told = None;
            self.unanswered += 1;
            if self.unanswered < answering.ack_every && !ends_message {
                return Answer::None;
            }
            self.unanswered = 0;
            return Answer::Ack(self.expected);
        }
        self.out_of_order(now, sequence, answering)
    }

    /// Whether a marked packet that arrives at `now` is worth a CNP: one per `interval` and flow.
    pub fn may_notify(&mut self, now: Time, interval: Duration) -> bool {
        let due = self.last_cnp.is_none_or(|last| now.since(last) >= interval);
        if due {
            self.last_cnp = Some(now);
        }
        due
    }

    fn out_of_order(&mut self, now: Time, sequence: u64, answering: &Answering) -> Answer {
        if sequence < self.expected {
            // Sent again although it had arrived: the sender must learn how far we are.
            return Answer::Ack(self.expected);
        }
        if self.told.is_some_and(|told| now.since(told) < answering.nack_interval) {
            return Answer::None;
        }
        self.told = Some(now);
        Answer::Nack(self.expected)
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}
