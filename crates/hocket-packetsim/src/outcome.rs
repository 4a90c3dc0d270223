//! What comes out of a run besides its tables.

use std::fmt;
use std::ops::Range;

use hocket_des::Time;
use hocket_scenario::{Column, Scenario, Table};

use crate::options::Skip;

/// What came out of a run, besides its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketOutcome {
    /// What the run did, together with what it stands for if it skipped ahead.
    pub counters: PacketCounters,
    /// Whether it reached its end.
    pub status: PacketStatus,
    /// The simulated time of its end: of a complete run, when the last message was complete.
    pub ended: Time,
    /// What was not simulated, if the run was allowed to skip ahead.
    pub skipping: Option<Skipping>,
}

/// Whether a run reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketStatus {
    /// Everything was sent and acknowledged, and all jobs have left.
    Complete,
    /// The time given as its end came first.
    Stopped,
    /// The observer ended it.
    Interrupted,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Packets that began to cross a link, of every kind.
    pub packet_hops: u64,
    /// Events, samples among them.
    pub events: u64,
    /// Complete messages of the workload; what jobs send is counted in their tables.
    pub messages: u64,
    /// PAUSE frames received.
    pub pauses: u64,
    /// Marked packets of data received.
    pub marks: u64,
    /// Congestion notification packets sent; none where acknowledgements carry the marks.
    pub cnps: u64,
    /// How often each policy of the setup cut a rate.
    pub rate_cuts: Vec<u64>,
    /// How often a sender went back to what had not arrived.
    pub retransmissions: u64,
    /// Packets that found no room in a buffer.
    pub losses: u64,
    /// Packets that were lost to the failure of a link.
    pub lost_to_failures: u64,
}

/// What a run that was allowed to skip ahead did not simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipping {
    /// In order of time.
    pub repeats: Vec<Repeat>,
    /// Why nothing was repeated, if nothing was.
    pub obstacle: Option<Obstacle>,
    /// What of [`PacketOutcome::counters`] stands for what was repeated.
    pub counters: PacketCounters,
}

/// Cycles that were repeated instead of simulated: the last one again and again if it recurred exactly, otherwise all that were
/// compared, in turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// From when on.
    pub start: Time,
    /// Up to when.
    pub end: Time,
    /// How many cycles that is.
    pub cycles: u64,
    /// By job: the iterations whose rows were repeated; none of a job that had left.
    pub iterations: Vec<Range<u64>>,
    /// Whether nothing in the compared cycles was left to chance, no rate was cut, and they agreed in every time, count and rate.
    pub is_exact: bool,
    /// The largest difference between two of the compared cycles, relative to the time of an iteration of the job in question:
    /// how far the mean time of an iteration may be off.
    pub deviation: f64,
}

/// Why a run did not skip ahead.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// There are no periodic jobs.
    NoJobs,
    /// This job is a training job.
    Training(String),
    /// This job draws the lengths of its phases.
    Jitter(String),
    /// This job draws how well it keeps to its time-shift.
    ClockError(String),
    /// This job delays itself as it drifts.
    Readjusts(String),
    /// Cycles never agreed within the tolerance while enough iterations were left.
    NoRecurrence {
        /// What was asked for.
        skip: Skip,
        /// The smallest deviation of as many cycles in a row, if there were so many.
        closest: Option<f64>,
    },
}

impl PacketCounters {
    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    /// With `others` happening so many `times` besides.
    pub(crate) fn plus(&self, others: &Self, times: u64) -> Self {
        self.with(others, |one, other| one + other * times)
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
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
    /// How far the place of a job in its iteration may be off at the end, relative to the time of the iteration, should all
    /// cycles deviate as much and in the same direction.
    pub fn drift_bound(&self) -> f64 {
        self.deviation * self.cycles as f64
    }

    /// As a table of one row for each job that iterations were repeated of.
    pub(crate) fn table(&self, scenario: Option<&Scenario>) -> Table {
        let names = scenario.map_or(&[][..], Scenario::jobs);
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
                    "with iterations left, no {cycles} joint cycles in a row agreed within {tolerance}"
                )?;
                match closest {
                    Some(closest) => write!(f, "; the closest were {closest:.2e} apart"),
                    None => write!(f, "; there never were so many"),
                }
            }
        }
    }
}
