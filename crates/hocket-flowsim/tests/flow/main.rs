//! The flow engine as its users call it.

mod cluster;
mod common;
mod policies;
mod properties;
mod runs;
mod training;
mod two_jobs;
