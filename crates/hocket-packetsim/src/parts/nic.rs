//! A host's network interface: which of its queue pairs sends next. Only those that may send are
//! looked at; those that wait for their pace stand in a heap by time.

use hocket_des::Time;

use crate::parts::packet::Packet;
use crate::parts::ring::Ring;
use crate::parts::slots::Slots;
use crate::reference::Listed;

const NOWHERE: u32 = u32::MAX;

/// The queue pairs of one NIC, by slot, and what else waits to leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nic {
    /// The flow of each slot.
    flows: Vec<u32>,
    /// The class of each slot, and bit c for each class c that some slot has.
    classes: Vec<u8>,
    used_classes: u8,
    /// Slots that may send now.
    eligible: Slots,
    /// Slots that may send later, the earliest first.
    pacing: PacingHeap,
    /// Where the round robin looks first.
    next: u32,
    /// Acknowledgements and the like, which go before data.
    pub(crate) answers: Ring<Packet>,
    /// When the NIC will look again by itself, and the event's order.
    pub(crate) wake: Option<(Time, u64)>,
    /// What the reference's NIC knows besides.
    listed: Option<Listed>,
}

/// Slots by the time from which they may send; each at most once.
#[derive(Clone, Debug, Default)]
struct PacingHeap {
    heap: Vec<(Time, u32)>,
    place: Vec<u32>,
}

impl Nic {
    pub(crate) fn new(listed: Option<Listed>) -> Self {
        Self { listed, ..Self::default() }
    }

    /// Adds a queue pair that has nothing to send; returns its slot.
    pub(crate) fn add(&mut self, flow: u32, class: u8) -> u32 {
        let slot = self.flows.len() as u32;
        self.flows.push(flow);
        self.classes.push(class);
        self.used_classes |= 1 << class;
        self.eligible.grow(self.flows.len());
        self.pacing.place.push(NOWHERE);
        if let Some(listed) = &mut self.listed {
            listed.grow(self.flows.len());
        }
        slot
    }

    #[inline]
    pub(crate) fn flow(&self, slot: u32) -> u32 {
        self.flows[slot as usize]
    }

    /// The queue pair may send from `at` on; `soon` is the first time at which the NIC can ask.
    #[inline]
    pub(crate) fn allow(&mut self, slot: u32, at: Time, soon: Time) {
        if let Some(listed) = &mut self.listed {
            listed.remove_ghost(slot);
        }
        if at <= soon {
            self.pacing.remove(slot);
            self.eligible.insert(slot);
        } else {
            self.eligible.remove(slot);
            self.pacing.set(slot, at);
        }
    }

    /// The queue pair has nothing to send, or no window; its pace would let it send from `at` on.
    #[inline]
    pub(crate) fn forbid(&mut self, slot: u32, at: Time, soon: Time) {
        self.eligible.remove(slot);
        self.pacing.remove(slot);
        if let Some(listed) = &mut self.listed
            && at > soon
        {
            listed.add_ghost(slot);
            self.pacing.set(slot, at);
        }
    }

    /// Whether some queue pair may send once the link is free.
    #[inline]
    pub(crate) fn has_eligible(&self) -> bool {
        !self.eligible.is_empty()
    }

    /// The slot that may send at `now` and whose turn it is; bit c of `paused` holds those of class c.
    #[inline]
    pub(crate) fn pick(&mut self, now: Time, paused: u8) -> Option<u32> {
        while let Some(&(at, slot)) = self.pacing.heap.first()
            && at <= now
        {
            self.pacing.remove(slot);
            let is_ghost = self.listed.as_ref().is_some_and(|listed| listed.is_ghost(slot));
            if !is_ghost {
                self.eligible.insert(slot);
            }
        }
        let found = if paused == 0 {
            self.eligible.next(self.next, |_| false)
        } else if self.used_classes & !paused == 0 {
            None
        } else {
            let classes = &self.classes;
            self.eligible.next(self.next, |slot| paused & 1 << classes[slot as usize] != 0)
        };
        if let Some(listed) = &mut self.listed {
            listed.search(&mut self.next, found);
        }
        if let Some(slot) = found {
            self.next = slot + 1;
        }
        found
    }

    /// Whether something may leave at `now`, or the pacing timer may have to be set.
    #[inline]
    pub(crate) fn wants_a_look(&self, now: Time) -> bool {
        !self.eligible.is_empty()
            || !self.answers.is_empty()
            || self.wake.is_none()
            || self.pacing.heap.first().is_some_and(|&(at, _)| at <= now)
            || self.listed.as_ref().is_some_and(Listed::has_finished)
    }

