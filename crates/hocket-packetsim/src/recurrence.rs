//! Detection of periodic jobs that repeat themselves: joint cycles of all jobs are compared, and once they agree, the run
//! repeats them instead of simulating them.

use std::collections::VecDeque;

use hocket_des::{Duration, Stream, Time};
use hocket_scenario::{Column, IterationRow, JobId, PhaseRow, Records, Scenario, Table};

use crate::jobs::{JobCounts, Standing};
use crate::options::Skip;
use crate::outcome::{Obstacle, PacketCounters, Repeat, Skipping};
use crate::records::PortCounts;

// The largest number of stretches, from one quiet moment to the next, in a cycle: as many iterations as a job may have on a
// common circle where periods are fitted to each other.
const MAX_STRETCHES: usize = 72;
// The largest number of rows and counts kept for comparison and repetition: a few hundred megabytes.
const MAX_KEPT: usize = 1 << 22;

/// Compares the cycles of periodic jobs.
pub(crate) struct Recurrence<'a> {
    skip: Skip,
    scenario: Option<&'a Scenario>,
    /// The latest end of the run.
    until: Time,
    /// Why this run can never skip ahead, if it cannot.
    obstacle: Option<Obstacle>,
    /// All time skipped so far: the difference between simulated time and the engine's time.
    pub(crate) offset: Duration,
    quiet: Quiet,
    /// Where the stretches begin and end: one more than the number of stretches.
    moments: VecDeque<Moment>,
    stretches: VecDeque<Rows>,
    /// Rows since the last moment.
    rows: Rows,
    kept: usize,
    closest: Option<f64>,
    repeats: Vec<Repeat>,
    repeated: PacketCounters,
}

/// Finds the same moment in each cycle: just before an event of a job that follows a long time without such events. Times
/// that vary between cycles by less than that quiet time then cannot move an event to another cycle.
#[derive(Default)]
struct Quiet {
    /// The job whose iterations are observed, and the number of those that it has finished.
    reference: (usize, u64),
    /// The longest time without events in its current iteration.
    longest: Duration,
    /// The threshold for a long time: half of the longest in its last iteration.
    long: Duration,
}

/// The state of the run at one moment.
pub(crate) struct Moment {
    /// In the engine's time.
    pub(crate) at: Time,
    pub(crate) jobs: Vec<Standing>,
    /// By flow: the rate that its congestion control last allowed.
    pub(crate) rates_bps: Vec<u64>,
    /// The random streams of the network; every draw changes their state.
    pub(crate) draws: Vec<Stream>,
    pub(crate) counters: PacketCounters,
    pub(crate) ports: PortCounts,
    pub(crate) job_counts: JobCounts,
}

/// The rows of one stretch.
#[derive(Default)]
pub(crate) struct Rows {
    /// In the engine's time, like the phases.
    pub(crate) iterations: Vec<IterationRow>,
    pub(crate) phases: Vec<PhaseRow>,
    /// All other rows, as they were handed over.
    pub(crate) tables: Vec<Table>,
}

/// The repetition of the latest stretches.
pub(crate) struct Plan {
    /// The first stretch to repeat; the last one is the latest.
    first: usize,
    pub(crate) times: u64,
    /// The duration of these stretches.
    pub(crate) span: Duration,
    cycles: u64,
    is_exact: bool,
    deviation: f64,
}

/// Start and end of an iteration or a phase of a job, relative to the start of its cycle, and the wait before the iteration,
/// which differs before the first one.
#[derive(Clone, Copy)]
struct Mark {
    job: JobId,
    /// 0 for an iteration, otherwise the number of the phase, counted from 1.
    of: u32,
    times_ps: [i128; 3],
}

impl<'a> Recurrence<'a> {
    /// Observes the jobs of `scenario`, if there is one.
    pub(crate) fn new(skip: Skip, scenario: Option<&'a Scenario>, until: Option<Time>) -> Self {
        Self {
            skip,
            scenario,
            until: until.unwrap_or(Time::from_ps(u64::MAX)),
            obstacle: scenario.map_or(Some(Obstacle::NoJobs), obstacle),
            offset: Duration::ZERO,
            quiet: Quiet::default(),
            moments: VecDeque::new(),
            stretches: VecDeque::new(),
            rows: Rows::default(),
            kept: 0,
            closest: None,
            repeats: Vec::new(),
            repeated: PacketCounters::default(),
        }
    }

