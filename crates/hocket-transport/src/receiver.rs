//! The receiving side of a queue pair: the answer to each packet.

use std::collections::BTreeMap;

use hocket_des::{Duration, Time};

/// The answer to a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    None,
    /// Acknowledges all bytes before this one.
    Ack(u64),
    /// Requests retransmission from this byte on, the first that is missing.
    Nack(u64),
}

/// When a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answering {
    /// The number of packets per acknowledgement; the end of a message is always acknowledged.
    pub ack_every: u16,
    /// The time after which the same gap is reported again.
    pub nack_interval: Duration,
}

/// The receiving side of a queue pair. It either discards packets that arrive out of order (go-back-N) or, for flows that
/// are sprayed over several paths, accepts packets in any order.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The next byte, or [`ANY_ORDER`].
    expected: u64,
    /// When the current gap was last reported, in picoseconds, or [`UNREPORTED`].
    reported_ps: u64,
    last_cnp: Option<Time>,
    reordering: Option<Box<Reordering>>,
    unanswered: u16,
}

// No byte has this number, so the comparison with the next byte in order fails for receivers in any order, and the common
// case needs no check of its own.
const ANY_ORDER: u64 = u64::MAX;
const UNREPORTED: u64 = u64::MAX;

/// The bytes that have arrived of a flow whose packets overtake each other.
#[derive(Clone, Debug, Default)]
struct Reordering {
    /// All bytes before this one have arrived.
    contiguous: u64,
    /// Disjoint ranges that have arrived beyond: their ends by their starts.
    ranges: BTreeMap<u64, u64>,
}

impl Receiver {
    /// A go-back-N receiver that has received nothing.
    pub fn new() -> Self {
        let (reported_ps, last_cnp, reordering) = (UNREPORTED, None, None);
        Self { expected: 0, reported_ps, last_cnp, reordering, unanswered: 0 }
    }

    /// A receiver that accepts packets in any order and has received nothing. A gap does not mean a loss, so it never
    /// requests retransmission; while there are gaps it acknowledges every packet.
    pub fn in_any_order() -> Self {
        Self { expected: ANY_ORDER, reordering: Some(Box::default()), ..Self::new() }
    }

    /// Whether the receiver was created by [`Self::in_any_order`].
    #[inline]
    pub fn takes_any_order(&self) -> bool {
        self.expected == ANY_ORDER
    }

    /// The number of bytes before the first that is missing.
    pub fn received(&self) -> u64 {
        self.reordering.as_ref().map_or(self.expected, |reordering| reordering.contiguous)
    }

    /// Handles `payload` bytes from `sequence` on, arriving at `now`; `ends_message` if a message ends with them.
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
            self.reported_ps = UNREPORTED;
            self.unanswered += 1;
            if self.unanswered < answering.ack_every && !ends_message {
                return Answer::None;
            }
            self.unanswered = 0;
            return Answer::Ack(self.expected);
        }
        match &mut self.reordering {
            None => self.out_of_order(now, sequence, answering),
            Some(reordering) => {
                let had_gap = !reordering.ranges.is_empty();
                reordering.take(sequence, sequence + u64::from(payload));
                let has_gap = !reordering.ranges.is_empty();
                self.unanswered += 1;
                if self.unanswered < answering.ack_every && !ends_message && !had_gap && !has_gap {
                    return Answer::None;
                }
                self.unanswered = 0;
                Answer::Ack(reordering.contiguous)
            }
        }
    }

    /// Whether to send a CNP for a marked packet that arrives at `now`: at most one per `interval`. Counts it as sent.
    pub fn may_notify(&mut self, now: Time, interval: Duration) -> bool {
        let due = self.last_cnp.is_none_or(|last| now.since(last) >= interval);
        if due {
            self.last_cnp = Some(now);
        }
        due
    }

    fn out_of_order(&mut self, now: Time, sequence: u64, answering: &Answering) -> Answer {
        if sequence < self.expected {
            // A retransmission of bytes that had arrived: acknowledge, so that the sender can skip them.
            return Answer::Ack(self.expected);
        }
        let reported = (self.reported_ps != UNREPORTED).then(|| Time::from_ps(self.reported_ps));
        if reported.is_some_and(|reported| now.since(reported) < answering.nack_interval) {
            return Answer::None;
        }
        self.reported_ps = now.as_ps();
        Answer::Nack(self.expected)
    }
}

impl Reordering {
    fn take(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start.max(self.contiguous), end);
        if start >= end {
            return;
        }
        // Merge with all ranges that overlap or touch this one.
        while let Some((&other, &other_end)) = self.ranges.range(..=end).next_back()
            && other_end >= start
        {
            self.ranges.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        if start == self.contiguous {
            self.contiguous = end;
        } else {
            self.ranges.insert(start, end);
        }
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWERING: Answering = Answering { ack_every: 4, nack_interval: Duration::from_us(500) };

    #[test]
    fn a_gap_is_not_a_loss_if_packets_may_arrive_in_any_order() {
        let mut receiver = Receiver::in_any_order();
        let mut take = |sequence| receiver.on_data(Time::ZERO, sequence, 100, false, &ANSWERING);
        assert_eq!(take(0), Answer::None);
        assert_eq!(take(200), Answer::Ack(100));
        assert_eq!(take(300), Answer::Ack(100));
        assert_eq!(take(100), Answer::Ack(400));
        assert_eq!(take(400), Answer::None);
    }

    proptest! {
        #[test]
        fn a_message_is_complete_after_all_its_packets_in_any_order(
            order in Just((0_u64..40).collect::<Vec<_>>()).prop_shuffle(),
            again in prop::collection::vec(0_u64..40, 0..20),
        ) {
            let mut receiver = Receiver::in_any_order();
            let mut seen = std::collections::BTreeSet::new();
            for packet in again.into_iter().chain(order) {
                receiver.on_data(Time::ZERO, packet * 100, 100, packet == 39, &ANSWERING);
                seen.insert(packet);
                let contiguous = (0..).take_while(|packet| seen.contains(packet)).count() as u64;
                prop_assert_eq!(receiver.received(), contiguous * 100);
            }
        }
    }
}
