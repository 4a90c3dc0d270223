//! Collectives: which rank sends what to which other rank in each step. No messages are stored: senders, sizes and
//! dependencies are computed from chunk, step and rank, since a list for thousands of ranks would not fit into memory.
//! How long a message takes is left to the engines.

mod blocks;
mod sends;
mod stage;
mod tree;

use std::fmt;

use hocket_des::Bytes;
use thiserror::Error;

use blocks::Layout;
use stage::{Pattern, Stage};

pub use sends::{Send, Sends};

/// The largest number of ranks of a collective.
pub const MAX_RANKS: u32 = 1 << 20;

/// The largest number of chunks of a collective.
pub const MAX_CHUNKS: u32 = 1 << 16;

/// What a collective does, in the terms of MPI and NCCL. `bytes` is the size that nccl-tests reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    /// Every rank ends with the sum of all buffers; `bytes` is the buffer of each.
    AllReduce,
    /// Rank r ends with block r of the sum of all buffers; `bytes` is the buffer with which each rank starts.
    ReduceScatter,
    /// Every rank ends with the block of every rank; `bytes` is the buffer with which each rank ends.
    AllGather,
    /// Rank r ends with block r of every rank; `bytes` is all that each rank sends, including its own block.
    AllToAll,
    /// Every rank ends with the buffer of rank 0; `bytes` is that buffer.
    Broadcast,
}

/// How the ranks of one level exchange messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Each rank sends to the next one: n − 1 steps to reduce-scatter, and n − 1 to all-gather. A broadcast is a chain
    /// from rank 0. An all-to-all is the pairwise exchange: each rank sends to the next rank, then to the one after
    /// that, and so on.
    Ring,
    /// NCCL's double binary tree, half of the buffer on each tree. All-reduce and broadcast only; in an all-reduce of
    /// several levels, only on the outermost.
    Tree,
    /// Recursive halving to reduce-scatter, recursive doubling to all-gather, log₂ n steps each (Thakur,
    /// Rabenseifner and Gropp, 2005). The number of ranks must be a power of two.
    HalvingDoubling,
    /// Every rank sends to every other in one step, in the order of the ring from its next one on.
    Direct,
}

/// One level of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    /// The number of ranks: GPUs of a server, servers of a rack.
    pub ranks: u32,
    /// How they exchange messages.
    pub algorithm: Algorithm,
}

/// A collective over a buffer that is cut into chunks. All chunks take the same steps, independently of each other.
///
/// A rank enters step s + 1 of a chunk when every message due to it in the steps up to s has arrived and, where the step
/// reduces, has been reduced; it then posts its messages of step s + 1. After the last step it is done. A message of a
/// later step may overtake one of an earlier step from another rank, so arrivals are counted by step. It can be
/// processed on arrival, because it changes no block that the rank still has to send in earlier steps.
///
/// With several levels (HOTI'22 section II-B), ranks are numbered with the first level fastest: with levels of m₀ and m₁
/// ranks, rank i₀ + m₀·i₁ is GPU i₀ of server i₁. A reduce-scatter begins on the first level, an all-gather on the
/// last, and an all-reduce is the one followed by the other, so that 1/m₀ of the buffer leaves the server through each
/// rank. An all-to-all collects inside the server first; each rank then exchanges only with its counterparts in other
/// servers (NCCL's PXN). A broadcast crosses servers first.
///
/// A collective of one rank has no steps. If the buffer has fewer bytes than blocks × chunks, some messages are empty but
/// still due: an engine sends the smallest message that it supports.
///
/// ```
/// use hocket_des::Bytes;
/// use hocket_scenario::{Algorithm, Collective, CollectiveKind, Level};
///
/// // 4 servers of 8 GPUs: reduce-scatter inside, then across; all-gather across, then inside.
/// let inside = Level { ranks: 8, algorithm: Algorithm::Direct };
/// let across = Level { ranks: 4, algorithm: Algorithm::Direct };
/// let bytes = Bytes::new(32_000_000);
/// let all_reduce = Collective::new(CollectiveKind::AllReduce, bytes, &[inside, across], 1)?;
/// assert_eq!((all_reduce.ranks(), all_reduce.steps()), (32, 4));
///
/// // In the second step, GPU 5 of server 0 sends to GPU 5 of each other server, the next one first.
/// let sends: Vec<_> = all_reduce.sends(1, 5).collect();
/// assert_eq!(sends.iter().map(|send| send.to).collect::<Vec<_>>(), [13, 21, 29]);
/// assert_eq!(all_reduce.message_bytes(0, 1, 5, &sends[0]), Bytes::new(1_000_000));
/// assert_eq!(all_reduce.due(1, 5), 3);
/// assert!(all_reduce.reduces(1));
/// # Ok::<(), hocket_scenario::CollectiveError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    kind: CollectiveKind,
    layout: Layout,
    chunks: u32,
    ranks: u32,
    blocks: u32,
    steps: u32,
    /// In the order of their steps.
    stages: Vec<Stage>,
}

