//! Periods that do not fit: real iteration times have no small common multiple. This finds the
//! nearest periods that have one, and reports how long an interleaving computed for them lasts, and
//! the cost of padding iterations so that it lasts for ever.

use hocket_des::Duration;
use hocket_scenario::{Phase, Profile};
use num_integer::Integer;

use crate::error::CompatError;
use crate::perimeter::MAX_ROUNDS;
use crate::problem::checked_lcm;

/// An interleaving is spoiled once a job has drifted by this share of its iteration: the bound at
/// which CASSINI's agents re-adjust (NSDI'24 section 5.7).
pub const DRIFT_LIMIT_PERCENT: u64 = 5;

/// The most iterations of one job on an exact common multiple: with more, every rotation below
/// 2π/r_j (Equation 4) is less than one step of the usual 5 degrees, and the nearest periods on a
/// smaller circle are used.
pub const EXACT_ROUNDS: u64 = 72;

// Errors are compared as integers, so that floating point decides no order.
const PARTS_PER_TRILLION: u128 = 1_000_000_000_000;

/// Periods that have a common multiple, near the given ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Commensurate {
    /// The common multiple of `periods`: the perimeter of the unified circle, in picoseconds a
    /// multiple of all `rounds`.
    pub perimeter: Duration,
    /// By job: iterations per perimeter.
    pub rounds: Vec<u64>,
    /// By job: the period on the circle, `perimeter ÷ rounds`.
    pub periods: Vec<Duration>,
    /// The largest relative difference between a given period and the one on the circle.
    pub error: f64,
    /// The time for which all pairs of jobs keep their relative position to within 5% of the
    /// shorter iteration if they run at their given periods; `None` if for ever.
    pub holds_for: Option<Duration>,
    /// By job: the shortest periods with these `rounds` on a common circle, none below the given
    /// one. A job that waits at the end of each iteration until its padded period is over keeps its
    /// position for ever.
    pub padded_periods: Vec<Duration>,
}

impl Commensurate {
    /// By job: the time that padding adds to an iteration, as a share of the given period.
    pub fn padding_cost(&self, given: &[Duration]) -> Vec<f64> {
        let longer = |(padded, given): (&Duration, &Duration)| {
            padded.as_secs_f64() / given.as_secs_f64() - 1.0
        };
        self.padded_periods.iter().zip(given).map(longer).collect()
    }
}

/// The given periods if they have a usable common multiple, on which no job has more than
/// [`EXACT_ROUNDS`] iterations. Otherwise, the periods on the smallest circle where each lies
/// within `tolerance` (relative) of the given one; among the perimeters of that circle, the one
/// that minimises the largest error.
///
/// # Errors
/// If there is no period, one is zero, the tolerance is not between 0 and 0.5, or no circle of at
/// most [`MAX_ROUNDS`] iterations of one job is within the tolerance.
pub fn commensurate(periods: &[Duration], tolerance: f64) -> Result<Commensurate, CompatError> {
    if !(0.0..=0.5).contains(&tolerance) {
        return Err(CompatError::Tolerance { tolerance: tolerance.to_string() });
    }
    let longest = periods.iter().max().ok_or(CompatError::NoJobs)?.as_ps();
    let shortest = periods.iter().min().ok_or(CompatError::NoJobs)?.as_ps();
    if shortest == 0 {
        return Err(CompatError::ZeroPeriod);
    }
    let fits = |tolerance_ppt: u128, rounds_limit: u64| {
        let laps_limit = rounds_limit.saturating_mul(shortest) / longest;
        // Rounds are rounded to whole numbers, so one lap may be within the limit even if this
        // quotient is 0.
        (1..=laps_limit.max(1))
            .filter_map(|laps| fit(periods, u128::from(laps) * u128::from(longest)))
            .filter(move |fit| fit.rounds.iter().all(|rounds| *rounds <= rounds_limit))
            .find(move |fit| fit.error_ppt <= tolerance_ppt)
    };
    fits(0, EXACT_ROUNDS)
        .or_else(|| fits((tolerance * PARTS_PER_TRILLION as f64) as u128, MAX_ROUNDS))
        .map(|fit| fit.finish(periods))
        .ok_or(CompatError::Incommensurate { rounds_limit: MAX_ROUNDS })
}

