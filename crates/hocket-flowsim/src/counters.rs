//! What a run costs, in events and rates.

/// What a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Ends of waits and of Up phases, and steps of adaptive weights.
    pub events: u64,
    /// How often links were shared anew.
    pub reallocations: u64,
    /// Rates computed in those, over all jobs.
    pub rates: u64,
}