/// Why a collective is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// No level, or a level without ranks.
    #[error("{kind} over 0 ranks; a collective has at least 1 rank on each of its levels")]
    NoRanks {
        /// The requested kind.
        kind: CollectiveKind,
    },
    /// More than [`MAX_RANKS`].
    #[error("{kind} over {ranks} ranks; at most {MAX_RANKS} are possible")]
    TooManyRanks {
        /// The requested kind.
        kind: CollectiveKind,
        /// Over all levels.
        ranks: u64,
    },
    /// No chunk, or more than [`MAX_CHUNKS`].
    #[error("{kind} in {chunks} chunks; 1 to {MAX_CHUNKS} are possible")]
    Chunks {
        /// The requested kind.
        kind: CollectiveKind,
        /// The requested number.
        chunks: u32,
    },
    /// The algorithm cannot do this kind of collective: a tree cannot scatter.
    #[error("{algorithm} {kind} over {ranks} ranks: not possible; the algorithms of {kind} are {}", listed(.kind.algorithms()))]
    Impossible {
        /// The requested kind.
        kind: CollectiveKind,
        /// The requested algorithm.
        algorithm: Algorithm,
        /// The ranks of the level.
        ranks: u32,
    },
    /// Ranks cannot be halved repeatedly.
    #[error(
        "{algorithm} {kind} over {ranks} ranks: it needs a power of two; ring and direct support any number"
    )]
    NotAPowerOfTwo {
        /// The requested kind.
        kind: CollectiveKind,
        /// The requested algorithm.
        algorithm: Algorithm,
        /// The ranks of the level.
        ranks: u32,
    },
    /// A tree reduces to its root: no rank is left with a share of the sum for the levels further out.
    #[error(
        "tree {kind} over {ranks} ranks on level {level} of {levels}: only the outermost level can use tree; inner levels can use ring, halving-doubling or direct"
    )]
    TreeInside {
        /// The requested kind.
        kind: CollectiveKind,
        /// The ranks of the level.
        ranks: u32,
        /// Counted from 1, the innermost.
        level: usize,
        /// The number of levels.
        levels: usize,
    },
}

impl CollectiveKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::AllReduce, Self::ReduceScatter, Self::AllGather, Self::AllToAll, Self::Broadcast];

    /// The name in plans and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::AllToAll => "all-to-all",
            Self::Broadcast => "broadcast",
        }
    }

    /// The algorithms that can do it.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{Direct, HalvingDoubling, Ring, Tree};
        match self {
            Self::AllReduce => &[Ring, Tree, HalvingDoubling, Direct],
            Self::ReduceScatter | Self::AllGather => &[Ring, HalvingDoubling, Direct],
            Self::AllToAll => &[Ring, Direct],
            Self::Broadcast => &[Ring, Tree, Direct],
        }
    }

    /// busbw ÷ algbw over `ranks` ranks, from `PERFORMANCE.md` of nccl-tests: the minimum that each link must carry, in
    /// units of the collective's bytes. For one rank it is 0, except that it is always 1 for a broadcast.
    pub fn factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks.saturating_sub(1)) / f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * others,
            Self::ReduceScatter | Self::AllGather | Self::AllToAll => others,
            Self::Broadcast => 1.0,
        }
    }
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 4] = [Self::Ring, Self::Tree, Self::HalvingDoubling, Self::Direct];

    /// The name in plans and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::HalvingDoubling => "halving-doubling",
            Self::Direct => "direct",
        }
    }
}

impl Collective {
    /// A collective over as many ranks as the product of all `levels`, which are given from inside the server outwards.
    /// Levels of one rank have no effect.
    ///
    /// # Errors
    /// If there are no ranks or chunks or too many, or an algorithm does not support the kind or the number of ranks.
    pub fn new(
        kind: CollectiveKind,
        bytes: Bytes,
        levels: &[Level],
        chunks: u32,
    ) -> Result<Self, CollectiveError> {
        let ranks = checked_ranks(kind, levels)?;
        if chunks == 0 || chunks > MAX_CHUNKS {
            return Err(CollectiveError::Chunks { kind, chunks });
        }
        check_levels(kind, levels)?;
        let levels: Vec<Level> = levels.iter().copied().filter(|level| level.ranks > 1).collect();
        let blocks = block_count(kind, &levels);
        let stages = stages(kind, &levels, blocks);
        let steps = stages.iter().map(Stage::steps).sum();
        let layout = Layout::new(bytes, chunks);
        Ok(Self { kind, layout, chunks, ranks, blocks, steps, stages })
    }

