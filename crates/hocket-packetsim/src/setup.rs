//! Everything that is simulated, apart from who sends when: fabric, model, policies and queue pairs.

use hocket_scenario::{Fabric, NodeId, NodeKind, PathChoice, WindowRule};
use hocket_transport::Policy;

use crate::error::PacketRunError;
use crate::model::{Frames, Model, Notification, PRIORITIES};
use crate::reference::Reference;

/// A queue pair between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Who sends.
    pub from: NodeId,
    /// Who receives.
    pub to: NodeId,
    /// What tells the flow from others between the same hosts where paths are chosen: forth and back.
    pub labels: (u64, u64),
    /// Class of traffic, 0 to 7, of data and acknowledgements.
    pub priority: u8,
    /// Which of the run's policies governs it. None governs a flow inside a server, between hosts on one scale-up switch.
    pub policy: usize,
    /// How much may be under way; not looked at where the policy is a static window, and inside a server, where that is
    /// unlimited.
    pub window: WindowRule,
    /// Which way its packets take.
    pub path: PathChoice,
}

/// Everything that is simulated, apart from who sends when.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Hosts, switches, links.
    pub fabric: &'a Fabric,
    /// How they work.
    pub model: &'a Model,
    /// Congestion controls with their parameters.
    pub policies: &'a [Policy],
    /// Queue pairs.
    pub flows: &'a [FlowSpec],
    /// Queue pairs, by index, that are active together, such as those of a collective: of each buffer on their ways, the
    /// static windows of each such pattern take an equal part. Queue pairs of none are one more pattern.
    pub patterns: &'a [Vec<usize>],
    /// Every random stream comes from this.
    pub seed: u64,
    /// The default but where runs of an HPCC-style simulator are repeated.
    pub reference: Reference,
}

/// What governs a flow inside a server: nothing but the PAUSE frames that stand for credits.
pub(crate) const INSIDE_SERVERS: Policy = Policy::PfcOnly;

impl FlowSpec {
    /// Whether the flow, which is number `index`, can exist in `fabric`.
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
    /// What governs a flow.
    pub(crate) fn policy_of(&self, flow: &FlowSpec) -> &Policy {
        if self.is_inside(flow) { &INSIDE_SERVERS } else { &self.policies[flow.policy] }
    }

    /// Sizes of a flow's frames.
    pub(crate) fn frames_of(&self, flow: &FlowSpec) -> Frames {
        if self.is_inside(flow) { self.model.scale_up_frames() } else { self.model.frames }
    }

    /// Whether a flow stays inside a server.
    pub(crate) fn is_inside(&self, flow: &FlowSpec) -> bool {
        self.fabric.scale_up_between(flow.from, flow.to).is_some()
    }

    /// Whether some flow is under a policy of this kind.
    pub(crate) fn uses(&self, is_of_kind: impl Fn(&Policy) -> bool) -> bool {
        self.flows.iter().any(|flow| is_of_kind(self.policy_of(flow)))
    }

    /// Sizes of frames between servers, without what only other policies than those of the flows add to a packet.
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

    /// How many classes of traffic there are inside servers, or between them.
    pub(crate) fn classes(&self, inside: bool) -> usize {
        let mut used = [false; PRIORITIES];
        for flow in self.flows.iter().filter(|flow| self.is_inside(flow) == inside) {
            used[usize::from(flow.priority)] = true;
        }
        let mut policies = self.policies.iter();
        let notifies = !inside && policies.any(|policy| matches!(policy, Policy::Dcqcn(_)));
        if let (Notification::Packets { priority, .. }, true) = (self.model.notification, notifies)
        {
            used[usize::from(priority)] = true;
        }
        used.iter().filter(|&&used| used).count()
    }

    /// The most bytes that any packet has on the wire.
    pub(crate) fn largest_frame(&self) -> u16 {
        let largest = self.model.frames.largest().max(self.model.frames.pause);
        let has_scale_up = self.fabric.nodes().iter().any(|node| node.kind == NodeKind::ScaleUp);
        if has_scale_up { largest.max(self.model.scale_up_frames().largest()) } else { largest }
    }
}
