//! The end of runs, their progress, and their tables.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::ControlFlow;

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::{FlowOptions, FlowStatus, run, run_observed};
use hocket_scenario::observer::BATCH;
use hocket_scenario::{
    Cable, Column, Crossing, Fabric, Job, LinkId, Node, NodeId, NodeKind, Observer, Progress,
    Routing, Scenario, Share, Stop, Table, Weight, ring_crossings,
};

use crate::common::{
    column_f64, column_ps, column_str, column_u64, job, job_of, on_one_link, run_all,
    run_on_one_link, up,
};

/// Keeps the rows of each table, and stops the run once `enough` iterations are done.
struct Watching {
    enough: u64,
    tables: BTreeMap<&'static str, Vec<Table>>,
    seen: Vec<Progress>,
    /// At each progress callback: the number of rows received by then.
    rows: Vec<usize>,
}

impl Watching {
    fn until(enough: u64) -> Self {
        Self { enough, tables: BTreeMap::new(), seen: Vec::new(), rows: Vec::new() }
    }

    fn handed_over(&self) -> usize {
        self.tables.values().flatten().map(Table::rows).sum()
    }

    /// All rows of a table, as text.
    fn rows_of(&self, table: &str) -> String {
        self.tables.get(table).map_or_else(String::new, |parts| parts.iter().map(lines).collect())
    }
}

impl Observer for Watching {
    fn on_table(&mut self, rows: Table) {
        self.tables.entry(rows.name).or_default().push(rows);
    }

