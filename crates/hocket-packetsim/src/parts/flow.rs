//! The state of a flow at its sender and receiver. State that every packet needs is separate from the rest, to fill few
//! cache lines.

use std::num::NonZeroU32;

use hocket_des::Rate;
use hocket_transport::{Control, Path, PhaseProgress, Receiver, Sender};

use crate::parts::packet::Header;

/// The state of a flow at its sender that every packet needs, in two cache lines.
#[repr(align(128))]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    /// Where the oldest message ends: it is complete when everything before is acknowledged.
    pub(crate) milestone: u64,
    pub(crate) route: u32,
    pub(crate) nic: u32,
    pub(crate) slot: u32,
    pub(crate) policy: u16,
    /// Data in a full packet.
    pub(crate) mtu: u16,
    /// Bytes of headers in a data packet.
    pub(crate) overhead: u16,
    /// Size of the last packet on the wire.
    pub(crate) last_wire: u16,
    pub(crate) priority: u8,
    pub(crate) header: Header,
    pub(crate) moves_next_send: bool,
    /// Whether congestion control reacts to acknowledgements.
    pub(crate) uses_acks: bool,
    /// Whether congestion control depends on the progress of the job's phase.
    pub(crate) is_adaptive: bool,
}

/// The congestion state of a flow: its control and the path that the control refers to, in two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct CongestionState {
    pub(crate) control: Control,
    pub(crate) path: Path,
}

/// Cold sender state: what few packets need of a flow at its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderState {
    /// The current phase of its job: where it began in the flow's stream of bytes, and its total bytes.
    pub(crate) phase: PhaseProgress,
    /// For a sprayed flow: its place in the table of sprayed flows, counted from 1.
    pub(crate) spray: Option<NonZeroU32>,
}

/// The state of a flow at its receiver, in one cache line.
#[repr(align(64))]
pub(crate) struct ReceiverState {
    pub(crate) receiver: Receiver,
    pub(crate) route: u32,
    /// The port by which acknowledgements leave.
    pub(crate) nic: u32,
    pub(crate) marks: u32,
    /// Size of an acknowledgement on the wire.
    pub(crate) wire: u16,
    pub(crate) priority: u8,
    /// What the receiver reports: the bits [`REPORTS_MARKS`] and [`REPORTS_ARRIVALS`].
    pub(crate) reports: u8,
}

/// The receiver sends CNPs for marked packets.
pub(crate) const REPORTS_MARKS: u8 = 1;
/// The receiver reports to a training job when all of a message has arrived.
pub(crate) const REPORTS_ARRIVALS: u8 = 2;

impl Flow {
    /// The progress of the job's phase, for a control that depends on it; the default for all others.
    #[inline]
    pub(crate) fn progress(&self, sender_state: &SenderState) -> PhaseProgress {
        if !self.is_adaptive {
            return PhaseProgress::default();
        }
        PhaseProgress {
            sent: self.sender.sent() - sender_state.phase.sent,
            total: sender_state.phase.total,
        }
    }

    /// Limits the rate of data. The rate on the wire is higher by the headers, so that on an idle network a phase lasts as
    /// long as in its profile, unless that exceeds the NIC's own rate.
    pub(crate) fn set_data_rate(&mut self, rate: Rate) {
        let (mtu, overhead) = (u128::from(self.mtu), u128::from(self.overhead));
        // Rounded up, so that data is not slower than in the profile.
        let bps = (u128::from(rate.as_bps()) * (mtu + overhead)).div_ceil(mtu);
        let bps = u64::try_from(bps).expect("a phase has at most 1 Pbps");
        self.sender.set_cap(Rate::from_bps(bps));
    }
}
