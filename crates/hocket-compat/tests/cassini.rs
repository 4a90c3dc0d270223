//! Rankings of candidates, against results by hand and against the scores of the returned shifts.

#[path = "../src/testing.rs"]
mod testing;

use hocket_compat::cassini::cluster::{
    BatchError, BatchProblem, choose_batch_sizes, solve_cluster,
};
use hocket_compat::cassini::{
    Aggregate, Candidate, CassiniCrossing, CassiniJob, CassiniLink, CassiniOptions, DiscardReason,
    Loops, Origin, Placement, Preliminary, Prepared, Ranking, rank,
};
use hocket_compat::fitted::rank_fitted;
use hocket_compat::{CompatError, JointLink, JointProblem, SolveOptions, score_of};
use hocket_des::{Duration, Rate};
use hocket_scenario::{Phase, Profile};
use proptest::prelude::*;

const TOLERANCE: f64 = 1e-9;

fn assert_scores(score: f64, expected: f64) {
    assert!((score - expected).abs() < TOLERANCE, "{score} is not {expected}");
}

/// A job that sends at the start of its period.
fn profile(period_ms: u64, up_ms: u64, gbps: u64) -> Profile {
    testing::profile(period_ms, &[testing::up(0, up_ms, gbps)])
}

/// Jobs named a, b, c and so on; the first has the highest priority.
fn jobs(profiles: &[Profile]) -> Vec<CassiniJob> {
    let job = |(index, profile): (usize, &Profile)| CassiniJob {
        name: char::from(b'a' + index as u8).to_string(),
        profile: profile.clone(),
        priority: -(index as i64),
    };
    profiles.iter().enumerate().map(job).collect()
}

/// Links named l0, l1 and so on.
fn links(capacities_gbps: &[u64]) -> Vec<CassiniLink> {
    let link = |(index, gbps): (usize, &u64)| CassiniLink {
        name: format!("l{index}"),
        capacity: Rate::from_gbps(*gbps),
    };
    capacities_gbps.iter().enumerate().map(link).collect()
}

fn on(job: usize, link: usize, flows: u32) -> CassiniCrossing {
    CassiniCrossing { job, link, flows }
}

fn candidate(crossings: &[CassiniCrossing]) -> Candidate {
    Candidate { name: "x".into(), crossings: crossings.to_vec(), moved_jobs: 0 }
}

fn only(ranking: Ranking) -> Placement {
    assert_eq!((ranking.placements.len(), ranking.discarded.len()), (1, 0), "{ranking:?}");
    ranking.placements.into_iter().next().expect("there is one")
}

fn rank_one(jobs: &[CassiniJob], links: &[CassiniLink], candidate: Candidate) -> Placement {
    only(rank(jobs, links, &[candidate], &CassiniOptions::default()).expect("the input is valid"))
}

struct Frustrated {
    jobs: Vec<CassiniJob>,
    links: Vec<CassiniLink>,
    ring: Candidate,
}

/// Three jobs that send half of the time, and a link for each pair of them: not all three pairs can
/// take turns.
fn frustrated() -> Frustrated {
    let ring = [on(0, 0, 1), on(1, 0, 1), on(1, 1, 1), on(2, 1, 1), on(2, 2, 1), on(0, 2, 1)];
    let jobs = jobs(&vec![profile(100, 50, 40); 3]);
    Frustrated { jobs, links: links(&[40; 3]), ring: candidate(&ring) }
}

