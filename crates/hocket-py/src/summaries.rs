//! Columns of the summaries over all iterations of a cluster run.

use hocket_flowsim::cluster::{JobSummary, ModelSummary, Totals};
use hocket_scenario::{Column, Table};

/// A row for each job that has done an iteration.
pub(crate) fn job_table(rows: &[JobSummary]) -> Table {
    let column = |value: fn(&Totals) -> u64| Column::of_u64(rows, |row| value(&row.totals));
    let number = |value: fn(&JobSummary) -> f64| Column::F64(rows.iter().map(value).collect());
    Table {
        name: "jobs",
        columns: vec![
            ("job", Column::U32(rows.iter().map(|row| row.job.code()).collect())),
            ("iterations", column(|totals| totals.iterations)),
            ("samples", column(|totals| totals.samples)),
            ("iteration_ps", column(|totals| totals.time.as_ps())),
            ("ideal_ps", column(|totals| totals.ideal.as_ps())),
            ("communication_ps", column(|totals| totals.communication.as_ps())),
            ("delayed_ps", column(|totals| totals.delayed.as_ps())),
            ("marks", number(|row| row.totals.marks)),
            ("p50_ps", number(|row| row.p50_ps)),
            ("p99_ps", number(|row| row.p99_ps)),
            ("is_exact", Column::Bool(rows.iter().map(|row| row.is_exact).collect())),
        ],
    }
}

/// A row for each model, by its number, and a last one for all iterations together.
pub(crate) fn model_table(rows: &[ModelSummary]) -> Table {
    let percentile = |value: fn(&ModelSummary) -> Option<f64>| {
        Column::MaybeF64(rows.iter().map(value).collect())
    };
    Table {
        name: "models",
        columns: vec![
            ("p50_ps", percentile(|row| row.p50_ps)),
            ("p99_ps", percentile(|row| row.p99_ps)),
            ("p50_slowdown", percentile(|row| row.p50_slowdown)),
            ("p99_slowdown", percentile(|row| row.p99_slowdown)),
            ("is_exact", Column::Bool(rows.iter().map(|row| row.is_exact).collect())),
        ],
    }
}
