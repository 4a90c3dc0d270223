//! Jobs, links and readers of tables for several test files.

use hocket_des::{Duration, Rate};
use hocket_flowsim::{FlowOptions, FlowOutcome, run};
use hocket_scenario::{
    Column, Crossing, Fabric, Job, LinkId, Phase, Profile, Scenario, Stop, Table,
};

/// A job of 240 ms, the first half of it Up at 40 Gbps, over link 0.
pub(crate) fn job(name: &str) -> Job {
    job_of(name, 240, &[up(0, 120, 40)])
}

/// An Up phase.
pub(crate) fn up(start_ms: u64, duration_ms: u64, gbps: u64) -> Phase {
    Phase {
        start: Duration::from_ms(start_ms),
        duration: Duration::from_ms(duration_ms),
        rate: Rate::from_gbps(gbps),
    }
}

/// A job over link 0 with these Up phases.
pub(crate) fn job_of(name: &str, period_ms: u64, phases: &[Phase]) -> Job {
    let period = Duration::from_ms(period_ms);
    let profile = Profile::new(period, phases.to_vec()).expect("the phases fit");
    Job::new(name, profile, vec![Crossing { link: LinkId::new(0), flows: 1 }])
}

/// A number of iterations of each job over one link of 50 Gbps, with seed 1.
pub(crate) fn on_one_link(jobs: Vec<Job>, priority_queues: u8, iterations: u64) -> Scenario {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("50 Gbps is a rate");
    let stop = Stop { iterations: Some(iterations), until: None };
    Scenario::new(fabric, jobs, priority_queues, 1, stop).expect("the jobs are valid")
}

/// Runs a scenario to its end.
pub(crate) fn run_all(scenario: &Scenario, options: &FlowOptions) -> FlowOutcome {
    run(scenario, options).expect("the run ends")
}

/// Runs [`on_one_link`] with default options.
pub(crate) fn run_on_one_link(jobs: Vec<Job>, priority_queues: u8, iterations: u64) -> FlowOutcome {
    run_all(&on_one_link(jobs, priority_queues, iterations), &FlowOptions::default())
}

/// The values of a float column.
pub(crate) fn column_f64(table: &Table, name: &str) -> Vec<f64> {
    match table.column(name) {
        Some(Column::F64(values)) => values.clone(),
        Some(Column::MaybeF64(values)) => values.iter().flatten().copied().collect(),
        other => panic!("{name} of {} is {other:?}", table.name),
    }
}

/// The values of an integer column.
pub(crate) fn column_u64<'a>(table: &'a Table, name: &str) -> &'a [u64] {
    match table.column(name) {
        Some(Column::U64(values)) => values,
        other => panic!("{name} of {} is {other:?}", table.name),
    }
}

/// The values of a column of times, in picoseconds.
pub(crate) fn column_ps(table: &Table, name: &str) -> Vec<u64> {
    match table.column(name) {
        Some(Column::Time(times)) => times.iter().map(|time| time.as_ps()).collect(),
        other => panic!("{name} of {} is {other:?}", table.name),
    }
}

/// The values of a column of names.
pub(crate) fn column_str<'a>(table: &'a Table, name: &str) -> Vec<&'a str> {
    match table.column(name) {
        Some(Column::Str { codes, dictionary }) => {
            codes.iter().map(|&code| dictionary[code as usize].as_str()).collect()
        }
        other => panic!("{name} of {} is {other:?}", table.name),
    }
}

/// The values of one job in a float column.
pub(crate) fn of_job(table: &Table, job: &str, name: &str) -> Vec<f64> {
    let rows = column_str(table, "job").into_iter().zip(column_f64(table, name));
    rows.filter(|(of, _)| *of == job).map(|(_, value)| value).collect()
}