/// Asserts that each link of `placement` has the score of its shifts.
fn assert_scores_are_those_of_the_shifts(
    jobs: &[CassiniJob],
    links: &[CassiniLink],
    candidate: &Candidate,
    placement: &Placement,
) {
    for found in &placement.links {
        let crossings = candidate.crossings.iter().filter(|crossing| crossing.link == found.link);
        let (mut demands, mut shifts) = (Vec::new(), Vec::new());
        for crossing in crossings {
            let own = &jobs[crossing.job].profile;
            let scaled = own.phases().iter().map(|phase| {
                let bps = phase.rate.as_bps() * u64::from(crossing.flows);
                Phase { rate: Rate::from_bps(bps), ..*phase }
            });
            let demand = Profile::new(own.period(), scaled.collect());
            demands.push(demand.expect("only rates have changed"));
            shifts.push(placement.time_shifts[crossing.job].expect("the job shares the link"));
        }
        let score = score_of(links[found.link].capacity, &demands, &shifts, false)
            .expect("the link was scored before");
        assert!((score - found.score).abs() < TOLERANCE, "{found:?} scores {score} {shifts:?}");
    }
}

#[test]
fn two_jobs_that_send_half_of_the_time_take_turns() {
    let jobs = jobs(&[profile(100, 50, 40), profile(100, 50, 40)]);
    let placement = rank_one(&jobs, &links(&[40]), candidate(&[on(0, 0, 1), on(1, 0, 1)]));
    assert_scores(placement.score, 1.0);
    assert_eq!(placement.time_shifts, [Some(Duration::ZERO), Some(Duration::from_ms(50))]);
    assert!(placement.links[0].proven_optimal && placement.components[0].shifts_advised);
    assert_eq!(placement.components[0].origin, Origin::LoopFree);
}

#[test]
fn two_jobs_across_the_same_racks_make_no_loop() {
    let jobs = jobs(&[profile(100, 50, 40), profile(100, 50, 40)]);
    let all: Vec<_> = (0..4).flat_map(|link| [on(0, link, 1), on(1, link, 1)]).collect();
    let options = CassiniOptions::default();
    let ranking = rank(&jobs, &links(&[40; 4]), &[candidate(&all)], &options).unwrap();
    assert_eq!(ranking.problems, 1);
    let placement = only(ranking);
    assert_scores(placement.score, 1.0);
    assert_eq!(placement.links.len(), 4);
}

#[test]
fn a_link_keeps_the_shifts_that_were_found_for_it_but_for_a_common_turn() {
    // A chain: a and b on l0, b and c on l1.
    let jobs = jobs(&[profile(120, 60, 40), profile(60, 20, 40), profile(90, 30, 40)]);
    let chain = candidate(&[on(0, 0, 1), on(1, 0, 1), on(1, 1, 1), on(2, 1, 1)]);
    let placement = rank_one(&jobs, &links(&[40; 2]), chain);
    for link in &placement.links {
        let [one, other] = [0, 1].map(|place| {
            let job = link.jobs[place];
            let shift = placement.time_shifts[job].expect("it shares a link").as_ps() as i64;
            (shift - link.own_shifts[place].as_ps() as i64, jobs[job].profile.period().as_ps())
        });
        let common = num_integer::gcd(one.1, other.1) as i64;
        assert_eq!((one.0 - other.0).rem_euclid(common), 0, "{placement:?}");
    }
}

#[test]
fn the_candidate_whose_jobs_take_turns_wins() {
    // a and b fill the link most of the time; c fits beside either.
    let jobs = jobs(&[profile(100, 80, 40), profile(100, 80, 40), profile(100, 20, 40)]);
    let clash = candidate(&[on(0, 0, 1), on(1, 0, 1), on(2, 1, 1)]);
    let fit = candidate(&[on(0, 0, 1), on(2, 0, 1), on(1, 1, 1)]);
    let ranking = rank(&jobs, &links(&[40; 2]), &[clash, fit], &CassiniOptions::default()).unwrap();
    let order: Vec<usize> = ranking.placements.iter().map(|p| p.candidate).collect();
    assert_eq!(order, [1, 0]);
    // In 60 of 100 ms, 80 Gbps meet 40.
    assert_scores(ranking.placements[1].score, 0.4);
    assert!(!ranking.placements[1].components[0].shifts_advised);
    assert_eq!(ranking.placements[0].time_shifts[1], None);
}

