//! What can be worked out by hand or is known from theory: times to the picosecond, shares of a link, waits, headroom,
//! what controls promise of their queues, and what a run records of all that.

mod common;
mod controls;
mod delays;
mod pfc;
mod properties;
mod scale_up;
mod shares;
mod telemetry;
