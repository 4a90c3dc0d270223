//! The tables of training jobs.

use super::columns::{Column, Table, job_column, text_column};
use super::rows::{CollectiveRow, OperationRow, RankRow};
use crate::workload::{Operation, OperationKind};
use crate::{Fabric, Job, JobId, Training};

pub(super) fn rank_table(
    rows: &[RankRow],
    fabric: &Fabric,
    jobs: &[Job],
    names: &[String],
) -> Table {
    let nodes = fabric.nodes();
    let host = |row: &RankRow| {
        let host = training(jobs, row.job).spec().hosts[row.rank as usize];
        nodes[host.index()].name.as_str()
    };
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", Column::of_u64(rows, |row| row.iteration)),
        ("rank", Column::U32(rows.iter().map(|row| row.rank).collect())),
        ("host", text_column(rows.iter().map(host))),
        ("start_s", Column::of_times(rows, |row| row.start)),
        ("end_s", Column::of_times(rows, |row| row.end)),
        ("compute_s", Column::of_seconds(rows, |row| row.compute)),
        ("exposed_s", Column::of_seconds(rows, |row| row.exposed)),
    ];
    Table { name: "ranks", columns }
}

pub(super) fn operation_table(rows: &[OperationRow], jobs: &[Job], names: &[String]) -> Table {
    let operation = |row: &OperationRow| -> &Operation {
        let program = training(jobs, row.job).workload().program(row.rank);
        &program.operations()[row.operation as usize]
    };
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", Column::of_u64(rows, |row| row.iteration)),
        ("rank", Column::U32(rows.iter().map(|row| row.rank).collect())),
        ("operation", Column::U32(rows.iter().map(|row| row.operation).collect())),
        ("name", text_column(rows.iter().map(|row| operation(row).name.as_str()))),
        ("kind", text_column(rows.iter().map(|row| operation(row).kind.name()))),
        ("start_s", Column::of_times(rows, |row| row.start)),
        ("end_s", Column::of_times(rows, |row| row.end)),
    ];
    Table { name: "operations", columns }
}

pub(super) fn collective_table(rows: &[CollectiveRow], jobs: &[Job], names: &[String]) -> Table {
    let operation = |row: &CollectiveRow| -> &Operation {
        let programs = training(jobs, row.job).workload().programs();
        &programs[row.program as usize].operations()[row.operation as usize]
    };
    let collective = |row: &CollectiveRow| {
        let OperationKind::Collective { kind, bytes, .. } = operation(row).kind else {
            unreachable!("a row of a collective names one")
        };
        training(jobs, row.job).collective(row.group, kind, bytes)
    };
    // As defined by nccl-tests: algbw is the size ÷ the time, and busbw is algbw × the factor of the kind, which
    // makes it comparable with the rate of a link.
    let algbw_bps = |row: &CollectiveRow| {
        let bits = collective(row).1.bytes().get() as f64 * 8.0;
        bits / row.mean.as_secs_f64()
    };
    let busbw_bps = |row: &CollectiveRow| algbw_bps(row) * collective(row).1.factor();
    let algorithm = |row: &CollectiveRow| training(jobs, row.job).algorithm(collective(row).0);
    let members = |row: &CollectiveRow| collective(row).1.ranks();
    let columns = vec![
        ("job", job_column(rows, names, |row| row.job)),
        ("iteration", Column::of_u64(rows, |row| row.iteration)),
        ("name", text_column(rows.iter().map(|row| operation(row).name.as_str()))),
        ("kind", text_column(rows.iter().map(|row| operation(row).kind.name()))),
        ("algorithm", text_column(rows.iter().map(algorithm))),
        ("ranks", Column::U32(rows.iter().map(members).collect())),
        ("group", Column::U32(rows.iter().map(|row| row.group).collect())),
        ("bytes", Column::of_u64(rows, |row| collective(row).1.bytes().get())),
        ("start_s", Column::of_times(rows, |row| row.start)),
        ("end_s", Column::of_times(rows, |row| row.end)),
        ("time_s", Column::of_seconds(rows, |row| row.mean)),
        ("algbw_bps", Column::F64(rows.iter().map(algbw_bps).collect())),
        ("busbw_bps", Column::F64(rows.iter().map(busbw_bps).collect())),
    ];
    Table { name: "collectives", columns }
}

fn training(jobs: &[Job], job: JobId) -> &Training {
    jobs[job.index()].training().expect("only training jobs have ranks and operations")
}
