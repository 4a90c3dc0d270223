//! Time to a proven optimum on each reference instance, discrete and continuous, and on random
//! instances of the same kind with more jobs; and how far from the bound the best shifts after one
//! second are with even more. The aim on one core is 50 ms for up to five jobs, 1 s for eight, 10 s
//! for ten, and beyond, a median gap of 0.001.

use std::time::Duration as Wall;

use criterion::{Criterion, criterion_group, criterion_main};
use hocket_compat::{LinkProblem, Method, SolveOptions, solve};

#[path = "../crates/hocket-compat/tests/instances/mod.rs"]
mod instances;

fn prove(link: &LinkProblem, method: Method) {
    let options =
        SolveOptions { method, time_limit: Wall::from_secs(60), ..SolveOptions::default() };
    let solution = solve(link, &options).expect("the instance is valid");
    assert!(solution.proven_optimal, "not proven within the time limit");
}

fn reference_instances(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reference");
    group.sample_size(10).warm_up_time(Wall::from_millis(100)).measurement_time(Wall::from_secs(1));
    for (instance, link) in instances::instances() {
        let discrete = Method::Precision { degrees: instance.precision_deg };
        group.bench_function(format!("{}/discrete", instance.id), |bencher| {
            bencher.iter(|| prove(&link, discrete));
        });
        group.bench_function(format!("{}/exact", instance.id), |bencher| {
            bencher.iter(|| prove(&link, Method::Exact));
        });
    }
    group.finish();
}

fn more_jobs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("drawn");
    group.sample_size(10).warm_up_time(Wall::from_millis(100)).measurement_time(Wall::from_secs(1));
    // With 50 Gbps, ten jobs overload the link all the time, and the load alone proves the optimum.
    for (jobs, gbps) in [(8, 50), (8, 80), (10, 50), (10, 100)] {
        for number in 0..12 {
            let link = instances::drawn(jobs, gbps, number);
            group.bench_function(format!("{jobs}-jobs-{gbps}-gbps-{number}"), |bencher| {
                bencher.iter(|| prove(&link, SolveOptions::default().method));
            });
        }
    }
    group.finish();
}

#[expect(clippy::print_stdout, reason = "a gap is no time, which is all that criterion reports")]
fn gaps_after_one_second(_: &mut Criterion) {
    for jobs in [12u16, 16, 24, 32, 64] {
        let gap = |number| {
            let link = instances::drawn(jobs.into(), 10 * u64::from(jobs), number);
            let options =
                SolveOptions { time_limit: Wall::from_secs(1), ..SolveOptions::default() };
            let solution = solve(&link, &options).expect("the instance is valid");
            solution.bound - solution.score
        };
        let mut gaps: Vec<f64> = (0..11).map(gap).collect();
        gaps.sort_by(f64::total_cmp);
        println!("gap/{jobs}-jobs: median {:.5}, largest {:.5}", gaps[5], gaps[10]);
    }
}

criterion_group!(benches, reference_instances, more_jobs, gaps_after_one_second);
criterion_main!(benches);
