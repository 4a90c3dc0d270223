//! All that an engine needs to run, checked once: a fabric, jobs on it, queues, a seed and an end.

use std::collections::BTreeSet;

use hocket_des::{Duration, Rate, Time};
use thiserror::Error;

use crate::{Fabric, Job, JobId, MAX_RATE, Phase};

/// The most jobs of one run.
pub const MAX_JOBS: usize = 1 << 16;
/// The most flows of one job on one link.
pub const MAX_FLOWS: u32 = 1 << 16;

/// When a run ends: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// A job leaves after this many iterations, unless it has a number of its own.
    pub iterations: Option<u64>,
    /// The run ends here, in the middle of what is under way.
    pub until: Option<Time>,
}

/// What is simulated. A run is a pure function of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    fabric: Fabric,
    jobs: Vec<Job>,
    priority_queues: u8,
    seed: u64,
    stop: Stop,
}

/// Why fabric, jobs and end are not a scenario.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ScenarioError {
    #[error("no job; a scenario has at least one")]
    NoJob,
    #[error("{found} jobs; a scenario has at most {MAX_JOBS}")]
    TooManyJobs { found: usize },
    #[error("job {job:?} is named twice; a name is unique")]
    DuplicateJob { job: String },
    #[error("0 priority queues; a link has at least 1")]
    NoQueue,
    #[error("job {job:?} has no end: give it a number of iterations, or the run an end")]
    NoEnd { job: String },
    #[error("job {job:?} has 0 iterations; it has at least 1")]
    NoIteration { job: String },
    #[error("job {job:?} crosses link {link}; there are {links}, counted from 0")]
    UnknownLink { job: String, link: u32, links: usize },
    #[error("job {job:?} lists link {link:?} twice; add up its flows")]
    DuplicateLink { job: String, link: String },
    #[error("job {job:?} has {flows} flows on link {link:?}; from 1 to {MAX_FLOWS} are possible")]
    FlowsOutOfRange { job: String, link: String, flows: u32 },
    #[error("job {job:?}: phase {phase} has a rate of {rate}; at most {MAX_RATE} is possible")]
    RateTooHigh { job: String, phase: usize, rate: Rate },
    #[error("job {job:?} sends {bytes} bytes in an iteration; at most 2^63 are possible")]
    TooManyBytes { job: String, bytes: u128 },
    #[error("job {job:?} has a jitter of {jitter}; it must lie between 0 and 1")]
    JitterOutOfRange { job: String, jitter: f64 },
    #[error("job {job:?} re-adjusts but has no time-shift to keep; give it one, 0 if need be")]
    NothingToKeep { job: String },
    #[error("job {job:?} is padded to {pad_to}, less than its period of {period}")]
    PadTooShort { job: String, pad_to: Duration, period: Duration },
}

