//! Errors of the solvers and of fitting periods.

use hocket_des::Duration;
use thiserror::Error;

/// Why jobs have no score, no time-shifts or no common circle.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum CompatError {
    #[error("there are no jobs to place on a circle")]
    NoJobs,
    #[error("the link's capacity is 0; it must be higher")]
    ZeroCapacity,
    #[error("there is no link that a job crosses")]
    NoLinks,
    #[error("job {job} is named, but there are only {jobs} jobs, counted from 0")]
    UnknownJob { job: usize, jobs: usize },
    #[error(
        "the periods have no common multiple up to {rounds_limit} iterations of one job; \
         round them to commensurate ones first"
    )]
    Incommensurate { rounds_limit: u64 },
    #[error("a precision of {degrees} degrees is not between 0.1 and 90")]
    Precision { degrees: String },
    #[error(
        "jobs that share a GPU cannot avoid computing at the same time: their compute phases \
         overlap at every rotation"
    )]
    GpuConflict,
    #[error("the demands are too large to add up exactly; use coarser times or rates")]
    Overflow,
    #[error("{jobs} jobs; the exact solver takes at most {limit}: give a precision instead")]
    TooManyJobs { jobs: usize, limit: usize },
    #[error("the unified circle would be longer than {limit}, up to which times add up exactly")]
    CircleTooLong { limit: Duration },
    #[error("stopped before an answer was found")]
    Stopped,
    #[error("a period is 0; it must be longer")]
    ZeroPeriod,
    #[error("tolerance {tolerance} is not between 0 and 0.5")]
    Tolerance { tolerance: String },
    #[error("{shifts} time-shifts for {jobs} jobs")]
    ShiftCount { shifts: usize, jobs: usize },
}
