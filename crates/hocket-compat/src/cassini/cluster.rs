//! The cluster-wide form: one shift per job for all links of a connected part of the cluster at
//! once. Jobs that share a GPU do not compute at the same time, and each job's batch size can be
//! chosen (HotNets'22 section 5).
//!
//! A job's position at any time depends on its shift only modulo its period, so a link's score
//! needs only a common multiple of the periods on that link. The search for a proven optimum
//! rotates all jobs on one circle and therefore needs a common multiple of all periods; the climb,
//! which finds good shifts in large parts of a cluster, does not.

use std::collections::BTreeMap;
use std::time::Instant;

use hocket_des::{Duration, Rate, stream};
use hocket_scenario::Profile;
use num_integer::Integer;
use rand::RngExt;
use thiserror::Error;

use crate::commensurate::{commensurate, stretched};
use crate::error::CompatError;
use crate::link_demand::Demand;
use crate::perimeter::unified_perimeter;
use crate::problem::{JointLink, JointProblem};
use crate::search::{Budget, SharedTime, SolveOptions};
use crate::solver::{Solution, solve_joint};

/// Up to this number of jobs, the optimum is searched for and usually proven. The search grows
/// exponentially with the number of jobs: it proves a ring of 6 unlike jobs in 0.4 s, but not one
/// of 7 in 10 s.
pub const PROVABLE_JOBS: usize = 6;

/// The most combinations of batch sizes that are tried.
pub const MAX_COMBINATIONS: u128 = 4_096;

/// The number of random starting points of the climb, besides no shift at all.
const RANDOM_STARTS: u64 = 4;

/// One shift per job, for all links together.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSolution {
    /// The mean score over all links, each counted with its multiplicity.
    pub score: f64,
    /// No shifts reach a higher score than this; if the optimum was searched for, no shifts that
    /// the options' precision allows.
    pub bound: f64,
    /// Whether `score` is proven to be the optimum.
    pub proven_optimal: bool,
    /// By job: the delay of its next iteration, below its period.
    pub time_shifts: Vec<Duration>,
    /// The common multiple of all periods, if there is a usable one.
    pub perimeter: Option<Duration>,
}

/// Jobs with a choice of profiles, one per batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchProblem {
    /// By job, by batch size.
    pub jobs: Vec<Vec<Profile>>,
    /// As in [`JointProblem::links`].
    pub links: Vec<JointLink>,
    /// As in [`JointProblem::gpu_groups`].
    pub gpu_groups: Vec<Vec<usize>>,
    /// The relative error up to which the periods of a combination may be stretched to fit on one
    /// circle, as in [`commensurate()`].
    pub tolerance: f64,
}

/// The best batch sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchChoice {
    /// By job: the index of the chosen profile.
    pub profiles: Vec<usize>,
    /// The shifts for these profiles.
    pub solution: ClusterSolution,
    /// The number of combinations.
    pub combinations: usize,
    /// The number of combinations that were solved; the others were ruled out by their load.
    pub solved: usize,
}

/// Why there is no best choice of batch sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum BatchError {
    #[error("job {job} has no batch size to choose from")]
    NoProfile { job: usize },
    #[error(
        "{combinations} combinations of batch sizes; at most {MAX_COMBINATIONS} are tried: give fewer"
    )]
    TooManyCombinations { combinations: u128 },
    #[error(transparent)]
    Compat(#[from] CompatError),
}

impl ClusterSolution {
    /// By job: its shift as an angle of the circle of all periods, in degrees (Equation 4); `None`
    /// if the periods have no usable common multiple.
    pub fn rotations_deg(&self) -> Option<Vec<f64>> {
        let perimeter_s = self.perimeter?.as_secs_f64();
        let angle = |shift: &Duration| shift.as_secs_f64() / perimeter_s * 360.0;
        Some(self.time_shifts.iter().map(angle).collect())
    }
}

