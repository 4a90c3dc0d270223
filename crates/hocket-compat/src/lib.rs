//! Which training jobs can take turns on a link, how far each must be shifted, and the score that
//! this reaches.
//!
//! A job's period is rolled up into a circle; jobs that share a link are laid on a unified circle
//! whose perimeter is a common multiple of their periods, and rotated until their summed demand
//! exceeds the link's capacity as little as possible (HotNets'22 section 3; NSDI'24 section 3,
//! Table 1, Equations 1 to 5). The affinity graph carries the shifts of single links to a whole
//! cluster. Everything here is arithmetic on profiles; nothing is simulated.

pub mod affinity;
mod arcs;
pub mod cassini;
pub mod commensurate;
mod error;
mod exact;
pub mod fitted;
mod grid;
mod link_demand;
pub mod perimeter;
mod problem;
mod score;
mod search;
mod solver;
#[cfg(test)]
mod testing;

pub use commensurate::{Commensurate, commensurate};
pub use error::CompatError;
pub use problem::{JointLink, JointProblem, LinkProblem};
pub use score::score_of;
pub use search::{Method, SolveOptions};
pub use solver::{Solution, solve, solve_joint};
