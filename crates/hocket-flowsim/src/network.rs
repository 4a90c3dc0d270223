//! Links and what sends over them: shares links anew among those that meet when one of them starts or stops. What nothing
//! touches and links without traffic cost nothing.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::rc::Rc;

use hocket_des::{EventQueue, Rate, Time};
use hocket_scenario::{Fabric, JobId, LinkId, RateRow, Records, Share};

use crate::allocation::{Allocator, Claim, Load};
use crate::contention::{Contention, Met, Sending};
use crate::counters::FlowCounters;
use crate::error::FlowError;
use crate::goodput::Goodput;
use crate::sender::Sender;

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A stream ends, or the step of its weight. Only that of the stream's present generation counts; the others are of plans
    /// since dropped.
    Stream { stream: usize, generation: u64 },
    /// A periodic job goes on.
    Job { job: usize },
    /// A wait of a rank of a training job is over.
    Rank { training: usize, rank: u32 },
    /// All messages of a step of a collective have arrived.
    Step { training: usize, run: usize, chunk: u32 },
    /// All ranks know that what they sent in a collective has arrived.
    Collective { training: usize, run: usize },
    /// A message has arrived.
    Delivery { training: usize, message: u32 },
    /// Its sender knows.
    Acknowledgement { training: usize, message: u32 },
    /// Traffic is sampled.
    Sample,
}

/// Who is told that a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Job { job: usize },
    Step { training: usize, run: usize, chunk: u32 },
    Message { training: usize, message: u32 },
}

/// Flows that all move at one rate: those of a job, or the messages of one step of a collective.
pub(crate) struct Stream {
    pub(crate) owner: Owner,
    pub(crate) job: JobId,
    pub(crate) sender: Sender,
    pub(crate) loads: Rc<[Load]>,
    pub(crate) share: Share,
    /// Its rate counts units of so many bits: loads are so much larger, so that they can be parts of a flow.
    pub(crate) unit: u64,
    /// Among so many that together are one flow on each of their ways.
    split: u64,
    queue: u8,
    generation: u64,
    /// Whether the timer of this generation still runs.
    pending: bool,
    recorded: Rate,
    seen: u64,
    /// What of it was counted as traffic, in picobits.
    counted: u128,
    /// Over which link it comes to each of its links, where that is known: (link, link before).
    pub(crate) inputs: Vec<(usize, usize)>,
    /// By link, where contention is watched: what it met there.
    pub(crate) met: BTreeMap<usize, Met>,
    /// There too: on how many full links it meets others.
    full_links: u32,
}

/// What the network knows of a job.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) queue: u8,
    pub(crate) share: Share,
}

pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) timers: EventQueue<Timer>,
    pub(crate) streams: Vec<Stream>,
    /// By [`JobId`].
    pub(crate) policies: Vec<Policy>,
    /// Streams that nobody has.
    unused: Vec<usize>,
    /// Only these exist here, and a [`Load`] names them by place.
    links: Vec<LinkState>,
    allocator: Allocator,
    adaptive_steps: NonZeroU16,
    /// Streams whose links must be shared anew at `now`, and streams whose rate may have changed.
    disturbed: Vec<usize>,
    touched: Vec<usize>,
    /// Stamps what a search has seen, so that nothing has to be wiped before the next one.
    search: u64,
    rates_bps: Vec<u64>,
    /// Where it is counted: what was sent since it was last taken, in picobits.
    traffic: Option<BTreeMap<(LinkId, JobId), u128>>,
    /// Where it is watched.
    pub(crate) contention: Option<Contention>,
    /// Links that a stream has left since they were last shared.
    left: Vec<usize>,
    pub(crate) counters: FlowCounters,
}

struct LinkState {
    id: LinkId,
    name: String,
    /// Streams that send, and how many flows each has here.
    senders: Vec<(usize, u64)>,
    seen: u64,
    /// Where that is watched: whether it is full and flows meet there.
    contended: bool,
}

impl Network {
    /// Without jobs; only `links` of the fabric exist.
    pub(crate) fn new(
        fabric: &Fabric,
        links: impl IntoIterator<Item = LinkId>,
        goodput: Goodput,
        adaptive_steps: NonZeroU16,
        counts_traffic: bool,
    ) -> Self {
        let state = |id: LinkId| LinkState {
            id,
            name: fabric.links()[id.index()].name.clone(),
            senders: Vec::new(),
            seen: 0,
            contended: false,
        };
        let links: Vec<_> = links.into_iter().map(state).collect();
        let capacity = |link: &LinkState| fabric.links()[link.id.index()].rate.as_bps();
        Self {
            now: Time::ZERO,
            timers: EventQueue::new(),
            streams: Vec::new(),
            policies: Vec::new(),
            unused: Vec::new(),
            allocator: Allocator::new(links.iter().map(capacity), goodput),
            links,
            adaptive_steps,
            disturbed: Vec::new(),
            touched: Vec::new(),
            search: 0,
            rates_bps: Vec::new(),
            traffic: counts_traffic.then(BTreeMap::new),
            contention: None,
            left: Vec::new(),
            counters: FlowCounters::default(),
        }
    }

