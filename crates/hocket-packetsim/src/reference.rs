//! Options for repeating runs of an HPCC-style simulator: its arithmetic, its routes and round-trip times, and how its NICs
//! manage their queue pairs.

use hocket_des::Duration;
use hocket_scenario::EcmpHash;
use hocket_transport::Rounding;

use crate::parts::slots::Slots;

/// How routes and round-trip times are determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// How switches choose among paths of equal length.
    pub hash: EcmpHash,
    /// Whether every flow uses the longest round-trip time over all pairs of hosts (HPCC's T). Flows and paths inside a
    /// server are excluded.
    pub longest_rtt_for_all: bool,
}

/// Exact arithmetic, or that of HPCC-style simulators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// Times in picoseconds, and a NIC whose pacing timer serves every queue pair.
    #[default]
    Exact,
    /// Times in nanoseconds, and two peculiarities of the NIC: a queue pair that waits for its last acknowledgements keeps
    /// the pacing timer from being set, and finished queue pairs shift the round robin.
    Reference,
}

/// The list of queue pairs in the NIC of HPCC-style simulators: finished queue pairs stay until a search reaches them.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuePairList {
    members: Slots,
    finished: Slots,
    /// Queue pairs in the pacing heap that may not send at the time for which they are there.
    ghosts: Slots,
}

impl Arithmetic {
    /// How times are rounded.
    pub fn rounding(self) -> Rounding {
        match self {
            Self::Exact => Rounding::Picoseconds,
            Self::Reference => Rounding::Nanoseconds,
        }
    }

    /// The most by which rounding can shorten the transmission of `packets` packets: half a nanosecond each.
    pub(crate) fn rounded_away(self, packets: u64) -> Duration {
        match self {
            Self::Exact => Duration::ZERO,
            Self::Reference => Duration::from_ps(500 * packets),
        }
    }

    /// The bytes of a packet and of its acknowledgement that count in the round-trip time of an idle network. HPCC-style
    /// simulators count the packet's data without headers, and no transmission time for the acknowledgement.
    pub(crate) fn round_trip_bytes(self, data: u16, header: u16, ack: u16) -> (u16, u16) {
        match self {
            Self::Exact => (data + header, ack),
            Self::Reference => (data, 0),
        }
    }

    /// The list of queue pairs in each NIC, if NICs keep one.
    pub(crate) fn queue_pair_list(self) -> Option<QueuePairList> {
        match self {
            Self::Exact => None,
            Self::Reference => Some(QueuePairList::default()),
        }
    }
}

impl QueuePairList {
    /// Makes room for `slots` queue pairs.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.members.grow(slots);
        self.finished.grow(slots);
        self.ghosts.grow(slots);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.members.len() as usize
    }

    /// Registers that a queue pair has something to send.
    pub(crate) fn add(&mut self, slot: u32) {
        self.members.insert(slot);
        self.finished.remove(slot);
    }

    /// Registers that all bytes of a queue pair are acknowledged.
    pub(crate) fn finish(&mut self, slot: u32) {
        self.finished.insert(slot);
    }

    #[inline]
    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    #[inline]
    pub(crate) fn is_ghost(&self, slot: u32) -> bool {
        self.ghosts.contains(slot)
    }

    /// Registers that a queue pair is in the pacing heap although it may not send.
    #[inline]
    pub(crate) fn add_ghost(&mut self, slot: u32) {
        self.ghosts.insert(slot);
    }

    /// Registers that a queue pair may send.
    #[inline]
    pub(crate) fn remove_ghost(&mut self, slot: u32) {
        self.ghosts.remove(slot);
    }

    /// Updates the list after the round robin, which started at `next`, has `found` a slot or none. HPCC-style simulators
    /// start after the position in the list that was served last, and then remove the finished queue pairs that the search
    /// passed. If nothing was found, that position stays the same although the list has become shorter.
    #[inline]
    pub(crate) fn search(&mut self, next: &mut u32, found: Option<u32>) {
        if self.finished.is_empty() {
            return;
        }
        let start = *next;
        let Some(found) = found else {
            // The position is a rank among the members: once some are removed, another slot has this rank.
            let number = self.members.rank(start);
            self.drop_finished(0);
            if !self.members.is_empty() {
                *next = self.members.select(number % self.members.len());
            }
            return;
        };
        // The round robin is cyclic: after the last slot it continues at 0.
        let passed = |slot: u32| {
            if start <= found {
                (start..found).contains(&slot)
            } else {
                slot >= start || slot < found
            }
        };
        let first_passed = self.finished.iter().find(|&slot| passed(slot));
        if let Some(first) = first_passed {
            self.drop_finished(first);
        }
    }

    fn drop_finished(&mut self, from: u32) {
        let gone: Vec<u32> = self.finished.iter().filter(|&slot| slot >= from).collect();
        for slot in gone {
            self.finished.remove(slot);
            self.members.remove(slot);
        }
    }
}
