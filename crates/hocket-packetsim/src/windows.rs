//! Windows that follow from the pattern of the flows alone: as large as they can be without a PAUSE frame.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::Rate;
use hocket_transport::congestion::static_window::{self, Parameters};
use hocket_transport::{Path, Policy};

use crate::error::PacketRunError;
use crate::parts::buffer::{CrowdBound, SharedBuffer};
use crate::setup::Setup;

/// Which flows with a static window cross what. Flows under other controls are not counted, nor the ways that flows take
/// while links are down: with either, PAUSE frames may come.
pub(crate) struct Crowd {
    /// By flow: the patterns that it belongs to.
    patterns_of: Vec<Vec<usize>>,
    /// By switch, then pattern: flows whose packets or answers it passes on.
    through: BTreeMap<usize, Vec<u64>>,
    /// By link that leads into a switch.
    over: BTreeMap<u32, Crossing>,
}

/// What crosses a link.
#[derive(Clone)]
struct Crossing {
    to: usize,
    all: Load,
    by_pattern: Vec<Load>,
}

/// Flows that cross a link.
#[derive(Clone, Copy, Default)]
struct Load {
    /// With their packets.
    sending: u64,
    /// With their answers alone.
    answering: u64,
}

/// The links of a flow on all its ways.
pub(crate) struct Footprint<'l> {
    pub(crate) forth: &'l [u32],
    pub(crate) back: &'l [u32],
}

/// How much of each switch's buffer a flow may fill.
pub(crate) struct Shares {
    crowd: Crowd,
    /// By switch.
    switches: BTreeMap<usize, SwitchShares>,
}

struct SwitchShares {
    /// By pattern: what each of its flows weighs.
    weights: Vec<u64>,
    /// What a flow of such weights may fill without a PAUSE frame to any port.
    bound: CrowdBound,
}

/// The weight of a pattern at the port that most of its flows enter by; its flows divide it.
const PATTERN_WEIGHT: u64 = 1 << 32;

impl Crowd {
    /// Of the flows in `ways`, by index.
    pub(crate) fn new<'l>(
        setup: &Setup<'_>,
        ways: impl Iterator<Item = (usize, Footprint<'l>)>,
    ) -> Self {
        let nodes = setup.fabric.nodes();
        let patterns = setup.patterns.len() + 1;
        let mut its = Self {
            patterns_of: patterns_of(setup),
            through: BTreeMap::new(),
            over: BTreeMap::new(),
        };
        for (flow, Footprint { forth, back }) in
            ways.filter(|&(flow, _)| is_to_be_found(setup, flow))
        {
            let forth: BTreeSet<u32> = forth.iter().copied().collect();
            let links: BTreeSet<u32> = back.iter().copied().chain(forth.iter().copied()).collect();
            let mut switches = BTreeSet::new();
            for link in links {
                let to = setup.fabric.links()[link as usize].to.index();
                if nodes[to].kind.is_switch() {
                    let crossing =
                        its.over.entry(link).or_insert_with(|| Crossing::new(to, patterns));
                    crossing.add(&its.patterns_of[flow], forth.contains(&link));
                    switches.insert(to);
                }
            }
            for switch in switches {
                let through = its.through.entry(switch).or_insert_with(|| vec![0; patterns]);
                its.patterns_of[flow].iter().for_each(|&pattern| through[pattern] += 1);
            }
        }
        its
    }

    /// What each flow may fill of `buffers`, by switch; `ingress` are the ports of links in the switches to which they
    /// lead.
    ///
    /// At a switch all patterns may fill as much by the port that most of their flows enter by, and all flows of a
    /// pattern as much. A flow of several patterns may fill what each of them leaves it.
    pub(crate) fn shares(
        self,
        setup: &Setup<'_>,
        buffers: &[SharedBuffer],
        ingress: impl Fn(u32) -> u16,
    ) -> Shares {
        let mut entering: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (&link, crossing) in &self.over {
            entering.entry(crossing.to).or_default().push(link);
        }
        let mut switches = BTreeMap::new();
        for (switch, links) in entering {
            let flows = |link: &u32, pattern: usize| {
                flows_worth(setup, self.over[link].by_pattern[pattern])
            };
            let through = &self.through[&switch];
            let weight = |pattern| {
                let most = links.iter().map(|link| flows(link, pattern)).max().unwrap_or(0);
                PATTERN_WEIGHT.checked_div(most).unwrap_or(0)
            };
            let weights: Vec<u64> = (0..through.len()).map(weight).collect();
            let weigh = |flows: &dyn Fn(usize) -> u64| -> u128 {
                let each = weights.iter().enumerate();
                each.map(|(pattern, &weight)| u128::from(weight) * u128::from(flows(pattern))).sum()
            };
            let all = weigh(&|pattern| through[pattern]);
            let bound = |link: &u32| {
                let here = weigh(&|pattern| flows(link, pattern));
                buffers[switch].crowd_bound(ingress(*link), here, all)
            };
            let bound = links.iter().map(bound).reduce(CrowdBound::min);
            let bound = bound.expect("a link leads into each of these switches");
            switches.insert(switch, SwitchShares { weights, bound });
        }
        Shares { crowd: self, switches }
    }
}

