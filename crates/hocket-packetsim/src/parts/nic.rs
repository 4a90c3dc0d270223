//! A host's network interface: selects the queue pair that sends next. It looks only at queue pairs that may send now;
//! those that pacing delays are in a heap by time.

use hocket_des::Time;

use crate::parts::packet::Packet;
use crate::parts::ring::Ring;
use crate::parts::slots::Slots;
use crate::reference::QueuePairList;

const NOWHERE: u32 = u32::MAX;

/// The queue pairs of one NIC, by slot, and its queue of acknowledgements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nic {
    /// The flow of each slot.
    flows: Vec<u32>,
    /// The class of each slot; bit c of `used_classes` is set if some slot has class c.
    classes: Vec<u8>,
    used_classes: u8,
    /// Slots that may send now.
    eligible: Slots,
    /// Slots that pacing allows to send later, the earliest first.
    pacing: PacingHeap,
    /// The slot at which the round robin continues.
    next: u32,
    /// Acknowledgements, NACKs, CNPs and grants, which go before data.
    pub(crate) answers: Ring<Packet>,
    /// The time and order of the pacing timer's event, if the timer is set.
    pub(crate) wake: Option<(Time, u64)>,
    /// The list that the NIC of an HPCC-style simulator keeps, if that is simulated.
    reference_list: Option<QueuePairList>,
}

/// A heap of slots by the time from which they may send; each slot occurs at most once. Unlike that of the standard library,
/// it can change and remove entries, since each acknowledgement may move a slot.
#[derive(Clone, Debug, Default)]
struct PacingHeap {
    heap: Vec<(Time, u32)>,
    /// By slot: its place in `heap`, or [`NOWHERE`].
    place: Vec<u32>,
}

impl Nic {
    pub(crate) fn new(reference_list: Option<QueuePairList>) -> Self {
        Self { reference_list, ..Self::default() }
    }

    /// Adds a queue pair that has nothing to send; returns its slot.
    pub(crate) fn add(&mut self, flow: u32, class: u8) -> u32 {
        let slot = self.flows.len() as u32;
        self.flows.push(flow);
        self.classes.push(class);
        self.used_classes |= 1 << class;
        self.eligible.grow(self.flows.len());
        self.pacing.place.push(NOWHERE);
        if let Some(list) = &mut self.reference_list {
            list.grow(self.flows.len());
        }
        slot
    }

    #[inline]
    pub(crate) fn flow(&self, slot: u32) -> u32 {
        self.flows[slot as usize]
    }

    /// Lets a queue pair send from `at` on. `soon` is the first time at which the NIC can send: up to then no pacing is needed.
    #[inline]
    pub(crate) fn allow(&mut self, slot: u32, at: Time, soon: Time) {
        if let Some(list) = &mut self.reference_list {
            list.remove_ghost(slot);
        }
        if at <= soon {
            self.pacing.remove(slot);
            self.eligible.insert(slot);
        } else {
            self.eligible.remove(slot);
            self.pacing.set(slot, at);
        }
    }

    /// Stops a queue pair that has nothing to send or no window; pacing would let it send from `at` on.
    #[inline]
    pub(crate) fn forbid(&mut self, slot: u32, at: Time, soon: Time) {
        self.eligible.remove(slot);
        self.pacing.remove(slot);
        if let Some(list) = &mut self.reference_list
            && at > soon
        {
            list.add_ghost(slot);
            self.pacing.set(slot, at);
        }
    }

    /// Whether some queue pair may send once the link is free.
    #[inline]
    pub(crate) fn has_eligible(&self) -> bool {
        !self.eligible.is_empty()
    }

