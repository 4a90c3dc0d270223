//! Queues, rates and traffic at regular times: as step functions, of which only the changes are kept.

use hocket_des::Time;
use hocket_scenario::{Column, Fabric, Table};
use hocket_transport::Progress;

use crate::engine::Engine;
use crate::host::Steering;
use crate::packet::{Kind, Packet};
use crate::records::{Owners, link_column, node_column, u64_column};
use crate::run::Record;

/// Bytes on the wire by link and job since the last sample, headers and acknowledgements included. PAUSE frames
/// belong to nobody and are left out.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    owners: Owners,
    /// By link and job, the last of which is none.
    bytes: Vec<u64>,
}

/// What the last sample saw, and the rows since they were taken out.
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

/// From `time` on, `of` has this value.
#[derive(Clone, Copy, Debug)]
struct Row {
    time: Time,
    of: u32,
    value: u64,
}

#[derive(Clone, Copy, Debug)]
struct UsageRow {
    time: Time,
    link: u32,
    job: u32,
    bytes: u64,
}

impl Usage {
    pub(crate) fn new(owners: Owners, links: usize) -> Self {
        Self { bytes: vec![0; links * owners.count()], owners }
    }

    /// A packet leaves by this link.
    #[inline]
    pub(crate) fn add(&mut self, link: u32, packet: &Packet) {
        if !matches!(packet.kind, Kind::Pause | Kind::Resume) {
            let job = self.owners.job_of(packet.flow) as usize;
            self.bytes[link as usize * self.owners.count() + job] += u64::from(packet.wire);
        }
    }
}

impl Sampler {
    pub(crate) fn new(engine: &Engine<'_>, record: Record) -> Self {
        Self {
            record,
            last: None,
            queues: vec![0; engine.ports.len()],
            switches: vec![0; engine.switches.len()],
            rates: vec![0; engine.flows.len()],
            queue_rows: Vec::new(),
            switch_rows: Vec::new(),
            rate_rows: Vec::new(),
            usage_rows: Vec::new(),
        }
    }

    /// Takes a sample of what is the case now; nothing in the engine changes but its [`Usage`].
    pub(crate) fn sample(&mut self, engine: &mut Engine<'_>) {
        let now = engine.now;
        if self.last == Some(now) {
            return;
        }
        self.last = Some(now);
        if self.record.queues {
            let queued = engine.ports.iter().map(|port| port.queued_bytes);
            changes(now, queued, &mut self.queues, &mut self.queue_rows);
            let waiting = engine.switches.iter().map(|switch| switch.bytes);
            changes(now, waiting, &mut self.switches, &mut self.switch_rows);
        }
        if self.record.rates {
            let rates = (0..engine.flows.len() as u32).map(|flow| rate_bps(engine, flow));
            changes(now, rates, &mut self.rates, &mut self.rate_rows);
        }
        if let Some(usage) = &mut engine.usage {
            let jobs = usage.owners.count();
            for (place, bytes) in
                usage.bytes.iter_mut().enumerate().filter(|(_, bytes)| **bytes > 0)
            {
                let (link, job) = ((place / jobs) as u32, (place % jobs) as u32);
                self.usage_rows.push(UsageRow {
                    time: now,
                    link,
                    job,
                    bytes: std::mem::take(bytes),
                });
            }
        }
    }

    /// Rows that were not taken out yet.
    pub(crate) fn rows(&self) -> usize {
        let steps = [&self.queue_rows, &self.switch_rows, &self.rate_rows];
        steps.iter().map(|rows| rows.len()).sum::<usize>() + self.usage_rows.len()
    }

    /// Takes out the rows of `queues`, `switch_queues`, `rates` and `utilisation` so far.
    pub(crate) fn take_tables(&mut self, fabric: &Fabric, owners: &Owners) -> [Table; 4] {
        let queues = std::mem::take(&mut self.queue_rows);
        let switches = std::mem::take(&mut self.switch_rows);
        let rates = std::mem::take(&mut self.rate_rows);
        let usage = std::mem::take(&mut self.usage_rows);
        let of = |rows: &[Row]| rows.iter().map(|row| row.of).collect();
        let time = |rows: &[Row]| ("time_ps", u64_column(rows, |row| row.time.as_ps()));
        let bytes = |rows: &[Row]| ("bytes", u64_column(rows, |row| row.value));
        let links = ("link", link_column(of(&queues), fabric));
        let nodes = ("switch", node_column(of(&switches), fabric));
        let jobs = rates.iter().map(|row| owners.job_of(row.of)).collect();
        let rate = vec![
            time(&rates),
            ("flow", Column::U32(of(&rates))),
            ("job", owners.column(jobs)),
            ("rate_bps", u64_column(&rates, |row| row.value)),
        ];
        let used = vec![
            ("time_ps", u64_column(&usage, |row| row.time.as_ps())),
            ("link", link_column(usage.iter().map(|row| row.link).collect(), fabric)),
            ("job", owners.column(usage.iter().map(|row| row.job).collect())),
            ("bytes", u64_column(&usage, |row| row.bytes)),
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

fn changes(now: Time, values: impl Iterator<Item = u64>, last: &mut [u64], rows: &mut Vec<Row>) {
    for (of, (value, last)) in values.zip(last).enumerate() {
        if value != *last {
            *last = value;
            rows.push(Row { time: now, of: of as u32, value });
        }
    }
}

// A control's timers are caught up with only when somebody looks. A copy looks here: the adaptive form of
// DCQCN reads how far its phase is when it does, so that looking more often would change the run.
fn rate_bps(engine: &Engine<'_>, id: u32) -> u64 {
    let flow = &engine.flows[id as usize];
    if flow.sender.is_done() {
        return 0;
    }
    let course = &engine.courses[id as usize];
    let policy = &engine.policies[usize::from(flow.policy)];
    let sent = flow.sender.sent().saturating_sub(course.phase.sent);
    let Steering { mut control, path } = engine.steering[id as usize].clone();
    let progress = Progress { sent, total: course.phase.total };
    control.catch_up(policy, &path, engine.now, progress);
    control.rate_bps()
}
