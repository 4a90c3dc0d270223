//! Which ranks, groups and links of training jobs behave alike, so that one of each kind can stand for all: ranks that run the
//! same program, whose collectives and messages load links alike, which all other traffic loads alike.
//!
//! The classes are those of colour refinement: ranks, groups, streams and links start with a colour for what they are, and get
//! a new one from the colours of what they touch until no class splits any more. Colours are hashes, so that the classes are
//! only a proposal: they are used if they pass the checks of [`Folded`] and [`Classes::are_alike`].
//!
//! The rates of the classes are then those of all streams. Let every stream of a class load the same number of links of each
//! class with the same loads, and every link of a class carry the same number of streams of each class with the same loads.
//! Progressive filling stops streams at the lowest level of a link or a cap; links of one class have the same level, so that
//! their streams stop together, at the same rate, and take the same from links of each class. By induction over levels and
//! events, everything that starts at the same time on all members of a class also ends at the same time. A stream that stands
//! for its class loads a link that stands for its class with the sum of the loads of all these streams on that link.
//!
//! Links that can never be full, whatever is sent at the same time, determine no rate and are left out of all this.

use std::collections::{HashMap, HashSet};

use hocket_scenario::workload::OperationKind;
use hocket_scenario::{Fabric, Folded, JobId, NodeKind, Scenario, Share, Training};

use crate::allocation::Load;
use crate::error::FlowError;
use crate::plan::{Messages, Planner, StepPlan, messages_of_step};
use crate::training::{PlanKey, Plans};

// If classes have fewer ranks than this on average, all ranks are computed.
const LEAST_FOLD: usize = 2;

// The largest number of loads on links between switches, summed over messages, for which symmetry is looked for: a gigabyte.
const MOST_LOADS: usize = 1 << 26;

/// What a run needs besides its scenario.
pub(crate) struct Prepared<'a> {
    pub(crate) planner: Planner<'a>,
    /// By training job: the plans that are known before the run.
    pub(crate) plans: Vec<Plans>,
}

/// Looks for symmetry among the training jobs of a scenario. The result has one element for each of them: the job of one rank
/// of each class, or `None` if all ranks must be computed: without symmetry, or if it is not `wanted`.
pub(crate) fn prepare(
    scenario: &Scenario,
    wanted: bool,
) -> Result<(Vec<Option<Folded>>, Prepared<'_>), FlowError> {
    let jobs = scenario.jobs().iter().zip(scenario.job_ids());
    let jobs: Vec<(JobId, &Training)> =
        jobs.filter_map(|(job, id)| Some((id, job.training()?))).collect();
    let mut planner = Planner::new(scenario);
    let unfolded = |planner| {
        let plans = jobs.iter().map(|_| Plans::default()).collect();
        (jobs.iter().map(|_| None).collect(), Prepared { planner, plans })
    };
    if !(wanted && is_possible(scenario)) {
        return Ok(unfolded(planner));
    }
    let Some(traffic) = Traffic::new(&jobs, &mut planner, scenario.fabric())? else {
        return Ok(unfolded(planner));
    };
    let classes = Classes::refined(&traffic, &jobs, scenario.fabric());
    let folded: Option<Vec<Folded>> =
        classes.are_worth_it(&jobs).then(|| classes.folded(&traffic, &jobs)).flatten();
    let (folded, plans) = match folded {
        Some(folded) => {
            let plans = classes.plans(&traffic, jobs.len());
            (folded.into_iter().map(Some).collect(), plans)
        }
        None => (jobs.iter().map(|_| None).collect(), traffic.into_plans(jobs.len())),
    };
    Ok((folded, Prepared { planner, plans }))
}

// Whether ranks can behave alike, and the only effect of a stream on others is its rate.
fn is_possible(scenario: &Scenario) -> bool {
    let jobs = scenario.jobs();
    let policy =
        |job: JobId| (scenario.queue(job), scenario.jobs()[job.index()].share.weight().raw());
    let mut policies = scenario.job_ids().map(policy);
    let first = policies.next();
    jobs.iter().all(|job| job.training().is_some() && job.jitter == 0.0)
        && jobs.iter().all(|job| !matches!(job.share, Share::Adaptive(_)))
        // How often a policy decided is counted by stream.
        && policies.all(|policy| Some(policy) == first)
}

