//! A training job given by its operations: its workload, the hosts of its ranks, and the algorithms of its collectives.

pub mod folded;

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::{Bytes, Duration, Rate};
use thiserror::Error;

use crate::collective::{Algorithm, Collective, CollectiveError, CollectiveKind, Level};
use crate::workload::{Operation, OperationKind, Workload};
use crate::{Fabric, JobFlow, JobId, NodeId, PathChoice, Transport};

/// The parts of a training job. Each rank has its own host, which is its GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingSpec {
    /// The operations of the ranks.
    pub workload: Workload,
    /// By rank: its host.
    pub hosts: Vec<NodeId>,
    /// For each level of the network, from inside the server outwards: by rank, the number of its server, rack and so on.
    /// Ranks with the same number on one level have the same number on all outer levels.
    pub localities: Vec<Vec<u32>>,
    /// How collectives run.
    pub system: System,
    /// Slow ranks, with the factor by which their computes take longer.
    pub stragglers: Vec<(u32, f64)>,
    /// The path of traffic between servers.
    pub path: PathChoice,
    /// Congestion control and window of traffic inside a server, on the scale-up network.
    pub scale_up: Transport,
    /// Flow engine: headers and acknowledgements between servers.
    pub framing: Framing,
    /// Flow engine: headers and acknowledgements on the scale-up network.
    pub scale_up_framing: Framing,
}

/// How a job's collectives run.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// By kind: one algorithm for the whole group, or one for each level, from inside the server outwards. A group that lies
    /// within one level does not use the algorithms of outer levels.
    pub algorithms: BTreeMap<CollectiveKind, Vec<Algorithm>>,
    /// The number of chunks of each collective.
    pub chunks: u32,
    /// The number of chunks that a rank processes at the same time.
    pub in_flight: u32,
    /// The time that a receiver takes to notice a message.
    pub endpoint_delay: Duration,
    /// The rate at which a receiver adds arriving data, one message after another; `None` takes no time.
    pub reduction: Option<Rate>,
}

/// The bytes that packets add to the data that they carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Data of a full packet, in bytes.
    pub payload: u32,
    /// Headers of a packet, in bytes.
    pub header: u32,
    /// Size of an acknowledgement, in bytes.
    pub ack: u32,
    /// The number of packets for each acknowledgement.
    pub ack_every: u32,
}

/// A training job, valid by construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    spec: TrainingSpec,
    /// By group: its members in the order in which collectives number them, the innermost level fastest.
    members: Vec<Vec<u32>>,
    /// By group: the number of its collective, by kind and bytes.
    collectives: Vec<BTreeMap<(CollectiveKind, Bytes), u32>>,
    /// By number: each collective once, however many groups and operations have it.
    table: Vec<Collective>,
    /// By number of a collective: the algorithms of its levels, joined.
    algorithms: Vec<String>,
    /// By rank and communicator: the rank's position among the members.
    places: Vec<Vec<u32>>,
    /// By rank: the factor by which computes take longer.
    slowdowns: Vec<f64>,
}

/// Why a specification is not a training job.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum TrainingError {
    #[error("{ranks} ranks on {hosts} hosts; each rank has its own")]
    Hosts { ranks: usize, hosts: usize },
    #[error("ranks {one} and {other} are on the same host; each rank has its own")]
    SharedHost { one: usize, other: u32 },
    #[error("level {level} of the localities has {found} ranks; there are {ranks}")]
    Localities { level: usize, found: usize, ranks: usize },
    #[error("0 chunks in flight; there must be at least 1")]
    NoneInFlight,
    #[error("a reduction rate of 0; it must be higher, or absent")]
    NoReduction,
    #[error(
        "packets of {payload} bytes of data, {ack_every} packets for each acknowledgement; both must be at least 1"
    )]
    Framing { payload: u32, ack_every: u32 },
    #[error("rank {rank} is a straggler; there are {ranks} ranks, counted from 0")]
    UnknownStraggler { rank: u32, ranks: usize },
    #[error(
        "rank {rank} is slowed down by a factor of {factor}; it must lie between 0.01 and 1,000"
    )]
    Slowdown { rank: u32, factor: f64 },
    #[error("rank {rank}, operation {operation:?}: no algorithm is given for {}", kind.name())]
    NoAlgorithm { rank: u32, operation: String, kind: CollectiveKind },
    #[error(
        "rank {rank}, operation {operation:?}: {levels} algorithms, one for each level of the network; there are at most {known}"
    )]
    TooManyLevels { rank: u32, operation: String, levels: usize, known: usize },
    #[error(
        "rank {rank}, operation {operation:?}: a hierarchical collective needs the same number of members in each server (or rack); group {group} has {one} in one and {other} in another"
    )]
    Uneven { rank: u32, operation: String, group: usize, one: usize, other: usize },
    #[error("rank {rank}, operation {operation:?}: {error}")]
    Collective { rank: u32, operation: String, error: CollectiveError },
}

