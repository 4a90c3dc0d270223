//! What only runs that repeat those of an HPCC-style simulator ask for: its arithmetic, its routes and round-trip times, and how
//! its NICs keep their queue pairs.

use hocket_des::Duration;
use hocket_scenario::EcmpHash;
use hocket_transport::Rounding;

use crate::parts::slots::Slots;

/// How routes and round-trip times are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// How switches choose among equal paths.
    pub hash: EcmpHash,
    /// Whether every flow takes the longest round-trip time of all pairs of hosts for its own (HPCC's T). What goes on inside
    /// a server has no part in that.
    pub longest_rtt_for_all: bool,
}

/// Exact, or as HPCC-style simulators compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// Picoseconds, and a NIC that wakes up for every queue pair.
    #[default]
    Exact,
    /// Nanoseconds; and a NIC in which a queue pair that waits for its last acknowledgements keeps the pacing timer
    /// from being set, and finished queue pairs shift the round robin.
    Reference,
}

/// The list of queue pairs as HPCC-style simulators keep it: finished ones stay until a search meets them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    listed: Slots,
    finished: Slots,
    /// Those that stand in the heap by their pace although they may not send then.
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

    /// How much earlier than on an exact link so many packets may have left: rounding takes half a nanosecond of each at most.
    pub(crate) fn rounded_away(self, packets: u64) -> Duration {
        match self {
            Self::Exact => Duration::ZERO,
            Self::Reference => Duration::from_ps(500 * packets),
        }
    }

    /// Bytes that count in a round trip on an idle network, of a packet with `data` bytes and `header` bytes of headers and its
    /// acknowledgement of `ack` bytes. HPCC-style simulators count the packet's data alone, and no time for the
    /// acknowledgement to leave.
    pub(crate) fn round_trip_bytes(self, data: u16, header: u16, ack: u16) -> (u16, u16) {
        match self {
            Self::Exact => (data + header, ack),
            Self::Reference => (data, 0),
        }
    }

    /// The list that a NIC keeps of its queue pairs, if it keeps one.
    pub(crate) fn listed(self) -> Option<Listed> {
        match self {
            Self::Exact => None,
            Self::Reference => Some(Listed::default()),
        }
    }
}

impl Listed {
    /// Makes room for `slots` queue pairs.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.listed.grow(slots);
        self.finished.grow(slots);
        self.ghosts.grow(slots);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.listed.len() as usize
    }

    /// The queue pair has something to send.
    pub(crate) fn add(&mut self, slot: u32) {
        self.listed.insert(slot);
        self.finished.remove(slot);
    }

    /// All of the queue pair's bytes are acknowledged.
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

    /// The queue pair waits for its pace although it may not send then.
    #[inline]
    pub(crate) fn add_ghost(&mut self, slot: u32) {
        self.ghosts.insert(slot);
    }

    /// The queue pair may send.
    #[inline]
    pub(crate) fn remove_ghost(&mut self, slot: u32) {
        self.ghosts.remove(slot);
    }

    /// The round robin, which looked at `next` first, has found a slot, if any. The reference searches from the place after the
    /// last one served, by number in its list, and takes the finished queue pairs it met out of the list; the number stays as it
    /// was if nothing was found.
    #[inline]
    pub(crate) fn search(&mut self, next: &mut u32, found: Option<u32>) {
        if self.finished.is_empty() {
            return;
        }
        let start = *next;
        let Some(found) = found else {
            let number = self.listed.rank(start);
            self.drop_finished(0);
            if !self.listed.is_empty() {
                *next = self.listed.select(number % self.listed.len());
            }
            return;
        };
        let met = |slot: u32| {
            if start <= found {
                (start..found).contains(&slot)
            } else {
                slot >= start || slot < found
            }
        };
        let first_met = self.finished.iter().find(|&slot| met(slot));
        if let Some(first) = first_met {
            self.drop_finished(first);
        }
    }

    fn drop_finished(&mut self, from: u32) {
        let gone: Vec<u32> = self.finished.iter().filter(|&slot| slot >= from).collect();
        for slot in gone {
            self.finished.remove(slot);
            self.listed.remove(slot);
        }
    }
}
