//! Errors that keep a run from starting or end it.

use hocket_des::{Duration, Rate, Time};
use hocket_scenario::RouteError;
use hocket_scenario::closed_loop::TooLong;
use hocket_scenario::execution::FailedCheck;
use hocket_transport::congestion::ParameterError;
use hocket_transport::congestion::static_window::TooManyFlows;
use hocket_transport::telemetry::FormatError;
use thiserror::Error;

use crate::model::ModelError;

/// Why a run could not start, or which of its self-checks failed.
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
    #[error(
        "flow {flow} is sprayed, but {policy} compares the telemetry of successive packets, which must take the same path"
    )]
    SprayedTelemetry { flow: usize, policy: &'static str },
    #[error("change {change} names link {link}, but there are only {links}, counted from 0")]
    UnknownLink { change: usize, link: u32, links: usize },
    #[error(
        "change {change}: link {link:?} is set to {rate}; its rate must be above 0 and at most {limit}"
    )]
    ChangedRate { change: usize, link: String, rate: Rate, limit: Rate },
    #[error(transparent)]
    Training(#[from] FailedCheck),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error("flow {flow} goes from {node:?} to itself")]
    ToItself { flow: usize, node: String },
    #[error("flow {flow} has priority {priority}; it must be from 0 to 7")]
    Priority { flow: usize, priority: u8 },
    #[error(
        "flow {flow} crosses {hops} switches that write telemetry, but a packet has room for {limit}"
    )]
    TooManyHops { flow: usize, hops: usize, limit: usize },
    #[error(
        "the buffer of switch {switch:?} has {buffer} bytes, but headroom and reserves of its {ports} ports need {needed}"
    )]
    BufferTooSmall { switch: String, buffer: u64, ports: usize, needed: u64 },
    #[error(
        "no static window keeps link {link:?} free of PAUSE frames; it carries the data of {sending} flows and only the acknowledgements of {answering}: {error}"
    )]
    NoWindow { link: String, sending: u64, answering: u64, error: TooManyFlows },
    #[error(
        "on link {link:?}, {flows} flows with static windows have {window} bytes each, less than the {packets} packets that each acknowledgement waits for"
    )]
    UnansweredWindow { link: String, flows: u64, window: u64, packets: u64 },
    #[error(transparent)]
    Telemetry(#[from] FormatError),
    #[error(
        "at {time}: a packet of flow {flow} that arrived by link {link:?} was dropped although PFC is on; the headroom of the ingress port is too small"
    )]
    LostDespitePfc { time: Time, link: String, flow: usize },
    #[error("deadlock at {time}: each of these links waits for the next, the last one for the first: {}", .cycle.join(", "))]
    Deadlock { time: Time, cycle: Vec<String> },
    #[error(
        "flow {flow} from {from:?} to {to:?} made no further progress: at {time}, {left} of {bytes} bytes are still unacknowledged"
    )]
    Stalled { flow: usize, from: String, to: String, time: Time, left: u64, bytes: u64 },
    #[error(
        "at {time}: flow {flow} sent {sent} bytes, of which {under_way} are in flight, {received} arrived and {acknowledged} are acknowledged; these must add up"
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
        "at {time}: the buffer of switch {switch:?} accounts for {held} bytes, but {waiting} bytes are queued; they must agree, and be 0 at the end"
    )]
    BufferAstray { switch: String, time: Time, held: u64, waiting: u64 },
    #[error("by {time}, link {link:?} carried {bytes} bytes, more than its rate of {rate} allows")]
    OverCapacity { link: String, bytes: u64, time: Time, rate: Rate },
    #[error("flow {flow} names policy {policy}, but there are only {policies}, counted from 0")]
    UnknownPolicy { flow: usize, policy: usize, policies: usize },
    #[error("message {message} names flow {flow}, but there are only {flows}, counted from 0")]
    UnknownFlow { message: usize, flow: usize, flows: usize },
    #[error("message {message} of flow {flow} has 0 bytes; it must have at least 1")]
    EmptyMessage { message: usize, flow: usize },
    #[error("the tolerance for skipping ahead is {tolerance}; it must be at least 0 and below 1")]
    SkipTolerance { tolerance: f64 },
    #[error("the number of cycles to compare is {cycles}; it must be from 2 to {limit}")]
    SkipCycles { cycles: u32, limit: u32 },
    #[error("the sampling interval is {interval}; it must be above 0 ps")]
    NoInterval { interval: Duration },
}

impl PacketRunError {
    /// The same error with its time moved `span` later: the simulated time that was skipped before it.
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

    /// Whether a self-check of a running simulation failed, as opposed to invalid input.
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