impl Training {
    /// A training job.
    ///
    /// # Errors
    /// If ranks share a host, a number is out of range, or an algorithm does not support the size of a group. The first error
    /// is reported, with rank and operation.
    pub fn new(spec: TrainingSpec) -> Result<Self, TrainingError> {
        check_places(&spec)?;
        let ranks = spec.workload.ranks().len();
        let mut slowdowns = vec![1.0; ranks];
        for &(rank, factor) in &spec.stragglers {
            let Some(slowdown) = slowdowns.get_mut(rank as usize) else {
                return Err(TrainingError::UnknownStraggler { rank, ranks });
            };
            if !(0.01..=1_000.0).contains(&factor) {
                return Err(TrainingError::Slowdown { rank, factor });
            }
            *slowdown = factor;
        }
        let groups = spec.workload.groups();
        let mut training = Self {
            members: groups.iter().map(|group| by_locality(group, &spec.localities)).collect(),
            collectives: vec![BTreeMap::new(); groups.len()],
            table: Vec::new(),
            algorithms: Vec::new(),
            places: Vec::new(),
            slowdowns,
            spec,
        };
        training.number_members();
        training.build_collectives()?;
        Ok(training)
    }

    /// The specification.
    pub fn spec(&self) -> &TrainingSpec {
        &self.spec
    }

    /// The operations of the ranks.
    pub fn workload(&self) -> &Workload {
        &self.spec.workload
    }

    /// The members of a group in the order in which its collectives number them.
    pub fn members(&self, group: u32) -> &[u32] {
        &self.members[group as usize]
    }

    /// A collective of a group, with its number.
    ///
    /// # Panics
    /// If the workload has no such collective.
    pub fn collective(&self, group: u32, kind: CollectiveKind, bytes: Bytes) -> (u32, &Collective) {
        let number = self.collectives[group as usize][&(kind, bytes)];
        (number, &self.table[number as usize])
    }

    /// The numbers of a group's collectives, each once.
    pub fn collectives_of(&self, group: u32) -> impl Iterator<Item = u32> {
        self.collectives[group as usize].values().copied()
    }

    /// All distinct collectives of the job, by number.
    pub fn collectives(&self) -> &[Collective] {
        &self.table
    }

    /// The algorithms of a collective, from inside the server outwards: `ring`, `direct+direct`.
    pub fn algorithm(&self, collective: u32) -> &str {
        &self.algorithms[collective as usize]
    }

    /// The position of a rank among the members of the group at its `communicator`.
    pub fn member(&self, rank: u32, communicator: usize) -> u32 {
        self.places[rank as usize][communicator]
    }

    /// The factor by which computes of a rank take longer.
    pub fn slowdown(&self, rank: u32) -> f64 {
        self.slowdowns[rank as usize]
    }

    /// The label of all flows of a job in the hash of ECMP.
    pub fn label(job: JobId) -> u64 {
        // The highest bit keeps them apart from the labels of periodic jobs, which are smaller.
        1 << 63 | u64::from(job.code())
    }

    /// The queue pair from one host to another.
    pub fn flow(&self, [from, to]: [NodeId; 2], label: u64, fabric: &Fabric) -> JobFlow {
        // The job's path is for traffic between servers: inside a server there is only one switch.
        let path = match fabric.scale_up_between(from, to) {
            Some(_) => PathChoice::Ecmp,
            None => self.spec.path.clone(),
        };
        JobFlow { path, ..JobFlow::new(from, to, label) }
    }

