//! The sending end of a link: its queues by class, its scheduling, and the packets in flight.

use hocket_des::Time;

use crate::model::{PRIORITIES, Scheduling};
use crate::parts::backlog::{Backlog, Backlogs};
use crate::parts::packet::Packet;
use crate::parts::ring::Ring;

/// The sending end of one directed link.
///
/// Two cache lines; state that is rarely needed is kept elsewhere.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// When the current transmission ends, and the order of that event, whether or not it is scheduled.
    pub(crate) busy_until: Time,
    pub(crate) free_order: u64,
    /// Whether an event is scheduled for when the port becomes free.
    pub(crate) free_is_scheduled: bool,
    /// Bit c: packets of class c are queued.
    pub(crate) waiting: u8,
    /// Bit c: class c is paused.
    pub(crate) paused: u8,
    last_class: u8,
    pub(crate) from_host: bool,
    pub(crate) to_host: bool,
    pub(crate) is_up: bool,
    /// Index of the link's rate and of its table of transmission times.
    pub(crate) speed: u16,
    pub(crate) delay_ps: u64,
    /// The nodes at both ends of the link.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The ingress port of this link at its far end.
    pub(crate) ingress: u16,
    /// Bytes queued, of all classes.
    pub(crate) queued_bytes: u64,
    /// Bytes of packets whose transmission has begun.
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) marked_packets: u64,
    /// The largest queue so far.
    pub(crate) peak_bytes: u64,
    /// PAUSE and resume frames, which go before all queues.
    pub(crate) urgent: Ring<Packet>,
}

/// By class: the bytes that it may still send in its turn (deficit weighted round robin).
pub(crate) type Deficits = [i32; PRIORITIES];

/// The queue of one class at one port.
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
            free_is_scheduled: false,
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

    /// Whether a packet is being sent at `now`, from the point of view of an event with this `order`.
    #[inline]
    pub(crate) fn is_busy(&self, now: Time, order: u64) -> bool {
        self.busy_until > now || (self.busy_until == now && self.free_order > order)
    }

    /// Whether a packet is queued that may be sent.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.waiting & !self.paused != 0 || !self.urgent.is_empty()
    }

    /// The class to be served next. `queues` are those of this port; `first` has the bit of a class that goes before all
    /// others.
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

    // Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): a class sends while its deficit covers its next packet, and
    // receives a quantum each time its turn comes.
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
            // A class without packets must not save up deficit for a later burst.
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
