//! A window set once, from the known and repeating pattern of the job, so that no PAUSE frame is ever sent:
//! what HOTI'22 (sections IV-E and VI) asks of an optimised control. The flow paces at line rate; the driver keeps the
//! bytes in flight (sent and not acknowledged) within the window.

use hocket_des::{Duration, Rate};
use thiserror::Error;

use super::limits::{ParameterError, require};

/// The window of each flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Payload bytes that may be under way, whatever that leads to. Without it, each flow gets the [`window`] of its
    /// own path.
    pub window: Option<u64>,
}

impl Parameters {
    /// Whether anything can be sent at all.
    ///
    /// # Errors
    /// If the window is zero.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let window = self.window.unwrap_or(u64::MAX);
        require(window > 0, "static-window", "window", &window, &"above 0 bytes")
    }
}

/// No window is small enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "static-window: {flows} flows with a packet of {wire} B each need a buffer that sends PAUSE at {needed} B \
     or later; this one does at {xoff} B"
)]
pub struct TooManyFlows {
    /// Flows that meet at the bottleneck.
    pub flows: u64,
    /// Bytes of a full packet on the wire.
    pub wire: u64,
    /// Where PAUSE begins.
    pub xoff: u64,
    /// Where it would have to begin.
    pub needed: u64,
}

/// The window, in payload bytes, with which `flows` flows fill a bottleneck of rate `bottleneck` as far as they can
/// without ever causing a PAUSE frame at a switch that sends one when `xoff_bytes` of one ingress are in its
/// buffer. A full packet has `payload` bytes, and `wire` bytes with its headers. `flows` counts every flow whose data
/// come in by that ingress, and those whose acknowledgements do by their part of a packet. Where thresholds are dynamic, `xoff_bytes` is the one that holds
/// while all these bytes are in the buffer.
///
/// No PAUSE can follow. A packet is in the network as itself or as its acknowledgement, which is smaller, until the
/// sender hears of it, and a sender whose payload under way reaches its window stops. The window is one byte more than
/// (k − 1) × `payload`: before the last packet it sent, at most k − 1 packets were under way, full ones, or full ones and
/// a short one (the end of a message no shorter than the window); with the last, k. Even if all of them, of all flows,
/// stood in one buffer, having come in by one port, they are `flows` × k × `wire` bytes, and k is chosen such that this
/// is below `xoff_bytes`.
///
/// A window above what fills the path, `bottleneck` × `base_rtt`, only makes queues: k is at most that, in whole packets
/// rounded up.
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
    fn few_flows_fill_the_path_and_no_more() {
        // 200 Gb/s × 2,080 ns = 52,000 bytes: after 51 packets there may be one more.
        assert_eq!(window(RTT, LINE, 7, 2_000_000, 1_000, 1_036), Ok(51_001));
    }

    #[test]
    fn many_flows_divide_the_buffer_below_xoff() {
        // 99,999 bytes hold 13 packets of 1,036 bytes of each of 7 flows.
        assert_eq!(window(RTT, LINE, 7, 100_000, 1_000, 1_036), Ok(12_001));
    }

    #[test]
    fn too_small_a_buffer_is_refused_with_what_it_would_need() {
        let error = window(RTT, LINE, 100, 100_000, 1_000, 1_036).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "static-window: 100 flows with a packet of 1036 B each need a buffer that sends PAUSE at 103601 B \
             or later; this one does at 100000 B"
        );
        assert_eq!(window(RTT, LINE, 100, error.needed, 1_000, 1_036), Ok(1));
    }

    /// Wire bytes under way when a sender that may start a packet while less than `window` is under way
    /// sends messages of `message` bytes, and hears of nothing.
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
        fn all_that_can_be_under_way_is_below_xoff(
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
