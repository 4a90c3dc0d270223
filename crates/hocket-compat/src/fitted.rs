//! A ranking of candidates for jobs whose periods have no common multiple. In each candidate, the
//! periods of jobs that share links, directly or through others, are fitted to each other first.

use std::borrow::Cow;

use hocket_des::Duration;
use rayon::prelude::*;

use crate::cassini::{
    Candidate, CassiniCrossing, CassiniError, CassiniJob, CassiniLink, CassiniOptions,
    DiscardReason, Placement, Preliminary, Prepared, Ranking,
};
use crate::commensurate::{Commensurate, commensurate, stretched};
use crate::error::CompatError;

/// A ranking, and for each placement in it the fitted periods.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedRanking {
    /// As [`rank`](crate::cassini::rank) gives it.
    pub ranking: Ranking,
    /// By place in `ranking.placements`: the groups of jobs whose periods were fitted to each
    /// other.
    pub fits: Vec<Vec<GroupFit>>,
}

/// Jobs that share links with each other, directly or through others, and their common circle.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFit {
    /// The jobs, ascending.
    pub jobs: Vec<usize>,
    /// Their periods on the circle, in the same order.
    pub fit: Commensurate,
}

/// [`rank`](crate::cassini::rank) for any periods: profiles of a group are stretched to the periods from
/// [`commensurate()`]. A candidate with a group that has no circle within `tolerance` is discarded.
///
/// # Errors
/// As [`rank`](crate::cassini::rank), and if `tolerance` is not between 0 and 0.5 or a period is zero.
pub fn rank_fitted(
    jobs: &[CassiniJob],
    links: &[CassiniLink],
    candidates: &[Candidate],
    tolerance: f64,
    options: &CassiniOptions<'_>,
) -> Result<FittedRanking, CassiniError> {
    let prepared =
        PreparedFitted::new(jobs, Cow::Borrowed(links), candidates.to_vec(), tolerance, options)?;
    let ranking = prepared.copies.rank(&prepared.candidates, options)?;
    let placements: Vec<Placement> =
        ranking.placements.into_iter().map(|p| with_given_numbers(p, jobs.len())).collect();
    let fits = placements.iter().map(|p| prepared.fits[p.candidate].clone()).collect();
    Ok(FittedRanking { ranking: Ranking { placements, ..ranking }, fits })
}

/// [`Prepared`] for any periods, which are fitted as by [`rank_fitted`].
pub struct PreparedFitted<'a> {
    /// With the numbers of copied jobs.
    copies: Prepared<'a>,
    candidates: Vec<Candidate>,
    fits: Vec<Vec<GroupFit>>,
    /// The number of given jobs.
    jobs: usize,
}

