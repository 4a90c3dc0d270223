//! The cluster-wide form: one shift per job for all links of a connected part of the cluster at once,
//! with jobs that share a GPU kept from computing at the same time, and with a choice among batch sizes
//! (HotNets'22 section 5).
//!
//! Where a job is at any time depends on its shift modulo its own period alone, so a link's score needs
//! the common multiple of the jobs on that link and no more. The search for a proven optimum turns all
//! jobs on one circle and therefore needs a perimeter for all of them; the search for a good answer in
//! large parts of a cluster does not.

use std::collections::BTreeMap;

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
use crate::search::{Budget, SolveOptions};
use crate::solver::{Solution, solve_joint};

/// Up to this many jobs, the optimum is searched for and usually proven. The search grows
/// exponentially with jobs: it proves a ring of 6 unlike jobs in 0.4 s and one of 7 not in 10 s.
pub const PROVABLE_JOBS: usize = 6;

/// The most combinations of batch sizes that are looked at.
pub const MAX_COMBINATIONS: u128 = 4_096;

/// From how many random places the search for a good answer starts, besides no shift at all.
const RANDOM_STARTS: u64 = 4;

/// One shift per job, for all links together.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSolution {
    /// The mean score over all links, each counted with its multiplicity.
    pub score: f64,
    /// No shifts reach a higher score than this. Of the shifts that the options' precision allows,
    /// if the optimum was searched for.
    pub bound: f64,
    /// Whether `score` is proven to be the optimum.
    pub proven_optimal: bool,
    /// By job: the delay of its next iteration, below its period.
    pub time_shifts: Vec<Duration>,
    /// The common multiple of all periods, if there is a usable one.
    pub perimeter: Option<Duration>,
}

/// Jobs of which each has profiles to choose from, one per batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchProblem {
    /// By job, by batch size.
    pub jobs: Vec<Vec<Profile>>,
    /// As in [`JointProblem::links`].
    pub links: Vec<JointLink>,
    /// As in [`JointProblem::gpu_groups`].
    pub gpu_groups: Vec<Vec<usize>>,
    /// How far the periods of a combination may be stretched to fit on one circle, as in
    /// [`commensurate()`].
    pub tolerance: f64,
}

/// The best batch sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchChoice {
    /// By job: which of its profiles.
    pub profiles: Vec<usize>,
    /// The shifts for these.
    pub solution: ClusterSolution,
    /// How many combinations there are.
    pub combinations: usize,
    /// How many were solved; the others were ruled out by their load.
    pub solved: usize,
}

/// Why there is no best choice of batch sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum BatchError {
    #[error("job {job} has no batch size to choose from")]
    NoProfile { job: usize },
    #[error("{found} combinations of batch sizes; at most {MAX_COMBINATIONS} are looked at")]
    TooManyCombinations { found: u128 },
    #[error(transparent)]
    Compat(#[from] CompatError),
}

impl ClusterSolution {
    /// By job: its shift as an angle of the circle over all periods, in degrees (Equation 4); none if
    /// the periods have no usable common multiple.
    pub fn rotations_deg(&self) -> Option<Vec<f64>> {
        let perimeter_s = self.perimeter?.as_secs_f64();
        let angle = |shift: &Duration| shift.as_secs_f64() / perimeter_s * 360.0;
        Some(self.time_shifts.iter().map(angle).collect())
    }
}

/// One shift per job that maximises the mean score over all links.
///
/// Up to [`PROVABLE_JOBS`] jobs whose periods have a common multiple, this is
/// [`solve_joint`]. Otherwise jobs are shifted one at a time to where
/// that is best while the others stay, from several starts, until no single job can improve: a good
/// answer, proven only where it reaches the bound that the links' load sets. That search considers all
/// shifts, whatever the precision asked for.
///
/// # Errors
/// As [`solve_joint`], but periods need a usable common multiple only per
/// link; in the larger case, [`CompatError::Stopped`] if no shifts were found that keep jobs that share
/// a GPU apart.
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
    if perimeter.is_some() && problem.jobs.len() <= PROVABLE_JOBS {
        match solve_joint(&problem, options) {
            // Sums over many links with unlike capacities may not fit; link by link they do.
            Err(CompatError::Overflow) => {}
            Err(error) => return Err(error),
            // Stopped short, the search may know less than a climb does.
            Ok(found) => {
                let found = ascent.with_scores_of_shifts(found, perimeter);
                let climbed = (!found.proven_optimal)
                    .then(|| ascent.climb(&problem, perimeter, options))
                    .and_then(Result::ok)
                    .filter(|climbed| climbed.score > found.score);
                return Ok(climbed.unwrap_or(found));
            }
        }
    }
    ascent.climb(&problem, perimeter, options)
}

