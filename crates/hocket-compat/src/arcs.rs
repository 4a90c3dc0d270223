//! The arcs of a job's circle: where it sends, and where it computes.

use hocket_des::{Duration, Rate};
use hocket_scenario::Profile;

use crate::error::CompatError;

/// A part of a job's circle: `height` from `start` to `end` of each period. Here in picoseconds,
/// and in bits per second or a number of jobs; a [`Problem`](crate::problem::Problem) scales both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arc {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) height: u64,
}

/// The demand of a job on a link that `flows` of its flows cross; `strict` counts jobs instead of
/// demand.
///
/// # Errors
/// If the flows together demand 2^64 bits per second or more.
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

/// When a job keeps its GPU busy: everything outside its Up phases (HotNets'22 section 5).
pub(crate) fn compute_arcs(profile: &Profile) -> Vec<Arc> {
    let phases = profile.phases();
    let starts = [Duration::ZERO].into_iter().chain(phases.iter().map(|phase| phase.end()));
    let ends = phases.iter().map(|phase| phase.start).chain([profile.period()]);
    let arcs = starts.zip(ends).filter(|(start, end)| start < end);
    arcs.map(|(start, end)| Arc { start: start.as_ps(), end: end.as_ps(), height: 1 }).collect()
}
