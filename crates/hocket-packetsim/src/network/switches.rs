//! Switches: they queue arriving packets or pause the neighbour that sends them, and mark departing packets or write
//! telemetry into them.

use hocket_des::{Rate, Stream, stream};
use hocket_scenario::{Column, Fabric, Link, LinkId, NodeKind, Table};
use rand::RngExt;

use crate::columns::node_column;
use crate::error::PacketRunError;
use crate::model::{Notification, PRIORITIES, Scheduling};
use crate::network::medium::Medium;
use crate::network::wires::Wires;
use crate::parts::backlog::Backlogs;
use crate::parts::buffer::{Incoming, SharedBuffer};
use crate::parts::packet::{Header, Kind, Packet};
use crate::parts::port::{ClassQueue, Deficits};
use crate::setup::Setup;

/// All switches, with their queues and buffers.
pub(crate) struct Switches {
    /// By port and class.
    queues: Vec<ClassQueue>,
    backlogs: Backlogs,
    /// The bit of the class of CNPs, which goes before all others at every port; 0 without CNPs.
    first_class: u8,
    /// By port; empty unless classes are scheduled by weights.
    deficits: Vec<Deficits>,
    /// By node; that of a host is unused.
    pub(crate) buffers: Vec<SharedBuffer>,
    /// By node, then ingress port: the link that leads into it.
    incoming: Vec<Vec<u32>>,
    /// By port.
    markers: Vec<Option<Marker>>,
    /// By node.
    waiting: Vec<Waiting>,
}

/// Why a switch refused a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The packet's next link has failed.
    LinkDown,
    /// The buffer is full.
    NoRoom,
}

/// A queued packet, with its class and the port by which it will leave.
pub(crate) struct Waiter<'s> {
    pub(crate) port: u32,
    pub(crate) class: usize,
    pub(crate) packet: &'s Packet,
}

/// The ECN marking of a port (WRED).
struct Marker {
    minimum: u64,
    maximum: u64,
    probability: f64,
    draws: Stream,
}

/// Bytes queued at all ports of a switch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) bytes: u64,
    peak_bytes: u64,
}

impl Switches {
    /// The switches of a fabric, at rest.
    pub(crate) fn new(setup: &Setup<'_>, wires: &Wires) -> Result<Self, PacketRunError> {
        let (fabric, model) = (setup.fabric, setup.model);
        let links = fabric.links();
        let mut incoming: Vec<Vec<u32>> = vec![Vec::new(); fabric.nodes().len()];
        for (port, link) in wires.ports.iter().zip(0..) {
            incoming[port.to as usize].push(link);
        }
        let marker = |(index, link): (usize, &Link)| {
            let marks = fabric.nodes()[link.from.index()].kind == NodeKind::Switch;
            let marking = model.switching.marking_at(link.rate).filter(|_| marks)?;
            Some(Marker {
                minimum: marking.minimum.get(),
                maximum: marking.maximum.get(),
                probability: marking.probability,
                // A stream for each port: its marks do not depend on traffic elsewhere.
                draws: stream(setup.seed, "ecn", index as u64),
            })
        };
        Ok(Self {
            queues: vec![ClassQueue::default(); links.len() * PRIORITIES],
            backlogs: Backlogs::new(),
            first_class: match model.notification {
                Notification::InAcks => 0,
                Notification::Packets { priority, .. } => 1 << priority,
            },
            deficits: match model.switching.scheduling {
                Scheduling::Weighted(_) => vec![Deficits::default(); links.len()],
                _ => Vec::new(),
            },
            buffers: buffers(setup, &incoming)?,
            incoming,
            markers: links.iter().enumerate().map(marker).collect(),
            waiting: vec![Waiting::default(); fabric.nodes().len()],
        })
    }

