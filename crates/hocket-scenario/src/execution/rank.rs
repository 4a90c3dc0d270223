//! One rank in its iteration: what is ready, what runs, and what its time was spent with.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hocket_des::{Duration, Time};

/// In place of the number of operations that one waits for: it is done.
pub(super) const DONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct RankState {
    pub(super) iteration: u64,
    pub(super) start: Time,
    /// Before `start`, by choice.
    pub(super) delayed: Duration,
    pub(super) is_running: bool,
    /// By operation: how many it waits for, or [`DONE`].
    pub(super) waiting: Vec<u32>,
    /// Operations of this iteration that are not done.
    pub(super) unfinished: u32,
    /// Computes that may start.
    pub(super) ready: BinaryHeap<Reverse<u32>>,
    pub(super) computing: Option<u32>,
    /// Operations that communicate.
    pub(super) communicating: u32,
    pub(super) compute: Duration,
    pub(super) exposed: Duration,
    pub(super) accounted: Time,
    pub(super) communicators: Vec<CommunicatorState>,
    /// By operation, while they are recorded.
    pub(super) started: Vec<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommunicatorState {
    /// Collectives of this iteration that are done.
    pub(super) done: u32,
    /// All that the rank ever joined.
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

    // Adds the time since the last change to what it was spent with.
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

    /// The first operation that is not done. It waits for no other of its rank, since operations wait for earlier ones alone.
    pub(super) fn first_left(&self) -> Option<u32> {
        (0_u32..).zip(&self.waiting).find(|(_, waiting)| **waiting != DONE).map(|(first, _)| first)
    }
}
