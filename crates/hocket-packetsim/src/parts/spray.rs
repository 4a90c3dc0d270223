//! Packet spraying: flows whose packets are spread over several paths.

use hocket_des::stream;
use rand::RngExt;

/// The paths of one flow, used in turn, one packet each.
#[derive(Clone, Debug)]
pub(crate) struct Spray {
    /// The route of each path.
    pub(crate) routes: Vec<u32>,
    next: usize,
}

impl Spray {
    /// Sprays flow `flow` over `routes`. The path of the first packet is random, so that flows that start together do not
    /// use the same paths at the same time.
    pub(crate) fn new(routes: Vec<u32>, seed: u64, flow: usize) -> Self {
        let next = stream(seed, "spray", flow as u64).random_range(0..routes.len());
        Self { routes, next }
    }

    /// The route of the next packet.
    pub(crate) fn next(&mut self) -> u32 {
        self.next = (self.next + 1) % self.routes.len();
        self.routes[self.next]
    }

    /// Replaces the paths by `routes`.
    pub(crate) fn replace(&mut self, routes: Vec<u32>) {
        // A failure may leave fewer paths.
        self.next %= routes.len();
        self.routes = routes;
    }
}
