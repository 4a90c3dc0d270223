//! Errors of workloads.

use thiserror::Error;

/// The largest number of operations in an iteration, over all ranks: each needs some bytes of state, gigabytes in all.
pub const MAX_OPERATIONS: u64 = 1 << 28;

/// Why programs, groups and ranks do not form a workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum WorkloadError {
    #[error("no rank; a workload has at least one")]
    NoRank,
    #[error("{found} operations of all ranks together; at most {MAX_OPERATIONS} are possible")]
    TooManyOperations { found: u64 },
    #[error("rank {rank} runs program {program}; there are {programs} programs, counted from 0")]
    UnknownProgram { rank: usize, program: u32, programs: usize },
    #[error("rank {rank} is in group {group}; there are {groups} groups, counted from 0")]
    UnknownGroup { rank: usize, group: u32, groups: usize },
    #[error("rank {rank} has group {group} among its communicators but is not in it")]
    NotAMember { rank: usize, group: u32 },
    #[error("rank {rank} has group {group} twice among its communicators")]
    CommunicatorTwice { rank: usize, group: u32 },
    #[error("group {group} has no rank; a group has at least one")]
    EmptyGroup { group: usize },
    #[error("group {group} has rank {rank} twice")]
    MemberTwice { group: usize, rank: u32 },
    #[error("group {group} has rank {rank}, which does not have it among its communicators")]
    NotItsCommunicator { group: usize, rank: u32 },
    #[error(
        "program {program}, operation {operation:?}: waits for operation {after}; an operation can only wait for earlier ones"
    )]
    NotBefore { program: usize, operation: String, after: u32 },
    #[error("program {program}, operation {operation:?}: 0 bytes; a message has at least 1")]
    NoBytes { program: usize, operation: String },
    #[error(
        "rank {rank}, operation {operation:?}: communicator {communicator}; the rank has {communicators} communicators, counted from 0"
    )]
    UnknownCommunicator { rank: usize, operation: String, communicator: u32, communicators: usize },
    #[error(
        "rank {rank}, operation {operation:?}: peer {peer}; the group has {members} members, counted from 0"
    )]
    UnknownPeer { rank: usize, operation: String, peer: u32, members: usize },
    #[error("rank {rank}, operation {operation:?}: the peer is the rank itself")]
    ToItself { rank: usize, operation: String },
    #[error(
        "rank {rank}, operation {operation:?}: {what}, where rank {other} of the same group has {other_what}"
    )]
    Disagreement { rank: u32, operation: String, what: String, other: u32, other_what: String },
    #[error(
        "rank {rank}, operation {operation:?}: {what} rank {peer}, which has no {missing} for it"
    )]
    Unmatched { rank: u32, operation: String, what: &'static str, peer: u32, missing: &'static str },
    #[error(
        "rank {rank}, operation {operation:?}: {bytes} bytes, where rank {peer} has {peer_bytes} in {peer_operation:?}"
    )]
    OtherBytes {
        rank: u32,
        operation: String,
        bytes: u64,
        peer: u32,
        peer_operation: String,
        peer_bytes: u64,
    },
    #[error("ranks wait for each other: {}", shown(waits))]
    Deadlock { waits: Vec<Wait> },
}

/// A deadlocked rank: in a cycle of them, each waits for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "its message says what it is")]
pub struct Wait {
    pub rank: u32,
    pub kind: &'static str,
    pub operation: String,
    pub for_rank: u32,
}

fn shown(waits: &[Wait]) -> String {
    let each = |Wait { rank, kind, operation, for_rank }: &Wait| {
        format!("rank {rank} in {kind} {operation:?} for rank {for_rank}")
    };
    waits.iter().map(each).collect::<Vec<_>>().join(", ")
}
