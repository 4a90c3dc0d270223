//! The CASSINI module: ranks placements that a scheduler considers equivalent by how well their
//! jobs can take turns, and finds one time-shift per job for each (NSDI'24 section 4.2, Algorithm
//! 2).
//!
//! It departs from Algorithm 2, which as printed would discard good candidates: links that
//! carry the same jobs count as one before the search for loops, and a loop disqualifies a candidate
//! only if the shifts around it do not agree.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration as Wall, Instant};

use hocket_des::{Duration, Rate};
use hocket_scenario::{Phase, Profile};
use rayon::prelude::*;
use thiserror::Error;

use crate::affinity::{AffinityGraph, AffinityJob, Component, Loop, Traversal, collapse};
use crate::error::CompatError;
use crate::link_demand::Demand;
use crate::perimeter::unified_perimeter;
use crate::problem::{JointLink, JointProblem};
use crate::search::{SharedTime, SolveOptions};
use crate::solver::{Solution, joint_bound, solve_joint};

pub mod cluster;
mod group;

use cluster::{ClusterSolution, load_bound, solve_cluster};
use group::{Group, Key, Variant};

/// A job that competes for links.
#[derive(Clone, Debug, PartialEq)]
pub struct CassiniJob {
    /// Its name in messages.
    pub name: String,
    /// The demand of one of its flows on a link.
    pub profile: Profile,
    /// Among jobs that share links directly or through others, the one of highest priority is never
    /// delayed.
    pub priority: i64,
}

/// A link in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassiniLink {
    /// Its name in messages.
    pub name: String,
    /// Its capacity.
    pub capacity: Rate,
}

/// A job's flows on a link. Several crossings of one job on one link add up; a crossing of 0 flows
/// does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CassiniCrossing {
    /// Index of the job.
    pub job: usize,
    /// Index of the link.
    pub link: usize,
    /// The job's demand on the link is its profile × this.
    pub flows: u32,
}

/// One placement of all jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name in messages.
    pub name: String,
    /// The links that each job crosses.
    pub crossings: Vec<CassiniCrossing>,
    /// The number of running jobs that would have to move; decides between equal scores.
    pub moved_jobs: usize,
}

/// The treatment of a candidate whose affinity graph has a loop that does not close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loops {
    /// It is discarded (Algorithm 2, line 15).
    #[default]
    Discard,
    /// The jobs of that component are solved together, one shift per job, for the highest mean
    /// score.
    Solve,
}

/// How the scores of links become the score of a candidate. Every link that several jobs cross
/// counts once, also where several were solved as one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Aggregate {
    /// The mean, as in Algorithm 2.
    #[default]
    Mean,
    /// The lowest score.
    Min,
    /// The score that this share of links do not exceed (nearest rank): with 0.05, the best score
    /// among the worst twentieth.
    Tail {
        /// Above 0, at most 1.
        quantile: f64,
    },
}

/// Options of a ranking.
pub struct CassiniOptions<'a> {
    /// How each link is solved. All links together have the time limit, each the limit of steps.
    /// Only an answer that ran into the time limit may differ between runs.
    pub solve: SolveOptions<'a>,
    /// How the scores of links become that of a candidate.
    pub aggregate: Aggregate,
    /// The treatment of loops that do not close.
    pub loops: Loops,
    /// Selects the reference among jobs of equal priority.
    pub seed: u64,
    /// The share of the shortest iteration time around a loop by which the shifts may disagree.
    pub closure_tolerance: f64,
    /// Below this mean score of its links, time-shifts are not advised for a component.
    pub shift_threshold: f64,
}

impl Default for CassiniOptions<'_> {
    fn default() -> Self {
        Self {
            solve: SolveOptions::default(),
            aggregate: Aggregate::Mean,
            loops: Loops::Discard,
            seed: 0,
            // A fifth of the drift of 5% from which section 5.7 adjusts a time-shift.
            closure_tolerance: 0.01,
            // NSDI'24 section 5.5 and Table 2, snapshot 5: around a score of 0.6 the gain is gone.
            shift_threshold: 0.6,
        }
    }
}

/// All candidates, ranked or discarded.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// Highest score first; among equals (to 1e-9), first the one that moves fewer running jobs,
    /// then the one given first.
    pub placements: Vec<Placement>,
    /// The others, in the order given.
    pub discarded: Vec<Discarded>,
    /// The number of groups of links with the same jobs, over all candidates.
    pub problems: usize,
    /// The number of different problems among these, each of which was solved once.
    pub problems_solved: usize,
}

