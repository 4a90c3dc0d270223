//! Windows that follow from the pattern of the flows alone: as large as they can be without a PAUSE frame.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::Rate;
use hocket_transport::congestion::static_window::{self, Parameters};
use hocket_transport::{Path, Policy};

use crate::RunError;
use crate::buffer::SharedBuffer;
use crate::build::Setup;

/// Which flows with a static window, all of which may be active at once, cross what. Flows under other controls are not
/// counted, nor the ways that flows take while links are down: with either, PAUSE frames may come.
pub(crate) struct Crowd {
    /// By switch: flows whose packets or answers it passes on.
    through: Vec<u64>,
    /// By link that leads into a switch.
    over: BTreeMap<u32, Load>,
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

impl Crowd {
    /// Of the flows in `ways`, by index.
    pub(crate) fn new<'l>(
        setup: &Setup<'_>,
        ways: impl Iterator<Item = (usize, Footprint<'l>)>,
    ) -> Self {
        let nodes = setup.fabric.nodes();
        let mut its = Self { through: vec![0; nodes.len()], over: BTreeMap::new() };
        for (_, Footprint { forth, back }) in ways.filter(|&(flow, _)| is_to_be_found(setup, flow))
        {
            let forth: BTreeSet<u32> = forth.iter().copied().collect();
            let links: BTreeSet<u32> = back.iter().copied().chain(forth.iter().copied()).collect();
            let mut switches = BTreeSet::new();
            for link in links {
                let to = setup.fabric.links()[link as usize].to.index();
                if nodes[to].kind.is_switch() {
                    let load = its.over.entry(link).or_default();
                    load.sending += u64::from(forth.contains(&link));
                    load.answering += u64::from(!forth.contains(&link));
                    switches.insert(to);
                }
            }
            switches.into_iter().for_each(|switch| its.through[switch] += 1);
        }
        its
    }

    /// The window of a flow under such a policy, with this path and these links: the given one, or that of the link on
    /// its way which allows it least. `ingress` are the ports of links in the switches to which they lead.
    ///
    /// # Errors
    /// If no window is small enough, or so small that the receiver would not acknowledge any of it.
    pub(crate) fn window(
        &self,
        setup: &Setup<'_>,
        flow: usize,
        path: &Path,
        links: &Footprint<'_>,
        buffers: &[SharedBuffer],
        ingress: impl Fn(u32) -> u16,
    ) -> Result<Option<u64>, RunError> {
        match setup.policy_of(&setup.flows[flow]) {
            Policy::StaticWindow(Parameters { window: None }) => {}
            Policy::StaticWindow(Parameters { window }) => return Ok(*window),
            _ => return Ok(None),
        }
        let frames = &setup.model.frames;
        let (payload, wire) = (u64::from(frames.mtu), u64::from(frames.mtu + frames.data_header));
        let answer = u64::from(frames.ack.max(frames.minimum)).min(wire);
        let rate = |&link: &u32| setup.fabric.links()[link as usize].rate;
        let slowest = links.forth.iter().map(rate).min().unwrap_or(Rate::ZERO);
        let mut least = u64::MAX;
        for link in links.forth.iter().chain(links.back) {
            let Some(&Load { sending, answering }) = self.over.get(link) else { continue };
            let fabric_link = &setup.fabric.links()[*link as usize];
            let (link_name, to) = (&fabric_link.name, fabric_link.to.index());
            // A packet is under way as itself or as its answer; flows that only answer count by its part of a packet.
            let flows = sending + (answering * answer).div_ceil(wire);
            let xoff = buffers[to].crowded_xoff(ingress(*link), flows, self.through[to]);
            let window = static_window::window(path.base_rtt, slowest, flows, xoff, payload, wire);
            let window = window.map_err(|error| RunError::NoWindow {
                link: link_name.clone(),
                sending,
                answering,
                error,
            })?;
            let packets = u64::from(setup.model.answering.ack_every);
            if window < packets * payload {
                let (link, flows) = (link_name.clone(), sending + answering);
                return Err(RunError::UnansweredWindow { link, flows, window, packets });
            }
            least = least.min(window);
        }
        Ok(Some(least))
    }
}

fn is_to_be_found(setup: &Setup<'_>, flow: usize) -> bool {
    let policy = setup.policy_of(&setup.flows[flow]);
    matches!(policy, Policy::StaticWindow(Parameters { window: None }))
}
