//! The affinity graph: jobs on one side, links that several of them cross on the other. Its
//! traversal turns the time-shifts of single links into one time-shift per job (NSDI'24 section 4,
//! Algorithm 1).
//!
//! # What Algorithm 1 guarantees
//!
//! Job j takes the same place on a link's circle when its shift changes by a multiple of its own
//! iteration time, so only `t_j mod iter_time_j` matters. On every link of a loop-free graph there
//! is one rotation ρ, common to all its jobs, with `t_j ≡ t_j^l + ρ (mod iter_time_j)`: the circle
//! is the one that the solver found, turned as a whole, and the score is the same.
//!
//! This is the purpose of Equation 6, though not its wording. Equation 6 compares differences
//! modulo the perimeter p^l and holds for shifts that are never reduced, as in the proof in
//! Appendix A. Line 17 of Algorithm 1 reduces modulo the iteration time, which is smaller than p^l
//! where periods differ; then the differences of two jobs agree modulo the greatest common divisor
//! of their iteration times. By the Chinese remainder theorem, this agreement of all pairs on a
//! link is equivalent to one common rotation. Propagating a reduced shift to further links turns
//! all their circles as a whole, which is harmless too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hocket_des::{Duration, stream};
use num_integer::Integer;
use petgraph::unionfind::UnionFind;
use rand::RngExt;
use thiserror::Error;

/// A job in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinityJob {
    /// The job's period, `iter_time_j`.
    pub iteration: Duration,
    /// The job of highest priority is the reference of its component and never delayed.
    pub priority: i64,
}

/// Jobs and links; an edge between them has the job's time-shift on that link as its weight.
#[derive(Clone, Debug)]
pub struct AffinityGraph {
    jobs: Vec<AffinityJob>,
    links: Vec<Vec<(usize, Duration)>>,
    links_of: Vec<Vec<usize>>,
}

/// Why jobs and links are not an affinity graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum AffinityError {
    #[error("link {link} names job {job}, but there are only {jobs} jobs, counted from 0")]
    UnknownJob { link: usize, job: usize, jobs: usize },
    #[error("link {link} names job {job} twice")]
    RepeatedJob { link: usize, job: usize },
    #[error("job {job} has an iteration time of 0; it must be longer")]
    ZeroIteration { job: usize },
}

/// The result of a traversal.
#[derive(Clone, Debug, PartialEq)]
pub struct Traversal {
    /// By job: the delay of its next iteration, below its iteration time; `None` for a job that
    /// shares no link.
    pub time_shifts: Vec<Option<Duration>>,
    /// The connected subgraphs, in ascending order of their lowest jobs.
    pub components: Vec<Component>,
}

/// A connected subgraph.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// The job with time-shift 0.
    pub reference: usize,
    /// Its jobs, ascending.
    pub jobs: Vec<usize>,
    /// Its links, ascending.
    pub links: Vec<usize>,
    /// One loop for each edge beyond a spanning tree; none in a loop-free graph.
    pub loops: Vec<Loop>,
}

/// A loop: from `jobs[0]` over `links[0]` to `jobs[1]` and so on, over the last link back.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The jobs in order.
    pub jobs: Vec<usize>,
    /// The links in order.
    pub links: Vec<usize>,
    /// The greatest common divisor of the jobs' iteration times: the sum of the signed weights
    /// around the loop matters only modulo this.
    pub modulus: Duration,
    /// How far the time-shifts around the loop are from agreeing.
    pub gap: Duration,
    /// Whether the gap is within the tolerance.
    pub closes: bool,
}

impl Component {
    /// Whether the shifts of all its links agree.
    pub fn closes(&self) -> bool {
        self.loops.iter().all(|each| each.closes)
    }
}

/// Groups links that carry the same jobs, for links given by the jobs that cross them; links with
/// fewer than two jobs are left out. Groups come in order of their first link.
///
/// Two jobs across the same two racks share every link of the path, and each further shared link
/// would make a loop; as one link they make none.
pub fn collapse(jobs_by_link: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut place: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (link, jobs) in jobs_by_link.iter().enumerate() {
        let mut jobs = jobs.clone();
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.len() < 2 {
            continue;
        }
        let group = *place.entry(jobs).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(link);
    }
    groups
}