impl Crossing {
    fn new(to: usize, patterns: usize) -> Self {
        Self { to, all: Load::default(), by_pattern: vec![Load::default(); patterns] }
    }

    fn add(&mut self, patterns: &[usize], is_sending: bool) {
        self.all.add(is_sending);
        patterns.iter().for_each(|&pattern| self.by_pattern[pattern].add(is_sending));
    }
}

impl Load {
    fn add(&mut self, is_sending: bool) {
        self.sending += u64::from(is_sending);
        self.answering += u64::from(!is_sending);
    }
}

impl Shares {
    /// The window of a flow under such a policy, with this path and these links: the given one, or that of the switch on
    /// its way which allows it least.
    ///
    /// # Errors
    /// If no window is small enough, or so small that the receiver would not acknowledge any of it.
    pub(crate) fn window(
        &self,
        setup: &Setup<'_>,
        flow: usize,
        path: &Path,
        links: &Footprint<'_>,
    ) -> Result<Option<u64>, PacketRunError> {
        match setup.policy_of(&setup.flows[flow]) {
            Policy::StaticWindow(Parameters { window: None }) => {}
            Policy::StaticWindow(Parameters { window }) => return Ok(*window),
            _ => return Ok(None),
        }
        let (payload, wire) = packet(setup);
        let rate = |&link: &u32| setup.fabric.links()[link as usize].rate;
        let slowest = links.forth.iter().map(rate).min().unwrap_or(Rate::ZERO);
        let mut least = u64::MAX;
        for link in links.forth.iter().chain(links.back) {
            let Some(&Crossing { to, all, .. }) = self.crowd.over.get(link) else { continue };
            let Load { sending, answering } = all;
            let link = &setup.fabric.links()[*link as usize].name;
            let SwitchShares { weights, bound } = &self.switches[&to];
            let weight = self.crowd.patterns_of[flow].iter().map(|&pattern| weights[pattern]).sum();
            let flows = flows_worth(setup, all);
            // As if all flows on the link were like this one.
            let xoff = bound.of(weight).saturating_mul(flows);
            let window = static_window::window(path.base_rtt, slowest, flows, xoff, payload, wire);
            let window = window.map_err(|error| PacketRunError::NoWindow {
                link: link.clone(),
                sending,
                answering,
                error,
            })?;
            let packets = u64::from(setup.model.answering.ack_every);
            // With the last packet that it lets out, under way are so many at least.
            if window.div_ceil(payload) < packets {
                let (link, flows) = (link.clone(), sending + answering);
                return Err(PacketRunError::UnansweredWindow { link, flows, window, packets });
            }
            least = least.min(window);
        }
        Ok(Some(least))
    }
}

// By flow; those in no pattern are in the last one.
fn patterns_of(setup: &Setup<'_>) -> Vec<Vec<usize>> {
    let mut its = vec![Vec::new(); setup.flows.len()];
    for (pattern, flows) in setup.patterns.iter().enumerate() {
        flows.iter().for_each(|&flow| its[flow].push(pattern));
    }
    for patterns in its.iter_mut().filter(|patterns| patterns.is_empty()) {
        patterns.push(setup.patterns.len());
    }
    its
}

/// Data of a full packet, and its bytes on the wire.
fn packet(setup: &Setup<'_>) -> (u64, u64) {
    let frames = &setup.model.frames;
    (u64::from(frames.mtu), u64::from(frames.mtu + frames.data_header))
}

// A packet is under way as itself or as its answer; flows that only answer count by its part of a packet.
fn flows_worth(setup: &Setup<'_>, Load { sending, answering }: Load) -> u64 {
    let (frames, (_, wire)) = (&setup.model.frames, packet(setup));
    let answer = u64::from(frames.ack.max(frames.minimum)).min(wire);
    sending + (answering * answer).div_ceil(wire)
}

fn is_to_be_found(setup: &Setup<'_>, flow: usize) -> bool {
    let policy = setup.policy_of(&setup.flows[flow]);
    matches!(policy, Policy::StaticWindow(Parameters { window: None }))
}