/// A step of a collective, or a message, on the network.
struct Stream {
    /// The number of its training job.
    job: usize,
    key: PlanKey,
    plan: StepPlan,
    /// Its loads on links that can be full.
    loads: Vec<Load>,
}

/// Everything that the jobs may send.
struct Traffic {
    streams: Vec<Stream>,
    /// By link: whether it can be full.
    can_fill: Vec<bool>,
}

/// A message of a stream that crosses links between switches.
struct Crossing {
    /// The link by which it leaves its host, and the one by which it arrives.
    ends: [usize; 2],
    stream: usize,
    /// Its loads on links between switches.
    loads: Vec<(usize, u64)>,
}

impl Traffic {
    // `None` if it is too much to look for symmetry.
    fn new(
        jobs: &[(JobId, &Training)],
        planner: &mut Planner<'_>,
        fabric: &Fabric,
    ) -> Result<Option<Self>, FlowError> {
        let between_switches: Vec<bool> = fabric
            .links()
            .iter()
            .map(|link| {
                let ends = [link.from, link.to];
                ends.iter().all(|end| fabric.nodes()[end.index()].kind == NodeKind::Switch)
            })
            .collect();
        let (mut streams, mut crossings, mut count) = (Vec::new(), Vec::new(), 0);
        for (number, &(id, training)) in jobs.iter().enumerate() {
            let mut add =
                |planner: &mut Planner<'_>, key, plan: StepPlan, ends: Vec<([u32; 2], u64)>| {
                    let stream = streams.len();
                    let leaves = plan.loads.iter().any(|load| between_switches[load.link]);
                    for (ranks, bytes) in ends.into_iter().filter(|_| leaves) {
                        let found = planner.loads_of((training, id), ranks, bytes)?;
                        let loads =
                            found.loads.into_iter().filter(|&(link, _)| between_switches[link]);
                        let loads: Vec<_> = loads.collect();
                        count += loads.len();
                        if !loads.is_empty() && count <= MOST_LOADS {
                            crossings.push(Crossing { ends: found.ends, stream, loads });
                        }
                    }
                    streams.push(Stream { job: number, key, plan, loads: Vec::new() });
                    Ok::<(), FlowError>(())
                };
            let workload = training.workload();
            for group in 0..workload.groups().len() as u32 {
                for collective in training.collectives_of(group) {
                    let spec = &training.collectives()[collective as usize];
                    let mut step = 0;
                    while step < spec.steps() {
                        let plan = planner.step((training, id), group, spec, step)?;
                        let ends = messages_of_step(training.members(group), spec, step).collect();
                        let key = PlanKey::Step { group, collective, step };
                        step += plan.steps;
                        add(planner, key, plan, ends)?;
                    }
                }
            }
            let sends = sends(training);
            for from in 0..workload.ranks().len() as u32 {
                let mut known = HashSet::new();
                for &(communicator, peer, bytes) in
                    &sends[workload.ranks()[from as usize].program as usize]
                {
                    let to = workload.groups()[workload.group(from, communicator) as usize]
                        [peer as usize];
                    if !known.insert((to, bytes)) {
                        continue;
                    }
                    let plan = planner.message((training, id), [from, to], bytes)?;
                    add(
                        planner,
                        PlanKey::Message { from, to, bytes },
                        plan,
                        vec![([from, to], bytes)],
                    )?;
                }
            }
        }
        if count > MOST_LOADS {
            return Ok(None);
        }
        let can_fill = links_that_can_fill(&streams, &mut crossings, fabric);
        for stream in &mut streams {
            let loads = stream.plan.loads.iter().copied();
            stream.loads = loads.filter(|load| can_fill[load.link]).collect();
        }
        Ok(Some(Self { streams, can_fill }))
    }

    fn into_plans(self, jobs: usize) -> Vec<Plans> {
        let mut plans: Vec<Plans> = (0..jobs).map(|_| Plans::default()).collect();
        for Stream { job, key, plan, .. } in self.streams {
            plans[job].add(key, plan);
        }
        plans
    }
}

