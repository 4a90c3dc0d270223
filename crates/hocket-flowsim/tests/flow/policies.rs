//! Each policy of a job against numbers that can be worked out by hand or from a formula.

use std::num::NonZeroU16;

use hocket_des::{Duration, Time};
use hocket_flowsim::FlowOptions;
use hocket_scenario::{Adaptive, Job, Share, Span, Weight};

use crate::common::{
    column_f64, column_ps, column_str, column_u64, job, job_of, of_job, on_one_link, run_all,
    run_on_one_link, up,
};

/// The time in which each of two adaptive jobs communicates, in seconds. Both demand the whole link for 1 s, the second
/// one 0.2 s after the first.
fn staggered_adaptive_communication_s(steps: u16) -> [f64; 2] {
    let adaptive = |name, arrival_ms| Job {
        share: Share::adaptive(Weight::ONE),
        arrival: Time::ZERO + Duration::from_ms(arrival_ms),
        ..job_of(name, 10_000, &[up(0, 1_000, 50)])
    };
    let options = FlowOptions {
        adaptive_steps: NonZeroU16::new(steps).expect("a test has steps"),
        ..FlowOptions::default()
    };
    let scenario = on_one_link(vec![adaptive("a", 0), adaptive("b", 200)], 1, 1);
    let outcome = run_all(&scenario, &options);
    ["a", "b"].map(|job| of_job(&outcome.tables.iterations, job, "communication_s")[0])
}

#[test]
fn adaptive_shares_follow_their_differential_equation() {
    // With progress p and q of two equal phases and weights 1 + p and 1 + q, the rates add up to
    // the link's and d(p − q)/d(p + q) = (p − q)/(2 + p + q). From p = h, q = 0 the first phase ends
    // after another 2/(1 + h) − h of its duration alone.
    let head_start_s = 0.2;
    let first_s = head_start_s + 2.0 / (1.0 + head_start_s) - head_start_s;
    let second_s = 2.0 - head_start_s;
    let [a, b] = staggered_adaptive_communication_s(64);
    assert!((a - first_s).abs() < first_s * 1e-4, "{a} against {first_s}");
    assert!((b - second_s).abs() < 1e-9, "{b} against {second_s}");
}

#[test]
fn sixty_four_steps_of_an_adaptive_weight_are_within_half_a_percent_of_a_thousand_and_more() {
    let coarse = staggered_adaptive_communication_s(64);
    let fine = staggered_adaptive_communication_s(4_096);
    for (coarse, fine) in coarse.into_iter().zip(fine) {
        assert!((coarse - fine).abs() < fine * 0.005, "{coarse} against {fine}");
    }
}

#[test]
fn an_adaptive_job_at_its_cap_ends_on_time_after_its_rival_has_left() {
    let capped =
        Job { share: Share::adaptive(Weight::ONE), ..job_of("capped", 100, &[up(0, 80, 25)]) };
    let rival = job_of("rival", 100, &[up(0, 10, 50)]);
    let outcome = run_on_one_link(vec![capped, rival], 1, 1);
    let communication_s = column_f64(&outcome.tables.iterations, "communication_s");
    assert!(communication_s.iter().all(|&s| s > 0.010), "{communication_s:?}");
    assert_eq!(of_job(&outcome.tables.iterations, "capped", "communication_s"), [0.080]);
}

#[test]
fn jitter_breaks_the_symmetry_that_keeps_adaptive_jobs_together() {
    let adaptive = |name| Job { share: Share::adaptive(Weight::ONE), jitter: 0.01, ..job(name) };
    let fair = |name| Job { jitter: 0.01, ..job(name) };
    let mean_s =
        |jobs| column_f64(&run_on_one_link(jobs, 1, 500).tables.jobs, "mean_iteration_s")[0];
    let adaptive_s = mean_s(vec![adaptive("a"), adaptive("b")]);
    let fair_s = mean_s(vec![fair("a"), fair("b")]);
    assert!(adaptive_s < 0.250, "{adaptive_s}");
    assert!(fair_s > adaptive_s, "{fair_s} against {adaptive_s}");
}

