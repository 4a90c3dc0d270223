//! Scores, time-shifts, fitted periods and rankings of placements.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Wall;

use hocket_compat::cassini::cluster::{self, BatchProblem};
use hocket_compat::cassini::{
    Aggregate, Candidate, CassiniCrossing, CassiniJob, CassiniLink, CassiniOptions,
    ComponentShifts, DiscardReason, LinkScore, Loops, Origin, Placement, Preliminary,
};
use hocket_compat::fitted::{FittedRanking, GroupFit, PreparedFitted, rank_fitted};
use hocket_compat::{Commensurate, JointLink, LinkProblem, Method, SolveOptions};
use hocket_des::{Duration, Rate};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::choices::one_of;
use crate::convert::{
    PlainCrossings, PlainProfile, PyFabric, in_ps, plain_profile, profile, profiles,
};
use crate::error::value_error;

/// As [`SolveOptions`], which documents the fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Search {
    /// `None` for all shifts.
    precision_deg: Option<f64>,
    strict: bool,
    time_limit_s: f64,
    /// `None` for no limit.
    #[pyo3(default)]
    step_limit: Option<u64>,
}

#[derive(IntoPyObject)]
pub(crate) struct LinkResult {
    score: f64,
    bound: f64,
    proven_optimal: bool,
    perimeter_ps: Option<u64>,
    time_shifts_ps: Vec<u64>,
    rotations_deg: Option<Vec<f64>>,
    precision_deg: f64,
    nodes: u64,
    interrupted: bool,
}

/// Detects Ctrl-C from inside a search that runs without the interpreter's lock. It is remembered, because Python
/// reports each signal only once and a search polls many times.
struct Interrupt(AtomicBool);

impl Interrupt {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn seen(&self) -> bool {
        // No other memory is shared through this flag, so its order does not matter.
        self.0.load(Ordering::Relaxed)
    }

    fn poll(&self) -> bool {
        if !self.seen() && Python::attach(|py| py.check_signals()).is_err() {
            self.0.store(true, Ordering::Relaxed);
        }
        self.seen()
    }

    /// The answer, or its error as a `ValueError`: as `KeyboardInterrupt` if Ctrl-C ended the search before it had an
    /// answer, since the input is not at fault then.
    fn or_value_error<T>(&self, answer: Result<T, impl std::fmt::Display>) -> PyResult<T> {
        answer.map_err(|error| {
            if self.seen() { PyKeyboardInterrupt::new_err(()) } else { value_error(error) }
        })
    }
}

impl Search {
    fn options<'a>(&self, interrupted: &'a (dyn Fn() -> bool + Sync)) -> SolveOptions<'a> {
        SolveOptions {
            method: match self.precision_deg {
                Some(degrees) => Method::Precision { degrees },
                None => Method::Exact,
            },
            strict: self.strict,
            // A time that is too long for a `Duration`, such as infinity, is no limit.
            time_limit: Wall::try_from_secs_f64(self.time_limit_s).unwrap_or(Wall::MAX),
            step_limit: self.step_limit.unwrap_or(u64::MAX),
            interrupted,
        }
    }
}

#[pyfunction]
pub(crate) fn solve_link(
    py: Python<'_>,
    capacity_bps: u64,
    jobs: Vec<PlainProfile>,
    gpu_groups: Vec<Vec<usize>>,
    search: Search,
) -> PyResult<LinkResult> {
    let link =
        LinkProblem { capacity: Rate::from_bps(capacity_bps), jobs: profiles(jobs)?, gpu_groups };
    let interrupt = Interrupt::new();
    let poll = || interrupt.poll();
    let solved = py.detach(|| hocket_compat::solve(&link, &search.options(&poll)));
    let solution = interrupt.or_value_error(solved)?;
    Ok(LinkResult {
        score: solution.score,
        bound: solution.bound,
        proven_optimal: solution.proven_optimal,
        perimeter_ps: Some(solution.perimeter.as_ps()),
        time_shifts_ps: in_ps(&solution.time_shifts),
        rotations_deg: Some(solution.rotations_deg),
        precision_deg: solution.precision_deg,
        nodes: solution.nodes,
        interrupted: interrupt.seen(),
    })
}

#[derive(IntoPyObject)]
pub(crate) struct ClusterResult {
    /// By job: the index of the chosen profile.
    profiles: Vec<usize>,
    score: f64,
    bound: f64,
    proven_optimal: bool,
    time_shifts_ps: Vec<u64>,
    interrupted: bool,
}