// By program: what it sends, as (communicator, peer, bytes), each once.
fn sends(training: &Training) -> Vec<Vec<(u32, u32, u64)>> {
    let programs = training.workload().programs().iter();
    let of_program = programs.map(|program| {
        let sends = program.operations().iter().filter_map(|operation| match operation.kind {
            OperationKind::Send(exchange) => {
                Some((exchange.communicator, exchange.peer, exchange.bytes.get()))
            }
            _ => None,
        });
        let mut sends: Vec<_> = sends.collect();
        sends.sort_unstable();
        sends.dedup();
        sends
    });
    of_program.collect()
}

// By link: whether the streams together could ever load it fully. All that leaves a host by a link is limited by the rate of
// that link, and so is what this traffic loads on links behind it; the same holds for what arrives by a link. The smaller of the
// two sums bounds the load of a link between switches. Other links are taken to be full at times.
fn links_that_can_fill(
    streams: &[Stream],
    crossings: &mut [Crossing],
    fabric: &Fabric,
) -> Vec<bool> {
    // The bounds are sums of floating-point numbers: a margin far larger than their errors.
    const MARGIN: f64 = 1e-6;
    let rate = |link: usize| fabric.links()[link].rate.as_bps() as f64;
    let links = fabric.links().len();
    let mut bounds = [vec![0.0; links], vec![0.0; links]];
    // By link, of one stream and of the worst stream so far: the load for each unit of load on the end.
    let (mut share, mut worst) = (vec![0.0; links], vec![0.0_f64; links]);
    for (end, bound) in bounds.iter_mut().enumerate() {
        crossings.sort_unstable_by_key(|crossing| (crossing.ends[end], crossing.stream));
        for of_end in crossings.chunk_by(|a, b| a.ends[end] == b.ends[end]) {
            let link = of_end[0].ends[end];
            let mut seen = Vec::new();
            for of_stream in of_end.chunk_by(|a, b| a.stream == b.stream) {
                let loads = &streams[of_stream[0].stream].plan.loads;
                let at_end = loads.binary_search_by_key(&link, |load| load.link);
                let at_end = loads[at_end.expect("its messages cross it")].flows as f64;
                let all = || of_stream.iter().flat_map(|crossing| &crossing.loads);
                for &(link, flows) in all() {
                    share[link] += flows as f64 / at_end;
                }
                for &(link, _) in all() {
                    // A link that is listed twice is at 0 the second time.
                    if worst[link] == 0.0 && share[link] > 0.0 {
                        seen.push(link);
                    }
                    worst[link] = worst[link].max(std::mem::take(&mut share[link]));
                }
            }
            for each in seen {
                bound[each] += rate(link) * std::mem::take(&mut worst[each]);
            }
        }
    }
    let [sent, received] = &bounds;
    let is_between = |link: usize| sent[link] > 0.0;
    let can_fill =
        |link| !is_between(link) || sent[link].min(received[link]) * (1.0 + MARGIN) >= rate(link);
    (0..links).map(can_fill).collect()
}

/// Colours, and the classes of those that have the same one.
struct Classes {
    /// By training job and rank, and by training job and group, in numbers of each job's own.
    ranks: Vec<Vec<u32>>,
    groups: Vec<Vec<u32>>,
    streams: Vec<u32>,
    links: Vec<u32>,
}

type Colour = u128;

struct Colours {
    ranks: Vec<Vec<Colour>>,
    groups: Vec<Vec<Colour>>,
    streams: Vec<Colour>,
    links: Vec<Colour>,
}

impl Classes {
    fn refined(traffic: &Traffic, jobs: &[(JobId, &Training)], fabric: &Fabric) -> Self {
        let exchanges: Vec<Vec<Vec<(u32, u32)>>> = jobs
            .iter()
            .map(|(_, training)| {
                let programs = training.workload().programs().iter();
                programs.map(|program| program.exchanges()).collect()
            })
            .collect();
        let mut colours = Colours::first(traffic, jobs, fabric);
        let mut count = 0;
        loop {
            let found = colours.count();
            if found == count {
                return colours.classes();
            }
            count = found;
            colours.refine(traffic, jobs, &exchanges);
        }
    }

