//! Builders of profiles in milliseconds and gigabits per second, for tests here and in `tests/`.

use hocket_des::{Duration, Rate};
use hocket_scenario::{Phase, Profile};

/// An Up phase.
pub(crate) fn up(start_ms: u64, duration_ms: u64, gbps: u64) -> Phase {
    Phase {
        start: Duration::from_ms(start_ms),
        duration: Duration::from_ms(duration_ms),
        rate: Rate::from_gbps(gbps),
    }
}

/// A job with these Up phases in its period.
pub(crate) fn profile(period_ms: u64, phases: &[Phase]) -> Profile {
    let period = Duration::from_ms(period_ms);
    Profile::new(period, phases.to_vec()).expect("the phases fit in the period")
}
