//! The one form that all solvers read: jobs with periods, and resources (links, or GPUs that jobs
//! share) on which each job occupies arcs of its circle.

use std::collections::BTreeMap;

use hocket_des::{Duration, Rate};
use hocket_scenario::Profile;
use num_integer::Integer;

use crate::arcs::{Arc, compute_arcs, sending_arcs};
use crate::error::CompatError;
use crate::perimeter::unified_perimeter;

/// Jobs that share one link (NSDI'24 Table 1: `J^l`, `bw_circle_j`, `C^l`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LinkProblem {
    /// The link's capacity, `C^l`.
    pub capacity: Rate,
    /// The demand of each job.
    pub jobs: Vec<Profile>,
    /// Jobs (indices into `jobs`) that share a GPU: within a group, compute phases (all that is not
    /// an Up phase) may not overlap (HotNets'22 section 5, "GPU multi-tenancy").
    pub gpu_groups: Vec<Vec<usize>>,
}

/// Jobs that share several links and get one shift each, the cluster-wide form of HotNets'22
/// section 5: the perimeter is a common multiple of all their periods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointProblem {
    /// The demand of each job at one NIC.
    pub jobs: Vec<Profile>,
    /// The links that jobs cross.
    pub links: Vec<JointLink>,
    /// As in [`LinkProblem::gpu_groups`].
    pub gpu_groups: Vec<Vec<usize>>,
}

/// A link in a [`JointProblem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointLink {
    /// The link's capacity.
    pub capacity: Rate,
    /// The jobs that cross it, each with its number of flows: a job's demand on the link is its
    /// profile × flows.
    pub crossings: Vec<(usize, u32)>,
    /// The number of links of the fabric that this one represents: its weight in the mean score.
    pub multiplicity: u32,
}

/// A link or a GPU, for which jobs compete.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) capacity: u64,
    /// The objective per unit of excess and tick.
    pub(crate) weight: u128,
    /// By job; empty where the job does not use the resource.
    pub(crate) arcs: Vec<Vec<Arc>>,
}

/// Minimise the weighted excess over all resources by one shift per job.
///
/// Times are in units of their greatest common divisor, the tick, and heights in units of theirs:
/// small numbers keep sums exact and fast.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) tick_ps: u64,
    pub(crate) perimeter: u64,
    pub(crate) periods: Vec<u64>,
    pub(crate) resources: Vec<Resource>,
    /// A solution whose objective reaches this lets jobs on one GPU compute at the same time.
    pub(crate) forbidden: u128,
    /// score = 1 − objective ÷ `scale`.
    pub(crate) scale: u128,
}

/// Below this no sum of a search overflows: even two objectives add up in 128 bits with a sign.
const MOST_EXCESS: u128 = 1 << 126;

impl Problem {
    /// The same problem with each tick divided into `parts`, if no sum of a search can overflow
    /// then. `tick_ps` remains the length of an undivided tick.
    pub(crate) fn refined(&self, parts: u64) -> Option<Self> {
        let mut finer = self.clone();
        finer.perimeter = self.perimeter.checked_mul(parts)?;
        finer.scale = self.scale.checked_mul(u128::from(parts))?;
        finer.forbidden = self.forbidden.checked_mul(u128::from(parts))?;
        for period in &mut finer.periods {
            *period *= parts;
        }
        for arc in finer.resources.iter_mut().flat_map(|each| each.arcs.iter_mut().flatten()) {
            arc.start *= parts;
            arc.end *= parts;
        }
        worst(&finer.resources, finer.perimeter).filter(|worst| *worst < MOST_EXCESS)?;
        Some(finer)
    }
}

