//! What the packet engine knows of traffic beyond the links it loads: which host sends to which, by which
//! way, under which congestion control. The flow engine reads none of it.

use hocket_des::{Bytes, Time};
use hocket_transport::Policy;

use crate::{JobId, LinkId, NodeId};

/// Which way the packets of a flow take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathChoice {
    /// One of the shortest ways, by hash, as switches do.
    #[default]
    Ecmp,
    /// These links, one after another. Acknowledgements go back by hash.
    Pinned(Vec<LinkId>),
    /// All shortest ways that leave by the same NIC, one packet after another in turn; at most
    /// [`MAX_WAYS`](crate::routing::MAX_WAYS) of them. The receiver takes packets in any order. Acknowledgements are not
    /// spread: they go back by hash.
    Spray,
}

/// A queue pair of a job: every Up phase sends its bytes on each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobFlow {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// What tells the flow from others between the same hosts where switches hash.
    pub label: u64,
    /// Its way.
    pub path: PathChoice,
}

/// How much of a flow may be under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowRule {
    /// Any amount.
    #[default]
    Unlimited,
    /// What fills the path, times rate ÷ line rate if `scaled`.
    PathFull {
        /// Whether it shrinks with the rate.
        scaled: bool,
    },
    /// So many bytes.
    Bytes(u64),
}

/// What governs a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    /// Its congestion control.
    pub policy: Policy,
    /// Its window. That of [`Policy::StaticWindow`] stands in the policy, and this is not looked at.
    pub window: WindowRule,
}

/// Bytes that are sent once, at a given time, by no periodic job.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// From where to where.
    pub flow: JobFlow,
    /// How much.
    pub bytes: Bytes,
    /// When.
    pub start: Time,
    /// 0 goes first.
    pub priority: u8,
    /// The job that it counts for in tables, if any.
    pub job: Option<JobId>,
    /// What governs it.
    pub transport: Transport,
}

impl JobFlow {
    /// A flow whose way is chosen by hash.
    pub fn new(from: NodeId, to: NodeId, label: u64) -> Self {
        Self { from, to, label, path: PathChoice::Ecmp }
    }
}

impl Transport {
    /// `policy` without a window besides.
    pub fn new(policy: Policy) -> Self {
        Self { policy, window: WindowRule::Unlimited }
    }

    /// The window that holds.
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
    /// Line rate; PAUSE frames alone hold the flow back.
    fn default() -> Self {
        Self::new(Policy::PfcOnly)
    }
}
