//! Ranking of 10 candidates with 1,000 jobs on 1,000 shared links: with the few kinds of jobs that a real
//! cluster has, with all jobs different, and with loops that must be solved.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hocket_compat::cassini::{
    Candidate, CassiniCrossing, CassiniJob, CassiniLink, CassiniOptions, Loops, rank,
};
use hocket_des::{Duration, Rate, Stream, stream};
use hocket_scenario::{Phase, Profile};
use rand::RngExt;

const JOBS: usize = 1_000;
const LINKS: usize = 1_000;
const CANDIDATES: usize = 10;

/// Iteration times in milliseconds, such as remain after periods were made commensurate.
const PERIODS_MS: [u64; 5] = [120, 160, 180, 240, 360];

/// One Up phase over part of the period; model-parallel jobs have a second, smaller one.
fn profile(draw: &mut Stream, step_us: u64) -> Profile {
    let period_us = 1_000 * PERIODS_MS[draw.random_range(0..PERIODS_MS.len())];
    let mut up = |start_us: u64, share: std::ops::Range<u64>, gbps: u64| Phase {
        start: Duration::from_us(start_us),
        duration: Duration::from_us(period_us * draw.random_range(share) / 100 / step_us * step_us),
        rate: Rate::from_gbps(gbps),
    };
    let mut phases = vec![up(0, 20..60, 45)];
    if period_us > 200_000 {
        phases.push(up(period_us * 2 / 3, 10..30, 20));
    }
    Profile::new(Duration::from_us(period_us), phases).expect("the phases lie inside the period")
}

/// Jobs of `kinds` kinds, with phases in whole steps of `step_us`.
fn jobs(kinds: usize, step_us: u64) -> Vec<CassiniJob> {
    let mut draw = stream(1, "profiles", kinds as u64);
    let profiles: Vec<Profile> = (0..kinds).map(|_| profile(&mut draw, step_us)).collect();
    let job = |index: usize| CassiniJob {
        name: format!("job {index}"),
        profile: profiles[index % kinds].clone(),
        priority: 0,
    };
    (0..JOBS).map(job).collect()
}

fn links() -> Vec<CassiniLink> {
    let link = |index| CassiniLink { name: format!("link {index}"), capacity: Rate::from_gbps(50) };
    (0..LINKS).map(link).collect()
}

/// Candidates in which jobs form random groups of `size`. The jobs of a group form a chain whose neighbours share
/// `directions` links each; `closed` also joins the ends of each chain, which makes a loop.
fn candidates(size: usize, directions: usize, closed: bool) -> Vec<Candidate> {
    let candidate = |index: usize| {
        let mut draw = stream(2, "placement", index as u64);
        // Fisher and Yates's shuffle.
        let mut order: Vec<usize> = (0..JOBS).collect();
        for last in (1..JOBS).rev() {
            order.swap(last, draw.random_range(0..=last));
        }
        let pairs = order.chunks(size).flat_map(|group| {
            let ends = group.first().zip(group.last()).filter(|_| closed && group.len() > 2);
            group.windows(2).map(|pair| (pair[0], pair[1])).chain(ends.map(|(a, b)| (*a, *b)))
        });
        let crossings = pairs.take(LINKS / directions).enumerate().flat_map(|(place, (a, b))| {
            let links = directions * place..directions * (place + 1);
            links.flat_map(move |link| [(a, link), (b, link)])
        });
        Candidate {
            name: format!("candidate {index}"),
            crossings: crossings
                .map(|(job, link)| CassiniCrossing { job, link, flows: 1 })
                .collect(),
            moved_jobs: 0,
        }
    };
    (0..CANDIDATES).map(candidate).collect()
}

fn ranking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rank 10 candidates of 1000 jobs");
    group.sample_size(10).throughput(Throughput::Elements((CANDIDATES * LINKS) as u64));
    let links = links();
    let cases = [
        ("13 kinds of jobs", jobs(13, 1_000), candidates(8, 2, false), Loops::Discard),
        ("no two jobs alike", jobs(JOBS, 1_000), candidates(8, 2, false), Loops::Discard),
        ("no two links alike", jobs(JOBS, 1_000), candidates(JOBS, 1, false), Loops::Discard),
        ("loops solved", jobs(13, 1_000), candidates(3, 2, true), Loops::Solve),
    ];
    for (name, jobs, candidates, loops) in &cases {
        let options = CassiniOptions { loops: *loops, ..CassiniOptions::default() };
        let ranking = rank(jobs, &links, candidates, &options).expect("the cluster is valid");
        assert_eq!(ranking.placements.len(), CANDIDATES, "{name}: all candidates get a score");
        group.bench_function(*name, |bencher| {
            bencher.iter(|| rank(black_box(jobs), &links, candidates, &options));
        });
    }
    group.finish();
}

criterion_group!(benches, ranking);
criterion_main!(benches);
