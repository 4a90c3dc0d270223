//! Contention between the jobs of a cluster: how much time they lose to each other on full links, and how many of their
//! packets are marked.

use std::collections::BTreeMap;
use std::sync::Arc;

use hocket_des::{Duration, Rate, Time};
use hocket_scenario::{JobId, LinkId};

use crate::marks::{LinkMarks, MarkModel, contenders};

/// Contention on all links of a run.
pub(crate) struct Contention {
    model: Option<Arc<MarkModel>>,
    links: Vec<Link>,
    delays: BTreeMap<Encounter, f64>,
}

/// Two jobs that contend on a full link, one of which loses time to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Encounter {
    /// The full link.
    pub link: LinkId,
    /// The job that loses time.
    pub job: JobId,
    /// The job to which it loses time.
    pub other: JobId,
}

/// The contention of a stream on one of its links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StreamContention {
    /// The time in which the link was full and other flows sent there as well.
    pub(crate) contended: Duration,
    /// The expected number of its packets that were marked.
    pub(crate) marks: f64,
}

impl StreamContention {
    /// Adds what was counted in another time.
    pub(crate) fn add(&mut self, other: Self) {
        self.contended += other.contended;
        self.marks += other.marks;
    }
}

/// A stream that sends over a contended link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sending {
    pub(crate) stream: usize,
    pub(crate) job: JobId,
    pub(crate) flows: u64,
    pub(crate) rate: Rate,
    /// Its demand.
    pub(crate) cap: Rate,
    /// The number of its contended links.
    pub(crate) full_links: u32,
}

struct Link {
    id: LinkId,
    capacity: Rate,
    marks: LinkMarks,
    /// The number of flows that it holds back, as [`contenders`] counts them.
    held: u64,
    /// The streams that send, while it is contended; otherwise empty.
    sending: Vec<Sending>,
    /// The time up to which it is settled.
    since: Time,
    /// The links before this one on the paths of sending streams, each with the number of these streams.
    inputs: Vec<(usize, u32)>,
}

impl Contention {
    /// Contention on `links`, identified by their index.
    pub(crate) fn new(
        links: impl IntoIterator<Item = (LinkId, Rate)>,
        model: Option<Arc<MarkModel>>,
    ) -> Self {
        let link = |(id, capacity)| Link {
            id,
            capacity,
            marks: LinkMarks::default(),
            held: 0,
            sending: Vec::new(),
            since: Time::ZERO,
            inputs: Vec::new(),
        };
        Self { model, links: links.into_iter().map(link).collect(), delays: BTreeMap::new() }
    }

    /// The seconds that each job has lost to each other job on each link since the last call.
    pub(crate) fn take_delays(&mut self) -> BTreeMap<Encounter, f64> {
        std::mem::take(&mut self.delays)
    }

    /// A stream begins to send; `inputs` are the links before its links: (link, link before).
    pub(crate) fn enter(&mut self, inputs: &[(usize, usize)]) {
        for &(link, before) in inputs {
            let inputs = &mut self.links[link].inputs;
            match inputs.iter_mut().find(|(known, _)| *known == before) {
                Some((_, streams)) => *streams += 1,
                None => inputs.push((before, 1)),
            }
        }
    }

    /// A stream with these `inputs` stops sending.
    pub(crate) fn leave(&mut self, inputs: &[(usize, usize)]) {
        for &(link, before) in inputs {
            let inputs = &mut self.links[link].inputs;
            let place = inputs.iter().position(|&(known, _)| known == before);
            let place = place.expect("a stream leaves by the inputs by which it entered");
            inputs[place].1 -= 1;
            if inputs[place].1 == 0 {
                inputs.swap_remove(place);
            }
        }
    }

    /// The marks of a link, which must have been settled.
    pub(crate) fn marks(&self, link: usize) -> &LinkMarks {
        &self.links[link].marks
    }

    /// Continues the marks of a link that was settled `now`, before any stream enters it.
    pub(crate) fn resume(&mut self, link: usize, now: Time, marks: LinkMarks) {
        let state = &mut self.links[link];
        (state.held, state.since, state.marks) = (marks.flows(), now, marks);
    }

    /// The streams that contend on a link.
    pub(crate) fn sending(&self, link: usize) -> &[Sending] {
        &self.links[link].sending
    }

    /// Accounts for the contention on a link since it was last settled: calls `add` for each stream, and adds to the
    /// delays.
    pub(crate) fn settle(
        &mut self,
        link: usize,
        now: Time,
        add: &mut dyn FnMut(usize, StreamContention),
    ) {
        let state = &mut self.links[link];
        let contended = now.since(state.since);
        state.since = now;
        let model = self.model.as_deref();
        let marks = model.map_or(0.0, |model| state.marks.hold(model, now, state.held));
        if state.sending.is_empty() {
            return;
        }
        let total: f64 = state.sending.iter().map(Sending::load).sum();
        for one in &state.sending {
            // Jobs share marks in proportion to what they send: a switch marks packets, whoever sends them.
            let marks = marks * one.load() / total;
            // Held at zero by a higher queue, it is not sending, and so not contending either.
            let contending = if one.rate.is_zero() { Duration::ZERO } else { contended };
            add(one.stream, StreamContention { contended: contending, marks });
            let others: f64 = total - one.load();
            // A stream held back on several links is slowed down once, so each link accounts for an equal part.
            let lost_s =
                contended.as_secs_f64() * one.lost_share() / f64::from(one.full_links.max(1));
            for other in state.sending.iter().filter(|other| other.job != one.job) {
                // All others may have a rate of zero, behind this one's queue.
                let part = if others > 0.0 { other.load() / others } else { 0.0 };
                let encounter = Encounter { link: state.id, job: one.job, other: other.job };
                *self.delays.entry(encounter).or_default() += lost_s * part;
            }
        }
    }

    /// From `now` on, the streams `sending` contend on a link; none if it is not contended. The link must have been settled.
    pub(crate) fn hold(&mut self, link: usize, now: Time, sending: Vec<Sending>) {
        let inputs = self.links[link].inputs.iter();
        let inputs: Rate = inputs.map(|&(before, _)| self.links[before].capacity).sum();
        let state = &mut self.links[link];
        let flows = sending.iter().map(|one| one.flows).sum();
        let slowed = sending.iter().filter(|one| one.rate < one.cap);
        let held = slowed.map(|one| one.flows).sum();
        state.held = contenders(held, flows, inputs, state.capacity);
        state.sending = sending;
        if let Some(model) = &self.model {
            // No time has passed since the link was settled, so that this returns no marks.
            state.marks.hold(model, now, state.held);
        }
    }
}

impl Sending {
    fn load(&self) -> f64 {
        self.rate.as_bps() as f64 * self.flows as f64
    }

    /// The share of its time that it loses compared with an idle network.
    fn lost_share(&self) -> f64 {
        1.0 - self.rate.as_bps() as f64 / self.cap.as_bps() as f64
    }
}