    /// The transport of the queue pair from one host to another: `outside` between servers, otherwise that of the scale-up
    /// network.
    pub fn transport<'a>(
        &'a self,
        outside: &'a Transport,
        [from, to]: [NodeId; 2],
        fabric: &Fabric,
    ) -> &'a Transport {
        let is_inside = fabric.scale_up_between(from, to).is_some();
        if is_inside { &self.spec.scale_up } else { outside }
    }

    /// The first rank whose iterations take no time, if any: it neither computes nor communicates with another rank.
    pub fn idle_rank(&self) -> Option<u32> {
        let workload = &self.spec.workload;
        let takes_time = |rank: u32, operation: &Operation| match operation.kind {
            OperationKind::Compute(duration) => !duration.is_zero(),
            OperationKind::Collective { communicator, .. } => {
                workload.groups()[workload.group(rank, communicator) as usize].len() > 1
            }
            OperationKind::Send(_) | OperationKind::Recv(_) => true,
        };
        let mut ranks = 0..workload.ranks().len() as u32;
        ranks.find(|&rank| {
            !workload.program(rank).operations().iter().any(|each| takes_time(rank, each))
        })
    }

    /// All pairs (sender, receiver) of ranks, each once, in order.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let pairs: BTreeSet<_> = self.patterns().into_iter().flatten().collect();
        pairs.into_iter().collect()
    }

    /// The pairs of [`Self::pairs`], grouped by which are active together: for each position in the ranks' lists of
    /// communicators, the pairs of all collectives of one kind, and those of all sends.
    pub fn patterns(&self) -> Vec<BTreeSet<(u32, u32)>> {
        let mut patterns: BTreeMap<_, BTreeSet<(u32, u32)>> = BTreeMap::new();
        let workload = &self.spec.workload;
        for ((group, collectives), members) in (0_u32..).zip(&self.collectives).zip(&self.members) {
            for (&(kind, _), &number) in collectives {
                let place = workload.place(members[0], group);
                let sending = self.table[number as usize].pairs().into_iter();
                patterns.entry((place, Some(kind))).or_default().extend(
                    sending.map(|(from, to)| (members[from as usize], members[to as usize])),
                );
            }
        }
        for rank in 0..workload.ranks().len() as u32 {
            for operation in workload.program(rank).operations() {
                if let OperationKind::Send(exchange) = operation.kind {
                    let pair = (rank, workload.peer(rank, &exchange));
                    let place = exchange.communicator as usize;
                    patterns.entry((place, None)).or_default().insert(pair);
                }
            }
        }
        patterns.into_values().collect()
    }

    fn number_members(&mut self) {
        let ranks = self.spec.workload.ranks();
        self.places = ranks.iter().map(|rank| vec![0; rank.communicators.len()]).collect();
        for (group, members) in (0_u32..).zip(&self.members) {
            for (&rank, member) in members.iter().zip(0_u32..) {
                let communicator = self.spec.workload.place(rank, group);
                self.places[rank as usize][communicator] = member;
            }
        }
    }

    fn build_collectives(&mut self) -> Result<(), TrainingError> {
        let mut known = BTreeMap::new();
        for group in 0..self.members.len() {
            // All members have the same collectives, which `Workload` has checked.
            let rank = self.spec.workload.groups()[group][0];
            let program = self.spec.workload.program(rank);
            for operation in program.operations() {
                let OperationKind::Collective { communicator, kind, bytes } = operation.kind else {
                    continue;
                };
                let is_here = self.spec.workload.group(rank, communicator) as usize == group;
                if !is_here || self.collectives[group].contains_key(&(kind, bytes)) {
                    continue;
                }
                let name = || operation.name.clone();
                let levels = self.levels(group, rank, &name, kind)?;
                // Groups of equal shape share one collective: a job can have thousands of groups.
                let (number, table) = (self.table.len() as u32, &mut self.table);
                let number = match known.entry((kind, bytes, levels)) {
                    std::collections::btree_map::Entry::Occupied(known) => *known.get(),
                    std::collections::btree_map::Entry::Vacant(place) => {
                        let (_, _, levels) = place.key();
                        self.algorithms.push(joined_names(levels));
                        let built = Collective::new(kind, bytes, levels, self.spec.system.chunks);
                        let operation = name();
                        table.push(built.map_err(|error| TrainingError::Collective {
                            rank,
                            operation,
                            error,
                        })?);
                        *place.insert(number)
                    }
                };
                self.collectives[group].insert((kind, bytes), number);
            }
        }
        Ok(())
    }

    // The levels of a collective of a group. Its members are sorted by locality, so that those of one server are consecutive.
    fn levels(
        &self,
        group: usize,
        rank: u32,
        operation: &dyn Fn() -> String,
        kind: CollectiveKind,
    ) -> Result<Vec<Level>, TrainingError> {
        let members = &self.members[group];
        let algorithms = match self.spec.system.algorithms.get(&kind) {
            Some(algorithms) if !algorithms.is_empty() => algorithms,
            _ => return Err(TrainingError::NoAlgorithm { rank, operation: operation(), kind }),
        };
        let (outermost, inner) = algorithms.split_last().expect("there is at least one");
        if inner.len() > self.spec.localities.len() {
            let (levels, known) = (algorithms.len(), self.spec.localities.len() + 1);
            return Err(TrainingError::TooManyLevels {
                rank,
                operation: operation(),
                levels,
                known,
            });
        }
        let mut levels = Vec::new();
        let mut below = 1;
        for (&algorithm, locality) in inner.iter().zip(&self.spec.localities) {
            // Ranks are numbered level by level, which requires equal numbers in all servers.
            let mut sizes = members
                .chunk_by(|&a, &b| locality[a as usize] == locality[b as usize])
                .map(<[u32]>::len);
            let one = sizes.next().expect("a group has members");
            if let Some(other) = sizes.find(|&size| size != one) {
                let operation = operation();
                return Err(TrainingError::Uneven { rank, operation, group, one, other });
            }
            levels.push(Level { ranks: (one / below) as u32, algorithm });
            below = one;
        }
        levels.push(Level { ranks: (members.len() / below) as u32, algorithm: *outermost });
        Ok(levels)
    }
}

