//! Values at the ends of their range: an answer or an error, never a panic.

use std::time::Duration as Wall;

use hocket_compat::perimeter::LONGEST_PERIMETER;
use hocket_compat::{
    CompatError, LinkProblem, Method, SolveOptions, commensurate, score_of, solve,
};
use hocket_des::{Duration, Rate};
use hocket_scenario::{Phase, Profile};
use proptest::prelude::*;

/// Zero, one, the largest, their neighbours, powers of two, and anything.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(u64::MAX / 2),
        (0..64_u32).prop_map(|power| 1 << power),
        any::<u64>(),
        1..1_000_u64,
    ]
}

fn phase(start_ps: u64, duration_ps: u64, rate_bps: u64) -> Phase {
    Phase {
        start: Duration::from_ps(start_ps),
        duration: Duration::from_ps(duration_ps),
        rate: Rate::from_bps(rate_bps),
    }
}

fn any_phase() -> impl Strategy<Value = Phase> {
    (extreme(), extreme(), extreme())
        .prop_map(|(start, duration, rate)| phase(start, duration, rate))
}

/// A profile with a phase like `up`, adjusted to fit in the period.
fn fitted(period: Duration, up: &Phase) -> Profile {
    let period_ps = period.as_ps().max(1);
    let start_ps = up.start.as_ps() % period_ps;
    let duration_ps = up.duration.as_ps().clamp(1, period_ps - start_ps);
    let up = phase(start_ps, duration_ps, up.rate.as_bps().max(1));
    Profile::new(Duration::from_ps(period_ps), vec![up]).expect("the phase was made to fit")
}

/// A valid profile with a period and a rate from the ends of their range.
fn valid_profile() -> impl Strategy<Value = Profile> {
    (extreme(), any_phase()).prop_map(|(period_ps, up)| fitted(Duration::from_ps(period_ps), &up))
}

/// Profiles with one period, so that they have a common circle.
fn profiles_of_one_period() -> impl Strategy<Value = Vec<Profile>> {
    (extreme(), prop::collection::vec(any_phase(), 1..4)).prop_map(|(period_ps, ups)| {
        ups.iter().map(|up| fitted(Duration::from_ps(period_ps), up)).collect()
    })
}

fn method() -> impl Strategy<Value = Method> {
    let degrees = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(0.0),
        Just(-1.0),
        Just(f64::MIN_POSITIVE),
        0.01..400.0,
    ];
    prop_oneof![Just(Method::Exact), degrees.prop_map(|degrees| Method::Precision { degrees })]
}

#[test]
fn a_circle_of_more_than_26_days_is_refused_with_the_limit() {
    // Places on it could not be added within 64 bits: the search would overflow.
    let period = Duration::from_ps(u64::MAX);
    let job = Profile::new(period, vec![phase(0, 1, 1)]).expect("one picosecond fits");
    let jobs = vec![job.clone(), job];
    let link = LinkProblem { capacity: Rate::from_bps(1), jobs, gpu_groups: Vec::new() };
    let options = SolveOptions { method: Method::Exact, ..SolveOptions::default() };
    let error = solve(&link, &options).expect_err("the circle is too long");
    assert_eq!(error, CompatError::CircleTooLong { limit: LONGEST_PERIMETER });
    assert_eq!(
        score_of(link.capacity, &link.jobs, &[Duration::ZERO; 2], false)
            .expect_err("the same circle"),
        error
    );
}

proptest! {
    #[test]
    fn a_profile_of_any_numbers_is_valid_or_refused(
        period_ps in extreme(),
        phases in prop::collection::vec(any_phase(), 0..5),
    ) {
        if let Ok(profile) = Profile::new(Duration::from_ps(period_ps), phases) {
            prop_assert!(profile.up_time() <= profile.period());
        }
    }

    #[test]
    fn any_link_of_any_jobs_has_an_answer_within_its_bound_or_an_error(
        capacity_bps in extreme(),
        jobs in prop_oneof![prop::collection::vec(valid_profile(), 0..4), profiles_of_one_period()],
        gpu_groups in prop::collection::vec(prop::collection::vec(0..5_usize, 0..3), 0..3),
        method in method(),
        strict in any::<bool>(),
    ) {
        let link = LinkProblem { capacity: Rate::from_bps(capacity_bps), jobs, gpu_groups };
        let time_limit = Wall::from_millis(20);
        let options = SolveOptions { method, strict, time_limit, ..SolveOptions::default() };
        if let Ok(solution) = solve(&link, &options) {
            prop_assert!(solution.score <= solution.bound + 1e-9, "{solution:?}");
            for (shift, job) in solution.time_shifts.iter().zip(&link.jobs) {
                prop_assert!(*shift < job.period());
            }
        }
    }

    #[test]
    fn any_periods_fit_within_the_tolerance_or_are_refused(
        periods_ps in prop::collection::vec(extreme(), 0..5),
        tolerance in prop_oneof![Just(f64::NAN), Just(-0.1), 0.0..0.6],
    ) {
        let periods: Vec<Duration> = periods_ps.into_iter().map(Duration::from_ps).collect();
        if let Ok(fit) = commensurate(&periods, tolerance) {
            prop_assert!(fit.error <= tolerance + 1e-9);
            for (padded, given) in fit.padded_periods.iter().zip(&periods) {
                prop_assert!(padded >= given);
            }
        }
    }

    #[test]
    fn any_shifts_can_be_scored_or_are_refused(
        capacity_bps in extreme(),
        jobs in profiles_of_one_period(),
        shifts_ps in prop::collection::vec(extreme(), 0..4),
    ) {
        let shifts: Vec<Duration> = shifts_ps.into_iter().map(Duration::from_ps).collect();
        if let Ok(score) = score_of(Rate::from_bps(capacity_bps), &jobs, &shifts, false) {
            prop_assert!(score <= 1.0);
        }
    }
}