/// MLTCP with the parameters of its paper.
fn mltcp() -> Share {
    let weight = |value| Weight::new(value).expect("both are weights");
    let (intercept, slope) = (weight(0.25), weight(1.75));
    Share::Adaptive(Adaptive { intercept, slope, span: Span::Iteration })
}

#[test]
fn mltcp_counts_the_bytes_of_the_whole_iteration() {
    let halves = [up(0, 100, 50), up(200, 100, 50)];
    let grows = Job { share: mltcp(), ..job_of("grows", 300, &halves) };
    let arrival = Time::ZERO + Duration::from_ms(200);
    let fair = Job { arrival, ..job_of("fair", 300, &[up(0, 100, 50)]) };
    let steps = NonZeroU16::new(1_000).expect("it is not zero");
    let rates_until = Time::ZERO + Duration::from_ms(201);
    let options = FlowOptions { adaptive_steps: steps, rates_until, ..FlowOptions::default() };
    let outcome = run_all(&on_one_link(vec![grows, fair], 1, 1), &options);
    let rates = column_u64(&outcome.tables.rates, "rate_bps");
    // Both send from 200 ms on, and half of the bytes were sent before: 1.75 × 1/2 + 0.25 = 9/8, against 1.
    assert_eq!(rates[0], 50_000_000_000);
    assert!((rates[2] as f64 - 50e9 * 9.0 / 17.0).abs() < 50e6, "{rates:?}");
}

#[test]
fn mltcp_lets_two_jobs_that_fit_slide_apart() {
    let pair = |share| {
        let job = |name| Job { share, jitter: 0.01, ..job(name) };
        let outcome = run_on_one_link(vec![job("a"), job("b")], 1, 300);
        let a_s = of_job(&outcome.tables.iterations, "a", "iteration_s");
        a_s[200..].iter().sum::<f64>() / 100.0
    };
    // 240 ms on an idle network, 312 ms if both always send at the same time.
    let (slid_s, fair_s) = (pair(mltcp()), pair(Share::Fair));
    assert!(slid_s < 0.243, "{slid_s}");
    assert!(fair_s > 0.26, "{fair_s}");
}

#[test]
fn jobs_beyond_the_last_queue_share_it_fairly() {
    let with_priority = |name, priority| Job { priority, ..job(name) };
    let jobs = vec![with_priority("a", 0), with_priority("b", 1), with_priority("c", 2)];
    let options = FlowOptions { rates_until: Time::from_ps(1), ..FlowOptions::default() };
    let rates = |queues| {
        let outcome = run_all(&on_one_link(jobs.clone(), queues, 1), &options);
        column_u64(&outcome.tables.rates, "rate_bps").to_vec()
    };
    assert_eq!(rates(2), [40_000_000_000, 5_000_000_000, 5_000_000_000]);
    // A rate that stays at zero is not recorded.
    assert_eq!(rates(3), [40_000_000_000, 10_000_000_000]);
}

#[test]
fn a_policy_acts_only_where_jobs_of_different_policies_share_a_link() {
    let acted = |jobs, queues| {
        column_u64(&run_on_one_link(jobs, queues, 10).tables.jobs, "policy_acted").to_vec()
    };
    assert_eq!(acted(vec![job("a"), job("b")], 1), [0, 0]);
    let low = Job { priority: 1, ..job("b") };
    assert_eq!(acted(vec![job("a"), low.clone()], 1), [0, 0]);
    let with_queues = acted(vec![job("a"), low], 2);
    assert!(with_queues.iter().all(|&count| count > 0), "{with_queues:?}");
}