/// A candidate with its score and the time-shifts that reach it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Index of the candidate.
    pub candidate: usize,
    /// The aggregate of `links`; 1 if no link is shared.
    pub score: f64,
    /// The links that several jobs cross, ascending.
    pub links: Vec<LinkScore>,
    /// Jobs that share links with each other, directly or through others.
    pub components: Vec<ComponentShifts>,
    /// By job: the delay of its next iteration; none for a job that shares no link.
    pub time_shifts: Vec<Option<Duration>>,
}

/// A link under the time-shifts of its placement.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkScore {
    /// Index of the link.
    pub link: usize,
    /// The jobs on it, ascending.
    pub jobs: Vec<usize>,
    /// Its score (Equation 2) under these time-shifts.
    pub score: f64,
    /// Whether no other shifts (of those that the options allow) score higher on this link alone,
    /// or on the tightest of those that carry the same jobs.
    pub proven_optimal: bool,
    /// By job: its time-shift when this link and those that carry the same jobs were solved, before
    /// Algorithm 1. Empty in a component with loops, for which Theorem 1 gives no guarantee.
    pub own_shifts: Vec<Duration>,
}

/// The time-shifts of a connected part of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentShifts {
    /// The job that is not delayed.
    pub reference: usize,
    /// Its jobs, ascending.
    pub jobs: Vec<usize>,
    /// Its links, ascending.
    pub links: Vec<usize>,
    /// The mean score of its links.
    pub score: f64,
    /// Whether the score reaches the threshold. If not, do not shift these jobs: priorities or
    /// adaptive unfairness help them more.
    pub shifts_advised: bool,
    /// Where the time-shifts come from.
    pub origin: Origin,
}

/// Where a component's time-shifts come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// Every link was solved alone, and Algorithm 1 carried the shifts along a loop-free graph.
    LoopFree,
    /// The same, with loops that all close.
    ClosedLoops,
    /// All links were solved together, because a loop does not close.
    Joint {
        /// Whether no shifts reach a higher mean score.
        proven_optimal: bool,
        /// No shifts reach a higher mean score than this.
        bound: f64,
    },
}

/// What is known of a candidate before links are solved together.
#[derive(Clone, Debug, PartialEq)]
pub enum Preliminary {
    /// Everything: no loop has to be solved.
    Placed(Placement),
    /// It has a loop that does not close. By link that several jobs cross, ascending: a score that no
    /// time-shifts exceed.
    Bounded(Vec<(usize, f64)>),
}

/// A candidate that got no score.
#[derive(Clone, Debug, PartialEq)]
pub struct Discarded {
    /// Index of the candidate.
    pub candidate: usize,
    /// Why.
    pub reason: DiscardReason,
}

/// Why a candidate got no score.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum DiscardReason {
    #[error(
        "jobs {} form a loop over links {}, around which their time-shifts miss each other by {gap} \
         (modulo {modulus})",
        .jobs.join(", "), .links.join(", ")
    )]
    OpenLoop { jobs: Vec<String>, links: Vec<String>, gap: Duration, modulus: Duration },
    #[error("jobs {} on link {link}: {source}", .jobs.join(", "))]
    Unsolvable { jobs: Vec<String>, link: String, source: CompatError },
}

/// Why nothing could be ranked. Jobs, links and candidates are named by their names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum CassiniError {
    #[error("there is no candidate to rank")]
    NoCandidates,
    #[error("candidate {candidate}: job {job} is named, but there are only {jobs}, counted from 0")]
    UnknownJob { candidate: String, job: usize, jobs: usize },
    #[error(
        "candidate {candidate}: link {link} is named, but there are only {links}, counted from 0"
    )]
    UnknownLink { candidate: String, link: usize, links: usize },
    #[error("link {link}: its capacity is 0; it must be higher")]
    ZeroCapacity { link: String },
    #[error("candidate {candidate}, link {link}: the flows demand 2^64 bits per second or more")]
    Demand { candidate: String, link: String },
    #[error("{option} is {value}, which is not {limit}")]
    Option { option: &'static str, value: String, limit: &'static str },
    #[error(transparent)]
    Periods(CompatError),
    #[error("stopped before an answer was found")]
    Stopped,
}