    /// Whether to compare cycles now, before an event of a job, after a time `gap` without such events.
    pub(crate) fn is_moment(&mut self, gap: Duration, jobs: &[Standing]) -> bool {
        if self.obstacle.is_some() {
            return false;
        }
        let Some(reference) = jobs.iter().position(|job| !job.is_gone) else { return false };
        if reference != self.quiet.reference.0 {
            self.forget();
        }
        self.quiet.is_long(gap, (reference, jobs[reference].done))
    }

    /// Keeps rows for comparison and repetition.
    pub(crate) fn keep(&mut self, records: &Records, tables: &[Table]) {
        // Rows before the first moment belong to no stretch.
        if self.moments.is_empty() {
            return;
        }
        self.rows.iterations.extend_from_slice(&records.iterations);
        self.rows.phases.extend_from_slice(&records.phases);
        self.rows.tables.extend_from_slice(tables);
        // A stretch with that many rows is too long to be repeated often.
        if self.rows.size() > MAX_KEPT {
            self.forget();
        }
    }

    /// Discards everything so far, so that cycles are compared from here on only.
    pub(crate) fn forget(&mut self) {
        self.quiet = Quiet::default();
        self.moments.clear();
        self.stretches.clear();
        self.rows = Rows::default();
        self.kept = 0;
    }

    /// Ends a stretch at `moment`, before which all rows were kept; returns what to repeat from here on, if anything.
    pub(crate) fn on_moment(&mut self, moment: Moment) -> Option<Plan> {
        self.kept += moment.size();
        if !self.moments.is_empty() {
            let rows = std::mem::take(&mut self.rows);
            self.kept += rows.size();
            self.stretches.push_back(rows);
        }
        self.moments.push_back(moment);
        let most = MAX_STRETCHES * self.skip.cycles as usize;
        while self.stretches.len() > most || (self.kept > MAX_KEPT && !self.stretches.is_empty()) {
            let (moment, rows) = (self.moments.pop_front(), self.stretches.pop_front());
            self.kept -= moment.map_or(0, |each| each.size()) + rows.map_or(0, |each| each.size());
        }
        self.plan()
    }

    /// By job: the number of iterations in one repetition of `plan`.
    pub(crate) fn iterations(&self, plan: &Plan) -> Vec<u64> {
        self.moments[plan.first].iterations_until(self.last())
    }

    /// The moments at which the stretches of `plan` begin and end.
    pub(crate) fn ends(&self, plan: &Plan) -> (&Moment, &Moment) {
        (&self.moments[plan.first], self.last())
    }

    /// The rows of repetition number `times` of `plan`, counted from 1. To be called before [`done`](Self::done).
    pub(crate) fn repetition(&self, plan: &Plan, times: u64) -> Rows {
        let (span, per_time) = (plan.span * times, self.iterations(plan));
        let stretches = || self.stretches.range(plan.first..);
        let number = |job: JobId, number: u64| number + times * per_time[job.index()];
        let iteration = |row: &IterationRow| IterationRow {
            iteration: number(row.job, row.iteration),
            start: row.start + span,
            end: row.end + span,
            ..*row
        };
        let phase = |row: &PhaseRow| PhaseRow {
            iteration: number(row.job, row.iteration),
            start: row.start + span,
            end: row.end + span,
            ..*row
        };
        let table = |rows: &Table| later(rows.clone(), span);
        Rows {
            iterations: stretches()
                .flat_map(|rows| rows.iterations.iter().map(iteration))
                .collect(),
            phases: stretches().flat_map(|rows| rows.phases.iter().map(phase)).collect(),
            tables: stretches().flat_map(|rows| rows.tables.iter().map(table)).collect(),
        }
    }

    /// Records that `plan` was repeated `times` times; returns rows of the table `repeated`.
    pub(crate) fn done(&mut self, plan: &Plan, times: u64) -> Table {
        let (from, to) = self.ends(plan);
        let counters = to.counters.since(&from.counters);
        let per_time = from.iterations_until(to);
        let start = to.at + self.offset;
        let skipped = plan.span * times;
        let iterations = to.jobs.iter().zip(&per_time);
        let repeat = Repeat {
            start,
            end: start + skipped,
            cycles: plan.cycles * times,
            iterations: iterations.map(|(job, each)| job.done..job.done + each * times).collect(),
            is_exact: plan.is_exact,
            deviation: plan.deviation,
        };
        let table = repeat.table(self.scenario);
        self.repeats.push(repeat);
        self.repeated = self.repeated.plus(&counters, times);
        self.offset += skipped;
        self.forget();
        table
    }

    /// The counts of all repeated cycles.
    pub(crate) fn repeated(&self) -> &PacketCounters {
        &self.repeated
    }

