//! Collectives: who sends what to whom, step by step. A collective is arithmetic and not a list: every question
//! about a message is answered from its numbers alone. Nothing here moves time; an engine does.

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

/// The most ranks that a collective has.
pub const MAX_RANKS: u32 = 1 << 20;

/// The most chunks that a collective is cut into.
pub const MAX_CHUNKS: u32 = 1 << 16;

/// What a collective does, in the terms of MPI and NCCL. Its `bytes` are those of nccl-tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    /// Every rank ends with the sum of all buffers; `bytes` is the buffer of each.
    AllReduce,
    /// Rank r ends with block r of the sum of all buffers; `bytes` is what each starts with.
    ReduceScatter,
    /// Every rank ends with the block of every rank; `bytes` is what each ends with.
    AllGather,
    /// Rank r ends with block r of every rank; `bytes` is what each sends in all, its own block included.
    AllToAll,
    /// Every rank ends with the buffer of rank 0; `bytes` is that buffer.
    Broadcast,
}

/// How the ranks of one level go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Each rank sends to the next one: n − 1 steps to reduce-scatter, as many to all-gather. A broadcast is a chain
    /// from rank 0. An all-to-all is the pairwise exchange, in which each rank sends to its next first, then
    /// to the one after that.
    Ring,
    /// NCCL's double binary tree, half of the buffer up and down each. All-reduce and broadcast only; in
    /// an all-reduce of several levels only the outermost.
    Tree,
    /// Recursive halving to reduce-scatter, recursive doubling to all-gather, log₂ n steps each (Thakur,
    /// Rabenseifner and Gropp, 2005). The ranks are a power of two.
    HalvingDoubling,
    /// Everyone to everyone in one step, to the next rank first and so on around.
    Direct,
}

/// One level of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    /// How many ranks it has: GPUs in a server, servers in a rack.
    pub ranks: u32,
    /// How they exchange.
    pub algorithm: Algorithm,
}

/// A collective over a buffer that is cut into chunks, which all go the same way and need nothing of each other.
///
/// It goes in steps, for each chunk alone. A rank enters step s + 1 when every message due to it in the steps up to s
/// has arrived, and was reduced where the step reduces; then it posts what it sends in that step. After the last step
/// it is done. A message of a later step may arrive before one of an earlier step from elsewhere, so arrivals are
/// counted by step; it may be taken in at once, for it touches nothing that the rank has still to send in earlier
/// steps.
///
/// Over several levels (HOTI'22 section II-B) ranks are numbered with the first level fastest: of levels of m₀ and m₁
/// ranks, rank i₀ + m₀·i₁ is GPU i₀ of server i₁. Reduce-scatter goes from the first level outwards, all-gather from
/// the last inwards, all-reduce out and back, so that 1/m₀ of the buffer leaves the server through each rank.
/// All-to-all collects inside first, so that each rank then only exchanges with its counterparts in other servers
/// (NCCL calls it PXN). Broadcast goes across first, then inside.
///
/// A collective of one rank has no steps. Of a buffer with fewer bytes than blocks × chunks some messages are empty.
/// They are still due: an engine sends the least message it knows.
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
/// // In the second step GPU 5 of server 0 sends to GPU 5 of each other server, its next first.
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

/// Why there is no such collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// No level, or one without ranks.
    #[error("{kind} over no ranks; a collective has at least one, on each of its levels")]
    NoRanks {
        /// What was asked for.
        kind: CollectiveKind,
    },
    /// More than [`MAX_RANKS`].
    #[error("{kind} over {ranks} ranks; at most {MAX_RANKS} are possible")]
    TooManyRanks {
        /// What was asked for.
        kind: CollectiveKind,
        /// Over all levels.
        ranks: u64,
    },
    /// None, or more than [`MAX_CHUNKS`].
    #[error("{kind} in {chunks} chunks; 1 to {MAX_CHUNKS} are possible")]
    Chunks {
        /// What was asked for.
        kind: CollectiveKind,
        /// How many.
        chunks: u32,
    },
    /// No such thing, as a tree that scatters.
    #[error("{algorithm} {kind} over {ranks} ranks: there is none; {kind} goes by {}", listed(.kind.algorithms()))]
    Impossible {
        /// What was asked for.
        kind: CollectiveKind,
        /// By which algorithm.
        algorithm: Algorithm,
        /// On its level.
        ranks: u32,
    },
    /// Halving needs a half.
    #[error(
        "{algorithm} {kind} over {ranks} ranks: it needs a power of two; ring and direct serve any number"
    )]
    NotAPowerOfTwo {
        /// What was asked for.
        kind: CollectiveKind,
        /// By which algorithm.
        algorithm: Algorithm,
        /// On its level.
        ranks: u32,
    },
    /// A tree leaves the sum at every rank, and no shares of it to levels further out.
    #[error(
        "tree {kind} over {ranks} ranks on level {level} of {levels}: only the outermost level goes by tree; the others by ring, halving-doubling, direct"
    )]
    TreeInside {
        /// What was asked for.
        kind: CollectiveKind,
        /// On its level.
        ranks: u32,
        /// Counted from 1, the innermost.
        level: usize,
        /// How many there are.
        levels: usize,
    },
}