/// The combination of batch sizes, and shifts for it, with the best score; of equals (to 1e-9) the one
/// whose choices come first. The options' time limit holds for each combination.
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
    bounded.sort_by_key(|(bound, _)| std::cmp::Reverse(*bound));
    let mut best: Option<Chosen> = None;
    let mut solved = 0;
    for (bound, profiles) in bounded {
        // What may only draw level still counts if its choices come first.
        if best.as_ref().is_some_and(|best| best.beats(bound, &profiles)) {
            continue;
        }
        solved += 1;
        match problem.with(&profiles).and_then(|joint| solve_cluster(&joint, options)) {
            Err(error) => failure = failure.or(Some(error)),
            Ok(solution) => {
                let score = in_billionths(solution.score);
                if best.as_ref().is_none_or(|best| !best.beats(score, &profiles)) {
                    best = Some(Chosen { score, profiles, solution });
                }
            }
        }
    }
    match best {
        Some(Chosen { profiles, solution, .. }) => {
            Ok(BatchChoice { profiles, solution, combinations, solved })
        }
        None => Err(failure.expect("a combination was solved or failed").into()),
    }
}

/// A combination of batch sizes, solved.
struct Chosen {
    /// In billionths.
    score: i64,
    profiles: Vec<usize>,
    solution: ClusterSolution,
}

impl Chosen {
    /// Whether it stays ahead of another combination of this score: no two have the same choices.
    fn beats(&self, score: i64, profiles: &[usize]) -> bool {
        score < self.score || score == self.score && *self.profiles < *profiles
    }
}

/// Scores are compared after rounding, so that the order of a sum decides nothing.
fn in_billionths(score: f64) -> i64 {
    (score * 1e9).round() as i64
}

