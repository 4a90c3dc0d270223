//! Goodput that links lose to contention between jobs, which a max-min share leaves out.

use thiserror::Error;

/// The share of a link's capacity that jobs get together while they demand more than it has, by the number of those jobs.
///
/// Congestion control wastes part of a link that several jobs contend for: in HotNets'22 Fig 1b two DCQCN jobs get 21 Gbps each
/// of 50.
///
/// ```
/// use hocket_flowsim::Goodput;
///
/// let goodput = Goodput::new(&[0.88, 0.65])?;
/// assert_eq!(goodput.of_bps(50_000_000_000, 2), 44_000_000_000);
/// assert_eq!(goodput.of_bps(50_000_000_000, 5), 32_500_000_000);
/// assert_eq!(Goodput::default().of_bps(50_000_000_000, 2), 50_000_000_000);
/// # Ok::<(), hocket_flowsim::GoodputError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goodput {
    /// In billionths, for two jobs, three and so on; the last one is also that of more jobs. Whole numbers, so that rates do not
    /// depend on how a machine rounds.
    billionths: Vec<u64>,
}

const WHOLE: u64 = 1_000_000_000;

/// A share that no link can have.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("goodput of {jobs} jobs is {share} of the capacity; it must be above 0 and at most 1")]
pub struct GoodputError {
    jobs: usize,
    share: f64,
}

impl Goodput {
    /// `shares` for two jobs, three and so on; the last one is also that of more jobs. None at all means that nothing is lost.
    ///
    /// # Errors
    /// If a share is not above 0 and at most 1, to a billionth.
    pub fn new(shares: &[f64]) -> Result<Self, GoodputError> {
        let billionths = (2..).zip(shares).map(|(jobs, &share)| {
            let raw = (share * WHOLE as f64).round();
            // The comparison is false for what is not a number.
            let is_share = (1.0..=WHOLE as f64).contains(&raw);
            if is_share { Ok(raw as u64) } else { Err(GoodputError { jobs, share }) }
        });
        Ok(Self { billionths: billionths.collect::<Result<_, _>>()? })
    }

    /// Whether links lose nothing, however many jobs contend.
    pub fn is_lossless(&self) -> bool {
        self.billionths.iter().all(|&share| share == WHOLE)
    }

    /// What is left of `capacity_bps` for `jobs` that demand more than it, rounded down; all of it for a single job.
    pub fn of_bps(&self, capacity_bps: u64, jobs: usize) -> u64 {
        if jobs < 2 {
            return capacity_bps;
        }
        let share = self.billionths.get(jobs - 2).or(self.billionths.last()).unwrap_or(&WHOLE);
        let left = u128::from(capacity_bps) * u128::from(*share) / u128::from(WHOLE);
        u64::try_from(left).expect("a share of at most 1 leaves no more than there was")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_loses_nothing() {
        let goodput = Goodput::new(&[0.5]).unwrap();
        assert_eq!(goodput.of_bps(100, 1), 100);
        assert_eq!(goodput.of_bps(100, 0), 100);
    }

    #[test]
    fn the_last_share_is_that_of_any_larger_number_of_jobs() {
        let goodput = Goodput::new(&[0.9, 0.8]).unwrap();
        assert_eq!([2, 3, 4, 1_000].map(|jobs| goodput.of_bps(1_000, jobs)), [900, 800, 800, 800]);
    }

    #[test]
    fn a_share_outside_0_to_1_is_refused_with_its_number_of_jobs() {
        for share in [0.0, -0.5, 1.01, 1e-12, f64::NAN, f64::INFINITY] {
            let error = Goodput::new(&[1.0, share]).unwrap_err();
            assert!(error.to_string().starts_with("goodput of 3 jobs is"), "{error}");
        }
    }
}
