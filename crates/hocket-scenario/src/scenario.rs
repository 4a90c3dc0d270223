//! The input of an engine, checked once: a fabric, jobs on it, queues, a seed and an end.

use std::collections::BTreeSet;
use std::fmt;

use hocket_des::{Duration, Rate, Time};
use hocket_transport::congestion::ParameterError;
use thiserror::Error;

use crate::{
    Fabric, Job, JobFlow, JobId, LinkId, MAX_RATE, NodeId, NodeKind, PathChoice, Phase, Profile,
    RouteError, Routing, Training, Transfer, Transport, WindowRule, Work,
};

/// The largest number of jobs in a run. It bounds, with [`MAX_FLOWS`], the weights on a link: see [`MAX_RATE`].
pub const MAX_JOBS: usize = 1 << 16;
/// The largest number of flows of one job on one link.
pub const MAX_FLOWS: u32 = 1 << 16;

/// When a run ends: at the earlier of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// A job leaves after this many iterations, unless its own number overrides it.
    pub iterations: Option<u64>,
    /// The run ends here, even in the middle of iterations.
    pub until: Option<Time>,
}

/// What is simulated. A run is a pure function of it and the engine's options.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    fabric: Fabric,
    jobs: Vec<Job>,
    transfers: Vec<Transfer>,
    priority_queues: u8,
    seed: u64,
    stop: Stop,
}

/// Why fabric, jobs and end do not form a scenario.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ScenarioError {
    #[error("no job and no transfer; a scenario has at least one")]
    NoJob,
    #[error("{found} jobs; a scenario has at most {MAX_JOBS}")]
    TooManyJobs { found: usize },
    #[error("two jobs are named {job:?}; names must be unique")]
    DuplicateJob { job: String },
    #[error("0 priority queues; a link has at least 1")]
    NoQueue,
    #[error("job {job:?} never ends; give the job a number of iterations, or the run an end")]
    NoEnd { job: String },
    #[error("job {job:?} has 0 iterations; it has at least 1")]
    NoIteration { job: String },
    #[error("job {job:?} crosses link {link}; there are {links} links, counted from 0")]
    UnknownLink { job: String, link: u32, links: usize },
    #[error("job {job:?} lists link {link:?} twice; list it once, with the sum of the flows")]
    DuplicateLink { job: String, link: String },
    #[error("job {job:?} has {flows} flows on link {link:?}; 1 to {MAX_FLOWS} are possible")]
    FlowsOutOfRange { job: String, link: String, flows: u32 },
    #[error("job {job:?}: phase {phase} has a rate of {rate}; at most {MAX_RATE} is possible")]
    RateTooHigh { job: String, phase: usize, rate: Rate },
    #[error("job {job:?} sends {bytes} bytes in an iteration; at most 2^63 are possible")]
    TooManyBytes { job: String, bytes: u128 },
    #[error("job {job:?} has a jitter of {jitter}; it must lie between 0 and 1")]
    JitterOutOfRange { job: String, jitter: f64 },
    #[error("job {job:?} re-adjusts but has no time-shift; give it one, which may be 0")]
    NothingToKeep { job: String },
    #[error("job {job:?} re-adjusts; only periodic jobs have slots to return to")]
    NoSlots { job: String },
    #[error(
        "job {job:?}: the iterations of rank {rank} take no time; give it a compute above 0, a message, or a collective of several ranks"
    )]
    Idle { job: String, rank: u32 },
    #[error("job {job:?} is padded to {pad_to}, less than its period of {period}")]
    PadTooShort { job: String, pad_to: Duration, period: Duration },
    #[error("{owner}: node {node} is not in the fabric, which has {nodes} nodes, counted from 0")]
    UnknownNode { owner: FlowOwner, node: u32, nodes: usize },
    #[error("{owner}: {node:?} is a switch; flows start and end at hosts")]
    NotAHost { owner: FlowOwner, node: String },
    #[error("{owner}: a flow from {node:?} to itself; sender and receiver must differ")]
    ToItself { owner: FlowOwner, node: String },
    #[error("{owner}: the path passes through host {node:?}; only switches forward packets")]
    ThroughHost { owner: FlowOwner, node: String },
    #[error("{owner}: {error}")]
    Route { owner: FlowOwner, error: RouteError },
    #[error("{owner}: {error}")]
    Parameter { owner: FlowOwner, error: ParameterError },
    #[error("{owner}: a window of 0 bytes; it has at least 1")]
    ZeroWindow { owner: FlowOwner },
    #[error("transfer {transfer} has 0 bytes; it has at least 1")]
    EmptyTransfer { transfer: usize },
    #[error("transfer {transfer} belongs to job {job}; there are {jobs} jobs, counted from 0")]
    UnknownJob { transfer: usize, job: u32, jobs: usize },
}

