//! Counters of the cost of a run.

/// The cost of a run, in events and rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// The number of handled events: ends of waits, streams and steps of adaptive weights, arrivals of messages, samples.
    pub events: u64,
    /// The number of times that links were shared anew.
    pub reallocations: u64,
    /// The number of rates that this computed, over all streams.
    pub rates: u64,
}
