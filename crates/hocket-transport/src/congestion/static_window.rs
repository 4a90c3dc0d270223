//! A window set once, from the known and repeating pattern of the job, so that no PAUSE frame is ever sent:
//! what HOTI'22 (sections IV-E and VI) asks of an optimised control. The flow paces at line rate; the driver keeps the
//! bytes in flight (sent and not acknowledged) within [`Parameters::window`].

use hocket_des::{Bytes, Duration, Rate};
use thiserror::Error;

use super::{ParameterError, require};

/// The window of each flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Payload bytes that may be under way.
    pub window: u64,
}

impl Parameters {
    /// Whether anything can be sent at all.
    ///
    /// # Errors
    /// If the window is zero.
    pub fn validate(&self) -> Result<(), ParameterError> {
        require(self.window > 0, "static-window", "window", &self.window, &"above 0 bytes")
    }
}

/// No window is small enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "static-window: {flows} flows at one bottleneck put one packet of {packet} B each into a buffer \
     that sends PAUSE at {xoff} B; that needs at least {needed} B"
)]
pub struct TooManyFlows {
    /// Flows that meet at the bottleneck.
    pub flows: u64,
    /// Wire bytes of a full packet.
    pub packet: u64,
    /// Where PAUSE begins.
    pub xoff: u64,
    /// Where it would have to begin.
    pub needed: u64,
}

/// The window, in bytes, with which `flows` flows fill a bottleneck of rate `bottleneck` if that can be had, and never
/// cause a PAUSE frame at a switch that sends one when `xoff_bytes` of an ingress are in its buffer. `mtu` is the wire size
/// of a full packet.
///
/// No PAUSE can follow: a switch holds only bytes that were sent and not yet acknowledged. A flow with
/// window W has at most W + `mtu` of those (a sender is blocked once W bytes are under way, so that its last packet may
/// overshoot by less than one). All `flows` flows together, even if all came in by one port and none left, therefore
/// put at most `flows` × (W + `mtu`) bytes there, and W is chosen such that this is below `xoff_bytes`. That counts wire bytes
/// for payload: W is reckoned in wire bytes, and a window of as many payload bytes would be larger by the headers, so
/// callers whose windows count payload scale W by payload ÷ `mtu`.
///
/// A window above the bytes that fill the path, bottleneck × `base_rtt`, only makes queues: W is at most that.
///
/// # Errors
/// If not even a window of one byte keeps below `xoff_bytes`.
///
/// # Panics
/// If there are no flows.
pub fn window(
    base_rtt: Duration,
    bottleneck: Rate,
    flows: u64,
    xoff_bytes: u64,
    mtu: u64,
) -> Result<u64, TooManyFlows> {
    assert!(flows > 0, "a bottleneck is where flows meet");
    // The largest W with flows × (W + mtu) < xoff.
    let each = xoff_bytes.saturating_sub(1) / flows;
    if each <= mtu {
        let needed = flows.saturating_mul(mtu + 1).saturating_add(1);
        return Err(TooManyFlows { flows, packet: mtu, xoff: xoff_bytes, needed });
    }
    let filling = bottleneck.bytes_in(base_rtt).max(Bytes::new(mtu)).get();
    Ok(filling.min(each - mtu))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_ns(2080);

    #[test]
    fn few_flows_fill_the_path_and_no_more() {
        // 200 Gb/s × 2,080 ns = 52,000 bytes.
        assert_eq!(window(RTT, Rate::from_gbps(200), 7, 2_000_000, 1_036), Ok(52_000));
    }

    #[test]
    fn many_flows_divide_the_buffer_below_xoff() {
        // (100,000 − 1) / 7 = 14,285 each, less one packet.
        assert_eq!(window(RTT, Rate::from_gbps(200), 7, 100_000, 1_036), Ok(13_249));
    }

    #[test]
    fn too_small_a_buffer_is_refused_with_what_it_would_need() {
        let error = window(RTT, Rate::from_gbps(200), 100, 100_000, 1_036).expect_err("too many");
        assert_eq!(error.needed, 103_701);
        assert_eq!(window(RTT, Rate::from_gbps(200), 100, 103_701, 1_036), Ok(1));
    }

    proptest! {
        #[test]
        fn all_that_can_be_under_way_is_below_xoff(
            flows in 1_u64..10_000,
            xoff in 0_u64..40_000_000,
            mtu in 64_u64..9_000,
            gbps in 1_u64..800,
        ) {
            if let Ok(window) = window(RTT, Rate::from_gbps(gbps), flows, xoff, mtu) {
                prop_assert!(window > 0);
                prop_assert!(flows * (window + mtu) < xoff);
            }
        }
    }
}