    /// The slot whose turn it is among those that may send at `now`; bit c of `paused` stops those of class c.
    #[inline]
    pub(crate) fn pick(&mut self, now: Time, paused: u8) -> Option<u32> {
        while let Some(&(at, slot)) = self.pacing.heap.first()
            && at <= now
        {
            self.pacing.remove(slot);
            let is_ghost = self.reference_list.as_ref().is_some_and(|list| list.is_ghost(slot));
            if !is_ghost {
                self.eligible.insert(slot);
            }
        }
        // The classes of slots matter only while some are paused.
        let found = if paused == 0 {
            self.eligible.next(self.next, |_| false)
        } else if self.used_classes & !paused == 0 {
            None
        } else {
            let classes = &self.classes;
            self.eligible.next(self.next, |slot| paused & 1 << classes[slot as usize] != 0)
        };
        if let Some(list) = &mut self.reference_list {
            list.search(&mut self.next, found);
        }
        // Only now, since the search above needs the former position.
        if let Some(slot) = found {
            self.next = slot + 1;
        }
        found
    }

    /// Whether something may be sent at `now`, or the pacing timer may have to be set.
    #[inline]
    pub(crate) fn needs_attention(&self, now: Time) -> bool {
        !self.eligible.is_empty()
            || !self.answers.is_empty()
            || self.wake.is_none()
            || self.pacing.heap.first().is_some_and(|&(at, _)| at <= now)
            || self.reference_list.as_ref().is_some_and(QueuePairList::has_finished)
    }

    /// Whether the pacing timer is set only once the link is free, as in HPCC-style simulators. That determines the order of
    /// its event among those of the same time.
    #[inline]
    pub(crate) fn sets_timer_when_free(&self) -> bool {
        self.reference_list.as_ref().is_some_and(|list| list.len() > 0)
    }

    /// The flow that will probably be picked next, for prefetching.
    #[inline]
    pub(crate) fn upcoming(&self) -> Option<u32> {
        let slot = self.eligible.next(self.next, |_| false);
        slot.or_else(|| self.pacing.heap.first().map(|&(_, slot)| slot)).map(|slot| self.flow(slot))
    }

    /// When pacing allows the next queue pair to send.
    #[inline]
    pub(crate) fn next_pace(&self) -> Option<Time> {
        self.pacing.heap.first().map(|&(at, _)| at)
    }

    /// Registers that a queue pair has something to send, until [`Self::finish`].
    pub(crate) fn activate(&mut self, slot: u32) {
        if let Some(list) = &mut self.reference_list {
            list.add(slot);
        }
    }

    /// Registers that all bytes of a queue pair are acknowledged.
    pub(crate) fn finish(&mut self, slot: u32) {
        self.eligible.remove(slot);
        self.pacing.remove(slot);
        if let Some(list) = &mut self.reference_list {
            list.finish(slot);
        }
    }

    /// Whether the timer must be set for `at`. HPCC-style simulators never move a timer that is set.
    #[inline]
    pub(crate) fn lacks_timer_for(&self, at: Time) -> bool {
        self.wake.is_none_or(|(set, _)| self.reference_list.is_none() && set > at)
    }

    /// Whether the pacing timer may be set: always, except in the NIC of HPCC-style simulators. That takes the earliest time
    /// over all queue pairs in its list and sets no timer if that time has passed, even if the queue pair in question cannot
    /// send, because it has sent everything or used its window.
    #[inline]
    pub(crate) fn may_wake(&self) -> bool {
        match &self.reference_list {
            None => true,
            Some(list) => list.len() == self.pacing.heap.len(),
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
        let last = self.heap.pop().expect("the heap contains the slot");
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
        fn the_pacing_heap_returns_the_earliest_time_after_any_sequence_of_changes(
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
    fn the_round_robin_skips_a_paused_queue_pair() {
        let mut nic = nic(3);
        for slot in 0..3 {
            nic.allow(slot, Time::ZERO, Time::ZERO);
        }
        let served: Vec<_> = (0..3).map(|_| nic.pick(Time::ZERO, 0b10)).collect();
        assert_eq!(served, [Some(0), Some(2), Some(0)]);
        assert_eq!(nic.pick(Time::ZERO, 0b11), None);
    }
}
