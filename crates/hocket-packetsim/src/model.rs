//! How hosts and switches work: frame sizes, answers, buffers, marking, scheduling. What is simulated on them is left
//! to the scenario.

use hocket_des::{Bytes, Duration, Rate};
use hocket_transport::Answering;
use thiserror::Error;

use crate::reference::Arithmetic;

/// Classes of traffic on a link.
pub const PRIORITIES: usize = 8;

/// How hosts and switches work.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Sizes of frames.
    pub frames: Frames,
    /// Data in a full packet of a flow inside a server, between hosts on one scale-up switch; its headers and
    /// acknowledgements are as elsewhere. NVLink has packets of 256 bytes and less: this is how coarsely its traffic is
    /// simulated, and what a switch there must have received before it passes it on.
    pub scale_up_mtu: u16,
    /// What receivers answer.
    pub answering: Answering,
    /// How receivers report marks to DCQCN.
    pub notification: Notification,
    /// Whether PAUSE frames hold back a host's acknowledgements too.
    pub pause_holds_acks: bool,
    /// A sender whose packets were lost without a NACK goes back after this time without progress.
    pub retransmit_timeout: Duration,
    /// Buffers, PFC, marking and scheduling of every switch.
    pub switching: Switching,
    /// Whether the arithmetic is exact, or that of HPCC-style simulators.
    pub arithmetic: Arithmetic,
}

/// Bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Data in a full packet.
    pub mtu: u16,
    /// All headers of a data packet, with what the physical layer adds.
    pub data_header: u16,
    /// An acknowledgement.
    pub ack: u16,
    /// No acknowledgement is shorter.
    pub minimum: u16,
    /// PAUSE and resume frames.
    pub pause: u16,
    /// What a time stamp (TIMELY) adds to data and acknowledgements.
    pub stamp: u16,
    /// What in-band telemetry (HPCC) adds.
    pub hops: u16,
    /// What PINT adds.
    pub load: u16,
}

/// How a receiver tells a DCQCN sender of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Each acknowledgement says whether its packet was marked.
    InAcks,
    /// A packet of its own, in this class, at most one per flow and interval (mlx5:
    /// `np_min_time_between_cnps`). The class goes before all others at every port, as fabrics set it up: late news of
    /// congestion are none.
    Packets {
        /// Between two of a flow.
        interval: Duration,
        /// Class of traffic, 0 to 7.
        priority: u8,
    },
}

/// How a switch works. Scale-up switches differ in three things: they mark nothing; they reserve at least a full packet
/// of theirs for each ingress port and class; and they take the computed headroom in place of [`Headroom::ThreeDelays`].
/// The PAUSE frames between them and their hosts stand for NVLink's credits.
#[derive(Clone, Debug, PartialEq)]
pub struct Switching {
    /// Shared by all ports.
    pub buffer: Bytes,
    /// Of that, for each ingress port and class alone.
    pub reserve: Bytes,
    /// For each ingress port and class, beyond the threshold: what arrives until a PAUSE frame takes effect.
    pub headroom: Headroom,
    /// A PAUSE is sent where an ingress port and class hold more than 2^exponent × what is free of the shared buffer
    /// (SONiC: `dynamic_th`).
    pub dynamic_threshold: i8,
    /// A resume is sent once it holds so much less than the threshold.
    pub resume_offset: Bytes,
    /// Whether PFC is on. Without it, what does not fit is lost.
    pub pfc: bool,
    /// Marking by rate of the egress port; a port of another rate takes the next lower one's thresholds scaled with
    /// the rate.
    pub marking: Vec<Marking>,
    /// Which class goes next.
    pub scheduling: Scheduling,
    /// Whether a packet may leave once its headers have arrived, over a link that is no faster than the one it comes by.
    /// In the buffer it counts as a whole from then on.
    pub cut_through: bool,
    /// Unit of telemetry: × 128 bytes sent and × 80 bytes queued.
    pub telemetry_unit: u16,
    /// Base of PINT's logarithm.
    pub pint_base: f64,
}

