//! The model of hosts and switches: frame sizes, acknowledgements, buffers, marking, scheduling. The scenario defines what
//! is simulated on them.

use hocket_des::{Bytes, Duration, Rate};
use hocket_transport::Answering;
use thiserror::Error;

use crate::reference::Arithmetic;

/// The number of traffic classes on a link: PFC (IEEE 802.1Qbb) has eight priorities.
pub const PRIORITIES: usize = 8;

/// The model of hosts and switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Sizes of frames.
    pub frames: Frames,
    /// Data in a full packet of a flow inside a server, between hosts on one scale-up switch; headers and acknowledgements
    /// are those of other flows. Real NVLink packets have at most 256 bytes: this value sets the granularity at which that
    /// traffic is simulated, and how much a scale-up switch must receive before it forwards it.
    pub scale_up_mtu: u16,
    /// When receivers send acknowledgements and NACKs.
    pub answering: Answering,
    /// How receivers report marks to DCQCN.
    pub notification: Notification,
    /// Whether PAUSE frames also stop a host's acknowledgements.
    pub pause_holds_acks: bool,
    /// A sender that lost packets without receiving a NACK retransmits after this time without progress.
    pub retransmit_timeout: Duration,
    /// Buffers, PFC, marking and scheduling of every switch.
    pub switching: Switching,
    /// Whether the arithmetic is exact or that of HPCC-style simulators.
    pub arithmetic: Arithmetic,
}

/// Bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Data in a full packet.
    pub mtu: u16,
    /// All headers of a data packet, including what the physical layer adds.
    pub data_header: u16,
    /// An acknowledgement.
    pub ack: u16,
    /// The smallest size of an acknowledgement.
    pub minimum: u16,
    /// PAUSE and resume frames.
    pub pause: u16,
    /// Size of the time stamp (TIMELY) in data packets and acknowledgements.
    pub stamp: u16,
    /// Size of the in-band telemetry (HPCC).
    pub hops: u16,
    /// Size of PINT's load.
    pub load: u16,
}

/// How a receiver reports ECN marks to a DCQCN sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Each acknowledgement echoes the mark of its packet.
    InAcks,
    /// A congestion notification packet (CNP) in a class of its own, at most one per flow and interval (mlx5:
    /// `np_min_time_between_cnps`). The class goes before all others at every port, as fabrics configure it: a delayed
    /// notification would come too late to act on.
    Packets {
        /// The shortest time between two CNPs of a flow.
        interval: Duration,
        /// Class of traffic, 0 to 7.
        priority: u8,
    },
}

/// The model of a switch. Scale-up switches differ in three respects: they mark nothing; they reserve at least one full
/// packet of their own size for each ingress port and class; and they use the computed headroom instead of
/// [`Headroom::ThreeDelays`]. The PAUSE frames between them and their hosts represent NVLink's credits.
#[derive(Clone, Debug, PartialEq)]
pub struct Switching {
    /// Total size, shared by all ports.
    pub buffer: Bytes,
    /// The part of it reserved for each ingress port and class.
    pub reserve: Bytes,
    /// The part of it that each ingress port and class may use above its threshold, for what arrives until a PAUSE frame
    /// takes effect.
    pub headroom: Headroom,
    /// The exponent of the PAUSE threshold: a PAUSE is sent when an ingress port and class hold more than 2^exponent times
    /// the free shared buffer (SONiC: `dynamic_th`).
    pub dynamic_threshold: i8,
    /// A resume is sent once an ingress port and class hold this much less than the threshold.
    pub resume_offset: Bytes,
    /// Whether PFC is on. Without it, packets that do not fit are lost.
    pub pfc: bool,
    /// Marking thresholds by rate of the egress port. A port of another rate uses those of the next lower rate, or of the
    /// lowest if all are higher, scaled with the rate.
    pub marking: Vec<Marking>,
    /// Which class a port serves next.
    pub scheduling: Scheduling,
    /// Whether a packet may leave once its headers have arrived, if the outgoing link is no faster than the incoming one.
    /// From then on the whole packet counts towards the buffer.
    pub cut_through: bool,
    /// Resolution of HPCC's telemetry: multiples of 128 bytes sent and of 80 bytes queued.
    pub telemetry_unit: u16,
    /// Base of PINT's logarithm.
    pub pint_base: f64,
}

