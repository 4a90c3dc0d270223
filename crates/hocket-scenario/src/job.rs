//! A training job and its policy: share, priority, time-shift and re-adjustment. A periodic job's placement is reduced
//! to the links that its flows cross.

use std::fmt;

use hocket_des::{Duration, Time};
use thiserror::Error;

use crate::{JobFlow, LinkId, Profile, Training, Transport};

/// The weight of a job in weighted max-min sharing, in 1/65,536: an integer, so that no rate depends
/// on floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

/// How each flow of a job shares a link with other flows in its queue. Sharing is per flow: a job with two
/// flows on a link gets twice as much as a job with one flow of the same weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Weight 1.
    Fair,
    /// A fixed weight, which models a shorter rate-increase timer of DCQCN. HotNets'22 section 2 measured
    /// 30 against 15 Gbps, a weight of 2, with timers of 100 and 125 µs.
    Weighted(Weight),
    /// A weight that grows with what the job has sent.
    Adaptive(Adaptive),
}

/// The weight intercept + slope × sent ÷ total, which favours the job that is closer to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Adaptive {
    /// The weight at the beginning.
    pub intercept: Weight,
    /// What it has gained at the end.
    pub slope: Weight,
    /// What sent and total refer to.
    pub span: Span,
}

/// The bytes over which a weight grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// Those of an Up phase: the adaptively unfair DCQCN of HotNets'22 section 4(i).
    Phase,
    /// Those of an iteration, which may have several Up phases: MLTCP (HotNets'24).
    Iteration,
}

/// How many flows of a job a directed link carries: a job of rate r loads it with r × `flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The link.
    pub link: LinkId,
    /// Flows on it, at least 1.
    pub flows: u32,
}

/// What a job does in an iteration.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Up and Down phases, the same for all workers.
    Periodic(Periodic),
    /// Operations of ranks that depend on each other.
    Training(Box<Training>),
}

/// The iterations of a periodic job. All its flows send at one rate, as the edges of a ring all-reduce do.
#[derive(Clone, Debug, PartialEq)]
pub struct Periodic {
    /// One iteration on an idle network.
    pub profile: Profile,
    /// The remainder of an iteration that began before the job's arrival, if there is one: it is the job's first
    /// iteration. The time-shift then only determines the job's slots and delays nothing.
    pub first: Option<Profile>,
    /// Flow engine: the links that the job's flows cross; empty for a job on one host.
    pub crossings: Vec<Crossing>,
    /// Packet engine: the flows. [`flow_crossings`](crate::flow_crossings) returns the links that they cross.
    pub flows: Vec<JobFlow>,
}

/// A training run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique in its scenario.
    pub name: String,
    /// What it does in an iteration.
    pub work: Work,
    /// Packet engine: congestion control and window of each of its flows.
    pub transport: Transport,
    /// When the job arrives.
    pub arrival: Time,
    /// The number of iterations after which the job leaves; `None` uses the scenario's.
    pub iterations: Option<u64>,
    /// Flow engine: how it shares a link within its queue.
    pub share: Share,
    /// 0 is the highest.
    pub priority: u8,
    /// The delay of the first iteration.
    pub time_shift: Option<Duration>,
    /// Standard deviation of the error of each delay that the job intends.
    pub clock_error: Duration,
    /// Whether the job delays itself to return to its slot after drifting (NSDI'24 section 5.7).
    pub readjust: bool,
    /// Standard deviation of each Down duration, or of each compute operation, relative to that duration; 0 to 1.
    pub jitter: f64,
    /// The minimum time from the start of one iteration to the start of the next.
    pub pad_to: Option<Duration>,
}

/// A weight outside the supported range.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("a weight of {weight}; it must lie between 1/64 and 1024")]
pub struct WeightError {
    weight: f64,
}

impl Weight {
    /// The weight of a fair share.
    pub const ONE: Self = Self(1 << 16);
    // 1/64 and 1,024. The upper limit keeps weights times rates within 128 bits: see `MAX_RATE`.
    const LEAST: Self = Self(1 << 10);
    const MOST: Self = Self(1 << 26);

