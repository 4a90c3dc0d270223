//! The solvers on cases that can be checked by hand, and against a search of all shifts.

#![expect(clippy::float_cmp, reason = "without any excess the score is exactly 1")]

#[path = "../src/testing.rs"]
mod testing;

use hocket_compat::{
    CompatError, JointLink, JointProblem, LinkProblem, Method, Solution, SolveOptions, score_of,
    solve, solve_joint,
};
use hocket_des::{Duration, Rate};
use hocket_scenario::Profile;
use proptest::prelude::*;

use testing::{profile, up};

fn link(jobs: Vec<Profile>) -> LinkProblem {
    LinkProblem { capacity: Rate::from_gbps(50), jobs, gpu_groups: Vec::new() }
}

fn exactly() -> SolveOptions<'static> {
    SolveOptions { method: Method::Exact, ..SolveOptions::default() }
}

fn rescored(link: &LinkProblem, solution: &Solution) -> f64 {
    score_of(link.capacity, &link.jobs, &solution.time_shifts, false)
        .expect("a solution can be scored")
}

#[test]
fn jobs_of_40_and_60_ms_become_compatible_when_the_first_turns_by_30_degrees() {
    // HotNets'22 Figure 5: on the circle of 120 ms, 30 degrees are 10 ms.
    let link = link(vec![profile(40, &[up(0, 10, 40)]), profile(60, &[up(0, 10, 40)])]);
    let turned = [Duration::from_ms(10), Duration::ZERO];
    assert!(score_of(link.capacity, &link.jobs, &[Duration::ZERO; 2], false).unwrap() < 1.0);
    assert!((score_of(link.capacity, &link.jobs, &turned, false).unwrap() - 1.0).abs() < 1e-12);
    for strict in [false, true] {
        let solution = solve(&link, &SolveOptions { strict, ..SolveOptions::default() }).unwrap();
        assert_eq!((solution.score, solution.proven_optimal), (1.0, true));
        assert_eq!(solution.perimeter, Duration::from_ms(120));
        assert!(solution.rotations_deg[0] < 120.0 && solution.rotations_deg[1] < 180.0);
    }
}

#[test]
fn two_equal_jobs_with_room_to_spare_are_put_opposite_each_other() {
    let link = link(vec![profile(240, &[up(140, 100, 40)]); 2]);
    for options in [SolveOptions::default(), exactly()] {
        let solution = solve(&link, &options).unwrap();
        let shift = solution.time_shifts[1].as_secs_f64() - solution.time_shifts[0].as_secs_f64();
        assert!((shift.abs() - 0.120).abs() < 1e-9, "{solution:?}");
    }
}

#[test]
fn demand_form_lets_small_jobs_overlap_where_strict_form_does_not() {
    let link = link(vec![profile(100, &[up(0, 80, 20)]), profile(100, &[up(0, 80, 20)])]);
    let demand = solve(&link, &SolveOptions::default()).unwrap();
    let strict = solve(&link, &SolveOptions { strict: true, ..SolveOptions::default() }).unwrap();
    assert_eq!(demand.score, 1.0);
    // Two jobs at once for 60 of 100 ms: one too many for 0.6 of the circle. A precision of
    // 5 degrees cannot change that.
    assert!((strict.score - 0.4).abs() < 1e-9, "{}", strict.score);
}

#[test]
fn continuous_shifts_find_a_fit_that_five_degrees_miss() {
    // Three jobs fill the circle of 100 ms without a gap: 33 + 33 + 34 ms; 5 degrees are 1.39 ms.
    let link = link(vec![
        profile(100, &[up(0, 33, 40)]),
        profile(100, &[up(0, 33, 40)]),
        profile(100, &[up(0, 34, 40)]),
    ]);
    let discrete = solve(&link, &SolveOptions::default()).unwrap();
    let exact = solve(&link, &exactly()).unwrap();
    assert!(discrete.score < 1.0 && discrete.proven_optimal);
    assert_eq!(exact.score, 1.0);
    assert_eq!(rescored(&link, &exact), 1.0);
}

#[test]
fn jobs_on_one_gpu_do_not_compute_at_the_same_time() {
    // Each sends for 60 of 100 ms and computes for 40: computing in turn forces sending together.
    let jobs = vec![profile(100, &[up(0, 60, 40)]), profile(100, &[up(0, 60, 40)])];
    let free = link(jobs.clone());
    let shared = LinkProblem { gpu_groups: vec![vec![0, 1]], ..free.clone() };
    for options in
        [SolveOptions { method: Method::Precision { degrees: 3.6 }, ..exactly() }, exactly()]
    {
        let free = solve(&free, &options).unwrap();
        let shared = solve(&shared, &options).unwrap();
        assert!(shared.score <= free.score);
        let apart = shared.time_shifts[1].as_ps().abs_diff(shared.time_shifts[0].as_ps());
        let apart_ms = apart / 1_000_000_000;
        assert!((40..=60).contains(&apart_ms), "compute phases overlap at {apart_ms} ms");
    }
    let busy = vec![profile(100, &[up(0, 40, 10)]), profile(100, &[up(0, 40, 10)])];
    let busy = LinkProblem { gpu_groups: vec![vec![0, 1]], ..link(busy) };
    assert_eq!(solve(&busy, &SolveOptions::default()), Err(CompatError::GpuConflict));
    assert_eq!(solve(&busy, &exactly()), Err(CompatError::GpuConflict));
}

