//! What is simulated, valid by construction, and the tables that come out. An engine reads a
//! `Scenario` and never checks it again; nothing here moves time.

pub mod closed_loop;
pub mod collective;
pub mod fabric;
mod ids;
pub mod job;
pub mod placement;
pub mod routing;
pub mod scenario;
pub mod tables;
pub mod transport;
pub mod workload;

pub use collective::{Algorithm, Collective, CollectiveError, CollectiveKind, Level};
pub use fabric::{Cable, Fabric, FabricError, Link, MAX_RATE, Node, NodeKind};
pub use ids::{JobId, LinkId, NodeId};
pub use job::{Crossing, Job, Share, Weight, WeightError};
pub use placement::{flow_crossings, ring_crossings, ring_flows};
pub use routing::{EcmpHash, RouteError, Routing};
pub use scenario::{Scenario, ScenarioError, Stop};
pub use tables::{
    AdjustmentRow, Column, IterationRow, JobCounters, LinkRow, PhaseRow, RateRow, Records, Table,
    Tables,
};
pub use transport::{JobFlow, PathChoice, Transfer, Transport, WindowRule};
pub use workload::{Phase, Profile, ProfileError};
