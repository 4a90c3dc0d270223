//! A flow at both of its ends: what is needed for every packet, and apart from it what is not.

use std::num::NonZeroU32;

use hocket_des::Rate;
use hocket_transport::{Control, Path, PhaseProgress, Receiver, Sender};

use crate::parts::packet::Header;

/// A flow at its sender, in two cache lines.
#[repr(align(128))]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    /// Acknowledged up to here, the oldest message is complete.
    pub(crate) milestone: u64,
    pub(crate) route: u32,
    pub(crate) nic: u32,
    pub(crate) slot: u32,
    pub(crate) policy: u16,
    /// Data in a full packet.
    pub(crate) mtu: u16,
    /// Bytes that a packet has beside its data.
    pub(crate) overhead: u16,
    /// Bytes of the last packet on the wire.
    pub(crate) last_wire: u16,
    pub(crate) priority: u8,
    pub(crate) header: Header,
    pub(crate) moves_next_send: bool,
    /// Whether the control looks at acknowledgements.
    pub(crate) hears_acks: bool,
    /// Whether the control wants to know how far the job's phase is.
    pub(crate) is_adaptive: bool,
}

/// A flow's congestion control, and the path that it needs to know: two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Steering {
    pub(crate) control: Control,
    pub(crate) path: Path,
}

/// What is seldom needed of a flow at its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Where the phase of its job began in the stream of bytes, and what is to be sent in it.
    pub(crate) phase: PhaseProgress,
    /// Of a sprayed flow: its place in the table of those, counted from 1.
    pub(crate) spray: Option<NonZeroU32>,
}

/// A flow at its receiver, in one cache line.
#[repr(align(64))]
pub(crate) struct Return {
    pub(crate) receiver: Receiver,
    pub(crate) route: u32,
    /// The port by which answers leave.
    pub(crate) nic: u32,
    pub(crate) marks: u32,
    pub(crate) wire: u16,
    pub(crate) priority: u8,
    /// Who wants to be told of what: [`NOTIFIES`], [`TELLS`].
    pub(crate) wants: u8,
}

/// The sender wants to be told of marks by packets of their own.
pub(crate) const NOTIFIES: u8 = 1;
/// A training job wants to be told when all of a message has arrived.
pub(crate) const TELLS: u8 = 2;

impl Flow {
    /// How far the phase of its job is, for a control that wants to know.
    #[inline]
    pub(crate) fn progress(&self, course: &Course) -> PhaseProgress {
        if !self.is_adaptive {
            return PhaseProgress::default();
        }
        PhaseProgress { sent: self.sender.sent() - course.phase.sent, total: course.phase.total }
    }

    /// Sends data no faster than this. On the wire it takes headers besides, so that on an idle network a phase lasts as long as
    /// its profile says, up to where the NIC's own rate is reached.
    pub(crate) fn set_data_rate(&mut self, rate: Rate) {
        let (mtu, overhead) = (u128::from(self.mtu), u128::from(self.overhead));
        let bps = (u128::from(rate.as_bps()) * (mtu + overhead)).div_ceil(mtu);
        let bps = u64::try_from(bps).expect("a phase has at most 1 Pbps");
        self.sender.set_cap(Rate::from_bps(bps));
    }
}
