//! The double binary tree: two binary trees over the same ranks. An inner rank of one is a leaf of the other, so that
//! both directions of every NIC are used (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan", Parallel Computing 35, 2009).

/// Two trees over `ranks` ranks. Both have the shape of NCCL's `ncclGetBtree`: label 0 is the root and has one child, and
/// a label `x > 0` with `k` trailing zero bits is `k` levels above the leaves. They differ in the assignment of labels to
/// ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DoubleTree {
    ranks: u32,
    /// Whether rank 0 is the root of both trees, as a broadcast requires.
    rooted: bool,
}

/// Which of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Labels are ranks.
    First,
    /// As in NCCL's `ncclGetDtree`, labels are the ranks mirrored (an even number of ranks) or shifted by one (an odd
    /// number), so that even ranks get odd labels. The exception is rank 0 of an odd number without a fixed root: its
    /// label is even, and it forwards data in both trees.
    Second,
}

impl Tree {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];
}

impl DoubleTree {
    /// Two trees over at least two ranks.
    pub(super) const fn new(ranks: u32, rooted: bool) -> Self {
        Self { ranks, rooted }
    }

    /// Steps from the lowest leaves to the root.
    pub(super) const fn depth(self) -> u32 {
        u32::BITS - (self.ranks - 1).leading_zeros()
    }

    /// The level of the edge from `rank` to its parent, counted from the lowest leaves, and the parent; `None` for the root.
    pub(super) fn parent(self, tree: Tree, rank: u32) -> Option<(u32, u32)> {
        let label = self.label(tree, rank);
        if label == 0 {
            return None;
        }
        let level = label.trailing_zeros();
        let lowest = 1 << level;
        let up = (label ^ lowest) | (lowest << 1);
        // Where the tree is cut off on the right, the regular parent does not exist; the one on the left takes its place.
        let parent = if up < self.ranks { up } else { label ^ lowest };
        Some((level, self.rank(tree, parent)))
    }

    /// The children of `rank` with an edge of this level, at most one on each side.
    pub(super) fn children(self, tree: Tree, rank: u32, level: u32) -> [Option<u32>; 2] {
        let label = self.label(tree, rank);
        let height = if label == 0 { self.depth() } else { label.trailing_zeros() };
        if level >= height {
            return [None; 2];
        }
        let reach = 1 << level;
        let next_below = level + 1 == height;
        let before = (next_below && label != 0).then(|| self.rank(tree, label - reach));
        // Where the tree is cut off on the right, the highest label that exists replaces the regular child.
        let highest = next_below || label + 2 * reach >= self.ranks;
        let after = (highest && label + reach < self.ranks).then(|| self.rank(tree, label + reach));
        [before, after]
    }

    // With a fixed root, the other ranks are mirrored or shifted among themselves, which exchanges the two cases: they are
    // odd in number where `n` is even.
    fn label(self, tree: Tree, rank: u32) -> u32 {
        let n = self.ranks;
        match (tree, self.rooted) {
            (Tree::First, _) => rank,
            (Tree::Second, false) if n.is_multiple_of(2) => n - 1 - rank,
            (Tree::Second, false) => (rank + n - 1) % n,
            (Tree::Second, true) if rank == 0 => 0,
            (Tree::Second, true) if n % 2 == 1 => n - rank,
            (Tree::Second, true) if rank == 1 => n - 1,
            (Tree::Second, true) => rank - 1,
        }
    }

    // The inverse of `label`.
    fn rank(self, tree: Tree, label: u32) -> u32 {
        let n = self.ranks;
        match (tree, self.rooted) {
            (Tree::First, _) => label,
            (Tree::Second, false) if n.is_multiple_of(2) => n - 1 - label,
            (Tree::Second, false) => (label + 1) % n,
            (Tree::Second, true) if label == 0 => 0,
            (Tree::Second, true) if n % 2 == 1 => n - label,
            (Tree::Second, true) if label == n - 1 => 1,
            (Tree::Second, true) => label + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(trees: DoubleTree, tree: Tree, rank: u32) -> Vec<u32> {
        (0..trees.depth())
            .rev()
            .flat_map(|level| trees.children(tree, rank, level))
            .flatten()
            .collect()
    }

    #[test]
    fn the_trees_of_eight_ranks_are_those_of_nccl() {
        // The picture in NCCL's `trees.cc`: 0 above 4, 4 above 2 and 6, odd ranks are leaves.
        let trees = DoubleTree::new(8, false);
        assert_eq!(children(trees, Tree::First, 0), [4]);
        assert_eq!(children(trees, Tree::First, 4), [2, 6]);
        assert_eq!(children(trees, Tree::First, 6), [5, 7]);
        // Mirrored.
        assert_eq!(children(trees, Tree::Second, 7), [3]);
        assert_eq!(children(trees, Tree::Second, 3), [5, 1]);
    }

    #[test]
    fn six_ranks_cut_the_tree_off_on_the_right() {
        let trees = DoubleTree::new(6, false);
        assert_eq!(children(trees, Tree::First, 4), [2, 5]);
        assert_eq!(trees.parent(Tree::First, 5), Some((0, 4)));
    }

    #[test]
    fn every_rank_but_the_root_has_one_parent_that_knows_it() {
        for (ranks, rooted) in (2..=70).flat_map(|ranks| [(ranks, false), (ranks, true)]) {
            let trees = DoubleTree::new(ranks, rooted);
            for tree in Tree::BOTH {
                let mut edges = 0;
                for rank in 0..ranks {
                    edges += children(trees, tree, rank).len();
                    if let Some((level, parent)) = trees.parent(tree, rank) {
                        assert!(trees.children(tree, parent, level).contains(&Some(rank)));
                        let above = trees.parent(tree, parent);
                        assert!(above.is_none_or(|(higher, _)| higher > level));
                    }
                }
                assert_eq!(edges, ranks as usize - 1);
            }
        }
    }

    #[test]
    fn an_inner_rank_of_one_tree_is_a_leaf_of_the_other() {
        for ranks in 2..=70 {
            let rooted = DoubleTree::new(ranks, true);
            let plain = DoubleTree::new(ranks, false);
            for rank in 0..ranks {
                let leaf =
                    |trees| Tree::BOTH.iter().any(|&tree| children(trees, tree, rank).is_empty());
                assert!(leaf(rooted) || rank == 0, "rank {rank} of {ranks}");
                assert!(leaf(plain) || ranks % 2 == 1 && rank == 0, "rank {rank} of {ranks}");
            }
        }
    }
}