    fn are_worth_it(&self, jobs: &[(JobId, &Training)]) -> bool {
        let classes: usize = self.ranks.iter().map(|classes| count_of(classes)).sum();
        let ranks: usize = jobs.iter().map(|(_, training)| training.workload().ranks().len()).sum();
        classes * LEAST_FOLD <= ranks
    }

    // The jobs of one rank of each class, if the classes pass all checks.
    fn folded(&self, traffic: &Traffic, jobs: &[(JobId, &Training)]) -> Option<Vec<Folded>> {
        if !self.are_alike(traffic) {
            return None;
        }
        let classes = self.ranks.iter().zip(&self.groups);
        jobs.iter()
            .zip(classes)
            .map(|((_, training), (ranks, groups))| Folded::new(training, ranks, groups))
            .collect()
    }

    // Whether all streams of a class load links alike, all links of a class are loaded alike, and each stream belongs to the
    // same classes of ranks or groups as the others of its class, and no other class of streams does.
    fn are_alike(&self, traffic: &Traffic) -> bool {
        let streams = &traffic.streams;
        let mut on_links: Vec<Vec<(u32, u64)>> = vec![Vec::new(); self.links.len()];
        for (stream, &class) in streams.iter().zip(&self.streams) {
            for load in &stream.loads {
                on_links[load.link].push((class, load.flows));
            }
        }
        for loads in &mut on_links {
            loads.sort_unstable();
        }
        let first_streams = first_of(&self.streams);
        let streams_are_alike = streams.iter().zip(&self.streams).all(|(stream, &class)| {
            let first = &streams[first_streams[class as usize]];
            let loads = |stream: &Stream| {
                let loads = stream.loads.iter().map(|load| (self.links[load.link], load.flows));
                let mut loads: Vec<_> = loads.collect();
                loads.sort_unstable();
                loads
            };
            let rest =
                |StepPlan { bytes, steps, latency, reduction, acknowledgement, .. }: &StepPlan| {
                    (*bytes, *steps, *latency, *reduction, *acknowledgement)
                };
            self.key_of(stream) == self.key_of(first)
                && rest(&stream.plan) == rest(&first.plan)
                && loads(stream) == loads(first)
        });
        let first_links = first_of(&self.links);
        let links_are_alike = self.links.iter().zip(&on_links).zip(&traffic.can_fill).all(
            |((&class, loads), &can_fill)| {
                !can_fill || *loads == on_links[first_links[class as usize]]
            },
        );
        let mut keys: Vec<_> =
            first_streams.iter().map(|&first| self.key_of(&streams[first])).collect();
        let classes = keys.len();
        keys.sort_unstable();
        keys.dedup();
        streams_are_alike && links_are_alike && keys.len() == classes
    }

    // The job of a stream, and its key with classes in place of ranks and groups.
    fn key_of(&self, stream: &Stream) -> (usize, PlanKey) {
        let rank = |rank: u32| self.ranks[stream.job][rank as usize];
        let key = match stream.key {
            PlanKey::Step { group, collective, step } => {
                let group = self.groups[stream.job][group as usize];
                PlanKey::Step { group, collective, step }
            }
            PlanKey::Message { from, to, bytes } => {
                PlanKey::Message { from: rank(from), to: rank(to), bytes }
            }
        };
        (stream.job, key)
    }

