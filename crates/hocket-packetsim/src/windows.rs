//! Windows that follow from the pattern of the flows alone: as large as they can be without a PAUSE frame.

use std::collections::{BTreeMap, BTreeSet};

use hocket_des::Rate;
use hocket_scenario::NodeKind;
use hocket_transport::congestion::static_window::{self, Parameters};
use hocket_transport::{Path, Policy};

use crate::RunError;
use crate::buffer::SharedBuffer;
use crate::build::Setup;

/// How many flows with a static window, all of which may be active at once, cross what.
pub(crate) struct Crowd {
    /// By switch.
    through: Vec<u64>,
    /// By link that leads into a switch.
    over: BTreeMap<u32, u64>,
}

impl Crowd {
    /// Of the flows in `ways`, by index: the links of all their ways, forth and back. A packet is under way as itself
    /// or as its acknowledgement, so that a flow counts once for each link that it crosses with either.
    pub(crate) fn new<'l>(
        setup: &Setup<'_>,
        ways: impl Iterator<Item = (usize, &'l [u32])>,
    ) -> Self {
        let nodes = setup.fabric.nodes();
        let (mut through, mut over) = (vec![0; nodes.len()], BTreeMap::new());
        for (_, links) in ways.filter(|&(flow, _)| is_to_be_found(setup, flow)) {
            let links: BTreeSet<u32> = links.iter().copied().collect();
            let mut switches = BTreeSet::new();
            for link in links {
                let to = setup.fabric.links()[link as usize].to.index();
                if nodes[to].kind == NodeKind::Switch {
                    *over.entry(link).or_default() += 1;
                    switches.insert(to);
                }
            }
            switches.into_iter().for_each(|switch| through[switch] += 1);
        }
        Self { through, over }
    }

    /// The window of a flow under such a policy, with this path and these links, forth and back: the given one, or that of
    /// the link on its way which allows it least. `ingress` are the ports of links in the switches to which they lead.
    ///
    /// # Errors
    /// If no window is small enough, or so small that the receiver would not acknowledge any of it.
    pub(crate) fn window(
        &self,
        setup: &Setup<'_>,
        flow: usize,
        path: &Path,
        links: &[u32],
        buffers: &[SharedBuffer],
        ingress: impl Fn(u32) -> u16,
    ) -> Result<Option<u64>, RunError> {
        match &setup.policies[setup.flows[flow].policy] {
            Policy::StaticWindow(Parameters { window: None }) => {}
            Policy::StaticWindow(Parameters { window }) => return Ok(*window),
            _ => return Ok(None),
        }
        let frames = &setup.model.frames;
        let (payload, wire) = (u64::from(frames.mtu), u64::from(frames.mtu + frames.data_header));
        let rates = links.iter().map(|&link| setup.fabric.links()[link as usize].rate);
        let slowest = rates.min().unwrap_or(Rate::ZERO);
        let mut least = u64::MAX;
        for link in links {
            let Some(&flows) = self.over.get(link) else { continue };
            let ends = &setup.fabric.links()[*link as usize];
            let all = self.through[ends.to.index()];
            let xoff = buffers[ends.to.index()].crowded_xoff(ingress(*link), flows, all);
            let window = static_window::window(path.base_rtt, slowest, flows, xoff, payload, wire);
            let window = window.map_err(|error| {
                let link = ends.name.clone();
                RunError::NoWindow { link, error }
            })?;
            let packets = u64::from(setup.model.answering.ack_every);
            if window < packets * payload {
                let link = ends.name.clone();
                return Err(RunError::UnansweredWindow { link, flows, window, packets });
            }
            least = least.min(window);
        }
        Ok(Some(least))
    }
}

fn is_to_be_found(setup: &Setup<'_>, flow: usize) -> bool {
    let policy = &setup.policies[setup.flows[flow].policy];
    matches!(policy, Policy::StaticWindow(Parameters { window: None }))
}