    /// The result over the whole run.
    pub(crate) fn into_skipping(self) -> Skipping {
        let Self { skip, closest, repeats, repeated: counters, .. } = self;
        let obstacle = self.obstacle.or(match &repeats[..] {
            [] => Some(Obstacle::NoRecurrence { skip, closest }),
            _ => None,
        });
        Skipping { repeats, obstacle, counters }
    }

    fn last(&self) -> &Moment {
        self.moments.back().expect("a plan begins and ends at moments")
    }

    fn plan(&mut self) -> Option<Plan> {
        let cycles = self.skip.cycles as usize;
        // The shortest cycle first: it fits most often into the iterations that are left.
        for length in 1..=self.stretches.len() / cycles {
            let Some(deviation) = self.deviation(length) else { continue };
            // Cycles that could not be skipped anyway do not count for `closest`.
            let is_exact = deviation == 0.0 && self.recurs_exactly(length);
            // Exact cycles are equal, so one of them is enough; others are repeated in turn, which keeps their mean.
            let repeated = if is_exact { 1 } else { cycles };
            let first = self.stretches.len() - repeated * length;
            let times = self.times(first);
            if times == 0 {
                continue;
            }
            self.closest = Some(self.closest.map_or(deviation, |closest| closest.min(deviation)));
            if is_exact || (deviation <= self.skip.tolerance && self.skip.tolerance > 0.0) {
                let span = self.last().at.since(self.moments[first].at);
                let cycles = repeated as u64;
                return Some(Plan { first, times, span, cycles, is_exact, deviation });
            }
        }
        None
    }

    /// How often the stretches from `first` on can be repeated without a job finishing its last iteration or the run
    /// reaching its end.
    fn times(&self, first: usize) -> u64 {
        let (from, to) = (&self.moments[first], self.last());
        let per_time = from.iterations_until(to);
        let Some(scenario) = self.scenario else { return 0 };
        let by_job = scenario.job_ids().filter(|job| per_time[job.index()] > 0);
        let by_job = by_job.filter_map(|job| {
            let left = scenario.iterations(job)? - to.jobs[job.index()].done;
            // The last iteration is simulated, because the job leaves after it.
            Some(left.saturating_sub(1) / per_time[job.index()])
        });
        let span = to.at.since(from.at).as_ps();
        let now = (to.at + self.offset).as_ps();
        by_job.fold(self.until.as_ps().saturating_sub(now) / span, u64::min)
    }

    /// The largest difference between any two of the last cycles of `length` stretches; `None` if their events differ or
    /// some job finished no iteration.
    fn deviation(&self, length: usize) -> Option<f64> {
        let moments = self.cycle_ends(length);
        let (last, before) = (moments[moments.len() - 1], moments[moments.len() - 2]);
        let per_cycle = before.iterations_until(last);
        let all_iterate = last.jobs.iter().zip(&per_cycle).all(|(job, &n)| job.is_gone || n > 0);
        let is_alike = |pair: &[&Moment]| {
            let standings = pair[0].jobs.iter().zip(&pair[1].jobs);
            pair[0].iterations_until(pair[1]) == per_cycle
                && standings.into_iter().all(|(one, other)| one.is_sending == other.is_sending)
        };
        if !all_iterate || !moments.windows(2).all(is_alike) {
            return None;
        }
        let cycles: Vec<Vec<Mark>> = (0..moments.len() - 1)
            .map(|cycle| self.marks(self.first_of_cycle(cycle, length), length))
            .collect();
        let spans: Vec<u64> =
            moments.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_ps()).collect();
        let mut largest = 0.0_f64;
        for (index, one) in cycles.iter().enumerate() {
            for (other, span) in cycles.iter().zip(&spans).take(index) {
                largest = largest.max(difference(one, other, *span, &per_cycle)?);
                largest = largest.max(spans[index].abs_diff(*span) as f64 / *span as f64);
            }
        }
        Some(largest)
    }

    /// Whether cycles that agree in all times also recur exactly: they drew no random number, cut no rate, and agree in what
    /// each port sent and in the rates at their ends. A rate cut rules this out, because a control that cuts and recovers has
    /// more state than its rate, and other flows on the same NIC can hide the effects of that state for a while.
    fn recurs_exactly(&self, length: usize) -> bool {
        let moments = self.cycle_ends(length);
        let is_alike = |pair: &[&Moment]| {
            pair[0].rates_bps == pair[1].rates_bps
                && pair[0].draws == pair[1].draws
                && pair[0].counters.rate_cuts == pair[1].counters.rate_cuts
        };
        let counts = |pair: &[&Moment]| {
            // Samples count as events but do not follow the cycles.
            let counters =
                PacketCounters { events: 0, ..pair[1].counters.since(&pair[0].counters) };
            (counters, pair[1].ports.since(&pair[0].ports))
        };
        let mut each = moments.windows(2).map(counts);
        let first = each.next();
        moments.windows(2).all(is_alike) && each.all(|other| Some(&other) == first.as_ref())
    }

    /// Where the compared cycles of `length` stretches begin and end.
    fn cycle_ends(&self, length: usize) -> Vec<&Moment> {
        let ends = 0..=self.skip.cycles as usize;
        ends.map(|cycle| &self.moments[self.first_of_cycle(cycle, length)]).collect()
    }

    fn first_of_cycle(&self, cycle: usize, length: usize) -> usize {
        self.stretches.len() - (self.skip.cycles as usize - cycle) * length
    }

    /// The iterations and phases that ended in the `length` stretches from `first` on, by job and in order of time.
    fn marks(&self, first: usize, length: usize) -> Vec<Mark> {
        let start = i128::from(self.moments[first].at.as_ps());
        let times_ps = |from: Time, to: Time, delayed: Duration| {
            let since_start = |time: Time| i128::from(time.as_ps()) - start;
            [since_start(from), since_start(to), i128::from(delayed.as_ps())]
        };
        let mut marks = Vec::new();
        for rows in self.stretches.range(first..first + length) {
            marks.extend(rows.iterations.iter().map(|row| {
                let times_ps = times_ps(row.start, row.end, row.delayed);
                Mark { job: row.job, of: 0, times_ps }
            }));
            marks.extend(rows.phases.iter().map(|row| {
                let times_ps = times_ps(row.start, row.end, Duration::ZERO);
                Mark { job: row.job, of: row.phase + 1, times_ps }
            }));
        }
        // The sort is stable: marks of one job and kind stay in order of time.
        marks.sort_by_key(|mark| (mark.job, mark.of));
        marks
    }
}

