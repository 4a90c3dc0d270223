//! Errors that end a run.

use hocket_des::{Rate, Time};
use hocket_scenario::RouteError;
use hocket_scenario::closed_loop::TooLong;
use hocket_scenario::execution::FailedCheck;
use thiserror::Error;

/// Why a run has no result. `OverCapacity`, `BytesLost` and `Training` are failed self-checks: they indicate a bug.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum FlowError {
    #[error("link {link:?} carries {load} at {time}, above its rate of {capacity}")]
    OverCapacity { link: String, time: Time, load: Rate, capacity: Rate },
    #[error("job {job:?} sent {sent} picobits by {time} instead of {due}")]
    BytesLost { job: String, time: Time, sent: u128, due: u128 },
    #[error("job {job:?} moves at {rate} on link {link:?} at {time} and would never finish")]
    Stalled { job: String, link: String, time: Time, rate: Rate },
    #[error(
        "the number of transfers is {transfers}, and the flow engine supports none; use the packet engine"
    )]
    Transfers { transfers: usize },
    #[error(transparent)]
    Training(#[from] FailedCheck),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error(transparent)]
    Route(#[from] RouteError),
}
