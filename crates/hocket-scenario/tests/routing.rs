//! Routes on random fabrics, compared with a plain search without a cache.

use std::collections::VecDeque;

use hocket_des::{Duration, Rate};
use hocket_scenario::{Cable, EcmpHash, Fabric, LinkId, Node, NodeId, NodeKind, Routing};
use proptest::prelude::*;

/// Hosts, then switches, then scale-up switches, with random cables. Cables that a fabric does not permit are left out.
fn fabrics() -> impl Strategy<Value = Fabric> {
    (2_u32..7, 1_u32..6, 0_u32..3).prop_flat_map(|(hosts, switches, servers)| {
        let all = hosts + switches + servers;
        prop::collection::vec((0..all, 0..all), 1..30).prop_map(move |ends| {
            let kind = |node| match node {
                _ if node < hosts => NodeKind::Host,
                _ if node < hosts + switches => NodeKind::Switch,
                _ => NodeKind::ScaleUp,
            };
            let nodes = (0..all).map(|node| Node { name: format!("n{node}"), kind: kind(node) });
            let nodes: Vec<Node> = nodes.collect();
            let mut cables = Vec::new();
            for (a, b) in ends {
                let (a, b) = (NodeId::new(a), NodeId::new(b));
                let (rate, delay) = (Rate::from_gbps(100), Duration::from_ns(500));
                cables.push(Cable { a, b, rate, delay });
                if Fabric::new(nodes.clone(), &cables).is_err() {
                    cables.pop();
                }
            }
            Fabric::new(nodes, &cables).expect("each cable was tried")
        })
    })
}

/// The hops of the shortest path between hosts, if there is one: only over switches or, inside a server, only over its
/// scale-up switch. The search goes forward, unlike that of `Routing`.
fn hops(fabric: &Fabric, down: &[bool], from: NodeId, to: NodeId) -> Option<usize> {
    let inside = fabric.scale_up_between(from, to);
    let passes = |node: NodeId| match inside {
        Some(switch) => node == switch,
        None => fabric.nodes()[node.index()].kind == NodeKind::Switch,
    };
    let mut hops = vec![None; fabric.nodes().len()];
    hops[from.index()] = Some(0);
    let mut frontier = VecDeque::from([from]);
    while let Some(at) = frontier.pop_front() {
        for (link, _) in
            fabric.links().iter().zip(down).filter(|(link, down)| link.from == at && !*down)
        {
            // A direct cable between hosts of one server carries no traffic.
            let is_shortcut = inside.is_some() && at == from && link.to == to;
            let can_enter = link.to == to || passes(link.to);
            if hops[link.to.index()].is_none() && can_enter && !is_shortcut {
                hops[link.to.index()] = hops[at.index()].map(|hops: usize| hops + 1);
                frontier.push_back(link.to);
            }
        }
        if at == to {
            break;
        }
    }
    hops[to.index()]
}

fn check(fabric: &Fabric, routing: &mut Routing<'_>, down: &[bool]) -> Result<(), TestCaseError> {
    let hosts =
        (0..fabric.nodes().len()).filter(|&node| fabric.nodes()[node].kind == NodeKind::Host);
    let hosts: Vec<NodeId> = hosts.map(NodeId::from_index).collect();
    for (&from, &to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (from, to))) {
        let route = routing.route(from, to, 1);
        prop_assert_eq!(route.as_ref().ok().map(Vec::len), hops(fabric, down, from, to));
        let Ok(route) = route else { continue };
        prop_assert_eq!(routing.check_path(from, to, &route), Ok(()));
        let inside = from != to && fabric.scale_up_between(from, to).is_some();
        let paths = routing.paths(from, to, 1).expect("there is a route");
        prop_assert!(paths.contains(&route));
        for path in &paths {
            prop_assert_eq!(path.len(), route.len());
            prop_assert_eq!(routing.check_path(from, to, path), Ok(()));
            prop_assert!(path.iter().all(|link| !down[link.index()]));
            prop_assert!(path.iter().all(|&link| fabric.is_scale_up(link) == inside));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_route_is_as_short_as_a_plain_search_finds_and_stays_inside_a_server_or_outside_all(
        fabric in fabrics(),
        failures in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for hash in [EcmpHash::Mixed, EcmpHash::Murmur3] {
            let mut routing = Routing::with_hash(&fabric, hash);
            let mut down = vec![false; fabric.links().len()];
            check(&fabric, &mut routing, &down)?;
            if fabric.links().is_empty() {
                continue;
            }
            for failure in &failures {
                let link = failure.index(down.len());
                down[link] = !down[link];
                routing.set_down(LinkId::from_index(link), down[link]);
                check(&fabric, &mut routing, &down)?;
            }
        }
    }
}
