//! A training job and its own policy: how it shares a link, its priority, its time-shift and how
//! well it keeps to it. Where it runs is reduced to the links that its ring crosses, or to its flows.

use std::fmt;

use hocket_des::{Duration, Time};
use thiserror::Error;

use crate::{JobFlow, LinkId, Profile, Training, Transport};

/// How strongly a job claims its part of a link, in 1/65,536, so that no float decides a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

/// How each flow of a job shares a link with the flows of others in its queue: a job with two flows
/// on a link takes twice what one with a single flow of the same weight takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// As much as every other: weight 1.
    Fair,
    /// In proportion to a fixed weight: what a shorter DCQCN rate-increase timer does. HotNets'22
    /// section 2 saw 30 against 15 Gbps, a weight of 2, from timers of 100 and 125 µs.
    Weighted(Weight),
    /// In proportion to weight × (1 + sent/total of this Up phase): the adaptively unfair DCQCN of
    /// HotNets'22 section 4(i).
    Adaptive(Weight),
}

/// How many flows of a job a directed link carries: at rate r the job loads it by r × flows.
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
    /// Up and Down phases, all workers alike.
    Periodic(Periodic),
    /// Operations of ranks that wait for each other.
    Training(Box<Training>),
}

/// Up and Down phases. All flows move at one rate, as the edges of a ring all-reduce do.
#[derive(Clone, Debug, PartialEq)]
pub struct Periodic {
    /// One iteration on an idle network.
    pub profile: Profile,
    /// The first iteration, where that is only the rest of one: the job was under way before it arrived here. Its
    /// time-shift then says where its slots are and delays nothing.
    pub first: Option<Profile>,
    /// Flow engine: links that the job's flows take; none for a job on one host.
    pub crossings: Vec<Crossing>,
    /// Packet engine: the flows themselves. [`flow_crossings`](crate::flow_crossings) has the links of these.
    pub flows: Vec<JobFlow>,
}

/// A training run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique in its scenario.
    pub name: String,
    /// One iteration.
    pub work: Work,
    /// Packet engine: what governs each of its flows.
    pub transport: Transport,
    /// When the job is there.
    pub arrival: Time,
    /// After how many iterations it leaves; `None` leaves that to the scenario.
    pub iterations: Option<u64>,
    /// Flow engine: how it shares a link within its queue.
    pub share: Share,
    /// 0 goes first.
    pub priority: u8,
    /// The delay of its first iteration.
    pub time_shift: Option<Duration>,
    /// Standard deviation of the error with which a time-shift is applied.
    pub clock_error: Duration,
    /// Whether it delays itself back into its slot once it has drifted (NSDI'24 section 5.7).
    pub readjust: bool,
    /// Standard deviation of each Down duration, or of each compute operation, relative to that duration; 0 to 1.
    pub jitter: f64,
    /// An iteration starts no earlier than this after the one before.
    pub pad_to: Option<Duration>,
}

/// A weight outside of what a link can be shared by.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("a weight of {weight}; it must lie between 1/64 and 1024")]
pub struct WeightError {
    weight: f64,
}

impl Weight {
    /// The weight of a fair share.
    pub const ONE: Self = Self(1 << 16);
    const LEAST: Self = Self(1 << 10);
    const MOST: Self = Self(1 << 26);

    /// The nearest weight in 1/65,536 to `weight`.
    ///
    /// # Errors
    /// If `weight` lies outside 1/64 to 1024 or is not a number.
    pub fn new(weight: f64) -> Result<Self, WeightError> {
        let raw = (weight * f64::from(Self::ONE.0)).round();
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
    /// The weight at the start of an Up phase.
    pub const fn weight(self) -> Weight {
        match self {
            Self::Fair => Weight::ONE,
            Self::Weighted(weight) | Self::Adaptive(weight) => weight,
        }
    }
}

impl Job {
    /// A periodic job that is there from the start and has no policy: fair share, highest priority, no
    /// time-shift, no jitter, no flows for the packet engine. Change the fields that differ.
    pub fn new(name: impl Into<String>, profile: Profile, crossings: Vec<Crossing>) -> Self {
        Self::with_work(
            name,
            Work::Periodic(Periodic { profile, first: None, crossings, flows: Vec::new() }),
        )
    }

    /// As [`new`](Self::new), of any work.
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

    /// What a periodic job does.
    pub fn periodic(&self) -> Option<&Periodic> {
        match &self.work {
            Work::Periodic(periodic) => Some(periodic),
            Work::Training(_) => None,
        }
    }

    /// The same, to change it.
    pub fn periodic_mut(&mut self) -> Option<&mut Periodic> {
        match &mut self.work {
            Work::Periodic(periodic) => Some(periodic),
            Work::Training(_) => None,
        }
    }

    /// A periodic job with other crossings; a training job stays as it is.
    #[must_use]
    pub fn crossing(mut self, crossings: Vec<Crossing>) -> Self {
        if let Some(periodic) = self.periodic_mut() {
            periodic.crossings = crossings;
        }
        self
    }

    /// A periodic job with other flows; a training job stays as it is.
    #[must_use]
    pub fn sending(mut self, flows: Vec<JobFlow>) -> Self {
        if let Some(periodic) = self.periodic_mut() {
            periodic.flows = flows;
        }
        self
    }

    /// What the ranks of a training job do.
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
