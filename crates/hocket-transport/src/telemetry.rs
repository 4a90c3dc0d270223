//! In-band telemetry (INT), which switches write into packets and congestion controls read. Its fields have the widths of
//! HPCC's header (SIGCOMM'19, section 4.1), so that clocks and counters wrap as they do there.
//!
//! A rate is encoded in four bits. Each fabric has its own list of rates, in [`Format`], so that any rates are possible.

use hocket_des::{Rate, Time};
use thiserror::Error;

/// The largest number of switches whose telemetry a packet carries: HPCC's header has five places.
pub const MAX_HOPS: usize = 5;

/// The largest number of distinct link rates of a fabric: a code has four bits.
pub const MAX_RATES: usize = 16;

const TIME_BITS: u32 = 24;
const BYTES_BITS: u32 = 20;
const QUEUE_BITS: u32 = 16;
const BYTES_SHIFT: u32 = TIME_BITS;
const QUEUE_SHIFT: u32 = BYTES_SHIFT + BYTES_BITS;
const RATE_SHIFT: u32 = QUEUE_SHIFT + QUEUE_BITS;

// HPCC section 4.1: sent bytes are counted in units of 128 bytes, queues in units of 80.
const BYTES_UNIT: u64 = 128;
const QUEUE_UNIT: u64 = 80;
const PS_PER_NS: u64 = 1000;

/// The telemetry format of one fabric: its list of rates and the resolution of its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    rates: [u64; MAX_RATES],
    len: u8,
    multiplier: u64,
}

/// The code of a rate in a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateCode(u8);

/// Why a fabric has no telemetry format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// There are more rates than codes.
    #[error(
        "telemetry: the fabric has more than {MAX_RATES} distinct link rates; {rate} is one too many"
    )]
    TooManyRates {
        /// The first rate that got no code.
        rate: Rate,
    },
    /// A link has rate zero, so its load is undefined.
    #[error("telemetry: a link rate is 0 bps; it must be above 0")]
    ZeroRate,
    /// The unit of the counters would be zero, or would overflow.
    #[error("telemetry: the unit multiplier is {multiplier}; it must be from 1 to 65536")]
    Multiplier {
        /// The multiplier that was given.
        multiplier: u64,
    },
}

impl Format {
    /// The format of a fabric with these link rates, which may repeat. It counts sent bytes in units of 128 × `multiplier`
    /// bytes and queues in units of 80 × `multiplier` bytes.
    ///
    /// # Errors
    /// If there are more than [`MAX_RATES`] distinct rates, a rate is zero, or the multiplier is zero or above 65536.
    pub fn new(
        rates: impl IntoIterator<Item = Rate>,
        multiplier: u64,
    ) -> Result<Self, FormatError> {
        if !(1..=65_536).contains(&multiplier) {
            return Err(FormatError::Multiplier { multiplier });
        }
        let mut format = Self { rates: [0; MAX_RATES], len: 0, multiplier };
        for rate in rates {
            if rate.is_zero() {
                return Err(FormatError::ZeroRate);
            }
            if format.code(rate).is_some() {
                continue;
            }
            let slot = format
                .rates
                .get_mut(usize::from(format.len))
                .ok_or(FormatError::TooManyRates { rate })?;
            *slot = rate.as_bps();
            format.len += 1;
        }
        Ok(format)
    }

    /// The code of a rate, or `None` if no link of the fabric has that rate.
    pub fn code(&self, rate: Rate) -> Option<RateCode> {
        let known = &self.rates[..usize::from(self.len)];
        let index = known.iter().position(|&bps| bps == rate.as_bps())?;
        Some(RateCode(u8::try_from(index).expect("there are at most 16 rates")))
    }

    /// The telemetry that a switch writes when a packet begins to leave a port at `now`, after `sent_bytes` of earlier
    /// packets, leaving `queue_bytes` behind. Time is encoded in nanoseconds modulo 2²⁴ and sent bytes in units modulo 2²⁰,
    /// both rounded down. A queue of 2¹⁶ units or more is encoded as 2¹⁶ − 1, the largest value.
    #[inline]
    pub fn hop(&self, now: Time, sent_bytes: u64, queue_bytes: u64, rate: RateCode) -> Hop {
        let time = (now.as_ps() / PS_PER_NS) & mask(TIME_BITS);
        let sent = (sent_bytes / (BYTES_UNIT * self.multiplier)) & mask(BYTES_BITS);
        let queue = (queue_bytes / (QUEUE_UNIT * self.multiplier)).min(mask(QUEUE_BITS));
        Hop(time | sent << BYTES_SHIFT | queue << QUEUE_SHIFT | u64::from(rate.0) << RATE_SHIFT)
    }

