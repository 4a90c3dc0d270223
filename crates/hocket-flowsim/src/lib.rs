//! Flow-level simulation: between two events every job sends at a constant rate, so that hours of
//! cluster time take seconds. Packets, queues and the dynamics of congestion control are left to
//! the packet engine; here, a congestion control is reduced to how it shares a link: max-min with
//! weights and strict priority.

mod allocation;
pub mod cluster;
mod contention;
mod counters;
mod engine;
mod error;
mod goodput;
mod incremental;
mod marks;
mod network;
mod plan;
mod sampling;
mod sender;
mod symmetry;
mod tables;
mod training;

pub use counters::FlowCounters;
pub use engine::{FlowEnd, FlowOptions, FlowOutcome, FlowStatus, run, run_observed};
pub use error::FlowError;
pub use goodput::{Goodput, GoodputError};
pub use marks::{LinkMarks, MarkModel, MarkModelError};
pub use tables::tables_without_rows;
