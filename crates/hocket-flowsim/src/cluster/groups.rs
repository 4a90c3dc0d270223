//! Which jobs share links, directly or through others.

use std::collections::BTreeMap;

use hocket_scenario::JobId;

use crate::allocation::Load;
use crate::cluster::part::Part;
use crate::cluster::running::Running;

/// Jobs with the links that they share, in groups that have no link in common.
pub(super) struct Groups {
    jobs: BTreeMap<JobId, Member>,
    /// By group: the number of its jobs.
    sizes: BTreeMap<JobId, usize>,
}

struct Member {
    /// The first job of its group.
    group: JobId,
    loads: Vec<Load>,
}

impl Groups {
    /// The groups of running jobs, each with the links that it can share.
    pub(super) fn new(jobs: impl Iterator<Item = (JobId, Vec<Load>)>) -> Self {
        let mut all: Vec<(JobId, Vec<Load>)> = jobs.collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        // By job: an earlier job of its group, or itself.
        let mut parents: Vec<usize> = (0..all.len()).collect();
        let mut first_on: BTreeMap<usize, usize> = BTreeMap::new();
        for (job, (_, loads)) in all.iter().enumerate() {
            for load in loads {
                let first = *first_on.entry(load.link).or_insert(job);
                let (a, b) = (root(&mut parents, first), root(&mut parents, job));
                parents[a.max(b)] = a.min(b);
            }
        }
        let ids: Vec<JobId> = all.iter().map(|(id, _)| *id).collect();
        let (mut jobs, mut sizes) = (BTreeMap::new(), BTreeMap::new());
        for (job, (id, loads)) in all.into_iter().enumerate() {
            let group = ids[root(&mut parents, job)];
            *sizes.entry(group).or_default() += 1;
            jobs.insert(id, Member { group, loads });
        }
        Self { jobs, sizes }
    }

    /// The group of a job, and the job: sorted by it, the jobs of a group stand together.
    pub(super) fn key(&self, id: JobId) -> (JobId, JobId) {
        (self.jobs[&id].group, id)
    }

    /// Takes out the links that a job shares.
    pub(super) fn take_loads(&mut self, id: JobId) -> Vec<Load> {
        self.jobs.get_mut(&id).map(|member| std::mem::take(&mut member.loads)).unwrap_or_default()
    }

    /// Whether the jobs of a part are just one of the groups, and share the same links as before.
    pub(super) fn has(&self, part: &Part) -> bool {
        match part {
            Part::Alone(alone) => self.jobs[&alone.job.id].loads.is_empty(),
            Part::Sharing(component) => {
                let is_same = |(number, job): (usize, &Running)| {
                    component.shared(number).eq(self.jobs[&job.id].loads.iter().copied())
                };
                let group = self.jobs[&component.jobs[0].id].group;
                self.sizes[&group] == component.jobs.len()
                    && component.jobs.iter().enumerate().all(is_same)
            }
        }
    }
}

fn root(parents: &mut [usize], mut job: usize) -> usize {
    while parents[job] != job {
        parents[job] = parents[parents[job]];
        job = parents[job];
    }
    job
}
