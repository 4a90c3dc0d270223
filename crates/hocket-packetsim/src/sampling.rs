//! Sampling of queues, rates and traffic at regular intervals. Samples are step functions, and only their changes are kept.

use hocket_des::Time;
use hocket_scenario::{Column, Fabric, Table};

use crate::columns::{link_column, node_column};
use crate::network::Network;
use crate::options::Record;
use crate::owners::Owners;
use crate::usage::Used;

/// The values of the last sample, and the rows that were not taken out yet.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    record: Record,
    last: Option<Time>,
    /// By port.
    queues: Vec<u64>,
    /// By node.
    switches: Vec<u64>,
    /// By flow.
    rates: Vec<u64>,
    queue_rows: Vec<Row>,
    switch_rows: Vec<Row>,
    rate_rows: Vec<Row>,
    usage_rows: Vec<UsageRow>,
}

/// The value of a port, switch or flow, `of`, from `time` on.
#[derive(Clone, Copy, Debug)]
struct Row {
    time: Time,
    of: u32,
    value: u64,
}

#[derive(Clone, Copy, Debug)]
struct UsageRow {
    time: Time,
    used: Used,
}

impl Sampler {
    pub(crate) fn new(network: &Network<'_>, record: Record) -> Self {
        let Network { medium, switches, hosts } = network;
        Self {
            record,
            last: None,
            queues: vec![0; medium.wires.ports.len()],
            switches: vec![0; switches.waiting_bytes().len()],
            rates: vec![0; hosts.flows.len()],
            queue_rows: Vec::new(),
            switch_rows: Vec::new(),
            rate_rows: Vec::new(),
            usage_rows: Vec::new(),
        }
    }

    /// Takes a sample, unless one was taken at this time. This changes nothing in the network but its
    /// [`Usage`](crate::usage::Usage).
    pub(crate) fn sample(&mut self, network: &mut Network<'_>) {
        let Network { medium, switches, hosts } = network;
        let now = medium.clock.now;
        // The sample at the end of the run may coincide with a regular one.
        if self.last == Some(now) {
            return;
        }
        self.last = Some(now);
        if self.record.queues {
            let queued = medium.wires.ports.iter().map(|port| port.queued_bytes);
            changes(now, queued, &mut self.queues, &mut self.queue_rows);
            changes(now, switches.waiting_bytes(), &mut self.switches, &mut self.switch_rows);
        }
        if self.record.rates {
            let rates = (0..hosts.flows.len() as u32).map(|flow| hosts.allowed_bps(now, flow));
            changes(now, rates, &mut self.rates, &mut self.rate_rows);
        }
        if let Some(usage) = &mut medium.wires.usage {
            self.usage_rows.extend(usage.drain().map(|used| UsageRow { time: now, used }));
        }
    }

    /// Rows that were not taken out yet.
    pub(crate) fn rows(&self) -> usize {
        let steps = [&self.queue_rows, &self.switch_rows, &self.rate_rows];
        steps.iter().map(|rows| rows.len()).sum::<usize>() + self.usage_rows.len()
    }

    /// Removes and returns the rows of `queues`, `switch_queues`, `rates` and `utilisation` so far.
    pub(crate) fn take_tables(&mut self, fabric: &Fabric, owners: &Owners) -> [Table; 4] {
        let queues = std::mem::take(&mut self.queue_rows);
        let switches = std::mem::take(&mut self.switch_rows);
        let rates = std::mem::take(&mut self.rate_rows);
        let usage = std::mem::take(&mut self.usage_rows);
        let of = |rows: &[Row]| rows.iter().map(|row| row.of).collect();
        let time = |rows: &[Row]| ("at_s", Column::of_times(rows, |row| row.time));
        let bytes = |rows: &[Row]| ("bytes", Column::of_u64(rows, |row| row.value));
        let links = ("link", link_column(of(&queues), fabric));
        let nodes = ("switch", node_column(of(&switches), fabric));
        let jobs = rates.iter().map(|row| owners.job_of(row.of)).collect();
        let rate = vec![
            time(&rates),
            ("flow", Column::U32(of(&rates))),
            ("job", owners.column(jobs)),
            ("rate_bps", Column::of_u64(&rates, |row| row.value)),
        ];
        let used = vec![
            ("at_s", Column::of_times(&usage, |row| row.time)),
            ("link", link_column(usage.iter().map(|row| row.used.link).collect(), fabric)),
            ("job", owners.column(usage.iter().map(|row| row.used.job).collect())),
            ("bytes", Column::of_u64(&usage, |row| row.used.bytes)),
        ];
        [
            Table { name: "queues", columns: vec![time(&queues), links, bytes(&queues)] },
            Table {
                name: "switch_queues",
                columns: vec![time(&switches), nodes, bytes(&switches)],
            },
            Table { name: "rates", columns: rate },
            Table { name: "utilisation", columns: used },
        ]
    }
}

/// Adds a row for each of `values` that differs from the last sample, which it becomes.
fn changes(now: Time, values: impl Iterator<Item = u64>, last: &mut [u64], rows: &mut Vec<Row>) {
    for (of, (value, last)) in values.zip(last).enumerate() {
        if value != *last {
            *last = value;
            rows.push(Row { time: now, of: of as u32, value });
        }
    }
}
