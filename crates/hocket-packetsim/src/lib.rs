//! Packet-level simulation of RoCE fabrics: hosts with queue pairs, switches with shared buffers, PFC, ECN
//! and in-band telemetry.

mod buffer;
mod build;
mod engine;
mod error;
mod messages;
pub mod model;
mod nic;
mod packet;
mod port;
mod records;
mod ring;
mod run;

pub use build::{FlowSpec, Setup, WindowRule};
pub use error::RunError;
pub use model::Model;
pub use records::*;
pub use run::*;
