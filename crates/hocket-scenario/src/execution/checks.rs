//! Self-checks of runs with training jobs: no rank waits for ever, and no collective is faster than the links of its ranks.

use hocket_des::{Rate, Time};
use thiserror::Error;

use super::groups::OpenCollective;
use crate::training::Training;
use crate::workload::OperationKind;
use crate::{Fabric, Job};

/// A failed self-check, which only a bug in an engine can cause.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum FailedCheck {
    #[error(
        "job {job:?}: at {time} nothing is in progress any more, but rank {rank} waits in operation {operation:?} of iteration {iteration}"
    )]
    WaitsForEver { job: String, rank: u32, operation: String, iteration: u64, time: Time },
    #[error(
        "job {job:?}: {collective} {operation:?} of iteration {iteration} in the group of rank {rank} ended at {time} with a busbw of {busbw}; the links of a rank carry at most {limit}"
    )]
    FasterThanLinks {
        job: String,
        collective: &'static str,
        operation: String,
        iteration: u64,
        rank: u32,
        time: Time,
        busbw: Rate,
        limit: Rate,
    },
}

/// By group: the total rate of the links that leave the best connected of its ranks.
pub(super) fn limits_bps(training: &Training, fabric: &Fabric) -> Vec<u64> {
    let mut leaving_bps = vec![0_u64; fabric.nodes().len()];
    for link in fabric.links() {
        let bps = &mut leaving_bps[link.from.index()];
        *bps = bps.saturating_add(link.rate.as_bps());
    }
    let hosts = &training.spec().hosts;
    let of_rank = |&rank: &u32| leaving_bps[hosts[rank as usize].index()];
    let groups = training.workload().groups().iter();
    groups.map(|group| group.iter().map(of_rank).max().unwrap_or(0)).collect()
}

/// The failed check of a collective that ended at `end`, if its busbw exceeds `limit_bps`. Busbw is a lower bound of what ranks
/// send on average (of what each receives, in a broadcast), so no correct run exceeds the limit.
pub(super) fn too_fast(
    (job, training): (&Job, &Training),
    (group, limit_bps): (u32, u64),
    done: &OpenCollective,
    end: Time,
) -> Option<FailedCheck> {
    let operation = &training.workload().programs()[done.program as usize].operations()
        [done.operation as usize];
    let OperationKind::Collective { kind, bytes, .. } = operation.kind else {
        unreachable!("only collectives are open")
    };
    let members = training.members(group);
    let (_, collective) = training.collective(group, kind, bytes);
    let bits = bytes.get() as f64 * 8.0 * collective.factor();
    let busbw_bps = bits / end.since(done.start).as_secs_f64();
    // A tolerance for the rounding of the floating-point division.
    if busbw_bps <= limit_bps as f64 * (1.0 + 1e-9) {
        return None;
    }
    Some(FailedCheck::FasterThanLinks {
        job: job.name.clone(),
        collective: kind.name(),
        operation: operation.name.clone(),
        iteration: done.iteration,
        rank: members[0],
        time: end,
        busbw: Rate::from_bps(busbw_bps as u64),
        limit: Rate::from_bps(limit_bps),
    })
}