#[test]
fn of_equal_candidates_the_one_that_moves_fewer_jobs_wins_then_the_first() {
    let jobs = jobs(&[profile(100, 50, 40), profile(100, 50, 40)]);
    let moved = |moved_jobs| Candidate { moved_jobs, ..candidate(&[on(0, 0, 1), on(1, 0, 1)]) };
    let candidates = [moved(2), moved(1), moved(1)];
    let ranking = rank(&jobs, &links(&[40]), &candidates, &CassiniOptions::default()).unwrap();
    let order: Vec<usize> = ranking.placements.iter().map(|p| p.candidate).collect();
    assert_eq!(order, [1, 2, 0]);
    assert_eq!(ranking.problems_solved, 1);
}

#[test]
fn a_candidate_without_shared_links_scores_1() {
    let jobs = jobs(&[profile(100, 50, 40), profile(100, 50, 40)]);
    let placement = rank_one(&jobs, &links(&[40; 2]), candidate(&[on(0, 0, 1), on(1, 1, 1)]));
    assert_eq!((placement.score, placement.time_shifts), (1.0, vec![None, None]));
}

#[test]
fn a_job_counts_on_a_link_with_all_its_flows() {
    let jobs = jobs(&[profile(100, 50, 10), profile(100, 75, 10)]);
    let score =
        |flows| rank_one(&jobs, &links(&[20]), candidate(&[on(0, 0, flows), on(1, 0, 1)])).score;
    assert_scores(score(1), 1.0);
    // 20 + 10 Gbps meet 20 for the 25 ms in which both must send: 10 ÷ 20 × 25 ÷ 100.
    assert_scores(score(2), 0.875);
    let twice = candidate(&[on(0, 0, 1), on(1, 0, 1), on(0, 0, 1)]);
    assert_scores(rank_one(&jobs, &links(&[20]), twice).score, 0.875);
}

#[test]
fn among_links_with_the_same_jobs_the_tightest_decides_and_each_has_its_own_score() {
    let jobs = jobs(&[profile(100, 60, 40), profile(100, 60, 40)]);
    let crossings: Vec<_> = (0..3).flat_map(|link| [on(0, link, 1), on(1, link, 1)]).collect();
    let links = links(&[60, 40, 80]);
    let with = |aggregate| {
        let options = CassiniOptions { aggregate, ..CassiniOptions::default() };
        only(rank(&jobs, &links, &[candidate(&crossings)], &options).unwrap())
    };
    let placement = with(Aggregate::Mean);
    // Both send for 20 ms: 80 Gbps against 60, 40 and 80.
    let expected = [1.0 - 0.2 * 20.0 / 60.0, 0.8, 1.0];
    for (found, expected) in placement.links.iter().zip(expected) {
        assert!((found.score - expected).abs() < TOLERANCE, "{found:?}");
    }
    assert!((placement.score - expected.iter().sum::<f64>() / 3.0).abs() < TOLERANCE);
    assert_scores(with(Aggregate::Min).score, 0.8);
    assert!((with(Aggregate::Tail { quantile: 0.5 }).score - expected[0]).abs() < TOLERANCE);
    assert_scores(with(Aggregate::Tail { quantile: 1.0 }).score, 1.0);
}

#[test]
fn links_with_the_same_jobs_of_which_none_is_the_tightest_are_solved_together() {
    let jobs = jobs(&[profile(100, 60, 20), profile(100, 60, 20)]);
    let crossings = [on(0, 0, 2), on(1, 0, 1), on(0, 1, 1), on(1, 1, 2)];
    let placement = rank_one(&jobs, &links(&[40; 2]), candidate(&crossings));
    // On each link, 60 Gbps meet 40 for 20 ms.
    assert_scores(placement.score, 0.9);
    assert_eq!(placement.components[0].origin, Origin::LoopFree);
}