impl LinkProblem {
    /// This problem in the form that the solvers read; `strict` counts jobs instead of demand, so
    /// that a score of 1 means at most one job at any point of the circle (HotNets'22 section 3).
    pub(crate) fn build(&self, strict: bool) -> Result<Problem, CompatError> {
        let link = JointLink {
            capacity: self.capacity,
            crossings: (0..self.jobs.len()).map(|job| (job, 1)).collect(),
            multiplicity: 1,
        };
        let joint = JointProblem {
            jobs: self.jobs.clone(),
            links: vec![link],
            gpu_groups: self.gpu_groups.clone(),
        };
        joint.build(strict)
    }
}

impl JointProblem {
    /// This problem in the form that the solvers read; `strict` as for [`LinkProblem::build`].
    pub(crate) fn build(&self, strict: bool) -> Result<Problem, CompatError> {
        self.check_names()?;
        let Self { jobs, links, gpu_groups } = self;
        let perimeter = unified_perimeter(jobs)?.as_ps();
        let tick_ps = edges(jobs).fold(0, |gcd, edge| edge.gcd(&gcd));
        let unit_bps = links
            .iter()
            .map(|link| link.capacity.as_bps())
            .chain(jobs.iter().flat_map(|job| job.phases().iter().map(|p| p.rate.as_bps())))
            .fold(0, |gcd, rate| rate.gcd(&gcd));
        let capacity =
            |link: &JointLink| if strict { 1 } else { link.capacity.as_bps() / unit_bps };
        let in_units = |arc: Arc, unit: u64| Arc {
            start: arc.start / tick_ps,
            end: arc.end / tick_ps,
            height: arc.height / unit,
        };
        let sending = |arc: Arc| in_units(arc, if strict { 1 } else { unit_bps });
        // The objective sums excess ÷ capacity over links: the common multiple keeps it in
        // integers.
        let common = links
            .iter()
            .try_fold(1u128, |lcm, link| checked_lcm(lcm, u128::from(capacity(link))))
            .ok_or(CompatError::Overflow)?;
        let mut resources: Vec<Resource> = links
            .iter()
            .map(|link| {
                Ok(Resource {
                    capacity: capacity(link),
                    weight: u128::from(link.multiplicity) * common / u128::from(capacity(link)),
                    arcs: link_arcs(jobs, link, strict, sending)?,
                })
            })
            .collect::<Result<_, CompatError>>()?;
        let perimeter = perimeter / tick_ps;
        let links_in_all: u128 = links.iter().map(|link| u128::from(link.multiplicity)).sum();
        let scale = common
            .checked_mul(u128::from(perimeter))
            .and_then(|product| product.checked_mul(links_in_all))
            .ok_or(CompatError::Overflow)?;
        // One tick of overlap on a GPU outweighs whatever happens on links, so a minimum avoids it
        // if any shifts do.
        let forbidden = worst(&resources, perimeter).ok_or(CompatError::Overflow)? + 1;
        resources.extend(gpu_groups.iter().map(|group| Resource {
            capacity: 1,
            weight: forbidden,
            arcs: gpu_arcs(jobs, group, |arc| in_units(arc, 1)),
        }));
        // Checked here once, so that the searches can add without checks.
        worst(&resources, perimeter)
            .filter(|worst| *worst < MOST_EXCESS)
            .ok_or(CompatError::Overflow)?;
        let periods = jobs.iter().map(|job| job.period().as_ps() / tick_ps).collect();
        Ok(Problem { tick_ps, perimeter, periods, resources, forbidden, scale })
    }

    fn check_names(&self) -> Result<(), CompatError> {
        let Self { jobs, links, gpu_groups } = self;
        if jobs.is_empty() {
            return Err(CompatError::NoJobs);
        }
        if links.iter().all(|link| link.crossings.is_empty() || link.multiplicity == 0) {
            return Err(CompatError::NoLinks);
        }
        if links.iter().any(|link| link.capacity.is_zero()) {
            return Err(CompatError::ZeroCapacity);
        }
        let crossing = links.iter().flat_map(|link| link.crossings.iter().map(|(job, _)| *job));
        match crossing.chain(gpu_groups.iter().flatten().copied()).find(|job| *job >= jobs.len()) {
            Some(job) => Err(CompatError::UnknownJob { job, jobs: jobs.len() }),
            None => Ok(()),
        }
    }
}

