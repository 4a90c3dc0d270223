//! The allocation of nodes to jobs by the genetic search of Pollux (OSDI'21 sections 4.2 and 4.3). The caller provides
//! a table of what workers are worth to each job; models, networks and clocks are unknown here.

mod draft;
mod individual;
mod matrix;
mod problem;
mod repair;
mod search;
mod tally;

pub use matrix::Cell;
pub use problem::{Fitness, PolluxJob, PolluxProblem, ScheduleError, Worth};
pub use search::{PolluxSearch, Round, SearchOptions};
