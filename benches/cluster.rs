//! The cost of an iteration in a cluster's run: of a job alone, with and without jitter, and of jobs that share a link,
//! simulated or repeated.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hocket_des::{Duration, Rate, Time};
use hocket_flowsim::cluster::{ClusterRun, Settings, SkipAhead, Start};
use hocket_scenario::{Crossing, Fabric, LinkId, Phase, Profile};

const ITERATIONS: u64 = 1_000;

// Jobs of different periods on one link, so that their overlap changes from iteration to iteration.
fn simulate(jobs: u64, jitter: f64, skip_ahead: Option<SkipAhead>) -> u64 {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("50 Gbps is a rate");
    let mut run = ClusterRun::new(&fabric, Settings { skip_ahead, ..Settings::default() });
    for number in 0..jobs {
        let (start, duration) = (Duration::from_ms(150 + number), Duration::from_ms(120));
        let up = Phase { start, duration, rate: Rate::from_gbps(30) };
        let profile = Profile::new(start + duration, vec![up]).expect("Up ends with the period");
        let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
        let job = run.add(format!("job{number}"));
        let start = Start { iterations: ITERATIONS, jitter, ..Start::new(profile, crossings) };
        run.start(job, start).expect("it ends in time");
    }
    // Far beyond the end of the last job.
    let (until, mut left) = (Time::ZERO + Duration::from_ms(10_000_000), jobs as usize);
    while left > 0 {
        left -= run.advance(until).expect("its checks hold").len();
    }
    run.take_iterations().iter().map(|row| row.count).sum()
}

fn iterations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cluster_iteration");
    let skipping = Some(SkipAhead::default());
    let simulated =
        [(1, 0.0), (1, 0.01), (2, 0.01), (4, 0.01)].map(|(jobs, jitter)| (jobs, jitter, None));
    let repeated = [1, 2, 4].map(|jobs| (jobs, 0.01, skipping));
    for (jobs, jitter, skip_ahead) in simulated.into_iter().chain(repeated) {
        group.throughput(Throughput::Elements(jobs * ITERATIONS));
        let how = if skip_ahead.is_some() { "repeated" } else { "simulated" };
        let id = BenchmarkId::new(format!("{jobs}_jobs_{how}"), jitter);
        group.bench_function(id, |bencher| {
            bencher.iter(|| simulate(black_box(jobs), jitter, skip_ahead));
        });
    }
    group.finish();
}

criterion_group!(benches, iterations);
criterion_main!(benches);
