//! Hosts, switches and the directed links between them. Which links a flow takes is left to
//! `routing`.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::{Duration, Rate};
use thiserror::Error;

use crate::{LinkId, NodeId};

/// The highest rate of a link and of a phase: 1 Pbps.
// Less than 2^50 bps. A link's weights sum to less than 2^76 (44 bits of a weight in steps, 2^16
// flows, 2^16 jobs), so that products of the two, which the flow engine compares, fit in 128 bits.
pub const MAX_RATE: Rate = Rate::from_gbps(1_000_000);

/// What a node does with packets that are addressed to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A server, or a GPU with its own NIC: flows start and end here, and none passes through.
    Host,
    /// Forwards packets.
    Switch,
    /// Joins the GPUs of one server (NVSwitch): forwards all traffic between its hosts, and no other traffic.
    ScaleUp,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique in its fabric.
    pub name: String,
    /// Host, switch or scale-up switch.
    pub kind: NodeKind,
}

/// A link of a plan: two directed links, each with the full rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// One end.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// The capacity of each direction.
    pub rate: Rate,
    /// Propagation delay of one direction.
    pub delay: Duration,
}

/// One direction of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `from->to`, with `/2`, `/3`, … for further cables between the same nodes.
    pub name: String,
    /// Where traffic enters.
    pub from: NodeId,
    /// Where traffic leaves.
    pub to: NodeId,
    /// Capacity.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
}

/// Nodes and directed links. Every link joins two different nodes and has a rate above zero. A
/// scale-up switch is joined only to hosts, and a host to at most one scale-up switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// By node: its scale-up switch; for a scale-up switch, the switch itself.
    scale_up: Vec<Option<NodeId>>,
}

/// Why nodes and cables do not form a fabric. Messages count cables from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum FabricError {
    #[error("two nodes are named {name:?}; names must be unique")]
    DuplicateNode { name: String },
    #[error("cable {cable} ends at node {node}; there are {nodes} nodes, counted from 0")]
    UnknownNode { cable: usize, node: u32, nodes: usize },
    #[error("cable {cable} joins {node:?} to itself; its ends must differ")]
    SelfLink { cable: usize, node: String },
    #[error("cable {cable} has a rate of {rate}; it must be above 0 and at most {MAX_RATE}")]
    RateOutOfRange { cable: usize, rate: Rate },
    #[error("cable {cable} joins scale-up switch {scale_up:?} to {node:?}; it must be a host")]
    ScaleUpWithoutHost { cable: usize, scale_up: String, node: String },
    #[error(
        "cable {cable} joins {host:?} to scale-up switch {second:?}, but it is joined to {first:?}; a host has at most one"
    )]
    SecondScaleUp { cable: usize, host: String, first: String, second: String },
}

impl NodeKind {
    /// Whether the node is a switch or a scale-up switch.
    pub fn is_switch(self) -> bool {
        self != Self::Host
    }
}

impl Fabric {
    /// A fabric of `nodes` and `cables`; cable i becomes links 2i (a to b) and 2i + 1 (b to a).
    ///
    /// # Errors
    /// If two nodes have the same name; if a cable ends at an unknown node or at the node where it begins; if its rate
    /// is zero or above [`MAX_RATE`]; or if it joins a scale-up switch to another switch, or a host to a second
    /// scale-up switch.
    pub fn new(nodes: Vec<Node>, cables: &[Cable]) -> Result<Self, FabricError> {
        let mut names = BTreeSet::new();
        let repeated = nodes.iter().find(|node| !names.insert(node.name.as_str()));
        if let Some(node) = repeated {
            return Err(FabricError::DuplicateNode { name: node.name.clone() });
        }
        let mut links = Vec::with_capacity(2 * cables.len());
        let mut parallel = BTreeMap::new();
        let mut scale_up = scale_up_switches(&nodes);
        for (index, cable) in cables.iter().enumerate() {
            check_cable(index + 1, cable, &nodes)?;
            join_scale_up(index + 1, cable, &nodes, &mut scale_up)?;
            for (from, to) in [(cable.a, cable.b), (cable.b, cable.a)] {
                // Counted by direction: parallel cables may be given from either end.
                let count = parallel.entry((from, to)).or_insert(0_u32);
                *count += 1;
                let name = link_name(&nodes[from.index()].name, &nodes[to.index()].name, *count);
                links.push(Link { name, from, to, rate: cable.rate, delay: cable.delay });
            }
        }
        Ok(Self { nodes, links, scale_up })
    }

