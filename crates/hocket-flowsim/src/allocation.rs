//! The rates of all senders: strict priority between queues, and within a queue weighted max-min by
//! progressive filling (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2) with a
//! cap for each sender. Rates are whole bits per second, rounded down, so that no link exceeds its rate.

use std::cmp::Ordering;

use hocket_des::Rate;

use crate::goodput::Goodput;

/// The number of flows of a claim on a link, which a rate r loads with r × `flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) link: usize,
    pub(crate) flows: u64,
}

/// Levels whose rounded values differ by less, relatively, are compared exactly.
const ROUNDING: f64 = 1e-9;

impl Load {
    /// The demand on its link of a sender whose highest useful rate is `cap`.
    pub(crate) fn demand_bps(&self, cap: Rate) -> u128 {
        u128::from(cap.as_bps()) * u128::from(self.flows)
    }
}

/// The claim of a sender to the links that it loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) job: usize,
    /// Its demand: the highest useful rate.
    pub(crate) cap_bps: u64,
    /// The weight of its rate.
    pub(crate) weight: u64,
    /// The weight of one of its flows, whatever the unit of its rate: claims with the same one have the same policy.
    pub(crate) policy: u64,
    pub(crate) queue: u8,
    pub(crate) loads: &'a [Load],
}

/// Links, with scratch space that is kept between allocations. An allocation visits only links that a claim loads.
#[derive(Clone, Debug)]
pub(crate) struct Allocator {
    links: Vec<LinkState>,
    by_queue: Vec<usize>,
    /// Claims of the present queue that have just stopped rising, in ascending order.
    frozen: Vec<usize>,
    /// The links of the present queue that can be full.
    loaded: Vec<usize>,
    goodput: Goodput,
    /// Scratch space: the jobs on a link.
    jobs: Vec<usize>,
    /// The numbers of the present allocation and of its present queue, with which links are stamped.
    visit: u64,
    queue: u64,
    /// By claim: the rounded level of its cap while its rate rises, otherwise infinity.
    caps: Vec<f64>,
    /// By claim: the level at which it stopped rising.
    stopped: Vec<Level>,
    /// By place in `loaded`: the rounded level of the link while claims on it rise, otherwise infinity.
    levels: Vec<f64>,
}

#[derive(Clone, Debug)]
struct LinkState {
    capacity_bps: u64,
    /// The capacity that the claims divide between them.
    offered_bps: u64,
    /// What no claim has taken of it yet.
    available_bps: u64,
    /// The sum of the demands of all claims. Below what is offered, the link limits none of them, and is left out.
    demand_bps: u128,
    /// Of the present queue: the sum of its claims' demands, and the capacity that contention between its jobs wastes.
    queue_demand_bps: u128,
    wasted_bps: u64,
    /// The sum of the weights of its rising claims, each times its flows.
    rising_weight: u128,
    /// The claims of the present queue.
    claims: Vec<usize>,
    full: bool,
    /// If it is full: the level at which it became so first.
    full_at: Level,
    /// The number of claims of all queues.
    sharers: u32,
    /// The queue and policy of the first claim, and whether another claim differs.
    first: (u8, u64),
    mixed: bool,
    /// The last allocation that visited it.
    visit: u64,
    /// The last queue of an allocation that loaded it, and its place among the links of that queue.
    queue: u64,
    place: usize,
}

/// The rate per weight at which a claim reaches its cap or a link its capacity. It is kept as a fraction and
/// compared by cross-multiplication, since division would make close levels equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    bps: u64,
    weight: u128,
}

