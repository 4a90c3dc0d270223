//! The job of each flow, for tables.

use hocket_scenario::Column;

/// The names of a run's jobs, and the job of each flow.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    names: Vec<String>,
    /// By flow: the index of its job; the number of jobs for a flow without one.
    job_of: Vec<u32>,
}

impl Owners {
    /// Jobs with these names; `job_of` has the job of each flow.
    pub(crate) fn new(names: Vec<String>, job_of: impl IntoIterator<Item = Option<u32>>) -> Self {
        let nobody = names.len() as u32;
        Self { names, job_of: job_of.into_iter().map(|job| job.unwrap_or(nobody)).collect() }
    }

    /// The number of jobs, plus one for the flows without a job.
    pub(crate) fn count(&self) -> usize {
        self.names.len() + 1
    }

    /// The index of a flow's job; the number of jobs if it has none.
    #[inline]
    pub(crate) fn job_of(&self, flow: u32) -> u32 {
        self.job_of[flow as usize]
    }

    /// A column of the names of these jobs, empty for no job.
    pub(crate) fn column(&self, codes: Vec<u32>) -> Column {
        let mut dictionary = self.names.clone();
        dictionary.push(String::new());
        Column::Str { codes, dictionary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_without_a_job_has_an_empty_name() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let owners = Owners::new(names, [Some(1), Some(0), None, Some(1)]);
        assert_eq!([0, 1, 2, 3].map(|flow| owners.job_of(flow)), [1, 0, 2, 1]);
        let Column::Str { dictionary, .. } = owners.column(vec![2]) else { unreachable!() };
        assert_eq!(dictionary, ["a", "b", ""]);
    }
}