impl AffinityGraph {
    /// A graph of `jobs` and, for each link, the jobs on it with their time-shifts `t_j^l`.
    ///
    /// # Errors
    /// If a link names a job that does not exist, or names one twice, or an iteration time is zero.
    pub fn new(
        jobs: Vec<AffinityJob>,
        links: Vec<Vec<(usize, Duration)>>,
    ) -> Result<Self, AffinityError> {
        if let Some(job) = jobs.iter().position(|job| job.iteration.is_zero()) {
            return Err(AffinityError::ZeroIteration { job });
        }
        let mut links_of = vec![Vec::new(); jobs.len()];
        for (link, edges) in links.iter().enumerate() {
            for &(job, _) in edges {
                let known: &mut Vec<usize> = links_of
                    .get_mut(job)
                    .ok_or(AffinityError::UnknownJob { link, job, jobs: jobs.len() })?;
                // Links come in ascending order, so a job that this link has named already has it
                // last.
                if known.last() == Some(&link) {
                    return Err(AffinityError::RepeatedJob { link, job });
                }
                known.push(link);
            }
        }
        Ok(Self { jobs, links, links_of })
    }

    /// Whether some component has a loop, closing or not.
    pub fn has_loop(&self) -> bool {
        let mut joined = UnionFind::new(self.jobs.len() + self.links.len());
        self.links.iter().enumerate().any(|(link, edges)| {
            edges.iter().any(|(job, _)| !joined.union(*job, self.jobs.len() + link))
        })
    }

    /// One time-shift per job: Algorithm 1 on every component. The reference, which the paper
    /// selects at random, is the job of highest priority; among several of them, the one that
    /// `seed` selects.
    ///
    /// A loop closes if the signed weights around it sum to zero modulo the greatest common divisor
    /// of its jobs' iteration times, up to `tolerance` × the shortest of these times; then the
    /// shifts are right on all its links. If that requires jobs of the loop to move by whole
    /// iterations, they are moved. Loops that close one by one but not together are reported as not
    /// closing. If loops do not close, the shifts are right only on the links of a spanning tree.
    pub fn traverse(&self, seed: u64, tolerance: f64) -> Traversal {
        let mut time_shifts = vec![None; self.jobs.len()];
        let mut components = Vec::new();
        for jobs in self.connected_jobs() {
            let reference = self.reference(&jobs, seed);
            let mut tree = Tree::grow(self, reference);
            let loops = tree.close_loops(self, tolerance);
            for &job in &jobs {
                time_shifts[job] = Some(tree.time_shift(self, job));
            }
            components.push(Component { reference, links: self.links_on(&jobs), jobs, loops });
        }
        Traversal { time_shifts, components }
    }

    fn iteration_ps(&self, job: usize) -> i128 {
        i128::from(self.jobs[job].iteration.as_ps())
    }

    /// The jobs of each component, for all jobs that have a link.
    fn connected_jobs(&self) -> Vec<Vec<usize>> {
        let mut joined = UnionFind::new(self.jobs.len());
        for edges in &self.links {
            for pair in edges.windows(2) {
                joined.union(pair[0].0, pair[1].0);
            }
        }
        let mut place = BTreeMap::new();
        let mut components: Vec<Vec<usize>> = Vec::new();
        for job in (0..self.jobs.len()).filter(|job| !self.links_of[*job].is_empty()) {
            let component = *place.entry(joined.find(job)).or_insert_with(|| {
                components.push(Vec::new());
                components.len() - 1
            });
            components[component].push(job);
        }
        components
    }

    fn links_on(&self, jobs: &[usize]) -> Vec<usize> {
        let mut links: Vec<usize> =
            jobs.iter().flat_map(|job| self.links_of[*job].iter().copied()).collect();
        links.sort_unstable();
        links.dedup();
        links
    }

