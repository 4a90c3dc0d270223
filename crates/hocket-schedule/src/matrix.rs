//! An allocation: the number of workers that each job has on each node.

/// Workers by job and node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    nodes: usize,
    /// A row of all nodes for each job. Bytes, so that eight nodes fit in one word for [`Self::cells`] and
    /// [`Self::fingerprint`].
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

    /// The one-point crossover: rows before `point` from `first`, the others from `second`.
    pub(crate) fn crossed(first: &Self, second: &Self, point: usize) -> Self {
        let split = point * first.nodes;
        let mut workers = Vec::with_capacity(first.workers.len());
        workers.extend_from_slice(&first.workers[..split]);
        workers.extend_from_slice(&second.workers[split..]);
        Self { nodes: first.nodes, workers }
    }

    /// The nodes where a job has workers, as (node, workers) in ascending order.
    pub(crate) fn cells(&self, job: usize) -> impl Iterator<Item = (usize, u32)> {
        // Most of a row is empty, and one comparison skips eight nodes.
        let (eights, rest) = self.row(job).as_chunks::<8>();
        let used = eights.iter().enumerate().filter(|(_, eight)| **eight != [0; 8]);
        let used = used.map(|(place, eight)| (8 * place, eight.as_slice()));
        used.chain([(8 * eights.len(), rest)]).flat_map(|(first, workers)| {
            let cells = workers.iter().enumerate().filter(|(_, workers)| **workers > 0);
            cells.map(move |(place, workers)| (first + place, u32::from(*workers)))
        })
    }

    /// A hash by which equal allocations are recognised: unequal ones share it with a probability of about 2⁻⁶⁴.
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
