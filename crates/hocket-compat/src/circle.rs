//! The unified circle of jobs that share a link, and the score of given time-shifts on it
//! (HotNets'22 section 3; NSDI'24 section 3, Equations 1 to 3).

use hocket_des::{Duration, Rate};
use hocket_scenario::Profile;
use num_integer::Integer;

use crate::demand::Demand;
use crate::problem::{CompatError, JointLink};

/// The most iterations of one job that a unified circle may hold. With more, a rotation of the job
/// is finer than a degree: the periods do not fit, and pretending that they do would only hide it.
pub const MAX_ROUNDS: u64 = 720;

/// The longest unified circle, 26 days: sums of a few places on it fit in 64 bits.
pub const LONGEST_PERIMETER: Duration = Duration::from_ps(u64::MAX / 8);

/// The perimeter of the unified circle: the least common multiple of the jobs' periods.
///
/// # Errors
/// If there is no job, one of them would go round more than [`MAX_ROUNDS`] times, or the circle
/// would be longer than [`LONGEST_PERIMETER`].
pub fn unified_perimeter(jobs: &[Profile]) -> Result<Duration, CompatError> {
    let incommensurate = CompatError::Incommensurate { rounds_limit: MAX_ROUNDS };
    let shortest = jobs.iter().map(|job| job.period().as_ps()).min().ok_or(CompatError::NoJobs)?;
    let mut perimeter = 1u64;
    for job in jobs {
        let period = job.period().as_ps();
        perimeter = (perimeter / perimeter.gcd(&period))
            .checked_mul(period)
            .filter(|perimeter| perimeter / shortest <= MAX_ROUNDS)
            .ok_or_else(|| incommensurate.clone())?;
    }
    if perimeter > LONGEST_PERIMETER.as_ps() {
        return Err(CompatError::CircleTooLong { limit: LONGEST_PERIMETER });
    }
    Ok(Duration::from_ps(perimeter))
}

/// The compatibility score of `jobs` on a link when job j is delayed by `shifts[j]`:
/// 1 − mean excess demand ÷ capacity over the unified circle (Equation 2), with the demand taken
/// where it is and not at sampled angles. 1 is full compatibility; the score may be negative.
///
/// # Errors
/// If there is no job, the capacity is zero, the periods have no usable common multiple, or the
/// number of shifts is not the number of jobs.
pub fn score_of(capacity: Rate, jobs: &[Profile], shifts: &[Duration]) -> Result<f64, CompatError> {
    if shifts.len() != jobs.len() {
        return Err(CompatError::ShiftCount { shifts: shifts.len(), jobs: jobs.len() });
    }
    let crossings = (0..jobs.len()).map(|job| (job, 1)).collect();
    let demand = Demand::on_link(jobs, &JointLink { capacity, crossings, multiplicity: 1 }, false)?;
    let shifts_ps: Vec<u64> = shifts.iter().map(|shift| shift.as_ps()).collect();
    Ok(demand.score(&shifts_ps))
}

#[cfg(test)]
mod tests {
    use hocket_scenario::Phase;

    use super::*;

    fn job(period_ms: u64, start_ms: u64, duration_ms: u64, gbps: u64) -> Profile {
        let phase = Phase {
            start: Duration::from_ms(start_ms),
            duration: Duration::from_ms(duration_ms),
            rate: Rate::from_gbps(gbps),
        };
        Profile::new(Duration::from_ms(period_ms), vec![phase]).unwrap()
    }

    #[test]
    fn periods_of_40_and_60_ms_meet_on_a_circle_of_120() {
        let jobs = [job(40, 0, 10, 50), job(60, 0, 10, 50)];
        assert_eq!(unified_perimeter(&jobs), Ok(Duration::from_ms(120)));
    }

    #[test]
    fn a_circle_of_an_hour_is_refused() {
        let jobs = [job(997, 0, 10, 50), job(1009, 0, 10, 50)];
        let error = unified_perimeter(&jobs).unwrap_err();
        assert!(error.to_string().contains("no common multiple"), "{error}");
    }

    #[test]
    fn the_score_is_one_minus_mean_excess_over_capacity() {
        // Both send 40 Gbps on 50 for 60 of 100 ms, fully on top of each other: 30 ÷ 50 × 0.6 is lost.
        let jobs = [job(100, 0, 60, 40), job(100, 0, 60, 40)];
        let shift = |ms| [Duration::ZERO, Duration::from_ms(ms)];
        let score = |ms| score_of(Rate::from_gbps(50), &jobs, &shift(ms)).unwrap();
        assert!((score(0) - 0.64).abs() < 1e-12);
        // Shifted by 40 ms they overlap for 20 ms on either side of the circle's seam.
        assert!((score(40) - 0.88).abs() < 1e-12);
        assert!((score(140) - score(40)).abs() < 1e-12, "a shift by a period changes nothing");
    }

    #[test]
    fn a_hopeless_set_of_jobs_scores_below_zero() {
        let jobs = vec![job(100, 0, 100, 50); 4];
        let score = score_of(Rate::from_gbps(50), &jobs, &[Duration::ZERO; 4]).unwrap();
        assert!((score + 2.0).abs() < 1e-12);
    }
}
