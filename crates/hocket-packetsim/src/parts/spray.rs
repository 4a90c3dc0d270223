//! Flows whose packets are spread over several ways.

use hocket_des::stream;
use rand::RngExt;

/// The ways of one flow, taken one packet after another.
#[derive(Clone, Debug)]
pub(crate) struct Spray {
    /// Where each begins in the table of routes.
    pub(crate) routes: Vec<u32>,
    next: usize,
}

impl Spray {
    /// The ways of flow `flow` that begin at `routes`. The first packet takes a way by chance, so that flows that
    /// start together do not go in step.
    pub(crate) fn new(routes: Vec<u32>, seed: u64, flow: usize) -> Self {
        let next = stream(seed, "spray", flow as u64).random_range(0..routes.len());
        Self { routes, next }
    }

    /// The way of the next packet.
    pub(crate) fn next(&mut self) -> u32 {
        self.next = (self.next + 1) % self.routes.len();
        self.routes[self.next]
    }

    /// Takes `routes` from now on.
    pub(crate) fn replace(&mut self, routes: Vec<u32>) {
        self.next %= routes.len();
        self.routes = routes;
    }
}