#[test]
fn a_loop_that_does_not_close_costs_a_candidate_its_place_by_name() {
    let Frustrated { jobs, links, ring } = frustrated();
    let ranking = rank(&jobs, &links, &[ring], &CassiniOptions::default()).unwrap();
    assert!(ranking.placements.is_empty());
    let message = ranking.discarded[0].reason.to_string();
    for name in ["a", "b", "c", "l0", "l1", "l2", "50 ms", "modulo 100 ms"] {
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn a_loop_that_does_not_close_is_solved_together_if_asked() {
    let Frustrated { jobs, links, ring } = frustrated();
    let options = CassiniOptions { loops: Loops::Solve, ..CassiniOptions::default() };
    let placement = only(rank(&jobs, &links, std::slice::from_ref(&ring), &options).unwrap());
    // Two pairs take turns, the third collides: (1 + 1 + 0.5) ÷ 3, or the same spread over links.
    assert!((placement.score - 2.5 / 3.0).abs() < TOLERANCE, "{placement:?}");
    let Origin::Joint { proven_optimal, bound } = placement.components[0].origin else {
        panic!("solved together: {placement:?}")
    };
    assert!(proven_optimal && (bound - placement.score).abs() < TOLERANCE);
    assert_eq!(placement.time_shifts[placement.components[0].reference], Some(Duration::ZERO));
    assert_scores_are_those_of_the_shifts(&jobs, &links, &ring, &placement);
}

#[test]
fn a_loop_that_closes_keeps_its_place() {
    // Four jobs in a ring, each pair half a period apart: twice half a period, twice, is whole.
    let jobs = jobs(&vec![profile(100, 50, 40); 4]);
    let ring: Vec<_> =
        (0..4).flat_map(|link| [on(link, link, 1), on((link + 1) % 4, link, 1)]).collect();
    let placement = rank_one(&jobs, &links(&[40; 4]), candidate(&ring));
    assert_scores(placement.score, 1.0);
    assert_eq!(placement.components[0].origin, Origin::ClosedLoops);
}

#[test]
fn periods_that_do_not_fit_discard_the_candidate_and_say_which() {
    let odd = Profile::new(Duration::from_ps(99_999_999_977), Vec::new()).unwrap();
    let jobs = jobs(&[profile(100, 50, 40), odd, profile(100, 50, 40)]);
    let candidates =
        [candidate(&[on(0, 0, 1), on(1, 0, 1)]), candidate(&[on(0, 0, 1), on(2, 0, 1)])];
    let ranking = rank(&jobs, &links(&[40]), &candidates, &CassiniOptions::default()).unwrap();
    assert_eq!(ranking.placements[0].candidate, 1);
    let DiscardReason::Unsolvable { jobs, link, source } = &ranking.discarded[0].reason else {
        panic!("the periods do not fit: {ranking:?}")
    };
    assert_eq!((jobs.join(","), link.as_str()), ("a,b".into(), "l0"));
    assert!(matches!(source, CompatError::Incommensurate { .. }));
}

#[test]
fn periods_that_do_not_fit_are_fitted_among_the_jobs_that_share_links() {
    // Jobs 0 and 1 share link 0 and are fitted to each other; job 2 is alone on link 1.
    let jobs = jobs(&[profile(997, 400, 40), profile(1009, 400, 40), profile(613, 400, 40)]);
    let links = links(&[50, 50]);
    let apart = candidate(&[on(0, 0, 1), on(1, 0, 1), on(2, 1, 1)]);
    let together = candidate(&[on(0, 0, 1), on(1, 0, 1), on(2, 0, 1)]);
    let fitted =
        rank_fitted(&jobs, &links, &[together, apart], 0.01, &CassiniOptions::default()).unwrap();
    let best = &fitted.ranking.placements[0];
    assert_eq!(best.candidate, 1);
    assert_scores(best.score, 1.0);
    assert_eq!(best.components[0].jobs, [0, 1]);
    assert_eq!(fitted.fits[0].len(), 1);
    let group = &fitted.fits[0][0];
    assert_eq!(
        (group.jobs.as_slice(), group.fit.rounds.as_slice()),
        ([0, 1].as_slice(), [1, 1].as_slice())
    );
    assert_eq!(best.time_shifts.len(), 3);
    assert_eq!(best.time_shifts[2], None);
    assert!(fitted.ranking.placements[1].score < 0.9);
}

#[test]
fn what_cannot_be_ranked_is_refused_by_name() {
    let jobs = jobs(&[profile(100, 50, 40), profile(100, 50, 40)]);
    let refused =
        |links: &[CassiniLink], candidates: &[Candidate], options: &CassiniOptions<'_>| {
            rank(&jobs, links, candidates, options).unwrap_err().to_string()
        };
    let defaults = CassiniOptions::default();
    assert_eq!(refused(&links(&[40]), &[], &defaults), "there is no candidate to rank");
    assert_eq!(
        refused(&links(&[40]), &[candidate(&[on(2, 0, 1)])], &defaults),
        "candidate x: job 2 is named, but there are only 2, counted from 0"
    );
    assert_eq!(
        refused(&links(&[40]), &[candidate(&[on(0, 1, 1)])], &defaults),
        "candidate x: link 1 is named, but there are only 1, counted from 0"
    );
    assert_eq!(
        refused(&links(&[0]), &[candidate(&[on(0, 0, 1)])], &defaults),
        "link l0: its capacity is 0; it must be higher"
    );
    assert_eq!(
        refused(&links(&[40]), &[candidate(&[on(0, 0, u32::MAX)])], &defaults),
        "candidate x, link l0: the flows demand 2^64 bits per second or more"
    );
    let tail = |quantile| CassiniOptions {
        aggregate: Aggregate::Tail { quantile },
        ..CassiniOptions::default()
    };
    assert_eq!(
        refused(&links(&[40]), &[candidate(&[])], &tail(f64::NAN)),
        "the tail's quantile is NaN, which is not above 0 and at most 1"
    );
}

#[test]
fn a_ranking_that_is_told_to_stop_stops() {
    let jobs = jobs(&[profile(100, 50, 40), profile(100, 50, 40)]);
    let solve = SolveOptions { interrupted: &|| true, ..SolveOptions::default() };
    let options = CassiniOptions { solve, ..CassiniOptions::default() };
    let both = candidate(&[on(0, 0, 1), on(1, 0, 1)]);
    let error = rank(&jobs, &links(&[40]), &[both], &options).unwrap_err();
    assert_eq!(error.to_string(), "stopped before an answer was found");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn links_score_what_their_jobs_shifts_score_whatever_the_loops(
        shapes in prop::collection::vec(
            (prop::sample::select(vec![40u64, 60, 120]), 1u64..40, 1u64..50), 3..6),
        crossings in prop::collection::vec((0usize..7, 0usize..6, 1u32..3), 4..16),
        seed: u64,
    ) {
        let profiles: Vec<Profile> =
            shapes.iter().map(|(period, up, gbps)| profile(*period, *up, *gbps)).collect();
        let (jobs, links) = (jobs(&profiles), links(&[50, 40, 50, 100, 25, 50]));
        let mut crossings = crossings;
        crossings.retain(|(job, _, _)| *job < jobs.len());
        crossings.sort_unstable();
        crossings.dedup_by_key(|(job, link, _)| (*job, *link));
        let crossings = crossings.into_iter().map(|(job, link, flows)| on(job, link, flows));
        let candidate = candidate(&crossings.collect::<Vec<_>>());
        let options = CassiniOptions { loops: Loops::Solve, seed, ..CassiniOptions::default() };
        let placement =
            only(rank(&jobs, &links, std::slice::from_ref(&candidate), &options).unwrap());
        assert_scores_are_those_of_the_shifts(&jobs, &links, &candidate, &placement);
    }
}

#[test]
fn the_ranking_is_the_same_on_one_thread_and_on_many() {
    // Rings of nine and, in steps of three, three rings of three.
    let profiles: Vec<Profile> = (0..9).map(|i| profile(60, 10 + 3 * i, 40)).collect();
    let (jobs, links) = (jobs(&profiles), links(&[50; 9]));
    let candidates: Vec<Candidate> = (1..5)
        .map(|step| {
            let pair = |link| [on(link, link, 1), on((link + step) % 9, link, 1)];
            candidate(&(0..9).flat_map(pair).collect::<Vec<_>>())
        })
        .collect();
    let options = CassiniOptions { loops: Loops::Solve, ..CassiniOptions::default() };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| rank(&jobs, &links, &candidates, &options).unwrap())
    };
    assert_eq!(on(1), on(7));
}

