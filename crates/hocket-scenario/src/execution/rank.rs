//! The state of one rank in its iteration: ready and running operations, and the accounting of its time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hocket_des::{Duration, Time};

/// Marks a finished operation, in place of the number of operations that it waits for.
pub(super) const DONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct RankState {
    pub(super) iteration: u64,
    pub(super) start: Time,
    /// The wait before `start` that the job chose.
    pub(super) delayed: Duration,
    /// Whether the rank is in an iteration, not between two.
    pub(super) is_running: bool,
    /// By operation: the number of operations that it waits for, or [`DONE`].
    pub(super) waiting: Vec<u32>,
    /// The number of unfinished operations of this iteration.
    pub(super) unfinished: u32,
    /// Computes that may start, the first of the program on top.
    pub(super) ready: BinaryHeap<Reverse<u32>>,
    pub(super) computing: Option<u32>,
    /// The number of operations that communicate now.
    pub(super) communicating: u32,
    pub(super) compute: Duration,
    pub(super) exposed: Duration,
    /// The time up to which `compute` and `exposed` account for the iteration.
    pub(super) accounted: Time,
    pub(super) communicators: Vec<CommunicatorState>,
    /// By operation: its start; empty if operations are not recorded.
    pub(super) started: Vec<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommunicatorState {
    /// The number of finished collectives of this iteration.
    pub(super) done: u32,
    /// The number of collectives that the rank has joined in the whole run.
    pub(super) joined: u64,
    pub(super) is_busy: bool,
}

impl RankState {
    pub(super) fn new(communicators: usize, start: Time, delayed: Duration) -> Self {
        Self {
            iteration: 0,
            start,
            delayed,
            is_running: false,
            waiting: Vec::new(),
            unfinished: 0,
            ready: BinaryHeap::new(),
            computing: None,
            communicating: 0,
            compute: Duration::ZERO,
            exposed: Duration::ZERO,
            accounted: start,
            communicators: vec![CommunicatorState::default(); communicators],
            started: Vec::new(),
        }
    }

    // Adds the time since the last call to `compute` or `exposed`, by the state that lasted until `now`: it must be called before
    // that state changes.
    pub(super) fn account(&mut self, now: Time) {
        let span = now.since(self.accounted);
        if self.computing.is_some() {
            self.compute += span;
        } else if self.communicating > 0 {
            self.exposed += span;
        }
        self.accounted = now;
    }

    pub(super) fn begin_communication(&mut self, operation: u32, now: Time) {
        self.account(now);
        self.communicating += 1;
        self.mark_start(operation, now);
    }

    pub(super) fn mark_start(&mut self, operation: u32, now: Time) {
        if let Some(start) = self.started.get_mut(operation as usize) {
            *start = now;
        }
    }

    /// The first unfinished operation. It waits for no operation of its own rank, since operations only wait for earlier ones.
    pub(super) fn first_left(&self) -> Option<u32> {
        (0_u32..).zip(&self.waiting).find(|(_, waiting)| **waiting != DONE).map(|(first, _)| first)
    }
}
