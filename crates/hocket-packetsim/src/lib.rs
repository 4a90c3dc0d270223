//! Packet-level simulation of RoCE fabrics: hosts with queue pairs, switches with shared buffers, PFC, ECN
//! and in-band telemetry.

mod buffer;
mod build;
mod changes;
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
mod spray;

pub use build::{FlowSpec, Setup};
pub use changes::{Change, LinkChange};
pub use error::RunError;
pub use model::Model;
pub use records::*;
pub use run::*;
pub use hocket_scenario::{PathChoice, WindowRule};