    fn on_progress(&mut self, at: &Progress) -> ControlFlow<()> {
        self.seen.push(*at);
        self.rows.push(self.handed_over());
        if at.done >= self.enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The rows of a table as lines of text.
fn lines(table: &Table) -> String {
    let line = |row: usize| {
        let values = table.columns.iter().map(|(name, column)| match column {
            Column::U64(values) => format!("{name}={}", values[row]),
            Column::U32(values) => format!("{name}={}", values[row]),
            Column::F64(values) => format!("{name}={:?}", values[row]),
            Column::MaybeF64(values) => format!("{name}={:?}", values[row]),
            Column::Time(values) => format!("{name}={}", values[row]),
            Column::Str { codes, dictionary } => {
                format!("{name}={}", dictionary[codes[row] as usize])
            }
            other => panic!("no table of the flow engine has a column like {other:?}"),
        });
        values.collect::<Vec<_>>().join(" ") + "\n"
    };
    (0..table.rows()).map(line).collect()
}

#[test]
fn a_stopped_run_keeps_what_was_finished() {
    let scenario = on_one_link(vec![job("a"), job("b")], 1, 100);
    let every = NonZeroU64::new(1).unwrap();
    let options = FlowOptions { progress_every: every, ..FlowOptions::default() };
    let mut watching = Watching::until(6);
    let end = run_observed(&scenario, &options, &mut watching).unwrap();
    assert_eq!(end.status, FlowStatus::Interrupted);
    assert_eq!(watching.rows_of("iterations").lines().count(), 6);
    assert_eq!(column_u64(&watching.tables["jobs"][0], "iterations"), [3, 3]);
    assert_eq!(end.ended, Time::ZERO + Duration::from_ms(3 * 312));
    let seen = watching.seen;
    assert!(seen.windows(2).all(|pair| pair[0].time < pair[1].time));
    assert!(seen.iter().all(|progress| progress.total == Some(200)));
}

#[test]
fn rows_arrive_during_the_run_and_are_those_of_a_run_that_keeps_them() {
    let jobs = ["a", "b"].map(|name| Job { jitter: 0.1, ..job(name) });
    let scenario = on_one_link(jobs.to_vec(), 1, 60_000);
    let options = FlowOptions {
        rates_until: Time::ZERO + Duration::from_secs(3_000),
        sample_every: Some(Duration::from_secs(1)),
        ..FlowOptions::default()
    };
    let kept = run_all(&scenario, &options);
    let mut watching = Watching::until(u64::MAX);
    let end = run_observed(&scenario, &options, &mut watching).unwrap();
    assert_eq!(end, kept.end);
    for table in kept.tables.all().into_iter().chain(&kept.utilisation) {
        assert!(watching.rows_of(table.name) == lines(table), "{} differs", table.name);
    }
    assert!(watching.tables["iterations"].len() > 2, "they came in parts");
    // An iteration has one row of its own and one of its phase; fewer than 2,048 iterations end within 4,096 events.
    for (progress, rows) in watching.seen.iter().zip(watching.rows) {
        assert!(2 * progress.done < (rows + BATCH + 4_096) as u64, "{progress:?}, {rows} rows");
    }
}

#[test]
fn a_run_whose_rows_are_samples_hands_them_over_too() {
    let scenario = on_one_link(vec![job("a")], 1, 200);
    let options =
        FlowOptions { sample_every: Some(Duration::from_us(240)), ..FlowOptions::default() };
    let mut watching = Watching::until(u64::MAX);
    run_observed(&scenario, &options, &mut watching).unwrap();
    let parts: Vec<_> = watching.tables["utilisation"].iter().map(Table::rows).collect();
    // 500 samples in each of 200 Up phases; 130 phases and their iterations come first, and are rows as well.
    let first = BATCH - 2 * 130;
    assert_eq!(parts, [first, 200 * 500 - first]);
}

#[test]
fn a_run_with_an_end_stops_in_the_middle_of_a_phase_and_counts_its_bytes() {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).unwrap();
    let stop = Stop { iterations: None, until: Some(Time::ZERO + Duration::from_secs(1)) };
    let scenario = Scenario::new(fabric, vec![job("a"), job("b")], 1, 1, stop).unwrap();
    let outcome = run_all(&scenario, &FlowOptions::default());
    assert_eq!(outcome.end.status, FlowStatus::Complete);
    assert_eq!(outcome.end.ended, Time::ZERO + Duration::from_secs(1));
    // Three iterations of 312 ms and 600 MB each, and 64 ms at 25 Gbps.
    assert_eq!(column_u64(&outcome.tables.jobs, "iterations"), [3, 3]);
    assert_eq!(column_u64(&outcome.tables.links, "bytes"), [2_000_000_000, 2_000_000_000]);
    let utilisation: f64 = column_f64(&outcome.tables.links, "utilisation").iter().sum();
    assert!((utilisation - 4.0 / 6.25).abs() < 1e-12);
    let busy_s = column_f64(&outcome.tables.links, "busy_s")[0];
    assert!((busy_s - (3.0 * 0.192 + 0.064)).abs() < 1e-12);
}

#[test]
fn an_arrival_after_the_end_of_the_run_is_not_an_event() {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).unwrap();
    let stop = Stop { iterations: None, until: Some(Time::ZERO + Duration::from_secs(1)) };
    let late = Job { arrival: Time::ZERO + Duration::from_secs(2), ..job("late") };
    let scenario = Scenario::new(fabric, vec![late], 1, 1, stop).unwrap();
    let outcome = run_all(&scenario, &FlowOptions::default());
    assert_eq!(outcome.end.counters.events, 0);
    assert!(column_f64(&outcome.tables.jobs, "mean_iteration_s").is_empty(), "there is none");
}

#[test]
fn a_job_that_can_never_finish_is_named_with_its_link() {
    let fabric = Fabric::one_link(Rate::from_bps(1), Duration::ZERO).unwrap();
    let stop = Stop { iterations: Some(1), until: None };
    let scenario = Scenario::new(fabric, vec![job("a"), job("b")], 1, 1, stop).unwrap();
    let error = run(&scenario, &FlowOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "job \"a\" moves at 0 bps on link \"link\" at 0 ps and would never finish"
    );
}

