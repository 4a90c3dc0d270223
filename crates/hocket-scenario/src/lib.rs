//! What is simulated, valid by construction, and the tables that come out. An engine reads a
//! `Scenario` and never checks it again; nothing here moves time.

pub mod workload;

pub use workload::{Phase, Profile, ProfileError};
