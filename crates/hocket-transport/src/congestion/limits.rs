//! What parameters may be, and what is said of one that is something else.

use std::fmt;

use hocket_des::{Duration, Rate};
use thiserror::Error;

/// A parameter out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{policy}: {parameter} is {value}; it must be {limit}")]
pub struct ParameterError {
    /// Whose parameter.
    pub policy: &'static str,
    /// Its name, as in the algorithm's `Parameters`.
    pub parameter: &'static str,
    /// The value that was given.
    pub value: String,
    /// What it may be.
    pub limit: String,
}

/// Refuses `value` of `parameter` unless `holds`.
pub(super) fn require(
    holds: bool,
    policy: &'static str,
    parameter: &'static str,
    value: &dyn fmt::Display,
    limit: &dyn fmt::Display,
) -> Result<(), ParameterError> {
    if holds {
        return Ok(());
    }
    Err(ParameterError { policy, parameter, value: value.to_string(), limit: limit.to_string() })
}

/// A gain or factor that must lie above 0 and at most at 1.
pub(super) fn require_fraction(
    policy: &'static str,
    parameter: &'static str,
    value: f64,
) -> Result<(), ParameterError> {
    require(value > 0.0 && value <= 1.0, policy, parameter, &value, &"above 0 and at most 1")
}

/// A rate that must be above zero and no more than the NIC's.
pub(super) fn require_rate(
    policy: &'static str,
    parameter: &'static str,
    rate: Rate,
    line_rate: Rate,
) -> Result<(), ParameterError> {
    require(
        !rate.is_zero() && rate <= line_rate,
        policy,
        parameter,
        &rate,
        &format_args!("above 0 bps and at most the NIC's rate, {line_rate}"),
    )
}

/// A time that must not be zero.
pub(super) fn require_positive(
    policy: &'static str,
    parameter: &'static str,
    value: Duration,
) -> Result<(), ParameterError> {
    require(!value.is_zero(), policy, parameter, &value, &"above 0 ps")
}