impl Scenario {
    /// A scenario of `jobs` on `fabric`, whose links serve `priority_queues` queues in strict
    /// order.
    ///
    /// # Errors
    /// If there is no job, no queue or no end, a name stands twice, or a job crosses links that
    /// are not there or has a policy out of range: the first such thing, named with its value.
    pub fn new(
        fabric: Fabric,
        jobs: Vec<Job>,
        priority_queues: u8,
        seed: u64,
        stop: Stop,
    ) -> Result<Self, ScenarioError> {
        if jobs.is_empty() {
            return Err(ScenarioError::NoJob);
        }
        if jobs.len() > MAX_JOBS {
            return Err(ScenarioError::TooManyJobs { found: jobs.len() });
        }
        if priority_queues == 0 {
            return Err(ScenarioError::NoQueue);
        }
        let mut names = BTreeSet::new();
        for job in &jobs {
            if !names.insert(job.name.as_str()) {
                return Err(ScenarioError::DuplicateJob { job: job.name.clone() });
            }
            check_end(job, stop)?;
            check_crossings(job, &fabric)?;
            check_policy(job)?;
        }
        Ok(Self { fabric, jobs, priority_queues, seed, stop })
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// All jobs, by [`JobId`].
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Every random stream of the run comes from this.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// When the run is cut off, if it is.
    pub fn until(&self) -> Option<Time> {
        self.stop.until
    }

    /// After how many iterations a job leaves; `None` if only [`until`](Self::until) ends it.
    pub fn iterations(&self, job: JobId) -> Option<u64> {
        self.jobs[job.index()].iterations.or(self.stop.iterations)
    }

    /// The queue that serves a job, 0 first. Switches have few queues: priorities beyond the last
    /// queue share it, and their jobs then share by [`Share`](crate::Share) (HotNets'22 section
    /// 4(ii) names the limit and leaves open what happens there).
    pub fn queue(&self, job: JobId) -> u8 {
        self.jobs[job.index()].priority.min(self.priority_queues - 1)
    }

    /// How many jobs each queue serves, anywhere in the fabric.
    pub fn jobs_per_queue(&self) -> Vec<usize> {
        let mut counts = vec![0; usize::from(self.priority_queues)];
        for index in 0..self.jobs.len() {
            counts[usize::from(self.queue(JobId::from_index(index)))] += 1;
        }
        counts
    }

    /// Every job, in order.
    pub fn job_ids(&self) -> impl Iterator<Item = JobId> {
        (0..self.jobs.len()).map(JobId::from_index)
    }
}

fn check_end(job: &Job, stop: Stop) -> Result<(), ScenarioError> {
    match job.iterations.or(stop.iterations) {
        Some(0) => Err(ScenarioError::NoIteration { job: job.name.clone() }),
        None if stop.until.is_none() => Err(ScenarioError::NoEnd { job: job.name.clone() }),
        _ => Ok(()),
    }
}

fn check_crossings(job: &Job, fabric: &Fabric) -> Result<(), ScenarioError> {
    let name = || job.name.clone();
    let mut seen = BTreeSet::new();
    for crossing in &job.crossings {
        let Some(link) = fabric.links().get(crossing.link.index()) else {
            let (link, links) = (crossing.link.code(), fabric.links().len());
            return Err(ScenarioError::UnknownLink { job: name(), link, links });
        };
        if !seen.insert(crossing.link) {
            return Err(ScenarioError::DuplicateLink { job: name(), link: link.name.clone() });
        }
        if crossing.flows == 0 || crossing.flows > MAX_FLOWS {
            let (link, flows) = (link.name.clone(), crossing.flows);
            return Err(ScenarioError::FlowsOutOfRange { job: name(), link, flows });
        }
    }
    Ok(())
}

fn check_policy(job: &Job) -> Result<(), ScenarioError> {
    let name = || job.name.clone();
    let phases = job.profile.phases();
    if let Some(index) = phases.iter().position(|phase| phase.rate > MAX_RATE) {
        let (phase, rate) = (index + 1, phases[index].rate);
        return Err(ScenarioError::RateTooHigh { job: name(), phase, rate });
    }
    let bytes = bytes_per_iteration(job);
    if bytes > 1 << 63 {
        return Err(ScenarioError::TooManyBytes { job: name(), bytes });
    }
    if !(0.0..=1.0).contains(&job.jitter) {
        return Err(ScenarioError::JitterOutOfRange { job: name(), jitter: job.jitter });
    }
    if job.readjust && job.time_shift.is_none() {
        return Err(ScenarioError::NothingToKeep { job: name() });
    }
    let period = job.profile.period();
    match job.pad_to {
        Some(pad_to) if pad_to < period => {
            Err(ScenarioError::PadTooShort { job: name(), pad_to, period })
        }
        _ => Ok(()),
    }
}

// Wider than `Profile::bytes_per_iteration`, which holds only what this has let through.
fn bytes_per_iteration(job: &Job) -> u128 {
    let picobits_per_byte = 8_000_000_000_000;
    let picobits =
        |phase: &Phase| u128::from(phase.rate.as_bps()) * u128::from(phase.duration.as_ps());
    job.profile.phases().iter().map(|phase| picobits(phase).div_ceil(picobits_per_byte)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Crossing, LinkId, Profile};

    fn job(name: &str) -> Job {
        let up = Phase {
            start: Duration::ZERO,
            duration: Duration::from_ms(60),
            rate: Rate::from_gbps(30),
        };
        let profile = Profile::new(Duration::from_ms(180), vec![up]).unwrap();
        Job::new(name, profile, vec![Crossing { link: LinkId::new(0), flows: 1 }])
    }

    fn scenario(jobs: Vec<Job>) -> Result<Scenario, ScenarioError> {
        let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).unwrap();
        Scenario::new(fabric, jobs, 2, 1, Stop { iterations: Some(10), until: None })
    }

    #[test]
    fn priorities_beyond_the_last_queue_share_it() {
        let jobs = ["a", "b", "c"]
            .into_iter()
            .zip(0..)
            .map(|(name, priority)| Job { priority, ..job(name) });
        let scenario = scenario(jobs.collect()).unwrap();
        assert_eq!(scenario.jobs_per_queue(), [1, 2]);
        assert_eq!(scenario.queue(JobId::new(2)), 1);
    }

    #[test]
    fn what_a_job_gets_wrong_is_named_with_its_value() {
        let error = |change: fn(&mut Job)| {
            let mut job = job("a");
            change(&mut job);
            scenario(vec![job]).unwrap_err().to_string()
        };
        assert_eq!(
            error(|job| job.crossings[0].link = LinkId::new(3)),
            "job \"a\" crosses link 3; there are 1, counted from 0"
        );
        assert_eq!(
            error(|job| job.crossings[0].flows = 0),
            "job \"a\" has 0 flows on link \"link\"; from 1 to 65536 are possible"
        );
        assert_eq!(
            error(|job| job.jitter = f64::NAN),
            "job \"a\" has a jitter of NaN; it must lie between 0 and 1"
        );
        assert_eq!(
            error(|job| job.pad_to = Some(Duration::from_ms(100))),
            "job \"a\" is padded to 100 ms, less than its period of 180 ms"
        );
        assert_eq!(
            error(|job| job.iterations = Some(0)),
            "job \"a\" has 0 iterations; it has at least 1"
        );
        assert_eq!(
            error(|job| job.readjust = true),
            "job \"a\" re-adjusts but has no time-shift to keep; give it one, 0 if need be"
        );
    }

    #[test]
    fn an_iteration_of_more_bytes_than_can_be_counted_is_refused() {
        let (start, duration) = (Duration::ZERO, Duration::from_secs(10_000_000));
        let profile = Profile::new(duration, vec![Phase { start, duration, rate: MAX_RATE }]);
        let endless = Job { profile: profile.unwrap(), ..job("a") };
        assert_eq!(
            scenario(vec![endless]).unwrap_err().to_string(),
            "job \"a\" sends 1250000000000000000000 bytes in an iteration; at most 2^63 are possible"
        );
    }

    #[test]
    fn two_jobs_of_one_name_are_refused() {
        let error = scenario(vec![job("a"), job("a")]).unwrap_err();
        assert_eq!(error.to_string(), "job \"a\" is named twice; a name is unique");
    }

    #[test]
    fn a_run_without_an_end_is_refused() {
        let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).unwrap();
        let error = Scenario::new(fabric, vec![job("a")], 1, 1, Stop::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "job \"a\" has no end: give it a number of iterations, or the run an end"
        );
    }
}
