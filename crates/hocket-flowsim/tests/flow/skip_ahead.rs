//! Skipping ahead: what is repeated instead of being simulated has the same distribution.

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::cluster::{ClusterRun, Ended, Settings, SimilarIterations, SkipAhead, Start};
use hocket_scenario::closed_loop::Slots;
use hocket_scenario::{Crossing, Fabric, LinkId, Phase, Profile, Share, Weight};

use crate::properties::fabric;

/// A number in 0..`below`, from a seed: splitmix64.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % below
}

fn seconds(s: u64) -> Time {
    Time::ZERO + Duration::from_secs(s)
}

fn one_link() -> Fabric {
    Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("50 Gbps is a rate")
}

/// A start of up to a million iterations with jitter, each with compute followed by communication.
fn start(compute_ms: u64, sending_ms: u64, gbps: u64) -> Start {
    let (start, duration) = (Duration::from_ms(compute_ms), Duration::from_ms(sending_ms));
    let up = Phase { start, duration, rate: Rate::from_gbps(gbps) };
    let profile = Profile::new(start + duration, vec![up]).expect("Up ends with the period");
    let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
    Start { iterations: 1_000_000, jitter: 0.01, ..Start::new(profile, crossings) }
}

/// Random jobs on one link, every third of which has long iterations. Returns them with the periods of their profiles.
fn random_jobs(jobs: u64, seed: u64, skip_ahead: Option<SkipAhead>) -> (ClusterRun, Vec<f64>) {
    let settings = Settings { seed, skip_ahead, ..Settings::default() };
    let mut run = ClusterRun::new(&one_link(), settings);
    let mut draws = seed;
    let mut periods = Vec::new();
    for number in 0..jobs {
        let times_longer = if number % 3 == 0 { 5 } else { 1 };
        let compute_ms = 50 + times_longer * draw(&mut draws, 400);
        let sending_ms = 30 + draw(&mut draws, 200);
        let id = run.add(format!("job{number}"));
        run.start(id, start(compute_ms, sending_ms, 30 + draw(&mut draws, 15)))
            .expect("it ends in time");
        periods.push((compute_ms + sending_ms) as f64 * 1e9);
    }
    (run, periods)
}

struct Totals {
    iterations: f64,
    /// The mean and the 99th percentile of the times of iterations relative to those of an idle network.
    slowdown: f64,
    p99: f64,
    contended_s: f64,
    delays_s: f64,
}

impl Totals {
    fn of(jobs: u64, components: u64, skip_ahead: Option<SkipAhead>) -> Self {
        let mut slowdowns: Vec<(f64, u64)> = Vec::new();
        let (mut contended_s, mut delays_s) = (0.0, 0.0);
        for seed in 0..components {
            let (mut run, periods) = random_jobs(jobs, seed, skip_ahead);
            assert!(run.advance(seconds(240)).expect("its checks hold").is_empty());
            slowdowns.extend(run.take_iterations().iter().map(|row| {
                let mean_ps = row.duration.as_ps() as f64 / row.count as f64;
                (mean_ps / periods[row.job.index()], row.count)
            }));
            delays_s += run.take_delays().values().sum::<f64>();
            let contended: Duration = run.traffic().values().map(|traffic| traffic.contended).sum();
            contended_s += contended.as_secs_f64();
        }
        slowdowns.sort_by(|a, b| b.0.total_cmp(&a.0));
        let iterations = slowdowns.iter().map(|&(_, count)| count as f64).sum::<f64>();
        let total: f64 = slowdowns.iter().map(|&(slowdown, count)| slowdown * count as f64).sum();
        let mut above = 0.0;
        let p99 = slowdowns.iter().find(|(_, count)| {
            above += *count as f64;
            above >= iterations / 100.0
        });
        let p99 = p99.expect("some iterations are the slowest").0;
        Self { iterations, slowdown: total / iterations, p99, contended_s, delays_s }
    }
}

