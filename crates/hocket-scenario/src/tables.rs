//! What comes out of a run, the same from both engines: an engine records rows, and `Records`
//! turns them into columns with units in their names.

mod training;

use hocket_des::{Bytes, Duration, Rate, Time};

use crate::{JobId, LinkId, Scenario};

/// One finished iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// When it began, after any delay.
    pub start: Time,
    /// When its last phase ended.
    pub end: Time,
    /// Time in Up phases. Of a training job what is left beside the mean of its ranks' computes: exposed communication.
    pub communication: Duration,
    /// Wait before `start` that the job chose: time-shift, re-adjustment, padding.
    pub delayed: Duration,
}

/// One finished Up phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Counted from 0 within the iteration.
    pub phase: u32,
    /// When the job began to send.
    pub start: Time,
    /// When all was sent.
    pub end: Time,
    /// What each of the job's flows sent.
    pub bytes: Bytes,
}

/// From `start` on, each of the job's flows sends at `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRow {
    /// Whose.
    pub job: JobId,
    /// Since when.
    pub start: Time,
    /// Up to the job's next row.
    pub rate: Rate,
}

/// What one job put on one link during the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRow {
    /// The link.
    pub link: LinkId,
    /// Whose.
    pub job: JobId,
    /// All flows together.
    pub bytes: Bytes,
    /// Those bytes ÷ what the link could have carried in the run.
    pub utilisation: f64,
    /// How long the job was sending on the link.
    pub busy: Duration,
}

/// A job that had drifted delayed itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjustmentRow {
    /// Whose.
    pub job: JobId,
    /// When the job decided, at the end of an iteration.
    pub time: Time,
    /// How far from its slot the last communication had started; positive is late.
    pub deviation_ps: i64,
    /// The wait before the next iteration.
    pub delay: Duration,
}

/// One finished iteration of one rank of a training job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Which rank.
    pub rank: u32,
    /// When its first operations began.
    pub start: Time,
    /// When its last operation was done.
    pub end: Time,
    /// Time in computes.
    pub compute: Duration,
    /// Time in which nothing was computed while something was communicated.
    pub exposed: Duration,
}

/// One finished operation of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// Which rank.
    pub rank: u32,
    /// Its place in the rank's program.
    pub operation: u32,
    /// When it began: the compute; taking part in the collective; sending; waiting for what is received.
    pub start: Time,
    /// When it was done.
    pub end: Time,
}

/// One collective, finished by all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveRow {
    /// Whose.
    pub job: JobId,
    /// Counted from 0.
    pub iteration: u64,
    /// A program that has it, and its place there.
    pub program: u32,
    /// Its place in that program.
    pub operation: u32,
    /// The group.
    pub group: u32,
    /// When its first rank came to it.
    pub start: Time,
    /// When its last rank was done.
    pub end: Time,
    /// From when a rank came to it until it was done, the mean over ranks.
    pub mean: Duration,
}

/// What a job's policies did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounters {
    /// The wait before the first iteration, clock error included.
    pub time_shift: Duration,
    /// Flow engine: rate allocations in which the job met one of another weight or queue on a full link,
    /// so that weight or priority decided. Packet engine: cuts of a rate by the job's congestion controls.
    pub policy_acted: u64,
}

/// The rows of a run in the order of events. They can be taken out while the run goes on
/// ([`Self::take_tables`]); what the table `jobs` says is kept beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// In order of end.
    pub iterations: Vec<IterationRow>,
    /// In order of end.
    pub phases: Vec<PhaseRow>,
    /// In order of start.
    pub rates: Vec<RateRow>,
    /// By link, then job.
    pub links: Vec<LinkRow>,
    /// In order of time.
    pub adjustments: Vec<AdjustmentRow>,
    /// In order of end.
    pub ranks: Vec<RankRow>,
    /// In order of end.
    pub operations: Vec<OperationRow>,
    /// In order of end, within a group.
    pub collectives: Vec<CollectiveRow>,
    /// By job.
    pub jobs: Vec<JobCounters>,
    /// By job: what the rows that were taken out said.
    summaries: Vec<JobSummary>,
}

