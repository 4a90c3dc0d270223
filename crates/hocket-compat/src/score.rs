//! The score of given time-shifts on one link (NSDI'24 section 3, Equations 1 to 3).

use hocket_des::{Duration, Rate};
use hocket_scenario::Profile;

use crate::error::CompatError;
use crate::link_demand::Demand;
use crate::problem::JointLink;

/// The compatibility score of `jobs` on a link when job j is delayed by `shifts[j]`: 1 − mean
/// excess demand ÷ capacity over the unified circle (Equation 2). The paper samples the demand at
/// discrete angles; here it is integrated exactly. 1 is full compatibility; the score may be
/// negative. With `strict`, each sending job demands 1 of a capacity of 1, whatever its rate
/// (HotNets'22 section 3).
///
/// # Errors
/// If there is no job, the capacity is zero, the periods have no usable common multiple, or the
/// number of shifts differs from the number of jobs.
pub fn score_of(
    capacity: Rate,
    jobs: &[Profile],
    shifts: &[Duration],
    strict: bool,
) -> Result<f64, CompatError> {
    if shifts.len() != jobs.len() {
        return Err(CompatError::ShiftCount { shifts: shifts.len(), jobs: jobs.len() });
    }
    let crossings = (0..jobs.len()).map(|job| (job, 1)).collect();
    let link = JointLink { capacity, crossings, multiplicity: 1 };
    let demand = Demand::on_link(jobs, &link, strict)?;
    let shifts_ps: Vec<u64> = shifts.iter().map(|shift| shift.as_ps()).collect();
    Ok(demand.score(&shifts_ps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{profile, up};

    #[test]
    fn the_score_is_one_minus_mean_excess_over_capacity() {
        // Both send 40 Gbps on 50 for 60 of 100 ms, fully on top of each other: 30 ÷ 50 × 0.6 is
        // lost.
        let jobs = [profile(100, &[up(0, 60, 40)]), profile(100, &[up(0, 60, 40)])];
        let shift = |ms| [Duration::ZERO, Duration::from_ms(ms)];
        let score = |ms| score_of(Rate::from_gbps(50), &jobs, &shift(ms), false).unwrap();
        assert!((score(0) - 0.64).abs() < 1e-12);
        // Shifted by 40 ms they overlap for 20 ms on either side of the circle's seam.
        assert!((score(40) - 0.88).abs() < 1e-12);
        assert!((score(140) - score(40)).abs() < 1e-12, "a shift by a period changes nothing");
    }

    #[test]
    fn a_hopeless_set_of_jobs_scores_below_zero() {
        let jobs = vec![profile(100, &[up(0, 100, 50)]); 4];
        let score = score_of(Rate::from_gbps(50), &jobs, &[Duration::ZERO; 4], false).unwrap();
        assert!((score + 2.0).abs() < 1e-12);
    }
}
