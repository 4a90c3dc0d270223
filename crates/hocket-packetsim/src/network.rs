//! Hosts, switches and the links between them, each part with its own state.

pub(crate) mod clock;
pub(crate) mod credits;
pub(crate) mod hosts;
pub(crate) mod medium;
pub(crate) mod paths;
pub(crate) mod switches;
pub(crate) mod telemetry;
pub(crate) mod wires;

use prefetch_index::prefetch_index;

use crate::model::PRIORITIES;
use crate::network::hosts::Hosts;
use crate::network::medium::Medium;
use crate::network::switches::Switches;
use crate::parts::messages::Poster;
use crate::parts::packet::{Kind, Packet};
use crate::parts::ring::prefetch;

/// The whole network. Its parts interact only by passing packets and frames to each other and through the shared
/// [`Medium`].
pub(crate) struct Network<'a> {
    pub(crate) medium: Medium<'a>,
    pub(crate) switches: Switches,
    pub(crate) hosts: Hosts,
}

impl Network<'_> {
    /// Queues a message of `bytes` on a flow; `poster` is notified when it is complete.
    pub(crate) fn post(&mut self, flow: u32, bytes: u64, poster: Poster) {
        self.hosts.post(&mut self.medium, flow, bytes, poster);
    }

    /// Handles the end of a packet's transmission at a port.
    #[inline]
    pub(crate) fn free(&mut self, port: u32) {
        self.medium.wires.ports[port as usize].free_is_scheduled = false;
        self.try_send(port);
    }

    /// Sends the next packet of a port if it may send now; if it is busy, schedules an event for when it becomes free.
    pub(crate) fn try_send(&mut self, port: u32) {
        if self.medium.wires.ports[port as usize].from_host {
            self.hosts.try_send(&mut self.medium, port);
        } else {
            self.switches.try_send(&mut self.medium, port);
        }
    }

    /// Handles a PAUSE or resume frame that arrived by `link`. It applies to the port that feeds the opposite direction.
    pub(crate) fn take_pause(&mut self, link: u32, frame: &Packet) {
        let port = link ^ 1;
        let class = frame.priority();
        let is_pause = frame.kind == Kind::Pause;
        self.medium.recorder.pause(self.medium.clock.now, port, class as u8, is_pause);
        let state = &mut self.medium.wires.ports[port as usize];
        // A packet that has begun to leave is not cut off: a PAUSE takes effect from the next one on.
        if is_pause {
            state.paused |= 1 << class;
        } else {
            state.paused &= !(1 << class);
            self.try_send(port);
        }
    }

    /// Prefetches the memory that the next events will need, in two stages: ten events ahead the packet or port, five events
    /// ahead what that packet points to. Without it, a run with a hundred hosts mostly waits for memory.
    #[inline]
    pub(crate) fn anticipate(&self) {
        let Medium { clock, wires, .. } = &self.medium;
        if let Some(event) = clock.upcoming(10) {
            let port = event.which() as usize;
            if event.is_arrival() {
                if let Some(next) = wires.flights[port].front() {
                    prefetch(&next.at);
                    next.packet.prefetch();
                }
            } else if event.is_of_a_port() {
                wires.flights[port].prefetch_back();
                let state = &wires.ports[port];
                if !state.from_host {
                    let class = state.waiting.trailing_zeros() as usize % PRIORITIES;
                    self.switches.prefetch_next(port as u32, class);
                } else {
                    self.hosts.prefetch_next(port as u32);
                }
            }
        }
        if let Some(event) = clock.upcoming(5)
            && event.is_arrival()
            && let Some(next) = wires.flights[event.which() as usize].front()
        {
            if wires.ports[event.which() as usize].to_host {
                self.hosts.prefetch_for(&next.packet);
            } else {
                prefetch_index(&wires.routes, next.packet.route as usize);
            }
        }
    }
}