/// What is kept of a job's iterations and adjustments: 8 bytes of each iteration, for the percentiles.
#[derive(Clone, Debug, Default, PartialEq)]
struct JobSummary {
    durations: Vec<Duration>,
    communication_ps: u128,
    /// Without the wait before the first iteration.
    delayed_ps: u128,
    adjustments: u64,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are named after their types")]
pub enum Column {
    U64(Vec<u64>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    F64(Vec<f64>),
    /// Row i reads `dictionary[codes[i]]`.
    Str {
        codes: Vec<u32>,
        dictionary: Vec<String>,
    },
}

/// Columns of one length, with names that carry their units.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Those of [`Tables`]; engines have more.
    pub name: &'static str,
    /// In the order in which they are shown.
    pub columns: Vec<(&'static str, Column)>,
}

/// All tables of a run. Rows stand in the order of events; those of `links` and `jobs` in the order
/// of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// `job, iteration, start_ps, end_ps, iteration_s, communication_s, compute_s, delayed_s`:
    /// finished iterations; `iteration_s` runs from start to end, `delayed_s` is the wait before.
    pub iterations: Table,
    /// `job, iteration, phase, start_ps, end_ps, bytes, mean_rate_bps`: finished Up phases, per flow.
    pub phases: Table,
    /// `job, start_ps, rate_bps`: a step function per job, per flow.
    pub rates: Table,
    /// `link, job, bytes, utilisation, busy_s`.
    pub links: Table,
    /// `job, time_ps, deviation_s, delay_s`.
    pub adjustments: Table,
    /// `job, iteration, rank, host, start_ps, end_ps, compute_s, exposed_s`: finished iterations of each rank of a training
    /// job; `exposed_s` is the time in which nothing was computed while something was communicated.
    pub ranks: Table,
    /// `job, iteration, rank, operation, name, kind, start_ps, end_ps`: of the iterations that are recorded so closely.
    pub operations: Table,
    /// `job, iteration, name, kind, algorithm, ranks, group, bytes, start_ps, end_ps, time_s, algbw_bps, busbw_bps`: from the
    /// first rank that comes to it to the last that is done, and in `time_s` the mean over ranks of their own time, as nccl-tests
    /// measure it; groups of one rank left out.
    pub collectives: Table,
    /// `job, iterations, mean_iteration_s, p50_iteration_s, p90_iteration_s, p99_iteration_s,
    /// mean_communication_s, mean_delayed_s, time_shift_s, adjustments, policy_acted`: percentiles by
    /// nearest rank, NaN for a job without a finished iteration. `mean_delayed_s` leaves the first
    /// iteration out, so that `mean_iteration_s + mean_delayed_s` is what an iteration costs in the
    /// long run.
    pub jobs: Table,
}

impl Column {
    /// How many rows the column has.
    pub fn len(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Str { codes, .. } => codes.len(),
        }
    }

    /// Whether the column has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// How many rows each column has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(known, _)| *known == name).map(|(_, column)| column)
    }
}

impl Tables {
    /// The tables of every run, in the order in which they are written.
    pub fn all(&self) -> [&Table; 6] {
        [&self.iterations, &self.phases, &self.rates, &self.links, &self.adjustments, &self.jobs]
    }

    /// Those that only training jobs have rows in.
    pub fn of_training(&self) -> [&Table; 3] {
        [&self.ranks, &self.operations, &self.collectives]
    }
}

impl Records {
    /// No rows yet.
    pub fn new(scenario: &Scenario) -> Self {
        Self::of_jobs(scenario.jobs().len())
    }

    /// No rows yet, of so many jobs.
    pub fn of_jobs(jobs: usize) -> Self {
        Self {
            iterations: Vec::new(),
            phases: Vec::new(),
            rates: Vec::new(),
            links: Vec::new(),
            adjustments: Vec::new(),
            ranks: Vec::new(),
            operations: Vec::new(),
            collectives: Vec::new(),
            jobs: vec![JobCounters::default(); jobs],
            summaries: vec![JobSummary::default(); jobs],
        }
    }

