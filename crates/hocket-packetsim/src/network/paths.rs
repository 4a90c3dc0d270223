//! Paths of flows through a fabric, forward and reverse, and their round-trip times on an idle network.

use hocket_des::{Duration, Rate};
use hocket_scenario::{
    Link, LinkId, NodeId, NodeKind, PathChoice, RouteError, Routing, WindowRule,
};
use hocket_transport::Path;

use crate::model::Frames;
use crate::setup::{FlowSpec, Setup};

/// The paths of a flow through the network.
pub(crate) struct FlowPaths {
    /// The routes of its data: several for a sprayed flow.
    pub(crate) forward: Vec<u32>,
    /// The route of its acknowledgements.
    pub(crate) reverse: u32,
    pub(crate) switches: usize,
    pub(crate) path: Path,
    pub(crate) window: WindowRule,
}

/// The forward paths of a flow: one, or all those over which it is sprayed. A pinned path is used as long as all its links
/// are up; otherwise the flow falls back to ECMP.
pub(crate) fn forward_paths(
    spec: &FlowSpec,
    routing: &mut Routing<'_>,
    is_up: impl Fn(&LinkId) -> bool,
) -> Result<Vec<Vec<LinkId>>, RouteError> {
    match &spec.path {
        PathChoice::Spray => routing.paths(spec.from, spec.to, spec.labels.0),
        PathChoice::Pinned(path) if path.iter().all(is_up) => {
            routing.check_path(spec.from, spec.to, path)?;
            Ok(vec![path.clone()])
        }
        PathChoice::Pinned(_) | PathChoice::Ecmp => {
            Ok(vec![routing.route(spec.from, spec.to, spec.labels.0)?])
        }
    }
}

/// The path over `links`, with the round-trip time of a full packet and its acknowledgement on an idle network.
pub(crate) fn idle_path<'l>(
    setup: &Setup<'_>,
    frames: &Frames,
    links: impl Iterator<Item = &'l Link>,
) -> Path {
    let arithmetic = setup.model.arithmetic;
    let rounding = arithmetic.rounding();
    let (data, ack) = arithmetic.round_trip_bytes(frames.mtu, frames.data_header, frames.ack);
    let links: Vec<_> = links.collect();
    let rate = |place: Option<usize>| Some(links.get(place?)?.rate);
    // The bytes of a packet of `size` bytes that must arrive before it may leave by a link of rate `next`.
    let before_next = |size: u16, rate: Rate, next: Option<Rate>| {
        let cuts_through =
            setup.model.switching.cut_through && next.is_some_and(|next| next <= rate);
        u32::from(if cuts_through { size.min(frames.data_header) } else { size })
    };
    let mut rtt = Duration::ZERO;
    let mut slowest = Rate::from_bps(u64::MAX);
    for (place, link) in links.iter().enumerate() {
        let (bps, forward, reverse) =
            (link.rate.as_bps(), rate(Some(place + 1)), rate(place.checked_sub(1)));
        slowest = slowest.min(link.rate);
        rtt += link.delay + link.delay;
        rtt += rounding.time(before_next(data, link.rate, forward), bps);
        rtt += rounding.time(before_next(ack, link.rate, reverse), bps);
    }
    // The window fills the slowest link, while the sender starts at the rate of its own.
    Path {
        line_rate: rate(Some(0)).unwrap_or(slowest),
        base_rtt: rtt,
        window: slowest.bytes_in(rtt).get(),
    }
}

/// The maximum round-trip time and the maximum window over the shortest paths between all pairs of hosts in different
/// servers. The shortest paths of a pair are equivalent, so one of them is enough.
pub(crate) fn longest_path(setup: &Setup<'_>) -> Path {
    let nodes = setup.fabric.nodes();
    let hosts = (0..nodes.len()).filter(|&node| nodes[node].kind == NodeKind::Host);
    let hosts: Vec<NodeId> = hosts.map(NodeId::from_index).collect();
    let mut routing = Routing::with_hash(setup.fabric, setup.reference.hash);
    let mut longest: Option<Path> = None;
    for &from in &hosts {
        for &to in hosts.iter().filter(|&&to| to != from) {
            if setup.fabric.scale_up_between(from, to).is_some() {
                continue;
            }
            let Ok(links) = routing.route(from, to, 0) else { continue };
            let links = links.iter().map(|link: &LinkId| &setup.fabric.links()[link.index()]);
            let found = idle_path(setup, &setup.model.frames, links);
            longest = Some(longest.map_or(found, |longest| Path {
                base_rtt: longest.base_rtt.max(found.base_rtt),
                window: longest.window.max(found.window),
                ..longest
            }));
        }
    }
    let none = Path { line_rate: Rate::ZERO, base_rtt: Duration::ZERO, window: 0 };
    longest.unwrap_or(none)
}