impl CollectiveKind {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::AllReduce, Self::ReduceScatter, Self::AllGather, Self::AllToAll, Self::Broadcast];

    /// As plans and tables spell it.
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

    /// busbw ÷ algbw over `ranks` ranks, as in the `PERFORMANCE.md` of nccl-tests: what each link must carry at
    /// least, in units of the collective's bytes. One rank moves nothing: 0, but for a broadcast, where it is 1.
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
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Ring, Self::Tree, Self::HalvingDoubling, Self::Direct];

    /// As plans and tables spell it.
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
    /// A collective over the product of all `levels`' ranks, given from inside the server outwards. A level of one
    /// rank counts for nothing.
    ///
    /// # Errors
    /// If there are no or too many ranks or chunks, or an algorithm cannot do it over that many.
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

    /// What it does.
    pub fn kind(&self) -> CollectiveKind {
        self.kind
    }

    /// How many take part.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The size of the whole buffer, as nccl-tests counts it for the kind.
    pub fn bytes(&self) -> Bytes {
        self.layout.bytes()
    }

    /// How many chunks the buffer is cut into.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// How many blocks each chunk is cut into: one for each rank, or what a tree or a broadcast does with less.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// How many steps every chunk takes.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// How many steps from `step` on, itself included, have the same pairs with messages of the same size up to
    /// rounding, each step depending on the one before: all that are left of a ring's n − 1, else 1.
    pub fn repeats(&self, step: u32) -> u32 {
        let (stage, step) = self.stage(step);
        stage.repeats(step)
    }

    /// Steps in one lane have the same pairs, so that their messages go through the same queue pairs, one after another: a level's
    /// reduce-scatter and its all-gather, say.
    pub fn lane(&self, step: u32) -> (u32, u32) {
        let (stage, step) = self.stage(step);
        stage.lane(step)
    }

    /// What `rank` sends in `step`, in this order. Several messages to one rank are possible: of both trees.
    pub fn sends(&self, step: u32, rank: u32) -> Sends {
        let (stage, step) = self.stage(step);
        stage.sends(step, rank)
    }

    /// How many messages arrive at `rank` in `step`.
    pub fn due(&self, step: u32, rank: u32) -> u32 {
        let (stage, step) = self.stage(step);
        stage.due(step, rank)
    }

    /// The first step from `step` on in which `rank` sends or is due anything, or [`steps`](Self::steps). In a chain
    /// of n ranks each has two of n − 1 steps; an engine passes over the others.
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

    /// Whether what arrives in `step` is added to what is there. Otherwise it takes its place, at the same blocks; in
    /// an all-to-all it goes to a second buffer.
    pub fn reduces(&self, step: u32) -> bool {
        self.stage(step).0.reduces
    }

    /// The size of one of the `sends` of `rank` in `step`, for one chunk. The blocks of a chunk differ by at most
    /// one byte, and so do the chunks; all chunks sum to the buffer.
    pub fn message_bytes(&self, chunk: u32, step: u32, rank: u32, send: &Send) -> Bytes {
        let (stage, _) = self.stage(step);
        let part = stage.part(rank, *send);
        Bytes::new(self.layout.part_bytes(chunk, part) * u64::from(stage.sources))
    }

    /// The blocks that one of the `sends` of `rank` in `step` carries, in order. In an all-to-all block b is what
    /// goes to rank b, from the sender and all whose blocks for b it has collected.
    pub fn blocks_of(&self, step: u32, rank: u32, send: &Send) -> impl Iterator<Item = u32> {
        let (stage, _) = self.stage(step);
        stage.part(rank, *send).blocks(self.blocks)
    }

    /// busbw ÷ algbw, as nccl-tests has it; see [`CollectiveKind::factor`].
    pub fn factor(&self) -> f64 {
        self.kind.factor(self.ranks)
    }

    /// All (from, to) that ever send, each once, in order.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let mut pairs = Vec::new();
        for rank in 0..self.ranks {
            let first = pairs.len();
            for stage in &self.stages {
                let mut next = stage.active_from(0, rank);
                while let Some(step) = next {
                    pairs.extend(stage.sends(step, rank).map(|send| (rank, send.to)));
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

/// Everyone's own block, but two halves where a tree is all that cuts the buffer, and one block where nothing does.
fn block_count(kind: CollectiveKind, levels: &[Level]) -> u32 {
    let by_tree = |level: &Level| level.algorithm == Algorithm::Tree;
    match kind {
        CollectiveKind::Broadcast if levels.iter().any(by_tree) => 2,
        CollectiveKind::Broadcast => 1,
        _ => levels.iter().map(|level| if by_tree(level) { 2 } else { level.ranks }).product(),
    }
}

fn stages(kind: CollectiveKind, levels: &[Level], blocks: u32) -> Vec<Stage> {
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
                scatter.push(Stage { sources: stride, ..stage(all_to_all(algorithm), false) });
            }
            CollectiveKind::Broadcast => gather.push(Stage {
                block_stride: 1,
                radix: blocks,
                rooted: true,
                ..stage(broadcast(algorithm), false)
            }),
        }
        stride *= ranks;
    }
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
