//! The solvers against the optima that a constraint solver proved for random instances
//! (`data/instances.json`): all edges fall on 5 degree sectors, so discrete and continuous optimum
//! are the same.

mod instances;

use hocket_compat::{LinkProblem, Method, Solution, SolveOptions, score_of, solve};
use instances::{Instance, drawn, instances};

fn assert_matches(method: impl Fn(&Instance) -> Method) {
    for (instance, link) in instances() {
        let options = SolveOptions {
            method: method(&instance),
            time_limit: std::time::Duration::from_secs(600),
            ..SolveOptions::default()
        };
        let solution = solve(&link, &options).expect("the instance is valid");
        let id = &instance.id;
        assert!(solution.proven_optimal, "{id} was not proven");
        let error = (solution.score - instance.optimal_score).abs();
        assert!(error < 1e-9, "{id}: {} is not {}", solution.score, instance.optimal_score);
        let replayed = score_of(link.capacity, &link.jobs, &solution.time_shifts, false)
            .expect("a solution can be scored");
        assert!((replayed - solution.score).abs() < 1e-9, "{id}: the shifts score {replayed}");
    }
}

#[test]
fn every_instance_reaches_its_proven_optimum_at_its_precision() {
    assert_matches(|instance| Method::Precision { degrees: instance.precision_deg });
}

#[test]
fn every_instance_reaches_its_proven_optimum_over_continuous_shifts() {
    assert_matches(|_| Method::Exact);
}

/// The optimum at 5 degrees, proven within a number of nodes, which unlike the time is the same on
/// every machine.
fn proven(link: &LinkProblem, most_nodes: u64) -> Solution {
    let time_limit = std::time::Duration::from_secs(600);
    let solution = solve(link, &SolveOptions { time_limit, ..SolveOptions::default() })
        .expect("the instance is valid");
    assert!(solution.proven_optimal);
    assert!(solution.nodes <= most_nodes, "{} nodes", solution.nodes);
    solution
}

#[test]
fn eight_jobs_are_proven_within_a_few_thousand_nodes() {
    // Not chosen: the first five of those on which the bench measures the time.
    for (number, most_nodes) in [(0, 1_000), (1, 5_000), (2, 500), (3, 0), (4, 8_000)] {
        proven(&drawn(8, 50, number), most_nodes);
    }
}

#[test]
fn ten_jobs_with_twice_the_capacity_are_proven_within_a_few_thousand_nodes() {
    for (number, most_nodes) in [(0, 4_000), (1, 9_000), (2, 0), (3, 0), (10, 500)] {
        proven(&drawn(10, 100, number), most_nodes);
    }
}

#[test]
fn ten_jobs_that_overload_a_link_all_the_time_are_proven_by_their_load() {
    let link = drawn(10, 50, 0);
    let load: f64 = link
        .jobs
        .iter()
        .flat_map(|job| job.phases().iter().map(move |phase| (job.period(), phase)))
        .map(|(period, phase)| {
            let share = phase.duration.as_secs_f64() / period.as_secs_f64();
            share * phase.rate.as_bps() as f64 / link.capacity.as_bps() as f64
        })
        .sum();
    let solution = proven(&link, 0);
    assert!((solution.score - (2.0 - load)).abs() < 1e-9, "{} at load {load}", solution.score);
}
