//! Options of a run: when it ends and which rows it keeps. Setup and workload define what is simulated.

use std::num::NonZeroU64;

use hocket_des::{Duration, Time};

use crate::error::PacketRunError;

/// The largest number of cycles that can be compared.
pub const MAX_CYCLES: u32 = 64;

/// When a run ends and what it records.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketOptions {
    /// The run ends at this time, after all events of that time. By default it ends when everything is sent.
    pub until: Option<Time>,
    /// The interval at which queues, rates and traffic are sampled. By default nothing is sampled.
    pub sample_every: Option<Duration>,
    /// Which rows are kept.
    pub record: Record,
    /// The number of events between two progress callbacks.
    pub progress_every: NonZeroU64,
    /// When to skip ahead because periodic jobs repeat themselves. By default every packet is simulated.
    pub skip: Option<Skip>,
}

/// Which rows are kept; `ports`, `paused` and `switches` always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// A row of `flows` for each message.
    pub messages: bool,
    /// A row of `pauses` for each PAUSE or resume frame.
    pub pauses: bool,
    /// Samples in `queues` and `switch_queues`.
    pub queues: bool,
    /// Samples in `rates`.
    pub rates: bool,
    /// Samples in `utilisation`.
    pub utilisation: bool,
    /// The number of iterations of each training job that get rows in `operations`.
    pub operations: u64,
}

/// When a run of periodic jobs may skip ahead: once `cycles` joint cycles in a row agree within `tolerance`. A joint cycle
/// is the shortest time after which every job has finished at least one iteration and all jobs are back in the same
/// position relative to each other.
///
/// Two cycles agree if every iteration and every Up phase of every job begins and ends at the same time of its cycle, up to
/// `tolerance` times the duration of that job's iteration. Only these times are compared, not the internal state of the
/// network. Jobs that drift apart slowly therefore also agree within a large tolerance;
/// [`Repeat::drift_bound`](crate::Repeat::drift_bound) bounds the resulting error. With a tolerance of 0, only exact
/// repetitions are skipped: no random number was drawn, no rate was cut, and cycles agree in every time to the picosecond,
/// in what each port sent, and in the rates of the congestion controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skip {
    /// Relative to the duration of an iteration; at least 0 and below 1.
    pub tolerance: f64,
    /// The number of cycles in a row that must agree, from 2 to [`MAX_CYCLES`].
    pub cycles: u32,
}

impl Default for PacketOptions {
    /// Runs until everything is sent, takes no samples, and reports progress every 262,144 events.
    fn default() -> Self {
        Self {
            until: None,
            sample_every: None,
            record: Record::default(),
            progress_every: NonZeroU64::new(1 << 18).expect("262,144 is not zero"),
            skip: None,
        }
    }
}

impl Default for Record {
    /// Keeps all rows, except that `operations` has only those of the first iteration.
    fn default() -> Self {
        Self {
            messages: true,
            pauses: true,
            queues: true,
            rates: true,
            utilisation: true,
            operations: 1,
        }
    }
}

impl Default for Skip {
    /// Three cycles within a thousandth.
    fn default() -> Self {
        Self { tolerance: 0.001, cycles: 3 }
    }
}

impl Skip {
    pub(crate) fn check(&self) -> Result<(), PacketRunError> {
        let Self { tolerance, cycles } = *self;
        if !(0.0..1.0).contains(&tolerance) {
            return Err(PacketRunError::SkipTolerance { tolerance });
        }
        if !(2..=MAX_CYCLES).contains(&cycles) {
            return Err(PacketRunError::SkipCycles { cycles, limit: MAX_CYCLES });
        }
        Ok(())
    }
}

impl PacketOptions {
    pub(crate) fn check(&self) -> Result<(), PacketRunError> {
        if self.sample_every == Some(Duration::ZERO) {
            return Err(PacketRunError::NoInterval { interval: Duration::ZERO });
        }
        self.skip.as_ref().map_or(Ok(()), Skip::check)
    }
}
