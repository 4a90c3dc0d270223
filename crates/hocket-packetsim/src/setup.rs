//! The setup of a run: fabric, model, policies and queue pairs; everything but the workload.

use hocket_scenario::{Fabric, NodeId, NodeKind, PathChoice, WindowRule};
use hocket_transport::Policy;

use crate::error::PacketRunError;
use crate::model::{Frames, Model, Notification, PRIORITIES};
use crate::reference::Reference;

/// A queue pair between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// The labels that ECMP hashes to choose the forward and the reverse path, which may differ between flows of the same
    /// hosts.
    pub labels: (u64, u64),
    /// Class of traffic, 0 to 7, of data and acknowledgements.
    pub priority: u8,
    /// Index of its policy in [`Setup::policies`]. Ignored inside a server, between hosts on one scale-up switch.
    pub policy: usize,
    /// The limit on bytes in flight. Ignored if the policy is a static window, and inside a server, where there is no limit.
    pub window: WindowRule,
    /// How its path is chosen.
    pub path: PathChoice,
}

/// Everything that a run simulates except its workload.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Hosts, switches, links.
    pub fabric: &'a Fabric,
    /// The model of hosts and switches.
    pub model: &'a Model,
    /// Congestion controls with their parameters.
    pub policies: &'a [Policy],
    /// Queue pairs.
    pub flows: &'a [FlowSpec],
    /// Groups of queue pairs, by index, that are active together, such as those of a collective. Static windows give each of
    /// these patterns an equal share of every buffer on its paths. Queue pairs in no pattern form one more.
    pub patterns: &'a [Vec<usize>],
    /// The seed of all random streams.
    pub seed: u64,
    /// The default, unless the run repeats one of an HPCC-style simulator.
    pub reference: Reference,
}

/// The policy of flows inside a server: no congestion control; PAUSE frames represent credits.
pub(crate) const INSIDE_SERVERS: Policy = Policy::PfcOnly;

impl FlowSpec {
    /// Checks that flow number `index` has valid ends and a valid priority.
    pub(crate) fn check(&self, index: usize, fabric: &Fabric) -> Result<(), PacketRunError> {
        let nodes = fabric.nodes();
        let name = |node: NodeId| nodes[node.index()].name.clone();
        for end in [self.from, self.to] {
            if nodes.get(end.index()).is_some_and(|node| node.kind.is_switch()) {
                return Err(PacketRunError::NotAHost { flow: index, node: name(end) });
            }
        }
        if self.from == self.to {
            return Err(PacketRunError::ToItself { flow: index, node: name(self.from) });
        }
        if usize::from(self.priority) >= PRIORITIES {
            return Err(PacketRunError::Priority { flow: index, priority: self.priority });
        }
        Ok(())
    }
}

impl Setup<'_> {
    /// The policy of a flow.
    pub(crate) fn policy_of(&self, flow: &FlowSpec) -> &Policy {
        if self.is_inside(flow) { &INSIDE_SERVERS } else { &self.policies[flow.policy] }
    }

    /// Frame sizes of a flow.
    pub(crate) fn frames_of(&self, flow: &FlowSpec) -> Frames {
        if self.is_inside(flow) { self.model.scale_up_frames() } else { self.model.frames }
    }

    /// Whether a flow stays inside a server.
    pub(crate) fn is_inside(&self, flow: &FlowSpec) -> bool {
        self.fabric.scale_up_between(flow.from, flow.to).is_some()
    }

    /// Whether some flow has a policy of this kind.
    pub(crate) fn uses(&self, is_of_kind: impl Fn(&Policy) -> bool) -> bool {
        self.flows.iter().any(|flow| is_of_kind(self.policy_of(flow)))
    }

    /// Frame sizes between servers, without the telemetry and stamps that no flow's policy uses.
    pub(crate) fn frames_in_use(&self) -> Frames {
        let if_used = |bytes: u16, is_of_kind: fn(&Policy) -> bool| {
            if self.uses(is_of_kind) { bytes } else { 0 }
        };
        let frames = self.model.frames;
        Frames {
            stamp: if_used(frames.stamp, |policy| matches!(policy, Policy::Timely(_))),
            hops: if_used(frames.hops, |policy| matches!(policy, Policy::Hpcc(_))),
            load: if_used(frames.load, |policy| matches!(policy, Policy::Pint(_))),
            ..frames
        }
    }

    /// The number of traffic classes in use inside servers, or between them.
    pub(crate) fn classes(&self, inside: bool) -> usize {
        let mut used = [false; PRIORITIES];
        for flow in self.flows.iter().filter(|flow| self.is_inside(flow) == inside) {
            used[usize::from(flow.priority)] = true;
        }
        // Only DCQCN has CNPs, and no flow inside a server has DCQCN.
        let mut policies = self.policies.iter();
        let notifies = !inside && policies.any(|policy| matches!(policy, Policy::Dcqcn(_)));
        if let (Notification::Packets { priority, .. }, true) = (self.model.notification, notifies)
        {
            used[usize::from(priority)] = true;
        }
        used.iter().filter(|&&used| used).count()
    }

    /// The largest size of any packet on the wire.
    pub(crate) fn largest_frame(&self) -> u16 {
        let largest = self.model.frames.largest().max(self.model.frames.pause);
        let has_scale_up = self.fabric.nodes().iter().any(|node| node.kind == NodeKind::ScaleUp);
        if has_scale_up { largest.max(self.model.scale_up_frames().largest()) } else { largest }
    }
}
