//! Which flow belongs to which job, for the tables.

use hocket_scenario::Column;

/// The jobs of a run, and whose each flow is.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    names: Vec<String>,
    /// By flow; of one without a job, the number of jobs.
    job_of: Vec<u32>,
}

impl Owners {
    /// Jobs of these names; `job_of` says by flow which of them it counts for.
    pub(crate) fn new(names: Vec<String>, job_of: impl IntoIterator<Item = Option<u32>>) -> Self {
        let nobody = names.len() as u32;
        Self { names, job_of: job_of.into_iter().map(|job| job.unwrap_or(nobody)).collect() }
    }

    /// Jobs, and one more for the flows that belong to none.
    pub(crate) fn count(&self) -> usize {
        self.names.len() + 1
    }

    /// The job of a flow; the number of jobs if it has none.
    #[inline]
    pub(crate) fn job_of(&self, flow: u32) -> u32 {
        self.job_of[flow as usize]
    }

    /// Names of jobs by these numbers; empty for no job.
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
