//! The bytes that each job sends over each link.

use crate::owners::Owners;
use crate::parts::packet::{Kind, Packet};

/// Bytes on the wire by link and job since the last sample, including headers and acknowledgements. PAUSE frames belong to
/// no job and are not counted.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    owners: Owners,
    /// By link, then job; the last entry of each link is for flows without a job. One flat vector, since every packet on every
    /// link adds to it.
    bytes: Vec<u64>,
}

/// The bytes that one job sent over one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) link: u32,
    pub(crate) job: u32,
    pub(crate) bytes: u64,
}

impl Usage {
    pub(crate) fn new(owners: Owners, links: usize) -> Self {
        Self { bytes: vec![0; links * owners.count()], owners }
    }

    /// Counts a packet that leaves by this link.
    #[inline]
    pub(crate) fn add(&mut self, link: u32, packet: &Packet) {
        if !matches!(packet.kind, Kind::Pause | Kind::Resume) {
            let job = self.owners.job_of(packet.flow) as usize;
            self.bytes[link as usize * self.owners.count() + job] += u64::from(packet.wire);
        }
    }

    /// Removes and returns the counts since the last call that are not 0.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Used> {
        let jobs = self.owners.count();
        let used = self.bytes.iter_mut().enumerate().filter(|(_, bytes)| **bytes > 0);
        used.map(move |(place, bytes)| Used {
            link: (place / jobs) as u32,
            job: (place % jobs) as u32,
            bytes: std::mem::take(bytes),
        })
    }
}
