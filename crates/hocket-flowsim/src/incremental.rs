//! Max-min rates that are kept while streams start and stop: only those that can have changed are computed again, and they equal,
//! to the bit, those of a computation of all.
//!
//! A stream stops rising at its cap or on a link that limits it: a full one, on which no stream is at a higher level. This
//! bottleneck property characterises max-min rates (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2). So rates
//! are computed for a region around the change, beside all others as they are, and the region grows until no stream outside
//! has lost its bottleneck. All streams that a link limits are in the region or none is, so that rounding is the same as well.
//!
//! For streams of one queue on links that lose nothing to contention: elsewhere, a rate also depends on streams that are slower.

use crate::allocation::{Allocator, Claim, Level, Load};

/// The streams of a network as they are at present.
pub(crate) trait Streams {
    /// What a sending stream claims. Its claim stays the same while it sends.
    fn claim(&self, stream: usize) -> Claim<'_>;

    /// The streams that send over a link, each with its number of flows there.
    fn senders(&self, link: usize) -> &[(usize, u64)];
}

/// The rates of the streams of a network, and what limits them.
pub(crate) struct Incremental {
    streams: Vec<StreamState>,
    links: Vec<LinkState>,
    /// Streams that have started since rates were last computed, and links on which others were limited that a stream has left.
    started: Vec<usize>,
    left: Vec<usize>,
    /// The streams whose rates are computed again, and their links.
    region: Vec<usize>,
    region_links: Vec<usize>,
    /// The number of streams of the region whose links and peers are in it as well.
    expanded: usize,
    /// The number of the latest computation, with which the streams and links of its region are stamped.
    search: u64,
    rates_bps: Vec<u64>,
}

#[derive(Clone, Copy)]
struct StreamState {
    rate_bps: u64,
    /// Where it stopped rising.
    level: Level,
    search: u64,
}

struct LinkState {
    /// The sum of the rates of its streams.
    load_bps: u64,
    /// The streams that it limits, all at one level; none unless it is full.
    limited: Vec<usize>,
    level: Level,
    search: u64,
    /// Of the streams of the region: their new load, and the highest level of one.
    region_bps: u64,
    highest: f64,
    /// The load of all others.
    taken_bps: u64,
}

/// Levels that differ by less, relatively, are taken to be equal where that leads to a larger region.
const NEAR: f64 = 1e-6;

impl Incremental {
    /// Of a number of links on which nothing is sent.
    pub(crate) fn new(links: usize) -> Self {
        let idle = || LinkState {
            load_bps: 0,
            limited: Vec::new(),
            level: Level::ZERO,
            search: 0,
            region_bps: 0,
            highest: 0.0,
            taken_bps: 0,
        };
        Self {
            streams: Vec::new(),
            links: (0..links).map(|_| idle()).collect(),
            started: Vec::new(),
            left: Vec::new(),
            region: Vec::new(),
            region_links: Vec::new(),
            expanded: 0,
            search: 0,
            rates_bps: Vec::new(),
        }
    }

