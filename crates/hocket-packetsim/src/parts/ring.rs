//! A queue in a ring buffer that grows by doubling. Its ends can be prefetched before they are needed: from a hundred hosts
//! on, waiting for memory is most of the cost.

use prefetch_index::prefetch_index;

/// Prefetches the cache line at which a value begins.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    prefetch_index(std::slice::from_ref(value), 0);
}

/// A first-in, first-out queue.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[T]>,
    head: u32,
    count: u32,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: Box::default(), head: 0, count: 0 }
    }
}

impl<T: Copy> Ring<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        if self.count == 0 { None } else { self.slots.get(self.head as usize) }
    }

    #[inline(always)]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.count as usize == self.slots.len() {
            self.grow(value);
        }
        let place = self.place(self.count);
        self.slots[place] = value;
        self.count += 1;
    }

    /// Removes the front of a ring that is not empty.
    #[inline(always)]
    pub(crate) fn pop_front(&mut self) -> T {
        assert!(self.count > 0, "an empty ring has no front");
        let value = self.slots[self.head as usize];
        self.head = self.place(1) as u32;
        self.count -= 1;
        value
    }

    /// Prefetches the place of the next value to be pushed.
    #[inline]
    pub(crate) fn prefetch_back(&self) {
        prefetch_index(&self.slots, self.place(self.count));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.count).map(|behind| &self.slots[self.place(behind)])
    }

    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        for behind in 0..self.count {
            change(&mut self.slots[self.place(behind)]);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    // Capacities are powers of two, so a mask replaces the modulo; with capacity 0 the place is never used.
    #[inline]
    fn place(&self, behind: u32) -> usize {
        (self.head.wrapping_add(behind) as usize) & self.slots.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self, filler: T) {
        let capacity = (self.slots.len() * 2).max(8);
        let mut slots = Vec::with_capacity(capacity);
        slots.extend(self.iter().copied());
        slots.resize(capacity, filler);
        self.slots = slots.into_boxed_slice();
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ring_is_a_queue(pushes in prop::collection::vec(prop::option::of(0_u32..100), 0..300)) {
            let mut ring = Ring::default();
            let mut queue = VecDeque::new();
            for push in pushes {
                match push {
                    Some(value) => {
                        ring.push_back(value);
                        queue.push_back(value);
                    }
                    None if queue.is_empty() => {}
                    None => prop_assert_eq!(Some(ring.pop_front()), queue.pop_front()),
                }
                prop_assert_eq!(ring.front(), queue.front());
                prop_assert!(ring.iter().eq(queue.iter()));
            }
        }
    }
}
