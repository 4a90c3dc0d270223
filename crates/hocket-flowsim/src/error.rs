//! What can end a run before its time.

use hocket_des::{Rate, Time};
use hocket_scenario::RouteError;
use hocket_scenario::closed_loop::TooLong;
use hocket_scenario::execution::FailedCheck;
use thiserror::Error;

/// Why a run has no result. The first two mean a bug here, found by the run's own checks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum FlowError {
    #[error("link {link:?} carries {load} at {time}, above its rate of {capacity}")]
    OverCapacity { link: String, time: Time, load: Rate, capacity: Rate },
    #[error("job {job:?} sent {sent} of {due} picobits by {time}; they must agree")]
    BytesLost { job: String, time: Time, sent: u128, due: u128 },
    #[error("job {job:?} moves at {rate} on link {link:?} at {time} and would never finish")]
    Stalled { job: String, link: String, time: Time, rate: Rate },
    #[error(
        "the number of transfers is {transfers}; the flow engine runs periodic jobs alone, so it must be 0"
    )]
    Transfers { transfers: usize },
    #[error(transparent)]
    Training(#[from] FailedCheck),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error(transparent)]
    Route(#[from] RouteError),
}