    /// The nearest weight in 1/65,536 to `weight`.
    ///
    /// # Errors
    /// If `weight` lies outside 1/64 to 1024 or is not a number.
    pub fn new(weight: f64) -> Result<Self, WeightError> {
        let raw = (weight * f64::from(Self::ONE.0)).round();
        // NaN compares false with both limits and is therefore an error, too.
        if raw >= f64::from(Self::LEAST.0) && raw <= f64::from(Self::MOST.0) {
            Ok(Self(raw as u32))
        } else {
            Err(WeightError { weight })
        }
    }

    /// The weight in 1/65,536.
    pub const fn raw(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / f64::from(Self::ONE.0))
    }
}

impl Share {
    /// The weight before anything is sent.
    pub const fn weight(self) -> Weight {
        match self {
            Self::Fair => Weight::ONE,
            Self::Weighted(weight) => weight,
            Self::Adaptive(adaptive) => adaptive.intercept,
        }
    }

    /// Weight × (1 + sent ÷ total of this Up phase): the adaptively unfair DCQCN of HotNets'22
    /// section 4(i).
    pub const fn adaptive(weight: Weight) -> Self {
        Self::Adaptive(Adaptive { intercept: weight, slope: weight, span: Span::Phase })
    }
}

impl Job {
    /// A periodic job with defaults: arrival at time 0, fair share, highest priority, no time-shift, no
    /// jitter, and no flows for the packet engine.
    pub fn new(name: impl Into<String>, profile: Profile, crossings: Vec<Crossing>) -> Self {
        Self::with_work(
            name,
            Work::Periodic(Periodic { profile, first: None, crossings, flows: Vec::new() }),
        )
    }

    /// As [`new`](Self::new), with any work.
    pub fn with_work(name: impl Into<String>, work: Work) -> Self {
        Self {
            name: name.into(),
            work,
            transport: Transport::default(),
            arrival: Time::ZERO,
            iterations: None,
            share: Share::Fair,
            priority: 0,
            time_shift: None,
            clock_error: Duration::ZERO,
            readjust: false,
            jitter: 0.0,
            pad_to: None,
        }
    }

    /// The phases and flows of a periodic job; `None` for a training job.
    pub fn periodic(&self) -> Option<&Periodic> {
        match &self.work {
            Work::Periodic(periodic) => Some(periodic),
            Work::Training(_) => None,
        }
    }

    /// As [`periodic`](Self::periodic), mutable.
    pub fn periodic_mut(&mut self) -> Option<&mut Periodic> {
        match &mut self.work {
            Work::Periodic(periodic) => Some(periodic),
            Work::Training(_) => None,
        }
    }

    /// The job with these crossings. A training job is returned unchanged.
    #[must_use]
    pub fn crossing(mut self, crossings: Vec<Crossing>) -> Self {
        if let Some(periodic) = self.periodic_mut() {
            periodic.crossings = crossings;
        }
        self
    }

    /// The job with these flows. A training job is returned unchanged.
    #[must_use]
    pub fn sending(mut self, flows: Vec<JobFlow>) -> Self {
        if let Some(periodic) = self.periodic_mut() {
            periodic.flows = flows;
        }
        self
    }

    /// The operations of a training job; `None` for a periodic job.
    pub fn training(&self) -> Option<&Training> {
        match &self.work {
            Work::Periodic(_) => None,
            Work::Training(training) => Some(training),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_outside_its_range_is_refused_with_its_value() {
        assert_eq!(Weight::new(1.0), Ok(Weight::ONE));
        assert_eq!(Weight::new(0.5).unwrap().to_string(), "0.5");
        let refused = Weight::new(-2.0).unwrap_err();
        assert_eq!(refused.to_string(), "a weight of -2; it must lie between 1/64 and 1024");
        assert!(Weight::new(f64::NAN).is_err());
    }
}