    /// Adds a stream that does not send yet.
    pub(crate) fn add(
        &mut self,
        owner: Owner,
        job: JobId,
        loads: Rc<[Load]>,
        (unit, split): (u64, u64),
    ) -> usize {
        let Policy { queue, share, .. } = self.policies[job.index()];
        let stream = Stream {
            owner,
            job,
            sender: Sender::new(),
            loads,
            share,
            unit,
            split,
            queue,
            generation: 0,
            pending: false,
            recorded: Rate::ZERO,
            seen: 0,
            counted: 0,
            inputs: Vec::new(),
            met: BTreeMap::new(),
            full_links: 0,
        };
        match self.unused.pop() {
            Some(place) => {
                // Timers of who had the place before must not count.
                let generation = self.streams[place].generation;
                self.streams[place] = Stream { generation, ..stream };
                place
            }
            None => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
        }
    }

    /// Gives a stream up that has ended.
    pub(crate) fn remove(&mut self, stream: usize) {
        assert!(!self.streams[stream].sender.active, "a stream is given up at its end");
        self.unused.push(stream);
    }

    /// Whether a timer is not of a plan since dropped.
    pub(crate) fn counts(&self, timer: Timer) -> bool {
        match timer {
            Timer::Stream { stream, generation } => self.streams[stream].generation == generation,
            _ => true,
        }
    }

    /// Lets a stream send `picobits` at `cap` or less, in its unit.
    pub(crate) fn start(&mut self, stream: usize, cap: Rate, picobits: u128) {
        let state = &mut self.streams[stream];
        state.sender.start(self.now, cap, picobits);
        self.enter_links(stream);
    }

    /// A stream's time has come: who is told if it has ended.
    pub(crate) fn reached(&mut self, stream: usize) -> Option<Owner> {
        let state = &mut self.streams[stream];
        state.pending = false;
        state.sender.advance(self.now);
        if !state.sender.is_finished() {
            self.disturbed.push(stream);
            return None;
        }
        state.sender.stop();
        let owner = state.owner;
        self.count_traffic(stream);
        self.leave_links(stream);
        self.touched.push(stream);
        Some(owner)
    }

    /// Takes a stream off the network, which goes on without it: whoever has it moves it on from here.
    pub(crate) fn detach(&mut self, stream: usize) {
        let state = &mut self.streams[stream];
        state.generation += 1;
        state.pending = false;
        if state.sender.active {
            state.sender.advance(self.now);
            self.leave_links(stream);
        }
    }

    /// Puts it back, where it shares its links again.
    pub(crate) fn attach(&mut self, stream: usize) {
        let state = &mut self.streams[stream];
        if state.sender.active {
            state.sender.advance(self.now);
            self.enter_links(stream);
        }
    }

    fn enter_links(&mut self, stream: usize) {
        if let Some(contention) = &mut self.contention {
            contention.enter(&self.streams[stream].inputs);
        }
        for load in &*self.streams[stream].loads {
            self.links[load.link].senders.push((stream, load.flows));
        }
        self.disturbed.push(stream);
    }

    fn leave_links(&mut self, stream: usize) {
        if self.contention.is_some() {
            let loads = Rc::clone(&self.streams[stream].loads);
            for load in &*loads {
                self.settle(load.link);
                self.left.push(load.link);
            }
        }
        if let Some(contention) = &mut self.contention {
            contention.leave(&self.streams[stream].inputs);
        }
        for load in &*self.streams[stream].loads {
            let senders = &mut self.links[load.link].senders;
            let place = senders.iter().position(|&(other, _)| other == stream);
            senders.remove(place.expect("what leaves was sending"));
            // One of those that stay is enough to find the others.
            self.disturbed.extend(senders.first().map(|&(other, _)| other));
        }
    }

    /// Shares links anew where something has changed.
    pub(crate) fn share_links(
        &mut self,
        rates_until: Time,
        records: &mut Records,
    ) -> Result<(), FlowError> {
        let (streams, links) = self.component();
        if !streams.is_empty() {
            self.allocate(&streams, records);
            self.check_capacity(&links)?;
            self.note_contention(&streams, &links);
            self.touched.extend_from_slice(&streams);
        }
        for link in std::mem::take(&mut self.left) {
            self.note_contention(&[], &[link]);
        }
        self.record_rates(rates_until, records);
        Ok(())
    }

