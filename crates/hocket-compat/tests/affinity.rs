//! Theorem 1 of NSDI'24 on random graphs, and the treatment of loops.

use std::collections::BTreeSet;

use hocket_compat::affinity::{AffinityError, AffinityGraph, AffinityJob, collapse};
use hocket_des::Duration;
use num_integer::Integer;
use proptest::prelude::*;

const EXACT: f64 = 0.0;

type Edges = Vec<(usize, u64)>;

fn graph(iterations_ps: &[u64], links: &[Edges]) -> AffinityGraph {
    let job = |ps: &u64| AffinityJob { iteration: Duration::from_ps(*ps), priority: 0 };
    let edge = |(job, shift): &(usize, u64)| (*job, Duration::from_ps(*shift));
    let links = links.iter().map(|edges| edges.iter().map(edge).collect()).collect();
    AffinityGraph::new(iterations_ps.iter().map(job).collect(), links).expect("the links are valid")
}

fn shifts_ps(graph: &AffinityGraph, seed: u64) -> Vec<Option<u64>> {
    let shifts = graph.traverse(seed, EXACT).time_shifts;
    shifts.into_iter().map(|shift| shift.map(Duration::as_ps)).collect()
}

fn perimeter(iterations_ps: &[u64], edges: &Edges) -> u64 {
    edges.iter().fold(1, |lcm, (job, _)| lcm.lcm(&iterations_ps[*job]))
}

/// Whether the circle of a link under `shifts` is the solver's circle, turned as a whole: tries
/// every turn.
fn turned_as_a_whole(iterations_ps: &[u64], edges: &Edges, shifts: &[Option<u64>]) -> bool {
    (0..perimeter(iterations_ps, edges)).any(|turn| {
        edges.iter().all(|(job, weight)| {
            let shift = shifts[*job].expect("a job on a link has a shift");
            (weight + turn) % iterations_ps[*job] == shift % iterations_ps[*job]
        })
    })
}

/// The proof of Appendix A as a program: walks from `job` over all links without reducing shifts.
fn walk_unreduced(links: &[Edges], job: usize, shift: i128, shifts: &mut Vec<Option<i128>>) {
    shifts[job] = Some(shift);
    for edges in links {
        let Some((_, inward)) = edges.iter().find(|(other, _)| *other == job) else { continue };
        for (other, outward) in edges {
            if shifts[*other].is_none() {
                let next = shift - i128::from(*inward) + i128::from(*outward);
                walk_unreduced(links, *other, next, shifts);
            }
        }
    }
}

/// Iteration times, and links such that none closes a loop.
fn loop_free() -> impl Strategy<Value = (Vec<u64>, Vec<Edges>)> {
    let iterations = prop::collection::vec(1u64..=24, 2..12);
    let links =
        prop::collection::vec(prop::collection::vec((0usize..12, 0u64..1_000), 2..5), 1..12);
    (iterations, links).prop_map(|(iterations, wishes)| {
        let mut component: Vec<usize> = (0..iterations.len()).collect();
        let mut links: Vec<Edges> = Vec::new();
        for wish in wishes {
            // At most one job of each component, so that no edge closes a loop.
            let mut joined = BTreeSet::new();
            let known = wish.into_iter().filter(|(job, _)| *job < iterations.len());
            let edges: Edges = known
                .filter(|(job, _)| joined.insert(component[*job]))
                .map(|(job, weight)| (job, weight % iterations[job]))
                .collect();
            if edges.len() < 2 {
                continue;
            }
            let name = component[edges[0].0];
            for each in component.iter_mut().filter(|each| joined.contains(each)) {
                *each = name;
            }
            links.push(edges);
        }
        (iterations, links)
    })
}

