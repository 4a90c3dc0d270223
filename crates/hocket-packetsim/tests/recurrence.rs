//! Periodic jobs that skip ahead: what recurs exactly is repeated exactly, what recurs nearly within the error that is told, and
//! what does not recur is simulated.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use hocket_des::{Bytes, Duration, Rate, Time};
use hocket_packetsim::{
    LinkChange, Model, Obstacle, PacketOptions, PacketOutcome, PacketRunError, PacketStatus, Skip,
    Skipping, run_scenario,
};
use hocket_scenario::{
    Cable, Column, Fabric, Job, JobFlow, LinkId, Node, NodeId, NodeKind, Observer, Phase, Profile,
    Progress, Scenario, Stop, Table, Transport,
};
use hocket_transport::Policy;
use hocket_transport::congestion::{dcqcn, dctcp, hpcc, timely};
use proptest::prelude::*;

const LINE: Rate = Rate::from_gbps(50);

/// The columns of each table, values as text, chunks of rows put together.
#[derive(Debug, Default)]
struct Rows {
    tables: BTreeMap<&'static str, BTreeMap<&'static str, Vec<String>>>,
    /// The observer ends the run when so many iterations are done.
    stop_at: Option<u64>,
}

impl Observer for Rows {
    fn on_table(&mut self, rows: Table) {
        let columns = self.tables.entry(rows.name).or_default();
        for (name, column) in &rows.columns {
            columns.entry(name).or_default().extend(texts(column));
        }
    }

