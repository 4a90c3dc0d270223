//! An allocation: how many workers each job has on each node.

/// Workers by job and node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    nodes: usize,
    /// A row of all nodes for each job.
    workers: Vec<u8>,
}

impl Matrix {
    pub(crate) fn empty(jobs: usize, nodes: usize) -> Self {
        Self { nodes, workers: vec![0; jobs * nodes] }
    }

    pub(crate) fn jobs(&self) -> usize {
        self.workers.len() / self.nodes
    }

    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    pub(crate) fn row(&self, job: usize) -> &[u8] {
        &self.workers[job * self.nodes..(job + 1) * self.nodes]
    }

    pub(crate) fn row_mut(&mut self, job: usize) -> &mut [u8] {
        &mut self.workers[job * self.nodes..(job + 1) * self.nodes]
    }

    /// Jobs before `point` as they are in `first`, the others as in `second`.
    pub(crate) fn crossed(first: &Self, second: &Self, point: usize) -> Self {
        let split = point * first.nodes;
        let mut workers = Vec::with_capacity(first.workers.len());
        workers.extend_from_slice(&first.workers[..split]);
        workers.extend_from_slice(&second.workers[split..]);
        Self { nodes: first.nodes, workers }
    }

    /// Where a job has workers, as (node, workers), by node.
    pub(crate) fn cells(&self, job: usize) -> impl Iterator<Item = (usize, u32)> {
        // Most of a row is empty, and eight nodes are seen at a glance.
        let (eights, rest) = self.row(job).as_chunks::<8>();
        let used = eights.iter().enumerate().filter(|(_, eight)| **eight != [0; 8]);
        let used = used.map(|(place, eight)| (8 * place, eight.as_slice()));
        used.chain([(8 * eights.len(), rest)]).flat_map(|(first, workers)| {
            let cells = workers.iter().enumerate().filter(|(_, workers)| **workers > 0);
            cells.map(move |(place, workers)| (first + place, u32::from(*workers)))
        })
    }

    /// A number that two allocations share only if they are the same, or by a chance of 1 in 2⁶⁴.
    pub(crate) fn fingerprint(&self) -> u64 {
        // FNV-1a over words instead of bytes, with a shift so that high bits reach the low ones.
        let mix = |hash: u64, word: u64| {
            let mixed = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            mixed ^ (mixed >> 29)
        };
        let words = self
            .workers
            .chunks(8)
            .map(|bytes| bytes.iter().fold(0, |word, workers| (word << 8) | u64::from(*workers)));
        words.fold(0xcbf2_9ce4_8422_2325, mix)
    }
}