fn shared_link(jobs: usize, gbps: u64) -> Vec<JointLink> {
    let crossings = (0..jobs).map(|job| (job, 1)).collect();
    vec![JointLink { capacity: Rate::from_gbps(gbps), crossings, multiplicity: 1 }]
}

#[test]
fn more_jobs_than_can_be_proven_get_shifts_that_are_proven_by_the_load() {
    // A ring of ten jobs: neighbours take turns if every other one is delayed by half a period.
    let neighbours = |job: usize| JointLink {
        capacity: Rate::from_gbps(40),
        crossings: vec![(job, 1), ((job + 1) % 10, 1)],
        multiplicity: 1,
    };
    let problem = JointProblem {
        jobs: vec![profile(100, 50, 40); 10],
        links: (0..10).map(neighbours).collect(),
        gpu_groups: Vec::new(),
    };
    let found = solve_cluster(&problem, &SolveOptions::default()).unwrap();
    assert_eq!((found.score, found.proven_optimal), (1.0, true));
}

#[test]
fn more_jobs_than_can_be_proven_on_an_overloaded_link_reach_what_the_load_allows() {
    // Twelve jobs that fill the link for a tenth of the time each: a load of 1.2.
    let problem = JointProblem {
        jobs: vec![profile(100, 10, 40); 12],
        links: shared_link(12, 40),
        gpu_groups: Vec::new(),
    };
    let found = solve_cluster(&problem, &SolveOptions::default()).unwrap();
    assert!((found.bound - 0.8).abs() < TOLERANCE, "{found:?}");
    assert!((found.score - 0.8).abs() < TOLERANCE, "{found:?}");
}