/// Chooses one profile and one shift for each job, for all links together. `links` are
/// (capacity in bits/s, [(job, flows), …]).
#[pyfunction]
pub(crate) fn solve_cluster(
    py: Python<'_>,
    links: Vec<(u64, Vec<(usize, u32)>)>,
    jobs: Vec<Vec<PlainProfile>>,
    gpu_groups: Vec<Vec<usize>>,
    tolerance: f64,
    search: Search,
) -> PyResult<ClusterResult> {
    let link = |(capacity_bps, crossings)| JointLink {
        capacity: Rate::from_bps(capacity_bps),
        crossings,
        multiplicity: 1,
    };
    let links = links.into_iter().map(link).collect();
    let jobs = jobs.into_iter().map(profiles).collect::<PyResult<_>>()?;
    let problem = BatchProblem { jobs, links, gpu_groups, tolerance };
    let interrupt = Interrupt::new();
    let poll = || interrupt.poll();
    let chosen = py.detach(|| cluster::choose_batch_sizes(&problem, &search.options(&poll)));
    let choice = interrupt.or_value_error(chosen)?;
    Ok(ClusterResult {
        profiles: choice.profiles,
        score: choice.solution.score,
        bound: choice.solution.bound,
        proven_optimal: choice.solution.proven_optimal,
        time_shifts_ps: in_ps(&choice.solution.time_shifts),
        interrupted: interrupt.seen(),
    })
}

#[pyfunction]
#[pyo3(signature = (capacity_bps, jobs, time_shifts_ps, strict = false))]
pub(crate) fn score(
    capacity_bps: u64,
    jobs: Vec<PlainProfile>,
    time_shifts_ps: Vec<u64>,
    strict: bool,
) -> PyResult<f64> {
    let shifts: Vec<Duration> = time_shifts_ps.into_iter().map(Duration::from_ps).collect();
    hocket_compat::score_of(Rate::from_bps(capacity_bps), &profiles(jobs)?, &shifts, strict)
        .map_err(value_error)
}

/// As [`Commensurate`], which documents the fields.
#[derive(IntoPyObject)]
pub(crate) struct FitResult {
    perimeter_ps: u64,
    rounds: Vec<u64>,
    periods_ps: Vec<u64>,
    error: f64,
    holds_for_ps: Option<u64>,
    padded_periods_ps: Vec<u64>,
}

#[pyfunction]
pub(crate) fn commensurate(periods_ps: Vec<u64>, tolerance: f64) -> PyResult<FitResult> {
    let periods: Vec<Duration> = periods_ps.into_iter().map(Duration::from_ps).collect();
    hocket_compat::commensurate(&periods, tolerance).map(fit_result).map_err(value_error)
}

fn fit_result(fit: Commensurate) -> FitResult {
    FitResult {
        perimeter_ps: fit.perimeter.as_ps(),
        periods_ps: in_ps(&fit.periods),
        error: fit.error,
        holds_for_ps: fit.holds_for.map(Duration::as_ps),
        padded_periods_ps: in_ps(&fit.padded_periods),
        rounds: fit.rounds,
    }
}

