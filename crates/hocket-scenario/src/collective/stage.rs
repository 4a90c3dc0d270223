//! The steps of one algorithm on one level of a collective: senders, receivers and blocks of each message.

use super::blocks::Part;
use super::sends::{Around, Send, Sends};
use super::tree::{DoubleTree, Tree};

/// Consecutive steps of a collective that follow one pattern in groups of `ranks` ranks. The ranks of a group differ only
/// in the digit `rank / rank_stride mod ranks`, which identifies them below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) pattern: Pattern,
    pub(super) ranks: u32,
    pub(super) rank_stride: u32,
    /// A rank handles the blocks `b` with `b mod block_stride = rank mod block_stride`; the digit
    /// `b / block_stride mod radix` of a block determines its receiver.
    pub(super) block_stride: u32,
    pub(super) radix: u32,
    /// Whether data that arrives is added.
    pub(super) reduces: bool,
    /// The number of ranks whose blocks a message carries: an all-to-all forwards what inner levels collected.
    pub(super) sources: u32,
    /// Whether only ranks take part whose lower digits are all zero: those that a broadcast from rank 0 has reached.
    pub(super) rooted: bool,
}

/// Which digits each of n ranks sends to which rank in step t. Rank i is the rank of digit i, and its next is i + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// n − 1 steps: i sends i − 1 − t to its next, and i remains with it.
    RingScatter,
    /// n − 1 steps: i sends i − t to its next.
    RingGather,
    /// One step: every rank sends j to each j, beginning with its next.
    Scatter,
    /// One step: i sends i to all others, beginning with its next.
    Gather,
    /// log₂ n steps, farthest partner first: every rank sends the partner's half of what it still keeps.
    Halving,
    /// log₂ n steps, nearest partner first: every rank sends all that it has.
    Doubling,
    /// n − 1 steps: i sends j to j = i + 1 + t.
    Pairwise,
    /// One step for each level of the trees: ranks send to their parents, leaves first.
    Up,
    /// One step for each level of the trees: ranks send to their children, the root first.
    Down,
    /// n − 1 steps: i sends everything to its next in step i.
    Chain,
    /// One step: 0 sends everything to all others.
    FanOut,
}

impl Stage {
    pub(super) fn steps(&self) -> u32 {
        match self.pattern {
            Pattern::RingScatter | Pattern::RingGather | Pattern::Pairwise | Pattern::Chain => {
                self.ranks - 1
            }
            Pattern::Scatter | Pattern::Gather | Pattern::FanOut => 1,
            Pattern::Halving | Pattern::Doubling => self.ranks.ilog2(),
            Pattern::Up | Pattern::Down => self.trees().depth(),
        }
    }

    /// The number of steps from `step` on with the same pairs and message sizes.
    pub(super) fn repeats(&self, step: u32) -> u32 {
        // Only rings send to the same rank in each step.
        match self.pattern {
            Pattern::RingScatter | Pattern::RingGather => self.steps() - step,
            _ => 1,
        }
    }

    /// The level, by its stride, and the number of the set of pairs that its algorithm uses in `step`.
    pub(super) fn lane(&self, step: u32) -> (u32, u32) {
        let pairs = match self.pattern {
            Pattern::RingScatter
            | Pattern::RingGather
            | Pattern::Scatter
            | Pattern::Gather
            | Pattern::FanOut => 0,
            // Doubling has the partners of halving in reverse order.
            Pattern::Halving => self.ranks.ilog2() - 1 - step,
            Pattern::Doubling | Pattern::Pairwise | Pattern::Chain => step,
            // Up and Down use the edges in opposite directions: different queue pairs.
            Pattern::Up => step,
            Pattern::Down => self.steps() + step,
        };
        (self.rank_stride, pairs)
    }

    /// The first step from `step` on in which `rank` sends or receives anything.
    pub(super) fn active_from(&self, step: u32, rank: u32) -> Option<u32> {
        if !self.takes_part(rank) {
            return None;
        }
        let (i, steps) = (self.digit(rank), self.steps());
        // Without this limit, finding the two active steps of each of n ranks would take n² steps.
        let mut left = match self.pattern {
            Pattern::Chain => step.max(i.saturating_sub(1))..steps.min(i + 1),
            _ => step..steps,
        };
        left.find(|&step| self.due(step, rank) > 0 || self.sends(step, rank).len() > 0)
    }

