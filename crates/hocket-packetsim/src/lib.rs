//! Packet-level simulation of RoCE fabrics: hosts with queue pairs, switches with shared buffers, PFC, ECN
//! and in-band telemetry. [`run`] moves every packet over every link, and hands out tables while it goes on.
//!
//! ```
//! use hocket_des::{Duration, Rate, Time};
//! use hocket_packetsim::{
//!     FlowSpec, MessageSpec, Model, PacketOptions, PacketStatus, PacketWorkload, PathChoice, Reference, Setup,
//!     WindowRule, run,
//! };
//! use hocket_scenario::{Cable, Column, Fabric, Node, NodeId, NodeKind};
//! use hocket_transport::Policy;
//!
//! // Three hosts send 1 MB each to a fourth, over one switch and links of 100 Gbps.
//! let kinds = [NodeKind::Host, NodeKind::Host, NodeKind::Host, NodeKind::Host, NodeKind::Switch];
//! let node = |(i, kind)| Node { name: format!("n{i}"), kind };
//! let (rate, delay) = (Rate::from_gbps(100), Duration::from_ns(500));
//! let cable = |host| Cable { a: NodeId::new(host), b: NodeId::new(4), rate, delay };
//! let nodes = kinds.into_iter().enumerate().map(node).collect();
//! let fabric = Fabric::new(nodes, &[0, 1, 2, 3].map(cable))?;
//! let flow = |from| FlowSpec {
//!     from: NodeId::new(from),
//!     to: NodeId::new(3),
//!     labels: (0, 0),
//!     priority: 3,
//!     policy: 0,
//!     window: WindowRule::Unlimited,
//!     path: PathChoice::Ecmp,
//! };
//! let flows = [0, 1, 2].map(flow);
//! let messages = [0, 1, 2].map(|flow| MessageSpec { flow, bytes: 1_000_000, start: Time::ZERO });
//! let setup = Setup {
//!     fabric: &fabric,
//!     model: &Model::default(),
//!     policies: &[Policy::PfcOnly],
//!     flows: &flows,
//!     patterns: &[],
//!     seed: 1,
//!     reference: Reference::default(),
//! };
//! let work = PacketWorkload { messages: &messages, ..PacketWorkload::default() };
//! let mut tables = Vec::new();
//! let outcome = run(&setup, &work, &PacketOptions::default(), &mut tables)?;
//! assert_eq!(outcome.status, PacketStatus::Complete);
//! let Some(Column::F64(fct_s)) = tables[0].column("fct_s") else { panic!() };
//! // A third of the link each: 3,000 packets of 1,082 bytes take 260 µs, and the way there and back some more.
//! assert!(fct_s.iter().all(|fct_s| (259e-6..264e-6).contains(fct_s)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod changes;
mod checks;
mod columns;
mod engine;
mod error;
mod faults;
mod jobs;
pub mod model;
mod network;
mod options;
mod outcome;
mod owners;
mod parts;
mod records;
mod recurrence;
pub mod reference;
mod run;
mod sampling;
mod scenario;
mod setup;
mod tables;
mod training;
mod usage;
mod windows;
mod workload;

pub use changes::{Change, LinkChange};
pub use error::PacketRunError;
pub use jobs::ScenarioJobs;
pub use options::{MAX_CYCLES, PacketOptions, Record, Skip};
pub use outcome::{Obstacle, PacketCounters, PacketOutcome, PacketStatus, Repeat, Skipping};
pub use run::run;
pub use scenario::run_scenario;
pub use setup::{FlowSpec, Setup};
pub use tables::tables_without_rows;
pub use workload::{MessageSpec, PacketWorkload};

pub use hocket_scenario::{PathChoice, WindowRule};
pub use model::Model;
pub use reference::Reference;
