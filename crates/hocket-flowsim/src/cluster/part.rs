//! A part of a cluster that runs by itself: a job alone, or jobs that share links.

use hocket_des::{Duration, Time};
use hocket_scenario::JobId;

use crate::cluster::alone::Alone;
use crate::cluster::component::Component;
use crate::cluster::running::Running;
use crate::cluster::skip_ahead::Rows;
use crate::error::FlowError;
use crate::sender::Sender;

/// Jobs that nothing in the rest of the cluster can slow down.
pub(super) enum Part {
    Alone(Box<Alone>),
    Sharing(Box<Component>),
}

impl Part {
    pub(super) fn jobs(&self) -> &[Running] {
        match self {
            Self::Alone(alone) => std::slice::from_ref(&alone.job),
            Self::Sharing(component) => &component.jobs,
        }
    }

    pub(super) fn job_mut(&mut self, number: usize) -> &mut Running {
        match self {
            Self::Alone(alone) => &mut alone.job,
            Self::Sharing(component) => &mut component.jobs[number],
        }
    }

    pub(super) fn sender(&self, number: usize) -> &Sender {
        match self {
            Self::Alone(alone) => &alone.job.sender,
            Self::Sharing(component) => component.sender(number),
        }
    }

    pub(super) fn rows(&mut self) -> &mut Rows {
        match self {
            Self::Alone(alone) => &mut alone.rows,
            Self::Sharing(component) => &mut component.rows,
        }
    }

    /// The time that it has skipped, by which its clock is behind that of the run.
    pub(super) fn behind(&self) -> Duration {
        match self {
            Self::Alone(alone) => alone.behind(),
            Self::Sharing(component) => component.behind(),
        }
    }

    /// Accounts for everything up to `now`.
    pub(super) fn settle(&mut self, now: Time) {
        match self {
            Self::Alone(alone) => alone.settle(now),
            Self::Sharing(component) => component.settle(now),
        }
    }

    /// Nothing is known any more of what its jobs will do.
    pub(super) fn disturb(&mut self) {
        match self {
            Self::Alone(alone) => alone.disturb(),
            Self::Sharing(component) => component.disturb(),
        }
    }

    /// A time before which no job leaves.
    pub(super) fn earliest_departure(&self, now: Time) -> Time {
        match self {
            Self::Alone(alone) => alone.earliest_departure(now),
            Self::Sharing(component) => component.earliest_departure(now),
        }
    }

    /// Advances to `until`, before which no job leaves. Returns the jobs that leave then.
    pub(super) fn advance(&mut self, until: Time) -> Result<Vec<JobId>, FlowError> {
        match self {
            Self::Alone(alone) => {
                let ended = alone.advance(until)?;
                Ok(ended.then_some(alone.job.id).into_iter().collect())
            }
            Self::Sharing(component) => {
                let ended = component.advance(until)?;
                Ok(ended.into_iter().map(|number| component.jobs[number].id).collect())
            }
        }
    }
}
