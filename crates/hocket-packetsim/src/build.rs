//! Builds an engine at rest from a setup.

use std::ops::Range;

use hocket_des::{Duration, Rate};
use hocket_scenario::{Routing, WindowRule};
use hocket_transport::{Path, Policy};

use crate::engine::Engine;
use crate::error::PacketRunError;
use crate::network::Network;
use crate::network::clock::Clock;
use crate::network::hosts::Hosts;
use crate::network::medium::Medium;
use crate::network::paths::{FlowPaths, forward_paths, idle_path, longest_path};
use crate::network::switches::Switches;
use crate::network::telemetry::Telemetry;
use crate::network::wires::Wires;
use crate::records::Recorder;
use crate::setup::Setup;
use crate::windows::{Crowd, Footprint};

/// The engine of `setup`; `later_rates` are the rates to which changes may set links.
pub(crate) fn engine<'a>(
    setup: &Setup<'a>,
    later_rates: &[Rate],
) -> Result<Engine<'a>, PacketRunError> {
    let fabric = setup.fabric;
    let mut wires = Wires::new(setup, later_rates);
    let routes = find_routes(setup, &mut wires)?;
    let footprints = routes.iter().map(|routes| routes.footprint(&wires)).enumerate();
    let crowd = Crowd::new(setup, footprints);
    // A search over all pairs of hosts, so only if it is needed: for all flows, or as PINT's T.
    let for_all = setup.reference.longest_rtt_for_all;
    let uses_load = setup.uses(|policy| matches!(policy, Policy::Pint(_)));
    let longest = (for_all || uses_load).then(|| longest_path(setup));
    let longest_rtt = longest.map_or(Duration::ZERO, |longest| longest.base_rtt);
    let switches = Switches::new(setup, &wires)?;
    let telemetry = Telemetry::new(setup, wires.rates(), longest_rtt)?;
    let shares = crowd.shares(setup, &switches.buffers, |link| wires.ports[link as usize].ingress);
    let mut hosts = Hosts::new(setup, &wires);
    for (index, (flow, routes)) in setup.flows.iter().zip(routes).enumerate() {
        let links = routes.last(&wires);
        let forward_links = links.iter().map(|&link| &fabric.links()[link as usize]);
        let idle = idle_path(setup, &setup.frames_of(flow), forward_links);
        let path = match longest.filter(|_| for_all && !setup.is_inside(flow)) {
            // The longest round trip is common to all, but each sender has the rate of its NIC.
            Some(longest) => Path { line_rate: idle.line_rate, ..longest },
            None => idle,
        };
        let switches = links.len() - 1;
        let window = match shares.window(setup, index, &path, &routes.footprint(&wires))? {
            // Inside a server, credits limit a flow: the PAUSE frames that represent them.
            _ if setup.is_inside(flow) => WindowRule::Unlimited,
            Some(bytes) => WindowRule::Bytes(bytes),
            None => flow.window,
        };
        let Routes { forward, reverse, .. } = routes;
        hosts.add_flow(
            setup,
            &wires,
            flow,
            FlowPaths { forward, reverse, switches, path, window },
        )?;
    }
    let (clock, recorder) = (Clock::new(), Recorder::new(setup));
    let medium = Medium { model: setup.model, clock, wires, telemetry, recorder };
    Ok(Engine::new(setup, Network { medium, switches, hosts }))
}

/// The routes of a flow. Their links are contiguous in the table of routes, at `all`, with the reverse route last.
struct Routes {
    forward: Vec<u32>,
    reverse: u32,
    all: Range<usize>,
}

impl Routes {
    fn footprint<'w>(&self, wires: &'w Wires) -> Footprint<'w> {
        let reverse = self.reverse as usize;
        Footprint {
            forward: &wires.routes[self.all.start..reverse],
            reverse: &wires.routes[reverse..self.all.end],
        }
    }

    /// The links of the last forward path; all paths of a flow have the same length.
    fn last<'w>(&self, wires: &'w Wires) -> &'w [u32] {
        &wires.routes[self.forward[self.forward.len() - 1] as usize..self.reverse as usize]
    }
}

/// The routes of each flow.
fn find_routes(setup: &Setup<'_>, wires: &mut Wires) -> Result<Vec<Routes>, PacketRunError> {
    let mut routing = Routing::with_hash(setup.fabric, setup.reference.hash);
    let mut routes = Vec::with_capacity(setup.flows.len());
    for (index, flow) in setup.flows.iter().enumerate() {
        flow.check(index, setup.fabric)?;
        let forward = forward_paths(flow, &mut routing, |_| true)?;
        let reverse = routing.route(flow.to, flow.from, flow.labels.1)?;
        let start = wires.routes.len();
        let forward = forward.iter().map(|path| wires.add_route(path)).collect();
        let reverse = wires.add_route(&reverse);
        routes.push(Routes { forward, reverse, all: start..wires.routes.len() });
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use hocket_scenario::{Cable, Fabric, Node, NodeId, NodeKind, PathChoice};

    use super::*;
    use crate::model::Model;
    use crate::reference::Reference;
    use crate::setup::FlowSpec;

    /// Two servers of two GPUs (0 and 1, 2 and 3) under ToR 4, with scale-up switches 5 and 6.
    fn servers() -> Fabric {
        let (host, scale_up) = (NodeKind::Host, NodeKind::ScaleUp);
        let kinds = [host, host, host, host, NodeKind::Switch, scale_up, scale_up];
        let node = |(place, kind)| Node { name: format!("n{place}"), kind };
        let nodes = kinds.into_iter().enumerate().map(node).collect();
        let cable = |a, b, gbps, ns| Cable {
            a: NodeId::new(a),
            b: NodeId::new(b),
            rate: Rate::from_gbps(gbps),
            delay: Duration::from_ns(ns),
        };
        let nics = (0..4).map(|gpu| cable(gpu, 4, 100, 500));
        let lanes = (0..4).map(|gpu| cable(gpu, 5 + gpu / 2, 1_600, 25));
        Fabric::new(nodes, &nics.chain(lanes).collect::<Vec<_>>()).expect("servers are a fabric")
    }

    #[test]
    fn the_longest_round_trip_is_between_servers_and_does_not_apply_to_flows_inside() {
        let fabric = servers();
        let flow = |from, to| FlowSpec {
            from: NodeId::new(from),
            to: NodeId::new(to),
            labels: (0, 0),
            priority: 3,
            policy: 0,
            window: WindowRule::PathFull { scaled: false },
            path: PathChoice::Ecmp,
        };
        let setup = Setup {
            fabric: &fabric,
            model: &Model { scale_up_mtu: 32_768, ..Model::default() },
            policies: &[Policy::PfcOnly],
            flows: &[flow(0, 2), flow(0, 1)],
            patterns: &[],
            seed: 1,
            reference: Reference { longest_rtt_for_all: true, ..Reference::default() },
        };
        let engine = engine(&setup, &[]).expect("the setup is valid");
        let [between, inside] =
            [0, 1].map(|flow: usize| engine.network.hosts.congestion[flow].path.base_rtt);
        // A packet of 1,082 bytes and an acknowledgement of 86 at 80 ps a byte, each over two links with 500 ns.
        assert_eq!(between.as_ps(), 2 * (1_082 + 86) * 80 + 4 * 500_000);
        // One of 32,850 bytes at 5 ps, and 25 ns.
        assert_eq!(inside.as_ps(), 2 * (32_850 + 86) * 5 + 4 * 25_000);
        assert_eq!(engine.network.hosts.congestion[1].path.line_rate, Rate::from_gbps(1_600));
    }
}
