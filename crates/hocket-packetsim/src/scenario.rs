//! Translates a `Scenario`, which the flow engine can run as well, into queue pairs and messages.

use std::ops::Range;

use hocket_des::Time;
use hocket_scenario::{JobFlow, JobId, Observer, Scenario, Training, Transport, Work};
use hocket_transport::Policy;

use crate::changes::LinkChange;
use crate::error::PacketRunError;
use crate::jobs::ScenarioJobs;
use crate::model::{Model, Notification, PRIORITIES};
use crate::options::PacketOptions;
use crate::outcome::PacketOutcome;
use crate::reference::Reference;
use crate::run::run;
use crate::setup::{FlowSpec, Setup};
use crate::workload::{MessageSpec, PacketWorkload};

/// Runs `scenario` packet by packet. Each Up phase of a job sends its bytes on each of the job's flows, no faster than the
/// profile's rate, and ends when the last byte is acknowledged. Each transfer is one message.
///
/// The flows of a host share its NIC by round robin, whatever their priority. Switches schedule their queues as `model`
/// specifies; [`Scheduling::Strict`](crate::model::Scheduling::Strict) corresponds to the flow engine. There are eight
/// classes: all queues of the scenario beyond the eighth are mapped to class 7. If CNPs use class 7, all queues beyond the
/// seventh are mapped to class 6.
///
/// A profile's rate counts data only; headers are sent in addition. An iteration of a job alone on the network therefore
/// takes its period plus the round trips of its last packets, unless data and headers together exceed the rate of its NIC.
///
/// In addition to the tables of [`run`](crate::run), the run has those of the flow engine: `iterations`, `phases`,
/// `adjustments`, `links` (the data that arrived over each link) and `jobs`, where `policy_acted` counts rate cuts.
///
/// ```
/// use hocket_des::{Duration, Rate};
/// use hocket_packetsim::{Model, PacketOptions, run_scenario};
/// use hocket_scenario::{
///     Cable, Column, Fabric, Job, JobFlow, Node, NodeId, NodeKind, Phase, Profile, Scenario, Stop,
/// };
///
/// // Two jobs send to one host at 40 Gbps for 0.9 ms of every 2 ms, half a period apart, so they never send together.
/// let kinds = [NodeKind::Host, NodeKind::Host, NodeKind::Host, NodeKind::Switch];
/// let node = |(i, kind)| Node { name: format!("n{i}"), kind };
/// let (rate, delay) = (Rate::from_gbps(50), Duration::from_ns(500));
/// let cable = |host| Cable { a: NodeId::new(host), b: NodeId::new(3), rate, delay };
/// let nodes = kinds.into_iter().enumerate().map(node).collect();
/// let fabric = Fabric::new(nodes, &[0, 1, 2].map(cable))?;
/// let (start, duration) = (Duration::ZERO, Duration::from_us(900));
/// let up = Phase { start, duration, rate: Rate::from_gbps(40) };
/// let profile = Profile::new(Duration::from_ms(2), vec![up])?;
/// let flow = |from| JobFlow::new(NodeId::new(from), NodeId::new(2), 0);
/// let job = |name, from| Job::new(name, profile.clone(), Vec::new()).sending(vec![flow(from)]);
/// let second = Job { time_shift: Some(Duration::from_ms(1)), ..job("second", 1) };
/// let stop = Stop { iterations: Some(5), until: None };
/// let scenario = Scenario::new(fabric, vec![job("first", 0), second], 1, 1, stop)?;
///
/// let mut tables = Vec::new();
/// run_scenario(&scenario, &Model::default(), &[], &PacketOptions::default(), &mut tables)?;
/// let jobs = tables.iter().find(|table| table.name == "jobs").expect("the run had jobs");
/// let Some(Column::MaybeF64(p99_s)) = jobs.column("p99_iteration_s") else { panic!() };
/// assert!(p99_s.iter().flatten().all(|p99_s| (2e-3..2.01e-3).contains(p99_s)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`run`](crate::run), and if a job lasts more than 213 days of simulated time.
pub fn run_scenario(
    scenario: &Scenario,
    model: &Model,
    changes: &[LinkChange],
    options: &PacketOptions,
    observer: &mut dyn Observer,
) -> Result<PacketOutcome, PacketRunError> {
    let traffic = Traffic::of(scenario, model);
    let setup = Setup {
        fabric: scenario.fabric(),
        model,
        policies: &traffic.policies,
        flows: &traffic.flows,
        patterns: &traffic.patterns,
        seed: scenario.seed(),
        reference: Reference::default(),
    };
    let (flows, owners) = (&traffic.flows_of_jobs[..], &traffic.owners[..]);
    let jobs = Some(ScenarioJobs { scenario, flows, owners });
    let workload = PacketWorkload { messages: &traffic.messages, jobs, changes };
    let until = earlier(options.until, scenario.until());
    run(&setup, &workload, &PacketOptions { until, ..options.clone() }, observer)
}

