//! Which links a flow takes: inside a server, those of its scale-up switch; otherwise a pinned path, or one of the
//! shortest paths, chosen hop by hop by a hash, as ECMP does.

mod distances;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use thiserror::Error;

use self::distances::Distances;
use crate::{Fabric, LinkId, NodeId, NodeKind};

/// The largest number of paths over which one flow is sprayed.
pub const MAX_PATHS: usize = 64;

/// How a node chooses among equally short paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcmpHash {
    /// A 64-bit hash of source, destination, label and node.
    #[default]
    Mixed,
    /// As in simulators derived from HPCC's: MurmurHash3 (x86, 32 bits) of both addresses and the label's low 32 bits
    /// (source port, and destination port × 65,536), seeded with the node's number. It chooses among the neighbours in
    /// descending order of their numbers.
    Murmur3,
}

/// Routes over a fabric. Routes between hosts of one scale-up switch always take that switch, even if other cables join
/// the hosts or its links are down; no other route passes a scale-up switch. Distances are cached until a link fails or
/// comes back.
#[derive(Clone, Debug)]
pub struct Routing<'a> {
    fabric: Cow<'a, Fabric>,
    hash: EcmpHash,
    out_links: Vec<Vec<LinkId>>,
    in_links: Vec<Vec<LinkId>>,
    distances: Distances,
    /// By switch, group of destinations and hops that are left after the next one, if there are any: the next links. A hash map
    /// is safe here: it is never iterated.
    between_switches: HashMap<(NodeId, usize, u32), Vec<LinkId>>,
    pinned: BTreeMap<(NodeId, NodeId), Vec<LinkId>>,
    /// By link: whether it has failed.
    down: Vec<bool>,
}

/// Why a flow has no route, or why a pinned path is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum RouteError {
    #[error("node {node} is not in the fabric, which has {nodes} nodes, counted from 0")]
    UnknownNode { node: u32, nodes: usize },
    #[error("no route from {from:?} to {to:?}")]
    Unreachable { from: String, to: String },
    #[error(
        "the path from {from:?} to {to:?} takes link {link}; there are {links} links, counted from 0"
    )]
    UnknownLink { from: String, to: String, link: u32, links: usize },
    #[error("the path from {from:?} to {to:?} breaks off at {at:?}")]
    Broken { from: String, to: String, at: String },
    #[error(
        "the path from {from:?} to {to:?} takes {link:?}; all traffic between them takes scale-up switch {scale_up:?}"
    )]
    OffScaleUp { from: String, to: String, link: String, scale_up: String },
}

impl<'a> Routing<'a> {
    /// Routes over `fabric` by the default hash, none pinned.
    pub fn new(fabric: &'a Fabric) -> Self {
        Self::with_hash(fabric, EcmpHash::default())
    }

    /// Routes over `fabric` by `hash`, none pinned.
    pub fn with_hash(fabric: &'a Fabric, hash: EcmpHash) -> Self {
        Self::over(Cow::Borrowed(fabric), hash)
    }