    // Who of `streams` meets on `links` from now on. Where the same meet at the same rates, nothing has to be accounted for yet.
    fn note_contention(&mut self, streams: &[usize], links: &[usize]) {
        if self.contention.is_none() {
            return;
        }
        for &link in links {
            self.links[link].contended = self.is_contended(link);
        }
        for &stream in streams {
            let state = &mut self.streams[stream];
            let full = state.loads.iter().filter(|load| self.links[load.link].contended).count();
            state.full_links = full as u32;
        }
        for &link in links {
            let contention = self.contention.as_ref().expect("it was just there");
            if contention.sending(link).iter().copied().eq(self.sending(link)) {
                continue;
            }
            self.settle(link);
            let sending = self.sending(link).collect();
            let contention = self.contention.as_mut().expect("it was just there");
            contention.hold(link, self.now, sending);
        }
    }

    // Accounts for what was met on a link up to now.
    fn settle(&mut self, link: usize) {
        let Some(contention) = &mut self.contention else { return };
        let streams = &mut self.streams;
        contention.settle(link, self.now, &mut |stream, met| {
            let known = streams[stream].met.entry(link).or_default();
            known.contended += met.contended;
            known.marks += met.marks;
        });
    }

    // The streams that meet on a link that is full; none on another one.
    fn sending(&self, link: usize) -> impl Iterator<Item = Sending> {
        let state = &self.links[link];
        let senders = if state.contended { &state.senders[..] } else { &[] };
        senders.iter().map(|&(stream, flows)| {
            let Stream { job, sender, full_links, .. } = &self.streams[stream];
            let (rate, cap) = (sender.rate, sender.cap);
            Sending { stream, job: *job, flows, rate, cap, full_links: *full_links }
        })
    }

    fn is_contended(&self, link: usize) -> bool {
        let flows = self.links[link].senders.iter().map(|&(_, flows)| flows);
        flows.sum::<u64>() > 1 && self.allocator.is_full(link)
    }

    /// Accounts for contention up to now, on all links of a stream.
    pub(crate) fn settle_links_of(&mut self, stream: usize) {
        if self.streams[stream].sender.active {
            for load in &*Rc::clone(&self.streams[stream].loads) {
                self.settle(load.link);
            }
        }
    }

    // All sending streams that the disturbed ones reach over links with traffic, in order of index,
    // and those links.
    fn component(&mut self) -> (Vec<usize>, Vec<usize>) {
        self.search += 1;
        let (mut streams, mut links) = (Vec::new(), Vec::new());
        let mut frontier = std::mem::take(&mut self.disturbed);
        while let Some(stream) = frontier.pop() {
            let state = &mut self.streams[stream];
            if !state.sender.active || state.seen == self.search {
                continue;
            }
            state.seen = self.search;
            streams.push(stream);
            for load in &*state.loads {
                let link = &mut self.links[load.link];
                if link.seen != self.search {
                    link.seen = self.search;
                    links.push(load.link);
                    frontier.extend(link.senders.iter().map(|&(other, _)| other));
                }
            }
        }
        self.disturbed = frontier;
        streams.sort_unstable();
        (streams, links)
    }

    fn allocate(&mut self, component: &[usize], records: &mut Records) {
        self.counters.reallocations += 1;
        self.counters.rates += component.len() as u64;
        let steps = u64::from(self.adaptive_steps.get());
        for &stream in component {
            self.streams[stream].sender.advance(self.now);
        }
        let claims: Vec<_> =
            component.iter().map(|&stream| self.streams[stream].claim(steps)).collect();
        self.allocator.allocate(&claims, &mut self.rates_bps);
        for (&stream, &rate_bps) in component.iter().zip(&self.rates_bps) {
            let state = &mut self.streams[stream];
            let adapts =
                matches!(state.share, Share::Adaptive(_)) && self.allocator.contends(&state.loads);
            let policy_decided = self.allocator.policy_decided(&state.loads);
            records.jobs[state.job.index()].policy_acted += u64::from(policy_decided);
            let rate = Rate::from_bps(rate_bps);
            // At the same rate the end of a phase stays where it was planned.
            if rate != state.sender.rate || adapts || !state.pending {
                state.sender.rate = rate;
                state.generation += 1;
                let timer = Timer::Stream { stream, generation: state.generation };
                let time = state.next_event(self.now, adapts.then_some(steps));
                state.pending = time.is_some();
                if let Some(time) = time {
                    self.timers.schedule(time, timer);
                }
            }
        }
    }

    fn record_rates(&mut self, rates_until: Time, records: &mut Records) {
        let mut touched = std::mem::take(&mut self.touched);
        if self.now < rates_until {
            touched.sort_unstable();
            for &stream in &touched {
                let state = &mut self.streams[stream];
                let rate = state.sender.rate;
                if rate != state.recorded && matches!(state.owner, Owner::Job { .. }) {
                    state.recorded = rate;
                    records.rates.push(RateRow { job: state.job, start: self.now, rate });
                }
            }
        }
        touched.clear();
        self.touched = touched;
    }