    /// A stream starts to send.
    pub(crate) fn enter(&mut self, stream: usize) {
        let idle = StreamState { rate_bps: 0, level: Level::ZERO, search: 0 };
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, idle);
        }
        self.streams[stream] = idle;
        self.started.push(stream);
    }

    /// A stream with these loads stops sending.
    pub(crate) fn leave(&mut self, stream: usize, loads: &[Load]) {
        self.started.retain(|&started| started != stream);
        let StreamState { rate_bps, .. } = self.streams[stream];
        for load in loads {
            let link = &mut self.links[load.link];
            link.load_bps -= rate_bps * load.flows;
            link.limited.retain(|&limited| limited != stream);
            if !link.limited.is_empty() {
                self.left.push(load.link);
            }
        }
    }

    /// Whether streams have started or stopped since rates were last computed, so that others may change.
    pub(crate) fn is_disturbed(&self) -> bool {
        !(self.started.is_empty() && self.left.is_empty())
    }

    /// Whether a link limits a stream.
    pub(crate) fn is_full(&self, link: usize) -> bool {
        !self.links[link].limited.is_empty()
    }

    /// The links whose streams the last computation has visited.
    pub(crate) fn visited_links(&self) -> &[usize] {
        &self.region_links
    }

    /// Computes rates after streams have started and stopped. Returns the streams whose rates were computed, in ascending order,
    /// with their rates; all others keep theirs.
    pub(crate) fn update(
        &mut self,
        streams: &impl Streams,
        allocator: &mut Allocator,
    ) -> impl Iterator<Item = (usize, u64)> {
        self.search += 1;
        self.region.clear();
        self.region_links.clear();
        self.expanded = 0;
        self.begin(streams);
        loop {
            self.expand(streams);
            let known = self.region.len();
            self.compute(streams, allocator);
            self.grow(streams, allocator);
            if self.region.len() == known {
                break;
            }
        }
        self.keep(streams, allocator);
        self.region.iter().map(|&stream| (stream, self.streams[stream].rate_bps))
    }

    // The region that changes in any case: streams that have started, and those that are limited where one has started or stopped.
    fn begin(&mut self, streams: &impl Streams) {
        let mut left = std::mem::take(&mut self.left);
        for link in left.drain(..) {
            self.add_limited(link);
        }
        let mut started = std::mem::take(&mut self.started);
        for stream in started.drain(..) {
            self.add(stream);
            for load in streams.claim(stream).loads {
                self.add_limited(load.link);
            }
        }
        // Empty, but they keep their allocations.
        (self.left, self.started) = (left, started);
    }

    fn add(&mut self, stream: usize) {
        let state = &mut self.streams[stream];
        if state.search != self.search {
            state.search = self.search;
            self.region.push(stream);
        }
    }

    fn add_limited(&mut self, link: usize) {
        // All of them or none are in the region.
        for place in 0..self.links[link].limited.len() {
            self.add(self.links[link].limited[place]);
        }
    }

    // Adds the links of the region, and all streams that these limit besides one of the region.
    fn expand(&mut self, streams: &impl Streams) {
        while let Some(&stream) = self.region.get(self.expanded) {
            self.expanded += 1;
            for load in streams.claim(stream).loads {
                let link = &mut self.links[load.link];
                if link.search != self.search {
                    link.search = self.search;
                    self.region_links.push(load.link);
                }
                if link.limited.contains(&stream) {
                    self.add_limited(load.link);
                }
            }
        }
    }

    // Computes the rates of the region, beside all others as they are.
    fn compute(&mut self, streams: &impl Streams, allocator: &mut Allocator) {
        // The order decides no rate, but the order of the result.
        self.region.sort_unstable();
        for &link in &self.region_links {
            let state = &mut self.links[link];
            (state.taken_bps, state.region_bps, state.highest) = (state.load_bps, 0, 0.0);
        }
        let claims: Vec<_> = self.region.iter().map(|&stream| streams.claim(stream)).collect();
        for (&stream, claim) in self.region.iter().zip(&claims) {
            for load in claim.loads {
                self.links[load.link].taken_bps -= self.streams[stream].rate_bps * load.flows;
            }
        }
        let links = &self.links;
        allocator.allocate_beside(&claims, |link| links[link].taken_bps, &mut self.rates_bps);
        for (place, claim) in claims.iter().enumerate() {
            let level = allocator.stopped_at(place).rounded();
            for load in claim.loads {
                let link = &mut self.links[load.link];
                link.region_bps += self.rates_bps[place] * load.flows;
                link.highest = link.highest.max(level);
            }
        }
    }

    // Adds streams that are no longer limited where they were, or that now exceed the level of a link.
    fn grow(&mut self, streams: &impl Streams, allocator: &Allocator) {
        for place in 0..self.region_links.len() {
            let link = self.region_links[place];
            let senders = streams.senders(link);
            let LinkState { load_bps, taken_bps, region_bps, highest, level, ref limited, .. } =
                self.links[link];
            let limits_others =
                limited.first().is_some_and(|&one| self.streams[one].search != self.search);
            if limits_others
                && (taken_bps + region_bps != load_bps || highest >= lowest_near(level, senders))
            {
                self.add_limited(link);
            }
            let spare_bps = allocator.capacity_bps(link) - taken_bps - region_bps;
            let lowest = match allocator.full_at(link) {
                Some(level) => lowest_near(level, senders),
                // It may be full but for the bits that rounding has taken from the others.
                None if !limits_others && spare_bps <= flows_of(senders) => 0.0,
                None => continue,
            };
            for &(stream, _) in senders {
                if self.streams[stream].level.rounded() >= lowest {
                    self.add(stream);
                }
            }
        }
    }

    // Keeps the rates of the region, and what limits it.
    fn keep(&mut self, streams: &impl Streams, allocator: &Allocator) {
        for &link in &self.region_links {
            let state = &mut self.links[link];
            state.load_bps = state.taken_bps + state.region_bps;
            if state.limited.first().is_some_and(|&one| self.streams[one].search == self.search) {
                state.limited.clear();
            }
            if let Some(level) = allocator.full_at(link) {
                state.level = level;
            }
        }
        for (place, &stream) in self.region.iter().enumerate() {
            let level = allocator.stopped_at(place);
            let state = &mut self.streams[stream];
            (state.rate_bps, state.level) = (self.rates_bps[place], level);
            for load in streams.claim(stream).loads {
                let full_at = allocator.full_at(load.link);
                if full_at.is_some_and(|full_at| full_at.compare(&level).is_eq()) {
                    self.links[load.link].limited.push(stream);
                }
            }
        }
    }
}