proptest! {
    #[test]
    fn in_a_loop_free_graph_every_link_keeps_its_circle((iterations, links) in loop_free(), seed: u64) {
        let graph = graph(&iterations, &links);
        prop_assert!(!graph.has_loop());
        let shifts = shifts_ps(&graph, seed);
        for edges in &links {
            prop_assert!(turned_as_a_whole(&iterations, edges, &shifts), "{edges:?} {shifts:?}");
        }
    }

    #[test]
    fn every_job_on_a_link_gets_one_shift_below_its_iteration_time(
        (iterations, links) in loop_free(),
        seed: u64,
    ) {
        let traversal = graph(&iterations, &links).traverse(seed, EXACT);
        for (job, shift) in traversal.time_shifts.iter().enumerate() {
            let on_a_link = links.iter().flatten().any(|(other, _)| *other == job);
            prop_assert_eq!(shift.is_some(), on_a_link);
            prop_assert!(shift.is_none_or(|shift| shift.as_ps() < iterations[job]));
        }
        for component in &traversal.components {
            prop_assert_eq!(traversal.time_shifts[component.reference], Some(Duration::ZERO));
            prop_assert!(component.closes());
        }
    }

    #[test]
    fn the_shifts_do_not_depend_on_the_order_of_links_and_edges(
        (iterations, links) in loop_free(),
        seed: u64,
    ) {
        let reversed: Vec<Edges> =
            links.iter().rev().map(|edges| edges.iter().rev().copied().collect()).collect();
        let shifts = shifts_ps(&graph(&iterations, &links), seed);
        prop_assert_eq!(shifts, shifts_ps(&graph(&iterations, &reversed), seed));
    }

    #[test]
    fn equation_6_holds_modulo_the_perimeter_for_unreduced_shifts(
        (iterations, links) in loop_free(),
        seed: u64,
    ) {
        let mut unreduced = vec![None; iterations.len()];
        for component in graph(&iterations, &links).traverse(seed, EXACT).components {
            walk_unreduced(&links, component.reference, 0, &mut unreduced);
        }
        let reduced: Vec<Option<u64>> = unreduced
            .iter()
            .zip(&iterations)
            .map(|(shift, iteration)| {
                shift.map(|shift| u64::try_from(shift.rem_euclid(i128::from(*iteration))).unwrap())
            })
            .collect();
        for edges in &links {
            let perimeter = i128::from(perimeter(&iterations, edges));
            for (n, weight_n) in edges {
                for (m, weight_m) in edges {
                    let assigned = unreduced[*n].unwrap() - unreduced[*m].unwrap();
                    let solved = i128::from(*weight_n) - i128::from(*weight_m);
                    prop_assert_eq!(assigned.rem_euclid(perimeter), solved.rem_euclid(perimeter));
                }
            }
            prop_assert!(turned_as_a_whole(&iterations, edges, &reduced));
        }
    }

    #[test]
    fn a_pair_of_shifts_agrees_modulo_the_common_divisor_of_the_iteration_times(
        (iterations, links) in loop_free(),
        seed: u64,
    ) {
        let shifts = shifts_ps(&graph(&iterations, &links), seed);
        for edges in &links {
            for (n, weight_n) in edges {
                for (m, weight_m) in edges {
                    let common = i128::from(iterations[*n].gcd(&iterations[*m]));
                    let of = |job: usize| i128::from(shifts[job].unwrap());
                    let assigned = of(*n) - of(*m);
                    let solved = i128::from(*weight_n) - i128::from(*weight_m);
                    prop_assert_eq!(assigned.rem_euclid(common), solved.rem_euclid(common));
                }
            }
        }
    }

    #[test]
    fn a_loop_is_said_to_close_only_if_every_link_keeps_its_circle(
        iterations in prop::collection::vec(prop::sample::select(vec![4u64, 6, 8, 12]), 2..7),
        wishes in prop::collection::vec(prop::collection::vec((0usize..7, 0u64..12), 2..4), 1..6),
        seed: u64,
    ) {
        let links: Vec<Edges> = wishes
            .into_iter()
            .map(|wish| {
                let mut jobs = BTreeSet::new();
                let known = wish.into_iter().filter(|(job, _)| *job < iterations.len());
                known
                    .filter(|(job, _)| jobs.insert(*job))
                    .map(|(job, weight)| (job, weight % iterations[job]))
                    .collect()
            })
            .collect();
        let graph = graph(&iterations, &links);
        let traversal = graph.traverse(seed, EXACT);
        let shifts = shifts_ps(&graph, seed);
        prop_assert_eq!(
            graph.has_loop(),
            traversal.components.iter().any(|component| !component.loops.is_empty())
        );
        for component in &traversal.components {
            let all = component
                .links
                .iter()
                .all(|link| turned_as_a_whole(&iterations, &links[*link], &shifts));
            prop_assert!(all || !component.closes(), "{component:?} {shifts:?}");
        }
    }

    #[test]
    fn a_single_loop_closes_exactly_if_some_shifts_satisfy_all_its_links(
        jobs in prop::collection::vec((prop::sample::select(vec![4u64, 6, 8, 9, 12]), 0u64..12, 0u64..12), 2..5),
        seed: u64,
    ) {
        let iterations: Vec<u64> = jobs.iter().map(|(iteration, _, _)| *iteration).collect();
        let ring = |index: usize| {
            let next = (index + 1) % jobs.len();
            vec![(index, jobs[index].1 % iterations[index]), (next, jobs[next].2 % iterations[next])]
        };
        let links: Vec<Edges> = (0..jobs.len()).map(ring).collect();
        let fits = |shifts: &[Option<u64>]| {
            links.iter().all(|edges| turned_as_a_whole(&iterations, edges, shifts))
        };
        let possible = iterations
            .iter()
            .map(|iteration| 0..*iteration)
            .fold(vec![Vec::new()], |prefixes: Vec<Vec<Option<u64>>>, shifts| {
                let extend = |prefix: Vec<Option<u64>>| {
                    shifts.clone().map(move |shift| [prefix.as_slice(), &[Some(shift)]].concat())
                };
                prefixes.into_iter().flat_map(extend).collect()
            })
            .iter()
            .any(|shifts| fits(shifts));
        let traversal = graph(&iterations, &links).traverse(seed, EXACT);
        prop_assert_eq!(traversal.components[0].closes(), possible);
    }
}

