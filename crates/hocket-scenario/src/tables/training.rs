//! The tables of training jobs.

use std::collections::BTreeMap;

use super::{
    CollectiveRow, Column, OperationRow, RankRow, Table, job_column, seconds_column, u64_column,
};
use crate::workload::{Operation, OperationKind};
use crate::{JobId, Scenario, Training};

pub(super) fn rank_table(rows: &[RankRow], scenario: &Scenario, names: &[String]) -> Table {
    let nodes = scenario.fabric().nodes();
    let host = |row: &RankRow| {
        let host = training(scenario, row.job).spec().hosts[row.rank as usize];
        nodes[host.index()].name.as_str()
    };
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", u64_column(rows, |row| row.iteration)),
        ("rank", Column::U32(rows.iter().map(|row| row.rank).collect())),
        ("host", text_column(rows.iter().map(host))),
        ("start_ps", u64_column(rows, |row| row.start.as_ps())),
        ("end_ps", u64_column(rows, |row| row.end.as_ps())),
        ("compute_s", seconds_column(rows, |row| row.compute)),
        ("exposed_s", seconds_column(rows, |row| row.exposed)),
    ];
    Table { name: "ranks", columns }
}

pub(super) fn operation_table(
    rows: &[OperationRow],
    scenario: &Scenario,
    names: &[String],
) -> Table {
    let operation = |row: &OperationRow| -> &Operation {
        let program = training(scenario, row.job).workload().program(row.rank);
        &program.operations()[row.operation as usize]
    };
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", u64_column(rows, |row| row.iteration)),
        ("rank", Column::U32(rows.iter().map(|row| row.rank).collect())),
        ("operation", Column::U32(rows.iter().map(|row| row.operation).collect())),
        ("name", text_column(rows.iter().map(|row| operation(row).name.as_str()))),
        ("kind", text_column(rows.iter().map(|row| operation(row).kind.name()))),
        ("start_ps", u64_column(rows, |row| row.start.as_ps())),
        ("end_ps", u64_column(rows, |row| row.end.as_ps())),
    ];
    Table { name: "operations", columns }
}

pub(super) fn collective_table(
    rows: &[CollectiveRow],
    scenario: &Scenario,
    names: &[String],
) -> Table {
    let operation = |row: &CollectiveRow| -> &Operation {
        let programs = training(scenario, row.job).workload().programs();
        &programs[row.program as usize].operations()[row.operation as usize]
    };
    let collective = |row: &CollectiveRow| {
        let OperationKind::Collective { kind, bytes, .. } = operation(row).kind else {
            unreachable!("a row of a collective names one")
        };
        training(scenario, row.job).collective(row.group, kind, bytes)
    };
    // As nccl-tests count: what each rank holds, or gets, or sends, over the time.
    let algbw_bps = |row: &CollectiveRow| {
        let bits = collective(row).1.bytes().get() as f64 * 8.0;
        bits / row.mean.as_secs_f64()
    };
    let busbw_bps = |row: &CollectiveRow| algbw_bps(row) * collective(row).1.factor();
    let algorithm = |row: &CollectiveRow| training(scenario, row.job).algorithm(collective(row).0);
    let members = |row: &CollectiveRow| collective(row).1.ranks();
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", u64_column(rows, |row| row.iteration)),
        ("name", text_column(rows.iter().map(|row| operation(row).name.as_str()))),
        ("kind", text_column(rows.iter().map(|row| operation(row).kind.name()))),
        ("algorithm", text_column(rows.iter().map(algorithm))),
        ("ranks", Column::U32(rows.iter().map(members).collect())),
        ("group", Column::U32(rows.iter().map(|row| row.group).collect())),
        ("bytes", u64_column(rows, |row| collective(row).1.bytes().get())),
        ("start_ps", u64_column(rows, |row| row.start.as_ps())),
        ("end_ps", u64_column(rows, |row| row.end.as_ps())),
        ("time_s", seconds_column(rows, |row| row.mean)),
        ("algbw_bps", Column::F64(rows.iter().map(algbw_bps).collect())),
        ("busbw_bps", Column::F64(rows.iter().map(busbw_bps).collect())),
    ];
    Table { name: "collectives", columns }
}

fn training(scenario: &Scenario, job: JobId) -> &Training {
    let job = &scenario.jobs()[job.index()];
    job.training().expect("only training jobs have ranks and operations")
}

// Texts in the order in which they first come.
fn text_column<'a>(texts: impl Iterator<Item = &'a str>) -> Column {
    let mut known = BTreeMap::new();
    let mut dictionary = Vec::new();
    let codes = texts.map(|text| {
        *known.entry(text).or_insert_with(|| {
            dictionary.push(text.to_owned());
            dictionary.len() as u32 - 1
        })
    });
    let codes = codes.collect();
    Column::Str { codes, dictionary }
}
