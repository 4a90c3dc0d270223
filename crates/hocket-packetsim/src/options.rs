//! How a run is done, and which rows it keeps; what is simulated is left to setup and workload.

use std::num::NonZeroU64;

use hocket_des::{Duration, Time};

use crate::error::PacketRunError;

/// The most cycles that can be compared.
pub const MAX_CYCLES: u32 = 64;

/// How a run is done and what it records.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketOptions {
    /// The run ends then, with all events of that time. Without it, when everything is sent.
    pub until: Option<Time>,
    /// Queues, rates and traffic are sampled in such intervals. Without it, not at all.
    pub sample_every: Option<Duration>,
    /// Which rows are kept.
    pub record: Record,
    /// The observer hears of the progress after so many events.
    pub progress_every: NonZeroU64,
    /// Periodic jobs skip ahead once they do the same again and again. Without it, every packet is simulated.
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
    /// Rows of `operations`, of so many iterations of each training job.
    pub operations: u64,
}

/// When a run of periodic jobs may skip ahead: once `cycles` joint cycles in a row agree within `tolerance`. A joint cycle is the
/// shortest time after which all jobs, each having finished one iteration at least, stand where they stood.
///
/// Two cycles agree if every iteration and every Up phase of every job begins and ends at the same time of its cycle, up to
/// `tolerance` of what an iteration of that job takes. What is hidden is not compared, only what it leads to: jobs that wander apart
/// slowly agree within a large tolerance, too, and [`Repeat::drift_bound`](crate::Repeat::drift_bound) says how far they could have come. With a tolerance of 0, only
/// what recurs exactly is skipped: nothing is left to chance, no rate is cut, and cycles agree to the picosecond, in what each port
/// sends, and in the rates of congestion controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skip {
    /// Relative to the time of an iteration; at least 0 and below 1.
    pub tolerance: f64,
    /// From 2 to [`MAX_CYCLES`].
    pub cycles: u32,
}

impl Default for PacketOptions {
    /// Until everything is sent, without samples, progress every 262,144 events.
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
    /// Everything, but operations of the first iteration alone.
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