/// Scores every candidate and finds one time-shift per job for each (Algorithm 2).
///
/// Links of a candidate that carry the same jobs are solved as one. A link that another one
/// dominates, with no more capacity and no fewer flows of any job, does not influence the shifts;
/// if several links remain, the shifts maximise their mean score. Each link then gets the score
/// that it has under these shifts. Equal problems of different candidates are solved once,
/// different problems in parallel.
///
/// Periods must have a small common multiple on each link, see [`crate::commensurate()`]; a
/// candidate in which they have none is discarded.
///
/// # Errors
/// If there is no candidate, a crossing names a job or link that does not exist, a link that is
/// crossed has no capacity, demands do not fit in 64 bits, an option is out of range, or
/// `interrupted` returned true.
pub fn rank(
    jobs: &[CassiniJob],
    links: &[CassiniLink],
    candidates: &[Candidate],
    options: &CassiniOptions<'_>,
) -> Result<Ranking, CassiniError> {
    // Loops that do not close are solved after the links, with the time that is left.
    let started = Instant::now();
    let time_limit = options.solve.time_limit;
    let for_links = if options.loops == Loops::Solve { time_limit / 2 } else { time_limit };
    let links_first = options.within(for_links);
    let prepared =
        Prepared::new(Cow::Borrowed(jobs), Cow::Borrowed(links), candidates, &links_first)?;
    let left = time_limit.saturating_sub(started.elapsed());
    prepared.rank(candidates, &options.within(left))
}

/// Candidates of which each link, or group of links with the same jobs, was solved by itself.
///
/// That is enough for a bound on the score of a candidate with loops, whose joint solution takes
/// most of the time of a ranking: one that cannot be the best need not be solved.
pub struct Prepared<'a> {
    jobs: Cow<'a, [CassiniJob]>,
    links: Cow<'a, [CassiniLink]>,
    /// By job: jobs with equal profiles are of one kind.
    kinds: Vec<usize>,
    /// By candidate.
    layouts: Vec<Vec<Group>>,
    /// By candidate and group: the index of its solution.
    problems: Vec<Vec<usize>>,
    solved: Vec<Result<Solved, CompatError>>,
}

impl<'a> Prepared<'a> {
    /// Solves the links of all candidates one by one. Equal problems are solved once, different ones
    /// in parallel.
    ///
    /// # Errors
    /// As [`rank`].
    pub fn new(
        jobs: Cow<'a, [CassiniJob]>,
        links: Cow<'a, [CassiniLink]>,
        candidates: &[Candidate],
        options: &CassiniOptions<'_>,
    ) -> Result<Self, CassiniError> {
        check_options(options)?;
        if candidates.is_empty() {
            return Err(CassiniError::NoCandidates);
        }
        let kinds = kinds(&jobs);
        let cluster = Cluster { jobs: &jobs, links: &links, kinds: &kinds, options };
        let layouts = candidates
            .par_iter()
            .map(|candidate| cluster.groups(candidate))
            .collect::<Result<Vec<Vec<Group>>, CassiniError>>()?;
        let (problems, solved) = cluster.solve_all(&layouts);
        // An interrupted search returns its best shifts so far: a ranking of these would not be
        // reproducible.
        if (options.solve.interrupted)() {
            return Err(CassiniError::Stopped);
        }
        Ok(Self { jobs, links, kinds, layouts, problems, solved })
    }

    /// The ranking of all `candidates`, which are those given to [`Self::new`].
    ///
    /// # Errors
    /// If `interrupted` returned true.
    pub fn rank(
        &self,
        candidates: &[Candidate],
        options: &CassiniOptions<'_>,
    ) -> Result<Ranking, CassiniError> {
        // Algorithm 1 runs for every candidate instead of only the best, because it finds out which
        // loops close. Results are collected in the order of candidates, whichever thread finishes
        // first.
        let time = SharedTime::new(
            options.solve.time_limit,
            candidates.len(),
            rayon::current_num_threads(),
        );
        let results: Vec<Result<Placement, DiscardReason>> = (0..candidates.len())
            .into_par_iter()
            .map(|candidate| self.place(candidate, &options.within(time.next())))
            .collect();
        if (options.solve.interrupted)() {
            return Err(CassiniError::Stopped);
        }
        let mut ranking = Ranking {
            placements: Vec::new(),
            discarded: Vec::new(),
            problems: self.problems.iter().map(Vec::len).sum(),
            problems_solved: self.solved.len(),
        };
        for (candidate, result) in results.into_iter().enumerate() {
            match result {
                Ok(placement) => ranking.placements.push(placement),
                Err(reason) => ranking.discarded.push(Discarded { candidate, reason }),
            }
        }
        ranking.placements.sort_by_key(|placement| {
            let moved = candidates[placement.candidate].moved_jobs;
            (Reverse(in_billionths(placement.score)), moved, placement.candidate)
        });
        Ok(ranking)
    }