    fn reference(&self, jobs: &[usize], seed: u64) -> usize {
        let highest = jobs.iter().map(|job| self.jobs[*job].priority).max();
        let equals: Vec<usize> =
            jobs.iter().copied().filter(|job| Some(self.jobs[*job].priority) == highest).collect();
        // The stream is that of the lowest job, so that the other components do not influence the
        // selection.
        let mut draw = stream(seed, "affinity reference", jobs[0] as u64);
        equals[draw.random_range(0..equals.len())]
    }
}

/// The breadth-first tree of one component. A node is a job, or the number of jobs + a link.
struct Tree {
    parents: BTreeMap<usize, usize>,
    /// Every node after its parent.
    order: Vec<usize>,
    /// For a job its time-shift, for a link the time at which angle 0 of its circle lies: along an
    /// edge of weight w, the two differ by w, up to whole iterations of the job. Multiples of
    /// iterations exceed 64 bits.
    at_ps: BTreeMap<usize, i128>,
    /// Edges that are not in the tree.
    chords: Vec<Chord>,
}

/// An edge between a job and a link that closes a loop.
#[derive(Clone, Copy, Debug)]
struct Chord {
    job: usize,
    link_node: usize,
    weight_ps: i128,
}

/// A subtree that can move by whole iterations of a job without changing that job's position on any
/// circle.
#[derive(Clone, Copy, Debug)]
struct Movable {
    /// The root of the subtree.
    part: usize,
    job: usize,
    /// +1 or −1: a move by t adds t times this to the cycle's residual.
    sign: i128,
}

impl Tree {
    /// Algorithm 1, lines 5 to 19.
    fn grow(graph: &AffinityGraph, reference: usize) -> Self {
        let mut tree = Self {
            parents: BTreeMap::new(),
            order: vec![reference],
            at_ps: BTreeMap::from([(reference, 0)]),
            chords: Vec::new(),
        };
        let mut queue = VecDeque::from([reference]);
        while let Some(job) = queue.pop_front() {
            for &link in &graph.links_of[job] {
                let node = graph.jobs.len() + link;
                if !tree.at_ps.contains_key(&node) {
                    queue.extend(tree.cross(graph, job, link));
                }
            }
        }
        tree
    }

    /// Visits `link` from `job`, and returns the jobs on it that were not visited before.
    fn cross(&mut self, graph: &AffinityGraph, job: usize, link: usize) -> Vec<usize> {
        let node = graph.jobs.len() + link;
        let weight_of = |shift: Duration| i128::from(shift.as_ps());
        let edge = graph.links[link].iter().find(|(other, _)| *other == job);
        let (_, shift) = edge.expect("a job's links carry the job");
        let origin = self.at_ps[&job] - weight_of(*shift);
        self.visit(node, job, origin);
        let mut visited = Vec::new();
        for &(other, shift) in graph.links[link].iter().filter(|(other, _)| *other != job) {
            // Algorithm 1 ignores jobs that were visited before; here they are the loops.
            if self.at_ps.contains_key(&other) {
                let weight_ps = weight_of(shift);
                self.chords.push(Chord { job: other, link_node: node, weight_ps });
            } else {
                // Line 17.
                let at = (origin + weight_of(shift)).rem_euclid(graph.iteration_ps(other));
                self.visit(other, node, at);
                visited.push(other);
            }
        }
        visited
    }

    fn visit(&mut self, node: usize, parent: usize, at_ps: i128) {
        self.parents.insert(node, parent);
        self.order.push(node);
        self.at_ps.insert(node, at_ps);
    }

    fn time_shift(&self, graph: &AffinityGraph, job: usize) -> Duration {
        let shift = self.at_ps[&job].rem_euclid(graph.iteration_ps(job));
        Duration::from_ps(u64::try_from(shift).expect("it is below the iteration time"))
    }

