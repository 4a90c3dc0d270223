//! Ranking jobs whose periods have no common multiple: in each candidate, jobs that share links
//! directly or through others get the nearest periods that have one.

use hocket_des::Duration;

use crate::cassini::{
    Candidate, CassiniCrossing, CassiniError, CassiniJob, CassiniLink, CassiniOptions, Placement,
    Ranking, rank,
};
use crate::commensurate::{Commensurate, commensurate, stretched};
use crate::error::CompatError;

/// A ranking, and for the placements in it how periods were made to fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedRanking {
    /// As [`rank`] gives it.
    pub ranking: Ranking,
    /// By place in `ranking.placements`: the groups of jobs that were fitted together.
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

/// [`rank`] for any periods: those of a group are stretched as [`commensurate()`] says. A candidate
/// with a group that has no circle within `tolerance` is discarded.
///
/// # Errors
/// As [`rank`], and if `tolerance` is not between 0 and 0.5 or a period is zero.
pub fn rank_fitted(
    jobs: &[CassiniJob],
    links: &[CassiniLink],
    candidates: &[Candidate],
    tolerance: f64,
    options: &CassiniOptions<'_>,
) -> Result<FittedRanking, CassiniError> {
    // Each candidate gets jobs of its own, so that a job can have another period in each.
    let mut own_jobs = Vec::with_capacity(jobs.len() * candidates.len());
    let mut own_candidates = Vec::with_capacity(candidates.len());
    let mut fits = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        check_jobs(candidate, jobs.len())?;
        let first = own_jobs.len();
        own_jobs.extend_from_slice(jobs);
        let mut groups = Vec::new();
        for members in sharing_groups(candidate, jobs.len(), links.len()) {
            let periods: Vec<Duration> =
                members.iter().map(|j| jobs[*j].profile.period()).collect();
            match commensurate(&periods, tolerance) {
                Ok(fit) => {
                    for (job, period) in members.iter().zip(&fit.periods) {
                        own_jobs[first + job].profile = stretched(&jobs[*job].profile, *period);
                    }
                    groups.push(GroupFit { jobs: members, fit });
                }
                // Left as they are, `rank` discards the candidate and names the link.
                Err(CompatError::Incommensurate { .. }) => {}
                Err(error) => return Err(CassiniError::Periods(error)),
            }
        }
        fits.push(groups);
        let own =
            |crossing: &CassiniCrossing| CassiniCrossing { job: crossing.job + first, ..*crossing };
        own_candidates.push(Candidate {
            crossings: candidate.crossings.iter().map(own).collect(),
            ..candidate.clone()
        });
    }
    let ranking = rank(&own_jobs, links, &own_candidates, options)?;
    let placements: Vec<Placement> =
        ranking.placements.into_iter().map(|p| with_shared_numbers(p, jobs.len())).collect();
    let fits = placements.iter().map(|p| std::mem::take(&mut fits[p.candidate])).collect();
    Ok(FittedRanking { ranking: Ranking { placements, ..ranking }, fits })
}

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

/// Turns the numbers of a candidate's own jobs into those of the jobs they stand for.
fn with_shared_numbers(mut placement: Placement, jobs: usize) -> Placement {
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

/// Groups of two and more jobs that share links with each other, directly or through others;
/// ascending, by their first job. Jobs that cross no shared link are in none.
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