#[test]
fn jobs_on_one_gpu_compute_in_turn() {
    // Each computes for 40 of 100 ms, so two fit on a GPU and three do not.
    let problem = |jobs: usize| JointProblem {
        jobs: vec![profile(100, 60, 10); jobs],
        links: shared_link(jobs, 40),
        gpu_groups: vec![(0..jobs).collect()],
    };
    let found = solve_cluster(&problem(2), &SolveOptions::default()).unwrap();
    let apart_ms =
        (found.time_shifts[0].as_ps().abs_diff(found.time_shifts[1].as_ps())) / 1_000_000_000;
    assert!((40..=60).contains(&apart_ms), "{found:?}");
    let none = solve_cluster(&problem(3), &SolveOptions::default());
    assert_eq!(none, Err(CompatError::GpuConflict));
}

#[test]
fn the_gpu_constraint_holds_for_more_jobs_than_can_be_proven() {
    // Five GPUs with two jobs each, all on one link.
    let problem = JointProblem {
        jobs: vec![profile(100, 60, 4); 10],
        links: shared_link(10, 40),
        gpu_groups: (0..5).map(|gpu| vec![2 * gpu, 2 * gpu + 1]).collect(),
    };
    let found = solve_cluster(&problem, &SolveOptions::default()).unwrap();
    for pair in found.time_shifts.chunks(2) {
        let apart_ms = pair[0].as_ps().abs_diff(pair[1].as_ps()) / 1_000_000_000;
        assert!((40..=60).contains(&apart_ms), "{found:?}");
    }
}