/// The traffic of a scenario, in the form of [`Setup`] and [`PacketWorkload`].
#[derive(Default)]
struct Traffic {
    policies: Vec<Policy>,
    flows: Vec<FlowSpec>,
    patterns: Vec<Vec<usize>>,
    /// By flow: the job to which tables attribute it.
    owners: Vec<Option<JobId>>,
    /// By job: its flows.
    flows_of_jobs: Vec<Range<usize>>,
    messages: Vec<MessageSpec>,
}

impl Traffic {
    fn of(scenario: &Scenario, model: &Model) -> Self {
        let mut traffic = Self::default();
        for (id, job) in scenario.job_ids().zip(scenario.jobs()) {
            let first_flow = traffic.flows.len();
            let class = class_of_queue(scenario.queue(id), model);
            match &job.work {
                Work::Periodic(periodic) => {
                    for flow in &periodic.flows {
                        traffic.add_flow(flow, &job.transport, class, Some(id));
                    }
                }
                Work::Training(training) => {
                    let (fabric, pairs) = (scenario.fabric(), training.pairs());
                    for pattern in training.patterns() {
                        let flow_of = |pair: &(u32, u32)| {
                            first_flow
                                + pairs
                                    .binary_search(pair)
                                    .expect("the pairs of all patterns are among `pairs`")
                        };
                        traffic.patterns.push(pattern.iter().map(flow_of).collect());
                    }
                    for &(from, to) in &pairs {
                        let ends = [from, to].map(|rank| training.spec().hosts[rank as usize]);
                        let flow = training.flow(ends, Training::label(id), fabric);
                        traffic.add_flow(
                            &flow,
                            training.transport(&job.transport, ends, fabric),
                            class,
                            Some(id),
                        );
                    }
                }
            }
            traffic.flows_of_jobs.push(first_flow..traffic.flows.len());
        }
        for transfer in scenario.transfers() {
            let flow = traffic.flows.len();
            let class = class_of_queue(scenario.queue_of(transfer.priority), model);
            traffic.add_flow(&transfer.flow, &transfer.transport, class, transfer.job);
            let (bytes, start) = (transfer.bytes.get(), transfer.start);
            traffic.messages.push(MessageSpec { flow, bytes, start });
        }
        traffic
    }

    fn add_flow(&mut self, flow: &JobFlow, transport: &Transport, class: u8, owner: Option<JobId>) {
        let policy = self.policy_index(&transport.policy);
        self.flows.push(FlowSpec {
            from: flow.from,
            to: flow.to,
            labels: (flow.label, flow.label),
            priority: class,
            policy,
            window: transport.window(),
            path: flow.path.clone(),
        });
        self.owners.push(owner);
    }

    /// The index of a policy. Equal policies share an index, so that `rate_cuts` counts by policy and not by job.
    fn policy_index(&mut self, policy: &Policy) -> usize {
        let known = self.policies.iter().position(|known| known == policy);
        known.unwrap_or_else(|| {
            self.policies.push(policy.clone());
            self.policies.len() - 1
        })
    }
}

/// The class of a queue of the scenario: the last class is not for data if CNPs use it.
fn class_of_queue(queue: u8, model: &Model) -> u8 {
    let last = PRIORITIES as u8 - 1;
    match model.notification {
        Notification::Packets { priority, .. } if priority == last => queue.min(last - 1),
        _ => queue.min(last),
    }
}

/// The earlier of two limits; `None` means no limit.
fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
