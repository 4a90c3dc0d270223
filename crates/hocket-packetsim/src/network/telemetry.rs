//! In-band telemetry, which switches write into packets and senders read from acknowledgements.

use hocket_des::{Duration, Rate, Stream, Time, stream};
use hocket_transport::congestion::pint::{self, PortLoad};
use hocket_transport::telemetry::{Format, FormatError, Hop, MAX_HOPS, RateCode};
use hocket_transport::{Ack, Policy, Sender};
use rand::RngExt;

use crate::parts::packet::{Header, Kind, Packet};
use crate::parts::port::Port;
use crate::setup::Setup;

/// The telemetry of all packets and ports.
pub(crate) struct Telemetry {
    format: Format,
    /// By port.
    codes: Vec<RateCode>,
    /// HPCC's hops, `MAX_HOPS` for each packet that carries them. They are kept outside the packets, which stay at 24 bytes.
    hops: Vec<Hop>,
    /// Places in `hops` that are free to use again.
    unused: Vec<u32>,
    /// By port; empty if no flow uses PINT.
    loads: Vec<PortLoad>,
    pub(crate) draws: Stream,
    /// PINT's T.
    longest_rtt: Duration,
    /// Base of PINT's logarithm.
    base: f64,
}

impl Telemetry {
    /// The telemetry of a fabric whose links have, or may be changed to, these `rates`; `longest_rtt` is PINT's T.
    pub(crate) fn new(
        setup: &Setup<'_>,
        rates: &[Rate],
        longest_rtt: Duration,
    ) -> Result<Self, FormatError> {
        let (links, switching) = (setup.fabric.links(), &setup.model.switching);
        let uses_hops = setup.uses(|policy| matches!(policy, Policy::Hpcc(_)));
        let uses_load = setup.uses(|policy| matches!(policy, Policy::Pint(_)));
        let format = Format::new(
            rates.iter().copied().filter(|_| uses_hops),
            u64::from(switching.telemetry_unit),
        )?;
        Ok(Self {
            // Without HPCC, the format has no rates and this list no entries.
            codes: links.iter().filter_map(|link| format.code(link.rate)).collect(),
            format,
            hops: Vec::new(),
            unused: Vec::new(),
            loads: if uses_load { vec![PortLoad::default(); links.len()] } else { Vec::new() },
            draws: stream(setup.seed, "pint", 0),
            longest_rtt,
            base: switching.pint_base,
        })
    }

    /// Changes the rate of a link.
    pub(crate) fn set_rate(&mut self, link: u32, rate: Rate) {
        if let Some(code) = self.format.code(rate) {
            self.codes[link as usize] = code;
        }
    }

    /// Whether ports write their load into packets: whether some flow uses PINT.
    #[inline]
    pub(crate) fn writes_loads(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Writes PINT's load into a packet that leaves by `out`, whose `port` sends at `rate`. Every packet advances the port's
    /// clock; only data packets change its estimate of the load.
    pub(crate) fn write_load(
        &mut self,
        now: Time,
        out: u32,
        port: &Port,
        rate: Rate,
        packet: &mut Packet,
    ) {
        let load = self.loads[out as usize].on_departure(
            now,
            u64::from(packet.wire),
            port.queued_bytes,
            packet.kind == Kind::Data,
            rate,
            self.longest_rtt,
        );
        if let Some(load) = load
            && packet.header() == Header::Load
        {
            let draw = self.draws.random::<f64>();
            // The header keeps the largest load on the path.
            let code = pint::encode(load, self.base, draw);
            packet.meta = packet.meta.max(u32::from(code));
        }
    }

    /// Writes an HPCC hop into a packet that leaves by `out`, whose port is `port`.
    pub(crate) fn write_hop(&mut self, now: Time, out: u32, port: &Port, packet: &mut Packet) {
        let code = self.codes[out as usize];
        let hop = self.format.hop(now, port.sent_bytes, port.queued_bytes, code);
        let (place, count) = (packet.meta >> 8, packet.meta & 0xff);
        self.hops[place as usize * MAX_HOPS + count as usize] = hop;
        // The count is in the lowest byte.
        packet.meta += 1;
    }

    /// The feedback that an acknowledgement arriving at `now` carries for the congestion control of `sender`.
    #[inline]
    pub(crate) fn read(&self, packet: &Packet, now: Time, sender: &Sender) -> Ack<'_> {
        let (telemetry, stamp, load) = match packet.header() {
            Header::Stamp => (&[][..], packet.sent_at(now), 0),
            Header::Hops => {
                let first = (packet.meta >> 8) as usize * MAX_HOPS;
                let count = (packet.meta & 0xff) as usize;
                (&self.hops[first..first + count], Time::ZERO, 0)
            }
            Header::Load => (&[][..], Time::ZERO, packet.meta as u16),
        };
        Ack {
            now,
            acknowledged: sender.acknowledged(),
            sent: sender.sent(),
            marked: packet.echoes_mark(),
            stamp,
            telemetry,
            format: &self.format,
            load,
        }
    }

    /// Allocates a place for the hops of one more packet; returns the packet's `meta`.
    pub(crate) fn take_place(&mut self) -> u32 {
        let place = self.unused.pop().unwrap_or_else(|| {
            let place = self.hops.len() / MAX_HOPS;
            self.hops.resize(self.hops.len() + MAX_HOPS, Hop::default());
            place as u32
        });
        place << 8
    }

    /// Frees the place of a packet's hops, if it has one.
    #[inline]
    pub(crate) fn free_place(&mut self, packet: &Packet) {
        if packet.header() == Header::Hops {
            self.unused.push(packet.meta >> 8);
        }
    }
}