#[pyfunction]
pub(crate) fn stretched(job: PlainProfile, period_ps: u64) -> PyResult<PlainProfile> {
    let period = Duration::from_ps(period_ps);
    Ok(plain_profile(&hocket_compat::commensurate::stretched(&profile(job)?, period)))
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RankOptions {
    /// "mean", "min" or "tail".
    aggregate: String,
    solve_loops: bool,
    seed: u64,
    /// The relative error up to which periods may be stretched to fit.
    tolerance: f64,
}

#[derive(IntoPyObject)]
pub(crate) struct RankResult {
    placements: Vec<PlacementRow>,
    discarded: Vec<(usize, String)>,
    interrupted: bool,
}

#[derive(IntoPyObject)]
struct PlacementRow {
    candidate: usize,
    score: f64,
    links: Vec<LinkRow>,
    components: Vec<ComponentRow>,
    time_shifts_ps: Vec<Option<u64>>,
    /// Groups of jobs whose periods were fitted to each other.
    groups: Vec<(Vec<usize>, FitResult)>,
}

#[derive(IntoPyObject)]
struct LinkRow {
    link: usize,
    jobs: Vec<usize>,
    score: f64,
    proven_optimal: bool,
    own_shifts_ps: Vec<u64>,
}

#[derive(IntoPyObject)]
struct ComponentRow {
    reference: usize,
    jobs: Vec<usize>,
    links: Vec<usize>,
    score: f64,
    shifts_advised: bool,
    origin: &'static str,
    proven_optimal: bool,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RankJob {
    name: String,
    profile: PlainProfile,
    priority: i64,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RankCandidate {
    name: String,
    /// By job.
    crossings: Vec<PlainCrossings>,
    moved_jobs: usize,
}

#[pyfunction]
pub(crate) fn rank(
    py: Python<'_>,
    fabric: &Bound<'_, PyFabric>,
    jobs: Vec<RankJob>,
    candidates: Vec<RankCandidate>,
    search: Search,
    options: RankOptions,
) -> PyResult<RankResult> {
    let (jobs, links, candidates) = (cassini_jobs(jobs)?, links(fabric), given(candidates));
    let interrupt = Interrupt::new();
    let poll = || interrupt.poll();
    let tolerance = options.tolerance;
    let options = options.ranking(search.options(&poll))?;
    let ranked = py.detach(|| rank_fitted(&jobs, &links, &candidates, tolerance, &options));
    let FittedRanking { ranking, fits } = interrupt.or_value_error(ranked)?;
    let discarded = ranking.discarded.into_iter().map(|d| (d.candidate, d.reason.to_string()));
    Ok(RankResult {
        placements: ranking.placements.into_iter().zip(fits).map(placement_row).collect(),
        discarded: discarded.collect(),
        interrupted: interrupt.seen(),
    })
}

/// A [`PreparedFitted`]: candidates that are placed one by one, when they are asked for.
#[pyclass(name = "PreparedRanking", frozen, module = "hocket._hocket")]
pub(crate) struct PyPreparedRanking {
    prepared: PreparedFitted<'static>,
    search: Search,
    options: RankOptions,
}

/// What is known of a candidate: one of these three.
#[derive(IntoPyObject)]
struct PreliminaryRow {
    placement: Option<PlacementRow>,
    /// By link, a score that it cannot exceed.
    bounds: Option<Vec<(usize, f64)>>,
    discarded: Option<String>,
}

#[pymethods]
impl PyPreparedRanking {
    #[new]
    fn new(
        py: Python<'_>,
        fabric: &Bound<'_, PyFabric>,
        jobs: Vec<RankJob>,
        candidates: Vec<RankCandidate>,
        search: Search,
        options: RankOptions,
    ) -> PyResult<Self> {
        let (jobs, links, candidates) = (cassini_jobs(jobs)?, links(fabric), given(candidates));
        let interrupt = Interrupt::new();
        let poll = || interrupt.poll();
        let (tolerance, ranking) = (options.tolerance, options.ranking(search.options(&poll))?);
        let links = Cow::Owned(links);
        let prepared =
            py.detach(|| PreparedFitted::new(&jobs, links, candidates, tolerance, &ranking));
        let prepared = interrupt.or_value_error(prepared)?;
        Ok(Self { prepared, search, options })
    }

    /// By candidate: its placement, or bounds on the scores of its links if a loop has to be solved, or why it is
    /// discarded.
    fn preliminary(&self, py: Python<'_>) -> PyResult<Vec<PreliminaryRow>> {
        let known = self.interruptible(py, |options| self.prepared.preliminaries(options))?;
        let row = |preliminary| match preliminary {
            Ok(Preliminary::Placed(placement)) => {
                PreliminaryRow { placement: Some(self.row(placement)), ..EMPTY }
            }
            Ok(Preliminary::Bounded(bounds)) => PreliminaryRow { bounds: Some(bounds), ..EMPTY },
            Err(reason) => {
                PreliminaryRow { discarded: Some(DiscardReason::to_string(&reason)), ..EMPTY }
            }
        };
        Ok(known.into_iter().map(row).collect())
    }

    /// Lower bounds for a candidate that has bounds. `ValueError` with the reason if it is discarded.
    fn tight_bounds(&self, py: Python<'_>, candidate: usize) -> PyResult<Vec<(usize, f64)>> {
        let tight = |options: &CassiniOptions<'_>| self.prepared.tight_bounds(candidate, options);
        self.interruptible(py, tight)?.map_err(value_error)
    }

    /// The placement of a candidate that has only bounds. `ValueError` with the reason if it is discarded.
    fn place(&self, py: Python<'_>, candidate: usize) -> PyResult<PlacementRow> {
        let placed = self.interruptible(py, |options| self.prepared.place(candidate, options))?;
        placed.map(|placement| self.row(placement)).map_err(value_error)
    }
}

const EMPTY: PreliminaryRow = PreliminaryRow { placement: None, bounds: None, discarded: None };

impl PyPreparedRanking {
    /// The result of `call` without the interpreter's lock; `KeyboardInterrupt` if Ctrl-C ended one of its searches.
    fn interruptible<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&CassiniOptions<'_>) -> T + Send,
    ) -> PyResult<T> {
        let interrupt = Interrupt::new();
        let poll = || interrupt.poll();
        let options = self.options.ranking(self.search.options(&poll))?;
        let result = py.detach(|| call(&options));
        if interrupt.seen() { Err(PyKeyboardInterrupt::new_err(())) } else { Ok(result) }
    }

    fn row(&self, placement: Placement) -> PlacementRow {
        let fits = self.prepared.fits(placement.candidate).to_vec();
        placement_row((placement, fits))
    }
}

fn cassini_jobs(jobs: Vec<RankJob>) -> PyResult<Vec<CassiniJob>> {
    jobs.into_iter().map(RankJob::job).collect()
}

fn links(fabric: &Bound<'_, PyFabric>) -> Vec<CassiniLink> {
    let links = fabric.get().fabric.links().iter();
    links.map(|link| CassiniLink { name: link.name.clone(), capacity: link.rate }).collect()
}

fn given(candidates: Vec<RankCandidate>) -> Vec<Candidate> {
    candidates.into_iter().map(RankCandidate::candidate).collect()
}

impl RankOptions {
    fn ranking<'a>(&self, solve: SolveOptions<'a>) -> PyResult<CassiniOptions<'a>> {
        Ok(CassiniOptions {
            solve,
            aggregate: aggregate(&self.aggregate)?,
            loops: if self.solve_loops { Loops::Solve } else { Loops::Discard },
            seed: self.seed,
            ..CassiniOptions::default()
        })
    }
}

