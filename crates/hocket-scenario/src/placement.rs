//! The links that a job's traffic crosses, from the hosts of its workers.

use std::collections::{BTreeMap, BTreeSet};

use crate::routing::{RouteError, Routing};
use crate::{Crossing, JobFlow, LinkId, NodeId, PathChoice};

/// The flows of a ring over `workers`: worker i sends to worker i + 1, the last to the first. There is
/// no flow between consecutive workers on one host. The label of the i-th edge is `first_label + i`.
pub fn ring_flows(workers: &[NodeId], first_label: u64) -> Vec<JobFlow> {
    let next = workers.iter().cycle().skip(1);
    let edges = workers.iter().zip(next).zip(0_u64..);
    // Edges are numbered before any is left out: an edge keeps its label, and so its path,
    // whichever of the other workers share a host.
    edges
        .filter(|((from, to), _)| from != to)
        .map(|((&from, &to), edge)| JobFlow::new(from, to, first_label.wrapping_add(edge)))
        .collect()
}

/// The links that `flows` cross, in order of link. A sprayed flow counts only on the links that all
/// its paths share: on the others it is a fraction of a flow, and [`Crossing`] counts whole ones.
///
/// # Errors
/// If a node is unknown, a flow's destination is unreachable, or a pinned path does not lead to it.
pub fn flow_crossings(
    flows: &[JobFlow],
    routing: &mut Routing<'_>,
) -> Result<Vec<Crossing>, RouteError> {
    let mut flows_by_link = BTreeMap::new();
    for flow in flows {
        for link in certain_links(flow, routing)? {
            *flows_by_link.entry(link).or_insert(0) += 1;
        }
    }
    Ok(flows_by_link.into_iter().map(|(link, flows)| Crossing { link, flows }).collect())
}

/// The links that a ring over `workers` crosses, in order of link: those of its [`ring_flows`].
///
/// All edges of a ring all-reduce move at one rate, so a job of rate r loads a link that k of its
/// edges cross with k × r.
///
/// # Errors
/// If a worker's node is unknown, or a worker cannot reach the next one.
pub fn ring_crossings(
    workers: &[NodeId],
    routing: &mut Routing<'_>,
    first_label: u64,
) -> Result<Vec<Crossing>, RouteError> {
    // Rings without flows, as that of a single worker, must not hide an unknown node.
    for &worker in workers {
        routing.route(worker, worker, first_label)?;
    }
    flow_crossings(&ring_flows(workers, first_label), routing)
}

fn certain_links(flow: &JobFlow, routing: &mut Routing<'_>) -> Result<Vec<LinkId>, RouteError> {
    match &flow.path {
        PathChoice::Ecmp => routing.route(flow.from, flow.to, flow.label),
        PathChoice::Pinned(path) => {
            routing.check_path(flow.from, flow.to, path)?;
            Ok(path.clone())
        }
        PathChoice::Spray => {
            let paths = routing.paths(flow.from, flow.to, flow.label)?;
            let (first, rest) = paths.split_first().expect("there is at least one path");
            let rest: Vec<BTreeSet<_>> = rest.iter().map(|path| path.iter().collect()).collect();
            let is_shared = |link: &&LinkId| rest.iter().all(|path| path.contains(*link));
            Ok(first.iter().filter(is_shared).copied().collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::tests::leaf_spine;

    fn crossings(workers: &[u32]) -> Vec<(String, u32)> {
        let fabric = leaf_spine(1);
        let workers: Vec<_> = workers.iter().map(|&host| NodeId::new(host)).collect();
        ring_crossings(&workers, &mut Routing::new(&fabric), 0)
            .unwrap()
            .into_iter()
            .map(|crossing| (fabric.links()[crossing.link.index()].name.clone(), crossing.flows))
            .collect()
    }

    #[test]
    fn a_ring_over_two_racks_crosses_the_spine_once_in_each_direction() {
        let links = crossings(&[0, 1, 2, 3]);
        let spine: Vec<_> = links.iter().filter(|(name, _)| name.contains("spine")).collect();
        assert_eq!(spine.len(), 4);
        assert!(links.iter().all(|(_, flows)| *flows == 1), "{links:?}");
    }

    #[test]
    fn a_ring_that_alternates_between_racks_loads_the_spine_twice() {
        let links = crossings(&[0, 2, 1, 3]);
        let up = links.iter().find(|(name, _)| name == "rack0->spine0");
        assert_eq!(up, Some(&("rack0->spine0".to_owned(), 2)));
    }

    #[test]
    fn a_sprayed_flow_counts_on_the_links_that_all_its_paths_share() {
        let fabric = leaf_spine(3);
        let flow =
            JobFlow { path: PathChoice::Spray, ..JobFlow::new(NodeId::new(0), NodeId::new(2), 0) };
        let crossings = flow_crossings(&[flow], &mut Routing::new(&fabric)).unwrap();
        let names: Vec<_> = crossings
            .iter()
            .map(|crossing| fabric.links()[crossing.link.index()].name.as_str())
            .collect();
        assert_eq!(names, ["host0->rack0", "rack1->host2"]);
    }

    #[test]
    fn one_worker_and_workers_of_one_host_need_no_network() {
        assert!(crossings(&[0]).is_empty());
        assert!(crossings(&[1, 1, 1]).is_empty());
    }
}
