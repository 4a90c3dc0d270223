//! The tables of a run, the same for both engines: an engine records rows, and `Records` converts
//! them into columns with units in their names.

mod columns;
mod rows;
mod training;

use hocket_des::{Duration, Rate};

use crate::{Fabric, Job, JobId, LinkId, Scenario};

use columns::job_column;

pub use columns::{Column, Table};
pub use rows::{
    AdjustmentRow, CollectiveRow, IterationRow, JobCounters, LinkRow, OperationRow, PhaseRow,
    RankRow, RateRow,
};

/// The rows of a run in the order of events. They can be taken out during the run
/// ([`Self::take_tables`]); what the table `jobs` summarises is kept.
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
    /// By job: a summary of the rows that were taken out.
    summaries: Vec<JobSummary>,
}

/// A point in the rows of [`Records`].
#[derive(Clone, Copy, Debug)]
pub struct RowsMark([usize; 3]);

/// A summary of a job's iterations and adjustments.
#[derive(Clone, Debug, Default, PartialEq)]
struct JobSummary {
    /// Exact percentiles need every duration: 8 bytes for each iteration.
    durations: Vec<Duration>,
    communication_ps: u128,
    /// Excludes the wait before the first iteration, which is the time-shift.
    delayed_ps: u128,
    adjustments: u64,
}

/// All tables of a run. Rows are in the order of events, those of `links` and `jobs` in the order of
/// the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// `job, iteration, start_s, end_s, iteration_s, communication_s, compute_s, delayed_s`:
    /// finished iterations; `iteration_s` is the time from start to end, `delayed_s` the wait before.
    pub iterations: Table,
    /// `job, iteration, phase, start_s, end_s, bytes, mean_rate_bps`: finished Up phases, per flow.
    pub phases: Table,
    /// `job, start_s, rate_bps`: for each job, the rate of its flows as a step function.
    pub rates: Table,
    /// `link, job, bytes, utilisation, busy_s`.
    pub links: Table,
    /// `job, at_s, deviation_s, delay_s`.
    pub adjustments: Table,
    /// `job, iteration, rank, host, start_s, end_s, compute_s, exposed_s`: finished iterations of each rank of a training
    /// job; `exposed_s` is the time in which nothing was computed while something was communicated.
    pub ranks: Table,
    /// `job, iteration, rank, operation, name, kind, start_s, end_s`: finished operations of the iterations for which they
    /// are recorded.
    pub operations: Table,
    /// `job, iteration, name, kind, algorithm, ranks, group, bytes, start_s, end_s, time_s, algbw_bps, busbw_bps`: from the
    /// first rank that joins to the last that is done; `time_s` is the mean over ranks of the time from joining to being done,
    /// as nccl-tests measures it. Groups of one rank are left out.
    pub collectives: Table,
    /// `job, iterations, mean_iteration_s, p50_iteration_s, p90_iteration_s, p99_iteration_s,
    /// mean_communication_s, mean_delayed_s, time_shift_s, adjustments, policy_acted`: percentiles by
    /// nearest rank; they and the means are missing for a job without a finished iteration. `mean_delayed_s` excludes the first
    /// iteration, so that `mean_iteration_s + mean_delayed_s` is the total cost of an iteration in the
    /// long run.
    pub jobs: Table,
}

/// The features of a run that add tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableGroup {
    /// The packet engine: messages, ports and switches.
    Events,
    /// Jobs of any kind.
    Jobs,
    /// Training jobs.
    Training,
    /// Samples of queues.
    Queues,
    /// Samples of the rates of flows.
    Rates,
    /// Samples of the traffic on links.
    Utilisation,
    /// Skipping of repeated iterations.
    Repeats,
}

impl Tables {
    /// The tables with their columns and no rows.
    pub fn without_rows() -> Self {
        // Columns without rows use no names, so any fabric serves.
        let fabric = Fabric::one_link(Rate::from_gbps(1), Duration::ZERO);
        Records::of_jobs(0).into_tables_of(&fabric.expect("1 Gbps is in range"), &[])
    }

    /// The tables of every run, in the order in which they are written.
    pub fn all(&self) -> [&Table; 6] {
        [&self.iterations, &self.phases, &self.rates, &self.links, &self.adjustments, &self.jobs]
    }

    /// The tables in which only training jobs have rows.
    pub fn of_training(&self) -> [&Table; 3] {
        [&self.ranks, &self.operations, &self.collectives]
    }
}

impl Records {
    /// Records without rows.
    pub fn new(scenario: &Scenario) -> Self {
        Self::of_jobs(scenario.jobs().len())
    }

    /// Records without rows, for a number of jobs.
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

    /// The number of rows that have not been taken out, without those of `links`.
    pub fn rows(&self) -> usize {
        let of_jobs = self.iterations.len() + self.phases.len() + self.rates.len();
        let of_ranks = self.ranks.len() + self.operations.len() + self.collectives.len();
        of_jobs + self.adjustments.len() + of_ranks
    }

    /// The present end of the rows of ranks, operations and collectives.
    pub fn mark(&self) -> RowsMark {
        RowsMark([self.ranks.len(), self.operations.len(), self.collectives.len()])
    }

