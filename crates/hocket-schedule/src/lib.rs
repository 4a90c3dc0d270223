//! Who gets which GPUs: the genetic search of Pollux (OSDI'21 sections 4.2 and 4.3), and the auctions of Themis
//! (NSDI'20). The caller provides tables of what workers are worth to each job; models, networks and clocks are unknown
//! here.

pub mod auction;
mod draft;
pub mod exchange;
mod individual;
mod matrix;
mod problem;
mod repair;
mod search;
mod tally;
mod twister;

pub use matrix::Cell;
pub use problem::{Fitness, PolluxJob, PolluxProblem, ScheduleError, Worth};
pub use search::{PolluxSearch, Round, SearchOptions};
pub use twister::Twister;