    /// The smallest fabric: hosts `left` and `right`, and one directed link named `link`, which is
    /// `LinkId::new(0)`.
    ///
    /// # Errors
    /// If the rate is zero or above [`MAX_RATE`].
    pub fn one_link(rate: Rate, delay: Duration) -> Result<Self, FabricError> {
        let host = |name: &str| Node { name: name.to_owned(), kind: NodeKind::Host };
        let nodes = vec![host("left"), host("right")];
        let (from, to) = (NodeId::new(0), NodeId::new(1));
        check_cable(1, &Cable { a: from, b: to, rate, delay }, &nodes)?;
        let scale_up = scale_up_switches(&nodes);
        let link = Link { name: "link".to_owned(), from, to, rate, delay };
        Ok(Self { nodes, links: vec![link], scale_up })
    }

    /// All nodes, by [`NodeId`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All directed links, by [`LinkId`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The scale-up switch that carries the traffic between two nodes: the one to which both are joined. A scale-up
    /// switch counts as joined to itself.
    ///
    /// # Panics
    /// If either is not a node of this fabric.
    pub fn scale_up_between(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        self.scale_up[a.index()].filter(|_| self.scale_up[a.index()] == self.scale_up[b.index()])
    }

    /// Whether the link begins or ends at a scale-up switch.
    ///
    /// # Panics
    /// If the link is not in the fabric.
    pub fn is_scale_up(&self, link: LinkId) -> bool {
        let link = &self.links[link.index()];
        [link.from, link.to].iter().any(|end| self.nodes[end.index()].kind == NodeKind::ScaleUp)
    }

    /// The directed link of this name, by a linear search.
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        self.links.iter().position(|link| link.name == name).map(LinkId::from_index)
    }
}

fn check_cable(number: usize, cable: &Cable, nodes: &[Node]) -> Result<(), FabricError> {
    let known = nodes.len();
    if let Some(node) = [cable.a, cable.b].into_iter().find(|node| node.index() >= known) {
        return Err(FabricError::UnknownNode { cable: number, node: node.code(), nodes: known });
    }
    if cable.a == cable.b {
        let node = nodes[cable.a.index()].name.clone();
        return Err(FabricError::SelfLink { cable: number, node });
    }
    if cable.rate.is_zero() || cable.rate > MAX_RATE {
        return Err(FabricError::RateOutOfRange { cable: number, rate: cable.rate });
    }
    Ok(())
}

fn scale_up_switches(nodes: &[Node]) -> Vec<Option<NodeId>> {
    let itself = |(index, node): (usize, &Node)| {
        (node.kind == NodeKind::ScaleUp).then(|| NodeId::from_index(index))
    };
    nodes.iter().enumerate().map(itself).collect()
}

fn join_scale_up(
    number: usize,
    cable: &Cable,
    nodes: &[Node],
    scale_up: &mut [Option<NodeId>],
) -> Result<(), FabricError> {
    let node = |id: NodeId| &nodes[id.index()];
    // A plan may give the ends in either order.
    for (switch, host) in [(cable.a, cable.b), (cable.b, cable.a)] {
        if node(switch).kind != NodeKind::ScaleUp {
            continue;
        }
        let (switch_name, host_name) = (node(switch).name.clone(), node(host).name.clone());
        if node(host).kind != NodeKind::Host {
            let (cable, scale_up, node) = (number, switch_name, host_name);
            return Err(FabricError::ScaleUpWithoutHost { cable, scale_up, node });
        }
        // Several cables to one scale-up switch are lanes of one connection.
        if let Some(first) = scale_up[host.index()].replace(switch)
            && first != switch
        {
            let (host, first, second) = (host_name, node(first).name.clone(), switch_name);
            return Err(FabricError::SecondScaleUp { cable: number, host, first, second });
        }
    }
    Ok(())
}

