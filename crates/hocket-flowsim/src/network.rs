//! Links and the streams that send over them. When a stream starts or stops, links are shared anew among the streams that it
//! reaches over common links; other streams and idle links cost nothing.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

use hocket_des::{EventQueue, Rate, Time};
use hocket_scenario::{Adaptive, Fabric, JobId, LinkId, Phase, RateRow, Records, Share};

use crate::allocation::{Allocator, Claim, Load};
use crate::contention::{Contention, Sending, StreamContention};
use crate::counters::FlowCounters;
use crate::error::FlowError;
use crate::goodput::Goodput;
use crate::incremental::{Incremental, Streams};
use crate::marks::LinkMarks;
use crate::sender::Sender;

/// The events of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A stream or a step of its adaptive weight ends. A change of rate makes the timer stale: only the timer of the stream's
    /// present generation is valid.
    Stream { stream: usize, generation: u64 },
    /// The wait of a periodic job is over.
    Job { job: usize },
    /// A wait of a rank of a training job is over.
    Rank { training: usize, rank: u32 },
    /// All messages of a step of a collective have arrived.
    Step { training: usize, run: usize, chunk: u32 },
    /// All messages of a collective are acknowledged.
    Collective { training: usize, run: usize },
    /// A message has arrived.
    Delivery { training: usize, message: u32 },
    /// A message is acknowledged.
    Acknowledgement { training: usize, message: u32 },
    /// Traffic is sampled.
    Sample,
}

/// The owner of a stream, which is notified of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Job { job: usize },
    Step { training: usize, run: usize, chunk: u32 },
    Message { training: usize, message: u32 },
}

/// Flows that all have one rate: those of a periodic job, or the messages of one step of a collective.
pub(crate) struct Stream {
    pub(crate) owner: Owner,
    pub(crate) job: JobId,
    pub(crate) sender: Sender,
    pub(crate) loads: Arc<[Load]>,
    pub(crate) share: Share,
    /// The bits that its rate counts as one. Loads are larger by the same factor, which allows them to be fractions of a flow.
    pub(crate) unit: u64,
    /// The number of streams that together have the weight of one flow.
    split: u64,
    queue: u8,
    /// Incremented at each change of rate.
    generation: u64,
    /// Whether the timer of this generation is still to come.
    pending: bool,
    /// The last rate in the table of rates.
    recorded: Rate,
    /// The last search that visited it.
    seen: u64,
    /// The part of what it sent that has been counted as traffic, in picobits.
    counted: u128,
    /// The links before its links, where they are known: (link, link before).
    pub(crate) inputs: Vec<(usize, usize)>,
    /// By link, if contention is recorded: its contention there.
    pub(crate) contention: BTreeMap<usize, StreamContention>,
    /// If contention is recorded: the number of its contended links.
    full_links: u32,
}

/// The policy of a job, as far as the network needs it.
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
    /// Indices of removed streams, which new ones reuse: a long run has millions.
    unused: Vec<usize>,
    /// The links of the run. A [`Load`] refers to them by index.
    links: Vec<LinkState>,
    /// Loads of periodic jobs count 1/`flow_parts` of a flow, and so do the capacities of the allocator.
    flow_parts: u64,
    allocator: Allocator,
    /// If only rates that can have changed are computed again.
    incremental: Option<Incremental>,
    adaptive_steps: NonZeroU16,
    /// Streams whose links must be shared anew at `now`.
    disturbed: Vec<usize>,
    /// Streams whose rate may have changed at `now`.
    touched: Vec<usize>,
    /// The number of the latest search. Streams and links are stamped with it, so that nothing has to be reset between two.
    search: u64,
    /// Scratch space of the allocation.
    rates_bps: Vec<u64>,
    /// If traffic is sampled: what was sent and not yet taken by the sampler, in picobits.
    traffic: Option<BTreeMap<(LinkId, JobId), u128>>,
    /// If contention is recorded.
    pub(crate) contention: Option<Contention>,
    /// If contention is recorded: links that a stream has left since links were last shared.
    left: Vec<usize>,
    pub(crate) counters: FlowCounters,
}