    /// Whether the pacing timer is set only once the link is free, as the reference does it; that decides its place
    /// among events of the same time.
    #[inline]
    pub(crate) fn sets_timer_when_free(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.len() > 0)
    }

    /// The flow that would be picked, as far as can be told before.
    #[inline]
    pub(crate) fn upcoming(&self) -> Option<u32> {
        let slot = self.eligible.next(self.next, |_| false);
        slot.or_else(|| self.pacing.heap.first().map(|&(_, slot)| slot)).map(|slot| self.flow(slot))
    }

    /// When the next queue pair that waits for its pace may send.
    #[inline]
    pub(crate) fn next_pace(&self) -> Option<Time> {
        self.pacing.heap.first().map(|&(at, _)| at)
    }

    /// The queue pair has something to send, for as long as [`Self::finish`] does not come.
    pub(crate) fn list(&mut self, slot: u32) {
        if let Some(listed) = &mut self.listed {
            listed.add(slot);
        }
    }

    /// All of the queue pair's bytes are acknowledged.
    pub(crate) fn finish(&mut self, slot: u32) {
        self.eligible.remove(slot);
        self.pacing.remove(slot);
        if let Some(listed) = &mut self.listed {
            listed.finish(slot);
        }
    }

    /// Whether the timer has to be set for `at`; the reference's, once set, is not set anew.
    #[inline]
    pub(crate) fn lacks_timer_for(&self, at: Time) -> bool {
        self.wake.is_none_or(|(set, _)| self.listed.is_none() && set > at)
    }

    /// Whether the pacing timer may be set: always, except that the reference's NIC takes the earliest time over all
    /// listed queue pairs, and sets no timer if that has passed, though the queue pair it belongs to has all its bytes sent
    /// or its window used.
    #[inline]
    pub(crate) fn may_wake(&self) -> bool {
        match &self.listed {
            None => true,
            Some(listed) => listed.len() == self.pacing.heap.len(),
        }
    }
}

impl PacingHeap {
    #[inline]
    fn set(&mut self, slot: u32, at: Time) {
        let place = self.place[slot as usize];
        if place == NOWHERE {
            self.heap.push((at, slot));
            self.rise(self.heap.len() - 1);
        } else {
            let place = place as usize;
            let before = self.heap[place].0;
            self.heap[place].0 = at;
            if at < before {
                self.rise(place);
            } else {
                self.sink(place);
            }
        }
    }

    #[inline]
    fn remove(&mut self, slot: u32) {
        let place = self.place[slot as usize];
        if place == NOWHERE {
            return;
        }
        self.place[slot as usize] = NOWHERE;
        let place = place as usize;
        let last = self.heap.pop().expect("the slot stands in the heap");
        if place < self.heap.len() {
            let before = self.heap[place].0;
            self.heap[place] = last;
            if last.0 < before {
                self.rise(place);
            } else {
                self.sink(place);
            }
        }
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.heap[place] = entry;
        self.place[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nic(slots: u32) -> Nic {
        let mut nic = Nic::new(None);
        for flow in 0..slots {
            nic.add(flow, (flow == 1).into());
        }
        nic
    }

    proptest! {
        #[test]
        fn every_queue_pair_that_may_send_is_served_in_turn(slots in 1_u32..200, rounds in 1_u32..4) {
            let mut nic = nic(slots);
            for slot in 0..slots {
                nic.allow(slot, Time::ZERO, Time::ZERO);
            }
            let served: Vec<u32> = (0..slots * rounds).map(|_| nic.pick(Time::ZERO, 0).unwrap()).collect();
            let expected: Vec<u32> = (0..rounds).flat_map(|_| 0..slots).collect();
            prop_assert_eq!(served, expected);
        }

        #[test]
        fn the_pacing_heap_gives_the_earliest_after_any_changes(
            changes in prop::collection::vec((0_u32..20, prop::option::of(1_u64..100)), 1..200)
        ) {
            let mut nic = nic(20);
            let mut expected = std::collections::BTreeMap::new();
            for (slot, at) in changes {
                match at {
                    Some(at) => {
                        nic.allow(slot, Time::from_ps(at), Time::ZERO);
                        expected.insert(slot, at);
                    }
                    None => {
                        nic.forbid(slot, Time::ZERO, Time::ZERO);
                        expected.remove(&slot);
                    }
                }
                prop_assert_eq!(nic.next_pace().map(Time::as_ps), expected.values().min().copied());
            }
        }
    }

    #[test]
    fn a_queue_pair_that_is_held_is_passed_over() {
        let mut nic = nic(3);
        for slot in 0..3 {
            nic.allow(slot, Time::ZERO, Time::ZERO);
        }
        let served: Vec<_> = (0..3).map(|_| nic.pick(Time::ZERO, 0b10)).collect();
        assert_eq!(served, [Some(0), Some(2), Some(0)]);
        assert_eq!(nic.pick(Time::ZERO, 0b11), None);
    }
}