    // By job: a plan for each class of streams.
    fn plans(&self, traffic: &Traffic, jobs: usize) -> Vec<Plans> {
        let mut plans: Vec<Plans> = (0..jobs).map(|_| Plans::default()).collect();
        let links = sizes_of(&self.links);
        let first_links = first_of(&self.links);
        let mut members = vec![Vec::new(); count_of(&self.streams)];
        for (stream, &class) in self.streams.iter().enumerate() {
            members[class as usize].push(stream);
        }
        let mut messages = vec![0; self.links.len()];
        for members in members {
            let first = &traffic.streams[members[0]];
            // By class of links: the load of one stream on all of them.
            let mut loads: HashMap<u32, u64> = HashMap::new();
            for load in &first.loads {
                *loads.entry(self.links[load.link]).or_default() += load.flows;
            }
            let mut loads: Vec<Load> = loads
                .into_iter()
                .map(|(class, flows)| {
                    let total = flows * members.len() as u64;
                    let links = links[class as usize] as u64;
                    assert!(total.is_multiple_of(links), "links of a class have the same load");
                    Load { link: first_links[class as usize], flows: total / links }
                })
                .collect();
            loads.sort_unstable_by_key(|load| load.link);
            let mut crossed = Vec::new();
            for &(link, count) in
                members.iter().flat_map(|&member| &*traffic.streams[member].plan.messages)
            {
                if messages[link] == 0 {
                    crossed.push(link);
                }
                messages[link] += count;
            }
            crossed.sort_unstable();
            crossed.dedup();
            let messages: Messages = crossed
                .into_iter()
                .map(|link| (link, std::mem::take(&mut messages[link])))
                .collect();
            let (job, key) = self.key_of(first);
            let StepPlan { bytes, steps, latency, reduction, acknowledgement, .. } = first.plan;
            let loads = loads.into();
            let plan =
                StepPlan { loads, bytes, steps, messages, latency, reduction, acknowledgement };
            plans[job].add(key, plan);
        }
        plans
    }
}

impl Colours {
    fn first(traffic: &Traffic, jobs: &[(JobId, &Training)], fabric: &Fabric) -> Self {
        let mut colours = Self {
            ranks: Vec::new(),
            groups: Vec::new(),
            streams: Vec::with_capacity(traffic.streams.len()),
            links: fabric.links().iter().map(|link| mixed(0, link.rate.as_bps())).collect(),
        };
        // A link that cannot be full belongs to no class with others.
        for (colour, can_fill) in colours.links.iter_mut().zip(&traffic.can_fill) {
            *colour = mixed(*colour, u64::from(*can_fill));
        }
        for (job, (_, training)) in (0_u64..).zip(jobs) {
            let ranks = training.workload().ranks().iter().zip(0_u32..);
            let ranks = ranks.map(|(rank, number)| {
                let slowdown = training.slowdown(number).to_bits();
                mixed(mixed(mixed(1, job), u64::from(rank.program)), slowdown)
            });
            colours.ranks.push(ranks.collect());
            let groups = training.workload().groups().iter();
            let groups = groups.map(|group| mixed(mixed(2, job), group.len() as u64));
            colours.groups.push(groups.collect());
        }
        for Stream { job, key, plan, .. } in &traffic.streams {
            let StepPlan { bytes, steps, latency, reduction, acknowledgement, .. } = plan;
            let words = [*job as u64, *bytes, u64::from(*steps), latency.as_ps()];
            let more = [reduction.as_ps(), acknowledgement.as_ps()];
            let of_key = match *key {
                PlanKey::Step { collective, step, .. } => {
                    [0, u64::from(collective), u64::from(step)]
                }
                PlanKey::Message { bytes, .. } => [1, bytes, 0],
            };
            let all = words.into_iter().chain(more).chain(of_key);
            colours.streams.push(all.fold(3, mixed));
        }
        colours
    }

