//! A circle divided into cells, and the demand of jobs at rotations by whole sectors.

use num_traits::PrimInt;

/// The circle divided into sectors, and each sector into the same cells.
pub(super) struct Grid<W> {
    pub(super) cells: usize,
    /// Cells per sector: a rotation by one sector moves an arc by this many cells.
    pub(super) stride: usize,
    pub(super) capacities: Vec<W>,
    /// Per resource and cell: the cell's width × the resource's weight.
    pub(super) weights: Vec<Vec<W>>,
    pub(super) jobs: Vec<GridJob<W>>,
}

#[derive(PartialEq)]
pub(super) struct GridJob<W> {
    pub(super) rotations: usize,
    /// Cells in one period of the job.
    pub(super) fold: usize,
    pub(super) bands: Vec<Band<W>>,
    /// The objective if all demand of the job were excess.
    pub(super) demand: W,
}

/// All arcs of one height that a job has on one resource.
#[derive(PartialEq)]
pub(super) struct Band<W> {
    pub(super) resource: usize,
    pub(super) height: W,
    /// The first cell of each and the one after its last, within one period.
    pub(super) arcs: Vec<(usize, usize)>,
}

/// Prices of free capacity are in units of 1 ÷ this.
pub(super) const WHOLE: u8 = 64;

/// Integers wide enough for a grid's sums.
pub(super) trait Amount: PrimInt + std::fmt::Debug {}
impl<T: PrimInt + std::fmt::Debug> Amount for T {}

/// A value by resource and cell.
pub(super) type Cells<W> = Vec<Vec<W>>;

impl<W: Amount> Grid<W> {
    pub(super) fn zeros(&self) -> Cells<W> {
        self.capacities.iter().map(|_| vec![W::zero(); self.cells]).collect()
    }

    /// Working memory for [`Self::weigh`].
    pub(super) fn prefix(&self) -> Vec<W> {
        vec![W::zero(); 2 * self.cells + 1]
    }

    /// Demand − capacity without any job.
    pub(super) fn empty(&self) -> Cells<W> {
        self.capacities.iter().map(|capacity| vec![W::zero() - *capacity; self.cells]).collect()
    }

    /// The objective of jobs that together have this demand − capacity.
    pub(super) fn excess(&self, surplus: &Cells<W>) -> W {
        let cells = surplus.iter().zip(&self.weights).flat_map(|(s, w)| s.iter().zip(w));
        cells.fold(W::zero(), |sum, (surplus, weight)| sum + *weight * (*surplus).max(W::zero()))
    }

    pub(super) fn add(&self, surplus: &mut Cells<W>, job: usize, rotation: usize) {
        self.for_ranges(job, rotation, |resource, height, range| {
            for cell in &mut surplus[resource][range] {
                *cell = *cell + height;
            }
        });
    }

    pub(super) fn remove(&self, surplus: &mut Cells<W>, job: usize, rotation: usize) {
        self.for_ranges(job, rotation, |resource, height, range| {
            for cell in &mut surplus[resource][range] {
                *cell = *cell - height;
            }
        });
    }

    /// Calls `visit` with resource, height and cells of each arc of `job`, in all its rounds.
    pub(super) fn for_ranges(
        &self,
        job: usize,
        rotation: usize,
        mut visit: impl FnMut(usize, W, std::ops::Range<usize>),
    ) {
        let GridJob { fold, bands, .. } = &self.jobs[job];
        for Band { resource, height, arcs } in bands {
            for &(start, end) in arcs {
                for round in 0..self.cells / fold {
                    let from = (start + rotation * self.stride) % fold + round * fold;
                    let to = from + (end - start);
                    visit(*resource, *height, from..to.min(self.cells));
                    if to > self.cells {
                        visit(*resource, *height, 0..to - self.cells);
                    }
                }
            }
        }
    }

    /// Calculates the worth of the free capacity that `job` uses at each of `rotations`, where
    /// `worth` is that of one unit in each cell, and writes it to `used`, by rotation. If the worth
    /// is [`Self::weights`], the job's demand minus this is the growth of the objective.
    ///
    /// What a job uses of a cell depends only on the height of its arc, so one prefix sum serves all
    /// rotations of a band.
    pub(super) fn weigh(
        &self,
        surplus: &Cells<W>,
        worth: &Cells<W>,
        job: usize,
        rotations: &[usize],
        prefix: &mut [W],
        used: &mut [W],
    ) {
        let GridJob { fold, bands, .. } = &self.jobs[job];
        for rotation in rotations {
            used[*rotation] = W::zero();
        }
        for Band { resource, height, arcs } in bands {
            prefix_used(&surplus[*resource], &worth[*resource], *height, *fold, prefix);
            for &(start, end) in arcs {
                for rotation in rotations {
                    let turn = rotation * self.stride;
                    used[*rotation] = used[*rotation] + prefix[end + turn] - prefix[start + turn];
                }
            }
        }
    }
}

/// Prefix sums of the worth of the free capacity that a demand of `height` uses in a cell and its
/// repetitions in the other periods; over two periods, so that an arc across the end of the first
/// one is a single difference.
pub(super) fn prefix_used<W: Amount>(
    surplus: &[W],
    worth: &[W],
    height: W,
    fold: usize,
    prefix: &mut [W],
) {
    let zero = W::zero();
    let folded = &mut prefix[1..=fold];
    folded.fill(zero);
    for (surplus, worth) in surplus.chunks_exact(fold).zip(worth.chunks_exact(fold)) {
        for ((sum, s), w) in folded.iter_mut().zip(surplus).zip(worth) {
            *sum = *sum + *w * (zero - (*s).min(zero)).min(height);
        }
    }
    prefix[0] = zero;
    let mut sum = zero;
    for value in &mut prefix[1..=fold] {
        sum = sum + *value;
        *value = sum;
    }
    let (first, second) = prefix.split_at_mut(fold + 1);
    for (value, before) in second.iter_mut().zip(&first[1..]) {
        *value = sum + *before;
    }
}