#[test]
fn equation_6_modulo_the_perimeter_does_not_survive_the_reduction_of_algorithm_1() {
    // t_2 = (0 − 90 + 10) mod 60 = 40. Modulo 300, 0 − 40 is 260, but 90 − 10 is 80; modulo 20, the
    // common divisor of 100 and 60, both are 0, and the circle is the same, turned by 10.
    let (iterations, edges) = ([100, 60], vec![(0, 90), (1, 10)]);
    let graph = graph(&iterations, std::slice::from_ref(&edges));
    let seed = (0..).find(|seed| shifts_ps(&graph, *seed)[0] == Some(0)).unwrap();
    let shifts = shifts_ps(&graph, seed);
    assert_eq!(shifts, [Some(0), Some(40)]);
    assert!(turned_as_a_whole(&iterations, &edges, &shifts));
}

#[test]
fn weights_count_negative_from_job_to_link_and_positive_back() {
    // Figure 8: j_2 gets −5 + 30, j_3 gets 25 − 10 + 50.
    let iteration = Duration::from_ps(100);
    let jobs = [1, 0, 0].map(|priority| AffinityJob { iteration, priority }).to_vec();
    let shift = Duration::from_ps;
    let links = vec![vec![(0, shift(5)), (1, shift(30))], vec![(1, shift(10)), (2, shift(50))]];
    let traversal = AffinityGraph::new(jobs, links).unwrap().traverse(0, EXACT);
    assert_eq!(traversal.time_shifts, [0, 25, 65].map(|ps| Some(shift(ps))));
}

