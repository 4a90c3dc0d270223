//! What can be worked out by hand or is known from theory: times to the picosecond, shares of a link, waits, headroom,
//! and what controls promise of their queues.

mod common;
mod controls;
mod delays;
mod pfc;
mod properties;
mod scale_up;
mod shares;