impl Problem {
    /// The number of a job's iterations on the circle, `r_j`.
    pub(crate) fn rounds(&self, job: usize) -> u64 {
        self.perimeter / self.periods[job]
    }

    /// An objective below which no shifts lie: each resource gets its whole demand, and has room for
    /// no more than its capacity.
    pub(crate) fn least_excess(&self) -> u128 {
        let excess = |resource: &Resource| {
            let demand_of = |(job, arcs): (usize, &Vec<Arc>)| {
                let once: u128 =
                    arcs.iter().map(|a| u128::from(a.end - a.start) * u128::from(a.height)).sum();
                once * u128::from(self.rounds(job))
            };
            let demand: u128 = resource.arcs.iter().enumerate().map(demand_of).sum();
            let room = u128::from(resource.capacity) * u128::from(self.perimeter);
            resource.weight * demand.saturating_sub(room)
        };
        self.resources.iter().map(excess).sum()
    }

    pub(crate) fn score(&self, objective: f64) -> f64 {
        1.0 - objective / self.scale as f64
    }

    pub(crate) fn jobs(&self) -> usize {
        self.periods.len()
    }
}

/// All times of the jobs on their own circles, in picoseconds.
fn edges(jobs: &[Profile]) -> impl Iterator<Item = u64> {
    jobs.iter().flat_map(|job| {
        let phases = job.phases().iter().flat_map(|phase| [phase.start, phase.end()]);
        phases.chain([job.period()]).map(Duration::as_ps)
    })
}

/// An objective that no shifts exceed: every demand at every time. `None` if it exceeds 128 bits.
fn worst(resources: &[Resource], perimeter: u64) -> Option<u128> {
    resources.iter().try_fold(0u128, |sum, resource| {
        let demand: u128 = resource.arcs.iter().flatten().map(|arc| u128::from(arc.height)).sum();
        let most = demand.checked_add(u128::from(resource.capacity))?;
        sum.checked_add(most.checked_mul(resource.weight)?.checked_mul(u128::from(perimeter))?)
    })
}

fn link_arcs(
    jobs: &[Profile],
    link: &JointLink,
    strict: bool,
    scaled: impl Fn(Arc) -> Arc,
) -> Result<Vec<Vec<Arc>>, CompatError> {
    let mut arcs = vec![Vec::new(); jobs.len()];
    // The solvers rely on arcs of one job that never overlap: a job that is listed twice becomes
    // one with the sum of flows.
    let mut flows_by_job: BTreeMap<usize, u32> = BTreeMap::new();
    for &(job, flows) in &link.crossings {
        let sum = flows_by_job.entry(job).or_default();
        *sum = sum.checked_add(flows).ok_or(CompatError::Overflow)?;
    }
    for (job, flows) in flows_by_job.into_iter().filter(|(_, flows)| *flows > 0) {
        arcs[job] = sending_arcs(&jobs[job], flows, strict)?.into_iter().map(&scaled).collect();
    }
    Ok(arcs)
}

fn gpu_arcs(jobs: &[Profile], group: &[usize], scaled: impl Fn(Arc) -> Arc) -> Vec<Vec<Arc>> {
    let mut arcs = vec![Vec::new(); jobs.len()];
    for &job in group {
        arcs[job] = compute_arcs(&jobs[job]).into_iter().map(&scaled).collect();
    }
    arcs
}

/// The least common multiple; `None` if it exceeds 128 bits.
pub(crate) fn checked_lcm(a: u128, b: u128) -> Option<u128> {
    // Divided first, so that only the result itself can overflow.
    (a / a.gcd(&b)).checked_mul(b)
}