    pub(super) fn sends(&self, step: u32, rank: u32) -> Sends {
        if !self.takes_part(rank) {
            return Sends::none();
        }
        let (n, i) = (self.ranks, self.digit(rank));
        let next = (i + 1) % n;
        let one = |to, first, count| Sends::one(Send { to: self.peer(rank, to), first, count });
        match self.pattern {
            Pattern::RingScatter => one(next, (i + n - 1 - step) % n, 1),
            Pattern::RingGather => one(next, (i + n - step) % n, 1),
            Pattern::Pairwise => {
                let to = (i + 1 + step) % n;
                one(to, to, 1)
            }
            Pattern::Halving => {
                let half = n >> (step + 1);
                let partner = i ^ half;
                // The partner's half begins at its digit with the lower bits cleared.
                one(partner, partner & !(half - 1), half)
            }
            Pattern::Doubling => {
                let reach = 1 << step;
                one(i ^ reach, i & !(reach - 1), reach)
            }
            Pattern::Chain if i == step => one(next, 0, self.radix),
            Pattern::Chain => Sends::none(),
            Pattern::Scatter => self.around(rank, None),
            Pattern::Gather => self.around(rank, Some((i, 1))),
            Pattern::FanOut if i == 0 => self.around(rank, Some((0, self.radix))),
            Pattern::FanOut => Sends::none(),
            Pattern::Up | Pattern::Down => self.tree_sends(step, rank),
        }
    }

    /// The number of messages that `rank` receives in `step`.
    pub(super) fn due(&self, step: u32, rank: u32) -> u32 {
        if !self.takes_part(rank) {
            return 0;
        }
        let i = self.digit(rank);
        match self.pattern {
            Pattern::RingScatter
            | Pattern::RingGather
            | Pattern::Pairwise
            | Pattern::Halving
            | Pattern::Doubling => 1,
            Pattern::Scatter | Pattern::Gather => self.ranks - 1,
            Pattern::Chain => u32::from(i == step + 1),
            Pattern::FanOut => u32::from(i != 0),
            Pattern::Up => {
                let children = Tree::BOTH.map(|tree| self.trees().children(tree, i, step));
                children.iter().flatten().flatten().count() as u32
            }
            Pattern::Down => {
                // Levels are counted from the leaves, and steps from the root.
                let level = self.steps() - 1 - step;
                let parents = Tree::BOTH.map(|tree| self.trees().parent(tree, i));
                parents.iter().flatten().filter(|&&(at, _)| at == level).count() as u32
            }
        }
    }

    /// The blocks that `send` of `rank` carries.
    pub(super) fn part(&self, rank: u32, send: Send) -> Part {
        Part {
            stride: self.block_stride,
            radix: self.radix,
            base: rank % self.block_stride,
            first: send.first,
            count: send.count,
        }
    }

    fn takes_part(&self, rank: u32) -> bool {
        !self.rooted || rank.is_multiple_of(self.rank_stride)
    }

    fn digit(&self, rank: u32) -> u32 {
        rank / self.rank_stride % self.ranks
    }

    fn peer(&self, rank: u32, digit: u32) -> u32 {
        rank - self.digit(rank) * self.rank_stride + digit * self.rank_stride
    }

    fn trees(&self) -> DoubleTree {
        DoubleTree::new(self.ranks, self.rooted)
    }

    /// Messages to all other ranks, beginning with the next, so that in no turn two ranks send to the same one: the digits
    /// `part`, or to each rank its own digit.
    fn around(&self, rank: u32, part: Option<(u32, u32)>) -> Sends {
        Sends::around(Around {
            origin: self.peer(rank, 0),
            stride: self.rank_stride,
            ranks: self.ranks,
            next: (self.digit(rank) + 1) % self.ranks,
            left: self.ranks - 1,
            part,
        })
    }

    fn tree_sends(&self, step: u32, rank: u32) -> Sends {
        let (trees, i) = (self.trees(), self.digit(rank));
        Sends::few((0..).zip(Tree::BOTH).flat_map(|(half, tree)| {
            let receivers = if self.pattern == Pattern::Up {
                let parent = trees.parent(tree, i).filter(|&(level, _)| level == step);
                [parent.map(|(_, parent)| parent), None]
            } else {
                trees.children(tree, i, trees.depth() - 1 - step)
            };
            let send = move |to| Send { to: self.peer(rank, to), first: half, count: 1 };
            receivers.into_iter().flatten().map(send)
        }))
    }
}
