//! How many hops switches are from a destination, learnt when first asked for and kept. Destinations behind the same
//! switches share what is learnt: racks are far fewer than hosts.

use std::collections::{BTreeMap, VecDeque};

use crate::{Fabric, LinkId, NodeId, NodeKind};

const UNREACHED: u32 = u32::MAX;
const NO_SWITCH: usize = usize::MAX;

/// Hops from switches to destinations. Only switches are passed, and none inside a server.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    /// By node: its place among the switches, or [`NO_SWITCH`].
    places: Vec<usize>,
    switches: usize,
    /// By destination: its group.
    group_of: Vec<Option<usize>>,
    /// By the last switches before a destination, in ascending order: its group.
    groups: BTreeMap<Vec<NodeId>, usize>,
    /// By group and place of a switch: hops to the nearest of the last switches, or [`UNREACHED`].
    hops: Vec<Vec<u32>>,
}

impl Distances {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut switches = 0;
        let mut place = |kind: NodeKind| {
            if kind != NodeKind::Switch {
                return NO_SWITCH;
            }
            switches += 1;
            switches - 1
        };
        let places = fabric.nodes().iter().map(|node| place(node.kind)).collect();
        let group_of = vec![None; fabric.nodes().len()];
        Self { places, switches, group_of, groups: BTreeMap::new(), hops: Vec::new() }
    }

    /// Forgets all that was learnt: links have failed or come back.
    pub(super) fn forget(&mut self) {
        self.group_of.fill(None);
        self.groups.clear();
        self.hops.clear();
    }

    /// Makes [`Self::to`] known for `to`; `links_into` are the links that lead into a node and can be used.
    pub(super) fn learn<Links: Iterator<Item = LinkId>>(
        &mut self,
        to: NodeId,
        fabric: &Fabric,
        links_into: impl Fn(NodeId) -> Links,
    ) {
        if self.group_of[to.index()].is_some() {
            return;
        }
        let before = |node| links_into(node).map(|link| fabric.links()[link.index()].from);
        let mut last: Vec<NodeId> = before(to).filter(|&node| self.is_switch(node)).collect();
        last.sort_unstable();
        last.dedup();
        let known = self.groups.get(&last).copied();
        let group = known.unwrap_or_else(|| {
            let hops = self.hops_to(&last, before);
            self.hops.push(hops);
            self.groups.insert(last, self.hops.len() - 1);
            self.hops.len() - 1
        });
        self.group_of[to.index()] = Some(group);
    }

    /// Hops from each node to `to`, which has been learnt; `None` for those that are not to be passed or from
    /// which no way leads there.
    pub(super) fn to(&self, to: NodeId) -> impl Fn(NodeId) -> Option<u32> + Clone {
        let group = self.group_of[to.index()].expect("distances are learnt before they are used");
        let hops = &self.hops[group];
        move |node| {
            let hops = hops.get(self.places[node.index()]).filter(|&&hops| hops != UNREACHED)?;
            Some(hops + 1)
        }
    }

    // Breadth first, against the direction of the links.
    fn hops_to<Nodes: Iterator<Item = NodeId>>(
        &self,
        last: &[NodeId],
        before: impl Fn(NodeId) -> Nodes,
    ) -> Vec<u32> {
        let mut hops = vec![UNREACHED; self.switches];
        let mut frontier = VecDeque::with_capacity(self.switches);
        for &switch in last {
            hops[self.places[switch.index()]] = 0;
            frontier.push_back(switch);
        }
        while let Some(switch) = frontier.pop_front() {
            let distance = hops[self.places[switch.index()]] + 1;
            for node in before(switch) {
                if let Some(known) = hops.get_mut(self.places[node.index()])
                    && *known == UNREACHED
                {
                    *known = distance;
                    frontier.push_back(node);
                }
            }
        }
        hops
    }

    fn is_switch(&self, node: NodeId) -> bool {
        self.places[node.index()] != NO_SWITCH
    }
}