fn aggregate(name: &str) -> PyResult<Aggregate> {
    let aggregates = [
        ("mean", Aggregate::Mean),
        ("min", Aggregate::Min),
        // The 5th percentile of the links, as tails are usually reported.
        ("tail", Aggregate::Tail { quantile: 0.05 }),
    ];
    one_of("aggregate", name, aggregates)
}

impl RankJob {
    fn job(self) -> PyResult<CassiniJob> {
        Ok(CassiniJob { name: self.name, profile: profile(self.profile)?, priority: self.priority })
    }
}

impl RankCandidate {
    fn candidate(self) -> Candidate {
        let crossings = self.crossings.into_iter().enumerate().flat_map(|(job, crossings)| {
            let crossing = move |(link, flows)| CassiniCrossing { job, link: link as usize, flows };
            crossings.into_iter().map(crossing)
        });
        Candidate { name: self.name, crossings: crossings.collect(), moved_jobs: self.moved_jobs }
    }
}

fn placement_row((placement, groups): (Placement, Vec<GroupFit>)) -> PlacementRow {
    let shifts = placement.time_shifts.iter();
    PlacementRow {
        candidate: placement.candidate,
        score: placement.score,
        time_shifts_ps: shifts.map(|shift| shift.map(Duration::as_ps)).collect(),
        links: placement.links.into_iter().map(link_row).collect(),
        components: placement.components.into_iter().map(component_row).collect(),
        groups: groups.into_iter().map(|group| (group.jobs, fit_result(group.fit))).collect(),
    }
}

fn link_row(link: LinkScore) -> LinkRow {
    let LinkScore { link, jobs, score, proven_optimal, own_shifts } = link;
    LinkRow { link, jobs, score, proven_optimal, own_shifts_ps: in_ps(&own_shifts) }
}

fn component_row(component: ComponentShifts) -> ComponentRow {
    let (origin, proven_optimal) = match component.origin {
        // Algorithm 1 keeps the score of every link (Theorem 1), so each of these is as good as its link allows.
        Origin::LoopFree => ("loop-free", true),
        Origin::ClosedLoops => ("closed loops", true),
        Origin::Joint { proven_optimal, .. } => ("joint", proven_optimal),
    };
    let ComponentShifts { reference, jobs, links, score, shifts_advised, .. } = component;
    ComponentRow { reference, jobs, links, score, shifts_advised, origin, proven_optimal }
}