    /// A candidate with one time-shift per job, and with all loops that have to be solved within the
    /// time limit of `options`.
    ///
    /// # Errors
    /// Why it is discarded.
    pub fn place(
        &self,
        candidate: usize,
        options: &CassiniOptions<'_>,
    ) -> Result<Placement, DiscardReason> {
        let groups = &self.layouts[candidate];
        self.cluster(options).place(candidate, groups, &self.solutions(candidate)?)
    }

    /// As [`Self::place`], but with bounds for a candidate whose links would have to be solved
    /// together.
    ///
    /// # Errors
    /// Why it is discarded.
    pub fn preliminary(
        &self,
        candidate: usize,
        options: &CassiniOptions<'_>,
    ) -> Result<Preliminary, DiscardReason> {
        let groups = &self.layouts[candidate];
        let solved = self.solutions(candidate)?;
        let cluster = self.cluster(options);
        let traversal = cluster.traverse(groups, &solved);
        if options.loops == Loops::Discard || traversal.components.iter().all(Component::closes) {
            return cluster.place(candidate, groups, &solved).map(Preliminary::Placed);
        }
        let bounds =
            groups.iter().zip(&solved).map(|(group, solved)| by_link(group, &solved.bounds));
        Ok(Preliminary::Bounded(ascending(bounds)))
    }

    /// Bounds as in [`Preliminary::Bounded`], but the lowest that each link by itself allows.
    ///
    /// # Errors
    /// Why the candidate is discarded.
    pub fn tight_bounds(
        &self,
        candidate: usize,
        options: &CassiniOptions<'_>,
    ) -> Result<Vec<(usize, f64)>, DiscardReason> {
        let groups = &self.layouts[candidate];
        let solved = self.solutions(candidate)?;
        let cluster = self.cluster(options);
        let bounds = groups
            .iter()
            .zip(&solved)
            .map(|(group, solved)| by_link(group, &cluster.tight_bounds(group, solved)));
        Ok(ascending(bounds))
    }

    fn cluster<'b>(&'b self, options: &'b CassiniOptions<'b>) -> Cluster<'b> {
        Cluster { jobs: &self.jobs, links: &self.links, kinds: &self.kinds, options }
    }

    /// The solutions of the groups of a candidate.
    fn solutions(&self, candidate: usize) -> Result<Vec<&Solved>, DiscardReason> {
        let groups = self.layouts[candidate].iter().zip(&self.problems[candidate]);
        groups
            .map(|(group, problem)| {
                self.solved[*problem].as_ref().map_err(|error| DiscardReason::Unsolvable {
                    jobs: job_names(&self.jobs, &group.jobs),
                    link: self.links[group.tightest_link()].name.clone(),
                    source: error.clone(),
                })
            })
            .collect()
    }
}

/// Values by variant of a group as values by link.
fn by_link(group: &Group, values: &[f64]) -> Vec<(usize, f64)> {
    let variants = group.variants.iter().zip(values);
    variants.flat_map(|(variant, value)| variant.links.iter().map(|link| (*link, *value))).collect()
}

fn ascending(groups: impl Iterator<Item = Vec<(usize, f64)>>) -> Vec<(usize, f64)> {
    let mut links: Vec<(usize, f64)> = groups.flatten().collect();
    links.sort_by_key(|(link, _)| *link);
    links
}

fn job_names(jobs: &[CassiniJob], numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|job| jobs[*job].name.clone()).collect()
}

/// A score rounded for comparisons, so that the order of a floating-point sum decides no ranking.
fn in_billionths(score: f64) -> i64 {
    (score * 1e9).round() as i64
}

fn check_options(options: &CassiniOptions<'_>) -> Result<(), CassiniError> {
    let out = |option, value: f64, limit| {
        Err(CassiniError::Option { option, value: value.to_string(), limit })
    };
    match options.aggregate {
        Aggregate::Tail { quantile } if !(quantile > 0.0 && quantile <= 1.0) => {
            return out("the tail's quantile", quantile, "above 0 and at most 1");
        }
        _ => {}
    }
    if !(0.0..=0.5).contains(&options.closure_tolerance) {
        return out("the closure tolerance", options.closure_tolerance, "between 0 and 0.5");
    }
    if !options.shift_threshold.is_finite() {
        return out("the shift threshold", options.shift_threshold, "a finite number");
    }
    Ok(())
}