#[test]
fn a_job_pushed_out_of_its_slot_waits_for_the_next_one() {
    let keeps = Job { time_shift: Some(Duration::ZERO), readjust: true, ..job("keeps") };
    let passing = Job { iterations: Some(1), ..job("passing") };
    let outcome = run_on_one_link(vec![keeps, passing], 1, 5);
    // The first iteration takes 312 ms; the second starts 72 ms late and ends at 552 ms; the next
    // slot is at 720 ms.
    let adjustments = &outcome.tables.adjustments;
    assert_eq!(column_str(adjustments, "job"), ["keeps"]);
    assert_eq!(column_ps(adjustments, "at_s"), [552_000_000_000]);
    assert!((column_f64(adjustments, "deviation_s")[0] - 0.072).abs() < 1e-12);
    assert!((column_f64(adjustments, "delay_s")[0] - 0.168).abs() < 1e-12);
    let delayed_s = of_job(&outcome.tables.iterations, "keeps", "delayed_s");
    for (delayed_s, expected) in delayed_s.iter().zip([0.0, 0.0, 0.168, 0.0, 0.0]) {
        assert!((delayed_s - expected).abs() < 1e-12, "{delayed_s} against {expected}");
    }
    assert_eq!(column_u64(&outcome.tables.jobs, "adjustments"), [1, 0]);
}

#[test]
fn after_every_adjustment_a_drifting_job_starts_within_its_slot() {
    let drifts = Job {
        time_shift: Some(Duration::from_ms(100)),
        readjust: true,
        jitter: 0.03,
        ..job_of("drifts", 240, &[up(60, 120, 40)])
    };
    let outcome = run_on_one_link(vec![drifts], 1, 2_000);
    let iterations = &outcome.tables.iterations;
    let mut adjusted = 0;
    for (start_ps, delayed_s) in
        column_ps(iterations, "start_s").iter().zip(column_f64(iterations, "delayed_s")).skip(1)
    {
        if delayed_s > 0.0 {
            adjusted += 1;
            assert_eq!((start_ps - 100_000_000_000) % 240_000_000_000, 0);
        }
    }
    assert!(adjusted > 0);
    assert_eq!(column_u64(&outcome.tables.jobs, "adjustments"), [adjusted]);
}

#[test]
fn a_padded_job_starts_at_the_pad_and_not_before() {
    let padded = Job { pad_to: Some(Duration::from_ms(300)), ..job("a") };
    let outcome = run_on_one_link(vec![padded], 1, 3);
    let starts_ms: Vec<_> = column_ps(&outcome.tables.iterations, "start_s")
        .iter()
        .map(|ps| ps / 1_000_000_000)
        .collect();
    assert_eq!(starts_ms, [0, 300, 600]);
    let mean_delayed_s = column_f64(&outcome.tables.jobs, "mean_delayed_s")[0];
    assert!((mean_delayed_s - 0.060).abs() < 1e-12);
}

#[test]
fn a_clock_error_spreads_time_shifts_and_never_makes_one_negative() {
    let shifted = |shift_ms, index| Job {
        time_shift: Some(Duration::from_ms(shift_ms)),
        clock_error: Duration::from_ms(10),
        ..job(&format!("{shift_ms}-{index}")).crossing(Vec::new())
    };
    let shifts = |shift_ms| {
        let jobs = (0..200).map(|index| shifted(shift_ms, index)).collect();
        column_f64(&run_on_one_link(jobs, 1, 1).tables.jobs, "time_shift_s").to_vec()
    };
    let around_100_ms = shifts(100);
    let mean = around_100_ms.iter().sum::<f64>() / 200.0;
    let variance = around_100_ms.iter().map(|shift| (shift - mean).powi(2)).sum::<f64>() / 199.0;
    // Five standard errors of a mean, and of a standard deviation, of 200 draws of 10 ms.
    assert!((mean - 0.100).abs() < 0.0036, "{mean}");
    assert!((variance.sqrt() - 0.010).abs() < 0.0025, "{}", variance.sqrt());
    let around_zero = shifts(0);
    let at_zero = around_zero.iter().filter(|&&shift| shift == 0.0).count();
    assert!(around_zero.iter().all(|&shift| shift >= 0.0));
    assert!(at_zero.abs_diff(100) < 36, "{at_zero}");
}
