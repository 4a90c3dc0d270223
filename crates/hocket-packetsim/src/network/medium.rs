//! What hosts and switches share: the clock, the links between them, telemetry, and the recorder.

use crate::model::Model;
use crate::network::clock::Clock;
use crate::network::telemetry::Telemetry;
use crate::network::wires::Wires;
use crate::parts::packet::Packet;
use crate::records::Recorder;

/// Everything between hosts and switches.
pub(crate) struct Medium<'a> {
    pub(crate) model: &'a Model,
    pub(crate) clock: Clock,
    pub(crate) wires: Wires,
    pub(crate) telemetry: Telemetry,
    pub(crate) recorder: Recorder,
}

impl Medium<'_> {
    /// Sends a packet by a port that is not busy.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, out: u32, packet: Packet) {
        self.wires.transmit(&mut self.clock, out, packet);
    }

    /// Schedules an event for when a port becomes free, unless there is one.
    #[inline(always)]
    pub(crate) fn schedule_free(&mut self, port: u32) {
        self.wires.schedule_free(&mut self.clock, port);
    }

    /// Whether a port may send now; if it is busy, schedules an event for when it becomes free.
    #[inline(always)]
    pub(crate) fn may_send(&mut self, port: u32) -> bool {
        let state = &self.wires.ports[port as usize];
        if !state.is_busy(self.clock.now, self.clock.order) {
            return true;
        }
        // A port that is down is busy for ever; it is served when its link comes back.
        if !state.free_is_scheduled && state.is_up {
            self.schedule_free(port);
        }
        false
    }
}
