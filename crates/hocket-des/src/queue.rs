use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// A queue of events in order of time; events of the same time come out in the order in which they were scheduled.
///
/// Popping an event advances the clock. Scheduling an event before the clock is a bug and panics.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    scheduled: u64,
    now: Time,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// An empty queue with its clock at the start of the run.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, now: Time::ZERO }
    }

    /// Schedules `event` at `at`.
    ///
    /// # Panics
    /// If `at` is before the last popped event.
    pub fn schedule(&mut self, at: Time, event: E) {
        assert!(at >= self.now, "an event at {at} is before now, {}", self.now);
        let sequence = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Reverse(Entry { at, sequence, event }));
    }

    /// Removes and returns the next event, and advances the clock to it.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// The time of the next event.
    pub fn peek_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The time of the last popped event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The number of events in the queue.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether the queue has no events.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_out_by_time_and_simultaneous_ones_in_the_order_scheduled(times in prop::collection::vec(0u64..8, 0..64)) {
            let mut queue = EventQueue::new();
            for (index, &ps) in times.iter().enumerate() {
                queue.schedule(Time::from_ps(ps), index);
            }
            let mut expected: Vec<_> = times.iter().copied().enumerate().map(|(i, ps)| (ps, i)).collect();
            expected.sort_unstable();
            let popped: Vec<_> =
                std::iter::from_fn(|| queue.pop()).map(|(at, index)| (at.as_ps(), index)).collect();
            prop_assert_eq!(popped, expected);
        }
    }

    #[test]
    #[should_panic(expected = "is before now")]
    fn an_event_cannot_be_scheduled_in_the_past() {
        let mut queue = EventQueue::new();
        queue.schedule(Time::from_ps(5), ());
        queue.pop();
        queue.schedule(Time::from_ps(4), ());
    }
}