/// The buffer for what arrives after a PAUSE has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// Computed from each port's rate r and delay d and the largest frame L in use: 2 d × r + 3 L + PAUSE bytes (IEEE
    /// 802.1Qbb Annex O, without the response times of real hardware). The three frames are the one that crosses the
    /// threshold, one that delays the PAUSE, and one that the receiver of the PAUSE has just begun to send. One byte less
    /// can be too little.
    Computed,
    /// Three propagation delays at the port's rate, as in HPCC-style simulators.
    ThreeDelays,
    /// The same for all ports.
    Fixed(Bytes),
}

/// WRED on the bytes that a departing packet leaves in its egress queue: no packet is marked up to `minimum`, every packet
/// above `maximum`; in between, the marking probability rises linearly to `probability`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// The rate of the ports to which these thresholds apply.
    pub rate: Rate,
    /// K_min.
    pub minimum: Bytes,
    /// K_max.
    pub maximum: Bytes,
    /// P_max, 0 to 1.
    pub probability: f64,
}

/// Which traffic class a port serves next. PAUSE frames always go first.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheduling {
    /// Classes take turns, one packet each.
    RoundRobin,
    /// Class 0 before class 1, and so on.
    Strict,
    /// Deficit weighted round robin: bytes in proportion to these weights.
    Weighted([u16; PRIORITIES]),
}

/// Why a model is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ModelError {
    #[error("{what} is {value}; it must lie between {least} and {most}")]
    OutOfRange { what: &'static str, value: String, least: String, most: String },
    #[error("marking at {rate}: the minimum of {minimum} is above the maximum of {maximum}")]
    MarkingDisordered { rate: Rate, minimum: Bytes, maximum: Bytes },
    #[error("marking at {rate} is given twice")]
    MarkingRepeated { rate: Rate },
    #[error("the scheduling weights are {weights:?}; each must be at least 1")]
    ZeroWeight { weights: [u16; PRIORITIES] },
}

// 82 ns at the 1600 Gbps of HOTI'22 (Table I), a twelfth of the delay from a NIC to its ToR and back; and a sixteenth of the
// events that packets of 1,000 bytes would take.
const SCALE_UP_MTU: u16 = 16_384;

impl Frames {
    /// RoCEv2: Ethernet header 14 and frame check sequence 4, IPv4 20, UDP 8, base transport header 12, invariant CRC 4,
    /// preamble and inter-frame gap 20 bytes; acknowledgements have 4 more for the AETH. The minimum frame has 64 bytes, 84
    /// with preamble and gap.
    pub const ROCE_V2: Self = Self {
        mtu: 1_000,
        data_header: 82,
        ack: 86,
        minimum: 84,
        pause: 84,
        stamp: 8,
        hops: 42,
        load: 2,
    };
}

impl Default for Model {
    /// RoCEv2 on switches with 32 MB of buffer, as in HPCC's evaluation (SIGCOMM'19, section 5.1), from which the marking
    /// thresholds are too: 100 and 400 KB at 25 Gb/s, in proportion at other rates. Receivers acknowledge each packet and
    /// send CNPs at most every 4 µs per flow (mlx5's `np_min_time_between_cnps`), in class 7, which goes first; the other
    /// classes have strict priority. A PAUSE also stops the acknowledgements of its class, since they fill the same
    /// headroom.
    fn default() -> Self {
        let marking = Marking {
            rate: Rate::from_gbps(25),
            minimum: Bytes::new(100_000),
            maximum: Bytes::new(400_000),
            probability: 0.2,
        };
        Self {
            frames: Frames::ROCE_V2,
            scale_up_mtu: SCALE_UP_MTU,
            answering: Answering { ack_every: 1, nack_interval: Duration::from_us(500) },
            notification: Notification::Packets { interval: Duration::from_us(4), priority: 7 },
            pause_holds_acks: true,
            retransmit_timeout: Duration::from_ms(4),
            switching: Switching {
                buffer: Bytes::new(32_000_000),
                reserve: Bytes::new(4_096),
                headroom: Headroom::Computed,
                dynamic_threshold: -3,
                resume_offset: Bytes::new(3_072),
                pfc: true,
                marking: vec![marking],
                scheduling: Scheduling::Strict,
                cut_through: false,
                telemetry_unit: 1,
                pint_base: 1.05,
            },
            arithmetic: Arithmetic::Exact,
        }
    }
}