#[test]
fn what_is_repeated_is_distributed_as_what_is_simulated() {
    for (jobs, components) in [(1, 3), (2, 200), (12, 20)] {
        let simulated = Totals::of(jobs, components, None);
        let repeated = Totals::of(jobs, components, Some(SkipAhead::default()));
        let near = |what: &str, a: f64, b: f64, within: f64| {
            assert!(
                (a - b).abs() <= within * a,
                "{what} of {jobs} jobs: {a} simulated, {b} repeated"
            );
        };
        near("iterations", simulated.iterations, repeated.iterations, 0.005);
        near("slowdown", simulated.slowdown, repeated.slowdown, 0.01);
        near("99th percentile", simulated.p99, repeated.p99, 0.01);
        near("contention", simulated.contended_s, repeated.contended_s, 0.03);
        near("delays", simulated.delays_s, repeated.delays_s, 0.03);
    }
}

#[test]
fn most_iterations_are_repeated_and_their_bytes_and_rows_are_complete() {
    let settings = Settings { skip_ahead: Some(SkipAhead::default()), ..Settings::default() };
    let mut run = ClusterRun::new(&one_link(), settings);
    let jobs = [run.add("a"), run.add("b")];
    run.start(jobs[0], start(60, 40, 40)).unwrap();
    run.start(jobs[1], Start { iterations: 3_000, ..start(70, 60, 40) }).unwrap();
    let ended = run.advance(seconds(10_000)).unwrap();
    assert_eq!(ended, [(jobs[1], Ended::Done)]);
    // Jobs end in iterations that are simulated.
    assert!(run.now() > seconds(300) && run.now() < seconds(600), "{}", run.now());
    let done = run.done(jobs[0]) + 3_000;
    let simulated = done - run.repeated_iterations();
    assert!(simulated * 5 < done, "{simulated} of {done} were simulated");
    let traffic = run.traffic();
    assert_eq!(traffic[&(LinkId::new(0), jobs[1])].bytes.get(), 3_000 * 300_000_000);

    let rows = run.take_iterations();
    for job in jobs {
        let of_job: Vec<&SimilarIterations> = rows.iter().filter(|row| row.job == job).collect();
        let counted: u64 = of_job.iter().map(|row| row.count).sum();
        assert_eq!(counted, run.done(job));
        for pair in of_job.windows(2) {
            assert_eq!(pair[0].iteration + pair[0].count, pair[1].iteration);
            assert!(pair[0].end <= pair[1].start, "{pair:?} overlap");
        }
    }
}

#[test]
fn a_skip_keeps_jobs_in_their_slots() {
    let settings = Settings { skip_ahead: Some(SkipAhead::default()), ..Settings::default() };
    let mut run = ClusterRun::new(&one_link(), settings);
    let jobs = [run.add("a"), run.add("b")];
    let period = Duration::from_ms(105);
    for (job, origin_ms) in jobs.into_iter().zip([0, 50]) {
        run.start(job, start(60, 40, 50)).unwrap();
        let origin = Time::ZERO + Duration::from_ms(origin_ms);
        run.align(job, Some(Slots { origin, period, waits: true, readjusts: true })).unwrap();
    }
    run.advance(seconds(3_600)).unwrap();
    let done = jobs.map(|job| run.done(job)).iter().sum::<u64>();
    assert!(run.repeated_iterations() * 10 > done * 8);
    // 3,600 s ÷ 105 ms for each.
    assert!(done.abs_diff(2 * 34_285) < 20, "{done}");
    // A start in a slot, at whole periods from its origin, within what jitter can delay it.
    for (job, origin_ms) in jobs.into_iter().zip([0, 50]) {
        let start = run.iteration_start(job).unwrap();
        let into_slot = (start.as_ps() - origin_ms * 1_000_000_000) % period.as_ps();
        let late_ps = into_slot.min(period.as_ps() - into_slot);
        assert!(late_ps < 5_000_000_000, "{job:?} starts {late_ps} ps from its slot");
    }
    let contended: Duration = run.traffic().values().map(|traffic| traffic.contended).sum();
    assert!(contended < Duration::from_secs(40), "{contended}");
}