    /// The rate of the port that wrote `hop`, in bits per second.
    #[inline]
    pub fn rate_bps(&self, hop: Hop) -> u64 {
        self.rates[(hop.0 >> RATE_SHIFT) as usize]
    }

    /// Bytes in the port's queue, rounded down to units.
    #[inline]
    pub fn queue_bytes(&self, hop: Hop) -> u64 {
        (hop.0 >> QUEUE_SHIFT & mask(QUEUE_BITS)) * (QUEUE_UNIT * self.multiplier)
    }

    /// Bytes that left the port between `earlier` and `later`, in whole units; wrong if 2²⁰ units or more did.
    #[inline]
    pub fn bytes_between(&self, earlier: Hop, later: Hop) -> u64 {
        let units = (later.0 >> BYTES_SHIFT).wrapping_sub(earlier.0 >> BYTES_SHIFT);
        (units & mask(BYTES_BITS)) * (BYTES_UNIT * self.multiplier)
    }
}

/// The telemetry of one switch in a packet, as one word: time, bytes sent, queue and rate of its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop(u64);

impl Hop {
    /// Nanoseconds from `earlier` to this; wrong if 2²⁴ (16.8 ms) or more passed.
    #[inline]
    pub fn ns_since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & mask(TIME_BITS)
    }
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ns(ns: u64) -> Time {
        Time::from_ps(ns * PS_PER_NS)
    }

    fn format(multiplier: u64) -> Format {
        Format::new([Rate::from_gbps(200), Rate::from_gbps(100), Rate::from_gbps(200)], multiplier)
            .expect("two rates fit")
    }

    #[test]
    fn telemetry_is_read_back_in_whole_units() {
        let format = format(8);
        let code = format.code(Rate::from_gbps(100)).expect("a rate of the fabric");
        let before = format.hop(at_ns(1_000), 10_000, 0, code);
        let after = format.hop(at_ns(1_430), 20_780, 52_000, code);
        assert_eq!(after.ns_since(before), 430);
        // 10,000 is 9 whole units of 1,024 bytes, 20,780 is 20.
        assert_eq!(format.bytes_between(before, after), 11 * 1024);
        // 52,000 is 81 whole units of 640 bytes.
        assert_eq!(format.queue_bytes(after), 51_840);
        assert_eq!(format.rate_bps(after), 100_000_000_000);
    }

    #[test]
    fn differences_are_right_across_a_wrap_of_clock_and_counter() {
        let format = format(1);
        let code = format.code(Rate::from_gbps(200)).expect("a rate of the fabric");
        let wrap = 128 << 20;
        let before = format.hop(at_ns((1 << 24) - 3), wrap - 128, 0, code);
        let after = format.hop(at_ns((1 << 24) + 4), wrap + 256, 0, code);
        assert_eq!(after.ns_since(before), 7);
        assert_eq!(format.bytes_between(before, after), 3 * 128);
        assert_eq!(format.rate_bps(after), 200_000_000_000);
    }

    #[test]
    fn a_queue_too_long_to_encode_saturates() {
        let format = format(1);
        let code = format.code(Rate::from_gbps(200)).expect("a rate of the fabric");
        let hop = format.hop(at_ns(5), 0, 32 << 20, code);
        assert_eq!(format.queue_bytes(hop), 65_535 * 80);
        assert_eq!(format.rate_bps(hop), 200_000_000_000);
    }

    #[test]
    fn a_rate_without_a_code_is_named_in_the_error() {
        let seventeen = (1..=17).map(Rate::from_gbps);
        let error = Format::new(seventeen, 1).expect_err("a code has four bits");
        assert_eq!(
            error.to_string(),
            "telemetry: the fabric has more than 16 distinct link rates; 17 Gbps is one too many"
        );
        assert_eq!(format(1).code(Rate::from_gbps(25)), None);
        assert_eq!(Format::new([], 0), Err(FormatError::Multiplier { multiplier: 0 }));
        assert_eq!(Format::new([Rate::ZERO], 1), Err(FormatError::ZeroRate));
    }
}