struct LinkState {
    id: LinkId,
    name: String,
    /// The streams that send, each with its number of flows here.
    senders: Vec<(usize, u64)>,
    /// The sum of their demands. Below the capacity, none of them slows down another here.
    demand_bps: u128,
    /// The last search that visited it.
    seen: u64,
    /// If contention is recorded: whether the link is full and has several flows.
    contended: bool,
}

impl Network {
    /// A network without jobs that consists of `links` of the fabric.
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
            demand_bps: 0,
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
            incremental: None,
            flow_parts: 1,
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

    /// Lets loads count 1/`parts` of a flow: a link carries as many times the rate of a part.
    pub(crate) fn divide_flows(&mut self, parts: u64) {
        self.flow_parts = parts;
        self.allocator.multiply_capacities(parts);
    }

    /// Computes only those rates again that can have changed, from now on. For streams of one queue whose weights do not adapt, on
    /// links that lose nothing to contention; how often a policy acted is not counted. No stream may send yet.
    pub(crate) fn keep_rates(&mut self) {
        self.incremental = Some(Incremental::new(self.links.len()));
    }

    /// Adds a stream that does not send yet, and returns its index.
    pub(crate) fn add(
        &mut self,
        owner: Owner,
        job: JobId,
        loads: Arc<[Load]>,
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
            contention: BTreeMap::new(),
            full_links: 0,
        };
        match self.unused.pop() {
            Some(place) => {
                // The generation continues, so that timers of the stream before remain stale.
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

    /// Removes a stream that has ended.
    pub(crate) fn remove(&mut self, stream: usize) {
        assert!(!self.streams[stream].sender.active, "a stream is removed after its end");
        self.unused.push(stream);
    }

    /// Whether a timer is not stale.
    pub(crate) fn is_current(&self, timer: Timer) -> bool {
        match timer {
            Timer::Stream { stream, generation } => self.streams[stream].generation == generation,
            _ => true,
        }
    }

    /// The chunk of a collective whose step a timer ends; 0 for other timers.
    pub(crate) fn chunk_of(&self, timer: Timer) -> u32 {
        match timer {
            Timer::Step { chunk, .. } => chunk,
            Timer::Stream { stream, .. } => match self.streams[stream].owner {
                Owner::Step { chunk, .. } => chunk,
                Owner::Job { .. } | Owner::Message { .. } => 0,
            },
            _ => 0,
        }
    }

    /// Lets a stream send `picobits` at `cap` or less; both count in the stream's unit.
    pub(crate) fn start(&mut self, stream: usize, cap: Rate, picobits: u128) {
        let state = &mut self.streams[stream];
        state.sender.start(self.now, cap, picobits);
        self.enter_links(stream);
    }

    /// Lets the stream of a periodic job send number `phase.1` of `phase.0`, the Up phases of its iteration.
    pub(crate) fn start_phase(&mut self, stream: usize, phase: (&[Phase], usize)) {
        let state = &mut self.streams[stream];
        state.sender.start_phase(self.now, state.share, phase);
        self.enter_links(stream);
    }

    /// Moves the stream of a periodic job to another queue.
    pub(crate) fn set_queue(&mut self, stream: usize, queue: u8) {
        let state = &mut self.streams[stream];
        let moves = std::mem::replace(&mut state.queue, queue) != queue;
        if moves && self.incremental.take().is_some() {
            // With several queues all rates are computed together.
            let sends = |&stream: &usize| self.streams[stream].sender.active;
            self.disturbed.extend((0..self.streams.len()).filter(sends));
        } else if moves {
            self.disturbed.push(stream);
        }
    }

    /// Handles the timer of a stream. Returns the owner if the stream has ended.
    pub(crate) fn handle_stream(&mut self, stream: usize) -> Option<Owner> {
        let state = &mut self.streams[stream];
        state.pending = false;
        state.sender.advance(self.now);
        // A step of an adaptive weight has ended: the new weight changes the shares.
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

    /// Puts a stream that was advanced elsewhere on its links.
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
        let Stream { loads, sender, .. } = &self.streams[stream];
        for load in &**loads {
            let link = &mut self.links[load.link];
            link.senders.push((stream, load.flows));
            link.demand_bps += load.demand_bps(sender.cap);
        }
        match &mut self.incremental {
            Some(incremental) => incremental.enter(stream),
            None => self.disturbed.push(stream),
        }
    }

    fn leave_links(&mut self, stream: usize) {
        if self.contention.is_some() {
            let loads = Arc::clone(&self.streams[stream].loads);
            // The time until now is accounted for while the stream is still on its links.
            for load in &*loads {
                self.settle(load.link);
                self.left.push(load.link);
            }
        }
        if let Some(contention) = &mut self.contention {
            contention.leave(&self.streams[stream].inputs);
        }
        let Stream { loads, sender, .. } = &self.streams[stream];
        if let Some(incremental) = &mut self.incremental {
            incremental.leave(stream, loads);
        }
        for load in &**loads {
            let could_be_full = self.incremental.is_none() && self.can_be_full(load.link);
            let link = &mut self.links[load.link];
            let place = link.senders.iter().position(|&(sender, _)| sender == stream);
            link.senders.remove(place.expect("a stream that leaves was sending"));
            link.demand_bps -= load.demand_bps(sender.cap);
            // All of them: the search does not find the others over a link that can no longer be full.
            if could_be_full {
                self.disturbed.extend(link.senders.iter().map(|&(sender, _)| sender));
            }
        }
    }

    fn can_be_full(&self, link: usize) -> bool {
        self.links[link].demand_bps >= u128::from(self.allocator.capacity_bps(link))
    }

    /// Shares links anew where something has changed.
    pub(crate) fn share_links(
        &mut self,
        rates_until: Time,
        records: &mut Records,
    ) -> Result<(), FlowError> {
        if self.incremental.is_some() {
            self.share_changed_links()?;
        } else {
            let (streams, links) = self.component();
            if !streams.is_empty() {
                self.allocate(&streams, records);
                self.check_capacity(&links)?;
                self.note_contention(&streams, &links);
                self.touched.extend_from_slice(&streams);
            }
            // Links that are now idle belong to no component.
            for link in std::mem::take(&mut self.left) {
                self.note_contention(&[], &[link]);
            }
        }
        self.record_rates(rates_until, records);
        Ok(())
    }

    // Shares those links anew on which a rate can have changed.
    fn share_changed_links(&mut self) -> Result<(), FlowError> {
        let Some(incremental) = &mut self.incremental else { return Ok(()) };
        // Most timers are stale, and change nothing.
        if self.left.is_empty() && !incremental.is_disturbed() {
            return Ok(());
        }
        let (streams, links) = (&self.streams, &self.links);
        let senders = Senders { streams, links, steps: u64::from(self.adaptive_steps.get()) };
        let rates: Vec<_> = incremental.update(&senders, &mut self.allocator).collect();
        let mut links = incremental.visited_links().to_vec();
        let mut streams: Vec<usize> = rates.iter().map(|&(stream, _)| stream).collect();
        self.counters.reallocations += 1;
        self.counters.rates += rates.len() as u64;
        for (stream, rate_bps) in rates {
            self.streams[stream].sender.advance(self.now);
            self.set_rate(stream, Rate::from_bps(rate_bps), None);
        }
        self.check_capacity(&links)?;
        self.touched.extend_from_slice(&streams);
        if self.contention.is_some() {
            links.append(&mut self.left);
            self.add_reached(&mut streams, &mut links);
            self.note_contention(&streams, &links);
        }
        Ok(())
    }

    // Adds the streams on links that become contended or are no longer, and the links of these streams: what others lose there
    // depends on the number of their contended links.
    fn add_reached(&self, streams: &mut Vec<usize>, links: &mut Vec<usize>) {
        let changed = |&&link: &&usize| self.links[link].contended != self.is_contended(link);
        let changed = links.iter().filter(changed);
        let senders = changed.flat_map(|&link| &self.links[link].senders).map(|(stream, _)| stream);
        let known = streams.len();
        streams.extend(senders);
        let loads = streams[known..].iter().flat_map(|&stream| &*self.streams[stream].loads);
        links.extend(loads.map(|load| load.link));
        for each in [streams, links] {
            each.sort_unstable();
            each.dedup();
        }
    }

    // Notes which of `streams` contend on `links` from now on. Where the same streams contend at the same rates as before,
    // the interval simply continues: most reallocations leave most links as they are.
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
            let contention = self.contention.as_ref().expect("checked on entry");
            if contention.sending(link).iter().copied().eq(self.sending(link)) {
                continue;
            }
            self.settle(link);
            let sending = self.sending(link).collect();
            let contention = self.contention.as_mut().expect("checked on entry");
            contention.hold(link, self.now, sending);
        }
    }

