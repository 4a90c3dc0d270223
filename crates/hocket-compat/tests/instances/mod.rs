//! Random instances on one link, each with the optimum that a constraint solver proved.

#[path = "../../src/testing.rs"]
mod testing;

use hocket_compat::LinkProblem;
use hocket_des::Rate;
use hocket_scenario::Profile;
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
