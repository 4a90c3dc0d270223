//! One iteration of a periodic job: a period with Up phases.

use hocket_des::{Bytes, Duration, Rate};
use thiserror::Error;

/// The largest number of Up phases in a period. A real iteration has a handful; thousands mean that
/// noise was taken for phases.
pub const MAX_PHASES: usize = 1_000;

/// An Up phase: the job sends at `rate` for `duration` from `start` on, on an idle network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// Offset of the phase from the start of the iteration.
    pub start: Duration,
    /// How long the phase lasts on an idle network.
    pub duration: Duration,
    /// The job's demand: it never sends faster, even if a link has more to give.
    pub rate: Rate,
}

/// One iteration of a job on an idle network: a period, and its Up phases in order of start, which
/// lie within the period and do not overlap. Between them the job is Down: it only computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    period: Duration,
    phases: Vec<Phase>,
}

/// Why a period and its phases are not a profile. Messages count phases from 1, in order of start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ProfileError {
    #[error("the period is 0; it must be longer")]
    ZeroPeriod,
    #[error("{found} Up phases; a period has at most {MAX_PHASES}")]
    TooManyPhases { found: usize },
    #[error("phase {phase} has a duration of 0; it must be longer")]
    ZeroDuration { phase: usize },
    #[error("phase {phase} has a rate of 0; it must be higher")]
    ZeroRate { phase: usize },
    #[error("phase {phase}: {start} + {duration} does not fit in a period of {period}")]
    OutsidePeriod { phase: usize, start: Duration, duration: Duration, period: Duration },
    #[error("phase {phase} starts at {start}, before phase {before} ends at {end}")]
    Overlap { phase: usize, before: usize, start: Duration, end: Duration },
}

impl Phase {
    /// When the phase ends, from the start of the iteration.
    pub fn end(self) -> Duration {
        self.start + self.duration
    }

    /// The bytes that each flow sends in the phase, rounded to the nearest byte.
    pub fn bytes(self) -> Bytes {
        self.rate.bytes_in(self.duration)
    }
}

impl Profile {
    /// A profile of `phases` in any order within `period`.
    ///
    /// # Errors
    /// If the period, a duration or a rate is zero, a phase ends after the period, two phases
    /// overlap, or there are more than [`MAX_PHASES`].
    pub fn new(period: Duration, mut phases: Vec<Phase>) -> Result<Self, ProfileError> {
        if period.is_zero() {
            return Err(ProfileError::ZeroPeriod);
        }
        if phases.len() > MAX_PHASES {
            return Err(ProfileError::TooManyPhases { found: phases.len() });
        }
        phases.sort_by_key(|phase| phase.start);
        let mut previous_end = Duration::ZERO;
        for (index, phase) in phases.iter().enumerate() {
            let number = index + 1;
            let &Phase { start, duration, rate } = phase;
            if duration.is_zero() {
                return Err(ProfileError::ZeroDuration { phase: number });
            }
            if rate.is_zero() {
                return Err(ProfileError::ZeroRate { phase: number });
            }
            // Checked: the numbers are a user's, and their sum may exceed 64 bits.
            if start.checked_add(duration).is_none_or(|end| end > period) {
                return Err(ProfileError::OutsidePeriod { phase: number, start, duration, period });
            }
            if start < previous_end {
                return Err(ProfileError::Overlap {
                    phase: number,
                    before: index,
                    start,
                    end: previous_end,
                });
            }
            previous_end = phase.end();
        }
        Ok(Self { period, phases })
    }

    /// The length of an iteration on an idle network.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The Up phases, in order of start.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The bytes that each flow sends in an iteration.
    pub fn bytes_per_iteration(&self) -> Bytes {
        self.phases.iter().map(|phase| phase.bytes()).sum()
    }

    /// The total duration of the Up phases.
    pub fn up_time(&self) -> Duration {
        self.phases.iter().map(|phase| phase.duration).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(start_ms: u64, duration_ms: u64, gbps: u64) -> Phase {
        Phase {
            start: Duration::from_ms(start_ms),
            duration: Duration::from_ms(duration_ms),
            rate: Rate::from_gbps(gbps),
        }
    }

    #[test]
    fn a_phase_past_the_period_is_named_with_its_values() {
        let error = Profile::new(Duration::from_ms(180), vec![phase(150, 60, 30)]).unwrap_err();
        assert_eq!(error.to_string(), "phase 1: 150 ms + 60 ms does not fit in a period of 180 ms");
    }

    #[test]
    fn overlapping_phases_are_refused_in_any_order() {
        let error = Profile::new(Duration::from_ms(180), vec![phase(50, 20, 30), phase(0, 60, 30)])
            .unwrap_err();
        assert_eq!(error.to_string(), "phase 2 starts at 50 ms, before phase 1 ends at 60 ms");
    }

    #[test]
    fn sixty_milliseconds_at_40_gbps_are_300_megabytes() {
        let profile = Profile::new(Duration::from_ms(180), vec![phase(0, 60, 40)]).unwrap();
        assert_eq!(profile.bytes_per_iteration(), Bytes::new(300_000_000));
        assert_eq!(profile.up_time(), Duration::from_ms(60));
    }
}
