//! Operations, and the programs that ranks run.

use hocket_des::{Bytes, Duration};

use super::error::WorkloadError;
use crate::collective::CollectiveKind;

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// For people: in tables and messages.
    pub name: String,
    /// What it does.
    pub kind: OperationKind,
    /// The operations of its program, all before it, that must be done before it starts.
    pub after: Vec<u32>,
}

/// What an operation does. What it communicates goes over one of its rank's communicators, named by its place in the rank's
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Keeps the GPU busy. A rank does one compute at a time: of those that may start, the first of the program.
    Compute(Duration),
    /// Moves data among all members. Those of one communicator run one after another, in the order of the program.
    Collective {
        /// Place in the rank's list.
        communicator: u32,
        /// Which.
        kind: CollectiveKind,
        /// How much, as nccl-tests counts it.
        bytes: Bytes,
    },
    /// Sends to one member; done when all is acknowledged.
    Send(Exchange),
    /// Takes what a member sends; done when it has arrived.
    Recv(Exchange),
}

/// One end of a message between two ranks. The n-th send of a rank to another one with a tag goes to the other's n-th
/// receive from it with that tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Place in the rank's list.
    pub communicator: u32,
    /// The other one: its place in the group.
    pub peer: u32,
    /// How much.
    pub bytes: Bytes,
    /// Tells messages between the same two ranks apart.
    pub tag: u64,
}

/// Operations, and what follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    operations: Vec<Operation>,
    /// By operation: those that wait for it.
    then: Vec<Vec<u32>>,
    /// By place of communicator: its collectives, in order.
    collectives: Vec<Vec<u32>>,
}

impl Program {
    /// All operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations that wait for this one.
    pub fn then(&self, operation: u32) -> &[u32] {
        &self.then[operation as usize]
    }

    /// The collectives on the communicator at this place of the rank's list, in order.
    pub fn collectives(&self, communicator: usize) -> &[u32] {
        self.collectives.get(communicator).map_or(&[], |all| all)
    }

    pub(super) fn new(number: usize, operations: Vec<Operation>) -> Result<Self, WorkloadError> {
        let mut then = vec![Vec::new(); operations.len()];
        let mut collectives: Vec<Vec<u32>> = Vec::new();
        for (index, operation) in (0_u32..).zip(&operations) {
            for &after in &operation.after {
                if after >= index {
                    let operation = operation.name.clone();
                    return Err(WorkloadError::NotBefore { program: number, operation, after });
                }
                then[after as usize].push(index);
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
        Ok(Self { operations, then, collectives })
    }
}

impl OperationKind {
    /// As tables name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compute(_) => "compute",
            Self::Collective { kind, .. } => kind.name(),
            Self::Send(_) => "send",
            Self::Recv(_) => "recv",
        }
    }

    /// The communicator that it needs.
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