#[test]
fn a_run_past_the_end_of_time_is_an_error_and_does_not_panic() {
    let outlasts = Job { arrival: Time::from_ps(u64::MAX - 1), ..job("outlasts") };
    let scenario = on_one_link(vec![outlasts], 1, 1);
    let error = run(&scenario, &FlowOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("job \"outlasts\" "), "{error}");
}

#[test]
fn a_job_without_a_network_runs_at_its_own_pace() {
    let local = job("local").crossing(Vec::new());
    let outcome = run_on_one_link(vec![local, job("a"), job("b")], 1, 4);
    let mean_s = column_f64(&outcome.tables.jobs, "mean_iteration_s");
    assert!((mean_s[0] - 0.240).abs() < 1e-12);
    assert!((mean_s[1] - 0.312).abs() < 1e-12);
}

fn two_racks() -> Fabric {
    let node = |name: &str, kind| Node { name: name.to_owned(), kind };
    let (host, switch) = (NodeKind::Host, NodeKind::Switch);
    let nodes = vec![
        node("h0", host),
        node("h1", host),
        node("h2", host),
        node("h3", host),
        node("r0", switch),
        node("r1", switch),
    ];
    let cable = |a, b| Cable {
        a: NodeId::new(a),
        b: NodeId::new(b),
        rate: Rate::from_gbps(50),
        delay: Duration::from_ns(500),
    };
    Fabric::new(nodes, &[cable(0, 4), cable(1, 4), cable(2, 5), cable(3, 5), cable(4, 5)])
        .expect("two racks are a fabric")
}

fn ring_job(name: &str, fabric: &Fabric, workers: &[u32]) -> Job {
    let workers: Vec<_> = workers.iter().map(|&node| NodeId::new(node)).collect();
    let crossings =
        ring_crossings(&workers, &mut Routing::new(fabric), 0).expect("all hosts are connected");
    job(name).crossing(crossings)
}

#[test]
fn rings_share_only_the_links_of_their_routes() {
    let run_rings = |first: &[u32], second: &[u32]| {
        let fabric = two_racks();
        let jobs = vec![ring_job("a", &fabric, first), ring_job("b", &fabric, second)];
        let stop = Stop { iterations: Some(10), until: None };
        run_all(&Scenario::new(fabric, jobs, 1, 1, stop).unwrap(), &FlowOptions::default())
    };
    let apart = run_rings(&[0, 1], &[2, 3]);
    assert_eq!(column_f64(&apart.tables.jobs, "mean_iteration_s"), [0.240, 0.240]);
    let across = run_rings(&[0, 2], &[1, 3]);
    let mean_s = column_f64(&across.tables.jobs, "mean_iteration_s");
    assert!(mean_s.iter().all(|mean_s| (mean_s - 0.312).abs() < 1e-12), "{mean_s:?}");
    let crossed = column_str(&across.tables.links, "link");
    assert_eq!(crossed.iter().filter(|&&link| link == "r0->r1").count(), 2);
}

#[test]
fn reallocations_visit_only_jobs_that_share_links() {
    // Jobs apart in space cost one rate per phase each, however many there are.
    let fabric = two_racks();
    let mut jobs: Vec<_> = (0..5)
        .map(|link| Job {
            arrival: Time::from_ps(u64::from(link)),
            ..job(&format!("job{link}"))
                .crossing(vec![Crossing { link: LinkId::new(2 * link), flows: 1 }])
        })
        .collect();
    jobs.push(job("local").crossing(Vec::new()));
    let stop = Stop { iterations: Some(10), until: None };
    let outcome =
        run_all(&Scenario::new(fabric, jobs, 1, 1, stop).unwrap(), &FlowOptions::default());
    assert_eq!(outcome.end.counters.rates, 6 * 10);
}