    /// Queues a packet that arrived by `link`, or sends it at once.
    ///
    /// # Errors
    /// If the switch refuses the packet, which is then lost.
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        medium: &mut Medium<'_>,
        link: u32,
        mut packet: Packet,
    ) -> Result<(), Refusal> {
        let (clock, wires) = (&medium.clock, &mut medium.wires);
        let out = wires.routes[packet.route as usize];
        packet.route += 1;
        let arrival = &wires.ports[link as usize];
        packet.ingress = arrival.ingress;
        let switch = arrival.to as usize;
        let (ingress, class, wire) = (packet.ingress, packet.priority(), packet.wire);
        let port = &mut wires.ports[out as usize];
        // The common case on an idle network: the packet leaves at once and never enters a queue or the buffer.
        let free =
            port.waiting == 0 && port.urgent.is_empty() && !port.is_busy(clock.now, clock.order);
        if free
            && port.paused & 1 << class == 0
            && self.buffers[switch].is_untouched_by(ingress, class, wire)
        {
            port.peak_bytes = port.peak_bytes.max(u64::from(wire));
            self.waiting[switch].passes(wire);
            self.depart(medium, out, packet);
            return Ok(());
        }
        if !port.is_up {
            return Err(Refusal::LinkDown);
        }
        if !self.buffers[switch].admit(ingress, class, wire) {
            return Err(Refusal::NoRoom);
        }
        if self.buffers[switch].wants_pause(ingress, class) {
            // By the link of the opposite direction, which differs in the last bit.
            self.send_pause(medium, link ^ 1, Kind::Pause, class);
        }
        let queue = &mut self.queues[out as usize * PRIORITIES + class];
        self.backlogs.push(&mut queue.packets, packet);
        queue.bytes += u64::from(wire);
        let port = &mut medium.wires.ports[out as usize];
        port.waiting |= 1 << class;
        port.queued_bytes += u64::from(wire);
        port.peak_bytes = port.peak_bytes.max(port.queued_bytes);
        self.waiting[switch].takes(wire);
        self.try_send(medium, out);
        Ok(())
    }

    /// Sends the next packet of a switch's port if it may send now; if it is busy, schedules an event for when it becomes
    /// free.
    #[inline(always)]
    pub(crate) fn try_send(&mut self, medium: &mut Medium<'_>, out: u32) {
        if medium.may_send(out) {
            self.send(medium, out);
        }
    }

    /// Sends the next packet of a port that is not busy.
    #[inline(always)]
    pub(crate) fn send(&mut self, medium: &mut Medium<'_>, out: u32) {
        let port = &mut medium.wires.ports[out as usize];
        // PAUSE and resume frames go before all classes and are never paused themselves.
        if !port.urgent.is_empty() {
            let mut packet = port.urgent.pop_front();
            // It carries no load, but its bytes advance the port's clock.
            if medium.telemetry.writes_loads() {
                write_load(medium, out, &mut packet);
            }
            medium.transmit(out, packet);
        } else {
            let first = out as usize * PRIORITIES;
            let queues = &mut self.queues[first..first + PRIORITIES];
            let deficits = self.deficits.get_mut(out as usize);
            let scheduling = &medium.model.switching.scheduling;
            let Some(class) =
                port.next_class(scheduling, self.first_class, queues, &self.backlogs, deficits)
            else {
                return;
            };
            let queue = &mut queues[class];
            let packet = self.backlogs.pop(&mut queue.packets);
            queue.bytes -= u64::from(packet.wire);
            port.queued_bytes -= u64::from(packet.wire);
            if queue.packets.is_empty() {
                port.waiting &= !(1 << class);
            }
            let switch = port.from as usize;
            self.release(medium, switch, class, &packet);
            self.depart(medium, out, packet);
        }
        if medium.wires.ports[out as usize].has_ready() {
            medium.schedule_free(out);
        }
    }

    /// Removes a packet that was queued from the buffer, and sends a resume if that allows the neighbour to continue.
    #[inline(always)]
    fn release(&mut self, medium: &mut Medium<'_>, switch: usize, class: usize, packet: &Packet) {
        self.waiting[switch].bytes -= u64::from(packet.wire);
        self.buffers[switch].release(packet.ingress, class, packet.wire);
        if self.buffers[switch].wants_resume(packet.ingress, class) {
            let incoming = self.incoming[switch][usize::from(packet.ingress)];
            self.send_pause(medium, incoming ^ 1, Kind::Resume, class);
        }
    }

    /// Sends a packet; marks it according to the bytes that it leaves in its queue, and writes telemetry into it.
    #[inline(always)]
    fn depart(&mut self, medium: &mut Medium<'_>, out: u32, mut packet: Packet) {
        let behind = self.queues[out as usize * PRIORITIES + packet.priority()].bytes;
        // No random number is drawn below the minimum, so that cycles without congestion can recur exactly.
        if let Some(marker) = &mut self.markers[out as usize]
            && behind > marker.minimum
            && marker.marks(behind)
        {
            packet.mark();
            if packet.kind == Kind::Data {
                medium.wires.ports[out as usize].marked_packets += 1;
            }
        }
        if packet.kind == Kind::Data && packet.header() == Header::Hops {
            let port = &medium.wires.ports[out as usize];
            medium.telemetry.write_hop(medium.clock.now, out, port, &mut packet);
        }
        if medium.telemetry.writes_loads() {
            write_load(medium, out, &mut packet);
        }
        medium.transmit(out, packet);
    }

    /// Sends a PAUSE or resume frame for a class to the neighbour at the far end of a switch's port.
    fn send_pause(&mut self, medium: &mut Medium<'_>, port: u32, kind: Kind, class: usize) {
        let wire = medium.model.frames.pause;
        let frame = Packet::new(kind, 0, 0, wire, class as u8);
        medium.wires.ports[port as usize].urgent.push_back(frame);
        self.try_send(medium, port);
    }

    /// Removes and returns the next packet queued for a link that has failed.
    pub(crate) fn discard_next(&mut self, medium: &mut Medium<'_>, link: u32) -> Option<Packet> {
        let first = link as usize * PRIORITIES;
        let queues = &mut self.queues[first..first + PRIORITIES];
        let class = queues.iter().position(|queue| !queue.packets.is_empty())?;
        let packet = self.backlogs.pop(&mut queues[class].packets);
        queues[class].bytes -= u64::from(packet.wire);
        let port = &mut medium.wires.ports[link as usize];
        port.waiting &= !(1 << class);
        port.queued_bytes -= u64::from(packet.wire);
        let switch = port.from as usize;
        self.release(medium, switch, class, &packet);
        Some(packet)
    }

    /// Whether the switch at the end of a link has paused a class of the link's sender.
    pub(crate) fn is_pausing(&self, wires: &Wires, link: u32, class: usize) -> bool {
        let port = &wires.ports[link as usize];
        self.buffers[port.to as usize].is_pausing(port.ingress, class)
    }

    /// All queued packets.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = Waiter<'_>> {
        self.queues.iter().enumerate().flat_map(|(place, queue)| {
            let (port, class) = ((place / PRIORITIES) as u32, place % PRIORITIES);
            self.backlogs.iter(&queue.packets).map(move |packet| Waiter { port, class, packet })
        })
    }

    /// The link by which a queued packet arrived.
    pub(crate) fn link_of_arrival(&self, wires: &Wires, waiter: &Waiter<'_>) -> u32 {
        let switch = wires.ports[waiter.port as usize].from as usize;
        self.incoming[switch][usize::from(waiter.packet.ingress)]
    }

    /// By node: bytes queued.
    pub(crate) fn waiting_bytes(&self) -> impl ExactSizeIterator<Item = u64> {
        self.waiting.iter().map(|waiting| waiting.bytes)
    }

    /// The random streams of marking, in their current state.
    pub(crate) fn draws(&self) -> impl Iterator<Item = &Stream> {
        self.markers.iter().flatten().map(|marker| &marker.draws)
    }

    /// Prefetches the packet that a port will send next.
    #[inline]
    pub(crate) fn prefetch_next(&self, port: u32, class: usize) {
        self.backlogs.prefetch_front(&self.queues[port as usize * PRIORITIES + class].packets);
    }

    /// The table `switches`.
    pub(crate) fn table(&self, fabric: &Fabric) -> Table {
        let is_switch = |node: &u32| fabric.nodes()[*node as usize].kind.is_switch();
        let switches: Vec<u32> = (0..fabric.nodes().len() as u32).filter(is_switch).collect();
        let peaks = Column::of_u64(&switches, |node| self.waiting[*node as usize].peak_bytes);
        let columns = vec![("switch", node_column(switches, fabric)), ("peak_bytes", peaks)];
        Table { name: "switches", columns }
    }
}