/// One shift per job that maximises the mean score over all links.
///
/// Up to [`PROVABLE_JOBS`] jobs whose periods have a common multiple, this is [`solve_joint`].
/// Otherwise it is a climb: jobs move one at a time to their best shift while the others stay, from
/// several starting points, until no single job can improve. Its result is good, but proven only if
/// it reaches the bound that the load of the links sets. The climb considers all shifts, whatever
/// the precision of the options.
///
/// # Errors
/// As [`solve_joint`], but periods need a usable common multiple only on each
/// link; and [`CompatError::Stopped`] if the climb found no shifts that keep jobs on one
/// GPU apart.
pub fn solve_cluster(
    problem: &JointProblem,
    options: &SolveOptions<'_>,
) -> Result<ClusterSolution, CompatError> {
    let problem = merged(problem);
    let ascent = Ascent::new(&problem, options)?;
    let perimeter = match unified_perimeter(&problem.jobs) {
        Ok(perimeter) => Some(perimeter),
        Err(CompatError::Incommensurate { .. }) => None,
        Err(error) => return Err(error),
    };
    // A climb that follows a search has the time that is left.
    let started = Instant::now();
    if perimeter.is_some() && problem.jobs.len() <= PROVABLE_JOBS {
        match solve_joint(&problem, options) {
            // A sum over many links of unlike capacities may overflow where the sums of single
            // links do not.
            Err(CompatError::Overflow) => {}
            Err(error) => return Err(error),
            // A search that a limit ended may be worse than a climb.
            Ok(solution) => {
                let searched = ascent.with_scores_of_shifts(solution, perimeter);
                let time_limit = options.time_limit.saturating_sub(started.elapsed());
                let options = SolveOptions { time_limit, ..*options };
                let climbed = (!searched.proven_optimal)
                    .then(|| ascent.climb(&problem, perimeter, &options))
                    .and_then(Result::ok)
                    .filter(|climbed| climbed.score > searched.score);
                return Ok(climbed.unwrap_or(searched));
            }
        }
    }
    ascent.climb(&problem, perimeter, options)
}