#[test]
fn jobs_with_adaptive_weights_are_always_simulated() {
    let settings = Settings { skip_ahead: Some(SkipAhead::default()), ..Settings::default() };
    let mut run = ClusterRun::new(&one_link(), settings);
    let share = Share::adaptive(Weight::new(1.0).unwrap());
    for name in ["a", "b"] {
        let job = run.add(name);
        run.start(job, Start { share, ..start(60, 40, 40) }).unwrap();
    }
    run.advance(seconds(60)).unwrap();
    assert_eq!(run.repeated_iterations(), 0);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let outcome = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let settings =
                Settings { skip_ahead: Some(SkipAhead::default()), ..Settings::default() };
            let mut run = ClusterRun::new(&fabric(), settings);
            // Two pairs on different links, and a job alone.
            for (number, link) in [0, 0, 2, 2, 3].into_iter().enumerate() {
                let job = run.add(format!("job{number}"));
                let crossings = vec![Crossing { link: LinkId::new(link), flows: 1 }];
                let start = start(60 + 7 * number as u64, 40, 45);
                run.start(job, Start { crossings, ..start }).unwrap();
            }
            run.advance(seconds(600)).unwrap();
            (run.take_iterations(), run.traffic(), run.take_delays())
        })
    };
    assert_eq!(outcome(1), outcome(3));
}

/// Rows of all iterations of jobs without jitter, traffic and delays after ten minutes, and how many iterations were repeated.
/// Some of the jobs have slots; every second run is interrupted by decisions that change nothing.
fn without_jitter(
    seed: u64,
    skip_ahead: Option<SkipAhead>,
) -> (Vec<SimilarIterations>, Vec<String>, u64) {
    let mut run =
        ClusterRun::new(&one_link(), Settings { seed, skip_ahead, ..Settings::default() });
    let mut draws = seed;
    for number in 0..2 + seed % 3 {
        // Multiples of 25 ms, so that jobs return to where they were.
        let [compute_ms, sending_ms] =
            [2 + draw(&mut draws, 10), 1 + draw(&mut draws, 5)].map(|each| 25 * each);
        let job = run.add(format!("job{number}"));
        let gbps = 20 + draw(&mut draws, 30);
        run.start(
            job,
            Start { jitter: 0.0, iterations: 2_000, ..start(compute_ms, sending_ms, gbps) },
        )
        .expect("it ends in time");
        if seed % 4 == 3 {
            let origin = Time::ZERO + Duration::from_ms(25 * number);
            let period = Duration::from_ms(compute_ms + sending_ms + 25);
            run.align(job, Some(Slots { origin, period, waits: true, readjusts: true }))
                .expect("it ends in time");
        }
    }
    let mut ends = Vec::new();
    for step in 1..=20 {
        let until = seconds(30 * step);
        while run.now() < until {
            ends.extend(run.advance(until).expect("its checks hold"));
        }
        if seed % 2 == 1 {
            run.take_delays();
        }
    }
    let mut counted: Vec<String> = run
        .traffic()
        .iter()
        .map(|((_, job), traffic)| {
            format!("{job:?} {} {} {}", traffic.bytes, traffic.busy, traffic.contended)
        })
        .collect();
    counted.push(format!("{ends:?}"));
    (run.take_iterations(), counted, run.repeated_iterations())
}

#[test]
fn jobs_without_jitter_repeat_their_cycle_exactly() {
    let mut repeated = 0;
    for seed in 0..40 {
        let (rows, counted, none) = without_jitter(seed, None);
        let (rows_skipping, counted_skipping, skipped) =
            without_jitter(seed, Some(SkipAhead::default()));
        assert_eq!(rows, rows_skipping, "seed {seed}");
        assert_eq!(counted, counted_skipping, "seed {seed}");
        assert_eq!(none, 0);
        repeated += u64::from(skipped > 0);
    }
    // Others share no link that becomes full, or never return to the picosecond.
    assert!(repeated > 10, "only {repeated} of 40 runs repeated a cycle");
}
