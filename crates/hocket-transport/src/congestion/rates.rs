//! Arithmetic of rates shared by several controls.

use hocket_des::Rate;

/// `rate × factor` in whole bits per second, rounded down; 0 if the factor is negative.
#[inline]
pub(super) fn times(rate: u64, factor: f64) -> u64 {
    (rate as f64 * factor) as u64
}

/// A step of `bps_per_gbps` bits per second for each 10⁹ bits per second of `line_rate`.
pub(super) fn step(line_rate: Rate, bps_per_gbps: u64) -> Rate {
    let bps = u128::from(line_rate.as_bps()) * u128::from(bps_per_gbps) / 1_000_000_000;
    Rate::from_bps(u64::try_from(bps).expect("a step is a small part of the line rate"))
}

/// The minimum rate of HPCC's scripts: 1 Gb/s, or the line rate if that is lower.
pub(super) fn recommended_min_rate(line_rate: Rate) -> Rate {
    line_rate.min(Rate::from_gbps(1))
}