    fn refine(
        &mut self,
        traffic: &Traffic,
        jobs: &[(JobId, &Training)],
        exchanges: &[Vec<Vec<(u32, u32)>>],
    ) {
        let mut on_groups: Vec<Vec<Colour>> =
            self.groups.iter().map(|groups| vec![0; groups.len()]).collect();
        let mut on_ranks: Vec<Vec<Colour>> =
            self.ranks.iter().map(|ranks| vec![0; ranks.len()]).collect();
        let mut on_links: Vec<Colour> = vec![0; self.links.len()];
        for (stream, colour) in traffic.streams.iter().zip(&mut self.streams) {
            let loads = stream.loads.iter();
            let loads = loads.map(|load| mixed(self.links[load.link], load.flows));
            // Sums, since the order of links and streams does not matter.
            let loads = loads.fold(0, Colour::wrapping_add);
            *colour = joined(*colour, loads);
            match stream.key {
                PlanKey::Step { group, .. } => {
                    *colour = joined(*colour, self.groups[stream.job][group as usize]);
                    let on_group = &mut on_groups[stream.job][group as usize];
                    *on_group = on_group.wrapping_add(mixed(*colour, 4));
                }
                PlanKey::Message { from, to, .. } => {
                    for (rank, end) in [(from, 5), (to, 6)] {
                        *colour = joined(*colour, self.ranks[stream.job][rank as usize]);
                        let on_rank = &mut on_ranks[stream.job][rank as usize];
                        *on_rank = on_rank.wrapping_add(mixed(*colour, end));
                    }
                }
            }
            for load in &stream.loads {
                let on_link = &mut on_links[load.link];
                *on_link = on_link.wrapping_add(mixed(*colour, load.flows));
            }
        }
        for (colour, on_link) in self.links.iter_mut().zip(on_links) {
            *colour = joined(*colour, on_link);
        }
        for (job, (_, training)) in jobs.iter().enumerate() {
            let workload = training.workload();
            // Members with the group at different positions of their lists use it differently.
            for (rank, colour) in workload.ranks().iter().zip(&self.ranks[job]) {
                for (place, &group) in (7..).zip(&rank.communicators) {
                    let on_group = &mut on_groups[job][group as usize];
                    *on_group = on_group.wrapping_add(mixed(*colour, place));
                }
            }
            for (colour, on_group) in self.groups[job].iter_mut().zip(&on_groups[job]) {
                *colour = joined(*colour, *on_group);
            }
            let next = workload.ranks().iter().zip(&self.ranks[job]).zip(&on_ranks[job]);
            let next = next.map(|((rank, colour), on_rank)| {
                let groups = rank.communicators.iter();
                let groups = groups.map(|&group| self.groups[job][group as usize]);
                let peers = exchanges[job][rank.program as usize].iter();
                let peers = peers.map(|&(communicator, peer)| {
                    let group = rank.communicators[communicator as usize];
                    let peer = workload.groups()[group as usize][peer as usize];
                    self.ranks[job][peer as usize]
                });
                groups.chain(peers).fold(joined(*colour, *on_rank), joined)
            });
            let next = next.collect();
            self.ranks[job] = next;
        }
    }

    fn count(&self) -> usize {
        let nested = self.ranks.iter().chain(&self.groups);
        nested.chain([&self.streams, &self.links]).map(|colours| count_of(&numbered(colours))).sum()
    }

    fn classes(&self) -> Classes {
        let nested = |colours: &[Vec<Colour>]| colours.iter().map(|each| numbered(each)).collect();
        Classes {
            ranks: nested(&self.ranks),
            groups: nested(&self.groups),
            streams: numbered(&self.streams),
            links: numbered(&self.links),
        }
    }
}

// Numbers for colours, in the order in which they first appear.
fn numbered(colours: &[Colour]) -> Vec<u32> {
    let mut numbers = HashMap::new();
    let number = |colour: &Colour| {
        let next = numbers.len() as u32;
        *numbers.entry(*colour).or_insert(next)
    };
    colours.iter().map(number).collect()
}

fn count_of(classes: &[u32]) -> usize {
    classes.iter().max().map_or(0, |last| *last as usize + 1)
}

fn sizes_of(classes: &[u32]) -> Vec<usize> {
    let mut sizes = vec![0; count_of(classes)];
    for &class in classes {
        sizes[class as usize] += 1;
    }
    sizes
}

// By class: its first member.
fn first_of(classes: &[u32]) -> Vec<usize> {
    let mut first = Vec::with_capacity(count_of(classes));
    for (member, &class) in classes.iter().enumerate() {
        // Classes are numbered in the order in which they first appear.
        if class as usize == first.len() {
            first.push(member);
        }
    }
    first
}

fn mixed(colour: Colour, word: u64) -> Colour {
    joined(colour, Colour::from(word))
}

// Two rounds of multiplication and folding, of the constants of MurmurHash3's 128-bit form (Appleby, 2011).
fn joined(one: Colour, other: Colour) -> Colour {
    const FIRST: Colour = 0x87c3_7b91_1142_53d5_4cf5_ad43_2745_937f;
    const SECOND: Colour = 0xff51_afd7_ed55_8ccd_c4ce_b9fe_1a85_ec53;
    let once = (one ^ other.wrapping_mul(FIRST).rotate_left(61)).wrapping_mul(SECOND);
    let twice = (once ^ (once >> 67)).wrapping_mul(FIRST);
    twice ^ (twice >> 59)
}