    /// As [`Self::new`], for routes that outlive the given fabric.
    pub fn owned(fabric: Fabric) -> Routing<'static> {
        Routing::over(Cow::Owned(fabric), EcmpHash::default())
    }

    fn over(fabric: Cow<'a, Fabric>, hash: EcmpHash) -> Self {
        let mut out_links = vec![Vec::new(); fabric.nodes().len()];
        let mut in_links = out_links.clone();
        for (index, link) in fabric.links().iter().enumerate() {
            out_links[link.from.index()].push(LinkId::from_index(index));
            in_links[link.to.index()].push(LinkId::from_index(index));
        }
        if hash == EcmpHash::Murmur3 {
            // A stable sort: parallel links to one neighbour stay in the order of links.
            for links in &mut out_links {
                links.sort_by_key(|link| Reverse(fabric.links()[link.index()].to));
            }
        }
        let (distances, pinned) = (Distances::new(&fabric), BTreeMap::new());
        let down = vec![false; fabric.links().len()];
        let between_switches = HashMap::new();
        Self { fabric, hash, out_links, in_links, distances, between_switches, pinned, down }
    }

    /// Sends every flow from `from` to `to` over `path` instead of the shortest paths.
    ///
    /// # Errors
    /// As [`Self::check_path`].
    pub fn pin(&mut self, from: NodeId, to: NodeId, path: Vec<LinkId>) -> Result<(), RouteError> {
        self.check_path(from, to, &path)?;
        self.pinned.insert((from, to), path);
        Ok(())
    }

    /// Removes a link from all routes, or restores it. While a link of a pinned path is down, its flows take the shortest
    /// paths.
    ///
    /// # Panics
    /// If the link is not in the fabric.
    pub fn set_down(&mut self, link: LinkId, down: bool) {
        if self.down[link.index()] != down {
            self.down[link.index()] = down;
            self.distances.forget();
            self.between_switches.clear();
        }
    }

    /// Checks that `path` leads from `from` to `to`.
    ///
    /// # Errors
    /// If a link is unknown, if a link does not begin where the one before it ends, or if the path between two hosts of
    /// one scale-up switch leaves that switch.
    pub fn check_path(&self, from: NodeId, to: NodeId, path: &[LinkId]) -> Result<(), RouteError> {
        let (from_name, to_name) = (self.name(from)?, self.name(to)?);
        let mut at = from;
        for &id in path {
            let Some(link) = self.fabric.links().get(id.index()) else {
                let links = self.fabric.links().len();
                let (from, to, link) = (from_name, to_name, id.code());
                return Err(RouteError::UnknownLink { from, to, link, links });
            };
            if link.from != at {
                let at = self.name(at)?;
                return Err(RouteError::Broken { from: from_name, to: to_name, at });
            }
            at = link.to;
        }
        if at != to {
            let at = self.name(at)?;
            return Err(RouteError::Broken { from: from_name, to: to_name, at });
        }
        if let Some(switch) = self.fabric.scale_up_between(from, to)
            && let Some(link) = path.iter().find(|&&link| !self.fabric.is_scale_up(link))
        {
            let (link, scale_up) =
                (self.fabric.links()[link.index()].name.clone(), self.name(switch)?);
            return Err(RouteError::OffScaleUp { from: from_name, to: to_name, link, scale_up });
        }
        Ok(())
    }

    /// The links of a flow, in order; none where `from` is `to`. Among shortest paths, the choice at
    /// each node depends only on `from`, `to`, `flow_label` and that node: flows in which all four are the
    /// same take the same link, as in a switch that hashes headers. The node is part of the hash to
    /// avoid polarisation, in which successive switches make the same choice.
    ///
    /// # Errors
    /// If a node is unknown, or if no path exists. A path passes through no host, and between hosts of one scale-up
    /// switch through nothing but that switch.
    pub fn route(
        &mut self,
        from: NodeId,
        to: NodeId,
        flow_label: u64,
    ) -> Result<Vec<LinkId>, RouteError> {
        self.check(from)?;
        self.check(to)?;
        let pinned = self.pinned.get(&(from, to));
        if let Some(path) = pinned.filter(|path| path.iter().all(|link| self.is_up(*link))) {
            return Ok(path.clone());
        }
        if from == to {
            return Ok(Vec::new());
        }
        let (fabric, in_links, down) = (&self.fabric, &self.in_links, &self.down);
        self.distances.learn(to, fabric, |node| {
            in_links[node.index()].iter().copied().filter(|link| !down[link.index()])
        });
        // The distance of `from` itself is not known, as it may be a host: it follows from its links.
        let Some(mut left) = self.onward(from, to).map(|(_, left)| left + 1).min() else {
            return Err(RouteError::Unreachable { from: self.name(from)?, to: self.name(to)? });
        };
        let mut path = Vec::with_capacity(left as usize);
        let mut at = from;
        while left > 0 {
            left -= 1;
            let choice = if left > 0 && self.fabric.nodes()[at.index()].kind == NodeKind::Switch {
                let key = (at, self.distances.group(to), left);
                if !self.between_switches.contains_key(&key) {
                    let links = self.nearer(at, to, left).collect();
                    self.between_switches.insert(key, links);
                }
                let choices = &self.between_switches[&key];
                choices[self.choose(from, to, at, flow_label, choices.len())]
            } else {
                let mut choices = self.nearer(at, to, left);
                let chosen = self.choose(from, to, at, flow_label, choices.clone().count());
                choices.nth(chosen).expect("the choice lies below the count")
            };
            path.push(choice);
            at = self.fabric.links()[choice.index()].to;
        }
        Ok(path)
    }

    /// The shortest paths that begin with the first link of [`Self::route`], in order of links: all of them, or the first
    /// [`MAX_PATHS`]. Pinned paths are ignored.
    ///
    /// # Errors
    /// As [`Self::route`].
    pub fn paths(
        &mut self,
        from: NodeId,
        to: NodeId,
        flow_label: u64,
    ) -> Result<Vec<Vec<LinkId>>, RouteError> {
        let pinned = self.pinned.remove(&(from, to));
        let first = self.route(from, to, flow_label);
        if let Some(path) = pinned {
            self.pinned.insert((from, to), path);
        }
        let first = first?;
        let Some(&nic) = first.first() else { return Ok(vec![first]) };
        let mut paths = Vec::new();
        // Depth first, so that at most one list of siblings for each hop is kept, however many paths there are.
        let mut unfinished = vec![vec![nic]];
        while let Some(path) = unfinished.pop() {
            let left = (first.len() - path.len()) as u32;
            if left == 0 {
                paths.push(path);
                if paths.len() == MAX_PATHS {
                    break;
                }
                continue;
            }
            let at = self.fabric.links()[path[path.len() - 1].index()].to;
            let siblings = unfinished.len();
            for link in self.nearer(at, to, left - 1) {
                unfinished.push(path.iter().copied().chain([link]).collect());
            }
            // A stack returns the last one first; reversed, paths come in order of links.
            unfinished[siblings..].reverse();
        }
        Ok(paths)
    }

    /// The links of all shortest paths from `from` to `to`, ascending, each with its number of `parts` of a flow that every
    /// node divides evenly among its next links. Parts are whole, so that the numbers at a node may differ by 1. Pinned paths
    /// are ignored.
    ///
    /// # Errors
    /// As [`Self::route`].
    pub fn spread(
        &mut self,
        from: NodeId,
        to: NodeId,
        parts: u32,
    ) -> Result<Vec<(LinkId, u32)>, RouteError> {
        let hops = self.paths(from, to, 0)?.first().map_or(0, Vec::len) as u32;
        let mut spread = BTreeMap::new();
        // Nodes at one distance from `from`, each with the parts that reach it.
        let mut reached = BTreeMap::from([(from, parts)]);
        for left in (0..hops).rev() {
            for (at, parts) in std::mem::take(&mut reached) {
                let next: Vec<LinkId> = self.nearer(at, to, left).collect();
                let count = next.len() as u32;
                for (place, link) in (0..count).zip(next) {
                    let share = parts / count + u32::from(place < parts % count);
                    if share > 0 {
                        spread.insert(link, share);
                        *reached.entry(self.fabric.links()[link.index()].to).or_insert(0) += share;
                    }
                }
            }
        }
        Ok(spread.into_iter().collect())
    }

    // The links out of `at` whose ends are `left` hops from `to`.
    fn nearer(&self, at: NodeId, to: NodeId, left: u32) -> impl Iterator<Item = LinkId> + Clone {
        self.onward(at, to).filter(move |&(_, more)| more == left).map(|(link, _)| link)
    }

    // The links out of `at` that lead to `to`, each with the number of hops from its end.
    fn onward(&self, at: NodeId, to: NodeId) -> impl Iterator<Item = (LinkId, u32)> + Clone {
        let scale_up = self.fabric.scale_up_between(at, to);
        let distance = self.distances.to(to);
        // Distances cover switches only. Inside a server, the scale-up switch is the only next hop, also where a cable
        // joins both hosts, and it leads on only while its own link to `to` is up.
        let left = move |next: NodeId| match scale_up {
            Some(switch) if switch != at && switch != to => {
                (next == switch && self.is_joined(switch, to)).then_some(1)
            }
            _ if next == to => Some(0),
            Some(_) => None,
            None => distance(next),
        };
        self.out_links[at.index()]
            .iter()
            .filter(|&&link| self.is_up(link))
            .filter_map(move |&link| Some((link, left(self.fabric.links()[link.index()].to)?)))
    }

    fn is_joined(&self, from: NodeId, to: NodeId) -> bool {
        let mut links = self.out_links[from.index()].iter();
        links.any(|&link| self.fabric.links()[link.index()].to == to && self.is_up(link))
    }

    fn is_up(&self, link: LinkId) -> bool {
        !self.down[link.index()]
    }

    fn choose(&self, from: NodeId, to: NodeId, at: NodeId, label: u64, count: usize) -> usize {
        if count == 1 {
            return 0;
        }
        let hash = match self.hash {
            EcmpHash::Mixed => mixed_hash([from.code(), to.code(), at.code()], label),
            EcmpHash::Murmur3 => {
                let words = [address(from), address(to), label as u32];
                u64::from(murmur3(words, at.code()))
            }
        };
        (hash % count as u64) as usize
    }

    fn check(&self, node: NodeId) -> Result<(), RouteError> {
        self.name_of(node).map(|_| ())
    }

    fn name(&self, node: NodeId) -> Result<String, RouteError> {
        self.name_of(node).map(str::to_owned)
    }

    fn name_of(&self, node: NodeId) -> Result<&str, RouteError> {
        let nodes = self.fabric.nodes();
        match nodes.get(node.index()) {
            Some(node) => Ok(&node.name),
            None => Err(RouteError::UnknownNode { node: node.code(), nodes: nodes.len() }),
        }
    }
}

