//! Samples of the traffic by link and job, in equal intervals.

use hocket_des::{Duration, Time};
use hocket_scenario::{Column, Fabric, Job, JobId, LinkId, Table};

use crate::network::Network;
use crate::sender::PICOBITS_PER_BYTE;

/// The samples that have not been taken out yet.
pub(crate) struct Sampler {
    pub(crate) interval: Duration,
    rows: Vec<Sample>,
}

/// The bytes that a job sent over a link in the interval that ended at `time_ps`.
struct Sample {
    time_ps: u64,
    link: LinkId,
    job: JobId,
    bytes: u64,
}

impl Sampler {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, rows: Vec::new() }
    }

    /// Samples the traffic since the last sample, in whole bytes. A fraction of a byte is left for the next sample.
    pub(crate) fn sample(&mut self, network: &mut Network) {
        let time_ps = network.now.as_ps();
        for (&(link, job), picobits) in network.traffic() {
            let bytes = u64::try_from(*picobits / PICOBITS_PER_BYTE).unwrap_or(u64::MAX);
            // Only what is counted: rounding would not add up over the samples.
            *picobits -= u128::from(bytes) * PICOBITS_PER_BYTE;
            if bytes > 0 {
                self.rows.push(Sample { time_ps, link, job, bytes });
            }
        }
    }

    /// The number of samples.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Takes the samples out as rows of the table `utilisation`; `fabric` and `jobs` give the names.
    pub(crate) fn take_table(&mut self, fabric: &Fabric, jobs: &[Job]) -> Table {
        let rows = std::mem::take(&mut self.rows);
        let names = jobs.iter().map(|job| job.name.clone()).collect();
        let mut links: Vec<LinkId> = rows.iter().map(|row| row.link).collect();
        links.sort_unstable();
        links.dedup();
        let code = |link| links.binary_search(&link).expect("it was collected") as u32;
        let link = Column::Str {
            codes: rows.iter().map(|row| code(row.link)).collect(),
            dictionary: links
                .iter()
                .map(|link| fabric.links()[link.index()].name.clone())
                .collect(),
        };
        let codes = rows.iter().map(|row| row.job.code()).collect();
        let columns = vec![
            ("at_s", Column::of_times(&rows, |row| Time::from_ps(row.time_ps))),
            ("link", link),
            ("job", Column::Str { codes, dictionary: names }),
            ("bytes", Column::U64(rows.iter().map(|row| row.bytes).collect())),
        ];
        Table { name: "utilisation", columns }
    }
}
