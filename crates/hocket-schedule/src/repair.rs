//! The repair of an allocation after rows were mixed and redrawn. Afterwards, no node has more workers than GPUs, at
//! most one distributed job is on a node (OSDI'21 section 4.2, "interference avoidance"), and each job has a number of
//! workers with which it can run, or none.

use std::mem;

use hocket_des::Stream;
use rand::RngExt;

use crate::matrix::Matrix;
use crate::problem::PolluxProblem;
use crate::tally::Tally;

/// An allocation under repair.
pub(crate) struct Repair<'a> {
    problem: &'a PolluxProblem,
    matrix: &'a mut Matrix,
    /// The job that keeps its workers longest: the one that was redrawn, whose new row would otherwise seldom survive.
    first: Option<usize>,
    /// Counts of `matrix`, updated with every change.
    tally: &'a mut Tally,
    draw: &'a mut Stream,
}

impl<'a> Repair<'a> {
    /// Begins the repair of `matrix`. From here on, `tally` has the counts of `matrix`, also after the repair.
    pub(crate) fn new(
        problem: &'a PolluxProblem,
        matrix: &'a mut Matrix,
        first: Option<usize>,
        tally: &'a mut Tally,
        draw: &'a mut Stream,
    ) -> Self {
        tally.count(matrix);
        Self { problem, matrix, first, tally, draw }
    }

    /// Gives free GPUs of each node to a random job; or, with equal probability, leaves them all free, since more
    /// workers are not always worth more.
    pub(crate) fn hand_out_or_not(&mut self) {
        if self.draw.random_bool(0.5) {
            return;
        }
        for (node, capacity) in self.problem.capacities.iter().enumerate() {
            let free = u32::from(*capacity).saturating_sub(self.tally.loads[node]);
            let job = self.draw.random_range(0..self.problem.jobs.len());
            if free > 0 && !self.problem.jobs[job].pinned {
                let workers = self.draw.random_range(1..=free);
                self.give(job, node, workers);
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
            self.take_a_size(job);
        }
    }

    /// Takes workers from random jobs on a node until the rest fits, as in the artifact of OSDI'21.
    fn empty_overfull(&mut self, node: usize) {
        let capacity = u32::from(self.problem.capacities[node]);
        if self.tally.loads[node] <= capacity {
            return;
        }
        let here = mem::take(&mut self.tally.jobs[node]);
        let free = here.iter().copied().filter(|job| !self.problem.jobs[*job].pinned);
        let (mut last, mut others): (Vec<usize>, Vec<usize>) =
            free.partition(|job| Some(*job) == self.first);
        while self.tally.loads[node] > capacity {
            // One of both lists has a job: pinned jobs alone fit, because they run there.
            let jobs = if others.is_empty() { &mut last } else { &mut others };
            let place = self.draw.random_range(0..jobs.len());
            let job = jobs[place];
            self.take(job, node, 1);
            if self.matrix.row(job)[node] == 0 {
                jobs.swap_remove(place);
            }
        }
        self.tally.jobs[node] = here;
    }

    /// Lets one distributed job stay on a node: a pinned one, the first, or a random one.
    fn separate_distributed(&mut self, node: usize) {
        if self.tally.distributed[node] < 2 {
            return;
        }
        let here = self.tally.jobs[node].iter().copied();
        // The tally may list jobs that have left.
        let distributed =
            |job: &usize| self.matrix.row(*job)[node] > 0 && self.tally.is_distributed(*job);
        let here: Vec<usize> = here.filter(distributed).collect();
        let pinned = here.iter().find(|job| self.problem.jobs[**job].pinned);
        let first = here.iter().find(|job| Some(**job) == self.first);
        let stays = *pinned.or(first).unwrap_or(&here[self.draw.random_range(0..here.len())]);
        for job in here {
            if job != stays && !self.problem.jobs[job].pinned {
                self.take(job, node, self.matrix.row(job)[node]);
            }
        }
    }

    /// A job between two of its sizes grows or shrinks to one of them, with equal probability: changes of one worker at
    /// a time would seldom add up to a distant size. In the paper, jobs can run with any number of workers.
    fn take_a_size(&mut self, job: usize) {
        let workers = self.tally.workers[job];
        let below = self.problem.size_up_to(job, workers);
        if workers == below || self.problem.jobs[job].pinned {
            return;
        }
        let above = self.problem.size_above(job, workers);
        let grows = above.filter(|_| self.draw.random_bool(0.5));
        if !grows.is_some_and(|size| self.grow(job, size - workers)) {
            self.shrink(job, workers - below);
        }
    }

    /// Removes workers at random.
    fn shrink(&mut self, job: usize, by: u32) {
        let mut nodes: Vec<usize> = self.matrix.cells(job).map(|(node, _)| node).collect();
        for _ in 0..by {
            let place = self.draw.random_range(0..nodes.len());
            self.take(job, nodes[place], 1);
            if self.matrix.row(job)[nodes[place]] == 0 {
                nodes.swap_remove(place);
            }
        }
    }

    /// Adds workers on free GPUs, first on the job's nodes; adds none and returns false if there are too few.
    fn grow(&mut self, job: usize, by: u32) -> bool {
        let capacities = &self.problem.capacities;
        let present: Vec<usize> = self.matrix.cells(job).map(|(node, _)| node).collect();
        let spreads = self.tally.is_distributed(job);
        let shared = |node: usize| self.tally.distributed[node] > 0;
        // A second node would make the job distributed, also on its first one.
        let may_spread = spreads || !present.iter().any(|node| shared(*node));
        // From a random node on, so that low numbers are not filled first.
        let start = self.draw.random_range(0..capacities.len());
        let around = (0..capacities.len()).map(|step| (start + step) % capacities.len());
        let others = around.filter(|node| may_spread && !present.contains(node) && !shared(*node));
        let (mut more, mut left) = (Vec::new(), by);
        for node in present.iter().copied().chain(others) {
            let free = u32::from(capacities[node]) - self.tally.loads[node];
            if free > 0 && left > 0 {
                more.push((node, free.min(left)));
                left -= free.min(left);
            }
        }
        if left == 0 {
            more.into_iter().for_each(|(node, workers)| self.give(job, node, workers));
        }
        left == 0
    }

    fn give(&mut self, job: usize, node: usize, workers: u32) {
        let here = &mut self.matrix.row_mut(job)[node];
        let came = *here == 0;
        *here += u8::try_from(workers).expect("no more than the node has");
        self.tally.loads[node] += workers;
        self.tally.workers[job] += workers;
        if came {
            self.tally.jobs[node].push(job);
            self.tally.spread[job] += 1;
            match self.tally.spread[job] {
                1 => {}
                // With its second node, the job becomes distributed on the first one, too.
                2 => self.matrix.cells(job).for_each(|(node, _)| self.tally.distributed[node] += 1),
                _ => self.tally.distributed[node] += 1,
            }
        }
    }

    fn take(&mut self, job: usize, node: usize, workers: u8) {
        let here = &mut self.matrix.row_mut(job)[node];
        *here -= workers;
        let left = *here == 0;
        self.tally.loads[node] -= u32::from(workers);
        self.tally.workers[job] -= u32::from(workers);
        if left {
            if self.tally.is_distributed(job) {
                self.tally.distributed[node] -= 1;
            }
            self.tally.spread[job] -= 1;
            // On one node that is left, the job no longer counts as distributed.
            if self.tally.spread[job] == 1 {
                self.matrix.cells(job).for_each(|(node, _)| self.tally.distributed[node] -= 1);
            }
        }
    }
}
