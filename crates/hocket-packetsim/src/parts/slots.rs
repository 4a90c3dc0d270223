//! A set of slots of a NIC, as bits: the round robin, which looks for the next member from some slot on, passes 64 empty
//! slots in one step.

/// A set of slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    words: Vec<u64>,
    count: u32,
}

impl Slots {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of slots in the set.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// Makes room for `slots` slots.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.words.resize(slots.div_ceil(64), 0);
    }

    #[inline]
    pub(crate) fn insert(&mut self, slot: u32) {
        let word = &mut self.words[slot as usize / 64];
        let bit = 1 << (slot % 64);
        self.count += u32::from(*word & bit == 0);
        *word |= bit;
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let word = &mut self.words[slot as usize / 64];
        let bit = 1 << (slot % 64);
        self.count -= u32::from(*word & bit != 0);
        *word &= !bit;
    }

    #[inline]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.words[slot as usize / 64] & 1 << (slot % 64) != 0
    }

    /// The first slot at or after `start`, cyclically, for which `pass` is false.
    #[inline]
    pub(crate) fn next(&self, start: u32, pass: impl Fn(u32) -> bool) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let ahead = self.iter_from(start).find(|&slot| !pass(slot));
        ahead.or_else(|| self.iter().take_while(|&slot| slot < start).find(|&slot| !pass(slot)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.iter_from(0)
    }

    #[inline]
    pub(crate) fn iter_from(&self, start: u32) -> impl Iterator<Item = u32> {
        let first = start as usize / 64;
        let mut bits = self.words.get(first).map_or(0, |word| word & (!0 << (start % 64)));
        let mut word = first;
        std::iter::from_fn(move || {
            while bits == 0 {
                word += 1;
                bits = *self.words.get(word)?;
            }
            let slot = word as u32 * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            Some(slot)
        })
    }

    /// The number of slots in the set before `slot`.
    pub(crate) fn rank(&self, slot: u32) -> u32 {
        self.iter().take_while(|&each| each < slot).count() as u32
    }

    /// The slot that has `rank` slots of the set before it.
    pub(crate) fn select(&self, rank: u32) -> u32 {
        self.iter().nth(rank as usize).expect("the rank lies below the count")
    }
}
