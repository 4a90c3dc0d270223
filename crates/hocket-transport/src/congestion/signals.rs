//! Inputs of a congestion control: the path of its flow and the feedback of the network.

use hocket_des::{Duration, Rate, Time};

use crate::telemetry::{Format, Hop};

/// The constant properties of a flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The rate of the sender's NIC, at which a flow starts and which it never exceeds.
    pub line_rate: Rate,
    /// Round-trip time of an idle network.
    pub base_rtt: Duration,
    /// Bytes that fill the path: the rate of its slowest link × `base_rtt`.
    pub window: u64,
}

/// The feedback in one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When it arrived.
    pub now: Time,
    /// Bytes of the flow acknowledged so far, including by this one.
    pub acknowledged: u64,
    /// Bytes of the flow sent so far.
    pub sent: u64,
    /// Whether the acknowledged packet was marked by ECN.
    pub marked: bool,
    /// When the acknowledged packet was sent.
    pub stamp: Time,
    /// Telemetry of the switches on the path (HPCC); empty for other controls.
    pub telemetry: &'a [Hop],
    /// The format of `telemetry` in this fabric.
    pub format: &'a Format,
    /// The encoded load of the path's most loaded port (PINT); 0 for other controls.
    pub load: u16,
}

/// The progress of a flow's current communication phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseProgress {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes to send in all.
    pub total: u64,
}
