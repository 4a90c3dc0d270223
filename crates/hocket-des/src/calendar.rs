use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

// A bucket has the events of 1,024 ps, and 1,024 buckets reach 1 µs ahead. Most events of a fabric are within that reach:
// transmissions take tens of nanoseconds, propagation hundreds.
const BUCKET_BITS: u32 = 10;
const BUCKETS: u64 = 1 << 10;
const WORDS: usize = (BUCKETS / 64) as usize;
const NONE: u32 = u32::MAX;

// The number of events that `upcoming` can look ahead where events are dense.
const AHEAD: usize = 16;
// The number of events in a bucket from which on events count as dense.
const DENSE: usize = 4;

/// A calendar queue (Brown, CACM 1988): events in order of time, and simultaneous events in the order of a number from the
/// caller. It is meant for events that are close together; with hundreds of them it is several times faster than
/// [`EventQueue`](crate::EventQueue).
///
/// The caller provides the order so that an event can be scheduled later than it was decided and still come out in its
/// place: the caller takes the number from [`next_order`](Self::next_order) when it decides.
#[derive(Clone, Debug)]
pub struct Calendar<E> {
    /// The events that are due first, in order, from `next` on.
    current: Vec<Due<E>>,
    next: usize,
    /// Whether the last bucket had at least [`DENSE`] events.
    is_dense: bool,
    /// The last bucket that was moved to `current`, counted from the start of the run.
    bucket: u64,
    /// For each of the next buckets, on a ring: the head of its list of events, linked through `slots`.
    heads: Vec<u32>,
    /// One bit for each place on the ring: whether its bucket has events.
    occupied: [u64; WORDS],
    /// Bit w: word w of `occupied` is not zero.
    occupied_words: u32,
    slots: Vec<Slot<E>>,
    free: u32,
    /// Events beyond the ring, and the bucket of the first of them.
    far: BinaryHeap<Reverse<Due<E>>>,
    far_bucket: u64,
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Due<E> {
    at: u64,
    order: u64,
    event: E,
}

// Slots are written and read field by field: a processor stalls when it reads sixteen bytes that were just written as twice
// eight bytes.
#[derive(Clone, Copy, Debug)]
struct Slot<E> {
    at: u64,
    order: u64,
    event: E,
    next: u32,
}

impl<E: Copy> Calendar<E> {
    /// An empty calendar at the start of the run.
    pub fn new() -> Self {
        Self {
            current: Vec::new(),
            next: 0,
            is_dense: false,
            bucket: 0,
            heads: vec![NONE; BUCKETS as usize],
            occupied: [0; WORDS],
            occupied_words: 0,
            far_bucket: u64::MAX,
            slots: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Takes the next number in the order of simultaneous events.
    #[inline(always)]
    pub fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Schedules `event` at `at`, which must not be before the last popped event: after events of the same time with a lower
    /// `order` and before those with a higher one.
    #[inline(always)]
    pub fn schedule(&mut self, at: Time, order: u64, event: E) {
        let at = at.as_ps();
        let bucket = at >> BUCKET_BITS;
        // For the current bucket and earlier ones the subtraction wraps around to a huge number, so this one comparison
        // selects exactly the buckets on the ring.
        if bucket.wrapping_sub(self.bucket + 1) < BUCKETS - 1 && self.free != NONE {
            self.insert_near(bucket, at, order, event);
        } else {
            self.insert_elsewhere(bucket, Due { at, order, event });
        }
    }

    /// Removes and returns the next event, with its time and order.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Time, u64, E)> {
        let left = self.current.len() - self.next;
        if left == 0 {
            return self.pop_from_next_bucket();
        }
        if left < AHEAD && self.is_dense {
            self.look_ahead();
        }
        let due = self.current[self.next];
        self.next += 1;
        Some((Time::from_ps(due.at), due.order, due.event))
    }

    /// The event that comes out after the next `ahead` ones, unless others are scheduled before it; `None` if it is too far
    /// ahead to be known.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<E> {
        self.current.get(self.next + ahead).map(|due| due.event)
    }

    /// Whether the calendar has no events.
    pub fn is_empty(&self) -> bool {
        self.current.len() == self.next && self.far.is_empty() && self.occupied_words == 0
    }

    #[cold]
    #[inline(never)]
    fn insert_elsewhere(&mut self, bucket: u64, due: Due<E>) {
        if bucket <= self.bucket {
            // `current` has few events, since it spans only a nanosecond or two.
            let behind = self.current[self.next..].iter().rev();
            let later = behind.take_while(|&&other| other > due).count();
            self.current.insert(self.current.len() - later, due);
        } else if bucket - self.bucket < BUCKETS {
            self.free = self.slots.len() as u32;
            let Due { at, order, event } = due;
            self.slots.push(Slot { at, order, event, next: NONE });
            self.insert_near(bucket, at, order, event);
        } else {
            self.far.push(Reverse(due));
            self.far_bucket = self.far_bucket.min(bucket);
        }
    }