/// The owner of an invalid flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowOwner {
    /// The job of this name.
    Job(String),
    /// The transfer of this number, counted from 1.
    Transfer(usize),
}

impl fmt::Display for FlowOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(name) => write!(f, "job {name:?}"),
            Self::Transfer(number) => write!(f, "transfer {number}"),
        }
    }
}

impl Scenario {
    /// A scenario of `jobs` on `fabric`, whose links serve `priority_queues` queues in strict
    /// order.
    ///
    /// # Errors
    /// If there is no job, queue or end; if two jobs have the same name; or if a job crosses unknown links, has
    /// a flow without a route, or has a policy out of range. The first error is reported.
    pub fn new(
        fabric: Fabric,
        jobs: Vec<Job>,
        priority_queues: u8,
        seed: u64,
        stop: Stop,
    ) -> Result<Self, ScenarioError> {
        Self::with_transfers(fabric, jobs, Vec::new(), priority_queues, seed, stop)
    }

    /// A scenario of `jobs` and `transfers`, one of which may be empty.
    ///
    /// # Errors
    /// As [`Self::new`]; also if a transfer has no bytes, no route, an unknown job or a policy out of range.
    pub fn with_transfers(
        fabric: Fabric,
        jobs: Vec<Job>,
        transfers: Vec<Transfer>,
        priority_queues: u8,
        seed: u64,
        stop: Stop,
    ) -> Result<Self, ScenarioError> {
        if jobs.is_empty() && transfers.is_empty() {
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
        // After all cheap checks: each flow needs a route.
        let mut flows = FlowCheck::new(&fabric);
        for job in &jobs {
            let owner = || FlowOwner::Job(job.name.clone());
            match &job.work {
                Work::Periodic(periodic) => {
                    for flow in &periodic.flows {
                        flows.check(flow, &job.transport, &owner)?;
                    }
                }
                Work::Training(training) => flows.check_training(job, training, &owner)?,
            }
        }
        for (index, transfer) in transfers.iter().enumerate() {
            check_transfer(index + 1, transfer, jobs.len())?;
            flows.check(&transfer.flow, &transfer.transport, &|| FlowOwner::Transfer(index + 1))?;
        }
        Ok(Self { fabric, jobs, transfers, priority_queues, seed, stop })
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// All jobs, by [`JobId`].
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Messages that are sent once, in addition to those of jobs.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The seed of all random streams of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// When the run ends at the latest, if that is limited.
    pub fn until(&self) -> Option<Time> {
        self.stop.until
    }

    /// The number of iterations after which a job leaves; `None` if only [`until`](Self::until) ends it.
    pub fn iterations(&self, job: JobId) -> Option<u64> {
        self.jobs[job.index()].iterations.or(self.stop.iterations)
    }

    /// The queue that serves a job; queue 0 goes first. Switches have few queues: all priorities beyond the last
    /// queue use it, where their jobs share by [`Share`](crate::Share). (HotNets'22 section 4(ii) mentions the
    /// limit but does not specify what happens beyond it.)
    pub fn queue(&self, job: JobId) -> u8 {
        self.queue_of(self.jobs[job.index()].priority)
    }

    /// The queue that serves a priority.
    pub fn queue_of(&self, priority: u8) -> u8 {
        priority.min(self.priority_queues - 1)
    }

    /// The number of jobs that each queue serves, anywhere in the fabric.
    pub fn jobs_per_queue(&self) -> Vec<usize> {
        let mut counts = vec![0; usize::from(self.priority_queues)];
        for index in 0..self.jobs.len() {
            counts[usize::from(self.queue(JobId::from_index(index)))] += 1;
        }
        counts
    }

    /// The ids of all jobs, in order.
    pub fn job_ids(&self) -> impl Iterator<Item = JobId> {
        (0..self.jobs.len()).map(JobId::from_index)
    }
}

/// Checks that flows have hosts, routes and valid parameters.
struct FlowCheck<'a> {
    fabric: &'a Fabric,
    routing: Routing<'a>,
    /// By node: the rate of the slowest link that leaves it.
    nic: Vec<Option<Rate>>,
}

impl<'a> FlowCheck<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let mut nic: Vec<Option<Rate>> = vec![None; fabric.nodes().len()];
        for link in fabric.links() {
            let known = &mut nic[link.from.index()];
            *known = Some(known.map_or(link.rate, |rate| rate.min(link.rate)));
        }
        Self { fabric, routing: Routing::new(fabric), nic }
    }

    fn check(
        &mut self,
        flow: &JobFlow,
        transport: &Transport,
        owner: &dyn Fn() -> FlowOwner,
    ) -> Result<(), ScenarioError> {
        for end in [flow.from, flow.to] {
            self.check_host(end, owner)?;
        }
        if flow.from == flow.to {
            let node = self.fabric.nodes()[flow.from.index()].name.clone();
            return Err(ScenarioError::ToItself { owner: owner(), node });
        }
        let reached = match &flow.path {
            PathChoice::Pinned(path) => self.routing.check_path(flow.from, flow.to, path),
            PathChoice::Ecmp | PathChoice::Spray => self.reach(flow.from, flow.to),
        };
        // Acknowledgements need a route as well.
        let reached_back = reached.and_then(|()| self.reach(flow.to, flow.from));
        reached_back.map_err(|error| ScenarioError::Route { owner: owner(), error })?;
        if let PathChoice::Pinned(path) = &flow.path
            && let Some(node) = self.host_on(path)
        {
            return Err(ScenarioError::ThroughHost { owner: owner(), node });
        }
        // The slowest of several NICs: rates within its limit are valid on whichever NIC ECMP chooses.
        let line_rate = self.nic[flow.from.index()].expect("a route leaves the host by a link");
        let valid = transport.policy.validate(line_rate);
        valid.map_err(|error| ScenarioError::Parameter { owner: owner(), error })?;
        if transport.window() == WindowRule::Bytes(0) {
            return Err(ScenarioError::ZeroWindow { owner: owner() });
        }
        Ok(())
    }

    // Checks the hosts of all ranks, and the paths between ranks that send to each other.
    fn check_training(
        &mut self,
        job: &Job,
        training: &Training,
        owner: &dyn Fn() -> FlowOwner,
    ) -> Result<(), ScenarioError> {
        let hosts = &training.spec().hosts;
        // A single rank sends nothing, so that no pair would reveal an invalid host.
        if let [host] = hosts[..] {
            self.check_host(host, owner)?;
        }
        for (from, to) in training.pairs() {
            let ends = [from, to].map(|rank| hosts[rank as usize]);
            let flow = training.flow(ends, 0, self.fabric);
            self.check(&flow, training.transport(&job.transport, ends, self.fabric), owner)?;
        }
        Ok(())
    }

    fn check_host(&self, host: NodeId, owner: &dyn Fn() -> FlowOwner) -> Result<(), ScenarioError> {
        let nodes = self.fabric.nodes();
        match nodes.get(host.index()) {
            None => {
                let (owner, node, nodes) = (owner(), host.code(), nodes.len());
                Err(ScenarioError::UnknownNode { owner, node, nodes })
            }
            Some(node) if node.kind != NodeKind::Host => {
                Err(ScenarioError::NotAHost { owner: owner(), node: node.name.clone() })
            }
            Some(_) => Ok(()),
        }
    }

    fn host_on(&self, path: &[LinkId]) -> Option<String> {
        // The last link ends at the receiver, which is a host.
        let (_, inner_links) = path.split_last()?;
        let ends = inner_links.iter().map(|link| self.fabric.links()[link.index()].to);
        let mut nodes = ends.map(|node| &self.fabric.nodes()[node.index()]);
        nodes.find(|node| node.kind == NodeKind::Host).map(|node| node.name.clone())
    }

    fn reach(&mut self, from: NodeId, to: NodeId) -> Result<(), RouteError> {
        // Whether a route exists does not depend on the label.
        self.routing.route(from, to, 0).map(|_| ())
    }
}

