//! Links that fail, come back, or carry less at a given time.

use hocket_des::{Rate, Time};
use hocket_scenario::{Fabric, LinkId};

use crate::error::PacketRunError;

/// A cable changes at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// When.
    pub at: Time,
    /// Either direction of the cable: both change.
    pub link: LinkId,
    /// How.
    pub change: Change,
}

/// How a cable changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails. What is on it, and what waits to leave by it, is lost; flows that took it take the shortest ways that
    /// are left, or wait until there is one.
    Down,
    /// It works again. Flows go back to the ways that they had.
    Up,
    /// It carries this much, at most what it was built for, as soon as neither direction is in the middle of a packet. What a congestion control takes for the line
    /// rate and the round-trip time stays as it was.
    Rate(Rate),
}

/// Whether each change is of a link of `fabric` and of a rate that it can have.
pub(crate) fn check(changes: &[LinkChange], fabric: &Fabric) -> Result<(), PacketRunError> {
    for (index, change) in changes.iter().enumerate() {
        let number = index + 1;
        let Some(link) = fabric.links().get(change.link.index()) else {
            let (link, links) = (change.link.code(), fabric.links().len());
            return Err(PacketRunError::UnknownLink { change: number, link, links });
        };
        if let Change::Rate(rate) = change.change
            && (rate.is_zero() || rate > link.rate)
        {
            let (link, limit) = (link.name.clone(), link.rate);
            return Err(PacketRunError::ChangedRate { change: number, link, rate, limit });
        }
    }
    Ok(())
}
