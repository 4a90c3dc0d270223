//! An allocation: the number of workers that each job has on each node.

/// Workers on a node, as (node, workers).
pub type Cell = (usize, u32);

/// Nodes in a word.
const WORD: usize = 8;

/// Workers by job and node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    nodes: usize,
    /// The length of a row: whole words, of which those behind the last node are 0.
    stride: usize,
    /// A row for each job. Bytes, so that eight nodes fit in one word.
    workers: Vec<u8>,
}

impl Matrix {
    pub(crate) fn empty(jobs: usize, nodes: usize) -> Self {
        let stride = nodes.next_multiple_of(WORD);
        Self { nodes, stride, workers: vec![0; jobs * stride] }
    }

    pub(crate) fn row(&self, job: usize) -> &[u8] {
        &self.workers[job * self.stride..][..self.nodes]
    }

    pub(crate) fn row_mut(&mut self, job: usize) -> &mut [u8] {
        &mut self.workers[job * self.stride..][..self.nodes]
    }

    /// Removes all workers.
    pub(crate) fn clear(&mut self) {
        self.workers.fill(0);
    }

    /// Adds the workers of a row to a job that has none.
    pub(crate) fn set(&mut self, job: usize, cells: impl Iterator<Item = Cell>) {
        let row = self.row_mut(job);
        for (node, workers) in cells {
            row[node] = u8::try_from(workers).expect("no more than the node has");
        }
    }

    /// The nodes where a job has workers, as (node, workers) in ascending order.
    pub(crate) fn cells(&self, job: usize) -> Cells<'_> {
        let (words, _) = self.workers[job * self.stride..][..self.stride].as_chunks();
        Cells { words, next: 0, word: 0 }
    }
}

/// See [`Matrix::cells`].
#[derive(Clone)]
pub(crate) struct Cells<'a> {
    words: &'a [[u8; WORD]],
    /// The index behind that of the present word.
    next: usize,
    /// What is left of the present word.
    word: u64,
}

impl Iterator for Cells<'_> {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        // Most of a row is empty, and one comparison skips eight nodes.
        while self.word == 0 {
            self.word = u64::from_le_bytes(*self.words.get(self.next)?);
            self.next += 1;
        }
        let place = self.word.trailing_zeros() / u8::BITS;
        let workers = (self.word >> (place * u8::BITS)) as u8;
        self.word ^= u64::from(workers) << (place * u8::BITS);
        Some(((self.next - 1) * WORD + place as usize, u32::from(workers)))
    }
}
