//! The flow engine through its public interface.

mod cluster;
mod common;
mod policies;
mod properties;
mod record;
mod runs;
mod skip_ahead;
mod symmetry;
mod training;
mod two_jobs;
