//! What is recorded of the iterations of a cluster: rows of all, of a sample or of none, and summaries of all.

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::cluster::{
    ClusterRun, Distribution, JobSummary, Record, Settings, SimilarIterations, SkipAhead, Start,
};
use hocket_scenario::{Crossing, Fabric, LinkId, Phase, Profile};
use proptest::prelude::*;

const PERIOD_MS: u64 = 100;

fn seconds(s: u64) -> Time {
    Time::ZERO + Duration::from_secs(s)
}

/// A start of up to a million iterations of 100 ms, `sending_ms` of them at 40 Gbps.
fn start(sending_ms: u64, jitter: f64) -> Start {
    let duration = Duration::from_ms(sending_ms);
    let up = Phase {
        start: Duration::from_ms(PERIOD_MS) - duration,
        duration,
        rate: Rate::from_gbps(40),
    };
    let profile = Profile::new(Duration::from_ms(PERIOD_MS), vec![up]).expect("Up fits");
    let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
    Start { iterations: 1_000_000, jitter, samples: 32, ..Start::new(profile, crossings) }
}

/// `jobs` jobs that share a link of 50 Gbps until `end`. The second one stops and starts on the way, as another model.
fn run(
    jobs: u64,
    jitter: f64,
    end: u64,
    settings: Settings,
) -> (ClusterRun, Vec<SimilarIterations>) {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("50 Gbps is a rate");
    let mut run = ClusterRun::new(&fabric, settings);
    let all: Vec<_> = (0..jobs).map(|number| run.add(format!("job{number}"))).collect();
    for (number, id) in (0..).zip(&all) {
        run.start(*id, start(20 + 10 * number, jitter)).expect("it ends in time");
    }
    let mut rows = Vec::new();
    let mut advance = |run: &mut ClusterRun, until: Time| {
        while run.now() < until {
            run.advance(until).expect("its checks hold");
            rows.extend(run.take_iterations());
        }
    };
    advance(&mut run, seconds(end / 2));
    if let Some(&second) = all.get(1) {
        run.stop(second).expect("its checks hold");
        advance(&mut run, seconds(end / 2 + 5));
        let again = Start { at: run.now(), model: 1, ..start(40, jitter) };
        run.start(second, again).expect("it ends in time");
    }
    advance(&mut run, seconds(end));
    (run, rows)
}

fn recorded(record: Record) -> Settings {
    Settings { record, ..Settings::default() }
}

fn ps(row: &SimilarIterations) -> f64 {
    (row.duration + row.delayed).as_ps() as f64
}

/// The values at the percentile by nearest rank.
fn nearest_rank(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent).div_ceil(100) - 1]
}