#[test]
fn one_shift_per_job_serves_several_links() {
    // On each link two jobs that fill it half the time: 0|1, 1|2, and 0|2 cannot all be apart.
    let jobs = vec![profile(100, &[up(0, 50, 50)]); 3];
    let pair = |a: usize, b: usize| JointLink {
        capacity: Rate::from_gbps(50),
        crossings: vec![(a, 1), (b, 1)],
        multiplicity: 1,
    };
    let chain = JointProblem { jobs, links: vec![pair(0, 1), pair(1, 2)], gpu_groups: Vec::new() };
    let ring = JointProblem { links: vec![pair(0, 1), pair(1, 2), pair(0, 2)], ..chain.clone() };
    for options in [SolveOptions::default(), exactly()] {
        assert_eq!(solve_joint(&chain, &options).unwrap().score, 1.0);
        // However they turn, the three arcs of half a circle overlap by half a circle in total:
        // the mean over three links loses 0.5 ÷ 3.
        let ring = solve_joint(&ring, &options).unwrap();
        assert!((ring.score - (1.0 - 0.5 / 3.0)).abs() < 1e-9, "{}", ring.score);
        assert!(ring.proven_optimal);
    }
}

/// Ten jobs with a mean demand of 78.6 Gbps on a link of 80: neither load nor shapes decide.
fn ten_jobs_on_a_full_link() -> LinkProblem {
    let job =
        |i: u64| profile(360, &[up(0, 31 + 7 * i, 11 + 3 * i), up(150 + 3 * i, 40 + i, 30 - i)]);
    LinkProblem { capacity: Rate::from_gbps(80), ..link((0..10).map(job).collect()) }
}

#[test]
fn without_time_the_best_found_comes_with_a_bound() {
    let link = ten_jobs_on_a_full_link();
    for method in [Method::Precision { degrees: 1.0 }, Method::Exact] {
        let time_limit = std::time::Duration::from_millis(50);
        let options = SolveOptions { method, time_limit, ..SolveOptions::default() };
        let solution = solve(&link, &options).unwrap();
        assert!(!solution.proven_optimal);
        assert!(solution.score < solution.bound && solution.bound <= 1.0, "{solution:?}");
        assert!((rescored(&link, &solution) - solution.score).abs() < 1e-9);
    }
}

#[test]
fn a_limit_of_steps_ends_a_search_at_the_same_answer_every_time() {
    let link = ten_jobs_on_a_full_link();
    for method in [Method::Precision { degrees: 1.0 }, Method::Exact] {
        let limited = |step_limit| {
            solve(&link, &SolveOptions { method, step_limit, ..SolveOptions::default() }).unwrap()
        };
        let (few, more) = (limited(1_000), limited(100_000));
        assert_eq!(few, limited(1_000));
        assert!(!more.proven_optimal && few.nodes <= more.nodes);
        assert!(few.score <= more.score && more.score < more.bound && more.bound <= few.bound);
        assert!((rescored(&link, &few) - few.score).abs() < 1e-9);
    }
}

#[test]
fn rounds_without_a_usable_number_of_sectors_are_solved_over_all_shifts() {
    // 97, 89 and 83 rounds: every rotation would be a whole sector only on a circle of 716,539.
    let period = |rounds: u64| 97 * 89 * 83 / rounds;
    let link =
        link([97, 89, 83].map(|rounds| profile(period(rounds), &[up(0, 2_000, 20)])).to_vec());
    let time_limit = std::time::Duration::from_millis(200);
    let solution = solve(&link, &SolveOptions { time_limit, ..SolveOptions::default() }).unwrap();
    assert_eq!(solution.precision_deg, 0.0);
    assert!((rescored(&link, &solution) - solution.score).abs() < 1e-9);
}

#[test]
fn a_precision_out_of_range_is_named() {
    let link = link(vec![profile(100, &[up(0, 33, 40)])]);
    for degrees in [f64::NAN, 0.0, -5.0, 0.09, 90.1] {
        let options =
            SolveOptions { method: Method::Precision { degrees }, ..SolveOptions::default() };
        assert!(matches!(solve(&link, &options), Err(CompatError::Precision { .. })));
    }
}

#[test]
fn equal_jobs_with_room_are_put_in_the_middle_of_it_even_where_few_ticks_make_the_circle() {
    // Up 120 of 300 ms each, on a circle of 5 ticks of 60 ms: from 120 to 180 ms all shifts are
    // equally good, and the middle lies between two ticks.
    let jobs = vec![profile(300, &[up(180, 120, 40)]); 2];
    let solution = solve(&link(jobs), &exactly()).unwrap();
    assert_eq!(solution.score, 1.0);
    assert!(solution.time_shifts[1].as_ps().abs_diff(150_000_000_000) < 10_000_000, "{solution:?}");
}

