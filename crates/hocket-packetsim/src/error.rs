//! What can end a run.

use hocket_des::{Duration, Rate, Time};
use hocket_scenario::RouteError;
use hocket_scenario::closed_loop::TooLong;
use hocket_scenario::execution::FailedCheck;
use hocket_transport::congestion::ParameterError;
use hocket_transport::congestion::static_window::TooManyFlows;
use hocket_transport::telemetry::FormatError;
use thiserror::Error;

use crate::model::ModelError;

/// Why a run could not start, or one of its own checks failed.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum PacketRunError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("flow {flow} from {from:?}: {error}")]
    Parameter { flow: usize, from: String, error: ParameterError },
    #[error("flow {flow}: {node:?} is a switch; flows start and end at hosts")]
    NotAHost { flow: usize, node: String },
    #[error("flow {flow} is sprayed; {policy} compares what one way told with what it told before")]
    SprayedTelemetry { flow: usize, policy: &'static str },
    #[error("change {change} is of link {link}; there are {links}, counted from 0")]
    UnknownLink { change: usize, link: u32, links: usize },
    #[error(
        "change {change}: link {link:?} gets a rate of {rate}; it must be above 0 and at most {limit}"
    )]
    ChangedRate { change: usize, link: String, rate: Rate, limit: Rate },
    #[error(transparent)]
    Training(#[from] FailedCheck),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error("flow {flow} goes from {node:?} to itself")]
    ToItself { flow: usize, node: String },
    #[error("flow {flow} has priority {priority}; at most 7 is possible")]
    Priority { flow: usize, priority: u8 },
    #[error(
        "flow {flow} crosses {hops} switches that write telemetry; its packets have room for {limit}"
    )]
    TooManyHops { flow: usize, hops: usize, limit: usize },
    #[error(
        "the buffer of switch {switch:?} has {buffer} bytes; headroom and reserves of its {ports} ports take {needed}"
    )]
    BufferTooSmall { switch: String, buffer: u64, ports: usize, needed: u64 },
    #[error(
        "link {link:?}, which {sending} flows cross with their data and {answering} with their answers, cannot be kept from PAUSE frames: {error}"
    )]
    NoWindow { link: String, sending: u64, answering: u64, error: TooManyFlows },
    #[error(
        "on link {link:?}, {flows} flows with static windows have {window} bytes each; receivers answer every {packets} packets, which are more"
    )]
    UnansweredWindow { link: String, flows: u64, window: u64, packets: u64 },
    #[error(transparent)]
    Telemetry(#[from] FormatError),
    #[error(
        "at {time}: link {link:?} lost a packet of flow {flow} although PFC is on; the headroom of its port is too small"
    )]
    LostDespitePfc { time: Time, link: String, flow: usize },
    #[error("deadlock at {time}: each of these links waits for the next, and the last for the first: {}", .cycle.join(", "))]
    Deadlock { time: Time, cycle: Vec<String> },
    #[error(
        "flow {flow} from {from:?} to {to:?} stands still at {time} with {left} of {bytes} bytes to go"
    )]
    Stalled { flow: usize, from: String, to: String, time: Time, left: u64, bytes: u64 },
    #[error(
        "at {time}: flow {flow} sent {sent} bytes, {under_way} are under way, {received} arrived, {acknowledged} are acknowledged; they must add up"
    )]
    BytesLost {
        flow: usize,
        time: Time,
        sent: u64,
        under_way: u64,
        received: u64,
        acknowledged: u64,
    },
    #[error(
        "at {time}: the buffer of switch {switch:?} holds {held} bytes, and {waiting} wait; they must agree, and be 0 at the end"
    )]
    BufferAstray { switch: String, time: Time, held: u64, waiting: u64 },
    #[error("link {link:?} carried {bytes} bytes by {time}, more than its rate of {rate} allows")]
    OverCapacity { link: String, bytes: u64, time: Time, rate: Rate },
    #[error("flow {flow} has policy {policy}; there are {policies}, counted from 0")]
    UnknownPolicy { flow: usize, policy: usize, policies: usize },
    #[error("message {message} is of flow {flow}; there are {flows}, counted from 0")]
    UnknownFlow { message: usize, flow: usize, flows: usize },
    #[error("message {message}, of flow {flow}, has 0 bytes; it must have at least 1")]
    EmptyMessage { message: usize, flow: usize },
    #[error("skipping within {tolerance}; the tolerance must be at least 0 and below 1")]
    SkipTolerance { tolerance: f64 },
    #[error("skipping after {cycles} cycles; it must be from 2 to {limit}")]
    SkipCycles { cycles: u32, limit: u32 },
    #[error("samples every {interval}; it must be above 0 ps")]
    NoInterval { interval: Duration },
}

impl PacketRunError {
    /// The same that much later.
    pub(crate) fn later(mut self, span: Duration) -> Self {
        if let Self::LostDespitePfc { time, .. }
        | Self::Deadlock { time, .. }
        | Self::Stalled { time, .. }
        | Self::BytesLost { time, .. }
        | Self::BufferAstray { time, .. } = &mut self
        {
            *time += span;
        }
        self
    }

    /// Whether the run was under way and one of its own checks failed, as against input that cannot be run.
    pub fn is_failed_check(&self) -> bool {
        matches!(
            self,
            Self::LostDespitePfc { .. }
                | Self::Deadlock { .. }
                | Self::Stalled { .. }
                | Self::BytesLost { .. }
                | Self::BufferAstray { .. }
                | Self::OverCapacity { .. }
                | Self::Training(_)
        )
    }
}
