//! The sizes of the blocks of a buffer. Which bytes form a block is immaterial to a simulator.

use hocket_des::Bytes;

/// A buffer that is cut into chunks, and each chunk into blocks. Chunks are contiguous; byte `p` of the buffer belongs to
/// the block `p mod blocks`. The sizes of chunks, of the blocks of a chunk and of whole blocks therefore differ by at most
/// one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    bytes: u64,
    chunk_bytes: u64,
    longer_chunks: u64,
}

/// The blocks `b` with `b mod stride = base` whose digit `b / stride mod radix` is one of `first..first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) stride: u32,
    pub(super) radix: u32,
    pub(super) base: u32,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Layout {
    pub(super) fn new(bytes: Bytes, chunks: u32) -> Self {
        let (bytes, chunks) = (bytes.get(), u64::from(chunks));
        Self { bytes, chunk_bytes: bytes / chunks, longer_chunks: bytes % chunks }
    }

    pub(super) fn bytes(self) -> Bytes {
        Bytes::new(self.bytes)
    }

    /// The size of `part` in `chunk`, in bytes.
    pub(super) fn part_bytes(self, chunk: u32, part: Part) -> u64 {
        let chunk = u64::from(chunk);
        // The first chunks are one byte longer.
        let start = chunk * self.chunk_bytes + chunk.min(self.longer_chunks);
        let end = start + self.chunk_bytes + u64::from(chunk < self.longer_chunks);
        part.bytes_before(end) - part.bytes_before(start)
    }
}

impl Part {
    /// Its blocks among `0..blocks`, in order. `blocks` must be a multiple of `stride × radix`.
    pub(super) fn blocks(self, blocks: u32) -> impl Iterator<Item = u32> {
        (0..blocks / (self.stride * self.radix)).flat_map(move |turn| {
            (self.first..self.first + self.count)
                .map(move |digit| self.base + self.stride * (digit + self.radix * turn))
        })
    }

    /// The number of its bytes among the bytes `0..position` of the buffer.
    fn bytes_before(self, position: u64) -> u64 {
        let stride = u64::from(self.stride);
        let period = stride * u64::from(self.radix);
        // The number of blocks is a multiple of `period`: each period of positions has one byte of each digit.
        let (turns, rest) = (position / period, position % period);
        // The digits d with base + stride × d < rest: (rest − base) ÷ stride, rounded up.
        let digits = (rest + stride - 1).saturating_sub(u64::from(self.base)) / stride;
        let count = u64::from(self.count);
        turns * count + digits.saturating_sub(u64::from(self.first)).min(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_size_that_does_not_divide_differ_by_one_byte() {
        // 11 bytes in 2 chunks of 6 and 5, of 4 blocks: bytes 0–5 are of blocks 0 1 2 3 0 1, bytes 6–10 of 2 3 0 1 2.
        let layout = Layout::new(Bytes::new(11), 2);
        let sizes = |chunk| {
            [0, 1, 2, 3].map(|block| {
                let part = Part { stride: 1, radix: 4, base: 0, first: block, count: 1 };
                layout.part_bytes(chunk, part)
            })
        };
        assert_eq!(sizes(0), [2, 2, 1, 1]);
        assert_eq!(sizes(1), [1, 1, 2, 1]);
    }

    #[test]
    fn a_part_has_the_bytes_of_its_blocks() {
        let layout = Layout::new(Bytes::new(1_003), 3);
        let part = Part { stride: 2, radix: 3, base: 1, first: 1, count: 2 };
        assert_eq!(part.blocks(12).collect::<Vec<_>>(), [3, 5, 9, 11]);
        for chunk in 0..3 {
            let one_by_one = part.blocks(12).map(|block| {
                let alone = Part { stride: 1, radix: 12, base: 0, first: block, count: 1 };
                layout.part_bytes(chunk, alone)
            });
            assert_eq!(one_by_one.sum::<u64>(), layout.part_bytes(chunk, part));
        }
    }
}