impl BatchProblem {
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
    let found = jobs.iter().fold(1u128, |product, job| product.saturating_mul(job.len() as u128));
    if found > MAX_COMBINATIONS {
        return Err(BatchError::TooManyCombinations { found });
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

/// The same problem with nothing said twice: a job's flows on a link added up, equal links as one with
/// their multiplicities added, and links that nobody crosses left out.
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

/// What the bound by load takes for granted.
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

/// A score that no shifts exceed: a link's mean excess is at least its mean demand less its capacity,
/// wherever the demand lies.
fn load_bound(problem: &JointProblem, strict: bool) -> f64 {
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
        score += f64::from(link.multiplicity) * (2.0 - load).min(1.0);
        links += f64::from(link.multiplicity);
    }
    score / links
}

/// A search that improves one job at a time.
struct Ascent {
    periods: Vec<u64>,
    pieces: Vec<Piece>,
    pieces_of: Vec<Vec<usize>>,
    links: u128,
}

/// One link, or one group of jobs that share a GPU.
struct Piece {
    jobs: Vec<usize>,
    demand: Demand,
    /// 0 for a GPU.
    multiplicity: u32,
}

/// By how much scores fall short of 1, summed over links, in units of 10⁻¹²; computing at the same
/// time on one GPU comes first.
type Loss = (u128, u128);

impl Ascent {
    fn new(joint: &JointProblem, options: &SolveOptions<'_>) -> Result<Self, CompatError> {
        let mut pieces = Vec::new();
        for link in joint.links.iter().filter(|link| !link.crossings.is_empty()) {
            let jobs = link.crossings.iter().map(|(job, _)| *job).collect();
            let demand = Demand::on_link(&joint.jobs, link, options.strict)?;
            pieces.push(Piece { jobs, demand, multiplicity: link.multiplicity });
        }
        for group in joint.gpu_groups.iter().filter(|group| !group.is_empty()) {
            let demand = Demand::on_gpu(&joint.jobs, group)?;
            pieces.push(Piece { jobs: group.clone(), demand, multiplicity: 0 });
        }
        let mut pieces_of = vec![Vec::new(); joint.jobs.len()];
        for (index, piece) in pieces.iter().enumerate() {
            for job in &piece.jobs {
                pieces_of[*job].push(index);
            }
        }
        let periods = joint.jobs.iter().map(|job| job.period().as_ps()).collect();
        let links = pieces.iter().map(|piece| u128::from(piece.multiplicity)).sum();
        if links == 0 {
            return Err(CompatError::NoLinks);
        }
        Ok(Self { periods, pieces, pieces_of, links })
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

    /// What `found` is worth after its shifts were rounded to picoseconds.
    fn with_scores_of_shifts(
        &self,
        found: Solution,
        perimeter: Option<Duration>,
    ) -> ClusterSolution {
        let shifts_ps: Vec<u64> = found.time_shifts.iter().map(|shift| shift.as_ps()).collect();
        let score = self.score(self.loss(0..self.pieces.len(), &shifts_ps));
        ClusterSolution {
            score,
            bound: if found.proven_optimal { score } else { found.bound.max(score) },
            proven_optimal: found.proven_optimal,
            time_shifts: found.time_shifts,
            perimeter,
        }
    }

    /// The mean score over links.
    fn score(&self, (_, shortfall): Loss) -> f64 {
        1.0 - shortfall as f64 / PARTS / self.links as f64
    }

    fn start(&self, start: u64) -> Vec<u64> {
        if start == 0 {
            return vec![0; self.periods.len()];
        }
        let mut draw = stream(0, "cluster-wide start", start);
        self.periods.iter().map(|period| draw.random_range(0..*period)).collect()
    }

    /// Shifts one job after another to its best place until none has a better one.
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
                        return (self.loss(0..self.pieces.len(), &shifts), shifts);
                    }
                    let before = std::mem::replace(&mut shifts[job], place);
                    let loss = self.loss_at(job, &shifts);
                    shifts[job] = before;
                    if loss < best.0 {
                        best = (loss, place);
                    }
                }
                improved |= shifts[job] != best.1;
                shifts[job] = best.1;
            }
        }
        (self.loss(0..self.pieces.len(), &shifts), shifts)
    }

    /// How many edges a look at the loss at one place of `job` takes.
    fn edges_beside(&self, job: usize) -> usize {
        let pieces = self.pieces_of[job].iter().map(|piece| &self.pieces[*piece]);
        pieces.map(|piece| piece.demand.edges()).sum()
    }

    fn loss_at(&self, job: usize, shifts: &[u64]) -> Loss {
        self.loss(self.pieces_of[job].iter().copied(), shifts)
    }

    fn loss(&self, pieces: impl Iterator<Item = usize>, shifts: &[u64]) -> Loss {
        pieces.fold((0, 0), |(overlap, shortfall), piece| {
            let piece = &self.pieces[piece];
            let own: Vec<u64> = piece.jobs.iter().map(|job| shifts[*job]).collect();
            if piece.multiplicity == 0 {
                return (overlap + piece.demand.excess(&own), shortfall);
            }
            let parts = (piece.demand.shortfall(&own) * PARTS).round() as u128;
            (overlap, shortfall + u128::from(piece.multiplicity) * parts)
        })
    }

    /// The shifts at which an edge of `job` meets an edge of another job on a link of both. The
    /// excess is linear between them, so that its minimum is at one of them.
    fn places(&self, job: usize, shifts: &[u64]) -> Vec<u64> {
        let period = self.periods[job];
        let mut places = Vec::new();
        for piece in self.pieces_of[job].iter().map(|piece| &self.pieces[*piece]) {
            let own: Vec<u64> = piece.edges(job);
            for other in piece.jobs.iter().copied().filter(|other| *other != job) {
                let other_period = self.periods[other];
                for edge in piece.edges(other) {
                    let first = edge + shifts[other] % other_period;
                    for round in 0..period / period.gcd(&other_period) {
                        let at = (first + round * other_period) % period;
                        places.extend(own.iter().map(|edge| (at + period - edge) % period));
                    }
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Units of loss in a score of 1.
const PARTS: f64 = 1e12;

impl Piece {
    /// Where `job`'s demand changes, within its period.
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
