//! The solvers against the optima that a constraint solver proved for random instances
//! (`data/instances.json`): all edges fall on 5 degree sectors, so discrete and continuous optimum
//! are the same.

mod instances;

use hocket_compat::{Method, SolveOptions, score_of, solve};
use instances::{Instance, instances};

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
