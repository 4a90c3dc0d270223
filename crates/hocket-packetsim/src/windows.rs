//! Static windows derived from the traffic pattern alone: as large as possible without causing a PAUSE frame.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::Rate;
use hocket_transport::congestion::static_window::{self, Parameters};
use hocket_transport::{Path, Policy};

use crate::error::PacketRunError;
use crate::parts::buffer::{CrowdBound, SharedBuffer};
use crate::setup::Setup;

/// The flows with a static window on each link and switch. Flows under other controls are not counted, nor the paths that
/// flows take while links are down: both may cause PAUSE frames.
pub(crate) struct Crowd {
    /// By flow: the patterns that it belongs to.
    patterns_of: Vec<Vec<usize>>,
    /// By switch, then pattern: the number of flows whose packets or acknowledgements it forwards.
    through: BTreeMap<usize, Vec<u64>>,
    /// By link that leads into a switch.
    over: BTreeMap<u32, Crossing>,
}

/// The flows on a link that leads into a switch.
#[derive(Clone)]
struct Crossing {
    to: usize,
    all: Load,
    by_pattern: Vec<Load>,
}

/// Numbers of flows on a link.
#[derive(Clone, Copy, Default)]
struct Load {
    /// Flows with their data.
    sending: u64,
    /// Flows with their acknowledgements alone.
    answering: u64,
}

/// All links of a flow's forward paths and of its reverse path.
pub(crate) struct Footprint<'l> {
    pub(crate) forward: &'l [u32],
    pub(crate) reverse: &'l [u32],
}

/// The part of each switch's buffer that a flow may fill.
pub(crate) struct Shares {
    crowd: Crowd,
    /// By switch.
    switches: BTreeMap<usize, SwitchShares>,
}

struct SwitchShares {
    /// By pattern: the weight of each of its flows.
    weights: Vec<u64>,
    /// How much a flow may fill, by its weight, without a PAUSE frame to any port.
    bound: CrowdBound,
}

/// The weight of a pattern at the port by which most of its flows enter, divided among these flows: large enough that
/// rounding the quotient down loses less than a millionth even for thousands of flows.
const PATTERN_WEIGHT: u64 = 1 << 32;

impl Crowd {
    /// Counts the flows in `footprints`, which has the index of each.
    pub(crate) fn new<'l>(
        setup: &Setup<'_>,
        footprints: impl Iterator<Item = (usize, Footprint<'l>)>,
    ) -> Self {
        let nodes = setup.fabric.nodes();
        let patterns = setup.patterns.len() + 1;
        let mut crowd = Self {
            patterns_of: patterns_of(setup),
            through: BTreeMap::new(),
            over: BTreeMap::new(),
        };
        for (flow, Footprint { forward, reverse }) in
            footprints.filter(|&(flow, _)| derives_window(setup, flow))
        {
            // Sets, because the paths of a sprayed flow share links, and each link and switch counts a flow once.
            let forward: BTreeSet<u32> = forward.iter().copied().collect();
            let links: BTreeSet<u32> =
                reverse.iter().copied().chain(forward.iter().copied()).collect();
            let mut switches = BTreeSet::new();
            for link in links {
                let to = setup.fabric.links()[link as usize].to.index();
                if nodes[to].kind.is_switch() {
                    let crossing =
                        crowd.over.entry(link).or_insert_with(|| Crossing::new(to, patterns));
                    crossing.add(&crowd.patterns_of[flow], forward.contains(&link));
                    switches.insert(to);
                }
            }
            for switch in switches {
                let through = crowd.through.entry(switch).or_insert_with(|| vec![0; patterns]);
                crowd.patterns_of[flow].iter().for_each(|&pattern| through[pattern] += 1);
            }
        }
        crowd
    }

    /// The share of each switch's buffer that flows may fill; `ingress` returns the ingress port of a link at its switch.
    ///
    /// At a switch, every pattern gets the same share at the port by which most of its flows enter, and all flows of a
    /// pattern get equal parts of it. A flow in several patterns gets the sum of its parts.
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
            // The port that would pause first decides for the whole switch.
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
    /// The window of a flow with this path and these links: the window of its policy, if that gives one, or the smallest
    /// that the switches on its paths allow. `None` for other policies.
    ///
    /// # Errors
    /// If no window is small enough, or if it would be so small that the receiver would never acknowledge it.
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
        let slowest = links.forward.iter().map(rate).min().unwrap_or(Rate::ZERO);
        let mut least = u64::MAX;
        for link in links.forward.iter().chain(links.reverse) {
            // Links into hosts have no entry: hosts send no PAUSE frames.
            let Some(&Crossing { to, all, .. }) = self.crowd.over.get(link) else { continue };
            let Load { sending, answering } = all;
            let link = &setup.fabric.links()[*link as usize].name;
            let SwitchShares { weights, bound } = &self.switches[&to];
            let weight = self.crowd.patterns_of[flow].iter().map(|&pattern| weights[pattern]).sum();
            let flows = flows_worth(setup, all);
            // The bound assumes that all flows on the link have the weight of this one.
            let xoff = bound.of(weight).saturating_mul(flows);
            let window = static_window::window(path.base_rtt, slowest, flows, xoff, payload, wire);
            let window = window.map_err(|error| PacketRunError::NoWindow {
                link: link.clone(),
                sending,
                answering,
                error,
            })?;
            let packets = u64::from(setup.model.answering.ack_every);
            // A sender with a full window has at least this many packets in flight.
            if window.div_ceil(payload) < packets {
                let (link, flows) = (link.clone(), sending + answering);
                return Err(PacketRunError::UnansweredWindow { link, flows, window, packets });
            }
            least = least.min(window);
        }
        Ok(Some(least))
    }
}

// The patterns of each flow. Flows without a pattern form one more, the last.
fn patterns_of(setup: &Setup<'_>) -> Vec<Vec<usize>> {
    let mut patterns_of = vec![Vec::new(); setup.flows.len()];
    for (pattern, flows) in setup.patterns.iter().enumerate() {
        flows.iter().for_each(|&flow| patterns_of[flow].push(pattern));
    }
    for patterns in patterns_of.iter_mut().filter(|patterns| patterns.is_empty()) {
        patterns.push(setup.patterns.len());
    }
    patterns_of
}

/// Data of a full packet, and its bytes on the wire.
fn packet(setup: &Setup<'_>) -> (u64, u64) {
    let frames = &setup.model.frames;
    (u64::from(frames.mtu), u64::from(frames.mtu + frames.data_header))
}

// The equivalent number of flows that send data. Of each packet in flight, either the data or its acknowledgement is on the
// network, so a flow whose acknowledgements alone cross the link counts by the ratio of their sizes.
fn flows_worth(setup: &Setup<'_>, Load { sending, answering }: Load) -> u64 {
    let (frames, (_, wire)) = (&setup.model.frames, packet(setup));
    let answer = u64::from(frames.ack.max(frames.minimum)).min(wire);
    sending + (answering * answer).div_ceil(wire)
}

// Whether the flow has a static window whose size its policy leaves open.
fn derives_window(setup: &Setup<'_>, flow: usize) -> bool {
    let policy = setup.policy_of(&setup.flows[flow]);
    matches!(policy, Policy::StaticWindow(Parameters { window: None }))
}
