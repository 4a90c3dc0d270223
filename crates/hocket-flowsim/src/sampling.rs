//! Traffic by link and job, in equal intervals.

use hocket_des::Duration;
use hocket_scenario::{Column, JobId, LinkId, Scenario, Table};

use crate::network::Network;
use crate::sender::PICOBITS_PER_BYTE;

/// What was sampled so far.
pub(crate) struct Sampler {
    pub(crate) interval: Duration,
    rows: Vec<(u64, LinkId, JobId, u64)>,
}

impl Sampler {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, rows: Vec::new() }
    }

    /// Takes what was sent since the last sample; of a byte that has begun the rest comes with the next.
    pub(crate) fn sample(&mut self, network: &mut Network) {
        let time_ps = network.now.as_ps();
        for (&(link, job), picobits) in network.traffic() {
            let bytes = u64::try_from(*picobits / PICOBITS_PER_BYTE).unwrap_or(u64::MAX);
            *picobits -= u128::from(bytes) * PICOBITS_PER_BYTE;
            if bytes > 0 {
                self.rows.push((time_ps, link, job, bytes));
            }
        }
    }

    pub(crate) fn table(self, scenario: &Scenario) -> Table {
        let names = scenario.jobs().iter().map(|job| job.name.clone()).collect();
        let mut links: Vec<LinkId> = self.rows.iter().map(|row| row.1).collect();
        links.sort_unstable();
        links.dedup();
        let code = |link| links.binary_search(&link).expect("it was collected") as u32;
        let fabric = scenario.fabric().links();
        let link = Column::Str {
            codes: self.rows.iter().map(|row| code(row.1)).collect(),
            dictionary: links.iter().map(|link| fabric[link.index()].name.clone()).collect(),
        };
        let codes = self.rows.iter().map(|row| row.2.code()).collect();
        let columns = vec![
            ("time_ps", Column::U64(self.rows.iter().map(|row| row.0).collect())),
            ("link", link),
            ("job", Column::Str { codes, dictionary: names }),
            ("bytes", Column::U64(self.rows.iter().map(|row| row.3).collect())),
        ];
        Table { name: "utilisation", columns }
    }
}