/// The time-shifts and scores of the links of a group, which hold for all groups with its key.
struct Solved {
    /// By place in the key.
    time_shifts: Vec<Duration>,
    /// By variant.
    scores: Vec<f64>,
    proven_optimal: bool,
    /// By variant: a score that no shifts exceed, not only those that the options allow.
    bounds: Vec<f64>,
}

impl CassiniOptions<'_> {
    /// The same with another time limit.
    fn within(&self, time_limit: Wall) -> Self {
        Self { solve: SolveOptions { time_limit, ..self.solve }, ..*self }
    }
}

struct Cluster<'a> {
    jobs: &'a [CassiniJob],
    links: &'a [CassiniLink],
    /// By job: jobs with equal profiles are of one kind.
    kinds: &'a [usize],
    options: &'a CassiniOptions<'a>,
}

fn kinds(jobs: &[CassiniJob]) -> Vec<usize> {
    // Only looked up, never iterated: the order of the map reaches no result.
    let mut first: HashMap<&Profile, usize> = HashMap::new();
    jobs.iter().enumerate().map(|(job, spec)| *first.entry(&spec.profile).or_insert(job)).collect()
}

impl Cluster<'_> {
    /// The shared links of a candidate, grouped by the jobs that they carry.
    fn groups(&self, candidate: &Candidate) -> Result<Vec<Group>, CassiniError> {
        let flows = self.flows_by_link(candidate)?;
        let shared: Vec<(usize, &BTreeMap<usize, u32>)> =
            flows.iter().map(|(link, flows)| (*link, flows)).collect();
        let jobs_by_link: Vec<Vec<usize>> =
            shared.iter().map(|(_, flows)| flows.keys().copied().collect()).collect();
        let group_of = |members: Vec<usize>| {
            let mut by_demand: BTreeMap<(Rate, Vec<u32>), Vec<usize>> = BTreeMap::new();
            let jobs = jobs_by_link[members[0]].clone();
            for member in members {
                let (link, flows) = shared[member];
                let demand = (self.links[link].capacity, flows.values().copied().collect());
                by_demand.entry(demand).or_default().push(link);
            }
            Group::new(jobs, by_demand)
        };
        Ok(collapse(&jobs_by_link).into_iter().map(group_of).collect())
    }

    /// By link, then job: the number of flows.
    fn flows_by_link(
        &self,
        candidate: &Candidate,
    ) -> Result<BTreeMap<usize, BTreeMap<usize, u32>>, CassiniError> {
        let named = || candidate.name.clone();
        let mut flows: BTreeMap<usize, BTreeMap<usize, u32>> = BTreeMap::new();
        for &CassiniCrossing { job, link, flows: added } in &candidate.crossings {
            if job >= self.jobs.len() {
                let jobs = self.jobs.len();
                return Err(CassiniError::UnknownJob { candidate: named(), job, jobs });
            }
            let Some(spec) = self.links.get(link) else {
                let links = self.links.len();
                return Err(CassiniError::UnknownLink { candidate: named(), link, links });
            };
            if spec.capacity.is_zero() {
                return Err(CassiniError::ZeroCapacity { link: spec.name.clone() });
            }
            if added > 0 {
                let sum = flows.entry(link).or_default().entry(job).or_default();
                *sum = sum.saturating_add(added);
            }
        }
        for (&link, by_job) in &flows {
            if self.peak_bps(by_job).is_none() {
                let link = self.links[link].name.clone();
                return Err(CassiniError::Demand { candidate: named(), link });
            }
        }
        Ok(flows)
    }

    /// The demand if all jobs send at their highest rate; `None` if it exceeds 64 bits.
    fn peak_bps(&self, flows: &BTreeMap<usize, u32>) -> Option<u64> {
        flows.iter().try_fold(0u64, |sum, (job, flows)| {
            let phases = self.jobs[*job].profile.phases().iter();
            let peak = phases.map(|phase| phase.rate.as_bps()).max().unwrap_or(0);
            sum.checked_add(peak.checked_mul(u64::from(*flows))?)
        })
    }

    /// Solves every different problem once. Returns, by candidate and group, the index of its
    /// problem, and by problem its solution.
    fn solve_all(
        &self,
        layouts: &[Vec<Group>],
    ) -> (Vec<Vec<usize>>, Vec<Result<Solved, CompatError>>) {
        let mut place: BTreeMap<Key, usize> = BTreeMap::new();
        let mut examples: Vec<&Group> = Vec::new();
        let mut index_of = |group| {
            *place.entry(Group::key(group, self.kinds)).or_insert_with(|| {
                examples.push(group);
                examples.len() - 1
            })
        };
        let problems =
            layouts.iter().map(|groups| groups.iter().map(&mut index_of).collect()).collect();
        let time = SharedTime::new(
            self.options.solve.time_limit,
            examples.len(),
            rayon::current_num_threads(),
        );
        (problems, examples.par_iter().map(|group| self.solve(group, time.next())).collect())
    }

    fn solve(&self, group: &Group, time_limit: Wall) -> Result<Solved, CompatError> {
        let order = group.key_order(self.kinds);
        let mut places = vec![0; order.len()];
        for (place, position) in order.iter().enumerate() {
            places[*position] = place;
        }
        let jobs = order.iter().map(|position| self.jobs[group.jobs[*position]].profile.clone());
        let link = |variant: &Variant, multiplicity| {
            variant.joint_link(places.iter().copied(), multiplicity)
        };
        let binding = group.variants.iter().filter(|variant| variant.weight > 0);
        let problem = JointProblem {
            jobs: jobs.collect(),
            links: binding.map(|variant| link(variant, variant.weight)).collect(),
            gpu_groups: Vec::new(),
        };
        let Solution { time_shifts, proven_optimal, bound, precision_deg, .. } =
            solve_joint(&problem, &SolveOptions { time_limit, ..self.options.solve })?;
        let shifts_ps: Vec<u64> = places.iter().map(|place| time_shifts[*place].as_ps()).collect();
        // Dominated variants, too, get the score that they have under these shifts.
        let score = |variant| self.score_under(&problem.jobs, &link(variant, 1), &shifts_ps);
        let scores = group.variants.iter().map(score).collect::<Result<_, _>>()?;
        let bounds = group.variants.iter().map(|variant| {
            let bounded = JointProblem { links: vec![link(variant, 1)], ..problem.clone() };
            let load = load_bound(&bounded, self.options.solve.strict);
            if variant.weight == 0 || problem.links.len() > 1 {
                return load;
            }
            load.min(bound + self.lost_by_steps(&bounded, precision_deg))
        });
        let bounds = bounds.collect();
        Ok(Solved { time_shifts, scores, proven_optimal, bounds })
    }

    /// The most by which the best score over all shifts exceeds the best in steps of `precision_deg` on
    /// the one link of `problem`.
    ///
    /// All jobs but one can be moved to the nearest step, half a step away at most. Each of their
    /// phases then adds to the excess for no longer than that, in each round.
    fn lost_by_steps(&self, problem: &JointProblem, precision_deg: f64) -> f64 {
        let link = &problem.links[0];
        let perimeter = unified_perimeter(&problem.jobs).unwrap_or(Duration::ZERO).as_ps() as f64;
        let lost: Vec<f64> = link
            .crossings
            .iter()
            .map(|(job, flows)| {
                let profile = &problem.jobs[*job];
                let rounds = perimeter / profile.period().as_ps() as f64;
                let demand = |phase: &Phase| match self.options.solve.strict {
                    true => 1.0,
                    false => {
                        let capacity_bps = link.capacity.as_bps() as f64;
                        phase.rate.as_bps() as f64 * f64::from(*flows) / capacity_bps
                    }
                };
                let demands: f64 = profile.phases().iter().map(demand).sum();
                demands * rounds * precision_deg / 360.0 / 2.0
            })
            .collect();
        lost.iter().sum::<f64>() - lost.iter().copied().fold(0.0, f64::max)
    }

    /// Algorithm 1 on the graph of a candidate, with the solutions of its groups.
    fn traverse(&self, groups: &[Group], answers: &[&Solved]) -> Traversal {
        self.graph(groups, answers).traverse(self.options.seed, self.options.closure_tolerance)
    }

    /// Candidate `index` with one time-shift per job, from the solutions of its groups.
    ///
    /// # Errors
    /// If a loop does not close and is not to be solved.
    fn place(
        &self,
        index: usize,
        groups: &[Group],
        answers: &[&Solved],
    ) -> Result<Placement, DiscardReason> {
        let Traversal { mut time_shifts, components: subgraphs } = self.traverse(groups, answers);
        let mut links = Vec::new();
        let mut components = Vec::new();
        let open = subgraphs.iter().filter(|component| !component.closes()).count();
        let time = SharedTime::new(self.options.solve.time_limit, open, 1);
        for component in &subgraphs {
            let (scores, origin) = if component.loops.is_empty() {
                (self.solved_scores(component, groups, answers), Origin::LoopFree)
            } else {
                self.close(component, groups, &time, &mut time_shifts)?
            };
            components.push(self.summary(component, &scores, origin));
            links.extend(scores);
        }
        links.sort_by_key(|link| link.link);
        let score = aggregate(links.iter().map(|link| link.score), self.options.aggregate);
        Ok(Placement { candidate: index, score, links, components, time_shifts })
    }

    fn unsolvable(&self, group: &Group, source: CompatError) -> DiscardReason {
        DiscardReason::Unsolvable {
            jobs: job_names(self.jobs, &group.jobs),
            link: self.links[group.tightest_link()].name.clone(),
            source,
        }
    }

    fn graph(&self, groups: &[Group], answers: &[&Solved]) -> AffinityGraph {
        let jobs = self
            .jobs
            .iter()
            .map(|job| AffinityJob { iteration: job.profile.period(), priority: job.priority });
        let edges = groups.iter().zip(answers).map(|(group, answer)| {
            let order = group.key_order(self.kinds);
            let weight = |(position, shift): (usize, Duration)| (group.jobs[position], shift);
            order.into_iter().zip(answer.time_shifts.iter().copied()).map(weight).collect()
        });
        AffinityGraph::new(jobs.collect(), edges.collect())
            .expect("crossings were checked, and a profile has a period")
    }

    /// The scores of a component with loops, and the origin of its shifts; replaces its
    /// `time_shifts` if its links have to be solved together.
    fn close(
        &self,
        component: &Component,
        groups: &[Group],
        time: &SharedTime,
        time_shifts: &mut [Option<Duration>],
    ) -> Result<(Vec<LinkScore>, Origin), DiscardReason> {
        let open = component.loops.iter().find(|each| !each.closes);
        let origin = match (open, self.options.loops) {
            (None, _) => Origin::ClosedLoops,
            (Some(open), Loops::Discard) => return Err(self.open_loop(open, groups)),
            (Some(_), Loops::Solve) => {
                let solution = self.solve_together(component, groups, time.next())?;
                self.set_shifts(component, &solution.time_shifts, time_shifts);
                let ClusterSolution { proven_optimal, bound, .. } = solution;
                Origin::Joint { proven_optimal, bound }
            }
        };
        let mut scores = Vec::new();
        for &group in &component.links {
            scores.extend(self.scores_under(&groups[group], time_shifts)?);
        }
        Ok((scores, origin))
    }

    /// Writes the shifts of a joint solution of `component`, rotated together so that the reference
    /// is not delayed.
    fn set_shifts(
        &self,
        component: &Component,
        solved: &[Duration],
        time_shifts: &mut [Option<Duration>],
    ) {
        let reference = component.jobs.iter().position(|job| *job == component.reference);
        let origin_ps = solved[reference.expect("the reference is of the component")].as_ps();
        for (job, shift) in component.jobs.iter().zip(solved) {
            let period_ps = self.jobs[*job].profile.period().as_ps();
            let turned = shift.as_ps() + (period_ps - origin_ps % period_ps);
            time_shifts[*job] = Some(Duration::from_ps(turned % period_ps));
        }
    }

    fn open_loop(&self, open: &Loop, groups: &[Group]) -> DiscardReason {
        let link_name = |group: &usize| self.links[groups[*group].tightest_link()].name.clone();
        DiscardReason::OpenLoop {
            jobs: job_names(self.jobs, &open.jobs),
            links: open.links.iter().map(link_name).collect(),
            gap: open.gap,
            modulus: open.modulus,
        }
    }

    /// One shift per job of `component` for the highest mean score over all its links.
    fn solve_together(
        &self,
        component: &Component,
        groups: &[Group],
        time_limit: Wall,
    ) -> Result<ClusterSolution, DiscardReason> {
        let place = |job: &usize| {
            component.jobs.binary_search(job).expect("a component has all jobs of its links")
        };
        let mut links = Vec::new();
        // The objective is the mean over all links, so dominated ones count too.
        for group in component.links.iter().map(|group| &groups[*group]) {
            for variant in &group.variants {
                let multiplicity = u32::try_from(variant.links.len()).unwrap_or(u32::MAX);
                links.push(variant.joint_link(group.jobs.iter().map(place), multiplicity));
            }
        }
        let jobs = component.jobs.iter().map(|job| self.jobs[*job].profile.clone()).collect();
        let problem = JointProblem { jobs, links, gpu_groups: Vec::new() };
        solve_cluster(&problem, &SolveOptions { time_limit, ..self.options.solve })
            .map_err(|error| self.unsolvable(&groups[component.links[0]], error))
    }

    /// By variant of a group: the lowest score that no shifts exceed on one of its links alone.
    fn tight_bounds(&self, group: &Group, solved: &Solved) -> Vec<f64> {
        let jobs: Vec<Profile> =
            group.jobs.iter().map(|job| self.jobs[*job].profile.clone()).collect();
        let bound = |(place, variant): (usize, &Variant)| {
            let (reached, bound) = (solved.scores[place], solved.bounds[place]);
            if in_billionths(reached) >= in_billionths(bound) {
                return bound;
            }
            let links = vec![variant.joint_link(0..jobs.len(), 1)];
            let problem = JointProblem { jobs: jobs.clone(), links, gpu_groups: Vec::new() };
            joint_bound(&problem, &self.options.solve).map_or(bound, |tight| tight.min(bound))
        };
        group.variants.iter().enumerate().map(bound).collect()
    }

    /// The scores of a group's links when all jobs are shifted by `time_shifts`.
    fn scores_under(
        &self,
        group: &Group,
        time_shifts: &[Option<Duration>],
    ) -> Result<Vec<LinkScore>, DiscardReason> {
        let shift =
            |job: &usize| time_shifts[*job].expect("the traversal shifts every job on a link");
        let shifts_ps: Vec<u64> = group.jobs.iter().map(|job| shift(job).as_ps()).collect();
        let profiles: Vec<Profile> =
            group.jobs.iter().map(|job| self.jobs[*job].profile.clone()).collect();
        let mut scores = Vec::new();
        for variant in &group.variants {
            let score = self
                .score_under(&profiles, &variant.joint_link(0..profiles.len(), 1), &shifts_ps)
                .map_err(|error| self.unsolvable(group, error))?;
            scores.extend(link_scores(group, variant, score, false, &[]));
        }
        Ok(scores)
    }

    /// The score of `link`, with shifts by place in its crossings.
    fn score_under(
        &self,
        profiles: &[Profile],
        link: &JointLink,
        shifts_ps: &[u64],
    ) -> Result<f64, CompatError> {
        Ok(Demand::on_link(profiles, link, self.options.solve.strict)?.score(shifts_ps))
    }

    /// The scores with which the links of a loop-free component were solved one by one: by Theorem
    /// 1, the traversal reaches all of them at once.
    fn solved_scores(
        &self,
        component: &Component,
        groups: &[Group],
        answers: &[&Solved],
    ) -> Vec<LinkScore> {
        let mut scores = Vec::new();
        for (group, answer) in
            component.links.iter().map(|group| (&groups[*group], answers[*group]))
        {
            let mut own_shifts = answer.time_shifts.clone();
            for (place, position) in group.key_order(self.kinds).into_iter().enumerate() {
                own_shifts[position] = answer.time_shifts[place];
            }
            for (variant, score) in group.variants.iter().zip(&answer.scores) {
                let proven = answer.proven_optimal;
                scores.extend(link_scores(group, variant, *score, proven, &own_shifts));
            }
        }
        scores
    }

    fn summary(
        &self,
        component: &Component,
        scores: &[LinkScore],
        origin: Origin,
    ) -> ComponentShifts {
        let score = aggregate(scores.iter().map(|link| link.score), Aggregate::Mean);
        let mut links: Vec<usize> = scores.iter().map(|link| link.link).collect();
        links.sort_unstable();
        ComponentShifts {
            reference: component.reference,
            jobs: component.jobs.clone(),
            links,
            score,
            shifts_advised: in_billionths(score) >= in_billionths(self.options.shift_threshold),
            origin,
        }
    }
}

fn link_scores(
    group: &Group,
    variant: &Variant,
    score: f64,
    proven_optimal: bool,
    own_shifts: &[Duration],
) -> impl Iterator<Item = LinkScore> {
    variant.links.iter().map(move |link| LinkScore {
        link: *link,
        jobs: group.jobs.clone(),
        score,
        proven_optimal,
        own_shifts: own_shifts.to_vec(),
    })
}

fn aggregate(scores: impl Iterator<Item = f64>, by: Aggregate) -> f64 {
    let mut scores: Vec<f64> = scores.collect();
    if scores.is_empty() {
        return 1.0;
    }
    // Also for the mean: a sum in ascending order does not depend on the order of links.
    scores.sort_by(f64::total_cmp);
    match by {
        Aggregate::Mean => scores.iter().sum::<f64>() / scores.len() as f64,
        Aggregate::Min => scores[0],
        Aggregate::Tail { quantile } => {
            let rank = (quantile * scores.len() as f64).ceil() as usize;
            scores[rank.clamp(1, scores.len()) - 1]
        }
    }
}