#[test]
fn more_jobs_than_a_search_over_all_shifts_takes_are_searched_in_steps() {
    // Edges on odd milliseconds of a circle of 367 ms, which is no small grid of ticks.
    let jobs = (0..65u64).map(|i| profile(367, &[up(0, 10 + i, 1)])).collect();
    let solution = solve(&link(jobs), &exactly()).unwrap();
    assert_eq!(solution.precision_deg, 5.0);
}

#[test]
fn thousands_of_jobs_end_at_the_limit_of_steps_with_the_bound_of_their_load() {
    let jobs = (0..2_000u64).map(|i| profile(360, &[up(0, 100 + i % 97, 1 + i % 7)])).collect();
    let link = LinkProblem { capacity: Rate::from_gbps(4_000), ..link(jobs) };
    let options = SolveOptions { step_limit: 1_000_000, ..SolveOptions::default() };
    let solution = solve(&link, &options).unwrap();
    assert!(solution.score <= solution.bound && solution.bound <= 1.0, "{solution:?}");
    assert!((rescored(&link, &solution) - solution.score).abs() < 1e-9);
}

#[test]
fn one_job_alone_needs_no_shift() {
    for options in [SolveOptions::default(), exactly()] {
        let solution = solve(&link(vec![profile(100, &[up(10, 33, 40)])]), &options).unwrap();
        assert_eq!((solution.score, solution.time_shifts[0]), (1.0, Duration::ZERO));
    }
}

/// Jobs whose edges lie on whole milliseconds of a circle of 24 ms.
fn small_jobs() -> impl Strategy<Value = Vec<Profile>> {
    let drawn = (prop::sample::select(vec![6u64, 8, 12, 24]), any::<[u8; 4]>(), 1u64..60, 1u64..60);
    prop::collection::vec(drawn, 2..4).prop_map(|jobs| {
        jobs.into_iter()
            .map(|(period, cuts, first, second)| {
                let mut cuts: Vec<u64> =
                    cuts.iter().map(|cut| u64::from(*cut) % (period + 1)).collect();
                cuts.sort_unstable();
                let phases =
                    [up(cuts[0], cuts[1] - cuts[0], first), up(cuts[2], cuts[3] - cuts[2], second)];
                let phases: Vec<_> =
                    phases.into_iter().filter(|phase| !phase.duration.is_zero()).collect();
                profile(period, &phases)
            })
            .collect()
    })
}

/// The best score over all shifts by whole milliseconds: slow, and hard to get wrong.
fn best_by_trying_all(link: &LinkProblem) -> f64 {
    // All edges lie on whole milliseconds, so an optimum over all shifts does too.
    let mut shifts = vec![0u64; link.jobs.len()];
    let mut best = f64::NEG_INFINITY;
    loop {
        let tried: Vec<Duration> = shifts.iter().map(|ms| Duration::from_ms(*ms)).collect();
        best =
            best.max(score_of(link.capacity, &link.jobs, &tried, false).expect("it has a circle"));
        let Some(job) = (0..shifts.len())
            .find(|job| Duration::from_ms(shifts[*job] + 1) < link.jobs[*job].period())
        else {
            return best;
        };
        shifts[..job].fill(0);
        shifts[job] += 1;
    }
}

proptest! {
    #[test]
    fn both_solvers_agree_with_trying_all_shifts(jobs in small_jobs()) {
        let link = link(jobs);
        let expected = best_by_trying_all(&link);
        let grid = SolveOptions { method: Method::Precision { degrees: 15.0 }, ..exactly() };
        for options in [grid, exactly()] {
            let solution = solve(&link, &options).unwrap();
            prop_assert!(solution.proven_optimal);
            prop_assert!((solution.score - expected).abs() < 1e-9, "{} for {expected}", solution.score);
            prop_assert!((rescored(&link, &solution) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn continuous_shifts_are_never_worse_than_discrete_ones(
        jobs in small_jobs(), degrees in 1.0f64..40.0,
    ) {
        let link = link(jobs);
        let grid = SolveOptions { method: Method::Precision { degrees }, ..exactly() };
        let (discrete, exact) = (solve(&link, &grid).unwrap(), solve(&link, &exactly()).unwrap());
        prop_assert!(discrete.score <= exact.score + 1e-12);
        // Shifts are rounded to picoseconds: up to 32 edges on 24 ms are off by half of one.
        prop_assert!((rescored(&link, &discrete) - discrete.score).abs() < 1e-8);
    }

    #[test]
    fn turning_all_circles_alike_changes_no_score(jobs in small_jobs(), turn_ms in 0u64..100) {
        let link = link(jobs);
        let turned = vec![Duration::from_ms(turn_ms); link.jobs.len()];
        let still = vec![Duration::ZERO; link.jobs.len()];
        let score = |shifts: &[Duration]| score_of(link.capacity, &link.jobs, shifts, false).unwrap();
        prop_assert!((score(&turned) - score(&still)).abs() < 1e-12);
    }
}