    /// What the collective does.
    pub fn kind(&self) -> CollectiveKind {
        self.kind
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The size of the whole buffer, as nccl-tests counts it for the kind.
    pub fn bytes(&self) -> Bytes {
        self.layout.bytes()
    }

    /// The number of chunks of the buffer.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The number of blocks of each chunk: one for each rank, or fewer for a tree or a broadcast.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The number of steps of each chunk.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The number of steps from `step` on, itself included, that have the same pairs and, up to rounding, the same message
    /// sizes, each step depending on the one before: the remaining ones of a ring's n − 1, otherwise 1.
    pub fn repeats(&self, step: u32) -> u32 {
        let (stage, step) = self.stage(step);
        stage.repeats(step)
    }

    /// The lane of a step. Steps in one lane have the same pairs, such as those of a level's reduce-scatter and its
    /// all-gather; their messages follow each other on the same queue pairs.
    pub fn lane(&self, step: u32) -> (u32, u32) {
        let (stage, step) = self.stage(step);
        stage.lane(step)
    }

    /// The messages of `rank` in `step`, in the order in which it sends them. Two of them may have the same receiver, one
    /// of each tree.
    pub fn sends(&self, step: u32, rank: u32) -> Sends {
        let (stage, step) = self.stage(step);
        stage.sends(step, rank)
    }

    /// The number of messages that `rank` receives in `step`.
    pub fn due(&self, step: u32, rank: u32) -> u32 {
        let (stage, step) = self.stage(step);
        stage.due(step, rank)
    }

    /// The first step from `step` on in which `rank` sends or receives anything, or [`steps`](Self::steps). An engine
    /// skips the others: in a chain of n ranks, a rank is active in at most two of n − 1 steps.
    pub fn active_from(&self, step: u32, rank: u32) -> u32 {
        let mut first = 0;
        for stage in &self.stages {
            let end = first + stage.steps();
            if step < end
                && let Some(active) = stage.active_from(step.saturating_sub(first), rank)
            {
                return first + active;
            }
            first = end;
        }
        self.steps
    }

    /// Whether data that arrives in `step` is added to the receiver's blocks. Otherwise it replaces them or, in an
    /// all-to-all, is written to a second buffer.
    pub fn reduces(&self, step: u32) -> bool {
        self.stage(step).0.reduces
    }

    /// The size of one of the [`sends`](Self::sends) of `rank` in `step`, for one chunk. The blocks of a chunk differ by at
    /// most one byte, and so do the chunks; all chunks add up to the buffer.
    pub fn message_bytes(&self, chunk: u32, step: u32, rank: u32, send: &Send) -> Bytes {
        let (stage, _) = self.stage(step);
        let part = stage.part(rank, *send);
        Bytes::new(self.layout.part_bytes(chunk, part) * u64::from(stage.sources))
    }

    /// The blocks that one of the [`sends`](Self::sends) of `rank` in `step` carries, in order. In an all-to-all, block b is
    /// addressed to rank b and comes from the sender and all ranks whose blocks for b it has collected.
    pub fn blocks_of(&self, step: u32, rank: u32, send: &Send) -> impl Iterator<Item = u32> {
        let (stage, _) = self.stage(step);
        stage.part(rank, *send).blocks(self.blocks)
    }

    /// busbw ÷ algbw; see [`CollectiveKind::factor`].
    pub fn factor(&self) -> f64 {
        self.kind.factor(self.ranks)
    }

    /// All pairs (sender, receiver), each once, in order.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let mut pairs = Vec::new();
        for rank in 0..self.ranks {
            let first = pairs.len();
            for stage in &self.stages {
                let mut next = stage.active_from(0, rank);
                while let Some(step) = next {
                    pairs.extend(stage.sends(step, rank).map(|send| (rank, send.to)));
                    // Repeated steps have the same pairs: one step of a ring stands for all.
                    next = stage.active_from(step + stage.repeats(step), rank);
                }
            }
            pairs[first..].sort_unstable();
        }
        pairs.dedup();
        pairs
    }

    /// The stage of a step, and the step's number within it.
    fn stage(&self, step: u32) -> (&Stage, u32) {
        let mut left = step;
        for stage in &self.stages {
            match left.checked_sub(stage.steps()) {
                Some(later) => left = later,
                None => return (stage, left),
            }
        }
        panic!("step {step} of a collective of {} steps", self.steps);
    }
}

fn checked_ranks(kind: CollectiveKind, levels: &[Level]) -> Result<u32, CollectiveError> {
    if levels.is_empty() || levels.iter().any(|level| level.ranks == 0) {
        return Err(CollectiveError::NoRanks { kind });
    }
    let product = levels.iter().map(|level| u64::from(level.ranks)).fold(1, u64::saturating_mul);
    match u32::try_from(product) {
        Ok(ranks) if ranks <= MAX_RANKS => Ok(ranks),
        _ => Err(CollectiveError::TooManyRanks { kind, ranks: product }),
    }
}

