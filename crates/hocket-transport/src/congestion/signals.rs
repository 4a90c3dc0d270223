//! What a control is told: the way of its flow, and what comes back from the network.

use hocket_des::{Duration, Rate, Time};

use crate::telemetry::{Format, Hop};

/// What does not change about the way of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The rate of the sender's NIC, where a flow starts and which it never exceeds.
    pub line_rate: Rate,
    /// Round-trip time of an idle network.
    pub base_rtt: Duration,
    /// Bytes that fill the path: line rate of the slowest link × `base_rtt`.
    pub window: u64,
}

/// What one acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When it arrived.
    pub now: Time,
    /// Bytes of the flow acknowledged so far, this one included.
    pub acknowledged: u64,
    /// Bytes of the flow sent so far.
    pub sent: u64,
    /// Whether the acknowledged packet was marked by ECN.
    pub marked: bool,
    /// When the acknowledged packet was sent.
    pub stamp: Time,
    /// What the switches on the way wrote (HPCC); empty otherwise.
    pub telemetry: &'a [Hop],
    /// How `telemetry` reads in this fabric.
    pub format: &'a Format,
    /// What the switches on the way wrote (PINT); 0 otherwise.
    pub load: u16,
}

/// How far the flow's present communication phase is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseProgress {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes to send in all.
    pub total: u64,
}