    /// Moves all that sends on to `at`, where the run ends.
    pub(crate) fn cut_off(&mut self, at: Time) {
        self.now = at;
        for stream in self.streams.iter_mut().filter(|stream| stream.sender.active) {
            stream.sender.advance(at);
        }
    }

    /// Whether anything sends, also what has no timer before links are shared anew.
    pub(crate) fn is_sending(&self) -> bool {
        self.streams.iter().any(|stream| stream.sender.active)
    }

    /// What was sent over each link since it was last taken away from here, where that is counted.
    pub(crate) fn traffic(&mut self) -> impl Iterator<Item = (&(LinkId, JobId), &mut u128)> {
        for stream in 0..self.streams.len() {
            if self.streams[stream].sender.active {
                self.streams[stream].sender.advance(self.now);
                self.count_traffic(stream);
            }
        }
        self.traffic.iter_mut().flatten()
    }

    fn count_traffic(&mut self, stream: usize) {
        let Some(traffic) = &mut self.traffic else { return };
        let state = &mut self.streams[stream];
        let picobits = state.sender.sent() - state.counted;
        state.counted = state.sender.sent();
        for load in &*state.loads {
            let place = (self.links[load.link].id, state.job);
            *traffic.entry(place).or_default() += picobits * u128::from(load.flows);
        }
    }

    pub(crate) fn link(&self, place: usize) -> LinkId {
        self.links[place].id
    }

    pub(crate) fn capacity_bps(&self, place: usize) -> u64 {
        self.allocator.capacity_bps(place)
    }

    fn check_capacity(&self, links: &[usize]) -> Result<(), FlowError> {
        for &link in links {
            let senders = self.links[link].senders.iter();
            let loads = senders.map(|&(stream, flows)| self.streams[stream].sender.rate * flows);
            let (load, capacity) = (loads.sum(), Rate::from_bps(self.allocator.capacity_bps(link)));
            if load > capacity {
                let (link, time) = (self.link_name(link), self.now);
                return Err(FlowError::OverCapacity { link, time, load, capacity });
            }
        }
        Ok(())
    }

    pub(crate) fn check_bytes(&self) -> Result<(), FlowError> {
        (0..self.streams.len()).try_for_each(|stream| self.check_sent(stream))
    }

    /// Whether a stream sent what it had to by now.
    pub(crate) fn check_sent(&self, stream: usize) -> Result<(), FlowError> {
        let stream = &self.streams[stream];
        let (sent, due) = (stream.sender.sent(), stream.sender.due());
        if sent == due {
            return Ok(());
        }
        Err(FlowError::BytesLost { job: self.job_name(stream.job), time: self.now, sent, due })
    }

    /// With no timer left, nothing sends.
    pub(crate) fn check_none_stalled(&self) -> Result<(), FlowError> {
        let Some(stream) = self.streams.iter().find(|stream| stream.sender.active) else {
            return Ok(());
        };
        let full = stream.loads.iter().find(|load| self.allocator.is_full(load.link));
        let load = full.or(stream.loads.first());
        Err(FlowError::Stalled {
            job: self.job_name(stream.job),
            link: load.map_or_else(String::new, |load| self.link_name(load.link)),
            time: self.now,
            rate: stream.sender.rate,
        })
    }

    fn job_name(&self, id: JobId) -> String {
        self.policies[id.index()].name.clone()
    }

    fn link_name(&self, link: usize) -> String {
        self.links[link].name.clone()
    }
}

impl Stream {
    /// What it asks for now, with its weight in 1/65,536 of half a step of `steps`.
    fn claim(&self, steps: u64) -> Claim<'_> {
        let weight = u64::from(self.share.weight().raw());
        let progress = match self.share {
            Share::Fair | Share::Weighted(_) => 0,
            // HotNets'22 section 4(i): 1 + sent/total, here at the middle of the step.
            Share::Adaptive(_) => 2 * self.sender.steps_done(steps) + 1,
        };
        let policy = weight * (2 * steps + progress);
        Claim {
            job: self.job.index(),
            cap_bps: self.sender.cap.as_bps(),
            weight: policy / (self.unit * self.split),
            policy,
            queue: self.queue,
            loads: &self.loads,
        }
    }

    fn next_event(&self, now: Time, steps: Option<u64>) -> Option<Time> {
        let span = match steps {
            Some(steps) => self.sender.time_to_step(steps)?,
            None => self.sender.time_to_end()?,
        };
        now.as_ps().checked_add(span.as_ps()).map(Time::from_ps)
    }
}