    /// Rows that were not taken out yet.
    pub fn rows(&self) -> usize {
        let of_jobs = self.iterations.len() + self.phases.len() + self.rates.len();
        let of_ranks = self.ranks.len() + self.operations.len() + self.collectives.len();
        of_jobs + self.adjustments.len() + of_ranks
    }

    /// Takes out the rows so far of all tables but `links` and `jobs`, empty ones left out. One after another, a run's tables of one name hold what [`Self::into_tables`] would have held.
    pub fn take_tables(&mut self, scenario: &Scenario) -> Vec<Table> {
        self.summarise();
        let names = job_names(scenario);
        let tables = [
            iteration_table(&self.iterations, &names),
            phase_table(&self.phases, &names),
            rate_table(&self.rates, &names),
            adjustment_table(&self.adjustments, &names),
            training::rank_table(&self.ranks, scenario, &names),
            training::operation_table(&self.operations, scenario, &names),
            training::collective_table(&self.collectives, scenario, &names),
        ];
        self.iterations.clear();
        self.phases.clear();
        self.rates.clear();
        self.adjustments.clear();
        self.ranks.clear();
        self.operations.clear();
        self.collectives.clear();
        tables.into_iter().filter(|table| table.rows() > 0).collect()
    }

    /// The tables that come last, `links` and `jobs`, after all rows were taken out.
    pub fn last_tables(&mut self, scenario: &Scenario) -> [Table; 2] {
        assert!(self.rows() == 0, "the table of jobs is about all iterations");
        let names = job_names(scenario);
        let links = link_table(&self.links, scenario, &names);
        [links, job_table(&mut self.summaries, &self.jobs, scenario, &names)]
    }

    /// The rows as columns; `scenario` is what was run, and gives the names.
    pub fn into_tables(mut self, scenario: &Scenario) -> Tables {
        self.summarise();
        let names = job_names(scenario);
        Tables {
            jobs: job_table(&mut self.summaries, &self.jobs, scenario, &names),
            iterations: iteration_table(&self.iterations, &names),
            phases: phase_table(&self.phases, &names),
            rates: rate_table(&self.rates, &names),
            links: link_table(&self.links, scenario, &names),
            adjustments: adjustment_table(&self.adjustments, &names),
            ranks: training::rank_table(&self.ranks, scenario, &names),
            operations: training::operation_table(&self.operations, scenario, &names),
            collectives: training::collective_table(&self.collectives, scenario, &names),
        }
    }

    fn summarise(&mut self) {
        for row in &self.iterations {
            let summary = &mut self.summaries[row.job.index()];
            summary.communication_ps += u128::from(row.communication.as_ps());
            if !summary.durations.is_empty() {
                summary.delayed_ps += u128::from(row.delayed.as_ps());
            }
            summary.durations.push(row.duration());
        }
        for row in &self.adjustments {
            self.summaries[row.job.index()].adjustments += 1;
        }
    }
}

impl IterationRow {
    /// From start to end, without the wait before.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}

fn iteration_table(rows: &[IterationRow], names: &[String]) -> Table {
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", u64_column(rows, |row| row.iteration)),
        ("start_ps", u64_column(rows, |row| row.start.as_ps())),
        ("end_ps", u64_column(rows, |row| row.end.as_ps())),
        ("iteration_s", seconds_column(rows, IterationRow::duration)),
        ("communication_s", seconds_column(rows, |row| row.communication)),
        ("compute_s", seconds_column(rows, |row| row.duration() - row.communication)),
        ("delayed_s", seconds_column(rows, |row| row.delayed)),
    ];
    Table { name: "iterations", columns }
}

