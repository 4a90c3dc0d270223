//! Time to a proven optimum on each reference instance, discrete and continuous. The aim is 50 ms
//! for up to five jobs and 1 s for six, on one core.

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

criterion_group!(benches, reference_instances);
criterion_main!(benches);
