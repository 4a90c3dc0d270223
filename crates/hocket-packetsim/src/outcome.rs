//! The result of a run besides its tables: counters, status, and what was skipped.

use std::fmt;
use std::ops::Range;

use hocket_des::Time;
use hocket_scenario::{Column, Scenario, Table};

use crate::options::Skip;

/// The result of a run, besides its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketOutcome {
    /// Counts over the whole run, including the cycles that were skipped.
    pub counters: PacketCounters,
    /// Why the run ended.
    pub status: PacketStatus,
    /// The simulated time at which the run ended. A complete run ends when its last message is complete.
    pub ended: Time,
    /// What was skipped; `None` if the run was not allowed to skip ahead.
    pub skipping: Option<Skipping>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketStatus {
    /// Everything was sent and acknowledged, and all jobs have left.
    Complete,
    /// It reached the time given as its end.
    Stopped,
    /// The observer ended it.
    Interrupted,
}

/// What is counted over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Transmissions of a packet over a link, for packets of every kind.
    pub packet_hops: u64,
    /// Events, including samples.
    pub events: u64,
    /// Complete messages of the workload; the tables of jobs count what jobs send.
    pub messages: u64,
    /// PAUSE frames received.
    pub pauses: u64,
    /// Data packets received with an ECN mark.
    pub marks: u64,
    /// Congestion notification packets sent; none where acknowledgements carry the marks.
    pub cnps: u64,
    /// By policy of the setup: the number of rate cuts.
    pub rate_cuts: Vec<u64>,
    /// How often a sender went back to the first byte that had not arrived.
    pub retransmissions: u64,
    /// Packets dropped because a buffer was full.
    pub losses: u64,
    /// Packets lost because a link failed.
    pub lost_to_failures: u64,
}

/// The part of a run that was repeated instead of simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipping {
    /// In order of time.
    pub repeats: Vec<Repeat>,
    /// Why the run never skipped ahead, if it did not.
    pub obstacle: Option<Obstacle>,
    /// The part of [`PacketOutcome::counters`] that comes from repeated cycles.
    pub counters: PacketCounters,
}

/// Cycles that were repeated instead of simulated. If the cycles agreed exactly, the last one was repeated; otherwise all
/// compared cycles were repeated in turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// When the repeated part begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// The number of repeated cycles.
    pub cycles: u64,
    /// By job: the iterations whose rows were repeated; empty for a job that had left.
    pub iterations: Vec<Range<u64>>,
    /// Whether the compared cycles drew no random number, cut no rate, and agreed in every time, count and rate.
    pub is_exact: bool,
    /// The largest difference between two of the compared cycles, relative to the iteration time of the job concerned. It
    /// bounds the relative error of the mean iteration time.
    pub deviation: f64,
}

/// Why a run did not skip ahead.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// There are no periodic jobs.
    NoJobs,
    /// This job is a training job.
    Training(String),
    /// This job has jitter: the lengths of its phases are random.
    Jitter(String),
    /// This job has a clock error: how exactly it keeps to its time-shift is random.
    ClockError(String),
    /// This job re-adjusts: it delays itself when it has drifted.
    Readjusts(String),
    /// Cycles never agreed within the tolerance while enough iterations were left.
    NoRecurrence {
        /// The requested agreement.
        skip: Skip,
        /// The smallest deviation of that many cycles in a row; `None` if there never were that many.
        closest: Option<f64>,
    },
}

impl PacketCounters {
    /// The counts since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    /// These counts plus `times` times `others`.
    pub(crate) fn plus(&self, others: &Self, times: u64) -> Self {
        self.with(others, |one, other| one + other * times)
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        // The default has no policies: where one side lacks a policy, it counts as 0.
        let cuts = |of: &Self, policy: usize| of.rate_cuts.get(policy).copied().unwrap_or(0);
        let policies = self.rate_cuts.len().max(other.rate_cuts.len());
        let rate_cuts = (0..policies).map(|policy| both(cuts(self, policy), cuts(other, policy)));
        Self {
            packet_hops: both(self.packet_hops, other.packet_hops),
            events: both(self.events, other.events),
            messages: both(self.messages, other.messages),
            pauses: both(self.pauses, other.pauses),
            marks: both(self.marks, other.marks),
            cnps: both(self.cnps, other.cnps),
            rate_cuts: rate_cuts.collect(),
            retransmissions: both(self.retransmissions, other.retransmissions),
            losses: both(self.losses, other.losses),
            lost_to_failures: both(self.lost_to_failures, other.lost_to_failures),
        }
    }
}

impl Repeat {
    /// The largest possible error of a job's position within its iteration at the end, relative to the iteration time: it is
    /// reached if all cycles deviate equally and in the same direction.
    pub fn drift_bound(&self) -> f64 {
        self.deviation * self.cycles as f64
    }

    /// The table `repeated`, with one row for each job that has repeated iterations.
    pub(crate) fn table(&self, scenario: Option<&Scenario>) -> Table {
        let names = scenario.map_or(&[][..], Scenario::jobs);
        // A job that had left has no iterations to repeat.
        let repeated = |&job: &usize| !self.iterations[job].is_empty();
        let jobs: Vec<usize> = (0..self.iterations.len()).filter(repeated).collect();
        let rows = jobs.len();
        let by_job = |value: &dyn Fn(&Range<u64>) -> u64| {
            Column::U64(jobs.iter().map(|&job| value(&self.iterations[job])).collect())
        };
        let job = Column::Str {
            codes: jobs.iter().map(|&job| job as u32).collect(),
            dictionary: names.iter().map(|job| job.name.clone()).collect(),
        };
        let columns = vec![
            ("job", job),
            ("first_iteration", by_job(&|iterations| iterations.start)),
            ("iterations", by_job(&|iterations| iterations.end - iterations.start)),
            ("start_s", Column::Time(vec![self.start; rows])),
            ("end_s", Column::Time(vec![self.end; rows])),
            ("cycles", Column::U64(vec![self.cycles; rows])),
            ("exact", Column::Bool(vec![self.is_exact; rows])),
            ("deviation", Column::F64(vec![self.deviation; rows])),
            ("drift_bound", Column::F64(vec![self.drift_bound(); rows])),
        ];
        Table { name: "repeated", columns }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJobs => write!(f, "there are no periodic jobs"),
            Self::Training(job) => write!(f, "job {job:?} is a training job"),
            Self::Jitter(job) => write!(f, "job {job:?} has jitter"),
            Self::ClockError(job) => write!(f, "job {job:?} has a clock error"),
            Self::Readjusts(job) => write!(f, "job {job:?} re-adjusts"),
            Self::NoRecurrence { skip: Skip { tolerance, cycles }, closest } => {
                write!(
                    f,
                    "no {cycles} joint cycles in a row agreed within {tolerance} while iterations were left to skip"
                )?;
                match closest {
                    Some(closest) => write!(f, "; the smallest deviation was {closest:.2e}"),
                    None => write!(f, "; there never were {cycles} cycles in a row"),
                }
            }
        }
    }
}