    /// Adds whole iterations where that closes a loop, then reports every loop.
    fn close_loops(&mut self, graph: &AffinityGraph, tolerance: f64) -> Vec<Loop> {
        let cycles: Vec<Cycle> =
            self.chords.iter().map(|chord| self.cycle(graph, *chord)).collect();
        for cycle in &cycles {
            if distance(self.residual(cycle), cycle.modulus) <= cycle.allowed(tolerance) {
                self.turn(graph, cycle);
            }
        }
        // Only now, since closing one loop can move jobs of another.
        cycles.iter().map(|cycle| self.report(graph, cycle, tolerance)).collect()
    }

    /// By how much the two ends of the cycle's chord differ from the chord's weight.
    fn residual(&self, cycle: &Cycle) -> i128 {
        let Chord { job, link_node, weight_ps } = cycle.chord;
        self.at_ps[&job] - self.at_ps[&link_node] - weight_ps
    }

    fn report(&self, graph: &AffinityGraph, cycle: &Cycle, tolerance: f64) -> Loop {
        let residual = self.residual(cycle);
        let least_gap = distance(residual, cycle.modulus);
        // With all other jobs where they are, only whole iterations of the chord's job remain free.
        let placed_gap = distance(residual, graph.iteration_ps(cycle.chord.job));
        let allowed = cycle.allowed(tolerance);
        let gap = if least_gap > allowed { least_gap } else { placed_gap };
        Loop {
            jobs: cycle.jobs(graph),
            links: cycle.links(graph),
            modulus: duration(cycle.modulus),
            gap: duration(gap),
            closes: gap <= allowed,
        }
    }

    fn ancestors(&self, node: usize) -> Vec<usize> {
        std::iter::successors(Some(node), |node| self.parents.get(node).copied()).collect()
    }

    fn cycle(&self, graph: &AffinityGraph, chord: Chord) -> Cycle {
        let mut job_side = self.ancestors(chord.job);
        let mut link_side = self.ancestors(chord.link_node);
        let mut common_ancestor = *job_side.last().expect("a node is its own first ancestor");
        while job_side.last() == link_side.last() {
            common_ancestor = job_side.pop().expect("the chord's job is no ancestor of its link");
            link_side.pop();
        }
        let mut cycle =
            Cycle { chord, job_side, common_ancestor, link_side, modulus: 0, shortest: 0 };
        let iterations = || cycle.jobs(graph).into_iter().map(|job| graph.iteration_ps(job));
        let modulus = iterations().fold(0, |gcd, iteration| gcd.gcd(&iteration));
        let shortest = iterations().min().expect("a loop has jobs");
        cycle.modulus = modulus;
        cycle.shortest = shortest;
        cycle
    }

    /// Moves parts of the tree by whole iterations of the cycle's jobs, which brings the cycle's
    /// residual as near to zero as possible (Bézout's identity). Leaves the tree unchanged if the
    /// numbers become too large.
    fn turn(&mut self, graph: &AffinityGraph, cycle: &Cycle) {
        let movable = cycle.movable(graph);
        let residual = self.residual(cycle);
        let wanted = -(residual - nearest_remainder(residual, cycle.modulus));
        if let Some(multiples) = bezout(graph, &movable, wanted) {
            for (Movable { part, job, sign }, multiple) in movable.into_iter().zip(multiples) {
                self.move_part(part, sign * multiple * graph.iteration_ps(job));
            }
        }
    }

    /// Adds `by_ps` to `part` and everything below it.
    fn move_part(&mut self, part: usize, by_ps: i128) {
        if by_ps == 0 {
            return;
        }
        let mut below = BTreeSet::from([part]);
        // One pass is enough: every node comes after its parent.
        for node in &self.order {
            if self.parents.get(node).is_some_and(|parent| below.contains(parent)) {
                below.insert(*node);
            }
        }
        for node in below {
            *self.at_ps.get_mut(&node).expect("the part is of this tree") += by_ps;
        }
    }
}