// The lowest level of a stream that may have to be computed together with those that a link limits at `level`. Rates of streams
// at lower levels are rounded down by less than 1 bps per flow, which the others get.
fn lowest_near(level: Level, senders: &[(usize, u64)]) -> f64 {
    level.rounded() * (1.0 - NEAR) - flows_of(senders) as f64 / level.weight() as f64
}

fn flows_of(senders: &[(usize, u64)]) -> u64 {
    senders.iter().map(|(_, flows)| flows).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::goodput::Goodput;

    const LINKS: usize = 6;

    #[derive(Clone, Debug)]
    struct Stream {
        cap_bps: u64,
        weight: u64,
        loads: Vec<Load>,
    }

    /// Streams of which some send.
    struct Network {
        streams: Vec<Stream>,
        senders: Vec<Vec<(usize, u64)>>,
    }

    impl Streams for Network {
        fn claim(&self, stream: usize) -> Claim<'_> {
            let Stream { cap_bps, weight, loads } = &self.streams[stream];
            let (cap_bps, weight) = (*cap_bps, *weight);
            Claim { job: stream, cap_bps, weight, policy: weight, queue: 0, loads }
        }

        fn senders(&self, link: usize) -> &[(usize, u64)] {
            &self.senders[link]
        }
    }

    fn stream(largest_bps: u64) -> impl Strategy<Value = Stream> {
        let loads = prop::collection::btree_map(0..LINKS, 1_u64..4, 0..4);
        (1..largest_bps, 1_u64..5, loads).prop_map(|(cap_bps, weight, loads)| {
            let load = |(link, flows)| Load { link, flows };
            Stream { cap_bps, weight, loads: loads.into_iter().map(load).collect() }
        })
    }

    /// Starts and stops streams in `turns`, several at a time, and compares all rates with those of a computation of all.
    fn check(capacities: &[u64], streams: Vec<Stream>, turns: &[Vec<usize>]) {
        let allocator = || Allocator::new(capacities.iter().copied(), Goodput::default());
        let (mut of_region, mut of_all) = (allocator(), allocator());
        let mut incremental = Incremental::new(LINKS);
        let mut sends = vec![false; streams.len()];
        let mut rates = vec![0; streams.len()];
        let mut network = Network { streams, senders: vec![Vec::new(); LINKS] };
        for turn in turns {
            let mut turn = turn.clone();
            turn.sort_unstable();
            turn.dedup();
            for stream in turn {
                let loads = network.streams[stream].loads.clone();
                sends[stream] = !sends[stream];
                for load in &loads {
                    let senders = &mut network.senders[load.link];
                    if sends[stream] {
                        senders.push((stream, load.flows));
                    } else {
                        senders.retain(|(sender, _)| *sender != stream);
                    }
                }
                if sends[stream] {
                    incremental.enter(stream);
                } else {
                    incremental.leave(stream, &loads);
                }
            }
            for (stream, rate) in incremental.update(&network, &mut of_region) {
                rates[stream] = rate;
            }
            let sending: Vec<usize> = (0..sends.len()).filter(|&stream| sends[stream]).collect();
            let claims: Vec<_> = sending.iter().map(|&stream| network.claim(stream)).collect();
            let mut expected = Vec::new();
            of_all.allocate(&claims, &mut expected);
            let found: Vec<u64> = sending.iter().map(|&stream| rates[stream]).collect();
            assert_eq!(found, expected);
            for link in (0..LINKS).filter(|&link| !network.senders[link].is_empty()) {
                assert_eq!(incremental.is_full(link), of_all.is_full(link), "link {link}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn rates_equal_those_of_a_computation_of_all(
            capacities in prop::collection::vec(1_u64..1_000_000, LINKS),
            streams in prop::collection::vec(stream(500_000), 1..14),
            turns in prop::collection::vec(prop::collection::vec(0_usize..14, 1..4), 1..24),
        ) {
            let number = streams.len();
            let turns: Vec<Vec<usize>> = turns.iter().map(|turn| turn.iter().map(|one| one % number).collect()).collect();
            check(&capacities, streams, &turns);
        }

        #[test]
        fn rounding_is_the_same_where_it_matters_most(
            capacities in prop::collection::vec(1_u64..40, LINKS),
            streams in prop::collection::vec(stream(20), 1..14),
            turns in prop::collection::vec(prop::collection::vec(0_usize..14, 1..4), 1..24),
        ) {
            let number = streams.len();
            let turns: Vec<Vec<usize>> = turns.iter().map(|turn| turn.iter().map(|one| one % number).collect()).collect();
            check(&capacities, streams, &turns);
        }
    }
}
