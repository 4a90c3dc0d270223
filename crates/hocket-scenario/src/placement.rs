//! From the hosts that a job runs on to the links that its traffic loads.

use std::collections::BTreeMap;

use crate::routing::{RouteError, Routing};
use crate::{Crossing, NodeId};

/// The links that a ring over `workers` crosses, in order of link: worker i sends to worker i + 1,
/// the last to the first. A worker and the next on one host need no network; one worker needs none
/// at all. `flow_label` of the i-th edge is `first_label + i`.
///
/// All edges of a ring all-reduce move at one rate, so a job's rate r loads a link that k of its
/// edges take by k × r.
///
/// # Errors
/// If a worker's node is unknown, or one cannot reach the next.
pub fn ring_crossings(
    workers: &[NodeId],
    routing: &mut Routing<'_>,
    first_label: u64,
) -> Result<Vec<Crossing>, RouteError> {
    let mut flows_by_link = BTreeMap::new();
    let next = workers.iter().cycle().skip(1);
    for ((&from, &to), edge) in workers.iter().zip(next).zip(0_u64..) {
        for link in routing.route(from, to, first_label.wrapping_add(edge))? {
            *flows_by_link.entry(link).or_insert(0) += 1;
        }
    }
    Ok(flows_by_link.into_iter().map(|(link, flows)| Crossing { link, flows }).collect())
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
    fn a_ring_over_two_racks_crosses_the_spine_once_each_way() {
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
    fn one_worker_and_workers_of_one_host_need_no_network() {
        assert!(crossings(&[0]).is_empty());
        assert!(crossings(&[1, 1, 1]).is_empty());
    }
}