fn link_name(from: &str, to: &str, count: u32) -> String {
    if count == 1 { format!("{from}->{to}") } else { format!("{from}->{to}/{count}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> Vec<Node> {
        names.iter().map(|&name| Node { name: name.to_owned(), kind: NodeKind::Host }).collect()
    }

    fn cable(a: u32, b: u32, gbps: u64) -> Cable {
        let rate = Rate::from_gbps(gbps);
        Cable { a: NodeId::new(a), b: NodeId::new(b), rate, delay: Duration::from_ns(500) }
    }

    #[test]
    fn a_cable_is_two_directed_links_and_parallel_ones_are_numbered() {
        let fabric = Fabric::new(nodes(&["a", "b"]), &[cable(0, 1, 50), cable(1, 0, 25)]).unwrap();
        let names: Vec<_> = fabric.links().iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["a->b", "b->a", "b->a/2", "a->b/2"]);
        assert_eq!(fabric.link_named("a->b/2"), Some(LinkId::new(3)));
        assert_eq!(fabric.links()[3].rate, Rate::from_gbps(25));
    }

    /// Hosts 0 to 2, switch 3, scale-up switches 4 and 5.
    fn with_scale_up(cables: &[(u32, u32)]) -> Result<Fabric, FabricError> {
        let mut all = nodes(&["a", "b", "c", "tor", "nv0", "nv1"]);
        all[3].kind = NodeKind::Switch;
        all[4..].iter_mut().for_each(|node| node.kind = NodeKind::ScaleUp);
        let cables: Vec<_> = cables.iter().map(|&(a, b)| cable(a, b, 50)).collect();
        Fabric::new(all, &cables)
    }

    #[test]
    fn only_hosts_on_the_same_scale_up_switch_communicate_over_one() {
        let cables = [(0, 3), (1, 3), (2, 3), (0, 4), (4, 1), (1, 4), (2, 5)];
        let fabric = with_scale_up(&cables).unwrap();
        let between = |a, b| fabric.scale_up_between(NodeId::new(a), NodeId::new(b));
        assert_eq!(between(0, 1), Some(NodeId::new(4)));
        assert_eq!(between(4, 1), Some(NodeId::new(4)));
        for (a, b) in [(0, 2), (1, 5), (4, 5), (0, 3)] {
            assert_eq!(between(a, b), None);
        }
        let fast =
            (0..fabric.links().len()).filter(|&link| fabric.is_scale_up(LinkId::from_index(link)));
        assert_eq!(fast.collect::<Vec<_>>(), [6, 7, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn a_scale_up_switch_joins_only_hosts_and_a_host_has_at_most_one() {
        assert_eq!(
            with_scale_up(&[(0, 4), (3, 4)]).unwrap_err().to_string(),
            "cable 2 joins scale-up switch \"nv0\" to \"tor\"; it must be a host"
        );
        assert!(with_scale_up(&[(4, 5)]).is_err());
        assert_eq!(
            with_scale_up(&[(0, 4), (5, 0)]).unwrap_err().to_string(),
            "cable 2 joins \"a\" to scale-up switch \"nv1\", but it is joined to \"nv0\"; a host has at most one"
        );
    }

    #[test]
    fn an_invalid_cable_or_node_is_named_with_its_value() {
        let error =
            |cables: &[Cable]| Fabric::new(nodes(&["a", "b"]), cables).unwrap_err().to_string();
        assert_eq!(
            error(&[cable(0, 7, 50)]),
            "cable 1 ends at node 7; there are 2 nodes, counted from 0"
        );
        assert_eq!(
            error(&[cable(0, 1, 50), cable(1, 1, 50)]),
            "cable 2 joins \"b\" to itself; its ends must differ"
        );
        assert_eq!(
            error(&[cable(0, 1, 0)]),
            "cable 1 has a rate of 0 bps; it must be above 0 and at most 1000 Tbps"
        );
        assert_eq!(
            Fabric::new(nodes(&["a", "a"]), &[]).unwrap_err().to_string(),
            "two nodes are named \"a\"; names must be unique"
        );
    }
}
