//! The parts of its circle on which a job sends, or computes.

use hocket_des::{Duration, Rate};
use hocket_scenario::Profile;

use crate::error::CompatError;

/// Part of a job's circle: `height` from `start` to `end` of each period, in the units of whoever
/// holds it; here picoseconds, and bits per second or a number of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arc {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) height: u64,
}

/// What a job with so many flows asks of a link; `strict` counts jobs instead of demand.
///
/// # Errors
/// If the flows together ask for more than 2^64 bits per second.
pub(crate) fn sending_arcs(
    profile: &Profile,
    flows: u32,
    strict: bool,
) -> Result<Vec<Arc>, CompatError> {
    let height = |rate: Rate| match strict {
        true => Some(1),
        false => rate.as_bps().checked_mul(u64::from(flows)),
    };
    let arcs = profile.phases().iter().map(|phase| {
        let height = height(phase.rate).ok_or(CompatError::Overflow)?;
        Ok(Arc { start: phase.start.as_ps(), end: phase.end().as_ps(), height })
    });
    arcs.collect()
}

/// When a job keeps its GPU busy: all that is not an Up phase is compute.
pub(crate) fn compute_arcs(profile: &Profile) -> Vec<Arc> {
    let phases = profile.phases();
    let starts = [Duration::ZERO].into_iter().chain(phases.iter().map(|phase| phase.end()));
    let ends = phases.iter().map(|phase| phase.start).chain([profile.period()]);
    let arcs = starts.zip(ends).filter(|(start, end)| start < end);
    arcs.map(|(start, end)| Arc { start: start.as_ps(), end: end.as_ps(), height: 1 }).collect()
}
