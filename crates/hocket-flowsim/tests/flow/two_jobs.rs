//! Two jobs on one link, with numbers that can be checked by hand: a period of 240 ms, half of it
//! Up at 40 Gbps, on 50 Gbps.

use crate::common::{column_f64, job, on_one_link, run_all, run_on_one_link};
use hocket_des::{Duration, Time};
use hocket_flowsim::{FlowOptions, Goodput};
use hocket_scenario::{Job, Share, Weight};

#[test]
fn under_max_min_two_jobs_that_start_together_slow_each_other_for_ever() {
    let outcome = run_on_one_link(vec![job("a"), job("b")], 1, 50);
    // 40 Gbps × 120 ms at 25 Gbps take 192 ms; 120 ms of compute follow.
    for (iteration_s, communication_s) in column_f64(&outcome.tables.iterations, "iteration_s")
        .iter()
        .zip(column_f64(&outcome.tables.iterations, "communication_s"))
    {
        assert!((iteration_s - 0.312).abs() < 1e-12);
        assert!((communication_s - 0.192).abs() < 1e-12);
    }
}

#[test]
fn jobs_that_contend_lose_goodput_and_jobs_that_take_turns_lose_none() {
    let goodput = Goodput::new(&[0.8]).unwrap();
    let options = FlowOptions { goodput, ..FlowOptions::default() };
    let iterations_s = |jobs| {
        column_f64(&run_all(&on_one_link(jobs, 1, 20), &options).tables.iterations, "iteration_s")
    };
    // 40 Gbps × 120 ms at 20 Gbps each, four fifths of a fair share, take 240 ms.
    for iteration_s in iterations_s(vec![job("a"), job("b")]) {
        assert!((iteration_s - 0.360).abs() < 1e-12);
    }
    let shifted = Job { time_shift: Some(Duration::from_ms(120)), ..job("b") };
    for iteration_s in iterations_s(vec![job("a"), shifted]) {
        assert!((iteration_s - 0.240).abs() < 1e-12);
    }
}

#[test]
fn a_time_shift_of_half_a_period_lets_both_jobs_run_as_if_alone() {
    let shifted = Job { time_shift: Some(Duration::from_ms(120)), ..job("b") };
    let outcome = run_on_one_link(vec![job("a"), shifted], 1, 50);
    for iteration_s in column_f64(&outcome.tables.iterations, "iteration_s") {
        assert!((iteration_s - 0.240).abs() < 1e-12);
    }
    assert_eq!(column_f64(&outcome.tables.jobs, "time_shift_s"), [0.0, 0.120]);
}

#[test]
fn a_weight_of_two_slides_the_jobs_apart_until_both_run_as_if_alone() {
    let strong = Job { share: Share::Weighted(Weight::new(2.0).unwrap()), ..job("a") };
    let outcome = run_on_one_link(vec![strong, job("b")], 1, 20);
    let iterations = &outcome.tables.iterations;
    // First 33.3 against 16.7 Gbps: 144 ms; then b has 2.4 Gbit left, for 40 Gbps: 60 ms.
    let communication_s = column_f64(iterations, "communication_s");
    assert!((communication_s[0] - 0.144).abs() < 1e-9);
    assert!((communication_s[1] - 0.204).abs() < 1e-9);
    for iteration_s in &column_f64(iterations, "iteration_s")[20..] {
        assert!((iteration_s - 0.240).abs() < 0.240 * 0.001, "{iteration_s}");
    }
}

#[test]
fn strict_priority_slides_the_jobs_apart_and_never_slows_the_first() {
    let low = Job { priority: 1, ..job("b") };
    let outcome = run_on_one_link(vec![job("a"), low], 2, 20);
    let p99_s = column_f64(&outcome.tables.jobs, "p99_iteration_s");
    assert!((p99_s[0] - 0.240).abs() < 1e-12);
    let iterations = column_f64(&outcome.tables.iterations, "iteration_s");
    assert!((iterations.last().unwrap() - 0.240).abs() < 1e-9);
}

#[test]
fn equal_adaptive_jobs_stay_symmetric_in_symmetry_and_slide_apart_after_an_offset() {
    let adaptive = |name, arrival_ms| Job {
        share: Share::adaptive(Weight::ONE),
        arrival: Time::ZERO + Duration::from_ms(arrival_ms),
        ..job(name)
    };
    let together = run_on_one_link(vec![adaptive("a", 0), adaptive("b", 0)], 1, 100);
    let mean_s = column_f64(&together.tables.jobs, "mean_iteration_s");
    assert!(mean_s.iter().all(|mean_s| (mean_s - 0.312).abs() < 1e-9), "{mean_s:?}");
    let offset = run_on_one_link(vec![adaptive("a", 0), adaptive("b", 1)], 1, 100);
    let iterations = column_f64(&offset.tables.iterations, "iteration_s");
    for iteration_s in &iterations[180..] {
        assert!((iteration_s - 0.240).abs() < 0.240 * 0.01, "{iteration_s}");
    }
}
