//! The repair of an allocation after rows were mixed and redrawn. Afterwards, no node has more workers than GPUs, at
//! most one distributed job is on a node (OSDI'21 section 4.2, "interference avoidance"), and each job has a number of
//! workers with which it can run, or none.

use std::mem;

use hocket_des::Stream;
use rand::RngExt;

use crate::draft::Draft;
use crate::problem::PolluxProblem;

/// An allocation under repair.
pub(crate) struct Repair<'a> {
    problem: &'a PolluxProblem,
    draft: &'a mut Draft,
    /// The job that keeps its workers longest: the one that was redrawn, whose new row would otherwise seldom survive.
    first: Option<usize>,
    draw: &'a mut Stream,
}

impl<'a> Repair<'a> {
    /// Begins the repair of `draft`, which must be counted. Its unchanged rows must be of repaired allocations.
    pub(crate) fn new(
        problem: &'a PolluxProblem,
        draft: &'a mut Draft,
        first: Option<usize>,
        draw: &'a mut Stream,
    ) -> Self {
        Self { problem, draft, first, draw }
    }

    /// Gives free GPUs of each node to a random job; or, with equal probability, leaves them all free, since more
    /// workers are not always worth more.
    pub(crate) fn hand_out_or_not(&mut self) {
        if self.draw.random_bool(0.5) {
            return;
        }
        for (node, capacity) in self.problem.capacities.iter().enumerate() {
            let free = u32::from(*capacity).saturating_sub(self.draft.tally.loads[node]);
            let job = self.draw.random_range(0..self.problem.jobs.len());
            if free > 0 && !self.problem.jobs[job].pinned {
                let workers = self.draw.random_range(1..=free);
                self.draft.give(job, node, workers);
            }
        }
    }

    /// Makes the allocation valid. Pinned jobs never lose workers.
    pub(crate) fn repair(mut self) {
        // Sizes come last: both other steps change numbers of workers, but a job that takes a size keeps to their
        // limits.
        for node in 0..self.problem.capacities.len() {
            self.empty_overfull(node);
        }
        for node in 0..self.problem.capacities.len() {
            self.separate_distributed(node);
        }
        for job in 0..self.problem.jobs.len() {
            // A row of a repaired allocation has a size already.
            if self.draft.changed[job] {
                self.take_a_size(job);
            }
        }
    }

    /// Takes workers from random jobs on a node until the rest fits, as in the artifact of OSDI'21.
    fn empty_overfull(&mut self, node: usize) {
        let capacity = u32::from(self.problem.capacities[node]);
        if self.draft.tally.loads[node] <= capacity {
            return;
        }
        let mut others = mem::take(&mut self.draft.list);
        others.clear();
        others.extend(
            self.draft.tally.jobs[node]
                .iter()
                .copied()
                .filter(|job| Some(*job) != self.first && !self.problem.jobs[*job].pinned),
        );
        while self.draft.tally.loads[node] > capacity {
            let place = self.draw.random_range(0..others.len().max(1));
            let job = others.get(place).copied().or(self.first);
            let job = job.expect("pinned jobs alone fit, because they run there");
            self.draft.take(job, node, 1);
            if self.draft.matrix.row(job)[node] == 0 && place < others.len() {
                others.swap_remove(place);
            }
        }
        self.draft.list = others;
    }

    /// Lets one distributed job stay on a node: a pinned one, the first, or a random one.
    fn separate_distributed(&mut self, node: usize) {
        if self.draft.tally.distributed[node] < 2 {
            return;
        }
        let mut here = mem::take(&mut self.draft.list);
        here.clear();
        // The tally may list jobs that have left.
        here.extend(self.draft.tally.jobs[node].iter().copied().filter(|job| {
            self.draft.tally.is_distributed(*job) && self.draft.matrix.row(*job)[node] > 0
        }));
        let pinned = here.iter().find(|job| self.problem.jobs[**job].pinned);
        let first = here.iter().find(|job| Some(**job) == self.first);
        let stays = *pinned.or(first).unwrap_or(&here[self.draw.random_range(0..here.len())]);
        for job in &here {
            if *job != stays && !self.problem.jobs[*job].pinned {
                self.draft.take(*job, node, self.draft.matrix.row(*job)[node]);
            }
        }
        self.draft.list = here;
    }

    /// A job between two of its sizes grows or shrinks to one of them, with equal probability: changes of one worker at
    /// a time would seldom add up to a distant size. In the paper, jobs can run with any number of workers.
    fn take_a_size(&mut self, job: usize) {
        let workers = self.draft.tally.workers[job];
        let (below, above) = self.problem.sizes_around(job, workers);
        let below = below.last().map_or(0, |size| size.workers);
        if workers == below || self.problem.jobs[job].pinned {
            return;
        }
        let grows = above.first().filter(|_| self.draw.random_bool(0.5));
        if !grows.is_some_and(|size| self.grow(job, size.workers - workers)) {
            self.shrink(job, workers - below);
        }
    }

    /// Removes workers at random.
    fn shrink(&mut self, job: usize, by: u32) {
        let mut nodes = mem::take(&mut self.draft.list);
        nodes.clear();
        nodes.extend(self.draft.cells(job).map(|(node, _)| node));
        for _ in 0..by {
            let place = self.draw.random_range(0..nodes.len());
            self.draft.take(job, nodes[place], 1);
            if self.draft.matrix.row(job)[nodes[place]] == 0 {
                nodes.swap_remove(place);
            }
        }
        self.draft.list = nodes;
    }

    /// Adds workers on free GPUs, first on the job's nodes; adds none and returns false if there are too few.
    fn grow(&mut self, job: usize, by: u32) -> bool {
        let capacities = &self.problem.capacities;
        let mut present = mem::take(&mut self.draft.list);
        present.clear();
        present.extend(self.draft.cells(job).map(|(node, _)| node));
        let spreads = self.draft.tally.is_distributed(job);
        let shared = |node: usize| self.draft.tally.distributed[node] > 0;
        // A second node would make the job distributed, also on its first one.
        let may_spread = spreads || !present.iter().any(|node| shared(*node));
        // From a random node on, so that low numbers are not filled first.
        let start = self.draw.random_range(0..capacities.len());
        let free = |node: usize| u32::from(capacities[node]) - self.draft.tally.loads[node];
        let around = (start..capacities.len()).chain(0..start);
        let around = around.take(if may_spread { capacities.len() } else { 0 });
        // Most nodes are full, which is the quickest to find out.
        let others =
            around.filter(|node| free(*node) > 0 && !present.contains(node) && !shared(*node));
        let (mut more, mut left) = (mem::take(&mut self.draft.more), by);
        more.clear();
        for node in present.iter().copied().chain(others) {
            let here = free(node).min(left);
            if here > 0 {
                more.push((node, here));
                left -= here;
            }
            if left == 0 {
                break;
            }
        }
        if left == 0 {
            more.iter().for_each(|(node, workers)| self.draft.give(job, *node, *workers));
        }
        (self.draft.list, self.draft.more) = (present, more);
        left == 0
    }
}
