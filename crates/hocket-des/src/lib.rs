//! What every part of Hocket that knows time is built on: integer units with only meaningful
//! arithmetic, an event queue whose ties come out in the order scheduled, and random streams that
//! depend on a seed and a name and on nothing else. It knows no network and no job.

mod calendar;
mod queue;
mod stream;
mod units;

pub use calendar::Calendar;
pub use queue::EventQueue;
pub use stream::{Stream, stream};
pub use units::{Bytes, Duration, Rate, Time};
