use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Rem, Sub, SubAssign};

const PS_PER_S: u64 = 1_000_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// A span of simulated time in whole picoseconds; the longest is 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// A point in simulated time, in whole picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Duration {
    /// A span of zero.
    pub const ZERO: Self = Self(0);
    /// The longest span that can be represented.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// A span of `ns` nanoseconds.
    ///
    /// # Panics
    /// If the span is longer than [`Duration::MAX`]. The same holds for the constructors from coarser units.
    pub const fn from_ns(ns: u64) -> Self {
        Self(scaled(ns, 1_000))
    }

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(scaled(us, 1_000_000))
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(scaled(ms, 1_000_000_000))
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(scaled(s, PS_PER_S))
    }

    /// The span in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The span in seconds, for printing and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// `self − other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or `None` above [`Duration::MAX`].
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(ps) => Some(Self(ps)),
            None => None,
        }
    }

    /// `self × factor`, or `None` above [`Duration::MAX`].
    pub const fn checked_mul(self, factor: u64) -> Option<Self> {
        match self.0.checked_mul(factor) {
            Some(ps) => Some(Self(ps)),
            None => None,
        }
    }

    /// Whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// The point `ps` picoseconds after the start of the run.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start of the run.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run, for printing and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// The span from `earlier` to this point.
    ///
    /// # Panics
    /// If `earlier` is after this point, which is a bug in the caller.
    pub const fn since(self, earlier: Self) -> Duration {
        assert!(self.0 >= earlier.0, "time runs forward");
        Duration(self.0 - earlier.0)
    }
}

impl Bytes {
    /// No data.
    pub const ZERO: Self = Self(0);

    /// An amount of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// A rate of zero.
    pub const ZERO: Self = Self(0);

    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate of `gbps` × 10⁹ bits per second.
    pub const fn from_gbps(gbps: u64) -> Self {
        Self(scaled(gbps, 1_000_000_000))
    }

    /// The rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Whether the rate is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Time to transmit `size` at this rate, rounded up to the next picosecond so that no link ever carries more than its
    /// rate.
    ///
    /// # Panics
    /// If the rate is zero, or the time is longer than [`Duration::MAX`].
    pub fn transmission_time(self, size: Bytes) -> Duration {
        assert!(self.0 > 0, "a link of rate zero never finishes sending");
        let bit_ps = u128::from(size.0) * u128::from(BITS_PER_BYTE) * u128::from(PS_PER_S);
        let ps = bit_ps.div_ceil(u128::from(self.0));
        Duration(u64::try_from(ps).expect("a transmission is shorter than 213 days"))
    }

    /// Bytes transmitted at this rate in `span`, rounded to the nearest byte (half up).
    pub fn bytes_in(self, span: Duration) -> Bytes {
        let bit_ps = u128::from(self.0) * u128::from(span.0);
        let per_byte = u128::from(BITS_PER_BYTE) * u128::from(PS_PER_S);
        let bytes = (bit_ps + per_byte / 2) / per_byte;
        Bytes(u64::try_from(bytes).expect("a phase moves fewer than 2^64 bytes"))
    }
}

const fn scaled(value: u64, factor: u64) -> u64 {
    value.checked_mul(factor).expect("the value fits its unit's range")
}

macro_rules! additive {
    ($($unit:ty),*) => {$(
        impl Add for $unit {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.checked_add(other.0).expect("a sum stays within its unit's range"))
            }
        }
        impl Sub for $unit {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.checked_sub(other.0).expect("an amount never falls below zero"))
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl SubAssign for $unit {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl Mul<u64> for $unit {
            type Output = Self;
            fn mul(self, factor: u64) -> Self {
                Self(scaled(self.0, factor))
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self(0), Add::add)
            }
        }
    )*};
}

additive!(Duration, Bytes, Rate);

impl Rem for Duration {
    type Output = Self;
    fn rem(self, period: Self) -> Self {
        Self(self.0 % period.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.checked_add(span.0).expect("a run is shorter than 213 days"))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.checked_sub(span.0).expect("a run has no time before its start"))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl fmt::Display for Duration {
    /// Formats the span in the largest unit in which it is at least 1: `180 ms`, `3.5 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled_display(
            f,
            self.0,
            &[(PS_PER_S, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns"), (1, "ps")],
        )
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}

impl fmt::Display for Rate {
    /// Formats the rate in the largest unit in which it is at least 1: `50 Gbps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled_display(
            f,
            self.0,
            &[
                (1_000_000_000_000, "Tbps"),
                (1_000_000_000, "Gbps"),
                (1_000_000, "Mbps"),
                (1_000, "kbps"),
                (1, "bps"),
            ],
        )
    }
}

impl fmt::Display for Bytes {
    /// Formats the amount in the largest decimal unit in which it is at least 1: `32 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled_display(
            f,
            self.0,
            &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"), (1, "B")],
        )
    }
}

fn scaled_display(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let &(scale, unit) = units
        .iter()
        .find(|(scale, _)| value >= *scale)
        .or(units.last())
        .expect("every unit table has a row");
    write!(f, "{} {unit}", value as f64 / scale as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_time_rounds_up_so_that_no_link_exceeds_its_rate() {
        let third_of_a_bit_per_ps = Rate::from_bps(3_000_000_000_000);
        assert_eq!(third_of_a_bit_per_ps.transmission_time(Bytes::new(1)), Duration::from_ps(3));
        assert_eq!(Rate::from_gbps(200).transmission_time(Bytes::new(1000)), Duration::from_ns(40));
    }

    #[test]
    fn a_rate_of_8_gbps_is_a_gigabyte_per_second() {
        assert_eq!(Rate::from_gbps(8).bytes_in(Duration::from_secs(1)), Bytes::new(1_000_000_000));
    }

    #[test]
    fn units_print_as_they_are_written_in_a_plan() {
        assert_eq!(Duration::from_ms(180).to_string(), "180 ms");
        assert_eq!(Rate::from_gbps(50).to_string(), "50 Gbps");
        assert_eq!(Bytes::new(109_500_000).to_string(), "109.5 MB");
        assert_eq!(Duration::ZERO.to_string(), "0 ps");
    }

    #[test]
    #[should_panic(expected = "time runs forward")]
    fn a_span_cannot_be_negative() {
        let _ = Time::ZERO.since(Time::from_ps(1));
    }
}