fn check_summary(summary: &JobSummary, rows: &[SimilarIterations]) {
    let mine: Vec<_> = rows.iter().filter(|row| row.job == summary.job).collect();
    let total = |value: fn(&SimilarIterations) -> Duration| mine.iter().map(|row| value(row)).sum();
    let totals = summary.totals;
    assert_eq!(totals.iterations, mine.len() as u64);
    assert_eq!(totals.samples, 32 * totals.iterations);
    assert_eq!(totals.ideal, Duration::from_ms(PERIOD_MS) * totals.iterations);
    assert_eq!(totals.time, total(|row| row.duration + row.delayed));
    assert_eq!(totals.communication, total(|row| row.communication));
    for (percent, found) in [(50, summary.p50_ps), (99, summary.p99_ps)] {
        let exact = nearest_rank(mine.iter().map(|row| ps(row)).collect(), percent);
        let error = if summary.is_exact { 0.0 } else { Distribution::ERROR };
        assert!((found - exact).abs() <= error * exact, "p{percent} is {exact}: got {found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn summaries_are_those_of_all_rows_whatever_is_recorded(
        jobs in 1..4_u64,
        seed in 0..1_000_u64,
        every in 1..50_u64,
        skip_ahead in any::<bool>(),
    ) {
        let skip_ahead = skip_ahead.then(SkipAhead::default);
        let settings = |record| Settings { seed, skip_ahead, ..recorded(record) };
        let (all, rows) = run(jobs, 0.02, 60, settings(Record::All));
        let summaries = all.summaries();
        prop_assert_eq!(summaries.len() as u64, jobs);
        for summary in &summaries {
            check_summary(summary, &rows);
        }
        for record in [Record::Sampled { every }, Record::Summary] {
            let (other, fewer) = run(jobs, 0.02, 60, settings(record));
            prop_assert_eq!(other.summaries(), summaries.clone());
            // A sample is a part of all rows.
            prop_assert!(fewer.iter().all(|row| rows.contains(row)));
            if record == Record::Summary {
                prop_assert!(fewer.is_empty());
            }
        }
    }
}

#[test]
fn a_long_run_has_percentiles_within_the_stated_error() {
    let (run, rows) = run(1, 0.02, 3_000, Settings::default());
    let [summary] = &run.summaries()[..] else { panic!("there is one job") };
    assert!(!summary.is_exact, "30,000 iterations are more than are kept exactly");
    check_summary(summary, &rows);
}

#[test]
fn the_sample_has_one_iteration_of_each_block_and_prefers_none() {
    let every = 10;
    let (_, rows) = run(1, 0.02, 4_000, recorded(Record::Sampled { every }));
    let mut places = [0_u64; 10];
    for (block, row) in (0..).zip(&rows) {
        assert_eq!((row.iteration / every, row.count), (block, 1));
        places[(row.iteration % every) as usize] += 1;
    }
    // 400 each, ± five standard deviations of a binomial distribution.
    assert!(places.iter().all(|count| (305..=495).contains(count)), "{places:?}");
}

#[test]
fn sampled_iterations_of_a_job_without_jitter_are_at_their_times() {
    let (run, rows) = run(1, 0.0, 100, recorded(Record::Sampled { every: 7 }));
    assert_eq!(run.summaries()[0].totals.iterations, 1_000);
    assert_eq!(rows.len(), 143);
    for row in &rows {
        assert_eq!(row.start, Time::ZERO + Duration::from_ms(PERIOD_MS) * row.iteration);
        assert_eq!((row.end.since(row.start), row.count), (Duration::from_ms(PERIOD_MS), 1));
    }
}

#[test]
fn percentiles_of_models_are_over_all_iterations_of_their_jobs() {
    let (run, rows) = run(3, 0.02, 60, Settings::default());
    let [first, second, all] = &run.model_summaries()[..] else { panic!("there are two models") };
    // The second job is of another model since its second start.
    let of = |jobs: &[u32]| {
        let mine = rows.iter().filter(|row| jobs.contains(&row.job.code()));
        let times: Vec<f64> = mine.map(ps).collect();
        Some(nearest_rank(times, 99))
    };
    assert_eq!((first.p99_ps, second.p99_ps, all.p99_ps), (of(&[0, 2]), of(&[1]), of(&[0, 1, 2])));
    assert_eq!(all.p99_slowdown, all.p99_ps.map(|ps| ps / (PERIOD_MS as f64 * 1e9)));
}

#[test]
fn an_advance_returns_after_about_the_most_iterations() {
    let most = 1_000;
    let limited = Settings { most_iterations: Some(most), ..Settings::default() };
    let (_, rows) = run(2, 0.02, 300, Settings::default());
    let (_, same) = run(2, 0.02, 300, limited.clone());
    assert_eq!(same, rows);

    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("50 Gbps is a rate");
    let mut run = ClusterRun::new(&fabric, limited);
    let id = run.add("job");
    run.start(id, start(20, 0.02)).expect("it ends in time");
    while run.now() < seconds(1_000) {
        assert!(run.advance(seconds(1_000)).expect("its checks hold").is_empty());
        // Jitter makes single iterations shorter than the mean.
        assert!(run.rows() as u64 <= most + most / 100, "{} rows", run.rows());
        run.take_iterations();
    }
}
