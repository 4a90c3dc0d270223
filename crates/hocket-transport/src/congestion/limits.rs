//! Range checks of parameters, and the error for a parameter out of range.

use std::fmt;

use hocket_des::{Duration, Rate};
use thiserror::Error;

/// A parameter out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{policy}: {parameter} is {value}; it must be {limit}")]
pub struct ParameterError {
    /// The policy to which the parameter belongs.
    pub policy: &'static str,
    /// Its name, as in the algorithm's `Parameters`.
    pub parameter: &'static str,
    /// The value that was given.
    pub value: String,
    /// The values that are allowed.
    pub limit: String,
}

/// Fails with the `value` and `limit` of `parameter` unless `holds`.
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

/// Requires a gain or factor to be above 0 and at most 1.
pub(super) fn require_fraction(
    policy: &'static str,
    parameter: &'static str,
    value: f64,
) -> Result<(), ParameterError> {
    require(value > 0.0 && value <= 1.0, policy, parameter, &value, &"above 0 and at most 1")
}

/// Requires a rate to be above zero and at most the NIC's.
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

/// Requires a time to be above zero.
pub(super) fn require_positive(
    policy: &'static str,
    parameter: &'static str,
    value: Duration,
) -> Result<(), ParameterError> {
    require(!value.is_zero(), policy, parameter, &value, &"above 0 ps")
}
