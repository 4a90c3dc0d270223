//! Operations, and the programs that ranks run.

use std::collections::BTreeSet;

use hocket_des::{Bytes, Duration};

use super::error::WorkloadError;
use crate::collective::CollectiveKind;

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name in tables and messages.
    pub name: String,
    /// What it does.
    pub kind: OperationKind,
    /// The operations of its program that must be done before it starts, all of them earlier in the program.
    pub after: Vec<u32>,
}

/// What an operation does. It communicates over one of its rank's communicators, given by its position in the rank's list, so
/// that ranks in different groups can share a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Keeps the GPU busy. A rank computes one thing at a time: among those that may start, the first in the program.
    Compute(Duration),
    /// Moves data among all members. Collectives of one communicator run one at a time, in the order of the program.
    Collective {
        /// Position in the rank's list.
        communicator: u32,
        /// The kind of collective.
        kind: CollectiveKind,
        /// The size, as nccl-tests reports it.
        bytes: Bytes,
    },
    /// Sends to one member; done when the message is acknowledged.
    Send(Exchange),
    /// Receives from one member; done when the message has arrived.
    Recv(Exchange),
}

/// One end of a message between two ranks. The n-th send from one rank to another with a tag is matched with the receiver's
/// n-th receive from that rank with that tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Position in the rank's list.
    pub communicator: u32,
    /// The rank at the other end: its position in the group.
    pub peer: u32,
    /// The size.
    pub bytes: Bytes,
    /// Distinguishes messages between the same two ranks.
    pub tag: u64,
}

/// Operations, with indices derived from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    operations: Vec<Operation>,
    /// By operation: the operations that wait for it.
    followers: Vec<Vec<u32>>,
    /// By position of communicator: its collectives, in order.
    collectives: Vec<Vec<u32>>,
}

impl Program {
    /// All operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations that wait for this one.
    pub fn followers(&self, operation: u32) -> &[u32] {
        &self.followers[operation as usize]
    }

    /// The collectives on the communicator at this position of the rank's list, in order.
    pub fn collectives(&self, communicator: usize) -> &[u32] {
        // The list ends at the last communicator that has a collective.
        self.collectives.get(communicator).map_or(&[], |all| all)
    }

    /// With whom it exchanges messages: position of the communicator and position in the group, each pair once, in order.
    pub fn exchanges(&self) -> Vec<(u32, u32)> {
        let exchange = |operation: &Operation| match operation.kind {
            OperationKind::Send(exchange) | OperationKind::Recv(exchange) => {
                Some((exchange.communicator, exchange.peer))
            }
            OperationKind::Compute(_) | OperationKind::Collective { .. } => None,
        };
        let all: BTreeSet<_> = self.operations.iter().filter_map(exchange).collect();
        all.into_iter().collect()
    }

    pub(super) fn new(number: usize, operations: Vec<Operation>) -> Result<Self, WorkloadError> {
        let mut followers = vec![Vec::new(); operations.len()];
        let mut collectives: Vec<Vec<u32>> = Vec::new();
        for (index, operation) in (0_u32..).zip(&operations) {
            for &after in &operation.after {
                // Only earlier ones, which makes cycles within a program impossible.
                if after >= index {
                    let operation = operation.name.clone();
                    return Err(WorkloadError::NotBefore { program: number, operation, after });
                }
                followers[after as usize].push(index);
            }
            match operation.kind {
                OperationKind::Compute(_) => {}
                OperationKind::Collective { communicator, .. } => {
                    let place = communicator as usize;
                    if collectives.len() <= place {
                        collectives.resize(place + 1, Vec::new());
                    }
                    collectives[place].push(index);
                }
                OperationKind::Send(exchange) | OperationKind::Recv(exchange) => {
                    if exchange.bytes == Bytes::ZERO {
                        let operation = operation.name.clone();
                        return Err(WorkloadError::NoBytes { program: number, operation });
                    }
                }
            }
            if operation.kind.is_empty_collective() {
                let operation = operation.name.clone();
                return Err(WorkloadError::NoBytes { program: number, operation });
            }
        }
        Ok(Self { operations, followers, collectives })
    }
}

impl OperationKind {
    /// The name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compute(_) => "compute",
            Self::Collective { kind, .. } => kind.name(),
            Self::Send(_) => "send",
            Self::Recv(_) => "recv",
        }
    }

    /// The position of its communicator; `None` for a compute.
    pub fn communicator(&self) -> Option<u32> {
        match *self {
            Self::Compute(_) => None,
            Self::Collective { communicator, .. } => Some(communicator),
            Self::Send(exchange) | Self::Recv(exchange) => Some(exchange.communicator),
        }
    }

    fn is_empty_collective(&self) -> bool {
        matches!(self, Self::Collective { bytes, .. } if *bytes == Bytes::ZERO)
    }
}
