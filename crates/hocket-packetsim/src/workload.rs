//! The workload of a run: messages, jobs, and changes of links.

use hocket_des::Time;

use crate::changes::{self, LinkChange};
use crate::error::PacketRunError;
use crate::jobs::ScenarioJobs;
use crate::setup::Setup;

/// A message that a flow sends once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSpec {
    /// Index of the flow.
    pub flow: usize,
    /// Size; at least 1.
    pub bytes: u64,
    /// When it is posted.
    pub start: Time,
}

/// The workload on the fabric of a [`Setup`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketWorkload<'a> {
    /// Messages; those of one flow are sent one after another.
    pub messages: &'a [MessageSpec],
    /// Periodic and training jobs.
    pub jobs: Option<ScenarioJobs<'a>>,
    /// Changes of links.
    pub changes: &'a [LinkChange],
}

impl PacketWorkload<'_> {
    pub(crate) fn check(&self, setup: &Setup<'_>) -> Result<(), PacketRunError> {
        for (index, flow) in setup.flows.iter().enumerate() {
            if flow.policy >= setup.policies.len() {
                let (policy, policies) = (flow.policy, setup.policies.len());
                return Err(PacketRunError::UnknownPolicy { flow: index, policy, policies });
            }
        }
        for (index, message) in self.messages.iter().enumerate() {
            let number = index + 1;
            if message.flow >= setup.flows.len() {
                let (flow, flows) = (message.flow, setup.flows.len());
                return Err(PacketRunError::UnknownFlow { message: number, flow, flows });
            }
            if message.bytes == 0 {
                return Err(PacketRunError::EmptyMessage { message: number, flow: message.flow });
            }
        }
        if let Some(jobs) = &self.jobs {
            jobs.check(setup.flows.len());
        }
        changes::check(self.changes, setup.fabric)
    }
}
