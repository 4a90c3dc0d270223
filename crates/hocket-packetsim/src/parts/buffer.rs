//! A switch's shared buffer: how much each ingress port and class may hold, and when the switch pauses a neighbour.

use hocket_des::{Bytes, Duration, Rate};

use crate::model::{Frames, Headroom, PRIORITIES, Switching};

/// The memory of one switch, by ingress port and class.
#[derive(Clone, Debug)]
pub(crate) struct SharedBuffer {
    /// Bytes shared by all ports: the buffer without headroom and reserves.
    pool: i64,
    shared_used: i64,
    reserve: u32,
    resume_offset: i64,
    pfc: bool,
    ingress: Vec<Ingress>,
    ports: Vec<IngressPort>,
}

#[derive(Clone, Copy, Debug)]
struct IngressPort {
    headroom: u32,
    /// The threshold is the free part of the pool × 2^exponent.
    exponent: i8,
}

/// Bytes held for one ingress port and class.
#[derive(Clone, Copy, Debug, Default)]
struct Ingress {
    /// In its reserve and in the shared pool.
    bytes: u32,
    in_headroom: u32,
    paused: bool,
}

/// The bytes that a flow may fill for each unit of its weight: `room` ÷ `weights`, kept as a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdBound {
    room: u128,
    weights: u128,
}

impl CrowdBound {
    /// The smaller bound.
    pub(crate) fn min(self, other: Self) -> Self {
        // The products fit: room is below 2^48 and weights are below 2^80.
        if self.room * other.weights <= other.room * self.weights { self } else { other }
    }

    /// The bytes that a flow of this weight may fill.
    pub(crate) fn of(self, weight: u64) -> u64 {
        u64::try_from(self.room * u128::from(weight) / self.weights).unwrap_or(u64::MAX)
    }
}

/// A link that comes into a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
}

impl SharedBuffer {
    /// The buffer of a switch with these ports. Hosts have NICs of `host_rate`, and `classes` traffic classes are in use.
    pub(crate) fn new(
        switching: &Switching,
        frames: &Frames,
        incoming: &[Incoming],
        host_rate: Rate,
        classes: usize,
    ) -> Self {
        let port = |link: &Incoming| IngressPort {
            headroom: headroom(switching.headroom, frames, link),
            exponent: switching.dynamic_threshold + doublings(link.rate, host_rate),
        };
        let ports: Vec<IngressPort> = incoming.iter().map(port).collect();
        let per_class = |port: &IngressPort| i64::from(port.headroom) + to_i64(switching.reserve);
        let set_aside: i64 = ports.iter().map(per_class).sum::<i64>() * classes as i64;
        Self {
            pool: to_i64(switching.buffer) - set_aside,
            shared_used: 0,
            reserve: to_u32(switching.reserve),
            resume_offset: to_i64(switching.resume_offset),
            pfc: switching.pfc,
            ingress: vec![Ingress::default(); ports.len() * PRIORITIES],
            ports,
        }
    }

    /// Bytes shared by all ports; zero or negative if headroom and reserves take the whole buffer.
    pub(crate) fn pool(&self) -> i64 {
        self.pool
    }

    /// Whether a packet that leaves at once can neither be refused nor cause a PAUSE.
    #[inline]
    pub(crate) fn is_untouched_by(&self, port: u16, priority: usize, wire: u16) -> bool {
        let held = &self.ingress[usize::from(port) * PRIORITIES + priority];
        held.bytes + u32::from(wire) <= self.reserve && held.in_headroom == 0 && !held.paused
    }

    /// Adds a packet; returns false if there is no room for it.
    #[inline]
    pub(crate) fn admit(&mut self, port: u16, priority: usize, wire: u16) -> bool {
        let threshold = self.threshold(port);
        let held = &mut self.ingress[usize::from(port) * PRIORITIES + priority];
        let wire = u32::from(wire);
        let total = held.bytes + wire;
        if total <= self.reserve {
            held.bytes = total;
            return true;
        }
        let beyond = total - self.reserve;
        if i64::from(beyond) > threshold {
            // Headroom is for what a neighbour sends until its PAUSE takes effect: without PFC, there is none.
            if !self.pfc || held.in_headroom + wire > self.ports[usize::from(port)].headroom {
                return false;
            }
            held.in_headroom += wire;
        } else {
            held.bytes = total;
            self.shared_used += i64::from(wire.min(beyond));
        }
        true
    }

