use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

// One bucket holds the events of 1,024 ps, and 1,024 buckets reach 1 µs ahead: what a fabric
// schedules (transmissions of tens of nanoseconds, propagation of hundreds) fits.
const BUCKET_BITS: u32 = 10;
const BUCKETS: u64 = 1 << 10;
const WORDS: usize = (BUCKETS / 64) as usize;
const NONE: u32 = u32::MAX;

/// Events in order of time, and those of the same time in order of a number that the caller gives:
/// a calendar queue (Brown, CACM 1988) for events that lie close together, several times faster
/// than [`EventQueue`](crate::EventQueue) where hundreds wait.
///
/// The order is the caller's so that an event can be scheduled later than it was decided and still
/// come out in its place: take the number with [`next_order`](Self::next_order) when deciding.
#[derive(Clone, Debug)]
pub struct Calendar<E> {
    /// What is due first, latest first, so that the next one is at the end.
    current: Vec<Due<E>>,
    /// The bucket that `current` was taken from, counted from the start of the run.
    bucket: u64,
    /// The first event of each of the next buckets, as a list through `slots`.
    heads: Vec<u32>,
    occupied: [u64; WORDS],
    slots: Vec<Slot<E>>,
    free: u32,
    /// Events beyond the buckets.
    far: BinaryHeap<Reverse<Due<E>>>,
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Due<E> {
    at: u64,
    order: u64,
    event: E,
}

#[derive(Clone, Copy, Debug)]
struct Slot<E> {
    due: Due<E>,
    next: u32,
}

impl<E: Copy> Calendar<E> {
    /// An empty calendar at the start of the run.
    pub fn new() -> Self {
        Self {
            current: Vec::new(),
            bucket: 0,
            heads: vec![NONE; BUCKETS as usize],
            occupied: [0; WORDS],
            slots: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            order: 0,
        }
    }

    /// The next number in the order of events of the same time.
    #[inline]
    pub fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Puts `event` at `at`, which is not before the last popped event, behind those of the same
    /// time with a lower `order` and before those with a higher one.
    #[inline]
    pub fn schedule(&mut self, at: Time, order: u64, event: E) {
        let due = Due { at: at.as_ps(), order, event };
        let bucket = due.at >> BUCKET_BITS;
        if bucket <= self.bucket {
            self.insert_now(due);
        } else if bucket - self.bucket < BUCKETS {
            self.insert_near(bucket, due);
        } else {
            self.far.push(Reverse(due));
        }
    }

    /// Takes the next event, with its time and its order.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u64, E)> {
        if self.current.is_empty() && !self.turn_page() {
            return None;
        }
        let due = self.current.pop()?;
        Some((Time::from_ps(due.at), due.order, due.event))
    }

    /// An event that comes out after the next `ahead` ones, unless others are scheduled before it; `None` if it lies
    /// too far ahead to be known.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<E> {
        let place = self.current.len().checked_sub(ahead + 1)?;
        Some(self.current[place].event)
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty() && self.far.is_empty() && self.occupied.iter().all(|&word| word == 0)
    }

    // Few events stand in the bucket that is due: it spans a nanosecond.
    fn insert_now(&mut self, due: Due<E>) {
        let key = (due.at, due.order);
        let behind = self.current.iter().rev().take_while(|other| (other.at, other.order) < key);
        let place = self.current.len() - behind.count();
        self.current.insert(place, due);
    }

    #[inline]
    fn insert_near(&mut self, bucket: u64, due: Due<E>) {
        let place = (bucket % BUCKETS) as usize;
        let slot = Slot { due, next: self.heads[place] };
        self.heads[place] = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let free = self.free;
            self.free = self.slots[free as usize].next;
            self.slots[free as usize] = slot;
            free
        };
        self.occupied[place / 64] |= 1 << (place % 64);
    }

    fn turn_page(&mut self) -> bool {
        let near = self.next_occupied();
        let far = self.far.peek().map(|Reverse(due)| due.at >> BUCKET_BITS);
        let Some(bucket) = near.into_iter().chain(far).min() else { return false };
        self.bucket = bucket;
        if near == Some(bucket) {
            self.take_bucket();
        }
        while let Some(Reverse(due)) = self.far.peek()
            && due.at >> BUCKET_BITS == bucket
        {
            self.current.push(*due);
            self.far.pop();
        }
        // A bucket's list runs from the last scheduled to the first: mostly sorted already.
        if !self.current.is_sorted_by(|a, b| (a.at, a.order) > (b.at, b.order)) {
            self.current.sort_unstable_by_key(|due| Reverse((due.at, due.order)));
        }
        true
    }

    fn take_bucket(&mut self) {
        let place = (self.bucket % BUCKETS) as usize;
        self.occupied[place / 64] &= !(1 << (place % 64));
        let mut at = std::mem::replace(&mut self.heads[place], NONE);
        while at != NONE {
            let slot = self.slots[at as usize];
            self.current.push(slot.due);
            self.slots[at as usize].next = self.free;
            self.free = at;
            at = slot.next;
        }
    }

    // The buckets after the present one lie on a ring: those behind its place there come after.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.bucket % BUCKETS) as usize;
        let (word, bit) = (start / 64, start % 64);
        let ahead = self.occupied[word] & (!0 << bit);
        let first = (ahead != 0).then_some((word, ahead));
        let found = first.or_else(|| {
            (1..=WORDS)
                .map(|step| (word + step) % WORDS)
                .map(|word| (word, self.occupied[word]))
                .find(|&(_, bits)| bits != 0)
        });
        found.map(|(word, bits)| {
            let place = word * 64 + bits.trailing_zeros() as usize;
            self.bucket + (place + BUCKETS as usize - start) as u64 % BUCKETS
        })
    }
}

impl<E: Copy> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Spans within a bucket, within the ring, and far beyond it.
    fn spans() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..3_000, 0_u64..1_100_000, 0_u64..50_000_000]
    }

    proptest! {
        #[test]
        fn events_come_out_by_time_then_order_whenever_they_were_scheduled(
            rounds in prop::collection::vec(prop::collection::vec(spans(), 0..6), 1..60)
        ) {
            let mut calendar = Calendar::new();
            let mut expected = std::collections::BTreeSet::new();
            let mut now = 0;
            for spans in rounds {
                // Orders taken now, scheduled in reverse: the calendar goes by the number.
                let decided: Vec<_> = spans.iter().map(|span| (now + span, calendar.next_order())).collect();
                for &(at, order) in decided.iter().rev() {
                    calendar.schedule(Time::from_ps(at), order, order);
                    expected.insert((at, order));
                }
                if let Some((at, order, event)) = calendar.pop() {
                    prop_assert_eq!(Some((at.as_ps(), order)), expected.pop_first());
                    prop_assert_eq!(order, event);
                    now = at.as_ps();
                }
            }
            while let Some((at, order, _)) = calendar.pop() {
                prop_assert_eq!(Some((at.as_ps(), order)), expected.pop_first());
            }
            prop_assert!(expected.is_empty() && calendar.is_empty());
        }
    }
}
