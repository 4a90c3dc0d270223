//! What hosts and switches share: the time, the links between them, and what is written down on the way.

use crate::model::Model;
use crate::network::clock::Clock;
use crate::network::telemetry::Telemetry;
use crate::network::wires::Wires;
use crate::parts::packet::Packet;
use crate::records::Recorder;

/// Everything that packets meet between hosts and switches.
pub(crate) struct Medium<'a> {
    pub(crate) model: &'a Model,
    pub(crate) clock: Clock,
    pub(crate) wires: Wires,
    pub(crate) telemetry: Telemetry,
    pub(crate) recorder: Recorder,
}

impl Medium<'_> {
    /// A packet leaves by a port that is not busy.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, out: u32, packet: Packet) {
        self.wires.transmit(&mut self.clock, out, packet);
    }

    /// Sees to it that a port is looked at when it is free.
    #[inline(always)]
    pub(crate) fn look_when_free(&mut self, port: u32) {
        self.wires.look_when_free(&mut self.clock, port);
    }

    /// Whether a port may send now; if it is busy, it is looked at when it is free.
    #[inline(always)]
    pub(crate) fn may_send(&mut self, port: u32) -> bool {
        let state = &self.wires.ports[port as usize];
        if !state.is_busy(self.clock.now, self.clock.order) {
            return true;
        }
        if !state.looks_when_free && state.is_up {
            self.look_when_free(port);
        }
        false
    }
}