    /// Removes a packet.
    #[inline]
    pub(crate) fn release(&mut self, port: u16, priority: usize, wire: u16) {
        let held = &mut self.ingress[usize::from(port) * PRIORITIES + priority];
        let wire = u32::from(wire);
        // Headroom empties first: a resume waits for it.
        let from_headroom = held.in_headroom.min(wire);
        let rest = wire - from_headroom;
        let from_shared = rest.min(held.bytes.saturating_sub(self.reserve));
        held.in_headroom -= from_headroom;
        held.bytes -= rest;
        self.shared_used -= i64::from(from_shared);
    }

    /// Whether a PAUSE must be sent to the neighbour; the neighbour counts as paused from then on.
    #[inline]
    pub(crate) fn wants_pause(&mut self, port: u16, priority: usize) -> bool {
        let threshold = self.threshold(port);
        let reserve = self.reserve;
        let held = &mut self.ingress[usize::from(port) * PRIORITIES + priority];
        let shared = i64::from(held.bytes.saturating_sub(reserve));
        let wanted = self.pfc && !held.paused && (held.in_headroom > 0 || shared >= threshold);
        held.paused |= wanted;
        wanted
    }

    /// Whether a resume must be sent to the neighbour; the neighbour no longer counts as paused.
    #[inline]
    pub(crate) fn wants_resume(&mut self, port: u16, priority: usize) -> bool {
        let place = usize::from(port) * PRIORITIES + priority;
        if !self.ingress[place].paused {
            return false;
        }
        let threshold = self.threshold(port);
        let held = &mut self.ingress[place];
        let shared = i64::from(held.bytes.saturating_sub(self.reserve));
        let wanted =
            held.in_headroom == 0 && (shared == 0 || shared + self.resume_offset <= threshold);
        held.paused &= !wanted;
        wanted
    }

    /// Whether `priority` of the neighbour at `port` is paused.
    pub(crate) fn is_pausing(&self, port: u16, priority: usize) -> bool {
        self.ingress[usize::from(port) * PRIORITIES + priority].paused
    }

    /// How much each flow may fill, by its weight, so that ingress `port` sends no PAUSE. Flows of total weight `all` fill
    /// this buffer, each as much as its weight allows; those of total weight `here` enter by `port`.
    ///
    /// With x bytes for each unit of weight, the port's part of the pool is at most `here` × x − reserve, and its threshold
    /// at least 2^exponent × (pool − `all` × x), minus one byte for rounding.
    pub(crate) fn crowd_bound(&self, port: u16, here: u128, all: u128) -> CrowdBound {
        let exponent = i32::from(self.ports[usize::from(port)].exponent);
        let (times, parts) = (1 << exponent.max(0), 1 << (-exponent).max(0));
        let room = i128::from(parts) * (i128::from(self.reserve) - 1)
            + i128::from(times) * i128::from(self.pool);
        let room = u128::try_from(room.max(0)).expect("it is not negative");
        CrowdBound { room, weights: (parts as u128 * here + times as u128 * all).max(1) }
    }

    /// Bytes held for all ports and classes together.
    pub(crate) fn held(&self) -> u64 {
        self.ingress.iter().map(|held| u64::from(held.bytes) + u64::from(held.in_headroom)).sum()
    }

    /// The bytes of the pool that one ingress port and class may hold: dynamic thresholds (Choudhury and Hahne, 1998).
    #[inline]
    fn threshold(&self, port: u16) -> i64 {
        let free = (self.pool - self.shared_used).max(0);
        let exponent = self.ports[usize::from(port)].exponent;
        if exponent < 0 { free >> -exponent } else { free << exponent }
    }
}

fn headroom(rule: Headroom, frames: &Frames, link: &Incoming) -> u32 {
    let in_flight = |span: Duration| link.rate.bytes_in(span).get();
    let bytes = match rule {
        // Three frames: the one that crosses the threshold, what arrives while the PAUSE waits for a frame that has just
        // begun to leave, and the one that the neighbour has just begun when the PAUSE arrives. Then what arrives during the
        // PAUSE's own transmission, and during two propagation delays: that of the PAUSE and that of the data sent meanwhile.
        Headroom::Computed => {
            in_flight(link.delay + link.delay)
                + 3 * u64::from(frames.largest())
                + u64::from(frames.pause)
        }
        Headroom::ThreeDelays => in_flight(link.delay + link.delay + link.delay),
        Headroom::Fixed(bytes) => bytes.get(),
    };
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

// How often a port's rate doubles that of the hosts: with k doublings it may hold 2^k times as much.
fn doublings(rate: Rate, host_rate: Rate) -> i8 {
    let mut ratio = rate.as_bps() / host_rate.as_bps().max(1);
    let mut doublings = 0;
    while ratio >= 2 {
        ratio /= 2;
        doublings += 1;
    }
    doublings
}

fn to_i64(bytes: Bytes) -> i64 {
    i64::try_from(bytes.get()).unwrap_or(i64::MAX)
}

fn to_u32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}