#[test]
fn the_job_of_highest_priority_is_the_reference() {
    let job = |priority| AffinityJob { iteration: Duration::from_ps(10), priority };
    let links = vec![(0..3).map(|job| (job, Duration::from_ps(job as u64))).collect()];
    let graph = AffinityGraph::new([1, 7, -3].map(job).to_vec(), links).unwrap();
    for seed in 0..20 {
        assert_eq!(graph.traverse(seed, EXACT).components[0].reference, 1);
    }
}

#[test]
fn among_equal_priorities_the_seed_picks_the_reference() {
    let graph = graph(&[10; 4], &[vec![(0, 0), (1, 1), (2, 2), (3, 3)]]);
    let picked: BTreeSet<usize> =
        (0..100).map(|seed| graph.traverse(seed, EXACT).components[0].reference).collect();
    assert_eq!(picked, (0..4).collect());
}

#[test]
fn links_with_the_same_jobs_become_one_and_unshared_links_none() {
    let links = [vec![0, 1], vec![2], vec![1, 0], vec![0, 1, 2], vec![]];
    assert_eq!(collapse(&links), [vec![0, 2], vec![3]]);
}

#[test]
fn three_links_in_a_ring_close_if_their_shifts_add_up() {
    let ring = |last| {
        graph(&[90; 3], &[vec![(0, 0), (1, 30)], vec![(1, 0), (2, 30)], vec![(2, 0), (0, last)]])
            .traverse(0, EXACT)
    };
    // Around the ring, 30 + 30 + 30 is a whole iteration.
    assert!(ring(30).components[0].closes());
    let open = &ring(45).components[0].loops[0];
    assert!(!open.closes);
    assert_eq!((open.gap, open.modulus), (Duration::from_ps(15), Duration::from_ps(90)));
    assert_eq!(open.jobs.iter().copied().collect::<BTreeSet<_>>(), (0..3).collect());
    assert_eq!(open.links.iter().copied().collect::<BTreeSet<_>>(), (0..3).collect());
}

#[test]
fn a_gap_within_the_tolerance_closes() {
    let links = [vec![(0, 0), (1, 300)], vec![(0, 0), (1, 309)]];
    let graph = graph(&[1_000, 1_000], &links);
    assert!(!graph.traverse(0, 0.008).components[0].closes());
    assert!(graph.traverse(0, 0.009).components[0].closes());
}

#[test]
fn a_loop_of_unlike_periods_may_close_a_whole_iteration_away() {
    // Iterations of 4, 6 and 9: modulo their common divisor 1 every loop closes, but not where
    // plain breadth-first search puts the jobs.
    let links = [vec![(0, 0), (1, 1)], vec![(1, 3), (2, 4)], vec![(2, 8), (0, 2)]];
    let graph = graph(&[4, 6, 9], &links);
    assert!(graph.traverse(0, EXACT).components[0].closes());
    for edges in &links {
        assert!(turned_as_a_whole(&[4, 6, 9], edges, &shifts_ps(&graph, 0)));
    }
}

#[test]
fn what_is_no_graph_is_refused_by_name() {
    let job = AffinityJob { iteration: Duration::from_ps(10), priority: 0 };
    let refused = |jobs, links| AffinityGraph::new(jobs, links).unwrap_err();
    let zero = Duration::ZERO;
    assert_eq!(
        refused(vec![job], vec![vec![(3, zero)]]),
        AffinityError::UnknownJob { link: 0, job: 3, jobs: 1 }
    );
    assert_eq!(
        refused(vec![job], vec![vec![(0, zero), (0, zero)]]),
        AffinityError::RepeatedJob { link: 0, job: 0 }
    );
    let still = AffinityJob { iteration: zero, priority: 0 };
    assert_eq!(refused(vec![job, still], vec![]), AffinityError::ZeroIteration { job: 1 });
}
