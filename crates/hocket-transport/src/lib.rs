//! End hosts of a RoCE fabric as state machines: senders, receivers, and the congestion controls that set their rates.
//! Nothing here has a clock or knows a topology: the simulator that drives it passes the time and transports the packets.

pub mod congestion;
mod receiver;
mod sender;
pub mod telemetry;

pub use congestion::{Ack, Control, Path, PhaseProgress, Policy};
pub use receiver::{Answer, Answering, Receiver};
pub use sender::{Rounding, Sender, Window};