/// What arrives after a PAUSE has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// By each port's rate r, delay d, and the largest frame L in use: 2 d × r + 3 L + PAUSE bytes (IEEE 802.1Qbb Annex O,
    /// without the response times of real hardware). The frames are the one that crosses the threshold, one that holds
    /// the PAUSE up, and one that its receiver has just begun. A byte less can be too little.
    Computed,
    /// Three propagations at the port's rate, as HPCC-style simulators have it.
    ThreeDelays,
    /// The same for all ports.
    Fixed(Bytes),
}

/// WRED on the bytes that are left behind a departing packet in its egress queue: none up to `minimum`,
/// all above `maximum`, in between with a probability that rises to `probability`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Ports of this rate.
    pub rate: Rate,
    /// K_min.
    pub minimum: Bytes,
    /// K_max.
    pub maximum: Bytes,
    /// P_max, 0 to 1.
    pub probability: f64,
}

/// Which class of traffic a port serves next. PAUSE frames always go first.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheduling {
    /// One packet of each class after another.
    RoundRobin,
    /// Class 0 before class 1, and so on.
    Strict,
    /// Deficit weighted round robin: bytes in proportion to these weights.
    Weighted([u16; PRIORITIES]),
}

/// A model that no fabric can work by.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ModelError {
    #[error("{what} is {value}; it must lie between {least} and {most}")]
    OutOfRange { what: &'static str, value: String, least: String, most: String },
    #[error("marking at {rate}: from {minimum} to {maximum}; the first must not be larger")]
    MarkingDisordered { rate: Rate, minimum: Bytes, maximum: Bytes },
    #[error("marking at {rate} is given twice")]
    MarkingRepeated { rate: Rate },
    #[error("weights {weights:?}; each must be at least 1")]
    ZeroWeight { weights: [u16; PRIORITIES] },
}

/// 82 ns at the 1600 Gbps of HOTI'22 (Table I), a twelfth of the delay from a NIC to its ToR and back; and a sixteenth of the
/// work that packets of 1,000 bytes would take.
const SCALE_UP_MTU: u16 = 16_384;

impl Frames {
    /// RoCEv2: Ethernet 14 and check sequence 4, IPv4 20, UDP 8, base transport header 12, invariant CRC 4, AETH 4 in
    /// acknowledgements; preamble and gap between frames 20. Frames have at least 64 bytes, 84 with those.
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
    /// RoCE v2 on switches with 32 MB of buffer, as in HPCC's evaluation (SIGCOMM'19 section 5.1), which also has the
    /// marking thresholds: 100 and 400 KB at 25 Gb/s, in proportion at other rates. An acknowledgement for each packet,
    /// CNPs at most every 4 µs per flow (mlx5's `np_min_time_between_cnps`) in class 7, which goes first; the others by strict priority. Acknowledgements
    /// are held back with the class that they are of: they fill the same headroom.
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
    /// The model, checked.
    ///
    /// # Errors
    /// The first parameter that is out of its range, named with value and limits.
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
        // A buffer below 4 GiB keeps every port's count in 32 bits.
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
    /// The frames of flows inside a server.
    pub fn scale_up_frames(&self) -> Frames {
        // What congestion controls add is not there: none governs these flows.
        Frames { mtu: self.scale_up_mtu, stamp: 0, hops: 0, load: 0, ..self.frames }
    }
}

impl Frames {
    /// The most bytes that a packet of data has on the wire.
    pub fn largest(&self) -> u16 {
        self.mtu + self.data_header + self.stamp.max(self.hops).max(self.load)
    }
}

impl Switching {
    /// How a scale-up switch works that packets of up to `largest` bytes pass: they are longer than what may be reserved
    /// for one, or than all that three delays inside a server carry.
    pub(crate) fn inside_servers(&self, largest: u16) -> Self {
        let headroom = match self.headroom {
            Headroom::ThreeDelays => Headroom::Computed,
            rule => rule,
        };
        let reserve = self.reserve.max(Bytes::new(largest.into()));
        Self { headroom, reserve, marking: Vec::new(), ..self.clone() }
    }

    /// Thresholds of a port of `rate`; `None` if it never marks.
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
