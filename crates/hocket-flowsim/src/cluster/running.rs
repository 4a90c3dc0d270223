//! A job on a placement: its position in its iterations, what it has sent, and the rows of its iterations.

use std::collections::BTreeMap;

use hocket_des::{Bytes, Duration, Time};
use hocket_scenario::closed_loop::ClosedLoop;
use hocket_scenario::{IterationRow, JobId, LinkId};

use crate::allocation::Load;
use crate::cluster::journal::Journal;
use crate::cluster::similar_iterations::SimilarIterations;
use crate::cluster::traffic::Traffic;
use crate::contention::StreamContention;
use crate::network::Policy;
use crate::sender::{Sender, bytes_of};

/// Bounds the standard normal deviates of compute times: the sampler's tail ends at 3.7 + 36.8 ÷ 3.7, since no uniform
/// deviate is below 2^−53.
const LARGEST_DEVIATE: f64 = 14.0;

pub(super) struct Running {
    pub(super) id: JobId,
    pub(super) policy: Policy,
    /// The number of iterations done before this start.
    pub(super) done_before: u64,
    pub(super) closed_loop: ClosedLoop<'static>,
    /// Its sender, unless a component's network has it.
    pub(super) sender: Sender,
    /// The end of its wait or, for a job alone, of its Up phase.
    pub(super) wake: Option<Time>,
    /// All links that it crosses, by their index in the fabric.
    pub(super) loads: Vec<Load>,
    pub(super) inputs: Vec<(usize, usize)>,
    /// The iterations after which it is done.
    pub(super) planned: u64,
    /// What it had sent when it last changed its links, in picobits, and for how long.
    counted: (u128, Duration),
    /// By link: its contention, as far as no component has it.
    pub(super) contended: BTreeMap<usize, StreamContention>,
    /// What the marks in the accounts of its component exceed those of its present iteration by.
    pub(super) marks_before: f64,
    /// What is recorded of its iterations.
    pub(super) journal: Journal,
    /// Whether its iterations vary at random.
    pub(super) varies: bool,
    /// No iteration is shorter than this.
    shortest: Duration,
}

impl Running {
    pub(super) fn new(
        (id, policy): (JobId, Policy),
        done_before: u64,
        closed_loop: ClosedLoop<'static>,
        (loads, inputs): (Vec<Load>, Vec<(usize, usize)>),
        (planned, jitter): (u64, f64),
        journal: Journal,
    ) -> Self {
        let sending = closed_loop.phases().iter().map(|phase| phase.duration).sum::<Duration>();
        let computing = closed_loop.period() - sending;
        let least = (1.0 - LARGEST_DEVIATE * jitter).max(0.0);
        // Rounded down by more than the roundings of all Down phases.
        let computing_ps = (computing.as_ps() as f64 * least) as u64;
        let shortest = sending + Duration::from_ps(computing_ps.saturating_sub(1_000_000));
        Self {
            id,
            policy,
            done_before,
            wake: closed_loop.first_start(),
            closed_loop,
            sender: Sender::new(),
            loads,
            inputs,
            planned,
            counted: (0, Duration::ZERO),
            contended: BTreeMap::new(),
            marks_before: 0.0,
            journal,
            varies: jitter != 0.0,
            shortest: if jitter == 0.0 { sending + computing } else { shortest },
        }
    }

    /// How long an iteration takes on an idle network.
    pub(super) fn period(&self) -> Duration {
        self.closed_loop.period()
    }

    /// By link: its peak demand.
    pub(super) fn peak_demands_bps(&self) -> impl Iterator<Item = (usize, u128)> {
        let most = self.closed_loop.phases().iter().map(|phase| phase.rate.as_bps()).max();
        let most_bps = u128::from(most.unwrap_or(0));
        self.loads.iter().map(move |load| (load.link, most_bps * u128::from(load.flows)))
    }

    /// A time before which it does not leave, from `now` on.
    pub(super) fn earliest_end(&self, now: Time) -> Time {
        let left = self.closed_loop.left().expect("jobs of a cluster have a number of iterations");
        // The present iteration may end at once.
        let rest = self.shortest.as_ps().saturating_mul(left.saturating_sub(1));
        Time::from_ps(now.as_ps().saturating_add(rest))
    }

    /// Moves all its times by `by`: from the clock of a component that has skipped as much to that of the run.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.closed_loop.postpone(by);
        self.sender.postpone(by);
        self.wake = self.wake.map(|wake| wake + by);
    }

    /// Adds the traffic on its present links, on which `sender` has sent.
    pub(super) fn count_traffic(
        &self,
        sender: &Sender,
        flow_parts: u64,
        traffic: &mut BTreeMap<(LinkId, JobId), Traffic>,
    ) {
        for load in &self.loads {
            let total = traffic.entry((LinkId::from_index(load.link), self.id)).or_default();
            let bytes = bytes_of(sender.sent() - self.counted.0, load.flows);
            total.bytes += Bytes::new(bytes.get() / flow_parts);
            total.busy += sender.busy() - self.counted.1;
            if let Some(contention) = self.contended.get(&load.link) {
                total.contended += contention.contended;
                total.marks += contention.marks;
            }
        }
    }

    /// From now on it sends on other links: its traffic so far, which has been counted, was on those before.
    pub(super) fn forget_links(&mut self) {
        self.counted = (self.sender.sent(), self.sender.busy());
        self.contended.clear();
    }

    /// `count` iterations with the times of `row`, which is by a clock that is `behind` that of the run.
    pub(super) fn iterations(
        &self,
        row: &IterationRow,
        behind: Duration,
        count: u64,
    ) -> SimilarIterations {
        let row = IterationRow { start: row.start + behind, end: row.end + behind, ..*row };
        SimilarIterations::new(&row, self.done_before, count)
    }
}