impl Quiet {
    fn is_long(&mut self, gap: Duration, reference: (usize, u64)) -> bool {
        if reference != self.reference {
            self.long = Duration::from_ps(self.longest.as_ps() / 2);
            self.longest = Duration::ZERO;
            self.reference = reference;
        }
        self.longest = self.longest.max(gap);
        !self.long.is_zero() && gap >= self.long
    }
}

impl Moment {
    /// By job: the iterations that ended after this moment and before a later one.
    fn iterations_until(&self, later: &Self) -> Vec<u64> {
        let both = self.jobs.iter().zip(&later.jobs);
        both.map(|(before, after)| after.done - before.done).collect()
    }

    fn size(&self) -> usize {
        self.jobs.len()
            + self.rates_bps.len()
            + self.draws.len()
            + self.ports.size()
            + self.job_counts.size()
    }
}

impl Rows {
    fn size(&self) -> usize {
        let tables: usize = self.tables.iter().map(Table::rows).sum();
        self.iterations.len() + self.phases.len() + tables
    }
}

/// The same rows with all times moved `span` later.
pub(crate) fn later(mut table: Table, span: Duration) -> Table {
    if span.is_zero() {
        return table;
    }
    for (_, column) in &mut table.columns {
        if let Column::Time(times) = column {
            times.iter_mut().for_each(|time| *time += span);
        }
    }
    table
}

// A job cannot recur if it reacts to random draws or to absolute time, which differ from cycle to cycle.
fn obstacle(scenario: &Scenario) -> Option<Obstacle> {
    scenario.jobs().iter().find_map(|job| {
        let name = || job.name.clone();
        if job.training().is_some() {
            Some(Obstacle::Training(name()))
        } else if job.jitter > 0.0 {
            Some(Obstacle::Jitter(name()))
        } else if !job.clock_error.is_zero() {
            Some(Obstacle::ClockError(name()))
        } else if job.readjust {
            Some(Obstacle::Readjusts(name()))
        } else {
            None
        }
    })
}

/// The largest difference between two cycles, relative to the iteration time of the job concerned; `None` if different
/// iterations or phases ended in them.
fn difference(one: &[Mark], other: &[Mark], span_ps: u64, per_cycle: &[u64]) -> Option<f64> {
    if one.len() != other.len() {
        return None;
    }
    let mut largest = 0.0_f64;
    for (one, other) in one.iter().zip(other) {
        if (one.job, one.of) != (other.job, other.of) {
            return None;
        }
        let iteration_ps = span_ps as f64 / per_cycle[one.job.index()] as f64;
        for (one, other) in one.times_ps.iter().zip(other.times_ps) {
            largest = largest.max((one - other).unsigned_abs() as f64 / iteration_ps);
        }
    }
    Some(largest)
}
