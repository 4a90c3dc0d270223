//! Random instances on one link: those with the optimum that a constraint solver proved, and more of
//! the same kind with more jobs.

#[path = "../../src/testing.rs"]
mod testing;

use std::collections::BTreeSet;

use hocket_compat::LinkProblem;
use hocket_des::{Rate, stream};
use hocket_scenario::Profile;
use rand::RngExt;
use serde::Deserialize;

#[derive(Deserialize)]
struct Instances {
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
pub(crate) struct Instance {
    pub(crate) id: String,
    capacity_gbps: u64,
    pub(crate) precision_deg: f64,
    jobs: Vec<Job>,
    #[allow(dead_code, reason = "the benchmarks prove optima without comparing them")]
    pub(crate) optimal_score: f64,
}

#[derive(Deserialize)]
struct Job {
    period_ms: u64,
    phases: Vec<Up>,
}

/// An array of three numbers in the file.
#[derive(Deserialize)]
struct Up {
    start_ms: u64,
    duration_ms: u64,
    gbps: u64,
}

/// Every instance with its link.
pub(crate) fn instances() -> Vec<(Instance, LinkProblem)> {
    let text = include_str!("../data/instances.json");
    let all: Instances = serde_json::from_str(text).expect("the reference file is valid");
    all.instances
        .into_iter()
        .map(|instance| {
            let jobs = instance.jobs.iter().map(profile).collect();
            let capacity = Rate::from_gbps(instance.capacity_gbps);
            (instance, LinkProblem { capacity, jobs, gpu_groups: Vec::new() })
        })
        .collect()
}

fn profile(job: &Job) -> Profile {
    let phase = |up: &Up| testing::up(up.start_ms, up.duration_ms, up.gbps);
    testing::profile(job.period_ms, &job.phases.iter().map(phase).collect::<Vec<_>>())
}

/// An instance like those of the file: its edges lie on the 5 degree sectors of a circle of 360 ms,
/// and periods, phases and rates are distributed as there.
pub(crate) fn drawn(jobs: usize, capacity_gbps: u64, number: u64) -> LinkProblem {
    const STEP_MS: u64 = 5;
    let mut draw = stream(number, "instances", jobs as u64);
    let mut job = || {
        let period_ms = [60, 90, 120, 180, 180, 360, 360][draw.random_range(0..7)];
        let phases = [1, 1, 1, 2, 3][draw.random_range(0..5)];
        let mut edges = BTreeSet::new();
        while edges.len() < 2 * phases {
            edges.insert(STEP_MS * draw.random_range(0..=period_ms / STEP_MS));
        }
        let edges: Vec<u64> = edges.into_iter().collect();
        let up =
            |edges: &[u64]| testing::up(edges[0], edges[1] - edges[0], draw.random_range(8..=45));
        testing::profile(period_ms, &edges.chunks_exact(2).map(up).collect::<Vec<_>>())
    };
    let jobs = (0..jobs).map(|_| job()).collect();
    LinkProblem { capacity: Rate::from_gbps(capacity_gbps), jobs, gpu_groups: Vec::new() }
}
