//! What a run leaves behind.

use hocket_des::Time;

use crate::build::Setup;

/// A PAUSE frame or a resume frame arrived at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseRow {
    /// When.
    pub time: Time,
    /// The port that must stop, by its directed link.
    pub link: u32,
    /// Class of traffic.
    pub class: u8,
    /// Whether it must stop, or may go on.
    pub is_pause: bool,
}

/// A message arrived as a whole, and its sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionRow {
    /// The flow.
    pub flow: u32,
    /// Bytes of data.
    pub bytes: u64,
    /// When it was posted.
    pub start: Time,
    /// When the acknowledgement of its last byte arrived.
    pub end: Time,
}

#[derive(Clone, Debug, Default)]
pub struct Records {
    pub pauses: Vec<PauseRow>,
    pub completions: Vec<CompletionRow>,
    pub pauses_sent: u64,
    pub losses: u64,
    pub retransmissions: u64,
}

impl Records {
    pub(crate) fn new(_: &Setup<'_>) -> Self {
        Self::default()
    }

    pub(crate) fn pause(&mut self, time: Time, link: u32, class: u8, is_pause: bool) {
        self.pauses.push(PauseRow { time, link, class, is_pause });
    }
}