    /// Sorts the rows of ranks, operations and collectives since a mark, which all have the same end: by job, then rank or
    /// group. Their order then does not depend on that in which an engine handled events of one time.
    pub fn sort_since(&mut self, mark: &RowsMark) {
        let RowsMark([ranks, operations, collectives]) = *mark;
        self.ranks[ranks..].sort_unstable_by_key(|row| (row.job, row.rank, row.iteration));
        self.operations[operations..]
            .sort_unstable_by_key(|row| (row.job, row.rank, row.iteration, row.operation));
        self.collectives[collectives..]
            .sort_unstable_by_key(|row| (row.job, row.group, row.iteration, row.operation));
    }

    /// The number of finished iterations of all jobs, including those that were taken out.
    pub fn iterations_done(&self) -> u64 {
        let taken_out: usize = self.summaries.iter().map(|each| each.durations.len()).sum();
        (taken_out + self.iterations.len()) as u64
    }

    /// Takes out the rows so far, as tables that have rows; `links` and `jobs` are not among them. All tables of one name,
    /// concatenated, have the rows of [`Self::into_tables`].
    pub fn take_tables(&mut self, scenario: &Scenario) -> Vec<Table> {
        self.summarise();
        let (fabric, jobs) = (scenario.fabric(), scenario.jobs());
        let names = job_names(jobs);
        let tables = [
            iteration_table(&self.iterations, &names),
            phase_table(&self.phases, &names),
            rate_table(&self.rates, &names),
            adjustment_table(&self.adjustments, &names),
            training::rank_table(&self.ranks, fabric, jobs, &names),
            training::operation_table(&self.operations, jobs, &names),
            training::collective_table(&self.collectives, jobs, &names),
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

    /// The tables `links` and `jobs`, after all rows have been taken out.
    ///
    /// # Panics
    /// If rows are left.
    pub fn last_tables(&mut self, scenario: &Scenario) -> [Table; 2] {
        assert!(self.rows() == 0, "the table of jobs is about all iterations");
        let names = job_names(scenario.jobs());
        let links = link_table(&self.links, scenario.fabric(), &names);
        [links, job_table(&mut self.summaries, &self.jobs, &names)]
    }

    /// The rows as columns; `scenario` must be that of the run.
    pub fn into_tables(self, scenario: &Scenario) -> Tables {
        self.into_tables_of(scenario.fabric(), scenario.jobs())
    }

    fn into_tables_of(mut self, fabric: &Fabric, jobs: &[Job]) -> Tables {
        self.summarise();
        let names = job_names(jobs);
        Tables {
            jobs: job_table(&mut self.summaries, &self.jobs, &names),
            iterations: iteration_table(&self.iterations, &names),
            phases: phase_table(&self.phases, &names),
            rates: rate_table(&self.rates, &names),
            links: link_table(&self.links, fabric, &names),
            adjustments: adjustment_table(&self.adjustments, &names),
            ranks: training::rank_table(&self.ranks, fabric, jobs, &names),
            operations: training::operation_table(&self.operations, jobs, &names),
            collectives: training::collective_table(&self.collectives, jobs, &names),
        }
    }

    fn summarise(&mut self) {
        for row in &self.iterations {
            let summary = &mut self.summaries[row.job.index()];
            summary.communication_ps += u128::from(row.communication.as_ps());
            // Only the first iteration has no duration before it.
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

fn iteration_table(rows: &[IterationRow], names: &[String]) -> Table {
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", Column::of_u64(rows, |row| row.iteration)),
        ("start_s", Column::of_times(rows, |row| row.start)),
        ("end_s", Column::of_times(rows, |row| row.end)),
        ("iteration_s", Column::of_seconds(rows, IterationRow::duration)),
        ("communication_s", Column::of_seconds(rows, |row| row.communication)),
        ("compute_s", Column::of_seconds(rows, |row| row.duration() - row.communication)),
        ("delayed_s", Column::of_seconds(rows, |row| row.delayed)),
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
        ("iteration", Column::of_u64(rows, |row| row.iteration)),
        ("phase", Column::U32(rows.iter().map(|row| row.phase).collect())),
        ("start_s", Column::of_times(rows, |row| row.start)),
        ("end_s", Column::of_times(rows, |row| row.end)),
        ("bytes", Column::of_u64(rows, |row| row.bytes.get())),
        ("mean_rate_bps", Column::F64(rows.iter().map(mean_rate).collect())),
    ];
    Table { name: "phases", columns }
}

fn rate_table(rows: &[RateRow], names: &[String]) -> Table {
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("start_s", Column::of_times(rows, |row| row.start)),
        ("rate_bps", Column::of_u64(rows, |row| row.rate.as_bps())),
    ];
    Table { name: "rates", columns }
}

fn link_table(rows: &[LinkRow], fabric: &Fabric, names: &[String]) -> Table {
    // The dictionary has only the links of these rows: a large fabric has many more.
    let mut used: Vec<LinkId> = rows.iter().map(|row| row.link).collect();
    used.sort_unstable();
    used.dedup();
    let code = |link| used.binary_search(&link).expect("every row's link was collected") as u32;
    let links = fabric.links();
    let link = Column::Str {
        codes: rows.iter().map(|row| code(row.link)).collect(),
        dictionary: used.iter().map(|link| links[link.index()].name.clone()).collect(),
    };
    let columns = vec![
        ("link", link),
        ("job", job_column(rows, names, |row| row.job)),
        ("bytes", Column::of_u64(rows, |row| row.bytes.get())),
        ("utilisation", Column::F64(rows.iter().map(|row| row.utilisation).collect())),
        ("busy_s", Column::of_seconds(rows, |row| row.busy)),
    ];
    Table { name: "links", columns }
}

fn adjustment_table(rows: &[AdjustmentRow], names: &[String]) -> Table {
    let deviation_s = |row: &AdjustmentRow| row.deviation_ps as f64 * 1e-12;
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("at_s", Column::of_times(rows, |row| row.time)),
        ("deviation_s", Column::F64(rows.iter().map(deviation_s).collect())),
        ("delay_s", Column::of_seconds(rows, |row| row.delay)),
    ];
    Table { name: "adjustments", columns }
}

fn job_table(summaries: &mut [JobSummary], counters: &[JobCounters], names: &[String]) -> Table {
    for summary in summaries.iter_mut() {
        summary.durations.sort_unstable();
    }
    let summaries = &*summaries;
    let ids: Vec<JobId> = (0..names.len()).map(JobId::from_index).collect();
    let column = |value: &dyn Fn(&JobSummary) -> Option<f64>| {
        Column::MaybeF64(summaries.iter().map(value).collect())
    };
    // Sums are in whole picoseconds: floating-point sums would depend on the order of the rows.
    let count = |summary: &JobSummary| summary.durations.len();
    let total_ps = |summary: &JobSummary| {
        summary.durations.iter().map(|each| u128::from(each.as_ps())).sum::<u128>()
    };
    let columns = vec![
        ("job", job_column(&ids, names, |&job| job)),
        ("iterations", Column::of_u64(summaries, |summary| count(summary) as u64)),
        ("mean_iteration_s", column(&|each| mean_s(total_ps(each), count(each)))),
        ("p50_iteration_s", column(&|each| percentile_s(&each.durations, 50))),
        ("p90_iteration_s", column(&|each| percentile_s(&each.durations, 90))),
        ("p99_iteration_s", column(&|each| percentile_s(&each.durations, 99))),
        ("mean_communication_s", column(&|each| mean_s(each.communication_ps, count(each)))),
        ("mean_delayed_s", column(&|each| mean_s(each.delayed_ps, count(each).saturating_sub(1)))),
        ("time_shift_s", Column::of_seconds(counters, |job| job.time_shift)),
        ("adjustments", Column::of_u64(summaries, |summary| summary.adjustments)),
        ("policy_acted", Column::of_u64(counters, |job| job.policy_acted)),
    ];
    Table { name: "jobs", columns }
}

fn job_names(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.name.clone()).collect()
}

fn mean_s(sum_ps: u128, count: usize) -> Option<f64> {
    (count > 0).then(|| sum_ps as f64 * 1e-12 / count as f64)
}

fn percentile_s(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    rank.checked_sub(1).map(|index| sorted[index].as_secs_f64())
}

#[cfg(test)]
mod tests {
    use hocket_des::{Rate, Time};