fn write_load(medium: &mut Medium<'_>, out: u32, packet: &mut Packet) {
    let port = &medium.wires.ports[out as usize];
    let rate = medium.wires.rate(port);
    medium.telemetry.write_load(medium.clock.now, out, port, rate, packet);
}

fn buffers(setup: &Setup<'_>, incoming: &[Vec<u32>]) -> Result<Vec<SharedBuffer>, PacketRunError> {
    let (nodes, links) = (setup.fabric.nodes(), setup.fabric.links());
    let slowest = |links: &mut dyn Iterator<Item = &Link>| {
        links.map(|link| link.rate).min().unwrap_or(Rate::ZERO)
    };
    let from_hosts = links.iter().zip(0..).filter(|(link, id)| {
        nodes[link.from.index()].kind == NodeKind::Host
            && !setup.fabric.is_scale_up(LinkId::new(*id))
    });
    let nic_rate = slowest(&mut from_hosts.map(|(link, _)| link));
    let (frames, inside_frames) = (setup.frames_in_use(), setup.model.scale_up_frames());
    let switching = &setup.model.switching;
    let inside_switching = switching.inside_servers(inside_frames.largest());
    let [between_classes, inside_classes] = [false, true].map(|inside| setup.classes(inside));
    let mut buffers = Vec::with_capacity(nodes.len());
    for (node, into) in nodes.iter().zip(incoming) {
        let into = || into.iter().map(|&link| &links[link as usize]);
        let ports: Vec<_> =
            into().map(|link| Incoming { rate: link.rate, delay: link.delay }).collect();
        // Thresholds relate to the slowest NIC: a port of k doublings of its rate may hold 2^k times as much.
        let buffer = if node.kind == NodeKind::ScaleUp {
            let rate = slowest(&mut into());
            SharedBuffer::new(&inside_switching, &inside_frames, &ports, rate, inside_classes)
        } else {
            SharedBuffer::new(switching, &frames, &ports, nic_rate, between_classes)
        };
        if node.kind.is_switch() && buffer.pool() <= 0 {
            let buffer_bytes = switching.buffer.get();
            return Err(PacketRunError::BufferTooSmall {
                switch: node.name.clone(),
                buffer: buffer_bytes,
                ports: ports.len(),
                needed: buffer_bytes.saturating_add_signed(-buffer.pool()),
            });
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}

impl Waiting {
    #[inline]
    fn passes(&mut self, wire: u16) {
        self.peak_bytes = self.peak_bytes.max(self.bytes + u64::from(wire));
    }

    #[inline]
    fn takes(&mut self, wire: u16) {
        self.bytes += u64::from(wire);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }
}

impl Marker {
    #[inline]
    fn marks(&mut self, behind: u64) -> bool {
        if behind > self.maximum {
            return true;
        }
        let span = (self.maximum - self.minimum) as f64;
        let probability = self.probability * (behind - self.minimum) as f64 / span;
        self.draws.random::<f64>() < probability
    }
}
