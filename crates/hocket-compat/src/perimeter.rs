//! The perimeter of the unified circle of jobs that share a link (HotNets'22 section 3; NSDI'24
//! section 3).

use hocket_des::Duration;
use hocket_scenario::Profile;
use num_integer::Integer;

use crate::error::CompatError;

/// The most iterations of one job on a unified circle. With more, all rotations of the job lie
/// within half a degree (Equation 4): the periods do not fit, and an answer would only hide that.
pub const MAX_ROUNDS: u64 = 720;

/// The longest unified circle, 26 days: sums of a few positions on it fit in 64 bits.
pub const LONGEST_PERIMETER: Duration = Duration::from_ps(u64::MAX / 8);

/// The perimeter of the unified circle: the least common multiple of the jobs' periods.
///
/// # Errors
/// If there is no job, one of them would have more than [`MAX_ROUNDS`] iterations, or the circle
/// would be longer than [`LONGEST_PERIMETER`].
pub fn unified_perimeter(jobs: &[Profile]) -> Result<Duration, CompatError> {
    let incommensurate = CompatError::Incommensurate { rounds_limit: MAX_ROUNDS };
    let shortest = jobs.iter().map(|job| job.period().as_ps()).min().ok_or(CompatError::NoJobs)?;
    let mut perimeter = 1u64;
    for job in jobs {
        let period = job.period().as_ps();
        // The multiple never shrinks, so the first job that makes it too long decides.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{profile, up};

    #[test]
    fn periods_of_40_and_60_ms_meet_on_a_circle_of_120() {
        let jobs = [profile(40, &[up(0, 10, 50)]), profile(60, &[up(0, 10, 50)])];
        assert_eq!(unified_perimeter(&jobs), Ok(Duration::from_ms(120)));
    }

    #[test]
    fn a_circle_of_an_hour_is_refused() {
        let jobs = [profile(997, &[up(0, 10, 50)]), profile(1009, &[up(0, 10, 50)])];
        let error = unified_perimeter(&jobs).unwrap_err();
        assert!(error.to_string().contains("no common multiple"), "{error}");
    }
}