#[test]
fn the_batch_size_that_fits_beside_the_others_is_chosen() {
    let problem = BatchProblem {
        jobs: vec![
            vec![profile(100, 70, 40), profile(120, 60, 40), profile(120, 60, 40)],
            vec![profile(120, 60, 40)],
        ],
        links: shared_link(2, 40),
        gpu_groups: Vec::new(),
        tolerance: 0.0,
    };
    let choice = choose_batch_sizes(&problem, &SolveOptions::default()).unwrap();
    assert_eq!(choice.profiles, [1, 0]);
    assert_scores(choice.solution.score, 1.0);
    // 70 + 60 ÷ 1.2 fills more than the link: its load rules the first combination out.
    assert_eq!((choice.combinations, choice.solved), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_combination_of_batch_sizes_beats_the_one_chosen(
        choices in prop::collection::vec(
            prop::collection::vec(
                (prop::sample::select(vec![40u64, 60, 120]), 1u64..40, 1u64..50), 1..4),
            2..4),
    ) {
        let of_job = |shapes: &Vec<(u64, u64, u64)>| -> Vec<Profile> {
            shapes.iter().map(|(period, up, gbps)| profile(*period, *up, *gbps)).collect()
        };
        let problem = BatchProblem {
            jobs: choices.iter().map(of_job).collect(),
            links: shared_link(choices.len(), 40),
            gpu_groups: Vec::new(),
        tolerance: 0.0,
        };
        let chosen = choose_batch_sizes(&problem, &SolveOptions::default()).unwrap();
        for number in 0..chosen.combinations {
            let mut rest = number;
            let pick = problem.jobs.iter().map(|profiles| {
                let place = rest % profiles.len();
                rest /= profiles.len();
                profiles[place].clone()
            });
            let joint = JointProblem {
                jobs: pick.collect(),
                links: problem.links.clone(),
                gpu_groups: Vec::new(),
            };
            let other = solve_cluster(&joint, &SolveOptions::default()).unwrap();
            prop_assert!(other.score <= chosen.solution.score + TOLERANCE);
        }
        prop_assert_eq!(chosen.combinations, choices.iter().map(Vec::len).product::<usize>());
    }
}

#[test]
fn too_many_batch_sizes_are_refused_with_the_limit() {
    let problem = BatchProblem {
        jobs: vec![vec![profile(100, 50, 40); 10]; 4],
        links: shared_link(4, 40),
        gpu_groups: Vec::new(),
        tolerance: 0.0,
    };
    let error = choose_batch_sizes(&problem, &SolveOptions::default()).unwrap_err();
    assert_eq!(error, BatchError::TooManyCombinations { combinations: 10_000 });
    assert_eq!(
        error.to_string(),
        "10000 combinations of batch sizes; at most 4096 are tried: give fewer"
    );
    let none = BatchProblem { jobs: vec![Vec::new()], ..problem };
    let error = choose_batch_sizes(&none, &SolveOptions::default()).unwrap_err();
    assert_eq!(error, BatchError::NoProfile { job: 0 });
}

#[test]
fn no_solved_loop_scores_above_the_bounds_of_its_links() {
    let Frustrated { jobs, links, ring } = frustrated();
    let options = CassiniOptions { loops: Loops::Solve, ..CassiniOptions::default() };
    let prepared =
        Prepared::new(jobs.into(), links.into(), std::slice::from_ref(&ring), &options).unwrap();
    let Ok(Preliminary::Bounded(loose)) = prepared.preliminary(0, &options) else {
        panic!("the loop does not close");
    };
    let tight = prepared.tight_bounds(0, &options).unwrap();
    let placed = prepared.place(0, &options).unwrap();
    for (scored, (loose, tight)) in placed.links.iter().zip(loose.iter().zip(&tight)) {
        assert_eq!((scored.link, scored.link), (loose.0, tight.0));
        assert!(scored.score <= tight.1 + 1e-9 && tight.1 <= loose.1, "{scored:?} {tight:?}");
    }
}
