//! The demand of jobs on one link or GPU over its unified circle, and by how much it exceeds the
//! capacity under given time-shifts: exact, in integers, with shifts in picoseconds.

use hocket_scenario::Profile;

use crate::arcs::{Arc, compute_arcs, sending_arcs};
use crate::error::CompatError;
use crate::perimeter::unified_perimeter;
use crate::problem::JointLink;

/// The demand of jobs on one link or GPU. A job is identified by its place among these jobs.
pub(crate) struct Demand {
    perimeter_ps: u64,
    /// Bits per second, or a number of jobs.
    capacity: u64,
    jobs: Vec<JobDemand>,
}

struct JobDemand {
    period_ps: u64,
    arcs: Vec<Arc>,
}

/// Where demand rises or falls, ordered as the sweep visits them: at equal positions, falls come
/// before rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    at_ps: u64,
    rises: bool,
    height: u64,
}

impl Demand {
    /// The demand on `link`, by place in its crossings; `strict` counts jobs instead of demand.
    ///
    /// # Errors
    /// If the capacity is zero, a job does not exist, the periods have no usable common multiple,
    /// or demands do not add up within 64 bits.
    pub(crate) fn on_link(
        jobs: &[Profile],
        link: &JointLink,
        strict: bool,
    ) -> Result<Self, CompatError> {
        if link.capacity.is_zero() {
            return Err(CompatError::ZeroCapacity);
        }
        let mut profiles = Vec::new();
        let mut demands = Vec::new();
        for &(job, flows) in &link.crossings {
            let profile = known(jobs, job)?;
            let arcs = sending_arcs(profile, flows, strict)?;
            demands.push(JobDemand { period_ps: profile.period().as_ps(), arcs });
            profiles.push(profile.clone());
        }
        // If even the sum of all peaks fits in 64 bits, the sweep can add demands without checks.
        let peaks = demands.iter().map(|job| job.arcs.iter().map(|arc| arc.height).max());
        peaks.flatten().try_fold(0u64, u64::checked_add).ok_or(CompatError::Overflow)?;
        let capacity = if strict { 1 } else { link.capacity.as_bps() };
        Ok(Self { perimeter_ps: unified_perimeter(&profiles)?.as_ps(), capacity, jobs: demands })
    }

    /// The demand on a GPU that the jobs of `group` share, by place in the group: only one of them
    /// can compute at a time.
    ///
    /// # Errors
    /// If a job does not exist, or the periods have no usable common multiple.
    pub(crate) fn on_gpu(jobs: &[Profile], group: &[usize]) -> Result<Self, CompatError> {
        let profiles: Vec<Profile> =
            group.iter().map(|job| known(jobs, *job).cloned()).collect::<Result<_, _>>()?;
        Ok(Self {
            perimeter_ps: unified_perimeter(&profiles)?.as_ps(),
            capacity: 1,
            jobs: profiles.iter().map(JobDemand::computing).collect(),
        })
    }

    /// The score (Equation 2) if the job at place j is delayed by `shifts_ps[j]`.
    pub(crate) fn score(&self, shifts_ps: &[u64]) -> f64 {
        1.0 - self.shortfall(shifts_ps)
    }

    /// 1 − the score.
    pub(crate) fn shortfall(&self, shifts_ps: &[u64]) -> f64 {
        let circle = self.perimeter_ps as f64 * self.capacity as f64;
        self.excess(shifts_ps) as f64 / circle
    }

    /// Equation 1 integrated over the circle, in picoseconds × units of capacity.
    pub(crate) fn excess(&self, shifts_ps: &[u64]) -> u128 {
        let mut edges: Vec<Edge> = Vec::new();
        for (job, shift_ps) in self.jobs.iter().zip(shifts_ps) {
            job.push_edges(*shift_ps, self.perimeter_ps, &mut edges);
        }
        // Falls first: demand then never exceeds the sum of peaks. It never falls below 0 either,
        // since every fall has its rise at an earlier position.
        edges.sort_unstable();
        let mut demand = 0u64;
        let mut position = 0u64;
        let mut total = 0u128;
        for Edge { at_ps, rises, height } in edges {
            total +=
                u128::from(at_ps - position) * u128::from(demand.saturating_sub(self.capacity));
            position = at_ps;
            demand = if rises { demand + height } else { demand - height };
        }
        total
    }

    /// The number of edges that [`excess`](Self::excess) visits.
    pub(crate) fn edges(&self) -> usize {
        let rounds = |job: &JobDemand| (self.perimeter_ps / job.period_ps) as usize;
        self.jobs.iter().map(|job| 2 * job.arcs.len() * rounds(job)).sum()
    }

    /// The times within its period at which the demand of the job at `place` changes, ascending.
    pub(crate) fn edges_ps(&self, place: usize) -> Vec<u64> {
        let arcs = self.jobs[place].arcs.iter();
        let mut edges: Vec<u64> = arcs.flat_map(|arc| [arc.start, arc.end]).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

impl JobDemand {
    fn computing(profile: &Profile) -> Self {
        Self { period_ps: profile.period().as_ps(), arcs: compute_arcs(profile) }
    }

    fn push_edges(&self, shift_ps: u64, perimeter_ps: u64, edges: &mut Vec<Edge>) {
        let mut push = |start_ps: u64, end_ps: u64, height: u64| {
            edges.push(Edge { at_ps: start_ps, rises: true, height });
            edges.push(Edge { at_ps: end_ps, rises: false, height });
        };
        for arc in &self.arcs {
            let first = (arc.start + shift_ps % self.period_ps) % self.period_ps;
            for round in 0..perimeter_ps / self.period_ps {
                let start = first + round * self.period_ps;
                let end = start + (arc.end - arc.start);
                push(start, end.min(perimeter_ps), arc.height);
                // The sweep starts at 0, so an arc across the seam of the circle becomes two.
                if end > perimeter_ps {
                    push(0, end - perimeter_ps, arc.height);
                }
            }
        }
    }
}

fn known(jobs: &[Profile], job: usize) -> Result<&Profile, CompatError> {
    jobs.get(job).ok_or(CompatError::UnknownJob { job, jobs: jobs.len() })
}