/// The combination of batch sizes with the best score, and shifts for it; among equals (to 1e-9),
/// the one that is first in lexicographic order. All combinations together have the options' limit
/// of time, each has that of steps.
///
/// # Errors
/// If a job has no profile, or there are more than [`MAX_COMBINATIONS`]; otherwise as
/// [`solve_cluster`], if that fails for every combination.
pub fn choose_batch_sizes(
    problem: &BatchProblem,
    options: &SolveOptions<'_>,
) -> Result<BatchChoice, BatchError> {
    let choices = combinations(&problem.jobs)?;
    let combinations = choices.len();
    let mut failure = None;
    let mut bounded: Vec<(i64, Vec<usize>)> = Vec::new();
    for profiles in choices {
        let bound = problem.with(&profiles).and_then(|joint| {
            check_load(&joint)?;
            Ok(load_bound(&joint, options.strict))
        });
        match bound {
            Ok(bound) => bounded.push((in_billionths(bound), profiles)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    // The most promising first: a good score rules out the rest without solving it.
    bounded.sort_by_key(|(bound, _)| std::cmp::Reverse(*bound));
    let mut best: Option<SolvedCombination> = None;
    let mut solved = 0;
    let time = SharedTime::new(options.time_limit, bounded.len(), 1);
    for (bound, profiles) in bounded {
        let options = SolveOptions { time_limit: time.next(), ..*options };
        // A bound equal to the best score still matters if the combination is first in order.
        if best.as_ref().is_some_and(|best| best.beats(bound, &profiles)) {
            continue;
        }
        solved += 1;
        match problem.with(&profiles).and_then(|joint| solve_cluster(&joint, &options)) {
            Err(error) => failure = failure.or(Some(error)),
            Ok(solution) => {
                let score = in_billionths(solution.score);
                if best.as_ref().is_none_or(|best| !best.beats(score, &profiles)) {
                    best = Some(SolvedCombination { score, profiles, solution });
                }
            }
        }
    }
    match best {
        Some(SolvedCombination { profiles, solution, .. }) => {
            Ok(BatchChoice { profiles, solution, combinations, solved })
        }
        None => Err(failure.expect("a combination was solved or failed").into()),
    }
}

/// A combination of batch sizes, solved.
struct SolvedCombination {
    /// In billionths.
    score: i64,
    profiles: Vec<usize>,
    solution: ClusterSolution,
}

impl SolvedCombination {
    /// Whether it is better than another combination with this score. No two combinations have
    /// equal profiles.
    fn beats(&self, score: i64, profiles: &[usize]) -> bool {
        score < self.score || score == self.score && *self.profiles < *profiles
    }
}

/// A score rounded for comparisons, so that the order of a floating-point sum decides nothing.
fn in_billionths(score: f64) -> i64 {
    (score * 1e9).round() as i64
}

impl BatchProblem {
    /// The problem of one combination, with periods that are fitted to each other.
    fn with(&self, profiles: &[usize]) -> Result<JointProblem, CompatError> {
        let chosen: Vec<&Profile> =
            self.jobs.iter().zip(profiles).map(|(choices, index)| &choices[*index]).collect();
        let periods: Vec<Duration> = chosen.iter().map(|profile| profile.period()).collect();
        let fit = commensurate(&periods, self.tolerance)?;
        Ok(JointProblem {
            jobs: chosen
                .iter()
                .zip(fit.periods)
                .map(|(job, period)| stretched(job, period))
                .collect(),
            links: self.links.clone(),
            gpu_groups: self.gpu_groups.clone(),
        })
    }
}

/// All choices of one profile per job, in lexicographic order.
fn combinations(jobs: &[Vec<Profile>]) -> Result<Vec<Vec<usize>>, BatchError> {
    if let Some(job) = jobs.iter().position(Vec::is_empty) {
        return Err(BatchError::NoProfile { job });
    }
    let combinations =
        jobs.iter().fold(1u128, |product, job| product.saturating_mul(job.len() as u128));
    if combinations > MAX_COMBINATIONS {
        return Err(BatchError::TooManyCombinations { combinations });
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for job in jobs {
        let extend = |prefix: Vec<usize>| {
            (0..job.len()).map(move |choice| prefix.iter().copied().chain([choice]).collect())
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    Ok(all)
}

/// The same problem without repetitions: a job's flows on a link are added up, equal links become
/// one with the sum of their multiplicities, and links that no job crosses are left out.
fn merged(problem: &JointProblem) -> JointProblem {
    let mut multiplicity: BTreeMap<(Rate, Vec<(usize, u32)>), u32> = BTreeMap::new();
    for link in problem.links.iter().filter(|link| link.multiplicity > 0) {
        let mut flows_of: BTreeMap<usize, u32> = BTreeMap::new();
        for &(job, flows) in link.crossings.iter().filter(|(_, flows)| *flows > 0) {
            let sum = flows_of.entry(job).or_default();
            *sum = sum.saturating_add(flows);
        }
        if !flows_of.is_empty() {
            let same = multiplicity.entry((link.capacity, flows_of.into_iter().collect()));
            let sum = same.or_default();
            *sum = sum.saturating_add(link.multiplicity);
        }
    }
    let links = multiplicity
        .into_iter()
        .map(|((capacity, crossings), multiplicity)| JointLink {
            capacity,
            crossings,
            multiplicity,
        })
        .collect();
    let mut gpu_groups = problem.gpu_groups.clone();
    for group in &mut gpu_groups {
        group.sort_unstable();
        group.dedup();
    }
    JointProblem { jobs: problem.jobs.clone(), links, gpu_groups }
}

/// Checks what [`load_bound`] relies on: capacities above 0 and known jobs.
fn check_load(problem: &JointProblem) -> Result<(), CompatError> {
    let jobs = problem.jobs.len();
    if problem.links.iter().any(|link| link.capacity.is_zero()) {
        return Err(CompatError::ZeroCapacity);
    }
    let mut named = problem.links.iter().flat_map(|link| link.crossings.iter());
    match named.find(|(job, _)| *job >= jobs) {
        Some(&(job, _)) => Err(CompatError::UnknownJob { job, jobs }),
        None => Ok(()),
    }
}

/// A score that no shifts exceed: a link's mean excess is at least its mean demand minus its
/// capacity, wherever the demand lies.
pub(super) fn load_bound(problem: &JointProblem, strict: bool) -> f64 {
    let (mut score, mut links) = (0.0, 0.0);
    for link in &problem.links {
        let share = |(job, flows): &(usize, u32)| {
            let profile = &problem.jobs[*job];
            let period_s = profile.period().as_secs_f64();
            if strict {
                return profile.up_time().as_secs_f64() / period_s;
            }
            let bits = |phase: &hocket_scenario::Phase| {
                phase.duration.as_secs_f64() * phase.rate.as_bps() as f64
            };
            let mean_bps = profile.phases().iter().map(bits).sum::<f64>() / period_s;
            mean_bps * f64::from(*flows) / link.capacity.as_bps() as f64
        };
        let load: f64 = link.crossings.iter().map(share).sum();
        // Without `load` − 1, the mean excess that no shift avoids.
        score += f64::from(link.multiplicity) * (2.0 - load).min(1.0);
        links += f64::from(link.multiplicity);
    }
    score / links
}

/// A search that improves one job at a time: coordinate ascent.
struct Ascent {
    /// By job, in picoseconds.
    periods: Vec<u64>,
    resources: Vec<SharedResource>,
    /// By job: indices into `resources`.
    resources_of: Vec<Vec<usize>>,
    /// The number of links, with their multiplicities.
    links: u128,
}

/// One link, or one group of jobs that share a GPU.
struct SharedResource {
    jobs: Vec<usize>,
    demand: Demand,
    /// 0 for a GPU.
    multiplicity: u32,
}

/// The objective, compared in this order: picoseconds of simultaneous computing on a GPU; then 1 −
/// score, summed over links, in units of 1 ÷ [`LOSS_UNITS`]. As integers, so that the order of
/// summation decides nothing.
type Loss = (u128, u128);

impl Ascent {
    fn new(joint: &JointProblem, options: &SolveOptions<'_>) -> Result<Self, CompatError> {
        let mut resources = Vec::new();
        for link in joint.links.iter().filter(|link| !link.crossings.is_empty()) {
            let jobs = link.crossings.iter().map(|(job, _)| *job).collect();
            let demand = Demand::on_link(&joint.jobs, link, options.strict)?;
            resources.push(SharedResource { jobs, demand, multiplicity: link.multiplicity });
        }
        for group in joint.gpu_groups.iter().filter(|group| !group.is_empty()) {
            let demand = Demand::on_gpu(&joint.jobs, group)?;
            resources.push(SharedResource { jobs: group.clone(), demand, multiplicity: 0 });
        }
        let mut resources_of = vec![Vec::new(); joint.jobs.len()];
        for (index, resource) in resources.iter().enumerate() {
            for job in &resource.jobs {
                resources_of[*job].push(index);
            }
        }
        let periods = joint.jobs.iter().map(|job| job.period().as_ps()).collect();
        let links = resources.iter().map(|resource| u128::from(resource.multiplicity)).sum();
        if links == 0 {
            return Err(CompatError::NoLinks);
        }
        Ok(Self { periods, resources, resources_of, links })
    }

    fn climb(
        &self,
        joint: &JointProblem,
        perimeter: Option<Duration>,
        options: &SolveOptions<'_>,
    ) -> Result<ClusterSolution, CompatError> {
        let mut budget = Budget::new(options);
        let (loss, shifts) = (0..=RANDOM_STARTS)
            .map(|start| self.improve(self.start(start), &mut budget))
            .min_by_key(|(loss, _)| *loss)
            .expect("there is a first start");
        if loss.0 > 0 {
            return Err(CompatError::Stopped);
        }
        let score = self.score(loss);
        let bound = load_bound(joint, options.strict).max(score);
        Ok(ClusterSolution {
            score,
            bound,
            proven_optimal: in_billionths(bound) == in_billionths(score),
            time_shifts: shifts.into_iter().map(Duration::from_ps).collect(),
            perimeter,
        })
    }

    /// A solution with the score of its shifts as they are after rounding to picoseconds.
    fn with_scores_of_shifts(
        &self,
        solution: Solution,
        perimeter: Option<Duration>,
    ) -> ClusterSolution {
        let shifts_ps: Vec<u64> = solution.time_shifts.iter().map(|shift| shift.as_ps()).collect();
        let score = self.score(self.loss(0..self.resources.len(), &shifts_ps));
        ClusterSolution {
            score,
            // Rounding may raise the score a little above the bound.
            bound: if solution.proven_optimal { score } else { solution.bound.max(score) },
            proven_optimal: solution.proven_optimal,
            time_shifts: solution.time_shifts,
            perimeter,
        }
    }

    /// The mean score over links.
    fn score(&self, (_, shortfall): Loss) -> f64 {
        1.0 - shortfall as f64 / LOSS_UNITS / self.links as f64
    }

    fn start(&self, start: u64) -> Vec<u64> {
        if start == 0 {
            return vec![0; self.periods.len()];
        }
        // A fixed seed: the answer depends on the problem alone.
        let mut draw = stream(0, "cluster-wide start", start);
        self.periods.iter().map(|period| draw.random_range(0..*period)).collect()
    }

    /// Moves one job after another to its best shift until no job has a better one. Returns the
    /// loss and the shifts.
    fn improve(&self, mut shifts: Vec<u64>, budget: &mut Budget<'_>) -> (Loss, Vec<u64>) {
        let mut improved = true;
        while improved {
            improved = false;
            for job in 0..shifts.len() {
                let mut best = (self.loss_at(job, &shifts), shifts[job]);
                let edges = self.edges_beside(job);
                for place in self.places(job, &shifts) {
                    budget.spend(edges);
                    if budget.exhausted() {
                        return (self.loss(0..self.resources.len(), &shifts), shifts);
                    }
                    let before = std::mem::replace(&mut shifts[job], place);
                    let loss = self.loss_at(job, &shifts);
                    shifts[job] = before;
                    // Strictly: moves between equal losses might never end.
                    if loss < best.0 {
                        best = (loss, place);
                    }
                }
                improved |= shifts[job] != best.1;
                shifts[job] = best.1;
            }
        }
        (self.loss(0..self.resources.len(), &shifts), shifts)
    }

    /// The number of edges that one evaluation of [`Self::loss_at`] visits.
    fn edges_beside(&self, job: usize) -> usize {
        let resources = self.resources_of[job].iter().map(|resource| &self.resources[*resource]);
        resources.map(|resource| resource.demand.edges()).sum()
    }

    /// The loss of the resources that `job` uses: the only part that depends on its shift.
    fn loss_at(&self, job: usize, shifts: &[u64]) -> Loss {
        self.loss(self.resources_of[job].iter().copied(), shifts)
    }

    fn loss(&self, resources: impl Iterator<Item = usize>, shifts: &[u64]) -> Loss {
        resources.fold((0, 0), |(overlap, shortfall), resource| {
            let resource = &self.resources[resource];
            let shifts: Vec<u64> = resource.jobs.iter().map(|job| shifts[*job]).collect();
            if resource.multiplicity == 0 {
                return (overlap + resource.demand.excess(&shifts), shortfall);
            }
            let units = (resource.demand.shortfall(&shifts) * LOSS_UNITS).round() as u128;
            (overlap, shortfall + u128::from(resource.multiplicity) * units)
        })
    }

    /// The shifts at which an edge of `job` meets an edge of another job on a resource of both,
    /// ascending. Between them, excess is linear, so its minimum lies at one of them.
    fn places(&self, job: usize, shifts: &[u64]) -> Vec<u64> {
        let period = self.periods[job];
        let mut places = Vec::new();
        for resource in self.resources_of[job].iter().map(|resource| &self.resources[*resource]) {
            let edges: Vec<u64> = resource.edges(job);
            for other in resource.jobs.iter().copied().filter(|other| *other != job) {
                let other_period = self.periods[other];
                for edge in resource.edges(other) {
                    let first = edge + shifts[other] % other_period;
                    // After the least common multiple of both periods, positions within `period`
                    // repeat.
                    for round in 0..period / period.gcd(&other_period) {
                        let at = (first + round * other_period) % period;
                        places.extend(edges.iter().map(|edge| (at + period - edge) % period));
                    }
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The number of units of loss in a score of 1.
const LOSS_UNITS: f64 = 1e12;

impl SharedResource {
    /// The times within its period at which the demand of `job` changes.
    fn edges(&self, job: usize) -> Vec<u64> {
        let places = self.jobs.iter().enumerate().filter(|(_, other)| **other == job);
        places.flat_map(|(place, _)| self.demand.edges_ps(place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::Method;
    use crate::testing::{profile, up};

    fn problem() -> impl Strategy<Value = JointProblem> {
        let job = (prop::sample::select(vec![8u64, 12, 24]), 1u64..8, 1u64..40);
        let job =
            job.prop_map(|(period_ms, up_ms, gbps)| profile(period_ms, &[up(0, up_ms, gbps)]));
        let jobs = prop::collection::vec(job, 2..5);
        let link = (prop::collection::vec((0usize..5, 0u32..3), 1..4), 20u64..60, 1u32..3);
        (jobs, prop::collection::vec(link, 1..5)).prop_map(|(jobs, wishes)| {
            let links = wishes.into_iter().map(|(mut crossings, gbps, multiplicity)| {
                crossings.retain(|(job, _)| *job < jobs.len());
                JointLink { capacity: Rate::from_gbps(gbps), crossings, multiplicity }
            });
            JointProblem { links: links.collect(), jobs, gpu_groups: Vec::new() }
        })
    }

    proptest! {
        #[test]
        fn a_climb_stays_below_the_optimum_over_all_shifts_and_the_bound_of_the_load(
            problem in problem(),
        ) {
            let problem = merged(&problem);
            let options = SolveOptions { method: Method::Exact, ..SolveOptions::default() };
            let Ok(ascent) = Ascent::new(&problem, &options) else {
                prop_assert!(problem.links.is_empty());
                return Ok(());
            };
            let climbed = ascent.climb(&problem, None, &options).unwrap();
            let optimum = solve_cluster(&problem, &options).unwrap();
            prop_assert!(optimum.proven_optimal);
            prop_assert!(climbed.score <= optimum.score + 1e-9, "{climbed:?} {optimum:?}");
            prop_assert!(optimum.score <= load_bound(&problem, false) + 1e-9);
        }
    }
}