/// The loop that one edge outside the tree closes: from its job and from its link up the tree to
/// their lowest common ancestor.
struct Cycle {
    chord: Chord,
    /// The nodes from the chord's job up, without the common ancestor.
    job_side: Vec<usize>,
    common_ancestor: usize,
    /// The nodes from the chord's link up, without the common ancestor.
    link_side: Vec<usize>,
    /// The greatest common divisor of the iteration times of its jobs, and the shortest of these
    /// times.
    modulus: i128,
    shortest: i128,
}

impl Cycle {
    /// The nodes from the chord's job over the common ancestor to the chord's link.
    fn nodes(&self) -> impl Iterator<Item = usize> {
        let down = self.link_side.iter().rev();
        self.job_side.iter().chain([&self.common_ancestor]).chain(down).copied()
    }

    fn jobs(&self, graph: &AffinityGraph) -> Vec<usize> {
        self.nodes().filter(|node| *node < graph.jobs.len()).collect()
    }

    fn links(&self, graph: &AffinityGraph) -> Vec<usize> {
        let jobs = graph.jobs.len();
        self.nodes().filter(|node| *node >= jobs).map(|node| node - jobs).collect()
    }

    /// The gap that counts as closed.
    fn allowed(&self, tolerance: f64) -> i128 {
        (self.shortest as f64 * tolerance) as i128
    }

    /// Parts of the tree whose moves change the cycle's residual.
    fn movable(&self, graph: &AffinityGraph) -> Vec<Movable> {
        let job_of = |side: &[usize], sign: i128| -> Vec<Movable> {
            let jobs = side.iter().filter(|node| **node < graph.jobs.len());
            jobs.map(|job| Movable { part: *job, job: *job, sign }).collect()
        };
        let mut movable = job_of(&self.job_side, 1);
        movable.extend(job_of(&self.link_side, -1));
        // A common ancestor that is a job cannot move itself, which would move both sides alike:
        // one of its branches can.
        if self.common_ancestor < graph.jobs.len() {
            let branch =
                self.job_side.last().expect("the chord's job is below the common ancestor");
            movable.push(Movable { part: *branch, job: self.common_ancestor, sign: 1 });
        }
        movable
    }
}

/// Multiples of the jobs' iteration times that sum to `wanted`, a multiple of their greatest common
/// divisor; none if the numbers leave 128 bits.
fn bezout(graph: &AffinityGraph, movable: &[Movable], wanted: i128) -> Option<Vec<i128>> {
    let mut gcd = 0i128;
    let mut multiples: Vec<i128> = Vec::new();
    for Movable { job, .. } in movable {
        let iteration = graph.iteration_ps(*job);
        // The jobs so far suffice; a further multiple would only make the numbers larger.
        if gcd != 0 && wanted % gcd == 0 {
            multiples.push(0);
            continue;
        }
        let step = gcd.extended_gcd(&iteration);
        for multiple in &mut multiples {
            *multiple = multiple.checked_mul(step.x)?;
        }
        multiples.push(step.y);
        gcd = step.gcd;
    }
    let scale = wanted / gcd;
    // The tree moves by multiple × iteration. With 96 bits, there is room for the moves of 2^31
    // loops.
    let fits = |multiple: i128, job: usize| {
        let scaled = multiple.checked_mul(scale)?;
        let moved = scaled.checked_mul(graph.iteration_ps(job))?;
        (moved.unsigned_abs() < 1 << 96).then_some(scaled)
    };
    multiples.iter().zip(movable).map(|(multiple, each)| fits(*multiple, each.job)).collect()
}

/// `value` modulo `modulus`, between −modulus/2 and modulus/2.
fn nearest_remainder(value: i128, modulus: i128) -> i128 {
    let remainder = value.rem_euclid(modulus);
    if remainder > modulus / 2 { remainder - modulus } else { remainder }
}

/// The distance from `value` to the nearest multiple of `modulus`.
fn distance(value: i128, modulus: i128) -> i128 {
    nearest_remainder(value, modulus).abs()
}

fn duration(ps: i128) -> Duration {
    Duration::from_ps(u64::try_from(ps).expect("it is at most an iteration time"))
}
