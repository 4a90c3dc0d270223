//! Scenarios, valid by construction, and the tables of a run. An engine reads a `Scenario` without
//! checking it again; nothing in this crate advances time.

pub mod closed_loop;
pub mod collective;
pub mod execution;
pub mod fabric;
mod ids;
pub mod job;
pub mod observer;
pub mod placement;
pub mod profile;
pub mod routing;
pub mod scenario;
pub mod tables;
pub mod training;
pub mod transport;
pub mod workload;

pub use collective::{Algorithm, Collective, CollectiveError, CollectiveKind, Level};
pub use fabric::{Cable, Fabric, FabricError, Link, MAX_RATE, Node, NodeKind};
pub use ids::{JobId, LinkId, NodeId};
pub use job::{Adaptive, Crossing, Job, Periodic, Share, Span, Weight, WeightError, Work};
pub use observer::{Observer, Progress};
pub use placement::{flow_crossings, ring_crossings, ring_flows};
pub use profile::{Phase, Profile, ProfileError};
pub use routing::{EcmpHash, RouteError, Routing};
pub use scenario::{Scenario, ScenarioError, Stop};
pub use tables::{
    AdjustmentRow, CollectiveRow, Column, IterationRow, JobCounters, LinkRow, OperationRow,
    PhaseRow, RankRow, RateRow, Records, RowsMark, Table, TableGroup, Tables,
};
pub use training::folded::Folded;
pub use training::{Framing, System, Training, TrainingError, TrainingSpec};
pub use transport::{JobFlow, PathChoice, Transfer, Transport, WindowRule};
