//! Skipping ahead: what is repeated instead of being simulated has the same distribution.

use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::cluster::{ClusterRun, Settings, SimilarIterations, SkipAhead, Start};
use hocket_scenario::{Crossing, Fabric, JobId, LinkId, Phase, Profile};

/// A number in 0..`below`, from a seed: splitmix64.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % below
}

struct Totals {
    iterations: u64,
    slowdown: f64,
    p99: f64,
    contended_s: f64,
    delays_s: f64,
}

// Runs `jobs` random jobs on one link for `minutes`. Each slowdown is given with the number of iterations that had it.
fn run(jobs: u64, seed: u64, minutes: u64, skip_ahead: Option<SkipAhead>) -> (Vec<(f64, u64)>, f64, f64) {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).unwrap();
    let settings = Settings { seed, skip_ahead, ..Settings::default() };
    let mut run = ClusterRun::new(&fabric, settings);
    let mut draws = seed;
    let mut periods = Vec::new();
    for number in 0..jobs {
        let compute = 50 + draw(&mut draws, 400) * (1 + 4 * u64::from(number % 3 == 0));
        let sending = 30 + draw(&mut draws, 200);
        let up = Phase {
            start: Duration::from_ms(compute),
            duration: Duration::from_ms(sending),
            rate: Rate::from_gbps(30 + draw(&mut draws, 15)),
        };
        let profile = Profile::new(Duration::from_ms(compute + sending), vec![up]).unwrap();
        periods.push(profile.period());
        let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
        let id = run.add(format!("job{number}"));
        let start = Start { iterations: 1_000_000, jitter: 0.01, ..Start::new(profile, crossings) };
        run.start(id, start).unwrap();
    }
    let end = Time::ZERO + Duration::from_secs(60 * minutes);
    assert!(run.advance(end).unwrap().is_empty());
    let slowdown = |row: &SimilarIterations| {
        let ideal = periods[row.job.index()].as_ps() as f64;
        (row.duration.as_ps() as f64 / row.count as f64 / ideal, row.count)
    };
    let rows = run.take_iterations();
    let delays = run.take_delays().values().sum();
    let contended: Duration = run.traffic().values().map(|traffic| traffic.contended).sum();
    let _ = JobId::new(0);
    (rows.iter().map(slowdown).collect(), contended.as_secs_f64(), delays)
}

fn totals(jobs: u64, components: u64, minutes: u64, skip_ahead: Option<SkipAhead>) -> Totals {
    let mut all = Vec::new();
    let (mut contended_s, mut delays_s) = (0.0, 0.0);
    for seed in 0..components {
        let (slowdowns, contended, delays) = run(jobs, seed, minutes, skip_ahead);
        all.extend(slowdowns);
        contended_s += contended;
        delays_s += delays;
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let iterations = all.iter().map(|(_, count)| count).sum::<u64>();
    let total: f64 = all.iter().map(|&(slowdown, count)| slowdown * count as f64).sum();
    let mut left = iterations / 100;
    let tail = all.iter().rev().find(|(_, count)| {
        let is_last = left <= *count;
        left = left.saturating_sub(*count);
        is_last
    });
    let p99 = tail.unwrap().0;
    Totals { iterations, slowdown: total / iterations as f64, p99, contended_s, delays_s }
}

#[test]
fn experiment() {
    for (jobs, components, minutes) in [(2, 200, 2), (2, 200, 20), (4, 50, 20), (12, 10, 20), (40, 4, 20)] {
        for settings in [None, Some(SkipAhead::default())] {
            let Totals { iterations, slowdown, p99, contended_s, delays_s } =
                totals(jobs, components, minutes, settings);
            println!(
                "{jobs} jobs {components} x {minutes} min: {iterations} {slowdown:.5} {p99:.4} {contended_s:.1} {delays_s:.1}"
            );
        }
    }
}
