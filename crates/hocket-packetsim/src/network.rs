//! Hosts, switches and the links between them, each part with its own state.

pub(crate) mod clock;
pub(crate) mod credits;
pub(crate) mod hosts;
pub(crate) mod medium;
pub(crate) mod switches;
pub(crate) mod telemetry;
pub(crate) mod ways;
pub(crate) mod wires;

use prefetch_index::prefetch_index;

use crate::model::PRIORITIES;
use crate::network::hosts::Hosts;
use crate::network::medium::Medium;
use crate::network::switches::Switches;
use crate::parts::messages::Poster;
use crate::parts::packet::{Kind, Packet};
use crate::parts::ring::expect;

/// The whole network. Its parts act on each other where packets and frames go from one to the other, and through what
/// they share.
pub(crate) struct Network<'a> {
    pub(crate) medium: Medium<'a>,
    pub(crate) switches: Switches,
    pub(crate) hosts: Hosts,
}

impl Network<'_> {
    /// Adds a message of `bytes` to what a flow has to send; `poster` is told when it is complete.
    pub(crate) fn post(&mut self, flow: u32, bytes: u64, poster: Poster) {
        self.hosts.post(&mut self.medium, flow, bytes, poster);
    }

    /// A port has finished sending a packet.
    #[inline]
    pub(crate) fn free(&mut self, port: u32) {
        self.medium.wires.ports[port as usize].looks_when_free = false;
        self.look(port);
    }

    /// Sends what a port may send now, or sees to it that the port is looked at when it is free.
    pub(crate) fn look(&mut self, port: u32) {
        if self.medium.wires.ports[port as usize].from_host {
            self.hosts.look(&mut self.medium, port);
        } else {
            self.switches.look(&mut self.medium, port);
        }
    }

    /// A PAUSE or a resume frame has come in by `link`: it is for the port that feeds the opposite direction.
    pub(crate) fn take_pause(&mut self, link: u32, frame: &Packet) {
        let port = link ^ 1;
        let class = frame.priority();
        let is_pause = frame.kind == Kind::Pause;
        self.medium.recorder.pause(self.medium.clock.now, port, class as u8, is_pause);
        let state = &mut self.medium.wires.ports[port as usize];
        if is_pause {
            state.paused |= 1 << class;
        } else {
            state.paused &= !(1 << class);
            self.look(port);
        }
    }

    /// Asks for what the next events will need, in steps: each reads what the one before it asked for. At a
    /// hundred hosts most of a run would be waiting for memory.
    #[inline]
    pub(crate) fn anticipate(&self) {
        let Medium { clock, wires, .. } = &self.medium;
        if let Some(event) = clock.upcoming(10) {
            let port = event.which() as usize;
            if event.is_arrival() {
                if let Some(next) = wires.flights[port].front() {
                    expect(&next.at);
                    next.packet.expect();
                }
            } else if event.is_of_a_port() {
                wires.flights[port].expect_back();
                let state = &wires.ports[port];
                if !state.from_host {
                    let class = state.waiting.trailing_zeros() as usize % PRIORITIES;
                    self.switches.expect_next(port as u32, class);
                } else {
                    self.hosts.expect_next(port as u32);
                }
            }
        }
        if let Some(event) = clock.upcoming(5)
            && event.is_arrival()
            && let Some(next) = wires.flights[event.which() as usize].front()
        {
            if wires.ports[event.which() as usize].to_host {
                self.hosts.expect_for(&next.packet);
            } else {
                prefetch_index(&wires.routes, next.packet.route as usize);
            }
        }
    }
}