fn check_levels(kind: CollectiveKind, levels: &[Level]) -> Result<(), CollectiveError> {
    // Levels of one rank have no effect, so the last of them need not be the outermost.
    let outermost = levels.iter().rposition(|level| level.ranks > 1);
    for (index, &Level { ranks, algorithm }) in levels.iter().enumerate() {
        if ranks == 1 {
            continue;
        }
        if !kind.algorithms().contains(&algorithm) {
            return Err(CollectiveError::Impossible { kind, algorithm, ranks });
        }
        if algorithm == Algorithm::HalvingDoubling && !ranks.is_power_of_two() {
            return Err(CollectiveError::NotAPowerOfTwo { kind, algorithm, ranks });
        }
        let scatters = kind == CollectiveKind::AllReduce && Some(index) != outermost;
        if algorithm == Algorithm::Tree && scatters {
            let (level, levels) = (index + 1, levels.len());
            return Err(CollectiveError::TreeInside { kind, ranks, level, levels });
        }
    }
    Ok(())
}

/// One block for each rank; a tree cuts the buffer into two halves, whatever its ranks, and a broadcast cuts it only there.
fn block_count(kind: CollectiveKind, levels: &[Level]) -> u32 {
    let by_tree = |level: &Level| level.algorithm == Algorithm::Tree;
    match kind {
        CollectiveKind::Broadcast if levels.iter().any(by_tree) => 2,
        CollectiveKind::Broadcast => 1,
        _ => levels.iter().map(|level| if by_tree(level) { 2 } else { level.ranks }).product(),
    }
}

fn stages(kind: CollectiveKind, levels: &[Level], blocks: u32) -> Vec<Stage> {
    // Ranks and blocks are numbered alike: `stride` is the weight of a level's digit in both.
    let mut stride = 1;
    let mut scatter = Vec::new();
    let mut gather = Vec::new();
    for &Level { ranks, algorithm } in levels {
        let stage = |pattern, reduces| Stage {
            pattern,
            ranks,
            rank_stride: stride,
            block_stride: stride,
            radix: if algorithm == Algorithm::Tree { 2 } else { ranks },
            reduces,
            sources: 1,
            rooted: false,
        };
        match kind {
            CollectiveKind::AllReduce => {
                scatter.push(stage(reduce_scatter(algorithm), true));
                gather.push(stage(all_gather(algorithm), false));
            }
            CollectiveKind::ReduceScatter => scatter.push(stage(reduce_scatter(algorithm), true)),
            CollectiveKind::AllGather => gather.push(stage(all_gather(algorithm), false)),
            CollectiveKind::AllToAll => {
                // On this level, a message also carries what the ranks of all inner levels collected.
                scatter.push(Stage { sources: stride, ..stage(all_to_all(algorithm), false) });
            }
            // Every rank handles all blocks, so blocks do not depend on the rank's digits.
            CollectiveKind::Broadcast => gather.push(Stage {
                block_stride: 1,
                radix: blocks,
                rooted: true,
                ..stage(broadcast(algorithm), false)
            }),
        }
        stride *= ranks;
    }
    // All-gathers retrace the reduce-scatters: they begin on the outermost level.
    gather.reverse();
    scatter.append(&mut gather);
    scatter
}

fn reduce_scatter(algorithm: Algorithm) -> Pattern {
    match algorithm {
        Algorithm::Ring => Pattern::RingScatter,
        Algorithm::Tree => Pattern::Up,
        Algorithm::HalvingDoubling => Pattern::Halving,
        Algorithm::Direct => Pattern::Scatter,
    }
}

fn all_gather(algorithm: Algorithm) -> Pattern {
    match algorithm {
        Algorithm::Ring => Pattern::RingGather,
        Algorithm::Tree => Pattern::Down,
        Algorithm::HalvingDoubling => Pattern::Doubling,
        Algorithm::Direct => Pattern::Gather,
    }
}

fn all_to_all(algorithm: Algorithm) -> Pattern {
    match algorithm {
        Algorithm::Ring => Pattern::Pairwise,
        Algorithm::Direct => Pattern::Scatter,
        Algorithm::Tree | Algorithm::HalvingDoubling => unreachable!("refused by `check_levels`"),
    }
}

fn broadcast(algorithm: Algorithm) -> Pattern {
    match algorithm {
        Algorithm::Ring => Pattern::Chain,
        Algorithm::Tree => Pattern::Down,
        Algorithm::Direct => Pattern::FanOut,
        Algorithm::HalvingDoubling => unreachable!("refused by `check_levels`"),
    }
}

fn listed(algorithms: &[Algorithm]) -> String {
    algorithms.iter().map(Algorithm::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