impl Model {
    /// This model, if it is valid.
    ///
    /// # Errors
    /// If a parameter is out of its range: the first such parameter, with its value and limits.
    pub fn checked(self) -> Result<Self, ModelError> {
        let within = |what, value: f64, least: f64, most: f64| {
            if value >= least && value <= most {
                return Ok(());
            }
            let text = |number: f64| number.to_string();
            Err(ModelError::OutOfRange {
                what,
                value: text(value),
                least: text(least),
                most: text(most),
            })
        };
        let switching = &self.switching;
        let largest = f64::from(self.frames.largest());
        within("a packet's data", self.frames.mtu.into(), 64.0, 9_216.0)?;
        within("a packet's data inside a server", self.scale_up_mtu.into(), 64.0, 32_768.0)?;
        within("a packet's headers", self.frames.data_header.into(), 1.0, 1_000.0)?;
        within("an acknowledgement", self.frames.ack.into(), 1.0, 1_000.0)?;
        within("a PAUSE frame", self.frames.pause.into(), 1.0, 1_000.0)?;
        within("packets per acknowledgement", self.answering.ack_every.into(), 1.0, 1_024.0)?;
        // Each port's byte count is 32 bits wide, which suffices below 4 GiB.
        within(
            "a switch's buffer in bytes",
            switching.buffer.get() as f64,
            largest,
            4_294_967_295.0,
        )?;
        within("the threshold's exponent", switching.dynamic_threshold.into(), -12.0, 4.0)?;
        within("the telemetry unit", switching.telemetry_unit.into(), 1.0, 64.0)?;
        within("PINT's base", switching.pint_base, 1.000_1, 2.0)?;
        if let Notification::Packets { priority, .. } = self.notification {
            within("the class of CNPs", priority.into(), 0.0, (PRIORITIES - 1) as f64)?;
        }
        if let Scheduling::Weighted(weights) = switching.scheduling
            && weights.contains(&0)
        {
            return Err(ModelError::ZeroWeight { weights });
        }
        for (index, marking) in switching.marking.iter().enumerate() {
            within("a marking probability", marking.probability, 0.0, 1.0)?;
            let Marking { rate, minimum, maximum, .. } = *marking;
            if minimum > maximum {
                return Err(ModelError::MarkingDisordered { rate, minimum, maximum });
            }
            if switching.marking[..index].iter().any(|other| other.rate == rate) {
                return Err(ModelError::MarkingRepeated { rate });
            }
        }
        Ok(self)
    }
}

impl Model {
    /// Frame sizes of flows inside a server.
    pub fn scale_up_frames(&self) -> Frames {
        // No congestion control governs these flows, so none adds telemetry or stamps.
        Frames { mtu: self.scale_up_mtu, stamp: 0, hops: 0, load: 0, ..self.frames }
    }
}

impl Frames {
    /// The largest size of a data packet on the wire.
    pub fn largest(&self) -> u16 {
        self.mtu + self.data_header + self.stamp.max(self.hops).max(self.load)
    }
}

impl Switching {
    /// The model of a scale-up switch that forwards packets of up to `largest` bytes. Such a packet can exceed the reserve of
    /// other switches, and all that three of the short delays inside a server would give as headroom.
    pub(crate) fn inside_servers(&self, largest: u16) -> Self {
        let headroom = match self.headroom {
            Headroom::ThreeDelays => Headroom::Computed,
            rule => rule,
        };
        let reserve = self.reserve.max(Bytes::new(largest.into()));
        Self { headroom, reserve, marking: Vec::new(), ..self.clone() }
    }

    /// The marking thresholds of a port of `rate`; `None` if it never marks.
    pub fn marking_at(&self, rate: Rate) -> Option<Marking> {
        let lower =
            self.marking.iter().filter(|each| each.rate <= rate).max_by_key(|each| each.rate);
        let nearest = lower.or_else(|| self.marking.iter().min_by_key(|each| each.rate))?;
        let scaled = |bytes: Bytes| {
            let product = u128::from(bytes.get()) * u128::from(rate.as_bps());
            let value = product / u128::from(nearest.rate.as_bps());
            Bytes::new(u64::try_from(value).unwrap_or(u64::MAX))
        };
        Some(Marking {
            rate,
            minimum: scaled(nearest.minimum),
            maximum: scaled(nearest.maximum),
            probability: nearest.probability,
        })
    }
}