// The algorithms of the levels that have steps: a level of one rank has none.
fn joined_names(levels: &[Level]) -> String {
    let with_steps = levels.iter().filter(|level| level.ranks > 1);
    with_steps.map(|level| level.algorithm.name()).collect::<Vec<_>>().join("+")
}

fn check_places(spec: &TrainingSpec) -> Result<(), TrainingError> {
    let ranks = spec.workload.ranks().len();
    if spec.hosts.len() != ranks {
        return Err(TrainingError::Hosts { ranks, hosts: spec.hosts.len() });
    }
    let mut taken = BTreeMap::new();
    for (&host, one) in spec.hosts.iter().zip(0_u32..) {
        if let Some(other) = taken.insert(host, one) {
            return Err(TrainingError::SharedHost { one: one as usize, other });
        }
    }
    for (level, locality) in spec.localities.iter().enumerate() {
        if locality.len() != ranks {
            return Err(TrainingError::Localities { level, found: locality.len(), ranks });
        }
    }
    if spec.system.in_flight == 0 {
        return Err(TrainingError::NoneInFlight);
    }
    for Framing { payload, ack_every, .. } in [spec.framing, spec.scale_up_framing] {
        if payload == 0 || ack_every == 0 {
            return Err(TrainingError::Framing { payload, ack_every });
        }
    }
    if spec.system.reduction == Some(Rate::ZERO) {
        return Err(TrainingError::NoReduction);
    }
    Ok(())
}

// The members of a group, sorted such that those of one server are consecutive, and so are the servers of one rack. Servers
// and racks follow in the order in which the group first names them, and so do the ranks of a server.
fn by_locality(group: &[u32], localities: &[Vec<u32>]) -> Vec<u32> {
    let mut first_place: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); localities.len()];
    for (place, &rank) in group.iter().enumerate() {
        for (known, locality) in first_place.iter_mut().zip(localities) {
            known.entry(locality[rank as usize]).or_insert(place);
        }
    }
    let key = |&(place, rank): &(usize, u32)| {
        let outwards = first_place.iter().zip(localities);
        // The outermost level counts first.
        let mut key: Vec<usize> =
            outwards.map(|(known, locality)| known[&locality[rank as usize]]).rev().collect();
        key.push(place);
        key
    };
    let mut members: Vec<(usize, u32)> = group.iter().copied().enumerate().collect();
    members.sort_by_cached_key(key);
    members.into_iter().map(|(_, rank)| rank).collect()
}
