//! Random instances on one link with the optimum that a constraint solver proved.

use hocket_compat::LinkProblem;
use hocket_des::{Duration, Rate};
use hocket_scenario::{Phase, Profile};
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
    phases: Vec<(u64, u64, u64)>,
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
    let phases = job.phases.iter().map(|&(start_ms, duration_ms, gbps)| Phase {
        start: Duration::from_ms(start_ms),
        duration: Duration::from_ms(duration_ms),
        rate: Rate::from_gbps(gbps),
    });
    Profile::new(Duration::from_ms(job.period_ms), phases.collect()).expect("valid instance")
}