/// `profile` with an iteration of `period`: phases keep their position and length relative to the
/// iteration, rounded down to picoseconds. A phase that rounds to nothing disappears.
pub fn stretched(profile: &Profile, period: Duration) -> Profile {
    let (from, to) = (u128::from(profile.period().as_ps()), u128::from(period.as_ps()));
    let scale = |t: Duration| {
        let ps = u128::from(t.as_ps()) * to / from;
        Duration::from_ps(u64::try_from(ps).expect("a phase is no longer than its period"))
    };
    // Ends are scaled instead of durations, so that adjacent phases stay adjacent and the last one
    // inside the period.
    let phases = profile.phases().iter().map(|phase| {
        let start = scale(phase.start);
        Phase { start, duration: scale(phase.end()) - start, rate: phase.rate }
    });
    let phases = phases.filter(|phase| !phase.duration.is_zero()).collect();
    Profile::new(period, phases).expect("scaling keeps phases in order and inside the period")
}

/// A circle on which each period is near the given one.
struct Fit {
    rounds: Vec<u64>,
    perimeter: u128,
    /// The largest relative error of a period, in parts per trillion.
    error_ppt: u128,
}

/// The best circle near `target`, in picoseconds: whole rounds for each job, and the perimeter that
/// minimises the largest relative error. `None` if a period is more than twice `target`, or numbers
/// exceed 128 bits.
fn fit(periods: &[Duration], target: u128) -> Option<Fit> {
    let rounds: Vec<u64> = periods
        .iter()
        .map(|period| {
            let period = u128::from(period.as_ps());
            u64::try_from((target + period / 2) / period).ok().filter(|rounds| *rounds > 0)
        })
        .collect::<Option<_>>()?;
    let (shortest, longest) = laps(periods, &rounds);
    // With lengths a ≤ b, the relative errors P/a − 1 and 1 − P/b are equal at P = 2ab/(a + b).
    let balanced = (2 * shortest).checked_mul(longest)? / (shortest + longest);
    // A multiple of all rounds divides into periods of whole picoseconds.
    let step = rounds.iter().try_fold(1u128, |lcm, r| checked_lcm(lcm, u128::from(*r)))?;
    let perimeter = (balanced + step / 2) / step * step;
    let off = perimeter.abs_diff(shortest).max(perimeter.abs_diff(longest));
    // Relative to the shortest lap, the error is never understated.
    Some(Fit { rounds, perimeter, error_ppt: off.checked_mul(PARTS_PER_TRILLION)? / shortest })
}

impl Fit {
    fn finish(self, given: &[Duration]) -> Commensurate {
        let Self { rounds, perimeter, error_ppt } = self;
        let duration = |ps: u128| {
            Duration::from_ps(u64::try_from(ps).expect("at most 720 iterations, each below a day"))
        };
        let (_, longest) = laps(given, &rounds);
        let step = rounds.iter().fold(1, |lcm: u64, r| lcm / lcm.gcd(r) * r);
        // Rounded up, since no job can run faster than its given period.
        let padded_perimeter = longest.div_ceil(u128::from(step)) * u128::from(step);
        let each = |perimeter: u128| {
            rounds.iter().map(|r| duration(perimeter / u128::from(*r))).collect::<Vec<_>>()
        };
        Commensurate {
            perimeter: duration(perimeter),
            periods: each(perimeter),
            padded_periods: each(padded_perimeter),
            error: error_ppt as f64 / PARTS_PER_TRILLION as f64,
            holds_for: holds_for(given, &rounds),
            rounds,
        }
    }
}