fn phase_table(rows: &[PhaseRow], names: &[String]) -> Table {
    let mean_rate = |row: &PhaseRow| {
        let bits = row.bytes.get() as f64 * 8.0;
        bits / row.end.since(row.start).as_secs_f64()
    };
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", u64_column(rows, |row| row.iteration)),
        ("phase", Column::U32(rows.iter().map(|row| row.phase).collect())),
        ("start_ps", u64_column(rows, |row| row.start.as_ps())),
        ("end_ps", u64_column(rows, |row| row.end.as_ps())),
        ("bytes", u64_column(rows, |row| row.bytes.get())),
        ("mean_rate_bps", Column::F64(rows.iter().map(mean_rate).collect())),
    ];
    Table { name: "phases", columns }
}

fn rate_table(rows: &[RateRow], names: &[String]) -> Table {
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("start_ps", u64_column(rows, |row| row.start.as_ps())),
        ("rate_bps", u64_column(rows, |row| row.rate.as_bps())),
    ];
    Table { name: "rates", columns }
}

fn link_table(rows: &[LinkRow], scenario: &Scenario, names: &[String]) -> Table {
    // Only links that a job crosses: a large fabric has many more.
    let mut used: Vec<LinkId> = rows.iter().map(|row| row.link).collect();
    used.sort_unstable();
    used.dedup();
    let code = |link| used.binary_search(&link).expect("every row's link was collected") as u32;
    let links = scenario.fabric().links();
    let link = Column::Str {
        codes: rows.iter().map(|row| code(row.link)).collect(),
        dictionary: used.iter().map(|link| links[link.index()].name.clone()).collect(),
    };
    let columns = vec![
        ("link", link),
        ("job", job_column(rows, names, |row| row.job)),
        ("bytes", u64_column(rows, |row| row.bytes.get())),
        ("utilisation", Column::F64(rows.iter().map(|row| row.utilisation).collect())),
        ("busy_s", seconds_column(rows, |row| row.busy)),
    ];
    Table { name: "links", columns }
}

fn adjustment_table(rows: &[AdjustmentRow], names: &[String]) -> Table {
    let deviation_s = |row: &AdjustmentRow| row.deviation_ps as f64 * 1e-12;
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("time_ps", u64_column(rows, |row| row.time.as_ps())),
        ("deviation_s", Column::F64(rows.iter().map(deviation_s).collect())),
        ("delay_s", seconds_column(rows, |row| row.delay)),
    ];
    Table { name: "adjustments", columns }
}

fn job_table(
    summaries: &mut [JobSummary],
    counters: &[JobCounters],
    scenario: &Scenario,
    names: &[String],
) -> Table {
    for summary in summaries.iter_mut() {
        summary.durations.sort_unstable();
    }
    let summaries = &*summaries;
    let ids: Vec<JobId> = scenario.job_ids().collect();
    let column =
        |value: &dyn Fn(&JobSummary) -> f64| Column::F64(summaries.iter().map(value).collect());
    // Sums are in whole picoseconds, so that no mean depends on the order of the rows.
    let count = |summary: &JobSummary| summary.durations.len();
    let total_ps = |summary: &JobSummary| {
        summary.durations.iter().map(|each| u128::from(each.as_ps())).sum::<u128>()
    };
    let columns = vec![
        ("job", job_column(&ids, names, |&job| job)),
        ("iterations", u64_column(summaries, |summary| count(summary) as u64)),
        ("mean_iteration_s", column(&|each| mean_s(total_ps(each), count(each)))),
        ("p50_iteration_s", column(&|each| percentile_s(&each.durations, 50))),
        ("p90_iteration_s", column(&|each| percentile_s(&each.durations, 90))),
        ("p99_iteration_s", column(&|each| percentile_s(&each.durations, 99))),
        ("mean_communication_s", column(&|each| mean_s(each.communication_ps, count(each)))),
        ("mean_delayed_s", column(&|each| mean_s(each.delayed_ps, count(each).saturating_sub(1)))),
        ("time_shift_s", seconds_column(counters, |job| job.time_shift)),
        ("adjustments", u64_column(summaries, |summary| summary.adjustments)),
        ("policy_acted", u64_column(counters, |job| job.policy_acted)),
    ];
    Table { name: "jobs", columns }
}