#[test]
fn rates_are_recorded_as_steps_up_to_the_chosen_time() {
    let scenario = on_one_link(vec![job("a")], 1, 3);
    let until = Time::ZERO + Duration::from_ms(300);
    let outcome = run_all(&scenario, &FlowOptions { rates_until: until, ..FlowOptions::default() });
    let starts_ms: Vec<_> =
        column_ps(&outcome.tables.rates, "start_s").iter().map(|ps| ps / 1_000_000_000).collect();
    assert_eq!(starts_ms, [0, 120, 240]);
    assert_eq!(column_u64(&outcome.tables.rates, "rate_bps"), [40_000_000_000, 0, 40_000_000_000]);
}

#[test]
fn weighted_jobs_slide_apart_as_this_table_shows() {
    let strong = Job { share: Share::Weighted(Weight::new(2.0).unwrap()), ..job("a") };
    let outcome = run_on_one_link(vec![strong, job("b")], 1, 5);
    let expected = "
job  iteration  iteration_s  communication_s
a            0     0.264000         0.144000
b            0     0.324000         0.204000
a            1     0.252000         0.132000
b            1     0.282000         0.162000
a            2     0.246000         0.126000
b            2     0.261000         0.141000
a            3     0.243000         0.123000
b            3     0.250500         0.130500
a            4     0.241500         0.121500
b            4     0.245250         0.125250
";
    assert_eq!(shown(&outcome.tables.iterations), expected);
}

#[test]
fn several_phases_of_three_jobs_share_as_this_table_shows() {
    let jobs = vec![
        job_of("a", 100, &[up(0, 20, 50), up(50, 10, 30)]),
        Job { priority: 1, ..job_of("b", 100, &[up(10, 30, 40)]) },
        Job { priority: 1, ..job_of("c", 200, &[up(0, 40, 25)]) },
    ];
    let outcome = run_on_one_link(jobs, 2, 2);
    // The link is a's up to 20 ms; then b and c have 25 Gbps each, 10 while a sends again at 50 to
    // 60 ms; c ends at 66 ms, and b sends its last 0.2 Gbit at 40 Gbps in 5 ms.
    let expected = "
job  iteration  iteration_s  communication_s
a            0     0.100000         0.030000
b            0     0.131000         0.061000
a            1     0.100000         0.030000
c            0     0.226000         0.066000
b            1     0.105000         0.035000
c            1     0.200000         0.040000
";
    assert_eq!(shown(&outcome.tables.iterations), expected);
}

fn shown(iterations: &Table) -> String {
    let mut text = "\njob  iteration  iteration_s  communication_s\n".to_owned();
    let jobs = column_str(iterations, "job").into_iter();
    let numbers = column_u64(iterations, "iteration").iter();
    let iteration_s = column_f64(iterations, "iteration_s").into_iter();
    let communication_s = column_f64(iterations, "communication_s").into_iter();
    for (((job, number), iteration_s), communication_s) in
        jobs.zip(numbers).zip(iteration_s).zip(communication_s)
    {
        text += &format!("{job:<3}{number:>11}{iteration_s:>13.6}{communication_s:>17.6}\n");
    }
    text
}

#[test]
fn sampled_traffic_adds_up_to_what_was_sent_at_its_time() {
    // 40 Gbps for 120 ms of each 240 ms, sampled every 10 ms: 50 MB in each of twelve samples, then none.
    let options =
        FlowOptions { sample_every: Some(Duration::from_ms(10)), ..FlowOptions::default() };
    let outcome = run_all(&on_one_link(vec![job("a")], 1, 2), &options);
    let table = outcome.utilisation.expect("traffic was sampled");
    let expected = (1..=48).filter(|sample| (sample - 1) % 24 < 12).map(|sample| sample * 10);
    let expected: Vec<u64> = expected.map(|ms: u64| ms * 1_000_000_000).collect();
    assert_eq!(column_ps(&table, "at_s"), expected);
    assert_eq!(column_u64(&table, "bytes"), vec![50_000_000; 24]);
}
