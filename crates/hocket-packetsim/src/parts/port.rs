//! The sending end of a link: what waits there by class, what it may send, and what is on its way.

use hocket_des::Time;

use crate::model::{PRIORITIES, Scheduling};
use crate::parts::backlog::{Backlog, Backlogs};
use crate::parts::packet::Packet;
use crate::parts::ring::Ring;

/// The sending end of one directed link.
///
/// Two cache lines; what is rarely needed stands elsewhere.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// The packet that is being sent ends then, and the order of that event, whether or not it is
    /// scheduled.
    pub(crate) busy_until: Time,
    pub(crate) free_order: u64,
    /// Whether the port will be looked at when it is free.
    pub(crate) looks_when_free: bool,
    /// Bit c: packets of class c wait.
    pub(crate) waiting: u8,
    /// Bit c: class c must not be sent.
    pub(crate) paused: u8,
    last_class: u8,
    pub(crate) from_host: bool,
    pub(crate) to_host: bool,
    pub(crate) is_up: bool,
    /// Which table of transmission times holds.
    pub(crate) speed: u16,
    pub(crate) delay_ps: u64,
    /// The switch at either end, if it is one.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Which port of the switch at the far end this link leads into.
    pub(crate) ingress: u16,
    /// Bytes that wait, of all classes.
    pub(crate) queued_bytes: u64,
    /// Bytes that began to leave.
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) marked_packets: u64,
    /// The most that waited.
    pub(crate) peak_bytes: u64,
    /// PAUSE frames.
    pub(crate) urgent: Ring<Packet>,
}

/// What each class may still send in its turn, where they share by weights.
pub(crate) type Deficits = [i32; PRIORITIES];

/// Packets of one class that wait at one port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassQueue {
    pub(crate) packets: Backlog,
    pub(crate) bytes: u64,
}

/// A packet on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) at: Time,
    pub(crate) order: u64,
    pub(crate) packet: Packet,
}

impl Port {
    pub(crate) fn new(from_host: bool, to_host: bool, delay_ps: u64) -> Self {
        Self {
            busy_until: Time::ZERO,
            free_order: 0,
            looks_when_free: false,
            waiting: 0,
            paused: 0,
            last_class: 0,
            from_host,
            to_host,
            is_up: true,
            speed: 0,
            delay_ps,
            from: 0,
            to: 0,
            ingress: 0,
            queued_bytes: 0,
            sent_bytes: 0,
            sent_packets: 0,
            marked_packets: 0,
            peak_bytes: 0,
            urgent: Ring::default(),
        }
    }

    /// Whether a packet is being sent at `now`, seen by an event of this `order`.
    #[inline]
    pub(crate) fn is_busy(&self, now: Time, order: u64) -> bool {
        self.busy_until > now || (self.busy_until == now && self.free_order > order)
    }

    /// Whether something waits that may be sent.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.waiting & !self.paused != 0 || !self.urgent.is_empty()
    }

    /// The class to be served next; `queues` are those of this port, `first` has the bit of a class that goes before
    /// all others.
    #[inline]
    pub(crate) fn next_class(
        &mut self,
        scheduling: &Scheduling,
        first: u8,
        queues: &[ClassQueue],
        backlogs: &Backlogs,
        deficits: Option<&mut Deficits>,
    ) -> Option<usize> {
        let ready = self.waiting & !self.paused;
        if ready == 0 {
            return None;
        }
        let class = if ready.is_power_of_two() {
            ready.trailing_zeros() as usize
        } else if ready & first != 0 {
            first.trailing_zeros() as usize
        } else {
            match scheduling {
                Scheduling::Strict => ready.trailing_zeros() as usize,
                Scheduling::RoundRobin => self.following(ready),
                Scheduling::Weighted(weights) => {
                    let deficits = deficits.expect("a port that shares by weights has deficits");
                    self.by_deficit(ready, weights, queues, backlogs, deficits)
                }
            }
        };
        self.last_class = class as u8;
        Some(class)
    }

    fn following(&self, ready: u8) -> usize {
        let start = u32::from(self.last_class) + 1;
        let turned = ready.rotate_right(start);
        ((turned.trailing_zeros() + start) % PRIORITIES as u32) as usize
    }

    // Shreedhar and Varghese, SIGCOMM 1995: a class goes on while its deficit covers its next packet,
    // and gets a quantum each time its turn comes.
    fn by_deficit(
        &self,
        ready: u8,
        weights: &[u16; PRIORITIES],
        queues: &[ClassQueue],
        backlogs: &Backlogs,
        deficits: &mut Deficits,
    ) -> usize {
        const QUANTUM: i32 = 512;
        for (class, deficit) in deficits.iter_mut().enumerate() {
            // A class with nothing to send saves nothing up.
            if self.waiting & 1 << class == 0 {
                *deficit = 0;
            }
        }
        let mut class = usize::from(self.last_class);
        loop {
            if ready & 1 << class != 0 {
                let next =
                    backlogs.front(&queues[class].packets).expect("a waiting class has a packet");
                let wire = i32::from(next.wire);
                if deficits[class] >= wire {
                    deficits[class] -= wire;
                    return class;
                }
            }
            class = (class + 1) % PRIORITIES;
            if ready & 1 << class != 0 {
                deficits[class] += QUANTUM * i32::from(weights[class]);
            }
        }
    }
}