fn job_names(scenario: &Scenario) -> Vec<String> {
    scenario.jobs().iter().map(|job| job.name.clone()).collect()
}

fn job_column<Row>(rows: &[Row], names: &[String], job: impl Fn(&Row) -> JobId) -> Column {
    let codes = rows.iter().map(|row| job(row).code()).collect();
    Column::Str { codes, dictionary: names.to_vec() }
}

fn u64_column<Row>(rows: &[Row], value: impl Fn(&Row) -> u64) -> Column {
    Column::U64(rows.iter().map(value).collect())
}

fn seconds_column<Row>(rows: &[Row], value: impl Fn(&Row) -> Duration) -> Column {
    Column::F64(rows.iter().map(|row| value(row).as_secs_f64()).collect())
}

// Not a number where there is nothing.
fn mean_s(sum_ps: u128, count: usize) -> f64 {
    sum_ps as f64 * 1e-12 / count as f64
}

fn percentile_s(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    rank.checked_sub(1).map_or(f64::NAN, |index| sorted[index].as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(job: u32, iteration: u64, start_ms: u64, end_ms: u64) -> IterationRow {
        let at = |ms| Time::ZERO + Duration::from_ms(ms);
        let communication = Duration::from_ms(end_ms - start_ms) - Duration::from_ms(1);
        let delayed = Duration::from_ms(start_ms % 7);
        let (start, end) = (at(start_ms), at(end_ms));
        IterationRow { job: JobId::new(job), iteration, start, end, communication, delayed }
    }

    #[test]
    fn rows_taken_out_on_the_way_make_the_same_tables() {
        let (start, duration) = (Duration::ZERO, Duration::from_ms(1));
        let up = crate::Phase { start, duration, rate: Rate::from_gbps(1) };
        let profile = crate::Profile::new(Duration::from_ms(2), vec![up]).unwrap();
        let jobs = ["a", "b"].map(|name| crate::Job::new(name, profile.clone(), Vec::new()));
        let fabric = crate::Fabric::one_link(Rate::from_gbps(1), Duration::ZERO).unwrap();
        let stop = crate::Stop { iterations: Some(4), until: None };
        let scenario = Scenario::new(fabric, jobs.to_vec(), 1, 1, stop).unwrap();
        let rows = [row(0, 0, 3, 9), row(1, 0, 1, 10), row(0, 1, 9, 14), row(0, 2, 18, 22)];
        let (time, delay) = (Time::ZERO, Duration::from_ms(4));
        let drift = AdjustmentRow { job: JobId::new(0), time, deviation_ps: -5, delay };

        let mut whole = Records::new(&scenario);
        whole.iterations.extend(rows);
        whole.adjustments.extend([drift, drift]);
        let whole = whole.into_tables(&scenario);

        let mut parts = Records::new(&scenario);
        parts.iterations.extend(&rows[..2]);
        parts.adjustments.push(drift);
        let first = parts.take_tables(&scenario);
        parts.iterations.extend(&rows[2..]);
        parts.adjustments.push(drift);
        let second = parts.take_tables(&scenario);
        let [_, jobs] = parts.last_tables(&scenario);
        assert_eq!(format!("{jobs:?}"), format!("{:?}", whole.jobs));
        let [Column::U64(first), Column::U64(second), Column::U64(all)] =
            [&first[0], &second[0], &whole.iterations].map(|table| table.column("end_ps").unwrap())
        else {
            panic!("times are whole numbers")
        };
        assert_eq!(&[&first[..], second].concat(), all);
    }

    #[test]
    fn percentiles_are_taken_by_nearest_rank() {
        let hundred: Vec<_> = (1..=100).map(Duration::from_secs).collect();
        assert!((percentile_s(&hundred, 50) - 50.0).abs() < 1e-12);
        assert!((percentile_s(&hundred, 99) - 99.0).abs() < 1e-12);
        assert!((percentile_s(&hundred[..1], 99) - 1.0).abs() < 1e-12);
        assert!(percentile_s(&[], 50).is_nan());
    }
}
