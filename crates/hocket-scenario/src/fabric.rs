//! Hosts, switches and the directed links between them: what a fabric is made of. Which links a
//! flow takes is left to `routing`.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::{Duration, Rate};
use thiserror::Error;

use crate::{LinkId, NodeId};

/// The fastest link, and the fastest phase of a job: 1 Pbps. It keeps every product of a rate, a
/// weight and a number of flows inside 128 bits.
pub const MAX_RATE: Rate = Rate::from_gbps(1_000_000);

/// What a node does with a packet that is not for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A server, or a GPU with a NIC of its own: flows start and end here, none passes through.
    Host,
    /// Passes flows on.
    Switch,
    /// Joins the GPUs of one server (NVSwitch): passes on what goes from one of its hosts to another, all of that and nothing
    /// else.
    ScaleUp,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique in its fabric.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
}

/// What a plan calls a link: `rate` in each of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// One end.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// What each direction carries.
    pub rate: Rate,
    /// Propagation, one way.
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
    /// What the link carries at most.
    pub rate: Rate,
    /// Propagation.
    pub delay: Duration,
}

/// Nodes and directed links; every link joins two different nodes and has a rate above zero. A scale-up switch is joined
/// to hosts alone, and a host to one scale-up switch at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// By node: the scale-up switch that it is, or is joined to.
    scale_up: Vec<Option<NodeId>>,
}

/// Why nodes and cables are not a fabric. Cables are counted from 1 in messages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum FabricError {
    #[error("node {name:?} is named twice; a name is unique")]
    DuplicateNode { name: String },
    #[error("cable {cable} ends at node {node}; there are {nodes}, counted from 0")]
    UnknownNode { cable: usize, node: u32, nodes: usize },
    #[error("cable {cable} joins {node:?} to itself; its ends must differ")]
    SelfLink { cable: usize, node: String },
    #[error("cable {cable} has a rate of {rate}; it must be above 0 and at most {MAX_RATE}")]
    RateOutOfRange { cable: usize, rate: Rate },
    #[error("cable {cable} joins scale-up switch {scale_up:?} to {node:?}; it must be a host")]
    ScaleUpWithoutHost { cable: usize, scale_up: String, node: String },
    #[error(
        "cable {cable} joins {host:?} to scale-up switch {second:?} besides {first:?}; it can have one"
    )]
    SecondScaleUp { cable: usize, host: String, first: String, second: String },
}

impl NodeKind {
    /// Whether the node is a switch, of whichever kind.
    pub fn is_switch(self) -> bool {
        self != Self::Host
    }
}

impl Fabric {
    /// A fabric of `nodes` and `cables`; cable i becomes links 2i (a to b) and 2i + 1 (b to a).
    ///
    /// # Errors
    /// If a name stands twice, a cable ends at no node or where it began, its rate is zero or above [`MAX_RATE`], or
    /// it joins a scale-up switch to another switch or a host to a second scale-up switch.
    pub fn new(nodes: Vec<Node>, cables: &[Cable]) -> Result<Self, FabricError> {
        let mut names = BTreeSet::new();
        if let Some(twice) = nodes.iter().find(|node| !names.insert(node.name.as_str())) {
            return Err(FabricError::DuplicateNode { name: twice.name.clone() });
        }
        let mut links = Vec::with_capacity(2 * cables.len());
        let mut parallel = BTreeMap::new();
        let mut scale_up = own_scale_up(&nodes);
        for (index, cable) in cables.iter().enumerate() {
            check_cable(index + 1, cable, &nodes)?;
            join_scale_up(index + 1, cable, &nodes, &mut scale_up)?;
            for (from, to) in [(cable.a, cable.b), (cable.b, cable.a)] {
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
        let scale_up = own_scale_up(&nodes);
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

    /// The scale-up switch over which traffic between two hosts goes: the one that both are joined to. A scale-up switch
    /// counts as joined to itself.
    ///
    /// # Panics
    /// If either is not a node of this fabric.
    pub fn scale_up_between(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        self.scale_up[a.index()].filter(|_| self.scale_up[a.index()] == self.scale_up[b.index()])
    }

    /// Whether the link leads into a scale-up switch, or out of one.
    ///
    /// # Panics
    /// If the link is not in the fabric.
    pub fn is_scale_up(&self, link: LinkId) -> bool {
        let link = &self.links[link.index()];
        [link.from, link.to].iter().any(|end| self.nodes[end.index()].kind == NodeKind::ScaleUp)
    }

    /// The directed link of this name, found by looking at each.
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

fn own_scale_up(nodes: &[Node]) -> Vec<Option<NodeId>> {
    let own = |(index, node): (usize, &Node)| {
        (node.kind == NodeKind::ScaleUp).then(|| NodeId::from_index(index))
    };
    nodes.iter().enumerate().map(own).collect()
}

fn join_scale_up(
    number: usize,
    cable: &Cable,
    nodes: &[Node],
    scale_up: &mut [Option<NodeId>],
) -> Result<(), FabricError> {
    let node = |id: NodeId| &nodes[id.index()];
    for (switch, host) in [(cable.a, cable.b), (cable.b, cable.a)] {
        if node(switch).kind != NodeKind::ScaleUp {
            continue;
        }
        let (name, other) = (node(switch).name.clone(), node(host).name.clone());
        if node(host).kind != NodeKind::Host {
            let (cable, scale_up, node) = (number, name, other);
            return Err(FabricError::ScaleUpWithoutHost { cable, scale_up, node });
        }
        if let Some(first) = scale_up[host.index()].replace(switch)
            && first != switch
        {
            let (host, first, second) = (other, node(first).name.clone(), name);
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
    fn hosts_on_one_scale_up_switch_talk_over_it_and_others_over_none() {
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
    fn a_scale_up_switch_joins_hosts_alone_and_a_host_has_one_at_most() {
        assert_eq!(
            with_scale_up(&[(0, 4), (3, 4)]).unwrap_err().to_string(),
            "cable 2 joins scale-up switch \"nv0\" to \"tor\"; it must be a host"
        );
        assert!(with_scale_up(&[(4, 5)]).is_err());
        assert_eq!(
            with_scale_up(&[(0, 4), (5, 0)]).unwrap_err().to_string(),
            "cable 2 joins \"a\" to scale-up switch \"nv1\" besides \"nv0\"; it can have one"
        );
    }

    #[test]
    fn what_is_wrong_with_a_cable_is_named_with_its_value() {
        let error =
            |cables: &[Cable]| Fabric::new(nodes(&["a", "b"]), cables).unwrap_err().to_string();
        assert_eq!(
            error(&[cable(0, 7, 50)]),
            "cable 1 ends at node 7; there are 2, counted from 0"
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
            "node \"a\" is named twice; a name is unique"
        );
    }
}
