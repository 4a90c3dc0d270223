//! Changes of links at given times: failures, repairs, and lower rates.

use hocket_des::{Rate, Time};
use hocket_scenario::{Fabric, LinkId};

use crate::error::PacketRunError;

/// A change of a cable at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// When the change takes effect.
    pub at: Time,
    /// Either direction of the cable; both directions change.
    pub link: LinkId,
    /// What changes.
    pub change: Change,
}

/// What changes about a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails. Packets on it and packets queued for it are lost. Flows that used it take the shortest remaining paths, or
    /// wait until there is one.
    Down,
    /// It works again. Flows return to their original paths.
    Up,
    /// Its rate becomes this, at most its original rate, as soon as neither direction is in the middle of a packet. The line
    /// rate and round-trip time that congestion controls assume do not change.
    Rate(Rate),
}

/// Checks that each change names a link of `fabric` and a rate that this link supports.
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
