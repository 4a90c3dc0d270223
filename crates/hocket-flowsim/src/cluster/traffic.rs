//! What a job sent over a link.

use hocket_des::{Bytes, Duration};

/// The traffic of a job on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// The bytes that it sent.
    pub bytes: Bytes,
    /// The time in which it was sending.
    pub busy: Duration,
    /// The part of that time in which the link was full and other flows sent as well.
    pub contended: Duration,
    /// The expected number of its packets that were marked on the link.
    pub marks: f64,
}