fn check_transfer(number: usize, transfer: &Transfer, jobs: usize) -> Result<(), ScenarioError> {
    if transfer.bytes.get() == 0 {
        return Err(ScenarioError::EmptyTransfer { transfer: number });
    }
    match transfer.job {
        Some(job) if job.index() >= jobs => {
            Err(ScenarioError::UnknownJob { transfer: number, job: job.code(), jobs })
        }
        _ => Ok(()),
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
    let crossings = job.periodic().map_or(&[][..], |periodic| &periodic.crossings);
    for crossing in crossings {
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
    if !(0.0..=1.0).contains(&job.jitter) {
        return Err(ScenarioError::JitterOutOfRange { job: name(), jitter: job.jitter });
    }
    match &job.work {
        Work::Periodic(periodic) => check_profile(job, &periodic.profile),
        Work::Training(_) if job.readjust => Err(ScenarioError::NoSlots { job: name() }),
        Work::Training(training) => match training.idle_rank() {
            Some(rank) => Err(ScenarioError::Idle { job: name(), rank }),
            None => Ok(()),
        },
    }
}

fn check_profile(job: &Job, profile: &Profile) -> Result<(), ScenarioError> {
    let name = || job.name.clone();
    let phases = profile.phases();
    if let Some(index) = phases.iter().position(|phase| phase.rate > MAX_RATE) {
        let (phase, rate) = (index + 1, phases[index].rate);
        return Err(ScenarioError::RateTooHigh { job: name(), phase, rate });
    }
    let bytes = bytes_per_iteration(phases);
    if bytes > 1 << 63 {
        return Err(ScenarioError::TooManyBytes { job: name(), bytes });
    }
    if job.readjust && job.time_shift.is_none() {
        return Err(ScenarioError::NothingToKeep { job: name() });
    }
    let period = profile.period();
    match job.pad_to {
        Some(pad_to) if pad_to < period => {
            Err(ScenarioError::PadTooShort { job: name(), pad_to, period })
        }
        _ => Ok(()),
    }
}

// In 128 bits, unlike `Profile::bytes_per_iteration`, whose result is only known to fit after this check.
fn bytes_per_iteration(phases: &[Phase]) -> u128 {
    let picobits_per_byte = 8_000_000_000_000;
    let picobits =
        |phase: &Phase| u128::from(phase.rate.as_bps()) * u128::from(phase.duration.as_ps());
    phases.iter().map(|phase| picobits(phase).div_ceil(picobits_per_byte)).sum()
}

#[cfg(test)]
mod tests {
    use hocket_des::Bytes;

    use super::*;
    use crate::{Crossing, Profile};

    fn job(name: &str) -> Job {
        let up = Phase {
            start: Duration::ZERO,
            duration: Duration::from_ms(60),
            rate: Rate::from_gbps(30),
        };
        let profile = Profile::new(Duration::from_ms(180), vec![up]).unwrap();
        Job::new(name, profile, vec![Crossing { link: LinkId::new(0), flows: 1 }])
    }

    fn first_crossing(job: &mut Job) -> &mut Crossing {
        &mut job.periodic_mut().expect("it is a periodic job").crossings[0]
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
    fn an_invalid_job_is_named_with_its_value() {
        let error = |change: fn(&mut Job)| {
            let mut job = job("a");
            change(&mut job);
            scenario(vec![job]).unwrap_err().to_string()
        };
        assert_eq!(
            error(|job| first_crossing(job).link = LinkId::new(3)),
            "job \"a\" crosses link 3; there are 1 links, counted from 0"
        );
        assert_eq!(
            error(|job| first_crossing(job).flows = 0),
            "job \"a\" has 0 flows on link \"link\"; 1 to 65536 are possible"
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
            "job \"a\" re-adjusts but has no time-shift; give it one, which may be 0"
        );
    }

    #[test]
    fn an_iteration_of_too_many_bytes_is_refused() {
        let (start, duration) = (Duration::ZERO, Duration::from_secs(10_000_000));
        let profile = Profile::new(duration, vec![Phase { start, duration, rate: MAX_RATE }]);
        let endless = Job::new("a", profile.unwrap(), Vec::new());
        assert_eq!(
            scenario(vec![endless]).unwrap_err().to_string(),
            "job \"a\" sends 1250000000000000000000 bytes in an iteration; at most 2^63 are possible"
        );
    }

    #[test]
    fn a_flow_without_a_valid_route_is_refused_with_its_owner() {
        let fabric = || crate::routing::tests::leaf_spine(1);
        let error = |flow: JobFlow| {
            let jobs = vec![job("a").crossing(Vec::new()).sending(vec![flow])];
            let stop = Stop { iterations: Some(1), until: None };
            Scenario::new(fabric(), jobs, 1, 1, stop).unwrap_err().to_string()
        };
        let flow = |from, to| JobFlow::new(NodeId::new(from), NodeId::new(to), 0);
        assert_eq!(
            error(flow(0, 99)),
            "job \"a\": node 99 is not in the fabric, which has 7 nodes, counted from 0"
        );
        assert_eq!(
            error(flow(0, 4)),
            "job \"a\": \"rack0\" is a switch; flows start and end at hosts"
        );
        assert_eq!(
            error(flow(1, 1)),
            "job \"a\": a flow from \"host1\" to itself; sender and receiver must differ"
        );
        let path = PathChoice::Pinned(vec![LinkId::new(0)]);
        assert_eq!(
            error(JobFlow { path, ..flow(0, 1) }),
            "job \"a\": the path from \"host0\" to \"host1\" breaks off at \"rack0\""
        );
        // Through host 1.
        let path = PathChoice::Pinned([0, 3, 2, 8, 11, 5].map(LinkId::new).to_vec());
        assert_eq!(
            error(JobFlow { path, ..flow(0, 2) }),
            "job \"a\": the path passes through host \"host1\"; only switches forward packets"
        );
    }

    #[test]
    fn an_invalid_transfer_is_named_with_its_number() {
        let transfer = |bytes, job, window| Transfer {
            flow: JobFlow::new(NodeId::new(0), NodeId::new(1), 0),
            bytes: Bytes::new(bytes),
            start: Time::ZERO,
            priority: 0,
            job,
            transport: Transport { window, ..Transport::default() },
        };
        let check = |transfer: Transfer| {
            let fabric = crate::routing::tests::leaf_spine(1);
            Scenario::with_transfers(fabric, Vec::new(), vec![transfer], 1, 1, Stop::default())
        };
        assert!(check(transfer(1, None, WindowRule::Unlimited)).is_ok());
        let error = |transfer| check(transfer).unwrap_err().to_string();
        assert_eq!(
            error(transfer(0, None, WindowRule::Unlimited)),
            "transfer 1 has 0 bytes; it has at least 1"
        );
        assert_eq!(
            error(transfer(1, Some(JobId::new(2)), WindowRule::Unlimited)),
            "transfer 1 belongs to job 2; there are 0 jobs, counted from 0"
        );
        assert_eq!(
            error(transfer(1, None, WindowRule::Bytes(0))),
            "transfer 1: a window of 0 bytes; it has at least 1"
        );
    }

    #[test]
    fn two_jobs_of_one_name_are_refused() {
        let error = scenario(vec![job("a"), job("a")]).unwrap_err();
        assert_eq!(error.to_string(), "two jobs are named \"a\"; names must be unique");
    }

    #[test]
    fn a_run_without_an_end_is_refused() {
        let fabric = Fabric::one_link(Rate::from_gbps(50), Duration::ZERO).unwrap();
        let error = Scenario::new(fabric, vec![job("a")], 1, 1, Stop::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "job \"a\" never ends; give the job a number of iterations, or the run an end"
        );
    }
}
