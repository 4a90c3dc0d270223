//! The basis of discrete-event simulation in Hocket: integer units with only meaningful arithmetic, event queues with a
//! defined order of simultaneous events, and random streams that depend only on a seed, a name and an index. Nothing here
//! knows networks or jobs.

mod calendar;
mod queue;
mod stream;
mod units;

pub use calendar::Calendar;
pub use queue::EventQueue;
pub use stream::{Stream, stream};
pub use units::{Bytes, Duration, Rate, Time};
