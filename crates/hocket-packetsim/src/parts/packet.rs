//! Packets: 24 bytes each, copied from queue to link to queue.

use hocket_des::Time;

use crate::parts::ring::prefetch;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Ack,
    /// Requests retransmission from `sequence` on.
    Nack,
    /// DCQCN's congestion notification.
    Cnp,
    /// Stops the sending of `priority`.
    Pause,
    /// Resumes the sending of `priority`.
    Resume,
    /// Allows the sender to send all bytes of the flow before `sequence`.
    Grant,
    /// A packet of any kind on a link that failed.
    Lost,
}

/// The meaning of a packet's `meta`, which receivers echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// When the packet was sent, in nanoseconds modulo 2^32 (4.3 seconds).
    Stamp,
    /// In-band telemetry (HPCC): the place of its hops, and in the lowest byte their number.
    Hops,
    /// The load of the most loaded link, in PINT's code.
    Load,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    /// The index of the next link in the table of routes.
    pub(crate) route: u32,
    /// For data the position of its first byte in the flow, otherwise as the kind defines. Only the lower half of 64 bits;
    /// [`Self::sequence`] restores the rest.
    sequence: u32,
    /// See [`Header`].
    pub(crate) meta: u32,
    /// Bytes on the wire.
    pub(crate) wire: u16,
    /// Bytes of data.
    pub(crate) payload: u16,
    /// The ingress port of the packet at its current switch.
    pub(crate) ingress: u16,
    pub(crate) kind: Kind,
    /// Bits 0 to 2: priority. The others are the flags below.
    flags: u8,
}

// Three bits for eight priorities, three flags, and two bits for the header: a packet has one byte for all of them.
const PRIORITY: u8 = 0b0000_0111;
const MARKED: u8 = 0b0000_1000;
const ENDS_MESSAGE: u8 = 0b0001_0000;
const ECHO: u8 = 0b0010_0000;
const HEADER_SHIFT: u8 = 6;

impl Packet {
    pub(crate) fn new(kind: Kind, flow: u32, route: u32, wire: u16, priority: u8) -> Self {
        Self {
            sequence: 0,
            meta: 0,
            flow,
            route,
            wire,
            payload: 0,
            ingress: 0,
            kind,
            flags: priority & PRIORITY,
        }
    }

    /// The position in the flow, given one `near` it: at most 2 GB away, which exceeds what any network holds of one flow.
    #[inline]
    pub(crate) fn sequence(&self, near: u64) -> u64 {
        let ahead = self.sequence.wrapping_sub(near as u32).cast_signed();
        near.wrapping_add_signed(ahead.into())
    }

    #[inline]
    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence as u32;
    }

    /// When the packet was sent, if its header is [`Header::Stamp`].
    #[inline]
    pub(crate) fn sent_at(&self, now: Time) -> Time {
        // Wrapping subtraction is right as long as the packet is younger than 4.3 seconds.
        let ago_ns = stamp(now).wrapping_sub(self.meta);
        Time::from_ps(now.as_ps().saturating_sub(u64::from(ago_ns) * 1_000))
    }

    /// Prefetches the packet, which may span two cache lines.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.flow);
        prefetch(&self.flags);
    }

    #[inline]
    pub(crate) fn priority(&self) -> usize {
        usize::from(self.flags & PRIORITY)
    }

    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.flags & MARKED != 0
    }

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.flags |= MARKED;
    }

    #[inline]
    pub(crate) fn ends_message(&self) -> bool {
        self.flags & ENDS_MESSAGE != 0
    }

    #[inline]
    pub(crate) fn set_ends_message(&mut self, ends: bool) {
        self.flags = self.flags & !ENDS_MESSAGE | if ends { ENDS_MESSAGE } else { 0 };
    }

    /// Whether the packet that this one acknowledges was marked. A mark on the acknowledgement itself has no effect.
    #[inline]
    pub(crate) fn echoes_mark(&self) -> bool {
        self.flags & ECHO != 0
    }

    #[inline]
    pub(crate) fn set_echo(&mut self, marked: bool) {
        self.flags = self.flags & !ECHO | if marked { ECHO } else { 0 };
    }

    #[inline]
    pub(crate) fn header(&self) -> Header {
        match self.flags >> HEADER_SHIFT {
            0 => Header::Stamp,
            1 => Header::Hops,
            _ => Header::Load,
        }
    }

    #[inline]
    pub(crate) fn set_header(&mut self, header: Header) {
        self.flags = self.flags & !(0b11 << HEADER_SHIFT) | (header as u8) << HEADER_SHIFT;
    }
}

/// The time stamp of a packet that leaves at `now`.
#[inline]
pub(crate) fn stamp(now: Time) -> u32 {
    (now.as_ps() / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_24_bytes() {
        assert_eq!(size_of::<Packet>(), 24);
    }

    #[test]
    fn four_bytes_restore_a_sequence_beyond_four_gigabytes() {
        let mut packet = Packet::new(Kind::Ack, 0, 0, 0, 0);
        for (sequence, near) in
            [(5_000_000_000, 4_999_000_000), ((1 << 32) + 3, (1 << 32) - 3), (7, 7), (0, 9)]
        {
            packet.set_sequence(sequence);
            assert_eq!(packet.sequence(near), sequence);
        }
    }
}
