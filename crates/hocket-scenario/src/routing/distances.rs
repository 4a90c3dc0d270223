//! The number of hops from each switch to a destination, computed on first use and cached. Destinations behind the same
//! switches share one computation, since there are far fewer racks than hosts.

use std::collections::{BTreeMap, VecDeque};

use crate::{Fabric, LinkId, NodeId, NodeKind};

const UNREACHED: u32 = u32::MAX;
const NO_SWITCH: usize = usize::MAX;

/// Hops from switches to destinations over switches; scale-up switches do not count as such.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    /// By node: its index among the switches, or [`NO_SWITCH`].
    places: Vec<usize>,
    switches: usize,
    /// By destination: its group, whose members have the same last switches.
    group_of: Vec<Option<usize>>,
    /// By the last switches before a destination, in ascending order: its group.
    groups: BTreeMap<Vec<NodeId>, usize>,
    /// By group and index of a switch: hops to the nearest of the last switches, or [`UNREACHED`].
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

    /// Empties the cache, because a link has failed or come back.
    pub(super) fn forget(&mut self) {
        // Any link can be on a shortest path to any destination: no entry is known to be still valid.
        self.group_of.fill(None);
        self.groups.clear();
        self.hops.clear();
    }

    /// Computes the distances to `to`, as [`Self::to`] requires; `links_into` are the usable links that end at a node.
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
        // Hosts with the same switches are one group, whatever the order or number of their cables.
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

    /// The group of a destination that has been learnt: destinations with the same distances from all switches.
    pub(super) fn group(&self, to: NodeId) -> usize {
        self.group_of[to.index()].expect("distances are learnt before they are used")
    }

    /// Hops from a switch to `to`, which has been learnt; `None` for other nodes and for switches from which no path leads
    /// there.
    pub(super) fn to(&self, to: NodeId) -> impl Fn(NodeId) -> Option<u32> + Clone {
        let hops = &self.hops[self.group(to)];
        move |node| {
            // `NO_SWITCH` is no index, so `get` returns nothing for hosts and scale-up switches.
            let hops = hops.get(self.places[node.index()]).filter(|&&hops| hops != UNREACHED)?;
            // The hop from the last switch to the destination.
            Some(hops + 1)
        }
    }

    // Breadth first from the destination, and therefore against the direction of the links.
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
