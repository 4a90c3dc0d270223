//! An individual of the population: an allocation as the cells that are not empty, and what is known of its rows.

use std::iter;
use std::ops::Range;

use crate::matrix::Cell;

/// A valid allocation. Its cells are few: a job is on few of the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Individual {
    /// By job, then by node.
    cells: Vec<Placed>,
    /// By job.
    rows: Vec<Row>,
    pub(crate) fitness: f64,
    /// By which equal allocations are recognised: unequal ones share it with a probability of about 2⁻⁶⁴.
    pub(crate) fingerprint: u64,
}

/// Workers of a job on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) job: u32,
    pub(crate) node: u32,
    pub(crate) workers: u8,
    /// Whether the job is on several nodes.
    pub(crate) distributed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// The index behind its last cell.
    end: usize,
    workers: u32,
    /// Its term in the fitness.
    term: f64,
    /// The sum of the hashes of its cells.
    hash: u64,
}

impl Individual {
    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.rows.clear();
    }

    /// Appends the row of the next job, of `workers` in all, with its term in the fitness.
    pub(crate) fn push(
        &mut self,
        row: impl Iterator<Item = Cell>,
        is_distributed: bool,
        workers: u32,
        term: f64,
    ) {
        let (job, start) = (self.rows.len(), self.cells.len());
        self.cells.extend(row.map(|cell| placed(job, cell, is_distributed)));
        let hash = self.cells[start..].iter().map(hash).fold(0, u64::wrapping_add);
        self.rows.push(Row { end: self.cells.len(), workers, term, hash });
    }

    /// Appends the rows of the next jobs, which are those of `parent`.
    pub(crate) fn push_from(&mut self, parent: &Self, jobs: Range<usize>) {
        let (start, before) = (parent.start(jobs.start), self.cells.len());
        self.cells.extend_from_slice(parent.cells(jobs.clone()));
        let moved = |row: &Row| Row { end: row.end - start + before, ..*row };
        self.rows.extend(parent.rows[jobs].iter().map(moved));
    }

    /// The terms of all jobs in the fitness.
    pub(crate) fn terms(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().map(|row| row.term)
    }

    /// The hash of the allocation.
    pub(crate) fn hash(&self) -> u64 {
        self.rows.iter().map(|row| row.hash).fold(0, u64::wrapping_add)
    }

    /// The nodes where a job has workers, in ascending order.
    pub(crate) fn row(&self, job: usize) -> impl Iterator<Item = Cell> {
        self.cells(job..job + 1).iter().map(|cell| (cell.node as usize, u32::from(cell.workers)))
    }

    /// The cells of some jobs.
    pub(crate) fn cells(&self, jobs: Range<usize>) -> &[Placed] {
        &self.cells[self.start(jobs.start)..self.start(jobs.end)]
    }

    /// The workers of a job, and the number of its nodes.
    pub(crate) fn sums(&self, job: usize) -> (u32, usize) {
        (self.rows[job].workers, self.rows[job].end - self.start(job))
    }

    fn start(&self, job: usize) -> usize {
        job.checked_sub(1).map_or(0, |last| self.rows[last].end)
    }
}

fn placed(job: usize, (node, workers): Cell, distributed: bool) -> Placed {
    let number = |index: usize| u32::try_from(index).expect("memory has room for fewer");
    let workers = u8::try_from(workers).expect("no more than the node has");
    Placed { job: number(job), node: number(node), workers, distributed }
}

/// A hash of a cell. Their sum does not depend on an order, so that the sums of rows add up to that of an allocation.
fn hash(cell: &Placed) -> u64 {
    // The output function of SplitMix64, as in `hocket_des::stream`. The bits of job and node overlap only in clusters of
    // more than 16 million nodes.
    let word = (u64::from(cell.job) << 32) ^ (u64::from(cell.node) << 8) ^ u64::from(cell.workers);
    let mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The parents of a child: its rows before `point` are from `first`, the others from `second`, before they are changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parents<'a> {
    pub(crate) first: &'a Individual,
    pub(crate) second: &'a Individual,
    pub(crate) point: usize,
}

impl<'a> Parents<'a> {
    /// The parent from which the row of `job` is, and the end of the rows from it.
    fn of(&self, job: usize) -> (&'a Individual, usize) {
        if job < self.point { (self.first, self.point) } else { (self.second, usize::MAX) }
    }

    /// The row of `job`.
    pub(crate) fn row(&self, job: usize) -> impl Iterator<Item = Cell> {
        self.of(job).0.row(job)
    }
}

/// Consecutive jobs, as [`runs`] yields them.
pub(crate) enum Run<'a> {
    /// One job.
    Changed(usize),
    /// Jobs with the rows of one parent.
    Unchanged(&'a Individual, Range<usize>),
}

/// All jobs in order. By job, `changed` tells whether its row may differ from that of `parents`; without these, all are
/// changed.
pub(crate) fn runs<'a>(
    parents: Option<Parents<'a>>,
    changed: &[bool],
) -> impl Iterator<Item = Run<'a>> {
    let mut next = 0;
    iter::from_fn(move || {
        let job = next;
        let changed_here = *changed.get(job)?;
        let Some(parents) = parents.filter(|_| !changed_here) else {
            next += 1;
            return Some(Run::Changed(job));
        };
        let (parent, until) = parents.of(job);
        let same = changed[job..until.min(changed.len())].iter();
        next += same.take_while(|changed| !**changed).count();
        Some(Run::Unchanged(parent, job..next))
    })
}