impl Allocator {
    /// Links of these capacities, identified by their index, with this goodput under contention.
    pub(crate) fn new(capacities_bps: impl IntoIterator<Item = u64>, goodput: Goodput) -> Self {
        let links = capacities_bps.into_iter().map(LinkState::idle).collect();
        Self {
            links,
            by_queue: Vec::new(),
            frozen: Vec::new(),
            loaded: Vec::new(),
            goodput,
            jobs: Vec::new(),
            visit: 0,
            queue: 0,
            caps: Vec::new(),
            stopped: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Makes all links `times` as large.
    pub(crate) fn multiply_capacities(&mut self, times: u64) {
        for link in &mut self.links {
            link.capacity_bps *= times;
        }
    }

    /// Writes the rate of each claim, in bits per second, in the order of the claims. The rates do
    /// not depend on that order. Takes O(loads + levels × (claims + links)), where levels are the
    /// distinct ones at which rates stop rising.
    pub(crate) fn allocate(&mut self, claims: &[Claim<'_>], rates_bps: &mut Vec<u64>) {
        self.allocate_beside(claims, |_| 0, rates_bps);
    }

    /// As [`allocate`](Self::allocate), where `taken_bps` of a link's capacity belong to others.
    pub(crate) fn allocate_beside(
        &mut self,
        claims: &[Claim<'_>],
        taken_bps: impl Fn(usize) -> u64,
        rates_bps: &mut Vec<u64>,
    ) {
        rates_bps.clear();
        rates_bps.resize(claims.len(), 0);
        self.stopped.clear();
        self.stopped.resize(claims.len(), Level::ZERO);
        self.reset(claims, taken_bps);
        // Taken out while `fill` borrows everything, and put back to keep its allocation.
        let mut by_queue = std::mem::take(&mut self.by_queue);
        by_queue.clear();
        by_queue.extend(0..claims.len());
        by_queue.sort_by_key(|&index| claims[index].queue);
        for queue in by_queue.chunk_by(|&a, &b| claims[a].queue == claims[b].queue) {
            self.fill(claims, queue, rates_bps);
        }
        self.by_queue = by_queue;
    }

    /// Whether a claim with these loads shared a full link with another claim in the last allocation.
    pub(crate) fn contends(&self, loads: &[Load]) -> bool {
        let contended = |link: &LinkState| link.full && link.sharers > 1;
        loads.iter().any(|load| contended(&self.links[load.link]))
    }

    /// Whether it shared a full link on which not all claims have the same queue and weight, so that the policy mattered.
    pub(crate) fn policy_decided(&self, loads: &[Load]) -> bool {
        let decided = |link: &LinkState| link.full && link.mixed;
        loads.iter().any(|load| decided(&self.links[load.link]))
    }

    /// Whether the link limited a claim in the last allocation.
    pub(crate) fn is_full(&self, link: usize) -> bool {
        self.links[link].full
    }

    /// If the link limited a claim in the last allocation: the level at which it did.
    pub(crate) fn full_at(&self, link: usize) -> Option<Level> {
        let link = &self.links[link];
        link.full.then_some(link.full_at)
    }

    /// The level at which a claim of the last allocation stopped rising.
    pub(crate) fn stopped_at(&self, claim: usize) -> Level {
        self.stopped[claim]
    }

    /// The capacity of a link.
    pub(crate) fn capacity_bps(&self, link: usize) -> u64 {
        self.links[link].capacity_bps
    }

    fn reset(&mut self, claims: &[Claim<'_>], taken_bps: impl Fn(usize) -> u64) {
        self.visit += 1;
        for claim in claims {
            for load in claim.loads {
                let link = &mut self.links[load.link];
                if link.visit != self.visit {
                    link.reset(self.visit, taken_bps(load.link));
                }
                link.note((claim.queue, claim.policy));
                link.demand_bps += claim.demand_bps(load);
            }
        }
    }

    // Progressive filling of one queue: the rates of all its claims rise together, in proportion to their weights, until a cap or
    // a full link stops some of them; the others continue.
    fn fill(&mut self, claims: &[Claim<'_>], queue: &[usize], rates_bps: &mut [u64]) {
        self.load_links(claims, queue);
        let loses = !self.goodput.is_lossless();
        if loses {
            self.withhold(claims, queue);
        }
        self.caps.clear();
        self.caps.resize(claims.len(), f64::INFINITY);
        for &index in queue {
            self.caps[index] = claims[index].cap_level().rounded();
        }
        self.levels.clear();
        self.levels.extend(self.loaded.iter().map(|&link| self.links[link].level().rounded()));
        while let Some(level) = self.freeze(claims) {
            let mut frozen = std::mem::take(&mut self.frozen);
            for index in frozen.drain(..) {
                rates_bps[index] = level.rate_bps(claims[index].weight);
                self.caps[index] = f64::INFINITY;
                self.stopped[index] = level;
                self.take(&claims[index], rates_bps[index]);
            }
            self.frozen = frozen;
        }
        if loses {
            self.give_back(claims, queue);
        }
    }

    // Takes from each link what its jobs will lose to contention. Only jobs of one queue contend: one that is served first is
    // not slowed by those behind it.
    fn withhold(&mut self, claims: &[Claim<'_>], queue: &[usize]) {
        for &index in queue {
            for load in claims[index].loads {
                let link = &mut self.links[load.link];
                if link.can_be_full() {
                    link.queue_demand_bps += claims[index].demand_bps(load);
                }
            }
        }
        for &link in &self.loaded {
            let link = &mut self.links[link];
            let demand_bps = std::mem::take(&mut link.queue_demand_bps);
            if demand_bps > u128::from(link.available_bps) {
                self.jobs.clear();
                self.jobs.extend(link.claims.iter().map(|&index| claims[index].job));
                self.jobs.sort_unstable();
                self.jobs.dedup();
                let goodput_bps = self.goodput.of_bps(link.available_bps, self.jobs.len());
                link.wasted_bps = link.available_bps - goodput_bps;
                link.available_bps = goodput_bps;
            }
        }
    }

    // A queue that is served later may use what an earlier one lost.
    fn give_back(&mut self, claims: &[Claim<'_>], queue: &[usize]) {
        for load in queue.iter().flat_map(|&index| claims[index].loads) {
            let link = &mut self.links[load.link];
            link.available_bps += std::mem::take(&mut link.wasted_bps);
        }
    }

    // Prepares the links that claims of `queue` can fill.
    fn load_links(&mut self, claims: &[Claim<'_>], queue: &[usize]) {
        self.queue += 1;
        self.loaded.clear();
        for &index in queue {
            for load in claims[index].loads {
                let link = &mut self.links[load.link];
                if !link.can_be_full() {
                    continue;
                }
                if link.queue != self.queue {
                    link.queue = self.queue;
                    link.rising_weight = 0;
                    link.claims.clear();
                    link.place = self.loaded.len();
                    self.loaded.push(load.link);
                }
                link.claims.push(index);
                link.rising_weight += claims[index].weight_on(load);
            }
        }
    }

    // Moves the claims that stop rising at the lowest level to `frozen`, and returns that level; `None` if no claim rises any
    // more. All of them are found before any rate is taken from a link, so that their order does not matter.
    fn freeze(&mut self, claims: &[Claim<'_>]) -> Option<Level> {
        let lowest = self.caps.iter().chain(&self.levels).copied().fold(f64::INFINITY, f64::min);
        if lowest == f64::INFINITY {
            return None;
        }
        // Rounded levels are compact, and rule out all others but a few without a look at links and claims.
        let near = lowest * (1.0 + ROUNDING);
        let is_near = |&(_, level): &(usize, &f64)| *level <= near;
        let caps = self.caps.iter().enumerate().filter(is_near).map(|(index, _)| index);
        let links = self.levels.iter().enumerate().filter(is_near);
        let links = links.map(|(place, _)| self.loaded[place]);
        let cap_levels = caps.clone().map(|index| claims[index].cap_level());
        let link_levels = links.clone().map(|link| self.links[link].level());
        let level = cap_levels.chain(link_levels).min_by(Level::compare)?;
        let at_level = |reached: Level| reached.compare(&level).is_eq();
        self.frozen.extend(caps.filter(|&index| at_level(claims[index].cap_level())));
        let full: Vec<usize> = links.filter(|&link| at_level(self.links[link].level())).collect();
        for link in full {
            let link = &mut self.links[link];
            // A later queue finds nothing left.
            if !link.full {
                (link.full, link.full_at) = (true, link.level());
            }
            // The others have been stopped before, by their caps or by other links.
            let rising = link.claims.iter().filter(|&&index| self.caps[index] < f64::INFINITY);
            self.frozen.extend(rising);
        }
        self.frozen.sort_unstable();
        self.frozen.dedup();
        Some(level)
    }

    fn take(&mut self, claim: &Claim<'_>, rate_bps: u64) {
        for load in claim.loads {
            let link = &mut self.links[load.link];
            // Nothing need be known of a link that cannot be full.
            if link.queue == self.queue {
                link.available_bps -= rate_bps * load.flows;
                link.rising_weight -= claim.weight_on(load);
                self.levels[link.place] = match link.rising_weight {
                    0 => f64::INFINITY,
                    _ => link.level().rounded(),
                };
            }
        }
    }
}

impl LinkState {
    fn idle(capacity_bps: u64) -> Self {
        Self {
            capacity_bps,
            offered_bps: capacity_bps,
            available_bps: capacity_bps,
            demand_bps: 0,
            queue_demand_bps: 0,
            wasted_bps: 0,
            rising_weight: 0,
            claims: Vec::new(),
            full: false,
            full_at: Level::ZERO,
            sharers: 0,
            first: (0, 0),
            mixed: false,
            visit: 0,
            queue: 0,
            place: 0,
        }
    }

    fn reset(&mut self, visit: u64, taken_bps: u64) {
        self.visit = visit;
        self.offered_bps = self.capacity_bps - taken_bps;
        self.available_bps = self.offered_bps;
        self.demand_bps = 0;
        self.full = false;
        self.sharers = 0;
        self.first = (0, 0);
        self.mixed = false;
    }

    fn note(&mut self, policy: (u8, u64)) {
        if self.sharers == 0 {
            self.first = policy;
        }
        self.mixed |= self.first != policy;
        self.sharers += 1;
    }

    fn can_be_full(&self) -> bool {
        self.demand_bps >= u128::from(self.offered_bps)
    }

    fn level(&self) -> Level {
        Level { bps: self.available_bps, weight: self.rising_weight }
    }
}

impl Claim<'_> {
    fn cap_level(&self) -> Level {
        Level { bps: self.cap_bps, weight: u128::from(self.weight) }
    }

    fn demand_bps(&self, load: &Load) -> u128 {
        load.demand_bps(Rate::from_bps(self.cap_bps))
    }

    fn weight_on(&self, load: &Load) -> u128 {
        u128::from(self.weight) * u128::from(load.flows)
    }
}

impl Level {
    pub(crate) const ZERO: Self = Self { bps: 0, weight: 1 };

    /// The sum of the weights that rise with it.
    pub(crate) fn weight(self) -> u128 {
        self.weight
    }

    /// As a number for a first comparison, with a relative error far below [`ROUNDING`].
    pub(crate) fn rounded(self) -> f64 {
        self.bps as f64 / self.weight as f64
    }

    // The limits of a scenario on rates, weights, flows and jobs keep the products within 128 bits: see `MAX_RATE`.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        (u128::from(self.bps) * other.weight).cmp(&(u128::from(other.bps) * self.weight))
    }

    fn rate_bps(self, weight: u64) -> u64 {
        let rate = u128::from(self.bps) * u128::from(weight) / self.weight;
        u64::try_from(rate).expect("a rate is at most the cap of its claim")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    struct Claimant {
        cap_bps: u64,
        weight: u64,
        queue: u8,
        loads: Vec<Load>,
    }

    fn rates(capacities: &[u64], claimants: &[Claimant]) -> Vec<u64> {
        lossy_rates(capacities, &[], claimants)
    }

    fn lossy_rates(capacities: &[u64], goodput: &[f64], claimants: &[Claimant]) -> Vec<u64> {
        let mut rates = Vec::new();
        let claims: Vec<_> =
            (0..).zip(claimants).map(|(job, claimant)| claimant.claim(job)).collect();
        let goodput = Goodput::new(goodput).unwrap();
        Allocator::new(capacities.iter().copied(), goodput).allocate(&claims, &mut rates);
        rates
    }

    impl Claimant {
        fn on_link_0(cap_bps: u64, weight: u64, queue: u8) -> Self {
            Self { cap_bps, weight, queue, loads: vec![Load { link: 0, flows: 1 }] }
        }

        fn claim(&self, job: usize) -> Claim<'_> {
            let &Self { cap_bps, weight, queue, ref loads } = self;
            Claim { job, cap_bps, weight, policy: weight, queue, loads }
        }
    }

    #[test]
    fn what_a_capped_job_leaves_goes_to_the_others_by_weight() {
        let claimants = [
            Claimant::on_link_0(10, 1, 0),
            Claimant::on_link_0(100, 1, 0),
            Claimant::on_link_0(100, 2, 0),
        ];
        assert_eq!(rates(&[70], &claimants), [10, 20, 40]);
    }

    #[test]
    fn a_lower_queue_gets_what_is_left() {
        let claimants = [Claimant::on_link_0(40, 1, 1), Claimant::on_link_0(40, 1, 0)];
        assert_eq!(rates(&[50], &claimants), [10, 40]);
        assert_eq!(rates(&[30], &claimants), [0, 30]);
    }

    #[test]
    fn jobs_that_demand_more_than_a_link_has_lose_goodput_by_their_number() {
        let claimant = |cap_bps| Claimant::on_link_0(cap_bps, 1, 0);
        let rates = |claimants: &[Claimant]| lossy_rates(&[100], &[0.9, 0.6], claimants);
        assert_eq!(rates(&[claimant(120)]), [100]);
        assert_eq!(rates(&[claimant(50), claimant(50)]), [50, 50]);
        assert_eq!(rates(&[claimant(50), claimant(60)]), [45, 45]);
        // What one job leaves of the goodput, the other gets.
        assert_eq!(rates(&[claimant(20), claimant(90)]), [20, 70]);
        assert_eq!(
            rates(&[claimant(50), claimant(50), claimant(50), claimant(50)]),
            [15, 15, 15, 15]
        );
    }

    #[test]
    fn flows_of_one_job_lose_nothing_to_each_other() {
        let claimant = Claimant::on_link_0(60, 1, 0);
        let claims = [claimant.claim(7), claimant.claim(7)];
        let goodput = Goodput::new(&[0.5]).unwrap();
        let mut rates = Vec::new();
        Allocator::new([100], goodput).allocate(&claims, &mut rates);
        assert_eq!(rates, [50, 50]);
    }

    #[test]
    fn a_queue_loses_nothing_to_another_and_uses_what_an_earlier_one_lost() {
        let claimant = |queue| Claimant::on_link_0(80, 1, queue);
        let rates = |claimants: &[Claimant]| lossy_rates(&[100], &[0.8], claimants);
        assert_eq!(rates(&[claimant(0), claimant(1)]), [80, 20]);
        assert_eq!(rates(&[claimant(0), claimant(0), claimant(1)]), [40, 40, 20]);
    }

    #[test]
    fn the_textbook_parking_lot_has_its_max_min_shares() {
        // Bertsekas and Gallager: one flow over both links, one on the first, two on the second.
        let over = |links: &[usize]| Claimant {
            cap_bps: 1_000,
            weight: 1,
            queue: 0,
            loads: links.iter().map(|&link| Load { link, flows: 1 }).collect(),
        };
        let claimants = [over(&[0, 1]), over(&[0]), over(&[1]), over(&[1])];
        assert_eq!(rates(&[90, 90], &claimants), [30, 60, 30, 30]);
    }

    fn claimant() -> impl Strategy<Value = Claimant> {
        let loads = prop::collection::btree_map(0_usize..4, 1_u64..4, 0..4);
        (1_u64..200, 1_u64..5, 0_u8..2, loads).prop_map(|(cap_bps, weight, queue, loads)| {
            Claimant {
                cap_bps,
                weight,
                queue,
                loads: loads.into_iter().map(|(link, flows)| Load { link, flows }).collect(),
            }
        })
    }

    fn load_of(claimants: &[Claimant], rates: &[u64], link: usize) -> u64 {
        let on_link = |claimant: &Claimant| {
            claimant
                .loads
                .iter()
                .filter(|load| load.link == link)
                .map(|load| load.flows)
                .sum::<u64>()
        };
        claimants.iter().zip(rates).map(|(claimant, rate)| on_link(claimant) * rate).sum()
    }

    proptest! {
        #[test]
        fn no_link_and_no_cap_is_exceeded(
            capacities in prop::collection::vec(1_u64..500, 4),
            claimants in prop::collection::vec(claimant(), 1..8),
        ) {
            let rates = rates(&capacities, &claimants);
            for (link, &capacity) in capacities.iter().enumerate() {
                prop_assert!(load_of(&claimants, &rates, link) <= capacity);
            }
            for (claimant, &rate) in claimants.iter().zip(&rates) {
                prop_assert!(rate <= claimant.cap_bps);
            }
        }

        #[test]
        fn raising_a_job_would_lower_one_of_equal_or_smaller_share(
            capacities in prop::collection::vec(100_000_u64..500_000, 4),
            mut claimants in prop::collection::vec(claimant(), 1..8),
        ) {
            for claimant in &mut claimants {
                claimant.cap_bps *= 1_000;
                claimant.queue = 0;
            }
            let rates = rates(&capacities, &claimants);
            for (claimant, &rate) in claimants.iter().zip(&rates) {
                // Rounding down leaves less than one bit per second and flow of each sharer, of
                // which the lowest weight can see five times as much in its normalised share.
                let rounding = 200;
                let share = rate / claimant.weight;
                let held = claimant.loads.iter().any(|load| {
                    let full = load_of(&claimants, &rates, load.link) + rounding > capacities[load.link];
                    let none_larger = claimants.iter().zip(&rates).all(|(other, &other_rate)| {
                        let shares_link = other.loads.iter().any(|each| each.link == load.link);
                        !shares_link || other_rate / other.weight <= share + rounding
                    });
                    full && none_larger
                });
                prop_assert!(rate == claimant.cap_bps || held, "{claimant:?} at {rate} could be raised");
            }
        }

        #[test]
        fn the_order_of_the_jobs_changes_no_rate(
            capacities in prop::collection::vec(1_u64..500, 4),
            claimants in prop::collection::vec(claimant(), 1..8),
            turn in 0_usize..8,
        ) {
            let turn = turn % claimants.len();
            let mut expected = rates(&capacities, &claimants);
            let mut turned = claimants.clone();
            turned.rotate_left(turn);
            expected.rotate_left(turn);
            prop_assert_eq!(rates(&capacities, &turned), expected);
        }

        #[test]
        fn a_lower_queue_never_slows_a_higher_one(
            capacities in prop::collection::vec(1_u64..500, 4),
            claimants in prop::collection::vec(claimant(), 1..8),
        ) {
            let high: Vec<_> = claimants.iter().filter(|claimant| claimant.queue == 0).cloned().collect();
            let together = rates(&capacities, &claimants);
            let of_high: Vec<_> = claimants
                .iter()
                .zip(together)
                .filter(|(claimant, _)| claimant.queue == 0)
                .map(|(_, rate)| rate)
                .collect();
            prop_assert_eq!(rates(&capacities, &high), of_high);
        }
    }
}
