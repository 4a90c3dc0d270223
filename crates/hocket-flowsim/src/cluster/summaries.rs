//! Summaries over all iterations: of each job, and the distributions of each model.

use std::collections::BTreeMap;

use hocket_scenario::JobId;

use crate::cluster::tally::{Distributions, Tally, Totals};

/// All iterations of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobSummary {
    /// The job.
    pub job: JobId,
    /// Totals.
    pub totals: Totals,
    /// The median of its iteration times in picoseconds.
    pub p50_ps: f64,
    /// The 99th percentile of its iteration times in picoseconds.
    pub p99_ps: f64,
    /// Whether both are exact; otherwise they are within [`super::Distribution::ERROR`].
    pub is_exact: bool,
}

/// All iterations of a model's jobs, or of all jobs. The percentiles are `None` without iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelSummary {
    /// The median of iteration times in picoseconds.
    pub p50_ps: Option<f64>,
    /// The 99th percentile of iteration times in picoseconds.
    pub p99_ps: Option<f64>,
    /// The median of the slowdowns of single iterations.
    pub p50_slowdown: Option<f64>,
    /// The 99th percentile of the slowdowns of single iterations.
    pub p99_slowdown: Option<f64>,
    /// Whether all are exact; otherwise they are within [`super::Distribution::ERROR`].
    pub is_exact: bool,
}

/// The tallies of jobs that are done, of which only summaries are kept.
#[derive(Default)]
pub(super) struct Summaries {
    jobs: BTreeMap<JobId, JobSummary>,
    /// By model.
    models: Vec<Distributions>,
}

impl Summaries {
    /// Takes over the tally of a job that is done.
    pub(super) fn finish(&mut self, job: JobId, model: usize, tally: &Tally) {
        self.jobs.extend(summary(job, tally).map(|summary| (job, summary)));
        if self.models.len() <= model {
            self.models.resize_with(model + 1, Distributions::of_model);
        }
        self.models[model].add_all(&tally.distributions);
    }

    /// All jobs that have done an iteration, in order; `others` are not done.
    pub(super) fn jobs<'t>(
        &self,
        others: impl Iterator<Item = (JobId, &'t Tally)>,
    ) -> Vec<JobSummary> {
        let mut jobs = self.jobs.clone();
        jobs.extend(others.filter_map(|(job, tally)| Some((job, summary(job, tally)?))));
        jobs.into_values().collect()
    }

    /// By model, and for all of them together at the end; `others` are the models and tallies of jobs that are not done.
    pub(super) fn models<'t>(
        &self,
        others: impl Iterator<Item = (usize, &'t Tally)>,
    ) -> Vec<ModelSummary> {
        let mut running: Vec<(usize, &Tally)> = others.collect();
        running.sort_by_key(|(model, _)| *model);
        let most = running.last().map_or(0, |(model, _)| model + 1).max(self.models.len());
        let mut all = Distributions::of_model();
        // One model at a time, as the distributions of all of them take a hundred megabytes.
        let mut summaries: Vec<_> = (0..most)
            .map(|model| {
                let mut whole =
                    self.models.get(model).cloned().unwrap_or_else(Distributions::of_model);
                let first = running.partition_point(|(other, _)| *other < model);
                let mine = running[first..].iter().take_while(|(other, _)| *other == model);
                mine.for_each(|(_, tally)| whole.add_all(&tally.distributions));
                all.add_all(&whole);
                whole.into_summary()
            })
            .collect();
        summaries.push(all.into_summary());
        summaries
    }
}

impl Distributions {
    fn into_summary(self) -> ModelSummary {
        let Self { times_ps, slowdowns } = &self;
        ModelSummary {
            p50_ps: times_ps.percentile(50),
            p99_ps: times_ps.percentile(99),
            p50_slowdown: slowdowns.percentile(50),
            p99_slowdown: slowdowns.percentile(99),
            is_exact: times_ps.is_exact() && slowdowns.is_exact(),
        }
    }
}

// `None` without iterations.
fn summary(job: JobId, tally: &Tally) -> Option<JobSummary> {
    let times_ps = &tally.distributions.times_ps;
    let (p50_ps, p99_ps) = (times_ps.percentile(50)?, times_ps.percentile(99)?);
    Some(JobSummary { job, totals: tally.totals, p50_ps, p99_ps, is_exact: times_ps.is_exact() })
}
