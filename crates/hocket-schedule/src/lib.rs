//! Who gets which servers: the genetic search of Pollux (OSDI'21 sections 4.2 and 4.3). What workers are worth to a job
//! comes as a table; nothing here knows a model, a network or a clock.

mod matrix;
mod problem;
mod repair;
mod search;
mod tally;

pub use problem::{Cell, Fitness, PolluxJob, PolluxProblem, ScheduleError, Worth};
pub use search::{PolluxSearch, Round, SearchOptions};
