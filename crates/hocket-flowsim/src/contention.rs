//! Who keeps whom waiting on full links, and how many packets these mark: what a cluster's jobs cost each other.

use std::collections::BTreeMap;

use hocket_des::{Duration, Rate, Time};
use hocket_scenario::{JobId, LinkId};

use crate::marks::{LinkMarks, MarkModel, contenders};

/// Contention on all links of a run.
pub(crate) struct Contention {
    model: Option<MarkModel>,
    links: Vec<Link>,
    delays: BTreeMap<Encounter, f64>,
}

/// A job that sends over a full link together with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Encounter {
    /// Where.
    pub link: LinkId,
    /// Who waits.
    pub job: JobId,
    /// For whom.
    pub other: JobId,
}

/// What a stream met on one of its links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Met {
    /// How long the link was full and others sent there as well.
    pub(crate) contended: Duration,
    /// Its packets that were marked, on average over many such runs.
    pub(crate) marks: f64,
}

/// A stream that sends over a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sending {
    pub(crate) stream: usize,
    pub(crate) job: JobId,
    pub(crate) flows: u64,
    pub(crate) rate: Rate,
    /// What it would send on an idle network.
    pub(crate) cap: Rate,
    /// On so many full links it meets others.
    pub(crate) full_links: u32,
}

struct Link {
    id: LinkId,
    capacity: Rate,
    marks: LinkMarks,
    held: u64,
    /// While it is full and flows of several meet there.
    sending: Vec<Sending>,
    since: Time,
    /// Links over which flows come that send now, and how many streams come over each.
    inputs: Vec<(usize, u32)>,
}

impl Contention {
    /// `links` by place.
    pub(crate) fn new(
        links: impl IntoIterator<Item = (LinkId, Rate)>,
        model: Option<MarkModel>,
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

    /// Seconds that a job lost to another one on a link, since they were last taken.
    pub(crate) fn take_delays(&mut self) -> BTreeMap<Encounter, f64> {
        std::mem::take(&mut self.delays)
    }

    /// A stream begins to send that comes to links over those before them: (link, link before).
    pub(crate) fn enter(&mut self, inputs: &[(usize, usize)]) {
        for &(link, before) in inputs {
            let inputs = &mut self.links[link].inputs;
            match inputs.iter_mut().find(|(known, _)| *known == before) {
                Some((_, streams)) => *streams += 1,
                None => inputs.push((before, 1)),
            }
        }
    }

    /// It ends.
    pub(crate) fn leave(&mut self, inputs: &[(usize, usize)]) {
        for &(link, before) in inputs {
            let inputs = &mut self.links[link].inputs;
            let place = inputs.iter().position(|&(known, _)| known == before);
            let place = place.expect("what leaves came that way");
            inputs[place].1 -= 1;
            if inputs[place].1 == 0 {
                inputs.swap_remove(place);
            }
        }
    }

    /// Who meets on a link.
    pub(crate) fn sending(&self, link: usize) -> &[Sending] {
        &self.links[link].sending
    }

    /// Accounts for a link up to `now`: `met` is told what each stream met there.
    pub(crate) fn settle(&mut self, link: usize, now: Time, met: &mut dyn FnMut(usize, Met)) {
        let state = &mut self.links[link];
        let contended = now.since(state.since);
        state.since = now;
        let model = self.model.as_ref();
        let marks = model.map_or(0.0, |model| state.marks.hold(model, now, state.held));
        if state.sending.is_empty() {
            return;
        }
        let total: f64 = state.sending.iter().map(Sending::load).sum();
        for its in &state.sending {
            met(its.stream, Met { contended, marks: marks * its.load() / total });
            let others: f64 = total - its.load();
            let lost_s = contended.as_secs_f64() * its.lost() / f64::from(its.full_links.max(1));
            for other in state.sending.iter().filter(|other| other.job != its.job) {
                let part = if others > 0.0 { other.load() / others } else { 0.0 };
                let encounter = Encounter { link: state.id, job: its.job, other: other.job };
                *self.delays.entry(encounter).or_default() += lost_s * part;
            }
        }
    }

    /// From now on `sending` meet on a link that is full; nobody if it is not, or one stream of one flow has it to itself.
    /// It has been settled.
    pub(crate) fn hold(&mut self, link: usize, now: Time, sending: Vec<Sending>) {
        let inputs = self.links[link].inputs.iter();
        let inputs: Rate = inputs.map(|&(before, _)| self.links[before].capacity).sum();
        let state = &mut self.links[link];
        let flows = sending.iter().map(|its| its.flows).sum();
        let slowed = sending.iter().filter(|its| its.rate < its.cap);
        let held = slowed.map(|its| its.flows).sum();
        state.held = contenders(held, flows, inputs, state.capacity);
        state.sending = sending;
        if let Some(model) = &self.model {
            // No time has passed since it was settled.
            state.marks.hold(model, now, state.held);
        }
    }
}

impl Sending {
    fn load(&self) -> f64 {
        self.rate.as_bps() as f64 * self.flows as f64
    }

    /// The share of its time that it waits.
    fn lost(&self) -> f64 {
        1.0 - self.rate.as_bps() as f64 / self.cap.as_bps() as f64
    }
}
