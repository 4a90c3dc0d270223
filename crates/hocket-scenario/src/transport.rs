//! Flows as the packet engine needs them: hosts, path and congestion control. The flow engine reads only the paths of
//! training jobs.

use hocket_des::{Bytes, Time};
use hocket_transport::Policy;

use crate::{JobId, LinkId, NodeId};

/// Which path the packets of a flow take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathChoice {
    /// One of the shortest paths, chosen by a hash.
    #[default]
    Ecmp,
    /// These links, in order. Acknowledgements return by ECMP.
    Pinned(Vec<LinkId>),
    /// All shortest paths that leave by the same NIC, packet by packet in turn; at most
    /// [`MAX_PATHS`](crate::routing::MAX_PATHS) of them. The receiver accepts packets in any order. Acknowledgements
    /// are not sprayed: they return by ECMP.
    Spray,
}

/// A queue pair of a job. In every Up phase, each queue pair sends the bytes of the phase.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobFlow {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// Distinguishes flows between the same hosts in the hash of ECMP, as ports do in a real one.
    pub label: u64,
    /// Its path.
    pub path: PathChoice,
}

/// How much of a flow may be in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowRule {
    /// Any amount.
    #[default]
    Unlimited,
    /// The bandwidth-delay product of the path.
    PathFull {
        /// Whether the window is multiplied by rate ÷ line rate.
        scaled: bool,
    },
    /// A number of bytes.
    Bytes(u64),
}

/// The congestion control and window of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    /// The congestion control.
    pub policy: Policy,
    /// The window, which [`Policy::StaticWindow`] overrides.
    pub window: WindowRule,
}

/// A message that is sent once, at a given time, in addition to what jobs send.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Sender, receiver and path.
    pub flow: JobFlow,
    /// Size.
    pub bytes: Bytes,
    /// When it is sent.
    pub start: Time,
    /// 0 is the highest.
    pub priority: u8,
    /// The job to which tables attribute it, if any.
    pub job: Option<JobId>,
    /// Congestion control and window.
    pub transport: Transport,
}

impl JobFlow {
    /// A flow that ECMP routes.
    pub fn new(from: NodeId, to: NodeId, label: u64) -> Self {
        Self { from, to, label, path: PathChoice::Ecmp }
    }
}

impl Transport {
    /// `policy` without a window.
    pub fn new(policy: Policy) -> Self {
        Self { policy, window: WindowRule::Unlimited }
    }

    /// The effective window: the policy's own if it has one, otherwise [`Self::window`](field@Self::window).
    pub fn window(&self) -> WindowRule {
        match &self.policy {
            Policy::StaticWindow(parameters) => {
                parameters.window.map_or(WindowRule::Unlimited, WindowRule::Bytes)
            }
            _ => self.window,
        }
    }
}

impl Default for Transport {
    /// Sends at line rate, limited only by PAUSE frames.
    fn default() -> Self {
        Self::new(Policy::PfcOnly)
    }
}