    #[inline(always)]
    fn insert_near(&mut self, bucket: u64, at: u64, order: u64, event: E) {
        let place = (bucket % BUCKETS) as usize;
        let free = self.free;
        let slot = &mut self.slots[free as usize];
        self.free = slot.next;
        slot.at = at;
        slot.order = order;
        slot.event = event;
        slot.next = self.heads[place];
        self.heads[place] = free;
        self.occupied[place / 64] |= 1 << (place % 64);
        self.occupied_words |= 1 << (place / 64);
    }

    // Where events are sparse, the next bucket has a single event, which need not be moved to `current`.
    #[inline(always)]
    fn pop_from_next_bucket(&mut self) -> Option<(Time, u64, E)> {
        let near = self.next_occupied();
        let bucket = near.unwrap_or(u64::MAX);
        if bucket >= self.far_bucket {
            return self.pop_from_bucket(near);
        }
        let place = (bucket % BUCKETS) as usize;
        let head = self.heads[place];
        let slot = &mut self.slots[head as usize];
        if slot.next != NONE {
            return self.pop_from_bucket(near);
        }
        let taken = (Time::from_ps(slot.at), slot.order, slot.event);
        slot.next = self.free;
        self.free = head;
        self.heads[place] = NONE;
        self.bucket = bucket;
        self.is_dense = false;
        self.vacate(place);
        Some(taken)
    }

    #[inline(never)]
    fn pop_from_bucket(&mut self, near: Option<u64>) -> Option<(Time, u64, E)> {
        let bucket = near.unwrap_or(u64::MAX).min(self.far_bucket);
        if bucket == u64::MAX {
            return None;
        }
        self.current.clear();
        self.next = 1;
        self.take(bucket, near == Some(bucket));
        self.is_dense = self.current.len() >= DENSE;
        let due = self.current[0];
        Some((Time::from_ps(due.at), due.order, due.event))
    }

    // Where events are dense, the directly following bucket is moved to `current` before it is needed, so that `upcoming`
    // always has events to return.
    #[inline(never)]
    fn look_ahead(&mut self) {
        let bucket = self.bucket + 1;
        let place = (bucket % BUCKETS) as usize;
        if self.occupied[place / 64] & 1 << (place % 64) == 0 || self.far_bucket <= bucket {
            return;
        }
        // Remove the events that have come out, to make room.
        self.current.drain(..self.next);
        self.next = 0;
        self.take(bucket, true);
    }

    fn take(&mut self, bucket: u64, is_near: bool) {
        let start = self.current.len();
        self.bucket = bucket;
        if is_near {
            self.take_bucket();
        }
        if self.far_bucket == bucket {
            self.take_far(bucket);
        }
        // A bucket's list runs from the last scheduled event to the first; reversed, it is mostly sorted already.
        let fresh = &mut self.current[start..];
        if fresh.len() > 1 {
            fresh.reverse();
            if !fresh.is_sorted_by(|a, b| a < b) {
                fresh.sort_unstable();
            }
        }
    }

    #[cold]
    fn take_far(&mut self, bucket: u64) {
        while let Some(Reverse(due)) = self.far.peek()
            && due.at >> BUCKET_BITS == bucket
        {
            self.current.push(*due);
            self.far.pop();
        }
        let next = self.far.peek();
        self.far_bucket = next.map_or(u64::MAX, |Reverse(due)| due.at >> BUCKET_BITS);
    }

    #[inline]
    fn vacate(&mut self, place: usize) {
        let word = &mut self.occupied[place / 64];
        *word &= !(1 << (place % 64));
        if *word == 0 {
            self.occupied_words &= !(1 << (place / 64));
        }
    }

    fn take_bucket(&mut self) {
        let place = (self.bucket % BUCKETS) as usize;
        self.vacate(place);
        let mut at = std::mem::replace(&mut self.heads[place], NONE);
        while at != NONE {
            let slot = &mut self.slots[at as usize];
            self.current.push(Due { at: slot.at, order: slot.order, event: slot.event });
            let next = slot.next;
            slot.next = self.free;
            self.free = at;
            at = next;
        }
    }

    // The next occupied bucket. On the ring, places before that of the current bucket belong to later buckets.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        if self.occupied_words == 0 {
            return None;
        }
        let start = (self.bucket % BUCKETS) as usize;
        let (word, bit) = (start / 64, start % 64);
        let ahead = self.occupied[word] & (!0 << bit);
        let (word, bits) = if ahead != 0 {
            (word, ahead)
        } else {
            // Continue with the words after this one, cyclically; this word's own lower bits come last.
            let turned = self.occupied_words.rotate_right(word as u32 + 1);
            let round = turned | turned >> (32 - WORDS);
            let step = round.trailing_zeros() as usize + 1;
            let word = (word + step) % WORDS;
            (word, self.occupied[word])
        };
        let place = word * 64 + bits.trailing_zeros() as usize;
        Some(self.bucket + (place + BUCKETS as usize - start) as u64 % BUCKETS)
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
                // Orders are taken now but scheduled in reverse: the calendar must follow the numbers.
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
