//! The cost of an event of the flow engine, which must not depend on idle links and grows with the number of jobs that share
//! a link, and of a thousand iterations of two jobs, which is a typical run.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hocket_des::{Duration, Rate};
use hocket_flowsim::{FlowOptions, run};
use hocket_scenario::{
    Cable, Crossing, Fabric, Job, LinkId, Node, NodeId, NodeKind, Phase, Profile, Scenario, Share,
    Stop, Weight,
};

fn two_jobs(fabric: Fabric, share: Share, jitter: f64) -> Scenario {
    let up = Phase {
        start: Duration::ZERO,
        duration: Duration::from_ms(120),
        rate: Rate::from_gbps(40),
    };
    let profile = Profile::new(Duration::from_ms(240), vec![up]).expect("120 of 240 ms fit");
    let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
    let job = |name| Job { share, jitter, ..Job::new(name, profile.clone(), crossings.clone()) };
    let stop = Stop { iterations: Some(1_000), until: None };
    Scenario::new(fabric, vec![job("a"), job("b")], 1, 1, stop).expect("both jobs cross link 0")
}

fn many_jobs(jobs: u32) -> Scenario {
    let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).expect("50 Gbps is a rate");
    let job = |index| {
        // Together, the jobs demand the same time of the link, however many they are.
        let up = Phase {
            start: Duration::ZERO,
            duration: Duration::from_us(120_000 / u64::from(jobs)),
            rate: Rate::from_gbps(40),
        };
        let profile =
            Profile::new(Duration::from_ms(240), vec![up]).expect("at most 120 of 240 ms");
        let crossings = vec![Crossing { link: LinkId::new(0), flows: 1 }];
        Job { jitter: 0.01, ..Job::new(format!("job{index}"), profile, crossings) }
    };
    let stop = Stop { iterations: Some(10), until: None };
    Scenario::new(fabric, (0..jobs).map(job).collect(), 1, 1, stop).expect("all cross link 0")
}

fn star(links: u32) -> Fabric {
    let node = |index| Node { name: format!("n{index}"), kind: NodeKind::Switch };
    let cable = |index| Cable {
        a: NodeId::new(0),
        b: NodeId::new(index),
        rate: Rate::from_gbps(50),
        delay: Duration::from_ns(500),
    };
    let cables: Vec<_> = (1..=links / 2).map(cable).collect();
    Fabric::new((0..=links / 2).map(node).collect(), &cables).expect("a star is a fabric")
}

fn simulate(scenario: &Scenario) -> u64 {
    let outcome = run(scenario, &FlowOptions::default());
    outcome.expect("both jobs finish").end.counters.events
}

fn thousand_iterations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two_jobs_1000_iterations");
    let fair = (Share::Fair, 0.0);
    let jittered = (Share::Fair, 0.01);
    let adaptive = (Share::adaptive(Weight::ONE), 0.01);
    for (name, (share, jitter)) in [("fair", fair), ("jittered", jittered), ("adaptive", adaptive)]
    {
        let scenario = two_jobs(star(2), share, jitter);
        group.throughput(Throughput::Elements(simulate(&scenario)));
        group.bench_function(name, |bencher| bencher.iter(|| simulate(black_box(&scenario))));
    }
    group.finish();
}

fn idle_links(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event_beside_idle_links");
    for links in [10, 10_000] {
        let scenario = two_jobs(star(links), Share::Fair, 0.01);
        group.throughput(Throughput::Elements(simulate(&scenario)));
        group.bench_with_input(
            BenchmarkId::from_parameter(links),
            &scenario,
            |bencher, scenario| {
                bencher.iter(|| simulate(black_box(scenario)));
            },
        );
    }
    group.finish();
}

fn crowded_link(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event_on_one_crowded_link");
    for jobs in [10, 100, 1_000] {
        let scenario = many_jobs(jobs);
        group.throughput(Throughput::Elements(simulate(&scenario)));
        group.bench_with_input(
            BenchmarkId::from_parameter(jobs),
            &scenario,
            |bencher, scenario| {
                bencher.iter(|| simulate(black_box(scenario)));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, thousand_iterations, idle_links, crowded_link);
criterion_main!(benches);
