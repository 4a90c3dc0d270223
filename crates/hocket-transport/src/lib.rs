//! End hosts of a RoCE fabric as driven state machines: what a queue pair may send and when, what a
//! receiver answers, and the congestion controls that set the pace. Nothing here has a clock or
//! knows a topology: whoever drives it passes the time, and carries the packets.

pub mod congestion;
mod receiver;
mod sender;
pub mod telemetry;

pub use congestion::{Ack, Control, Path, PhaseProgress, Policy};
pub use receiver::{Answer, Answering, Receiver};
pub use sender::{Rounding, Sender, Window};
