//! A round of Pollux's search, from the second round on: on CASSINI's testbed of 24 servers with one GPU each, with six jobs;
//! and on 128 servers with eight GPUs each, with 170 jobs.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use hocket_schedule::{Fitness, PolluxJob, PolluxProblem, PolluxSearch, SearchOptions, Worth};

const OPTIONS: SearchOptions = SearchOptions { population: 100, generations: 100 };

/// A job whose speedup grows sublinearly with its workers; the exponent cycles through seven values.
fn job(index: usize) -> PolluxJob {
    let size = |workers: u32| {
        let speedup = f64::from(workers).powf(0.5 + 0.4 / (1 + index % 7) as f64);
        Worth { workers, on_one_node: 1.05 * speedup, across_nodes: speedup }
    };
    PolluxJob {
        key: index as u64,
        sizes: (1..=12).map(size).collect(),
        cells: Vec::new(),
        restart_factor: 0.9,
        pinned: false,
    }
}

fn rounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a round of Pollux");
    group.sample_size(10);
    for (name, capacities, jobs) in
        [("24 x 1 GPU, 6 jobs", vec![1; 24], 6), ("128 x 8 GPUs, 170 jobs", vec![8; 128], 170)]
    {
        let mut jobs: Vec<PolluxJob> = (0..jobs).map(job).collect();
        let fitness = Fitness::PowerMean { exponent: -1.0 };
        let mut search = PolluxSearch::new(OPTIONS, 1);
        let first =
            PolluxProblem::new(&capacities, jobs.clone(), fitness).expect("no job runs yet");
        for (job, row) in jobs.iter_mut().zip(search.round(&first).rows) {
            job.cells = row;
        }
        let second = PolluxProblem::new(&capacities, jobs, fitness).expect("the answer fits");
        group.bench_function(name, |bencher| {
            bencher.iter(|| search.round(black_box(&second)));
        });
    }
    group.finish();
}

criterion_group!(benches, rounds);
criterion_main!(benches);