    fn on_progress(&mut self, at: &Progress) -> ControlFlow<()> {
        match self.stop_at {
            Some(stop_at) if at.done >= stop_at => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn texts(column: &Column) -> Vec<String> {
    match column {
        Column::U64(values) => values.iter().map(ToString::to_string).collect(),
        Column::I64(values) => values.iter().map(ToString::to_string).collect(),
        Column::U32(values) => values.iter().map(ToString::to_string).collect(),
        Column::F64(values) => values.iter().map(ToString::to_string).collect(),
        Column::Bool(values) => values.iter().map(ToString::to_string).collect(),
        Column::MaybeF64(values) => values
            .iter()
            .map(|value| value.map_or_else(String::new, |value| value.to_string()))
            .collect(),
        Column::Time(times) => times.iter().map(|time| time.as_ps().to_string()).collect(),
        Column::Str { codes, dictionary } => {
            codes.iter().map(|&code| dictionary[code as usize].clone()).collect()
        }
    }
}

impl Rows {
    fn numbers(&self, table: &str, column: &str) -> Vec<f64> {
        let Some(columns) = self.tables.get(table) else { return Vec::new() };
        columns[column].iter().map(|text| text.parse().expect("a number")).collect()
    }

    fn texts(&self, table: &str, column: &str) -> &[String] {
        &self.tables[table][column]
    }
}

/// Hosts 0 to 2 on one switch, all links alike.
fn fabric() -> Fabric {
    let kinds = [NodeKind::Host, NodeKind::Host, NodeKind::Host, NodeKind::Switch];
    let node = |(index, kind)| Node { name: format!("n{index}"), kind };
    let cable = |host| Cable {
        a: NodeId::new(host),
        b: NodeId::new(3),
        rate: LINE,
        delay: Duration::from_ns(500),
    };
    let nodes = kinds.into_iter().enumerate().map(node).collect();
    Fabric::new(nodes, &[0, 1, 2].map(cable)).expect("three cables are a fabric")
}

/// Sends to host 2 at 40 Gbps for `busy_us` at the end of each `period_us`.
fn job(name: &str, from: u32, period_us: u64, busy_us: u64) -> Job {
    let (period, duration) = (Duration::from_us(period_us), Duration::from_us(busy_us));
    let up = Phase { start: period - duration, duration, rate: Rate::from_gbps(40) };
    let profile = Profile::new(period, vec![up]).expect("the phase fits into the period");
    let flow = JobFlow::new(NodeId::new(from), NodeId::new(2), 0);
    Job::new(name, profile, Vec::new()).sending(vec![flow])
}

fn with_dcqcn(job: Job) -> Job {
    let policy = Policy::Dcqcn(dcqcn::Parameters::recommended(LINE));
    Job { transport: Transport { policy, ..job.transport }, ..job }
}

/// Two jobs that never meet: the second is half a period behind the first.
fn apart() -> Vec<Job> {
    let time_shift = Some(Duration::from_us(200));
    vec![job("first", 0, 400, 150), Job { time_shift, ..job("second", 1, 400, 150) }]
}

fn scenario(jobs: Vec<Job>, iterations: u64) -> Scenario {
    let stop = Stop { iterations: Some(iterations), until: None };
    Scenario::new(fabric(), jobs, 1, 1, stop).expect("the scenario is valid")
}

fn exactly() -> PacketOptions {
    let skip = Some(Skip { tolerance: 0.0, ..Skip::default() });
    PacketOptions { skip, ..PacketOptions::default() }
}

fn within(tolerance: f64) -> PacketOptions {
    let skip = Some(Skip { tolerance, ..Skip::default() });
    PacketOptions { skip, ..PacketOptions::default() }
}

fn ran_with(
    scenario: &Scenario,
    model: &Model,
    changes: &[LinkChange],
    options: &PacketOptions,
) -> (Rows, PacketOutcome) {
    let mut rows = Rows::default();
    let outcome = run_scenario(scenario, model, changes, options, &mut rows);
    (rows, outcome.expect("the run passes its checks"))
}

fn ran(scenario: &Scenario, options: &PacketOptions) -> (Rows, PacketOutcome) {
    ran_with(scenario, &Model::default(), &[], options)
}

fn skipping(outcome: &PacketOutcome) -> &Skipping {
    outcome.skipping.as_ref().expect("skipping was asked for")
}

/// That both runs left the same behind, but for the table of what was repeated.
fn assert_same(skipped: (Rows, PacketOutcome), full: (Rows, PacketOutcome)) {
    let (mut rows, outcome) = skipped;
    assert!(rows.tables.remove("repeated").is_some(), "{:?}", outcome.skipping);
    for (name, columns) in &full.0.tables {
        for (column, values) in columns {
            assert!(rows.tables[name][column] == *values, "{name}.{column} differs");
        }
    }
    assert_eq!(rows.tables.len(), full.0.tables.len());
    let expected = PacketOutcome { skipping: outcome.skipping.clone(), ..full.1 };
    assert_eq!(outcome, expected);
}

#[test]
fn jobs_that_take_turns_are_repeated_as_they_would_have_gone_on() {
    let scenario = scenario(apart(), 50);
    let (rows, outcome) = ran(&scenario, &exactly());
    let its = skipping(&outcome);
    assert_eq!((its.repeats.len(), its.obstacle.clone()), (1, None));
    let repeat = &its.repeats[0];
    assert!(repeat.is_exact && repeat.cycles >= 40, "{repeat:?}");
    assert_eq!((repeat.deviation, repeat.drift_bound()), (0.0, 0.0));
    // Most of the packets were never sent.
    assert!(its.counters.packet_hops * 10 > outcome.counters.packet_hops * 8);
    assert_same((rows, outcome), ran(&scenario, &PacketOptions::default()));
}

#[test]
fn jobs_that_meet_without_marks_are_repeated_with_their_pauses() {
    // PFC alone decides who waits: both hosts send 43 Gbps over one link of 50 Gbps, and nothing is left to chance.
    let scenario = scenario(vec![job("first", 0, 400, 150), job("second", 1, 400, 150)], 40);
    let mut model = Model::default();
    model.switching.marking.clear();
    model.switching.buffer = Bytes::new(400_000);
    let skipped = ran_with(&scenario, &model, &[], &exactly());
    assert!(skipping(&skipped.1).repeats[0].is_exact, "{:?}", skipped.1);
    assert!(skipped.1.counters.pauses > 1_000, "{:?}", skipped.1);
    let paused_s = skipped.0.numbers("ports", "paused_s");
    assert!(paused_s.iter().any(|&paused_s| paused_s > 1e-3), "{paused_s:?}");
    assert_same(skipped, ran_with(&scenario, &model, &[], &PacketOptions::default()));
}

#[test]
fn marks_that_nobody_heeds_recur_in_number_only_nearly() {
    let scenario = scenario(vec![job("first", 0, 400, 150), job("second", 1, 400, 150)], 40);
    let its = ran(&scenario, &exactly()).1;
    assert!(skipping(&its).repeats.is_empty(), "{its:?}");
    let (rows, outcome) = ran(&scenario, &within(0.001));
    let repeat = skipping(&outcome).repeats.last().expect("times recur exactly");
    assert_eq!((repeat.is_exact, repeat.deviation), (false, 0.0));
    let (full, whole) = ran(&scenario, &PacketOptions::default());
    assert_eq!(rows.tables["iterations"], full.tables["iterations"]);
    let off = outcome.counters.marks as f64 / whole.counters.marks as f64 - 1.0;
    // Three cycles with some eighty marks each stand for all.
    assert!(off != 0.0 && off.abs() < 0.2, "{off} off");
}

#[test]
fn two_rounds_of_one_job_and_one_of_another_are_one_cycle() {
    let pad = |job, us| Job { pad_to: Some(Duration::from_us(us)), ..job };
    let jobs = vec![pad(job("short", 0, 300, 100), 320), pad(job("long", 1, 600, 200), 640)];
    let scenario = scenario(jobs, 40);
    let skipped = ran(&scenario, &exactly());
    let repeat = &skipping(&skipped.1).repeats[0];
    let iterations: Vec<u64> = repeat.iterations.iter().map(|each| each.end - each.start).collect();
    assert_eq!(iterations, [2 * repeat.cycles, repeat.cycles]);
    assert_same(skipped, ran(&scenario, &PacketOptions::default()));
}

#[test]
fn who_stays_is_repeated_again_after_a_job_has_left() {
    let mut jobs = apart();
    jobs[0].iterations = Some(20);
    let scenario = scenario(jobs, 60);
    let skipped = ran(&scenario, &exactly());
    let repeats = &skipping(&skipped.1).repeats;
    assert_eq!(repeats.len(), 2, "{repeats:?}");
    // The last iteration of a job is always simulated.
    assert_eq!((repeats[0].iterations[0].end, repeats[1].iterations[1].end), (19, 59));
    assert!(repeats[1].iterations[0].is_empty());
    assert_eq!(skipped.0.texts("repeated", "job"), ["first", "second", "second"]);
    assert_same(skipped, ran(&scenario, &PacketOptions::default()));
}

#[test]
fn a_run_with_an_end_stops_there_in_the_middle_of_an_iteration() {
    let until = Some(Time::ZERO + Duration::from_us(20_130));
    let stop = Stop { iterations: None, until };
    let scenario = Scenario::new(fabric(), apart(), 1, 1, stop).expect("the scenario is valid");
    let skipped = ran(&scenario, &exactly());
    assert_eq!((skipped.1.status, Some(skipped.1.ended)), (PacketStatus::Stopped, until));
    assert_same(skipped, ran(&scenario, &PacketOptions::default()));
}

#[test]
fn an_observer_can_end_a_run_in_the_middle_of_what_is_repeated() {
    let scenario = scenario(apart(), 500);
    let mut rows = Rows { stop_at: Some(300), ..Rows::default() };
    let model = Model::default();
    let outcome = run_scenario(&scenario, &model, &[], &exactly(), &mut rows).expect("it holds");
    assert_eq!(outcome.status, PacketStatus::Interrupted);
    let iterations = rows.texts("iterations", "iteration").len() as u64;
    assert!((300..310).contains(&iterations), "{iterations} rows");
    let of_jobs = rows.texts("jobs", "iterations").iter();
    let counted: u64 = of_jobs.map(|text| text.parse::<u64>().expect("a number")).sum();
    assert_eq!(counted, iterations);
}

#[test]
fn under_random_marks_the_mean_iteration_is_within_the_error_that_is_told() {
    let pair = || {
        ["first", "second"]
            .into_iter()
            .zip(0..)
            .map(|(n, from)| with_dcqcn(job(n, from, 1_000, 400)))
    };
    let scenario = scenario(pair().collect(), 60);
    let (rows, outcome) = ran(&scenario, &within(0.1));
    let (full, whole) = ran(&scenario, &PacketOptions::default());
    assert!(whole.counters.marks > 1_000, "{} marks", whole.counters.marks);
    let its = skipping(&outcome);
    assert!(its.repeats.iter().any(|each| each.cycles >= 20 && !each.is_exact), "{its:?}");
    let bound = its.repeats.iter().map(|each| each.deviation).fold(0.0, f64::max);
    let means = |rows: &Rows| rows.numbers("jobs", "mean_iteration_s");
    for (skipped, full) in means(&rows).iter().zip(means(&full)) {
        let off = (skipped / full - 1.0).abs();
        assert!(off <= bound, "{skipped} instead of {full}: {off} off, {bound} told");
    }
    // Counts are those of the whole run, too: marks vary most.
    let off = outcome.counters.packet_hops as f64 / whole.counters.packet_hops as f64 - 1.0;
    assert!(off.abs() < 0.01, "packet-hops {off} off");
    assert_eq!(rows.numbers("flows", "end_s").len(), 120);
}

#[test]
fn numbers_of_iterations_are_whole_and_times_go_on() {
    let options = PacketOptions { sample_every: Some(Duration::from_us(7)), ..within(0.1) };
    let pair = ["first", "second"].into_iter().zip(0..);
    let jobs = pair.map(|(name, from)| with_dcqcn(job(name, from, 1_000, 400))).collect();
    let (rows, _) = ran(&scenario(jobs, 60), &options);
    assert!(!rows.texts("repeated", "job").is_empty());
    let names = rows.texts("iterations", "job").iter();
    let numbered = names.zip(rows.numbers("iterations", "iteration"));
    for name in ["first", "second"] {
        let of_job = numbered.clone().filter(|(job, _)| *job == name).map(|(_, number)| number);
        assert!(of_job.eq((0..60).map(f64::from)), "the iterations of {name} are counted from 0");
    }
    let in_time = [
        ("iterations", "end_s"),
        ("phases", "end_s"),
        ("flows", "end_s"),
        ("queues", "at_s"),
        ("switch_queues", "at_s"),
        ("rates", "at_s"),
        ("utilisation", "at_s"),
    ];
    for (table, column) in in_time {
        let times = rows.numbers(table, column);
        assert!(times.len() >= 120 && times.is_sorted(), "{table} has times in order");
    }
}

#[test]
fn jobs_that_draw_or_re_adjust_never_skip_and_say_so() {
    let spoilt = |spoil: fn(&mut Job)| {
        let mut jobs = apart();
        spoil(&mut jobs[1]);
        let (rows, outcome) = ran(&scenario(jobs, 12), &within(0.5));
        assert!(!rows.tables.contains_key("repeated"));
        let its = skipping(&outcome);
        assert!(its.repeats.is_empty());
        its.obstacle.as_ref().expect("nothing was repeated").to_string()
    };
    assert_eq!(spoilt(|job| job.jitter = 0.01), "job \"second\" has jitter");
    let clock_error = |job: &mut Job| job.clock_error = Duration::from_ns(1);
    assert_eq!(spoilt(clock_error), "job \"second\" has a clock error");
    assert_eq!(spoilt(|job| job.readjust = true), "job \"second\" re-adjusts");
}

#[test]
fn periods_that_do_not_fit_never_recur() {
    let jobs = vec![job("first", 0, 400, 100), job("second", 1, 283, 50)];
    // Nobody leaves: who stays alone would recur.
    let stop = Stop { iterations: None, until: Some(Time::ZERO + Duration::from_ms(30)) };
    let scenario = Scenario::new(fabric(), jobs, 1, 1, stop).expect("the scenario is valid");
    let (rows, outcome) = ran(&scenario, &exactly());
    assert!(!rows.tables.contains_key("repeated"));
    let Some(Obstacle::NoRecurrence { .. }) = skipping(&outcome).obstacle else {
        panic!("{outcome:?}")
    };
}

#[test]
fn nobody_skips_before_all_have_begun() {
    // In the twenty-first round of the first job, in turns with it.
    let arrival = Time::ZERO + Duration::from_us(20 * 420);
    let mut jobs = apart();
    jobs.iter_mut().for_each(|job| job.pad_to = Some(Duration::from_us(420)));
    jobs[1].arrival = arrival;
    let scenario = scenario(jobs, 60);
    let skipped = ran(&scenario, &exactly());
    let repeats = &skipping(&skipped.1).repeats;
    assert!(repeats.len() == 2 && repeats[0].start > arrival, "{repeats:?}");
    assert_same(skipped, ran(&scenario, &PacketOptions::default()));
}

#[test]
fn nothing_is_repeated_from_before_a_link_changes() {
    use hocket_packetsim::Change;
    let at = Time::ZERO + Duration::from_ms(10);
    let rate = Change::Rate(Rate::from_gbps(45));
    let change = LinkChange { at, link: LinkId::new(4), change: rate };
    let scenario = scenario(apart(), 60);
    let skipped = ran_with(&scenario, &Model::default(), &[change], &exactly());
    assert!(skipping(&skipped.1).repeats.iter().all(|repeat| repeat.start > at));
    assert_same(
        skipped,
        ran_with(&scenario, &Model::default(), &[change], &PacketOptions::default()),
    );
}

#[test]
fn a_tolerance_and_a_number_of_cycles_have_limits() {
    let refused = |skip| {
        let options = PacketOptions { skip: Some(skip), ..PacketOptions::default() };
        let ran = run_scenario(
            &scenario(apart(), 2),
            &Model::default(),
            &[],
            &options,
            &mut Rows::default(),
        );
        ran.expect_err("the options make no sense")
    };
    let error = refused(Skip { tolerance: -0.1, cycles: 3 });
    assert_eq!(error, PacketRunError::SkipTolerance { tolerance: -0.1 });
    assert_eq!(
        error.to_string(),
        "skipping within -0.1; the tolerance must be at least 0 and below 1"
    );
    let error = refused(Skip { tolerance: 0.1, cycles: 1 });
    assert_eq!(error.to_string(), "skipping after 1 cycles; it must be from 2 to 64");
}

/// A job of any shape, on hosts 0 and 1 in turn.
fn any_job() -> impl Strategy<Value = Job> {
    let policy = prop_oneof![
        Just(Policy::PfcOnly),
        Just(Policy::Dcqcn(dcqcn::Parameters::recommended(LINE))),
        Just(Policy::Dctcp(dctcp::Parameters::recommended(LINE))),
        Just(Policy::Timely(timely::Parameters::recommended(LINE))),
        Just(Policy::Hpcc(hpcc::Parameters::recommended(LINE))),
    ];
    let pad_to = prop_oneof![Just(None), Just(Some(Duration::from_us(500)))];
    let shape = (0..2_u32, 2..5_u64, 1..18_u64, 10..40_u64);
    (shape, 0..400_u64, pad_to, policy).prop_map(
        |((from, period, busy, iterations), shift_us, pad_to, policy)| {
            let job = job("", from, period * 100, busy * 10);
            Job {
                transport: Transport { policy, ..job.transport },
                time_shift: Some(Duration::from_us(shift_us)),
                iterations: Some(iterations),
                pad_to,
                ..job
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_recurs_exactly_goes_on_as_if_it_were_simulated(
        jobs in prop::collection::vec(any_job(), 1..4),
    ) {
        let named = |(job, number): (Job, u64)| Job { name: number.to_string(), ..job };
        let scenario = scenario(jobs.into_iter().zip(0..).map(named).collect(), 1);
        // All packets above a threshold are marked: nothing is left to chance.
        let mut model = Model::default();
        for marking in &mut model.switching.marking {
            marking.maximum = marking.minimum;
        }
        let (skipped, outcome) = ran_with(&scenario, &model, &[], &exactly());
        let full = ran_with(&scenario, &model, &[], &PacketOptions::default());
        let repeats = &skipping(&outcome).repeats;
        prop_assert!(repeats.iter().all(|repeat| repeat.is_exact));
        if !repeats.is_empty() {
            assert_same((skipped, outcome), full);
        }
    }
}