// MurmurHash3's 64-bit finaliser (Appleby, 2011), applied to one value after another: every input bit
// affects every output bit, so that remainders by any number of links are evenly distributed. The factor
// is 2^64 ÷ the golden ratio: it spreads small numbers, as those of nodes are, over all bits.
fn mixed_hash(nodes: [u32; 3], flow_label: u64) -> u64 {
    nodes.into_iter().map(u64::from).chain([flow_label]).fold(
        0x9e37_79b9_7f4a_7c15,
        |state, value| {
            let mut mixed = state ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            mixed ^ (mixed >> 33)
        },
    )
}

// The address of a node in HPCC's simulator (`node_id_to_ip` in its `third.cc`).
fn address(node: NodeId) -> u32 {
    0x0b00_0001 + (node.code() / 256) * 0x1_0000 + (node.code() % 256) * 0x100
}

// MurmurHash3_x86_32 (Appleby, 2011, public domain) of three words.
fn murmur3(words: [u32; 3], seed: u32) -> u32 {
    let mixed = words.into_iter().fold(seed, |state, word| {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (state ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    // The length in bytes is part of the hash.
    let mut hash = mixed ^ 12;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
pub(crate) mod tests {
    use hocket_des::{Duration, Rate};

    use super::*;
    use crate::{Cable, Node, NodeKind};

    /// Two racks of two hosts (nodes 0 to 3), their switches (4, 5), and `spines` spines.
    pub(crate) fn leaf_spine(spines: u32) -> Fabric {
        let node = |kind, name: String| Node { name, kind };
        let hosts = (0..4).map(|host| node(NodeKind::Host, format!("host{host}")));
        let racks = (0..2).map(|rack| node(NodeKind::Switch, format!("rack{rack}")));
        let tops = (0..spines).map(|spine| node(NodeKind::Switch, format!("spine{spine}")));
        let cable = |a, b| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_gbps(50),
            delay: Duration::from_ns(500),
        };
        let downs = (0..4).map(|host| cable(host, 4 + host / 2));
        let ups = (0..spines).flat_map(|spine| [cable(4, 6 + spine), cable(5, 6 + spine)]);
        let cables: Vec<_> = downs.chain(ups).collect();
        Fabric::new(hosts.chain(racks).chain(tops).collect(), &cables).unwrap()
    }

    fn names(fabric: &Fabric, path: &[LinkId]) -> Vec<String> {
        path.iter().map(|link| fabric.links()[link.index()].name.clone()).collect()
    }

    #[test]
    fn a_flow_takes_the_shortest_path_and_none_to_itself() {
        let fabric = leaf_spine(1);
        let mut routing = Routing::new(&fabric);
        let path = routing.route(NodeId::new(0), NodeId::new(1), 0).unwrap();
        assert_eq!(names(&fabric, &path), ["host0->rack0", "rack0->host1"]);
        let path = routing.route(NodeId::new(0), NodeId::new(3), 0).unwrap();
        assert_eq!(
            names(&fabric, &path),
            ["host0->rack0", "rack0->spine0", "spine0->rack1", "rack1->host3"]
        );
        assert_eq!(routing.route(NodeId::new(2), NodeId::new(2), 0), Ok(Vec::new()));
    }

    #[test]
    fn flows_spread_evenly_over_equal_paths_and_each_keeps_its_path() {
        let fabric = leaf_spine(4);
        let mut routing = Routing::new(&fabric);
        let mut counts = BTreeMap::new();
        for label in 0..4_000 {
            let path = routing.route(NodeId::new(0), NodeId::new(2), label).unwrap();
            assert_eq!(routing.route(NodeId::new(0), NodeId::new(2), label).unwrap(), path);
            *counts.entry(path[1]).or_insert(0_u32) += 1;
        }
        // 1,000 expected on each; five standard deviations of a fair draw are 137.
        assert_eq!(counts.len(), 4);
        assert!(counts.values().all(|count| count.abs_diff(1_000) < 137), "{counts:?}");
    }

    #[test]
    fn the_paths_of_a_flow_are_all_shortest_paths() {
        let fabric = leaf_spine(3);
        let mut routing = Routing::new(&fabric);
        let paths = routing.paths(NodeId::new(0), NodeId::new(2), 5).unwrap();
        let spines: Vec<_> = paths.iter().map(|path| names(&fabric, path)[1].clone()).collect();
        assert_eq!(spines, ["rack0->spine0", "rack0->spine1", "rack0->spine2"]);
        assert!(paths.contains(&routing.route(NodeId::new(0), NodeId::new(2), 5).unwrap()));
        let within_rack = routing.paths(NodeId::new(0), NodeId::new(1), 5).unwrap();
        assert_eq!(within_rack.len(), 1);
    }

    #[test]
    fn a_spread_flow_is_divided_evenly_at_each_node_and_whole_again_at_its_end() {
        let fabric = leaf_spine(3);
        let mut routing = Routing::new(&fabric);
        let spread = routing.spread(NodeId::new(0), NodeId::new(2), 100).unwrap();
        let parts: BTreeMap<_, _> = spread
            .iter()
            .map(|&(link, parts)| (&*fabric.links()[link.index()].name, parts))
            .collect();
        assert_eq!(parts["host0->rack0"], 100);
        assert_eq!(parts["rack1->host2"], 100);
        assert_eq!([0, 1, 2].map(|spine| parts[&*format!("rack0->spine{spine}")]), [34, 33, 33]);
        assert_eq!([0, 1, 2].map(|spine| parts[&*format!("spine{spine}->rack1")]), [34, 33, 33]);
        assert_eq!(spread.len(), 8);
        assert_eq!(routing.spread(NodeId::new(2), NodeId::new(2), 100), Ok(Vec::new()));
    }

    #[test]
    fn a_link_that_is_down_is_in_no_route_until_it_is_up_again() {
        let fabric = leaf_spine(2);
        let mut routing = Routing::new(&fabric);
        let (from, to) = (NodeId::new(0), NodeId::new(2));
        let before = routing.route(from, to, 1).unwrap();
        routing.pin(from, to, before.clone()).unwrap();
        routing.set_down(before[1], true);
        let around = routing.route(from, to, 1).unwrap();
        assert_eq!(around.len(), 4);
        assert_ne!(around[1], before[1]);
        routing.set_down(around[2], true);
        assert!(routing.route(from, to, 1).is_err());
        routing.set_down(before[1], false);
        assert_eq!(routing.route(from, to, 1), Ok(before));
    }

    #[test]
    fn no_flow_passes_through_a_host() {
        let node = |name: &str| Node { name: name.to_owned(), kind: NodeKind::Host };
        let cable = |a, b| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_gbps(50),
            delay: Duration::ZERO,
        };
        let nodes = vec![node("a"), node("b"), node("c")];
        let fabric = Fabric::new(nodes, &[cable(0, 1), cable(1, 2)]).unwrap();
        let error = Routing::new(&fabric).route(NodeId::new(0), NodeId::new(2), 0).unwrap_err();
        assert_eq!(error.to_string(), "no route from \"a\" to \"c\"");
    }

    /// Two racks of one server each with two GPUs: hosts 0 to 3, ToRs 4 and 5, a spine 6, scale-up switches 7 and 8
    /// with two cables to each GPU.
    fn servers() -> Fabric {
        let names = ["s0:0", "s0:1", "s1:0", "s1:1", "tor0", "tor1", "spine", "nv0", "nv1"];
        let kind = |place| match place {
            0..4 => NodeKind::Host,
            4..7 => NodeKind::Switch,
            _ => NodeKind::ScaleUp,
        };
        let node = |(place, name): (usize, &&str)| Node { name: (*name).into(), kind: kind(place) };
        let cable = |(a, b)| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_gbps(100),
            delay: Duration::from_ns(500),
        };
        let nics = (0..4).map(|gpu| (gpu, 4 + gpu / 2));
        let lanes = (0..4).flat_map(|gpu| [(gpu, 7 + gpu / 2); 2]);
        // A cable between the GPUs of the first server, too.
        let cables = nics.chain([(4, 6), (5, 6)]).chain(lanes).chain([(0, 1)]);
        let cables: Vec<_> = cables.map(cable).collect();
        Fabric::new(names.iter().enumerate().map(node).collect(), &cables).unwrap()
    }

    #[test]
    fn paths_inside_a_server_take_its_scale_up_switch_and_paths_between_servers_take_none() {
        let fabric = servers();
        for hash in [EcmpHash::Mixed, EcmpHash::Murmur3] {
            let mut routing = Routing::with_hash(&fabric, hash);
            let mut lanes = BTreeMap::new();
            for label in 0..400 {
                let path = routing.route(NodeId::new(0), NodeId::new(1), label).unwrap();
                assert_eq!(path.len(), 2);
                assert!(path.iter().all(|&link| fabric.is_scale_up(link)));
                assert_eq!(routing.check_path(NodeId::new(0), NodeId::new(1), &path), Ok(()));
                *lanes.entry(path).or_insert(0_u32) += 1;
                let path = routing.route(NodeId::new(1), NodeId::new(2), label).unwrap();
                assert_eq!(
                    names(&fabric, &path),
                    ["s0:1->tor0", "tor0->spine", "spine->tor1", "tor1->s1:0"]
                );
            }
            // Two lanes in, two out: 100 each, and five standard deviations of a fair draw are 43.
            assert_eq!(lanes.len(), 4);
            assert!(lanes.values().all(|count| count.abs_diff(100) < 43), "{lanes:?}");
            let paths = routing.paths(NodeId::new(2), NodeId::new(3), 0).unwrap();
            assert_eq!(paths.len(), 2);
            assert!(paths.iter().flatten().all(|&link| fabric.is_scale_up(link)));
            assert_eq!(paths[0][0], paths[1][0], "all begin with the link that the hash chose");
        }
    }

    #[test]
    fn a_scale_up_switch_is_reached_only_from_its_own_server() {
        let fabric = servers();
        let mut routing = Routing::new(&fabric);
        let mut hops =
            |from, to| Some(routing.route(NodeId::new(from), NodeId::new(to), 0).ok()?.len());
        assert_eq!([hops(0, 7), hops(7, 1), hops(4, 1)], [Some(1); 3]);
        assert_eq!([hops(2, 7), hops(4, 7), hops(7, 2), hops(7, 8), hops(7, 4)], [None; 5]);
    }

    #[test]
    fn a_host_without_scale_up_links_reaches_other_servers_only() {
        let fabric = servers();
        let mut routing = Routing::new(&fabric);
        let (from, to) = (NodeId::new(0), NodeId::new(1));
        for lane in ["s0:0->nv0", "s0:0->nv0/2"] {
            assert!(routing.route(from, to, 0).is_ok());
            routing.set_down(fabric.link_named(lane).unwrap(), true);
        }
        let error = routing.route(from, to, 0).unwrap_err();
        assert_eq!(error.to_string(), "no route from \"s0:0\" to \"s0:1\"");
        assert_eq!(routing.route(to, from, 0).unwrap().len(), 2);
        assert_eq!(routing.route(from, NodeId::new(2), 0).unwrap().len(), 4);
    }

    #[test]
    fn a_path_pinned_inside_a_server_leads_over_its_scale_up_switch() {
        let fabric = servers();
        let mut routing = Routing::new(&fabric);
        let path = |links: [&str; 2]| links.map(|name| fabric.link_named(name).unwrap()).to_vec();
        let (from, to) = (NodeId::new(0), NodeId::new(1));
        let error = routing.pin(from, to, path(["s0:0->tor0", "tor0->s0:1"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the path from \"s0:0\" to \"s0:1\" takes \"s0:0->tor0\"; all traffic between them takes scale-up switch \"nv0\""
        );
        let lanes = path(["s0:0->nv0/2", "nv0->s0:1"]);
        routing.pin(from, to, lanes.clone()).unwrap();
        assert_eq!(routing.route(from, to, 3), Ok(lanes));
    }

    #[test]
    fn a_pinned_path_is_taken_and_a_broken_one_is_refused() {
        let fabric = leaf_spine(2);
        let mut routing = Routing::new(&fabric);
        let named = |name| fabric.link_named(name).unwrap();
        let over_spine_1 = ["host0->rack0", "rack0->spine1", "spine1->rack1", "rack1->host2"];
        let path: Vec<_> = over_spine_1.into_iter().map(named).collect();
        let (from, to) = (NodeId::new(0), NodeId::new(2));
        routing.pin(from, to, path.clone()).unwrap();
        for label in 0..8 {
            assert_eq!(routing.route(from, to, label), Ok(path.clone()));
        }
        let error = routing.pin(from, to, vec![path[0], path[2]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the path from \"host0\" to \"host2\" breaks off at \"rack0\""
        );
        let error = routing.pin(from, to, vec![path[0]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the path from \"host0\" to \"host2\" breaks off at \"rack0\""
        );
    }
}
