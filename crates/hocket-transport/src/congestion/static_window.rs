//! A window set once, from the known and repeating traffic pattern of the job, so that no PAUSE frame is ever sent: the
//! optimised control that HOTI'22 (sections IV-E and VI) demands. The flow is paced at line rate; the
//! [`Sender`](crate::Sender) keeps the bytes in flight (sent and not acknowledged) within the window.

use hocket_des::{Duration, Rate};
use thiserror::Error;

use super::limits::{ParameterError, require};

/// The window of each flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Payload bytes that may be in flight, even if that causes PAUSE frames. By default, each flow gets the [`window`] of
    /// its own path.
    pub window: Option<u64>,
}

impl Parameters {
    /// Checks that the window allows sending.
    ///
    /// # Errors
    /// If the window is zero.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let window = self.window.unwrap_or(u64::MAX);
        require(window > 0, "static-window", "window", &window, &"above 0 bytes")
    }
}

/// Even the smallest window could cause PAUSE frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "static-window: {flows} flows with a packet of {wire} B each need a PAUSE threshold of at least {needed} B; \
     it is {xoff} B"
)]
pub struct TooManyFlows {
    /// The number of flows that share the bottleneck.
    pub flows: u64,
    /// Bytes of a full packet on the wire.
    pub wire: u64,
    /// The PAUSE threshold.
    pub xoff: u64,
    /// The smallest sufficient PAUSE threshold.
    pub needed: u64,
}

/// The largest useful window, in payload bytes, with which `flows` flows never cause a PAUSE frame at a switch that sends
/// one when its buffer contains `xoff_bytes` from one ingress port. A full packet has `payload` bytes, or `wire` bytes with
/// its headers. `flows` counts every flow whose data enters by that port; a flow whose acknowledgements alone do counts by
/// their size relative to a packet. With dynamic thresholds, `xoff_bytes` is the threshold while all these bytes are in the
/// buffer.
///
/// This is why no PAUSE can follow. Until the sender receives the acknowledgement, a packet is in the network either as
/// itself or as its acknowledgement, which is smaller. A sender stops when its payload in flight reaches the window, which
/// is one byte more than (k − 1) × `payload`. Before the last packet that it sent, at most k − 1 packets were in flight, of
/// which at most one was short (the end of a message no shorter than the window); with the last packet they are k. Even if
/// all these packets of all flows were in one buffer, having entered by one port, they would be `flows` × k × `wire` bytes,
/// and k is chosen such that this is below `xoff_bytes`.
///
/// A window above what fills the path, `bottleneck` × `base_rtt`, only builds queues, so k is at most that number of bytes
/// in packets, rounded up.
///
/// # Errors
/// If even a window of one packet may reach `xoff_bytes`.
///
/// # Panics
/// If there are no flows, or packets without payload.
pub fn window(
    base_rtt: Duration,
    bottleneck: Rate,
    flows: u64,
    xoff_bytes: u64,
    payload: u64,
    wire: u64,
) -> Result<u64, TooManyFlows> {
    assert!(flows > 0 && payload > 0 && wire >= payload, "flows send packets of some bytes");
    let packets_each = xoff_bytes.saturating_sub(1) / flows / wire;
    if packets_each == 0 {
        let needed = flows.saturating_mul(wire).saturating_add(1);
        return Err(TooManyFlows { flows, wire, xoff: xoff_bytes, needed });
    }
    let filling = bottleneck.bytes_in(base_rtt).get().div_ceil(payload).max(1);
    Ok((filling.min(packets_each) - 1) * payload + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_ns(2080);
    const LINE: Rate = Rate::from_gbps(200);

    #[test]
    fn few_flows_get_windows_that_just_fill_the_path() {
        // 200 Gb/s × 2,080 ns = 52,000 bytes: 51 packets and one byte, so a 52nd packet may follow.
        assert_eq!(window(RTT, LINE, 7, 2_000_000, 1_000, 1_036), Ok(51_001));
    }

    #[test]
    fn many_flows_divide_the_buffer_below_xoff() {
        // 99,999 bytes are enough for 13 packets of 1,036 bytes from each of 7 flows.
        assert_eq!(window(RTT, LINE, 7, 100_000, 1_000, 1_036), Ok(12_001));
    }

    #[test]
    fn a_threshold_that_is_too_low_is_rejected_with_the_one_needed() {
        let error = window(RTT, LINE, 100, 100_000, 1_000, 1_036).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "static-window: 100 flows with a packet of 1036 B each need a PAUSE threshold of at least 103601 B; \
             it is 100000 B"
        );
        assert_eq!(window(RTT, LINE, 100, error.needed, 1_000, 1_036), Ok(1));
    }

    /// Wire bytes in flight when a sender that may start a packet while less than `window` is in flight sends messages of
    /// `message` bytes and receives no acknowledgement.
    fn stuck(window: u64, message: u64, payload: u64, header: u64, first: u64) -> u64 {
        let (mut under_way, mut wire, mut left) = (0, 0, first);
        while under_way < window {
            let packet = left.min(payload);
            under_way += packet;
            wire += packet + header;
            left = if left == packet { message } else { left - packet };
        }
        wire
    }

    proptest! {
        #[test]
        fn all_bytes_that_can_be_in_flight_are_below_xoff(
            flows in 1_u64..500,
            xoff in 0_u64..4_000_000,
            payload in 64_u64..4_000,
            header in 1_u64..100,
            extra in 0_u64..100_000,
            start in 0_u64..1_000_000,
        ) {
            if let Ok(window) = window(RTT, LINE, flows, xoff, payload, payload + header) {
                let message = window + extra;
                let wire = stuck(window, message, payload, header, 1 + start % message);
                prop_assert!(flows * wire < xoff);
            }
        }
    }
}