/// The time until some pair of jobs has drifted by 5% of its shorter iteration; `None` if no pair
/// drifts. In one lap of the faster job, a pair drifts by the difference of their laps.
fn holds_for(given: &[Duration], rounds: &[u64]) -> Option<Duration> {
    let laps: Vec<u128> =
        given.iter().zip(rounds).map(|(p, r)| u128::from(p.as_ps()) * u128::from(*r)).collect();
    let mut soonest: Option<u128> = None;
    for (j, lap) in laps.iter().enumerate() {
        for (k, other) in laps.iter().enumerate().take(j) {
            let shorter = u128::from(given[j].min(given[k]).as_ps());
            let limit = shorter * u128::from(DRIFT_LIMIT_PERCENT) / 100;
            let drift = lap.abs_diff(*other);
            // Without drift, the division has no result: this pair keeps its position for ever.
            if let Some(time) = limit.saturating_mul(*lap.min(other)).checked_div(drift) {
                soonest = Some(soonest.map_or(time, |soonest| soonest.min(time)));
            }
        }
    }
    soonest.map(|ps| Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX)))
}

/// The shortest and the longest time in which a job completes its rounds, in picoseconds.
fn laps(periods: &[Duration], rounds: &[u64]) -> (u128, u128) {
    let laps = || {
        periods.iter().zip(rounds).map(|(p, rounds)| u128::from(p.as_ps()) * u128::from(*rounds))
    };
    (laps().min().expect("there is a period"), laps().max().expect("there is a period"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{profile, up};

    fn ms(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|value| Duration::from_ms(*value)).collect()
    }

    #[test]
    fn periods_that_fit_are_left_alone() {
        let periods = ms(&[40, 60]);
        let fit = commensurate(&periods, 0.01).unwrap();
        assert_eq!(
            (fit.perimeter, fit.rounds.as_slice()),
            (Duration::from_ms(120), [3, 2].as_slice())
        );
        assert_eq!((&fit.periods, &fit.padded_periods), (&periods, &periods));
        assert_eq!((fit.holds_for, fit.error), (None, 0.0));
    }

    #[test]
    fn nearly_equal_periods_share_a_lap_and_say_when_they_drift_apart() {
        // 997 and 1009 ms are prime: the exact circle takes 1,006 s. Each lap of about a second
        // they drift by 12 ms; 5% of 997 ms is 49.85 ms, reached after 4.15 laps of 997 ms.
        let given = ms(&[997, 1009]);
        let fit = commensurate(&given, 0.01).unwrap();
        assert_eq!(fit.rounds, [1, 1]);
        assert!(fit.error < 0.0061, "{}", fit.error);
        let holds_s = fit.holds_for.unwrap().as_secs_f64();
        assert!((holds_s - 49.85 / 12.0 * 0.997).abs() < 1e-3, "{holds_s}");
        assert_eq!(fit.padded_periods, ms(&[1009, 1009]));
        let cost = fit.padding_cost(&given);
        assert!((cost[0] - 12.0 / 997.0).abs() < 1e-12 && cost[1].abs() < 1e-12, "{cost:?}");
    }

    #[test]
    fn a_tolerance_too_tight_for_any_usable_circle_is_an_error() {
        let periods = [Duration::from_us(997_003), Duration::from_us(1_009_007)];
        assert!(matches!(commensurate(&periods, 1e-9), Err(CompatError::Incommensurate { .. })));
    }

    #[test]
    fn stretching_keeps_the_share_of_time_spent_sending() {
        let longer = stretched(&profile(100, &[up(50, 50, 10)]), Duration::from_ms(102));
        assert_eq!(longer.phases()[0].start, Duration::from_ms(51));
        assert_eq!(longer.up_time(), Duration::from_ms(51));
    }

    proptest! {
        #[test]
        fn circle_and_padding_are_common_multiples_within_the_tolerance(
            given_us in prop::collection::vec(10_000u64..2_000_000, 1..6),
        ) {
            let given: Vec<Duration> = given_us.iter().map(|us| Duration::from_us(*us)).collect();
            if let Ok(fit) = commensurate(&given, 0.02) {
                for (j, given) in given.iter().enumerate() {
                    prop_assert_eq!(fit.periods[j] * fit.rounds[j], fit.perimeter);
                    let error = fit.periods[j].as_secs_f64() / given.as_secs_f64() - 1.0;
                    prop_assert!(error.abs() <= fit.error + 1e-11 && fit.error <= 0.02);
                    prop_assert!(fit.padded_periods[j] >= *given);
                    prop_assert_eq!(
                        fit.padded_periods[j] * fit.rounds[j],
                        fit.padded_periods[0] * fit.rounds[0]
                    );
                }
            }
        }
    }
}