    // Adds the contention on a link up to now to its streams.
    fn settle(&mut self, link: usize) {
        let Some(contention) = &mut self.contention else { return };
        let streams = &mut self.streams;
        contention.settle(link, self.now, &mut |stream, added| {
            streams[stream].contention.entry(link).or_default().add(added);
        });
    }

    /// If contention is recorded: the marks of each link. Links that are in use must have been settled.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (LinkId, LinkMarks)> {
        let links = self.links.iter().enumerate();
        links.filter_map(|(place, link)| {
            Some((link.id, self.contention.as_ref()?.marks(place).clone()))
        })
    }

    /// Continues the marks of a link that was settled `now`, before any stream enters it.
    pub(crate) fn resume_marks(&mut self, link: usize, marks: LinkMarks) {
        let contention = self.contention.as_mut().expect("only recorded contention has marks");
        contention.resume(link, self.now, marks);
    }

    /// Lets links whose marks were continued hold back no flows any more, unless streams contend on them.
    pub(crate) fn end_idle_marks(&mut self) {
        for link in 0..self.links.len() {
            let contention = self.contention.as_mut().expect("only recorded contention has marks");
            if contention.sending(link).is_empty() && contention.marks(link).flows() > 0 {
                contention.hold(link, self.now, Vec::new());
            }
        }
    }

    // The streams that contend on a link: all its streams if it is contended, otherwise none.
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
        // Several streams contend, however small their loads, and so do several flows of one stream.
        let several = match self.links[link].senders[..] {
            [] => false,
            [(_, flows)] => flows > self.flow_parts,
            _ => true,
        };
        several && self.is_full(link)
    }

    // Whether a link limits a stream.
    fn is_full(&self, link: usize) -> bool {
        match &self.incremental {
            Some(incremental) => incremental.is_full(link),
            None => self.allocator.is_full(link),
        }
    }

    /// Accounts for contention up to now, on all links of a stream.
    pub(crate) fn settle_links_of(&mut self, stream: usize) {
        if self.streams[stream].sender.active {
            for load in &*Arc::clone(&self.streams[stream].loads) {
                self.settle(load.link);
            }
        }
    }

    // All sending streams that the disturbed ones reach over links that can be full, directly or through others, and all their
    // links. Max-min rates of other streams cannot change.
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
                    if link.demand_bps >= u128::from(self.allocator.capacity_bps(load.link)) {
                        frontier.extend(link.senders.iter().map(|&(sender, _)| sender));
                    }
                }
            }
        }
        // Empty, but keeps its allocation.
        self.disturbed = frontier;
        // In order of index, so that records do not depend on the order of the search.
        streams.sort_unstable();
        (streams, links)
    }

    fn allocate(&mut self, component: &[usize], records: &mut Records) {
        self.counters.reallocations += 1;
        self.counters.rates += component.len() as u64;
        let steps = u64::from(self.adaptive_steps.get());
        // At the old rates; adaptive weights depend on the progress.
        for &stream in component {
            self.streams[stream].sender.advance(self.now);
        }
        let claims: Vec<_> =
            component.iter().map(|&stream| self.streams[stream].claim(steps)).collect();
        self.allocator.allocate(&claims, &mut self.rates_bps);
        let rates_bps = std::mem::take(&mut self.rates_bps);
        for (&stream, &rate_bps) in component.iter().zip(&rates_bps) {
            let state = &self.streams[stream];
            // Without contention an adaptive weight has no effect, and its steps need no events.
            let adapts =
                matches!(state.share, Share::Adaptive(_)) && self.allocator.contends(&state.loads);
            let policy_decided = self.allocator.policy_decided(&state.loads);
            records.jobs[state.job.index()].policy_acted += u64::from(policy_decided);
            self.set_rate(stream, Rate::from_bps(rate_bps), adapts.then_some(steps));
        }
        self.rates_bps = rates_bps;
    }

    // Lets a stream that has been advanced to now send at `rate` until its phase ends, or the present one of `steps` equal steps.
    fn set_rate(&mut self, stream: usize, rate: Rate, steps: Option<u64>) {
        let state = &mut self.streams[stream];
        // At the same rate the end of a phase stays the same: its timer remains valid.
        if rate != state.sender.rate || steps.is_some() || !state.pending {
            state.sender.rate = rate;
            state.generation += 1;
            let timer = Timer::Stream { stream, generation: state.generation };
            let time = state.next_event(self.now, steps);
            state.pending = time.is_some();
            if let Some(time) = time {
                self.timers.schedule(time, timer);
            }
        }
    }

    fn record_rates(&mut self, rates_until: Time, records: &mut Records) {
        let mut touched = std::mem::take(&mut self.touched);
        if self.now < rates_until {
            // A stream may be listed twice; its second entry finds its rate recorded.
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

    /// Ends the run at `at`: advances all sending streams to it.
    pub(crate) fn cut_off(&mut self, at: Time) {
        self.now = at;
        for stream in self.streams.iter_mut().filter(|stream| stream.sender.active) {
            stream.sender.advance(at);
        }
    }

    /// Whether any stream sends, including streams that have no timer until links are shared anew.
    pub(crate) fn is_sending(&self) -> bool {
        self.streams.iter().any(|stream| stream.sender.active)
    }

    /// By link and job, the picobits sent and not yet subtracted by the caller; nothing if traffic is not sampled.
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
        // The demand of all senders is below the capacity of the others.
        for &link in links.iter().filter(|&&link| self.can_be_full(link)) {
            let senders = self.links[link].senders.iter();
            let loads = senders.map(|&(stream, flows)| self.streams[stream].sender.rate * flows);
            let (load, capacity) = (loads.sum(), Rate::from_bps(self.allocator.capacity_bps(link)));
            if load > capacity {
                let (link, time) = (self.link_name(link), self.now);
                let of_flows = |rate: Rate| Rate::from_bps(rate.as_bps() / self.flow_parts);
                let (load, capacity) = (of_flows(load), of_flows(capacity));
                return Err(FlowError::OverCapacity { link, time, load, capacity });
            }
        }
        Ok(())
    }

    pub(crate) fn check_bytes(&self) -> Result<(), FlowError> {
        (0..self.streams.len()).try_for_each(|stream| self.check_sent(stream))
    }

    /// Checks that a stream has sent exactly what its phases had to send by now.
    pub(crate) fn check_sent(&self, stream: usize) -> Result<(), FlowError> {
        let stream = &self.streams[stream];
        let (sent, due) = (stream.sender.sent(), stream.sender.due());
        if sent == due {
            return Ok(());
        }
        Err(FlowError::BytesLost { job: self.job_name(stream.job), time: self.now, sent, due })
    }

    /// Checks that no stream sends, once no timer is left: such a stream has a rate of zero and would never end.
    pub(crate) fn check_none_stalled(&self) -> Result<(), FlowError> {
        let Some(stream) = self.streams.iter().find(|stream| stream.sender.active) else {
            return Ok(());
        };
        let full = stream.loads.iter().find(|load| self.is_full(load.link));
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

/// The streams of a network, as far as their rates depend on them.
struct Senders<'n> {
    streams: &'n [Stream],
    links: &'n [LinkState],
    steps: u64,
}

impl Streams for Senders<'_> {
    fn claim(&self, stream: usize) -> Claim<'_> {
        self.streams[stream].claim(self.steps)
    }

    fn senders(&self, link: usize) -> &[(usize, u64)] {
        &self.links[link].senders
    }
}

impl Stream {
    /// Its claim at present. The weight is an integer: that of the share in 1/65,536, times twice the number of `steps`, so
    /// that half a step is a whole number.
    fn claim(&self, steps: u64) -> Claim<'_> {
        let grown = match self.share {
            Share::Fair | Share::Weighted(_) => 0,
            // At the middle of the step.
            Share::Adaptive(Adaptive { slope, .. }) => {
                u64::from(slope.raw()) * (2 * self.sender.steps_done(steps) + 1)
            }
        };
        let policy = u64::from(self.share.weight().raw()) * 2 * steps + grown;
        Claim {
            job: self.job.index(),
            cap_bps: self.sender.cap.as_bps(),
            // A rate that counts larger units is a smaller number: so is its weight. Streams that together are one flow
            // share its weight. A weight of 0 would never send.
            weight: (policy / (self.unit * self.split)).max(1),
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
