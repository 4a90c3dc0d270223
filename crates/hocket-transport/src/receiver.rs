//! The receiving side of a queue pair: what is answered to each packet.

use std::collections::BTreeMap;

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

/// The receiving side of a queue pair: go-back-N, so it keeps nothing that comes out of order; or, where packets
/// are spread over several ways, one that takes them in any order.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The next byte, or [`ANY_ORDER`].
    expected: u64,
    /// When the present gap was reported, in picoseconds, or [`UNTOLD`].
    told_ps: u64,
    last_cnp: Option<Time>,
    reordering: Option<Box<Reordering>>,
    unanswered: u16,
}

// No byte has this number, so that the way in which packets come in order costs nothing more for there
// being another.
const ANY_ORDER: u64 = u64::MAX;
const UNTOLD: u64 = u64::MAX;

/// What has arrived of a flow whose packets overtake each other.
#[derive(Clone, Debug, Default)]
struct Reordering {
    /// Everything before has arrived.
    contiguous: u64,
    /// What has arrived beyond: ends by starts, apart from each other.
    ranges: BTreeMap<u64, u64>,
}

impl Receiver {
    /// Nothing has arrived.
    pub fn new() -> Self {
        let (told_ps, last_cnp, reordering) = (UNTOLD, None, None);
        Self { expected: 0, told_ps, last_cnp, reordering, unanswered: 0 }
    }

    /// Nothing has arrived, and packets may come in any order: the gaps between them are no losses, so it never
    /// asks the sender to go back, and while there are gaps it answers every packet.
    pub fn in_any_order() -> Self {
        Self { expected: ANY_ORDER, reordering: Some(Box::default()), ..Self::new() }
    }

    /// Whether it was made by [`Self::in_any_order`].
    #[inline]
    pub fn takes_any_order(&self) -> bool {
        self.expected == ANY_ORDER
    }

    /// Bytes up to the first that is missing.
    pub fn received(&self) -> u64 {
        self.reordering.as_ref().map_or(self.expected, |reordering| reordering.contiguous)
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
            self.told_ps = UNTOLD;
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
        let told = (self.told_ps != UNTOLD).then(|| Time::from_ps(self.told_ps));
        if told.is_some_and(|told| now.since(told) < answering.nack_interval) {
            return Answer::None;
        }
        self.told_ps = now.as_ps();
        Answer::Nack(self.expected)
    }
}

impl Reordering {
    fn take(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start.max(self.contiguous), end);
        if start >= end {
            return;
        }
        // Swallows what touches it: of the ranges that start no later than it ends, the last ones.
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
    fn a_gap_is_no_loss_where_packets_come_in_any_order() {
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
        fn whatever_the_order_all_packets_make_the_whole_message(
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