impl<'a> PreparedFitted<'a> {
    /// As [`Prepared::new`].
    ///
    /// # Errors
    /// As [`rank_fitted`].
    pub fn new(
        jobs: &[CassiniJob],
        links: Cow<'a, [CassiniLink]>,
        candidates: Vec<Candidate>,
        tolerance: f64,
        options: &CassiniOptions<'_>,
    ) -> Result<Self, CassiniError> {
        // Each candidate gets a copy of all jobs, since a job's fitted period differs between
        // candidates. One ranking of all copies still solves equal problems of different candidates
        // once.
        let mut copied_jobs = Vec::with_capacity(jobs.len() * candidates.len());
        let mut copied_candidates = Vec::with_capacity(candidates.len());
        let mut fits = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            check_jobs(&candidate, jobs.len())?;
            let first = copied_jobs.len();
            copied_jobs.extend_from_slice(jobs);
            let mut groups = Vec::new();
            for members in sharing_groups(&candidate, jobs.len(), links.len()) {
                let periods: Vec<Duration> =
                    members.iter().map(|j| jobs[*j].profile.period()).collect();
                match commensurate(&periods, tolerance) {
                    Ok(fit) => {
                        for (job, period) in members.iter().zip(&fit.periods) {
                            copied_jobs[first + job].profile =
                                stretched(&jobs[*job].profile, *period);
                        }
                        groups.push(GroupFit { jobs: members, fit });
                    }
                    // With unchanged periods, the candidate is discarded, and the reason names the
                    // link.
                    Err(CompatError::Incommensurate { .. }) => {}
                    Err(error) => return Err(CassiniError::Periods(error)),
                }
            }
            fits.push(groups);
            let copied = |crossing: &CassiniCrossing| CassiniCrossing {
                job: crossing.job + first,
                ..*crossing
            };
            copied_candidates.push(Candidate {
                crossings: candidate.crossings.iter().map(copied).collect(),
                ..candidate
            });
        }
        let copies = Prepared::new(Cow::Owned(copied_jobs), links, &copied_candidates, options)?;
        Ok(Self { copies, candidates: copied_candidates, fits, jobs: jobs.len() })
    }

    /// As [`Prepared::place`].
    ///
    /// # Errors
    /// Why the candidate is discarded.
    pub fn place(
        &self,
        candidate: usize,
        options: &CassiniOptions<'_>,
    ) -> Result<Placement, DiscardReason> {
        let placement = self.copies.place(candidate, options)?;
        Ok(with_given_numbers(placement, self.jobs))
    }

    /// [`Prepared::preliminary`] of all candidates.
    pub fn preliminaries(
        &self,
        options: &CassiniOptions<'_>,
    ) -> Vec<Result<Preliminary, DiscardReason>> {
        let preliminary = |candidate| match self.copies.preliminary(candidate, options)? {
            Preliminary::Placed(placement) => {
                Ok(Preliminary::Placed(with_given_numbers(placement, self.jobs)))
            }
            bounded @ Preliminary::Bounded(_) => Ok(bounded),
        };
        (0..self.candidates.len()).into_par_iter().map(preliminary).collect()
    }

    /// As [`Prepared::tight_bounds`].
    ///
    /// # Errors
    /// Why the candidate is discarded.
    pub fn tight_bounds(
        &self,
        candidate: usize,
        options: &CassiniOptions<'_>,
    ) -> Result<Vec<(usize, f64)>, DiscardReason> {
        self.copies.tight_bounds(candidate, options)
    }

    /// The groups of jobs of a candidate whose periods were fitted to each other.
    pub fn fits(&self, candidate: usize) -> &[GroupFit] {
        &self.fits[candidate]
    }
}

// Before jobs are copied: afterwards, an index out of range would name a job of the next candidate.
fn check_jobs(candidate: &Candidate, jobs: usize) -> Result<(), CassiniError> {
    match candidate.crossings.iter().find(|crossing| crossing.job >= jobs) {
        Some(crossing) => Err(CassiniError::UnknownJob {
            candidate: candidate.name.clone(),
            job: crossing.job,
            jobs,
        }),
        None => Ok(()),
    }
}

/// Replaces the numbers of a candidate's copied jobs by those of the given jobs.
fn with_given_numbers(mut placement: Placement, jobs: usize) -> Placement {
    let first = placement.candidate * jobs;
    for job in placement.links.iter_mut().flat_map(|link| &mut link.jobs) {
        *job -= first;
    }
    for component in &mut placement.components {
        component.reference -= first;
        for job in &mut component.jobs {
            *job -= first;
        }
    }
    placement.time_shifts = placement.time_shifts[first..first + jobs].to_vec();
    placement
}

/// Groups of at least two jobs that share links, directly or through others, in the order of their
/// first jobs; each ascending. A job that shares no link is in no group.
fn sharing_groups(candidate: &Candidate, jobs: usize, links: usize) -> Vec<Vec<usize>> {
    let mut sets = petgraph::unionfind::UnionFind::new(jobs + links);
    for crossing in candidate.crossings.iter().filter(|c| c.flows > 0 && c.link < links) {
        sets.union(crossing.job, jobs + crossing.link);
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); jobs + links];
    for job in 0..jobs {
        groups[sets.find(job)].push(job);
    }
    groups.retain(|group| group.len() > 1);
    groups.sort_unstable();
    groups
}
