//! Queues of packets in blocks of memory that all queues share: a block that one queue frees is reused by the next while it
//! is still in cache. Deep queues of their own would go through memory that has long left the cache.

use crate::parts::packet::Packet;

const NONE: u32 = u32::MAX;
// With the index of the next block, a block has 512 bytes.
const PER_BLOCK: usize = 21;

/// A queue: a list of blocks, and its ends in the first and the last block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    first: u32,
    last: u32,
    /// The position of the front in the first block, and of the next free place in the last one.
    head: u8,
    tail: u8,
    count: u32,
}

/// The blocks of all queues.
#[derive(Clone, Debug)]
pub(crate) struct Backlogs {
    blocks: Vec<Block>,
    free: u32,
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Block {
    packets: [Packet; PER_BLOCK],
    next: u32,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { first: NONE, last: NONE, head: 0, tail: 0, count: 0 }
    }
}

impl Backlog {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Backlogs {
    pub(crate) fn new() -> Self {
        Self { blocks: Vec::new(), free: NONE }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, queue: &mut Backlog, packet: Packet) {
        if queue.count == 0 || usize::from(queue.tail) == PER_BLOCK {
            self.append_block(queue, &packet);
        }
        self.blocks[queue.last as usize].packets[usize::from(queue.tail)] = packet;
        queue.tail += 1;
        queue.count += 1;
    }

    /// Removes the front of a queue that is not empty.
    #[inline(always)]
    pub(crate) fn pop(&mut self, queue: &mut Backlog) -> Packet {
        let block = &mut self.blocks[queue.first as usize];
        let packet = block.packets[usize::from(queue.head)];
        queue.head += 1;
        queue.count -= 1;
        if queue.count == 0 || usize::from(queue.head) == PER_BLOCK {
            // The block becomes the first of the free list, so that the next push takes it while it is in cache.
            let next = std::mem::replace(&mut block.next, self.free);
            self.free = queue.first;
            queue.first = next;
            queue.head = 0;
        }
        packet
    }

    pub(crate) fn front(&self, queue: &Backlog) -> Option<&Packet> {
        let block = self.blocks.get(queue.first as usize).filter(|_| queue.count > 0)?;
        Some(&block.packets[usize::from(queue.head)])
    }

    /// Prefetches the front of a queue.
    #[inline]
    pub(crate) fn prefetch_front(&self, queue: &Backlog) {
        if queue.count > 0 {
            self.blocks[queue.first as usize].packets[usize::from(queue.head)].prefetch();
        }
    }

    pub(crate) fn iter(&self, queue: &Backlog) -> impl Iterator<Item = &Packet> {
        let (mut block, mut place, mut left) = (queue.first, usize::from(queue.head), queue.count);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            if place == PER_BLOCK {
                (block, place) = (self.blocks[block as usize].next, 0);
            }
            place += 1;
            Some(&self.blocks[block as usize].packets[place - 1])
        })
    }

    fn append_block(&mut self, queue: &mut Backlog, filler: &Packet) {
        let fresh = if self.free == NONE {
            self.blocks.push(Block { packets: [*filler; PER_BLOCK], next: NONE });
            (self.blocks.len() - 1) as u32
        } else {
            self.free
        };
        self.free = std::mem::replace(&mut self.blocks[fresh as usize].next, NONE);
        if queue.count == 0 {
            (queue.first, queue.head) = (fresh, 0);
        } else {
            self.blocks[queue.last as usize].next = fresh;
        }
        (queue.last, queue.tail) = (fresh, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::parts::packet::Kind;

    proptest! {
        #[test]
        fn queues_that_share_blocks_keep_their_own_packets_in_order(
            moves in prop::collection::vec((0_usize..3, prop::bool::weighted(0.55)), 0..2_000)
        ) {
            let mut blocks = Backlogs::new();
            let mut queues = [Backlog::default(); 3];
            let mut expected: [VecDeque<u32>; 3] = Default::default();
            for (number, (which, is_push)) in (0..).zip(moves) {
                let (queue, expected) = (&mut queues[which], &mut expected[which]);
                if is_push {
                    blocks.push(queue, Packet::new(Kind::Data, number, 0, 0, 0));
                    expected.push_back(number);
                } else if !queue.is_empty() {
                    prop_assert_eq!(Some(blocks.pop(queue).flow), expected.pop_front());
                }
                prop_assert_eq!(blocks.front(queue).map(|packet| packet.flow), expected.front().copied());
                let flows = blocks.iter(queue).map(|packet| packet.flow);
                prop_assert!(flows.eq(expected.iter().copied()));
            }
        }
    }

    #[test]
    fn a_block_takes_eight_cache_lines() {
        assert_eq!(size_of::<Block>(), 512);
    }
}