    use super::*;

    fn row(job: u32, iteration: u64, start_ms: u64, end_ms: u64) -> IterationRow {
        let at = |ms| Time::ZERO + Duration::from_ms(ms);
        let communication = Duration::from_ms(end_ms - start_ms) - Duration::from_ms(1);
        let delayed = Duration::from_ms(start_ms % 7);
        let (start, end) = (at(start_ms), at(end_ms));
        IterationRow { job: JobId::new(job), iteration, start, end, communication, delayed }
    }

    #[test]
    fn rows_taken_out_during_a_run_form_the_same_tables() {
        let (start, duration) = (Duration::ZERO, Duration::from_ms(1));
        let up = crate::Phase { start, duration, rate: Rate::from_gbps(1) };
        let profile = crate::Profile::new(Duration::from_ms(2), vec![up]).unwrap();
        let jobs = ["a", "b"].map(|name| Job::new(name, profile.clone(), Vec::new()));
        let fabric = Fabric::one_link(Rate::from_gbps(1), Duration::ZERO).unwrap();
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
        let [Column::Time(first), Column::Time(second), Column::Time(all)] =
            [&first[0], &second[0], &whole.iterations].map(|table| table.column("end_s").unwrap())
        else {
            panic!("ends are points in time")
        };
        assert_eq!(&[&first[..], second].concat(), all);
    }

    #[test]
    fn percentiles_are_taken_by_nearest_rank() {
        let hundred: Vec<_> = (1..=100).map(Duration::from_secs).collect();
        assert_eq!(percentile_s(&hundred, 50), Some(50.0));
        assert_eq!(percentile_s(&hundred, 99), Some(99.0));
        assert_eq!(percentile_s(&hundred[..1], 99), Some(1.0));
        assert_eq!(percentile_s(&[], 50), None);
    }
}
